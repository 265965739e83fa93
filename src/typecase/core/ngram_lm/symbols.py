"""Symbols: what an n-gram model reads, cut from UTF-8 so that every byte belongs to exactly one.

    words   "The cat sat.\\n\\n第3"   ->   The | ␣cat | ␣sat | . | \\n\\n | 第 | 3
    bytes   every byte

A word is a run of letters with the blank before it; a digit, a punctuation mark and a character of a script without blanks
stand alone; other white space is a run. Case counts. A symbol is known by a 64-bit hash: among 10^8 of them two are alike
with a chance of 3 in 10^4. A word that was never seen is spelled, byte after byte, by the pairs of bytes in all words
(`Spelling`), so that it has a chance too, and a text of unknown words is measured in the same unit.

Price: 6 ns a byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.selection.keys import mix
from typecase.core.utf8 import code_at
from typecase.core.words import classes

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

Unit = Literal["words", "bytes"]
START: np.uint64 = np.uint64(0x243F6A8885A308D3)
"""The symbol that stands before every text."""

_EDGE = 256
_LONGEST = 48
_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_LETTER, _MARK = 1, 5


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """Texts as symbols, end to end: text i is keys[ends[i - 1]:ends[i]].

    keys     uint64 (symbols,)
    starts   int64 (symbols + 1,)   byte of the batch at which each symbol begins
    ends     int64 (texts,)
    """

    keys: U64
    starts: I64
    ends: I64


@dataclass(frozen=True, slots=True, eq=False)
class Spelling:
    """How words are spelled: counts of byte pairs, int64 (257, 257); row and column 256 are the edges of a word."""

    pairs: I64

    @staticmethod
    def empty() -> Spelling:
        """Of no word."""
        return Spelling(np.zeros((257, 257), np.int64))

    def __add__(self, other: Spelling) -> Spelling:
        return Spelling(self.pairs + other.pairs)

    def log_chances(self) -> F32:
        """ln of the chance of a byte (column) behind another (row), float32 (257, 257); half a count is added to each."""
        counts = self.pairs + 0.5
        chances: F32 = np.log(counts / counts.sum(axis=1, keepdims=True)).astype(np.float32)
        return chances


def cut(values: U8, offsets: I64, unit: Unit) -> Symbols:
    """The symbols of the texts values[offsets[i]:offsets[i + 1]], valid UTF-8."""
    first, last = int(offsets[0]), int(offsets[-1])
    if unit == "bytes":
        starts = np.arange(first, last + 1, dtype=np.int64)
        return Symbols(_BYTE_KEYS[values[first:last]], starts, (offsets[1:] - first).astype(np.int64))
    keys, starts = np.empty(last - first, np.uint64), np.empty(last - first + 1, np.int64)
    ends = np.empty(len(offsets) - 1, np.int64)
    num = int(_cut_words(values, offsets, classes(), keys, starts, ends))
    starts[num] = last
    return Symbols(keys[:num], starts[: num + 1], ends)


def spell(values: U8, symbols: Symbols, chosen: npt.NDArray[np.bool_] | None = None) -> Spelling:
    """Byte pairs of the symbols of a batch, of the texts where `chosen`, bool (texts,), holds."""
    pairs = np.zeros((257, 257), np.int64)
    chosen = np.ones(len(symbols.ends), np.bool_) if chosen is None else chosen
    _count_pairs(values, symbols.starts, symbols.ends, chosen, pairs)
    return Spelling(pairs)


@njit(cache=True, nogil=True)
def _mixed(key: np.uint64) -> np.uint64:
    return mix(key)


_BYTE_KEYS = np.array([int(_mixed(np.uint64(byte + 1))) for byte in range(256)], np.uint64)


@njit(cache=True, nogil=True)
def _class_at(values: Any, i: int, stop: int, table: Any) -> tuple[Any, Any]:
    """Class and bytes of the character at i."""
    lead = values[np.uint64(i)]
    if lead < 128:
        return np.int64(table[np.uint64(lead)]), 1
    code, size = code_at(values, i, stop)
    return np.int64(table[np.uint64(code)]) if code < 0x40000 else np.int64(0), size


@njit(cache=True, nogil=True)
def _is_blank(byte: int) -> bool:
    return byte == 32 or (byte >= 9 and byte <= 13)


@njit(cache=True, nogil=True)
def _is_latin(byte: int) -> bool:
    return (byte >= 97 and byte <= 122) or (byte >= 65 and byte <= 90)


@njit(cache=True, nogil=True)
def _end_of_symbol(values: Any, i: int, stop: int, table: Any) -> Any:
    """Where the symbol that begins at i ends."""
    at = i
    if _is_blank(values[np.uint64(at)]):
        while at < stop and _is_blank(values[np.uint64(at)]):
            at += 1
        blank_before_text = at < stop and values[np.uint64(at - 1)] == 32
        if not blank_before_text:
            return at
        if at - 1 > i:
            return at - 1
    first, lead = at, values[np.uint64(at)]
    if lead < 128:
        at += 1
        if not _is_latin(lead):
            return at
    else:
        kind, size = _class_at(values, at, stop, table)
        at += size
        if kind != _LETTER:
            return at
    while at < stop and at - first < _LONGEST:
        byte = values[np.uint64(at)]
        if _is_latin(byte):
            at += 1
            continue
        if byte < 128:
            break
        kind, size = _class_at(values, at, stop, table)
        if kind != _LETTER and kind != _MARK:
            break
        at += size
    return at


@njit(cache=True, nogil=True)
def _cut_words(values: Any, offsets: Any, table: Any, keys: Any, starts: Any, ends: Any) -> Any:
    num = 0
    for text in range(len(offsets) - 1):
        i, stop = offsets[text], offsets[text + 1]
        while i < stop:
            end = _end_of_symbol(values, i, stop, table)
            key = _BASIS
            for j in range(i, end):
                key = (key ^ np.uint64(values[np.uint64(j)])) * _PRIME
            keys[num], starts[num] = mix(key), i
            num += 1
            i = end
        ends[text] = num
    return num


@njit(cache=True, nogil=True)
def _count_pairs(values: Any, starts: Any, ends: Any, chosen: Any, pairs: Any) -> None:
    text = 0
    for symbol in range(len(starts) - 1):
        while symbol >= ends[text]:
            text += 1
        if not chosen[text]:
            continue
        before: Any = _EDGE
        for j in range(starts[symbol], starts[symbol + 1]):
            byte = np.int64(values[np.uint64(j)])
            pairs[before, byte] += 1
            before = byte
        pairs[before, _EDGE] += 1


@njit(cache=True, nogil=True)
def spelled(values: Any, start: int, stop: int, log_chances: Any) -> float:
    """ln of the chance that a word is spelled like the bytes [start, stop)."""
    before: Any = _EDGE
    total: Any = 0.0
    for j in range(start, stop):
        byte = np.int64(values[np.uint64(j)])
        total += log_chances[before, byte]
        before = byte
    return float(total + log_chances[before, _EDGE])
