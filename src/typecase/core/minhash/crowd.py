"""Crowds: shingles that many documents share, and what is a document's own beside them.

    document    [licence licence licence licence] [its own page of text] [footer]
    frequent     1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1   0 0 0 0 0 0 0 0 0 0 0   1 1 1
    own                                            x x x x x x x x x x x          a run of OWN_RUN or more

A shingle is frequent when `crowd` or more of the documents that are looked at hold it. A run of OWN_RUN shingles or more
without a frequent one is the document's own; shorter runs are what a few changed words leave, and those do not make a
text another one. Documents without a frequent shingle are in no crowd: all of them is their own, and nothing is kept.

Two documents of one crowd can also differ in text that is frequent itself: each a licence with another standard page under
it. So, between two, a run counts as a document's own against the other when it has no shingle that is frequent and shared by
both; `own_against` finds those.

Frequencies are counted in a table of hashed cells twice over, the smaller count is taken (Cormode, Muthukrishnan 2005:
count-min): never too low, the same for any order of documents. Memory: at most 256 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.minhash.words import I64, U64

OWN_RUN = 16
_MOST_CELLS = 1 << 26
_LEAST_CELLS = 1 << 12
_FULL = np.uint16(0xFFFF)
_SHIFT = np.uint64(32)

U16 = npt.NDArray[np.uint16]


def sort_sets(shingles: U64, offsets: I64, out: U64) -> I64:
    """Writes the distinct shingles of each document, rising, end to end into `out`; returns their offsets (documents + 1,)."""
    ends = np.zeros(len(offsets), np.int64)
    _sort_sets(shingles, offsets, out, ends)
    return ends


def count_shingles(sets: U64, ends: I64) -> U16:
    """The table of frequencies, uint16 (2, cells), of the distinct shingles of all documents."""
    cells = _LEAST_CELLS
    while cells < _MOST_CELLS and cells < 2 * int(ends[-1]):
        cells *= 2
    table = np.zeros((2, cells), np.uint16)
    _count(sets, int(ends[-1]), table)
    return table


def own_sets(
    shingles: U64, offsets: I64, table: U16, crowd: int, frequent: npt.NDArray[np.uint8], out: U64
) -> tuple[I64, npt.NDArray[np.bool_]]:
    """Marks in `frequent`, uint8 (shingles,), those that are; writes the distinct ones that are a document's own, rising, into
    `out`.

    Returns their offsets (documents + 1,), and which documents are in a crowd, bool (documents,); others have none there.
    """
    ends, crowded = np.zeros(len(offsets), np.int64), np.zeros(len(offsets) - 1, np.bool_)
    _own_sets(shingles, offsets, table, crowd, frequent, out, ends, crowded)
    return ends, crowded


@njit(cache=True, nogil=True)
def _distinct(one: Any, num: int, out: Any, at: int) -> int:
    """Sorts one[:num] and writes its distinct values to out[at:]; returns where they end."""
    one[:num].sort()
    for k in range(num):
        if k == 0 or one[k] != one[k - 1]:
            out[at] = one[k]
            at += 1
    return at


@njit(cache=True, nogil=True)
def own_against(shingles: Any, frequent: Any, other: Any) -> Any:
    """The distinct shingles, rising, of a document that are its own against the one with the set `other`, rising."""
    own, out = np.empty(len(shingles), np.uint64), np.empty(len(shingles), np.uint64)
    num, run = 0, 0
    for k in range(len(shingles)):
        shingle = shingles[k]
        shared = False
        if frequent[k]:
            at = np.searchsorted(other, shingle)
            shared = at < len(other) and other[at] == shingle
        if shared:
            num -= run if run < OWN_RUN else 0
            run = 0
        else:
            own[num] = shingle
            num += 1
            run += 1
    num -= run if run < OWN_RUN else 0
    return out[: _distinct(own, num, out, 0)]


@njit(cache=True, nogil=True)
def _sort_sets(shingles: Any, offsets: Any, out: Any, ends: Any) -> None:
    for doc in range(len(offsets) - 1):
        one = shingles[offsets[doc] : offsets[doc + 1]].copy()
        ends[doc + 1] = _distinct(one, len(one), out, ends[doc])


@njit(cache=True, nogil=True)
def _count(sets: Any, num: int, table: Any) -> None:
    mask = np.uint64(table.shape[1] - 1)
    for k in range(num):
        first, second = sets[k] & mask, (sets[k] >> _SHIFT) & mask
        if table[0, first] != _FULL:
            table[0, first] += np.uint16(1)
        if table[1, second] != _FULL:
            table[1, second] += np.uint16(1)


@njit(cache=True, nogil=True)
def _own_sets(shingles: Any, offsets: Any, table: Any, crowd: int, frequent: Any, out: Any, ends: Any, crowded: Any) -> None:
    mask = np.uint64(table.shape[1] - 1)
    for doc in range(len(crowded)):
        start, stop = offsets[doc], offsets[doc + 1]
        own = np.empty(stop - start, np.uint64)
        num, run = 0, 0
        for k in range(start, stop):
            shingle = shingles[k]
            if table[0, shingle & mask] >= crowd and table[1, (shingle >> _SHIFT) & mask] >= crowd:
                frequent[k] = 1
                crowded[doc] = True
                num -= run if run < OWN_RUN else 0
                run = 0
            else:
                frequent[k] = 0
                own[num] = shingle
                num += 1
                run += 1
        num -= run if run < OWN_RUN else 0
        ends[doc + 1] = _distinct(own, num, out, ends[doc]) if crowded[doc] else ends[doc]
