"""Next: which tokens follow a query, how often, and how often its document ends instead.

    ranks of "a b"    a b ·   a b c …   a b c …   a b c …   a b x …          · = end of the document
                      '-ends-' '--------- c: 3 ---------'   x: 1

The suffixes that begin with the query stand side by side, sorted by what follows. Sixteen of them are looked at together, so
that their loads overlap. A run is jumped over: by the sampled keys where they reach as deep, else by galloping, eight steps
at a time. Behind a single token the marks say where the runs begin. Price: the distinct successors, not the vocabulary and
not the hits: 1 us and 30–80 ns for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from typecase.core.suffix.find import rank_range
from typecase.core.suffix.marks import followers
from typecase.core.suffix.tables import (
    BITS,
    LOW,
    MODE,
    NO_TABLE,
    PER_KEY,
    STRIDE,
    any_end,
    ends_of,
    first_of,
    ids_of,
    keys_of,
    positions_of,
    text_of,
)

_AHEAD = 16
_GALLOP = 8
_PROBED = 4


@njit(cache=True, nogil=True)
def num_ending(row: Any, low: int, high: int, size: int) -> int:
    """How many of the suffixes [low, high), which share their first `size` tokens, have no more: the first ones."""
    if size == 0:
        return 0
    positions, ends = positions_of(row), ends_of(row)
    start, last = low, np.uint64(size - 1)
    step = 1
    while low < high:
        middle = min(low + step - 1, high - 1) if step else (low + high) >> 1
        at = np.uint64(positions[np.uint64(middle)]) + last
        if any_end(ends, at, at + np.uint64(1)):
            low, step = middle + 1, step * 2
        else:
            high, step = middle, 0
    return low - start


@njit(cache=True, nogil=True)
def successors(kind: Any, row: Any, low: int, high: int, size: int) -> tuple[Any, Any]:
    """The tokens at depth `size` of the suffixes [low, high), all of them longer, and how often each stands there."""
    if size == 1:
        return followers(kind, row, low, high)
    text, positions = text_of(kind, row), positions_of(row)
    depth, num = np.uint64(size), 0
    last: Any = np.int64(-1)
    at, ahead = np.empty(_AHEAD, np.int64), np.empty(_AHEAD, np.int64)
    ids, counts = np.empty(min(high - low, 4 * _AHEAD), np.int64), np.empty(min(high - low, 4 * _AHEAD), np.int64)
    while low < high:
        width = min(_AHEAD, high - low)
        for i in range(width):
            at[i] = low + i
        _look(text, positions, depth, at, ahead, width)
        if num + width > len(ids):
            ids, counts = _grown(ids), _grown(counts)
        for i in range(width):  # no branch: whether a token is another than the one before cannot be predicted
            other = np.int64(ahead[i] != last)
            last = ahead[i]
            num += int(other)
            ids[np.uint64(num - 1)] = last
            counts[np.uint64(num - 1)] = counts[np.uint64(num - 1)] * (1 - other) + 1
        low += width
        if size < row[PER_KEY]:
            behind = _jump_by_keys(row, text, positions, depth, low, high, last, at, ahead)
        elif width == _AHEAD and ahead[0] == last:
            behind = _jump(text, positions, depth, low, high, last, at, ahead)
        else:
            continue
        counts[num - 1] += behind - low
        low = behind
    return ids[:num], counts[:num]


@njit(cache=True, nogil=True)
def _look(text: Any, positions: Any, depth: Any, at: Any, found: Any, num: int) -> None:
    """The tokens at `depth` of the suffixes of the first `num` ranks in `at`; no load waits for another."""
    for i in range(num):
        found[i] = positions[np.uint64(at[i])]
    for i in range(num):
        found[i] = text[np.uint64(found[i]) + depth]


@njit(cache=True, nogil=True)
def _jump_by_keys(row: Any, text: Any, positions: Any, depth: Any, low: int, high: int, token: int, at: Any, found: Any) -> int:
    """`_jump` where the keys hold the tokens at `depth`: the text is looked at within one stride alone."""
    keys = keys_of(row)
    bits = np.uint64(row[BITS])
    shift, mask = bits * (np.uint64(row[PER_KEY] - 1) - depth), ~np.uint64(0) >> (np.uint64(64) - bits)
    wanted = np.uint64(token) - np.uint64(row[LOW])
    first, limit = (low + STRIDE - 1) // STRIDE, (high + STRIDE - 1) // STRIDE
    behind, top, step = first, limit, 1
    while behind < top:
        middle = min(behind + step - 1, top - 1) if step else (behind + top) >> 1
        if (keys[np.uint64(middle)] >> shift) & mask == wanted:
            behind, step = middle + 1, step * 2
        else:
            top, step = middle, 0
    if behind == first:
        return low
    low, bound = (behind - 1) * STRIDE + 1, behind * STRIDE if behind < limit else high
    num = 0
    while low + (num + 1) * _PROBED - 1 < bound:
        at[num] = low + (num + 1) * _PROBED - 1
        num += 1
    _look(text, positions, depth, at, found, num)
    for i in range(num):
        if found[i] != token:
            break
        low = at[i] + 1
    return low


@njit(cache=True, nogil=True)
def _jump(text: Any, positions: Any, depth: Any, low: int, high: int, token: int, at: Any, found: Any) -> int:
    """A rank up to which all from `low` on have `token` at `depth`, at most sixteen of its ranks before the first other."""
    step, bound = _AHEAD, -1
    while bound < 0:
        num = 0
        while num < _GALLOP and low + step - 1 < high:
            at[num] = low + step - 1
            step *= 2
            num += 1
        _look(text, positions, depth, at, found, num)
        for i in range(num):
            if found[i] == token:
                low = at[i] + 1
            else:
                bound = at[i]
                break
        if bound < 0 and num < _GALLOP:
            bound = high
        step = max(_AHEAD, step)
    while bound - low > _AHEAD:
        for i in range(_AHEAD):
            at[i] = low + (bound - low) * (i + 1) // (_AHEAD + 1)
        _look(text, positions, depth, at, found, _AHEAD)
        for i in range(_AHEAD):
            if found[i] == token:
                low = at[i] + 1
            else:
                bound = at[i]
                break
    return low


@njit(cache=True, nogil=True)
def _grown(array: Any) -> Any:
    bigger = np.empty(2 * len(array) + _AHEAD, np.int64)
    bigger[: len(array)] = array
    return bigger


@njit(cache=True, nogil=True)
def next_of(kind: Any, row: Any, query: Any, start: Any, size: int) -> tuple[Any, Any, int]:
    """Ids (distinct,), counts (distinct,) and the number of ends of documents behind one query in one shard."""
    low, high = rank_range(kind, row, query, start, size)
    if size == 0 and row[MODE] != NO_TABLE:
        return _unigrams(row)
    ends = num_ending(row, low, high, size)
    ids, counts = successors(kind, row, low + ends, high, size)
    return ids, counts, ends


@njit(cache=True, nogil=True)
def _unigrams(row: Any) -> tuple[Any, Any, int]:
    first = first_of(row)
    if len(ids_of(row)) + 1 == len(first):
        return ids_of(row).copy(), np.diff(first), 0
    ids, counts = ids_of(row).copy(), np.empty(len(ids_of(row)), np.int64)
    for i in range(len(ids)):
        slot = np.uint64(ids[i] - ids[0])
        counts[i] = first[slot + np.uint64(1)] - first[slot]
    return ids, counts, 0


@njit(cache=True, nogil=True)
def next_many(kind: Any, row: Any, sizes: Any, lower: Any, upper: Any) -> tuple[Any, Any, Any, Any]:
    """`next_of` for queries of `sizes` whose ranks are known: ids and counts end to end, offsets, and ends (queries,)."""
    offsets, ending = np.zeros(len(sizes) + 1, np.int64), np.empty(len(sizes), np.int64)
    ids, counts = np.empty(4 * len(sizes) + 16, np.int64), np.empty(4 * len(sizes) + 16, np.int64)
    num = 0
    for k in range(len(sizes)):
        ending[k] = num_ending(row, lower[k], upper[k], sizes[k])
        if sizes[k] == 0 and row[MODE] != NO_TABLE:
            own_ids, own_counts, _ = _unigrams(row)
        else:
            own_ids, own_counts = successors(kind, row, lower[k] + ending[k], upper[k], sizes[k])
        while num + len(own_ids) > len(ids):
            ids, counts = _grown(ids), _grown(counts)
        ids[num : num + len(own_ids)] = own_ids
        counts[num : num + len(own_ids)] = own_counts
        num += len(own_ids)
        offsets[k + 1] = num
    return ids[:num], counts[:num], offsets, ending
