"""Storage: how numbers lie in a weights file, and how they become float32.

    name    values  bytes   value                                    (a block of so many values takes so many bytes)
    F64 F32 F16 BF16  1     as it is; BF16 is the upper half of a float32
    Q4_0      32     18     scale · (q - 8)            f16 scale, 16 bytes of nibbles: low ones first, then the high ones
    Q4_1      32     20     scale · q + min            f16 scale, f16 min, nibbles
    Q5_0      32     22     scale · (q - 16)           f16 scale, u32 of fifth bits (bit j for value j), nibbles
    Q5_1      32     24     scale · q + min            f16 scale, f16 min, u32, nibbles
    Q8_0      32     34     scale · q                  f16 scale, 32 signed bytes
    Q4_K     256    144     scale · s · q - min · m    f16 scale, f16 min, 12 bytes of 6-bit (s, m) for 8 groups, nibbles
    Q5_K     256    176     the same with fifth bits   … 32 bytes of fifth bits (bit g of byte l), nibbles
    Q6_K     256    210     scale · s · (q - 32)       low nibbles, upper bit pairs, 16 signed s, f16 scale

The layouts are those of the GGUF format (ggml, version 3 files).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("weights files are little-endian, and so must be the machine that maps them")


@dataclass(frozen=True, slots=True)
class Storage:
    """`decode` takes uint8 (blocks, block_bytes) and gives float32 (blocks, block_values)."""

    name: str
    block_values: int
    block_bytes: int
    decode: Callable[[U8], F32]

    def row_bytes(self, width: int) -> int:
        """Bytes of a row of `width` values. Raises ValueError when no whole blocks make one."""
        if width % self.block_values:
            raise ValueError(
                f"a row of {width} values is no multiple of the {self.block_values} that {self.name} packs together"
            )
        return width // self.block_values * self.block_bytes

    def rows(self, data: U8, width: int) -> F32:
        """The rows that lie in `data`, float32 (len(data) / row_bytes, width)."""
        return self.decode(data.reshape(-1, self.block_bytes)).reshape(-1, width)


def _plain(dtype: str) -> Callable[[U8], F32]:
    def decode(data: U8) -> F32:
        return np.ascontiguousarray(data).view(dtype).astype(np.float32)

    return decode


def _bf16(data: U8) -> F32:
    wide = np.ascontiguousarray(data).view("<u2").astype(np.uint32)
    np.left_shift(wide, 16, out=wide)
    return wide.view(np.float32)


def _half(data: U8, at: int) -> F32:
    """The float16 at byte `at` of each block, (blocks, 1)."""
    return np.ascontiguousarray(data[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(data: U8, at: int) -> U8:
    """32 four-bit numbers from 16 bytes on: low nibbles, then high ones."""
    packed = data[:, at : at + 16]
    return np.concatenate((packed & 15, packed >> 4), axis=1)


def _fifth(data: U8, at: int) -> U8:
    """Bit j of the 32-bit word at `at`, for value j, as 0 or 16."""
    return np.unpackbits(data[:, at : at + 4], axis=1, bitorder="little") << np.uint8(4)


def _q4_0(data: U8) -> F32:
    return _half(data, 0) * (_nibbles(data, 2).astype(np.float32) - 8)


def _q4_1(data: U8) -> F32:
    return _half(data, 0) * _nibbles(data, 4).astype(np.float32) + _half(data, 2)


def _q5_0(data: U8) -> F32:
    return _half(data, 0) * ((_nibbles(data, 6) | _fifth(data, 2)).astype(np.float32) - 16)


def _q5_1(data: U8) -> F32:
    return _half(data, 0) * (_nibbles(data, 8) | _fifth(data, 4)).astype(np.float32) + _half(data, 2)


def _q8_0(data: U8) -> F32:
    return _half(data, 0) * np.ascontiguousarray(data[:, 2:]).view(np.int8).astype(np.float32)


def _group_scales(data: U8) -> tuple[F32, F32]:
    """Scales and mins of the 8 groups of a K block, float32 (blocks, 8) each.

    Of the 12 bytes at 4, groups 0-3 take the low six bits of bytes 0-3 (scale) and 4-7 (min); groups 4-7 take a nibble each
    of bytes 8-11 and, above it, the upper two bits of bytes 0-3 and 4-7.
    """
    a, b, c = data[:, 4:8], data[:, 8:12], data[:, 12:16]
    scales = np.concatenate((a & 63, (c & 15) | ((a >> 6) << 4)), axis=1)
    mins = np.concatenate((b & 63, (c >> 4) | ((b >> 6) << 4)), axis=1)
    return _half(data, 0) * scales.astype(np.float32), _half(data, 2) * mins.astype(np.float32)


def _k_nibbles(data: U8, at: int) -> U8:
    """256 four-bit numbers as (blocks, 8, 32): of every 32 bytes the low nibbles make a group, the high ones the next."""
    packed = data[:, at : at + 128].reshape(-1, 4, 1, 32)
    return np.concatenate((packed & 15, packed >> 4), axis=2).reshape(-1, 8, 32)


def _scaled(data: U8, q: U8) -> F32:
    scales, mins = _group_scales(data)
    return (scales[:, :, None] * q.astype(np.float32) - mins[:, :, None]).reshape(len(data), 256)


def _q4_k(data: U8) -> F32:
    return _scaled(data, _k_nibbles(data, 16))


def _q5_k(data: U8) -> F32:
    group = np.arange(8, dtype=np.uint8)[None, :, None]
    fifth = ((data[:, 16:48].reshape(-1, 1, 32) >> group) & np.uint8(1)) << np.uint8(4)
    return _scaled(data, _k_nibbles(data, 48) | fifth)


def _q6_k(data: U8) -> F32:
    low = data[:, :128].reshape(-1, 2, 2, 32)
    high = data[:, 128:192].reshape(-1, 2, 1, 32)
    nibbles = np.concatenate((low & 15, low >> 4), axis=2)
    pairs = (high >> np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]) & 3
    q = (nibbles | (pairs << 4)).reshape(-1, 16, 16).astype(np.float32) - 32
    scales = np.ascontiguousarray(data[:, 192:208]).view(np.int8).astype(np.float32) * _half(data, 208)
    return np.asarray(scales[:, :, None] * q, np.float32).reshape(len(data), 256)


STORAGES: Mapping[str, Storage] = MappingProxyType(
    {
        s.name: s
        for s in (
            Storage("F64", 1, 8, _plain("<f8")),
            Storage("F32", 1, 4, _plain("<f4")),
            Storage("F16", 1, 2, _plain("<f2")),
            Storage("BF16", 1, 2, _bf16),
            Storage("Q4_0", 32, 18, _q4_0),
            Storage("Q4_1", 32, 20, _q4_1),
            Storage("Q5_0", 32, 22, _q5_0),
            Storage("Q5_1", 32, 24, _q5_1),
            Storage("Q8_0", 32, 34, _q8_0),
            Storage("Q4_K", 256, 144, _q4_k),
            Storage("Q5_K", 256, 176, _q5_k),
            Storage("Q6_K", 256, 210, _q6_k),
        )
    }
)
