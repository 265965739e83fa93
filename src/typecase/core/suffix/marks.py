"""Marks: a bit for every suffix that differs from the one before it within its first two tokens.

    ranks of "a"     a ·   a b …   a b …   a b …   a x …          · = end of the document
    marks            1     1       0       0       1

What follows a single token is then read off the marks, words of 64 ranks at a time, and the text is looked at once for each
distinct successor. Without them every change would be searched for in the text, at random places. 1/8 byte a token.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from typecase.core.suffix.ahead import DISTANCE, prefetch
from typecase.core.suffix.crew import share, spans
from typecase.core.suffix.tables import U64, any_end, marks_of, positions_of, text_of


def mark_changes(text: npt.NDArray[Any], positions: npt.NDArray[np.uint32], ends: U64, *, threads: int = 1) -> U64:
    """The marks of suffixes in order: words (ceil(n / 64),) of uint64, bit r of which is the suffix at rank r.

    `ends` are bits by position, see `tables.end_bits`. The first suffix is marked.
    """
    marks = np.zeros((len(positions) + 63) // 64, np.uint64)
    share(threads, lambda span: _mark(text, positions, ends, marks, *span), spans(len(marks), threads, 1 << 10))
    return marks


@njit(cache=True, nogil=True)
def _mark(text: Any, positions: Any, ends: Any, marks: Any, first_word: int, last_word: int) -> None:
    size = len(positions)
    first, second, ended = np.int64(0), np.int64(0), True
    if first_word > 0:
        first, second, ended = _opening(text, ends, positions[first_word * 64 - 1])
    for word in range(first_word, last_word):
        bits, base = np.uint64(0), word * 64
        for k in range(min(64, size - base)):
            rank = base + k
            prefetch(text, np.int64(positions[min(rank + 2 * DISTANCE, size - 1)]))
            own_first, own_second, own_ended = _opening(text, ends, positions[np.uint64(rank)])
            change = own_first != first or own_ended != ended or (not ended and own_second != second)
            bits |= np.uint64(change or rank == 0) << np.uint64(k)
            first, second, ended = own_first, own_second, own_ended
        marks[np.uint64(word)] = bits
    return


@njit(cache=True, nogil=True, inline="always")
def _opening(text: Any, ends: Any, position: Any) -> tuple[Any, Any, bool]:
    """The first two tokens of a suffix, and whether its document ends after the first: then the second says nothing."""
    at, one = np.uint64(position), np.uint64(1)
    ended = any_end(ends, at, at + one)
    return np.int64(text[at]), np.int64(text[at if ended else at + one]), ended


@njit(cache=True, nogil=True)
def followers(kind: Any, row: Any, low: int, high: int) -> tuple[Any, Any]:
    """Distinct second tokens of the suffixes [low, high), which share their first and have a second, and how often each."""
    text, positions, marks = text_of(kind, row), positions_of(row), marks_of(row)
    if high <= low:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first, last = low >> 6, (high - 1) >> 6
    num = 0
    for word in range(first, last + 1):
        num += ones(_clipped(marks, word, low + 1, high))
    ids, counts = np.empty(num + 1, np.int64), np.empty(num + 1, np.int64)
    begin, at = low, 0
    for word in range(first, last + 1):
        bits = _clipped(marks, word, low + 1, high)
        while bits != np.uint64(0):
            rank = word * 64 + lowest(bits)
            bits &= bits - np.uint64(1)
            ids[np.uint64(at)], counts[np.uint64(at)] = begin, rank - begin
            begin = rank
            at += 1
    ids[num], counts[num] = begin, high - begin
    for k in range(num + 1):
        ids[np.uint64(k)] = positions[np.uint64(ids[np.uint64(k)])]
    for k in range(num + 1):
        ids[np.uint64(k)] = text[np.uint64(ids[np.uint64(k)]) + np.uint64(1)]
    return ids, counts


@njit(cache=True, nogil=True, inline="always")
def _clipped(marks: Any, word: int, low: int, high: int) -> Any:
    """The bits of a word that belong to the ranks [low, high)."""
    bits = marks[np.uint64(word)]
    below, above = low - word * 64, word * 64 + 64 - high
    if below > 0:
        bits = bits >> np.uint64(below) << np.uint64(below) if below < 64 else np.uint64(0)
    if above > 0:
        bits = bits << np.uint64(above) >> np.uint64(above) if above < 64 else np.uint64(0)
    return bits


def _count_ones(typingctx: Any, word: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _lowest_one(typingctx: Any, word: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


ones: Any = intrinsic(_count_ones)
"""How many bits of a uint64 are set, within a compiled function."""
lowest: Any = intrinsic(_lowest_one)
"""The place of the lowest bit that is set, 64 where none is, within a compiled function."""
