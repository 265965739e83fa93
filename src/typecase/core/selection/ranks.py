"""Ranks: where a score stands among all scores of its group, from 0 to 1, without sorting the corpus.

    scores of a group   1 1 1 2 5 5        rank = (how many are below + a place among the equals) / how many there are
                        .1 .2 .4 .6 .8 .9  the place among equals is a hash of the document

    pass 1   the range of 64-bit words is cut into bins     |3   |  1 |        2|     a bin keeps its least, its greatest word
    pass 2   bins that are heavy and hold more than one word are cut again            … until none is
    leaves   [first word, last word]  below  count          light neighbours are joined

A leaf of one word is exact; a wider one holds at most 1 part in `resolution` of its group, and inside it a rank runs
straight from its first word to its last. Counts add up in any order, so shards and workers cannot matter, and memory is
leaves, not documents. A rank never falls as the score rises.

Price: 40 ns a document and pass; one pass for scores of a few levels, two or three for continuous ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from typecase.core.selection.keys import derive_seed, hash_words, rank_of
from typecase.core.selection.selection import Pool

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

RESOLUTION = 4096
"""A leaf of several words holds at most this part of its group; less where there are very many groups."""

_CELLS = 1 << 21
_LEAVES = 1 << 21
_TOP = np.uint64((1 << 64) - 1)
_PLACE_SEED = np.uint64(derive_seed(0, "rank place"))


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of every group; leaves of group g are rows [offsets[g], offsets[g + 1]), in rising order.

    offsets       int64 (groups + 1,)
    first, last   uint64 (leaves,)   the least and the greatest word in a leaf; words rise with the score
    below, count  int64 (leaves,)    documents, or units of amount, below the leaf and in it
    total         int64 (groups,)
    """

    offsets: I64
    first: U64
    last: U64
    below: I64
    count: I64
    total: I64

    @classmethod
    def of(cls, pools: Iterable[Pool], num_strata: int, *, whole: bool = False, by_amount: bool = False) -> Ranks:
        """Ranks of the finite scores of `pools`, which are walked several times; in each stratum, or in the `whole`.

        by_amount: a document weighs its amount.
        """
        groups = 1 if whole else num_strata
        group = np.arange(groups, dtype=np.int64)
        leaves = _Leaves(group, np.zeros(groups, np.uint64), np.full(groups, _TOP), np.ones(groups, np.int64))
        heavy, total, fine = np.ones(groups, np.bool_), np.zeros(groups, np.int64), np.zeros(groups, np.int64)
        resolution = min(RESOLUTION, max(64, _LEAVES // max(1, groups)))
        first_pass = True
        while heavy.any():
            cells = _counted(pools, leaves, heavy, whole, by_amount, groups)
            if first_pass:
                total = cells.count.sum(1)
                fine, first_pass = np.maximum(1, total // resolution), False
            leaves = _refined(leaves, heavy, cells, fine)
            heavy = (leaves.count > fine[leaves.group]) & (leaves.last > leaves.first)
        offsets = np.searchsorted(leaves.group, np.arange(groups + 1)).astype(np.int64)
        below = np.cumsum(leaves.count) - leaves.count
        start = np.concatenate([below, [leaves.count.sum()]])[offsets[:-1]]
        return cls(offsets, leaves.first, leaves.last, below - start[leaves.group], leaves.count, total)

    @property
    def whole(self) -> bool:
        """Whether there is one group."""
        return len(self.total) == 1

    def of_rows(self, score: F64, group: NDArray[np.int32], hi: U64, lo: U64) -> F64:
        """Ranks, float64 (docs,), of scores in their groups (all 0 for the whole); NaN for a score that is not finite."""
        out = np.full(len(score), np.nan)
        _rank(score, group, hi, lo, self.offsets, self.first, self.last, self.below, self.count, self.total, _PLACE_SEED, out)
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its fields, to be written and given to `Ranks(**arrays)`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class _Leaves:
    """Sorted by group and word; all (leaves,)."""

    group: I64
    first: U64
    last: U64
    count: I64


@dataclass(frozen=True, slots=True)
class _Cells:
    """What the heavy leaves hold, by equal pieces of their range; all (heavy leaves, pieces)."""

    count: I64
    least: U64
    greatest: U64


def _counted(
    pools: Iterable[Pool], leaves: _Leaves, heavy: NDArray[np.bool_], whole: bool, by_amount: bool, groups: int
) -> _Cells:
    num = int(heavy.sum())
    bits = min(16, max(4, int(math.log2(_CELLS / num))))
    shape = (num, 1 << bits)
    cells = _Cells(np.zeros(shape, np.int64), np.full(shape, _TOP), np.zeros(shape, np.uint64))
    row = np.where(heavy, np.cumsum(heavy) - 1, -1).astype(np.int64)
    width = leaves.last[heavy] - leaves.first[heavy]
    shift = np.array([max(0, int(w).bit_length() - bits) for w in width], np.uint64)
    offsets = np.searchsorted(leaves.group, np.arange(groups + 1)).astype(np.int64)
    for pool in pools:
        _count(
            pool.score, pool.stratum, pool.amount, whole, by_amount, offsets, leaves.first, row, shift, cells.count,
            cells.least, cells.greatest,
        )  # fmt: skip
    return cells


def _refined(leaves: _Leaves, heavy: NDArray[np.bool_], cells: _Cells, fine: I64) -> _Leaves:
    """The heavy leaves cut into their cells, light neighbours joined."""
    parents = leaves.group[heavy]
    size = int((cells.least <= cells.greatest).sum())
    made = _Leaves(np.empty(size, np.int64), np.empty(size, np.uint64), np.empty(size, np.uint64), np.empty(size, np.int64))
    num = int(_join(cells.count, cells.least, cells.greatest, parents, fine, made.group, made.first, made.last, made.count))
    light = ~heavy
    names = ("group", "first", "last", "count")
    columns = [np.concatenate([getattr(leaves, name)[light], getattr(made, name)[:num]]) for name in names]
    order = np.lexsort((columns[1], columns[0]))
    return _Leaves(*(column[order] for column in columns))


@njit(cache=True, nogil=True, inline="always")
def _find(first: U64, start: int, stop: int, word: np.uint64) -> int:
    """The last leaf of [start, stop) that begins at or before `word`; start - 1 where none does."""
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        if first[middle] <= word:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(cache=True, nogil=True)
def _count(
    score: F64,
    stratum: NDArray[np.int32],
    amount: I64,
    whole: bool,
    by_amount: bool,
    offsets: I64,
    first: U64,
    row: I64,
    shift: U64,
    count: I64,
    least: U64,
    greatest: U64,
) -> None:
    for i in range(score.size):
        if not math.isfinite(score[i]):
            continue
        group = 0 if whole else stratum[i]
        word = ~rank_of(score[i])
        leaf = _find(first, offsets[group], offsets[group + 1], word)
        r = row[leaf]
        if r < 0:
            continue
        cell = np.int64((word - first[leaf]) >> shift[r])
        count[r, cell] += amount[i] if by_amount else 1
        least[r, cell] = min(least[r, cell], word)
        greatest[r, cell] = max(greatest[r, cell], word)


@njit(cache=True, nogil=True)
def _join(
    count: I64,
    least: U64,
    greatest: U64,
    parents: I64,
    fine: I64,
    group: I64,
    first: U64,
    last: U64,
    held: I64,
) -> int:
    """Cells as leaves; a cell joins the leaf before it where both together stay light. Returns the number of leaves."""
    n = 0
    for r in range(count.shape[0]):
        begun = n
        for c in range(count.shape[1]):
            if least[r, c] > greatest[r, c]:
                continue
            if n > begun and held[n - 1] + count[r, c] <= fine[parents[r]] and fine[parents[r]] > 1:
                last[n - 1] = greatest[r, c]
                held[n - 1] += count[r, c]
                continue
            group[n], first[n], last[n], held[n] = parents[r], least[r, c], greatest[r, c], count[r, c]
            n += 1
    return n


@njit(cache=True, nogil=True)
def _rank(
    score: F64,
    group: NDArray[np.int32],
    hi: U64,
    lo: U64,
    offsets: I64,
    first: U64,
    last: U64,
    below: I64,
    count: I64,
    total: I64,
    seed: np.uint64,
    out: F64,
) -> None:
    single = total.size == 1
    for i in range(score.size):
        if not math.isfinite(score[i]):
            continue
        g = 0 if single else group[i]
        word = ~rank_of(score[i])
        leaf = _find(first, offsets[g], offsets[g + 1], word)
        if leaf < offsets[g] or total[g] == 0:
            out[i] = 0.0
            continue
        place = (np.float64(hash_words(hi[i], lo[i], seed) >> np.uint64(11)) + 0.5) * 1.1102230246251565e-16
        width = np.float64(last[leaf] - first[leaf]) + 1.0
        inside = min(1.0, (np.float64(word - first[leaf]) + place) / width)
        out[i] = (np.float64(below[leaf]) + np.float64(count[leaf]) * inside) / np.float64(total[g])
