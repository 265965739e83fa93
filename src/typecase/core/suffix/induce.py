"""Inducing: from the order of the anchors to the order of all suffixes, in two passes.

    buckets          [ a$ | a . . a | b . . b | ...   by first code; anchors in order at the ends of their buckets
    up, from left     ->  every suffix whose predecessor is L puts that predecessor at the head of its bucket
    down, from right  <-  every suffix whose predecessor is S puts it at the tail

Finished suffixes (an end code) have buckets of their own and are there from the start, in the order of positions. Both
passes keep equal suffixes in that order: up visits and places from the left, down from the right.

The highest bit of an entry says "my predecessor is L", so it is due in the pass up; the others are due in the pass down. It
is found when an entry is placed: the two codes that this needs are neighbours in the text, so a suffix costs one visit of
the text in all. A suffix without predecessor shows itself by the end code ahead of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.ahead import DISTANCE, prefetch
from typecase.core.suffix.codes import Codes
from typecase.core.suffix.crew import Unsigned


@njit(cache=True, nogil=True)
def _place_anchors(
    entries: Unsigned,
    source: int,
    starts: npt.NDArray[np.uint64],
    anchors_of: npt.NDArray[np.int64],
    due: np.unsignedinteger,
) -> None:
    """Moves the anchors from entries[source:] to the ends of their buckets, leftwards; all else becomes 0."""
    for code in range(len(anchors_of)):
        stop = np.int64(starts[code + 1])
        first = stop - anchors_of[code]
        entries[np.int64(starts[code]) : first] = 0
        for k in range(first, stop):
            entries[k] = entries[source] | due
            source += 1


@njit(cache=True, nogil=True)
def _place_lasts(
    entries: Unsigned, text: Unsigned, lasts: npt.NDArray[np.int64], heads: npt.NDArray[np.uint64], due: np.unsignedinteger
) -> None:
    """Puts the finished suffixes into the buckets of their codes."""
    for last in lasts:
        code, before = text[last + 1], text[last]
        entry = entries.dtype.type(last)
        entries[heads[code]] = entry | due if before > code else entry
        heads[code] += np.uint64(1)


@njit(cache=True, nogil=True)
def _pass_up(
    entries: Unsigned, text: Unsigned, is_end: npt.NDArray[np.uint8], heads: npt.NDArray[np.uint64], due: np.unsignedinteger
) -> None:
    one, last = entries.dtype.type(1), len(entries) - 1
    for i in range(len(entries)):
        prefetch(text, np.int64(entries[min(i + DISTANCE, last)] & ~due))
        entry = entries[i]
        if entry & due:
            position = entry ^ due  # text[position] is the code ahead of it
            code = text[position]
            if is_end[code]:
                continue
            position -= one
            place = heads[code]
            heads[code] = place + np.uint64(1)
            entries[place] = position | due if text[position] >= code else position


@njit(cache=True, nogil=True)
def _pass_down(
    entries: Unsigned, text: Unsigned, is_end: npt.NDArray[np.uint8], tails: npt.NDArray[np.uint64], due: np.unsignedinteger
) -> None:
    one = entries.dtype.type(1)
    for i in range(len(entries) - 1, -1, -1):
        prefetch(text, np.int64(entries[max(i - DISTANCE, 0)] & ~due))
        position = entries[i]
        if position & due:
            entries[i] = position ^ due
            continue
        code = text[position]
        if not is_end[code]:
            position -= one
            place = tails[code] - np.uint64(1)
            tails[code] = place
            entries[place] = position | due if text[position] > code else position


def induce(codes: Codes, entries: Unsigned, anchors_of: npt.NDArray[np.int64], lasts: npt.NDArray[np.int64]) -> None:
    """Turns `entries` (tokens,), whose last entries are the sorted anchors, into the suffix array.

    `anchors_of` (codes,) says how many anchors start with a code, `lasts` are the last positions of documents, rising.
    """
    due = entries.dtype.type(1 << (entries.dtype.itemsize * 8 - 1))
    starts = np.concatenate((np.zeros(1, np.uint64), np.cumsum(codes.counts, dtype=np.uint64)))
    _place_anchors(entries, len(entries) - int(anchors_of.sum()), starts, anchors_of, due)
    _place_lasts(entries, codes.text, lasts, starts[:-1].copy(), due)
    _pass_up(entries, codes.text, codes.is_end, starts[:-1].copy(), due)
    _pass_down(entries, codes.text, codes.is_end, starts[1:].copy(), due)
