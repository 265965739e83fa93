"""Lines of a text, and of a whole column of texts: where they are and what they look like when folded.

A line ends at LF, CRLF or CR and keeps its terminator; n terminators make n + 1 lines, so an empty text has one empty
line, and line ids are those of `text.split("\\n")` wherever LF is the only terminator.

    text      "ab\\r\\ncd\\n"       starts  0  4  7      content of line i is text[starts[i]:stops[i]]
                                stops   2  6  7

For counting in how many documents a line occurs, a line is folded: blanks at its ends go, runs of blanks become one,
runs of ASCII digits become one 0, ASCII letters become small. "Page 3 of  12" and "page 7 of 9" are the same line. The
fold is never materialised; only its 64-bit hash is.

Price: spans about 1 ns a byte, hashes about 2 ns a byte, both without a Python object per line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, count
from operator import add
from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_TERMINATOR: Final = re.compile(r"\r\n?|\n")


def line_table(text: str) -> tuple[list[int], list[int]]:
    """Starts and content stops of the lines of `text`, in characters; both have one entry a line."""
    if "\r" not in text:
        if text.isascii():
            stops: list[int] = _ascii_stops(np.frombuffer(text.encode(), np.uint8)).tolist()
        else:
            # Stop i is the length of lines 0 to i and i terminators.
            stops = list(map(add, accumulate(map(len, text.split("\n"))), count()))
        starts = [stop + 1 for stop in stops]
        starts.insert(0, 0)
        starts.pop()
        return starts, stops
    terminators = list(_TERMINATOR.finditer(text))
    return [0, *(m.end() for m in terminators)], [*(m.start() for m in terminators), len(text)]


def line_spans(values: U8, offsets: I64) -> tuple[I64, I64, I64]:
    """Lines of every string `values[offsets[i]:offsets[i + 1]]` of UTF-8.

    Returns (first, starts, stops): the lines of string i are [first[i], first[i + 1]), int64 (strings + 1,); content of
    line j is values[starts[j]:stops[j]], int64 (lines,).
    """
    first = np.zeros(len(offsets), np.int64)
    _count_lines(values, offsets, first)
    starts = np.empty(first[-1], np.int64)
    stops = np.empty(first[-1], np.int64)
    _fill_lines(values, offsets, first, starts, stops)
    return first, starts, stops


def line_hashes(values: U8, starts: I64, stops: I64, *, min_bytes: int, max_bytes: int) -> U64:
    """Hash of each folded line, uint64 (lines,); 0 where the fold has no letter or is not min_bytes to max_bytes long."""
    out = np.zeros(len(starts), np.uint64)
    _hash_lines(values, starts, stops, min_bytes, max_bytes, out)
    return out


def document_counts(hashes: U64, first: I64) -> tuple[U64, U32]:
    """In how many documents each hash but 0 occurs: sorted hashes and counts; document i has lines [first[i], first[i + 1])."""
    kept = np.empty(len(hashes), np.uint64)
    num = _distinct_each(hashes, first, kept)
    keys, counts = np.unique(kept[:num], return_counts=True)
    return keys, counts.astype(np.uint32)


def merge_counts(parts: Sequence[tuple[U64, U32]]) -> tuple[U64, U32]:
    """Sum of several (sorted hashes, counts); associative, so any grouping gives the same arrays."""
    if not parts:
        return np.zeros(0, np.uint64), np.zeros(0, np.uint32)
    keys = np.concatenate([k for k, _ in parts])
    counts = np.concatenate([c for _, c in parts])
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    if not len(keys):
        return keys, counts
    heads = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[heads], np.add.reduceat(counts, heads, dtype=np.uint32)


def contains(sorted_hashes: U64, hashes: U64) -> npt.NDArray[np.bool_]:
    """Which of `hashes` are among `sorted_hashes`, bool (lines,)."""
    if not len(sorted_hashes):
        return np.zeros(len(hashes), np.bool_)
    at = np.searchsorted(sorted_hashes, hashes)
    return np.asarray(sorted_hashes[np.minimum(at, len(sorted_hashes) - 1)] == hashes)


@njit(cache=True, nogil=True)
def _ascii_stops(values):  # type: ignore[no-untyped-def]
    num = 0
    for b in values:
        num += b == 10
    stops = np.empty(num + 1, np.int64)
    line = 0
    for j in range(len(values)):
        if values[j] == 10:
            stops[line] = j
            line += 1
    stops[line] = len(values)
    return stops


@njit(cache=True, nogil=True)
def _count_lines(values, offsets, first):  # type: ignore[no-untyped-def]
    for i in range(len(offsets) - 1):
        num = 1
        stop = offsets[i + 1]
        for j in range(offsets[i], stop):
            b = values[j]
            if b == 10 or (b == 13 and not (j + 1 < stop and values[j + 1] == 10)):
                num += 1
        first[i + 1] = first[i] + num


@njit(cache=True, nogil=True)
def _fill_lines(values, offsets, first, starts, stops):  # type: ignore[no-untyped-def]
    for i in range(len(offsets) - 1):
        line = first[i]
        start, stop = offsets[i], offsets[i + 1]
        starts[line] = start
        for j in range(start, stop):
            b = values[j]
            if b == 10:
                stops[line] = j - 1 if j > start and values[j - 1] == 13 else j
                line += 1
                starts[line] = j + 1
            elif b == 13 and not (j + 1 < stop and values[j + 1] == 10):
                stops[line] = j
                line += 1
                starts[line] = j + 1
        stops[line] = stop


@njit(cache=True, nogil=True)
def _hash_lines(values, starts, stops, min_bytes, max_bytes, out):  # type: ignore[no-untyped-def]
    prime = np.uint64(0x100000001B3)
    for line in range(len(starts)):
        h = np.uint64(0xCBF29CE484222325)
        num = 0
        letters = False
        blank = False  # a run of blanks waits for the next character
        digit = False  # the last character folded was a digit
        for j in range(starts[line], stops[line]):
            b = values[j]
            if b == 32 or b == 9:
                blank = num > 0
                continue
            is_digit = 48 <= b <= 57
            if is_digit and digit and not blank:
                continue
            if blank:
                h = (h ^ np.uint64(32)) * prime
                num += 1
                blank = False
            digit = is_digit
            if is_digit:
                b = np.uint8(48)
            elif 65 <= b <= 90:
                b = np.uint8(b + 32)
            letters = letters or 97 <= b <= 122 or b >= 128
            h = (h ^ np.uint64(b)) * prime
            num += 1
            if num > max_bytes:
                break
        if letters and min_bytes <= num <= max_bytes:
            # FNV's high bits are weak and the merge cuts by them: one round of mixing.
            h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
            h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
            h = h ^ (h >> np.uint64(33))
            out[line] = h if h != 0 else np.uint64(1)


@njit(cache=True, nogil=True)
def _distinct_each(hashes, first, kept):  # type: ignore[no-untyped-def]
    num = 0
    for i in range(len(first) - 1):
        lines = np.sort(hashes[first[i] : first[i + 1]])
        last = np.uint64(0)
        for h in lines:
            if h != last:
                kept[num] = h
                num += 1
                last = h
    return num
