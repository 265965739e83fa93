"""Protocol buffers, as far as a SentencePiece model needs them: the wire format, without a schema.

key = field number << 3 | type      0 varint   1 eight bytes   2 length, then as many bytes   5 four bytes
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

Value = int | bytes


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """(field number, value) of a message in order; fixed-width values as their bytes. Raises ValueError where it breaks off."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value: Value
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        if kind == 2:
            size, place = _varint(data, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {place}")
        if place + size > len(data):
            raise ValueError(f"a field of {size} bytes at byte {place} of {len(data)}")
        yield key >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise ValueError(f"a number breaks off at byte {place}")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def as_bytes(value: Value) -> bytes:
    """The bytes of a field that holds some. Raises ValueError when it is a number."""
    if isinstance(value, int):
        raise ValueError(f"a number {value} where bytes are expected")
    return value


def as_int(value: Value) -> int:
    """The number of a field that holds one. Raises ValueError when it is bytes."""
    if not isinstance(value, int):
        raise ValueError(f"{len(value)} bytes where a number is expected")
    return value


def as_float(value: Value) -> float:
    """The single-precision number of a field. Raises ValueError when it is none."""
    number: float = struct.unpack("<f", as_bytes(value))[0] if len(as_bytes(value)) == 4 else _no_float(value)
    return number


def _no_float(value: Value) -> float:
    raise ValueError(f"{len(as_bytes(value))} bytes where a float is expected")
