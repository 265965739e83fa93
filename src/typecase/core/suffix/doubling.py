"""Doubling: repeats told apart by the ranks of anchors further on.

    anchors in order   [ 12  7  31 ] [ 3 ]           a group starts where its flag is 1; its start is the rank of all of it
    rank one further     5   2   5                   known: sorting by it tells anchor pairs apart
    after round 1      [ 7 ] [ 12  31 ]              12 and 31 share two stretches from anchor to anchor
    rank two further         ...                     each round doubles what a group shares: 1, 2, 4, …

`order` and `ranks` count anchors by number, not by position, so "h anchors further" is an addition. A group that shares h
stretches cannot hold the last anchor of a document among them (that one is alone in its group), so the addition stays
within the document. A round reads old ranks only and then writes the new ones, and only where a new group starts: the
result does not depend on who was first.

A group most of whose members have another member p <= h anchors on lies in runs of period p. It needs no further round: the
ends of the runs are sorted, and "p before" carries their order through the runs.

Price: rounds grow with the logarithm of the longest repeat; only open groups are sorted, and where most of the text stays
open for long, `reduce` takes over. In a long group of a periodic text
nearly all anchors see the same rank: they are set aside in one pass, and only the others are sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.ahead import DISTANCE, prefetch
from typecase.core.suffix.crew import Scratch, Unsigned, share, spans
from typecase.core.suffix.radix import MAX_DIGITS, sort_pairs

ROUNDS, OPEN = 2, 2
"""From this round on, a text of whose anchors more than 1 / OPEN still repeat is reduced instead; see `reduce`."""

_CHUNK = 1 << 15
_LONG = 256
"""Groups above this size set the anchors aside that have the same rank."""


@njit(cache=True, nogil=True)
def _note(numbers: Unsigned, anchors: Unsigned, begin: int, end: int) -> None:
    for k in range(begin, end):
        numbers[anchors[k] >> 1] = k


@njit(cache=True, nogil=True)
def _look_up(numbers: Unsigned, order: Unsigned) -> None:
    for k in range(len(order)):
        order[k] = numbers[order[k] >> 1]


@njit(cache=True, nogil=True)
def _rank(order: Unsigned, flags: npt.NDArray[np.uint8], ranks: Unsigned, begin: int, end: int) -> int:
    """Writes the ranks of the groups in [begin, end); how many anchors are not the first of their group."""
    start, left = begin, 0
    for k in range(begin, end):
        if flags[k]:
            start = k
        else:
            left += 1
        ranks[order[k]] = start
    return left


@njit(cache=True, nogil=True)
def _next_start(flags: npt.NDArray[np.uint8], index: int, end: int) -> int:
    while index < end and not flags[index]:
        index += 1
    return index


@njit(cache=True, nogil=True)
def _likely(own: Unsigned, ranks: Unsigned, lo: int, hi: int, further: int) -> Any:
    """A rank that many anchors of a long group seem to share; -1 if no two of a sample of four do."""
    step = (hi - lo) // 4
    for a in range(lo, lo + 3 * step, step):
        rank = ranks[np.int64(own[a]) + further]
        for b in range(a + step, lo + 4 * step, step):
            if ranks[np.int64(own[b]) + further] == rank:
                return np.int64(rank)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _set_aside(
    own: Unsigned,
    ranks: Unsigned,
    lo: int,
    hi: int,
    further: int,
    pivot: int,
    keys: Unsigned,
    spare_keys: Unsigned,
    spare: Unsigned,
) -> tuple[int, int]:
    """Moves ranks below `pivot` to the front and those above to the back, stable; where the equal ones begin and end.

    `keys` holds the ranks of the two outer parts afterwards; those of the equal ones are not written.
    """
    equal, below, above = lo, lo, hi
    for i in range(lo, hi):
        prefetch(ranks, np.int64(own[min(i + DISTANCE, hi - 1)]) + further)
        element = own[i]
        rank = ranks[np.int64(element) + further]
        # Written to all three free places, kept in one: which it is cannot be predicted, and a wrong guess costs more.
        own[equal] = element
        spare_keys[below], spare[below] = rank, element
        spare_keys[above - 1], spare[above - 1] = rank, element
        equal += rank == pivot
        below += rank < pivot
        above -= rank > pivot
    if below > lo:
        for i in range(equal - 1, lo - 1, -1):
            own[i + below - lo] = own[i]
        keys[lo:below] = spare_keys[lo:below]
        own[lo:below] = spare[lo:below]
    for i in range(hi - above):  # written from the back
        keys[above + i], own[above + i] = spare_keys[hi - 1 - i], spare[hi - 1 - i]
    return below, above


@njit(cache=True, nogil=True)
def _sort_and_mark(
    keys: Unsigned,
    own: Unsigned,
    spare_keys: Unsigned,
    spare: Unsigned,
    lo: int,
    hi: int,
    stack: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    marks: npt.NDArray[np.uint8],
) -> None:
    """Sorts [lo, hi); a new group wherever the key changes within it."""
    sort_pairs(keys, own, spare_keys, spare, lo, hi, stack, counts)
    for i in range(lo + 1, hi):
        if keys[i] != keys[i - 1]:
            marks[i] = 2


@njit(cache=True, nogil=True)
def _chain_up(own: Unsigned, marks: npt.NDArray[np.uint8], ranks: Unsigned, rank: int, period: int, lo: int, write: int) -> int:
    """Behind the sorted [lo, write): the members `period` before them, in their order and groups, and so on; where it ends."""
    read, fresh = lo, False
    while read < write:
        fresh |= marks[read] != 0
        before = np.int64(own[read]) - period
        if before >= 0 and ranks[before] == rank:
            own[write], marks[write] = before, 2 if fresh else 0
            fresh = False
            write += 1
        read += 1
    return write


@njit(cache=True, nogil=True)
def _chain_down(
    own: Unsigned, marks: npt.NDArray[np.uint8], ranks: Unsigned, rank: int, period: int, write: int, hi: int
) -> None:
    """The same ahead of the sorted [write, hi), from right to left."""
    read, written = hi - 1, False
    while read >= write:
        before = np.int64(own[read]) - period
        if before >= 0 and ranks[before] == rank:
            write -= 1
            own[write], marks[write] = before, 0
            written = True
        if marks[read]:  # the front of a group: what was written last is the front of its image
            if written:
                marks[write] = 2
            written = False
        read -= 1


@njit(cache=True, nogil=True)
def _refine_periodic(
    own: Unsigned,
    marks: npt.NDArray[np.uint8],
    ranks: Unsigned,
    rank: int,
    lo: int,
    hi: int,
    further: int,
    period: int,
    keys: Unsigned,
    spare_keys: Unsigned,
    spare: Unsigned,
    stack: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> None:
    """Sorts a group of which most members have another member `period` anchors on; `period` is at most `further`.

    Members that have none are the ends of chains: they are sorted as ever, and the chains follow their order.
    """
    below, above = _set_aside(own, ranks, lo, hi, period, rank, keys, spare_keys, spare)
    for i in range(lo, below):
        keys[i] = ranks[np.int64(own[i]) + further]
    for i in range(above, hi):
        keys[i] = ranks[np.int64(own[i]) + further]
    _sort_and_mark(keys, own, spare_keys, spare, lo, below, stack, counts, marks)
    _sort_and_mark(keys, own, spare_keys, spare, above, hi, stack, counts, marks)
    if above < hi:
        marks[above] = 2
    middle = _chain_up(own, marks, ranks, rank, period, lo, below)
    if middle < hi:
        _chain_down(own, marks, ranks, rank, period, above, hi)
    marks[lo] = 1


@njit(cache=True, nogil=True)
def _refine(
    order: Unsigned,
    flags: npt.NDArray[np.uint8],
    ranks: Unsigned,
    begin: int,
    end: int,
    further: int,
    keys: Unsigned,
    spare_keys: Unsigned,
    spare: Unsigned,
    stack: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> None:
    """Sorts the groups of [begin, end) by the rank `further` anchors on; new groups get flag 2."""
    own, marks, size = order[begin:end], flags[begin:end], end - begin
    lo = 0
    while lo < size:  # all short groups are read before any is sorted: the reads do not wait for each other
        hi = _next_start(marks, lo + 1, size)
        if 1 < hi - lo <= _LONG:
            for i in range(lo, hi):
                prefetch(ranks, np.int64(own[min(i + DISTANCE, size - 1)]) + further)
                keys[i] = ranks[np.int64(own[i]) + further]
        lo = hi
    lo = 0
    while lo < size:
        hi = _next_start(marks, lo + 1, size)
        if hi - lo > _LONG:
            middle = (lo + hi) // 2
            period = int(np.int64(own[middle]) - np.int64(own[middle - 1]))
            if 0 < period <= further:
                _refine_periodic(
                    own, marks, ranks, begin + lo, lo, hi, further, period, keys, spare_keys, spare, stack, counts
                )  # fmt: skip
                lo = hi
                continue
            pivot = _likely(own, ranks, lo, hi, further)
            if pivot >= 0:
                below, above = _set_aside(own, ranks, lo, hi, further, pivot, keys, spare_keys, spare)
                _sort_and_mark(keys, own, spare_keys, spare, lo, below, stack, counts, marks)
                _sort_and_mark(keys, own, spare_keys, spare, above, hi, stack, counts, marks)
                marks[below] = 2 if below > lo else marks[lo]
                if above < hi:
                    marks[above] = 2
                lo = hi
                continue
            for i in range(lo, hi):
                prefetch(ranks, np.int64(own[min(i + DISTANCE, size - 1)]) + further)
                keys[i] = ranks[np.int64(own[i]) + further]
        if hi - lo > 1:
            _sort_and_mark(keys, own, spare_keys, spare, lo, hi, stack, counts, marks)
        lo = hi


@njit(cache=True, nogil=True)
def _rank_again(order: Unsigned, flags: npt.NDArray[np.uint8], ranks: Unsigned, begin: int, end: int) -> int:
    """Ranks of the groups with flag 2, which becomes 1; how many anchors are not the first of their group."""
    start, left = -1, 0
    for k in range(begin, end):
        if flags[k] == 0:
            left += 1
        elif flags[k] == 2:
            flags[k] = 1
            start = k
        else:
            start = -1
        if start >= 0:
            ranks[order[k]] = start
    return left


def _cut(flags: npt.NDArray[np.uint8], chunks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The chunks, cut where groups start into pieces of about _CHUNK; the longest first."""
    cuts = []
    for begin, end in chunks:
        while begin < end:
            stop = end if end - begin < 2 * _CHUNK else _next_start(flags, begin + _CHUNK, end)
            cuts.append((begin, stop))
            begin = stop
    return sorted(cuts, key=lambda chunk: chunk[0] - chunk[1])


