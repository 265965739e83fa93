"""Walk: every distinct n-gram of all shards, in rising order, with what stands around it.

    shard 0   a a b   a a b   a b c   …        a cursor in each; the least n-gram is taken from all cursors that hold it
    shard 1   a a b   b c a   …                 a a b: 2 + 1

Suffixes with fewer than n tokens in their document are passed over. Price: a look at the text for every suffix, 20–60 ns,
and less where an n-gram repeats often enough to gallop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from typecase.core.suffix.tables import BASE, SIZE, any_end, ends_of, positions_of, text_of

START = np.int64(-1)
"""What stands before the first token of a document."""


@njit(cache=True, nogil=True)
def order_of(kind: Any, row_a: Any, a: Any, row_b: Any, b: Any, size: int) -> int:
    """-1, 0 or 1 as the n-gram at position `a` of one shard stands to that at `b` of another; both are whole."""
    text_a, text_b = text_of(kind, row_a), text_of(kind, row_b)
    for i in range(size):
        left, right = text_a[a + np.uint64(i)], text_b[b + np.uint64(i)]
        if left != right:
            return -1 if left < right else 1
    return 0


@njit(cache=True, nogil=True)
def _is_whole(row: Any, pos: Any, size: int) -> bool:
    if pos + np.uint64(size) > np.uint64(row[SIZE]):
        return False
    return size < 2 or not any_end(ends_of(row), pos, pos + np.uint64(size - 1))


@njit(cache=True, nogil=True)
def next_whole(row: Any, rank: int, size: int) -> int:
    """The first rank from `rank` on whose suffix has `size` tokens in its document."""
    positions = positions_of(row)
    while rank < row[SIZE] and not _is_whole(row, np.uint64(positions[np.uint64(rank)]), size):
        rank += 1
    return rank


@njit(cache=True, nogil=True)
def group_end(kind: Any, row: Any, rank: int, size: int) -> int:
    """Behind the last suffix that begins with the same `size` tokens as that of `rank`, which is whole."""
    positions, total = positions_of(row), row[SIZE]
    pos = np.uint64(positions[np.uint64(rank)])
    low, high, step = rank + 1, total, 1
    while low < high:
        middle = min(low + step - 1, high - 1) if step else (low + high) >> 1
        other = np.uint64(positions[np.uint64(middle)])
        if _is_whole(row, other, size) and order_of(kind, row, pos, row, other, size) == 0:
            low = middle + 1
            step *= 2
        else:
            high = middle
            step = 0
    return low


@njit(cache=True, nogil=True)
def _least(kind: Any, rows: Any, cursor: Any, size: int) -> int:
    """The shard whose cursor holds the least n-gram, -1 when all are at their end."""
    best = -1
    for k in range(len(rows)):
        if cursor[k] == rows[k, SIZE]:
            continue
        if best < 0:
            best = k
            continue
        a, b = positions_of(rows[k])[np.uint64(cursor[k])], positions_of(rows[best])[np.uint64(cursor[best])]
        if order_of(kind, rows[k], np.uint64(a), rows[best], np.uint64(b), size) < 0:
            best = k
    return best


@njit(cache=True, nogil=True)
def take_group(kind: Any, rows: Any, cursor: Any, low: Any, high: Any, size: int) -> int:
    """Moves the cursors past the least n-gram; low, high (shards,) take its ranks. Returns its count, 0 at the end.

    `cursor` (shards,) begins with `next_whole` of 0 in every shard.
    """
    best = _least(kind, rows, cursor, size)
    if best < 0:
        return 0
    pos, total = np.uint64(positions_of(rows[best])[np.uint64(cursor[best])]), 0
    for k in range(len(rows)):
        low[k] = high[k] = cursor[k]
        if cursor[k] == rows[k, SIZE]:
            continue
        other = np.uint64(positions_of(rows[k])[np.uint64(cursor[k])])
        if k == best or order_of(kind, rows[k], other, rows[best], pos, size) == 0:
            high[k] = group_end(kind, rows[k], cursor[k], size)
            total += high[k] - low[k]
    for k in range(len(rows)):
        if high[k] > low[k]:
            cursor[k] = next_whole(rows[k], high[k], size)
    return total


@njit(cache=True, nogil=True)
def begin(rows: Any, size: int) -> Any:
    """Cursors before the first n-gram."""
    cursor = np.empty(len(rows), np.int64)
    for k in range(len(rows)):
        cursor[k] = next_whole(rows[k], 0, size)
    return cursor


@njit(cache=True, nogil=True)
def frequent(kind: Any, rows: Any, size: int, at_least: int) -> tuple[Any, Any]:
    """A position and the count of every n-gram that occurs `at_least` so often, in rising order of the n-grams."""
    cursor = begin(rows, size)
    low, high = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    places, counts, num = np.empty(64, np.int64), np.empty(64, np.int64), 0
    while True:
        count = take_group(kind, rows, cursor, low, high, size)
        if count == 0:
            return places[:num], counts[:num]
        if count < at_least:
            continue
        if num == len(places):
            more, most = np.empty(2 * num, np.int64), np.empty(2 * num, np.int64)
            more[:num], most[:num] = places, counts
            places, counts = more, most
        k = 0
        while high[k] == low[k]:
            k += 1
        places[num] = rows[k, BASE] + positions_of(rows[k])[np.uint64(low[k])]
        counts[num] = count
        num += 1


@njit(cache=True, nogil=True)
def histogram(kind: Any, rows: Any, size: int, most: int) -> Any:
    """How many distinct n-grams occur 0, 1, … times, int64 (most + 1,); the last entry counts those that occur oftener."""
    cursor = begin(rows, size)
    low, high = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    out = np.zeros(most + 1, np.int64)
    while True:
        count = take_group(kind, rows, cursor, low, high, size)
        if count == 0:
            return out
        out[min(count, most)] += 1


@njit(cache=True, nogil=True)
def before(kind: Any, row: Any, low: int, high: int, out: Any) -> None:
    """The token before each suffix [low, high), START where it begins its document; into `out` (high - low,)."""
    text, positions, ends = text_of(kind, row), positions_of(row), ends_of(row)
    for rank in range(low, high):
        pos = np.uint64(positions[np.uint64(rank)])
        first = pos == 0 or any_end(ends, pos - np.uint64(1), pos)
        out[rank - low] = START if first else np.int64(text[pos - np.uint64(1)])


@njit(cache=True, nogil=True)
def mark_repeats(kind: Any, rows: Any, size: int, out: Any) -> None:
    """Sets `out` uint8 (tokens of all shards,) where an n-gram begins that occurs twice or oftener."""
    cursor = begin(rows, size)
    low, high = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    while True:
        count = take_group(kind, rows, cursor, low, high, size)
        if count == 0:
            return
        if count < 2:
            continue
        for k in range(len(rows)):
            positions = positions_of(rows[k])
            for rank in range(low[k], high[k]):
                out[np.uint64(rows[k, BASE]) + np.uint64(positions[np.uint64(rank)])] = 1