def double(anchors: Unsigned, order: Unsigned, flags: npt.NDArray[np.uint8], work: Unsigned, threads: int) -> bool:
    """Sorts `order` (anchors,) to the end, given its groups as flags; overwrites `flags` and `work`, (tokens + 1) // 2 long.

    False when it stopped because too much repeats: `order` then holds numbers of anchors, not positions, by group.
    """
    if flags.all():
        return True
    parts = spans(len(anchors), threads)
    share(threads, lambda s: _note(work, anchors, *s), parts)
    share(threads, lambda s: _look_up(work, order[slice(*s)]), parts)
    ranks = work[: len(anchors)]
    chunks = _cut(flags, [(0, len(anchors))])
    left = share(threads, lambda c: _rank(order, flags, ranks, *c), chunks)
    further = 1
    scratch = Scratch()

    def refine(chunk: tuple[int, int]) -> None:
        size, dtype = chunk[1] - chunk[0], order.dtype
        _refine(
            order, flags, ranks, *chunk, further,
            scratch.take("keys", size, dtype), scratch.take("spare keys", size, dtype), scratch.take("spare", size, dtype),
            scratch.take("stack", size // 8 + 4, np.int64), scratch.take("counts", MAX_DIGITS, np.int64),
        )  # fmt: skip

    while True:
        chunks = _cut(flags, [chunk for chunk, open_ in zip(chunks, left) if open_])
        if not chunks:
            break
        if further >= 1 << ROUNDS and sum(left) * OPEN > len(anchors):
            return False
        share(threads, refine, chunks)
        left = share(threads, lambda c: _rank_again(order, flags, ranks, *c), chunks)
        further *= 2
    share(threads, lambda s: name(anchors, order[slice(*s)]), parts)
    return True


@njit(cache=True, nogil=True)
def name(anchors: Unsigned, order: Unsigned) -> None:
    """Numbers of anchors become positions again."""
    for k in range(len(order)):
        order[k] = anchors[order[k]]
