"""Walk: the rows that a stream of sequences must have, and the counts that a permutation must have, block by block.

    sequences  [ block ][ block ]…   lengths, a block at a time -> the rows that fall in it -> compared with those of the file

The arrays may be maps of any size: a block of each is in memory, and one bit for every sample. Price, for 10^8 places, rows and
indices: some 2 s each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.order.order import Ints, Lengths

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Walk:
    """`wrong` is the first row that differs, -1 where none does, as it is `found` and as it is `expected`: None where the file
    ends before, or the stream does. `tokens` are those of the stream."""

    wrong: int
    found: tuple[int, int] | None
    expected: tuple[int, int] | None
    tokens: int


def packed_rows(
    sequences: npt.NDArray[Any], rows: npt.NDArray[Any], lengths: Lengths, *, seq_length: int, extra: int, partial: bool
) -> Walk:
    """Walks `sequences` against the closed form: row k is token k * seq_length of the stream, in the first sequence
    that reaches `extra` tokens beyond. With `partial` the last row may be the end of the stream."""
    state = np.zeros(3, np.int64)  # place within the block, tokens before that place, row
    out = np.empty((min(CHUNK, len(rows) + 1), 2), np.int64)
    tokens, held = 0, np.zeros(0, np.int64)
    for first in range(0, len(sequences), CHUNK):
        held = lengths[sequences[first : first + CHUNK]].astype(np.int64)
        tokens += int(held.sum())
        state[0] = 0
        while state[2] < len(rows):
            row = int(state[2])
            count = int(_rows_within(held, state, len(rows), seq_length, extra, out))
            out[:count, 0] += first
            wrong = _first_unlike(rows[row : row + count], out[:count])
            if wrong >= 0:
                return Walk(row + wrong, _pair(rows[row + wrong]), _pair(out[wrong]), tokens)
            if count < len(out):
                break
    row = int(state[2])
    if row == len(rows):
        return Walk(-1, None, None, tokens)
    end = None
    if row == len(rows) - 1:
        # A set without tokens has one row; else the stream may end within the last sample.
        end = (0, 0) if row == 0 else (len(sequences) - 1, int(held[-1]) - extra) if partial else None
    same = _pair(rows[row]) == end
    return Walk(-1 if same else row, _pair(rows[row]), end, tokens)


@njit(cache=True, nogil=True)
def _rows_within(held: Ints, state: Ints, stop: int, seq_length: int, extra: int, out: Ints) -> int:
    place, before, row = state
    count = 0
    while count < len(out) and row < stop:
        at = row * seq_length
        # Row 0 is (0, 0) whatever the first sequences hold.
        need = at + extra if row > 0 else -1
        while place < len(held) and before + held[place] < need:
            before += held[place]
            place += 1
        if place == len(held):
            break
        out[count, 0], out[count, 1] = place, at - before
        count += 1
        row += 1
    state[0], state[1], state[2] = place, before, row
    return count


def overflow_rows(sequences: npt.NDArray[Any], rows: npt.NDArray[Any], lengths: Lengths, *, seq_length: int) -> Walk:
    """Walks `sequences` against the rule of packing until overflow: a sample is as many whole sequences as fit, or one."""
    run, row, tokens = np.zeros(1, np.int64), 0, 0
    out = np.zeros((min(CHUNK, len(sequences)), 2), np.int64)
    for first in range(0, len(sequences), CHUNK):
        held = lengths[sequences[first : first + CHUNK]].astype(np.int64)
        tokens += int(held.sum())
        count = int(_openings(held, run, seq_length + 1, out))
        out[:count, 0] += first
        wrong = first_unlike(rows[row : row + count], out[:count])
        if wrong >= 0:
            return Walk(row + wrong, _pair(rows[row + wrong]), _pair(out[wrong]), tokens)
        row += count
    return _closing(rows, row, (len(sequences), 0), tokens)


@njit(cache=True, nogil=True)
def _openings(held: Ints, run: Ints, room: int, out: Ints) -> int:
    count = 0
    for place in range(len(held)):
        if run[0] == 0 or run[0] + held[place] > room:
            out[count, 0] = place
            count += 1
            run[0] = held[place]
        else:
            run[0] += held[place]
    return count


def unpacked_rows(sequences: npt.NDArray[Any], rows: npt.NDArray[Any]) -> Walk:
    """Walks rows of one sequence each: row k is (k, 0), and one sequence more than samples stands there."""
    for first in range(0, len(rows), CHUNK):
        chunk = rows[first : first + CHUNK]
        expected = np.stack([np.arange(first, first + len(chunk)), np.zeros(len(chunk), np.int64)], axis=1)
        wrong = _first_unlike(chunk, expected)
        if wrong >= 0:
            return Walk(first + wrong, _pair(chunk[wrong]), _pair(expected[wrong]), 0)
    return _closing(rows, len(sequences) - 1, (len(sequences) - 1, 0), 0)


def _closing(rows: npt.NDArray[Any], row: int, end: tuple[int, int], tokens: int) -> Walk:
    """Row number `row`, the last, must be `end`."""
    if row >= len(rows):
        return Walk(len(rows), None, end, tokens)
    if _pair(rows[row]) != end:
        return Walk(row, _pair(rows[row]), end, tokens)
    if row + 1 < len(rows):
        return Walk(row + 1, _pair(rows[row + 1]), None, tokens)
    return Walk(-1, None, None, tokens)


def count_places(sequences: npt.NDArray[Any], num_sequences: int) -> tuple[Ints, int]:
    """How often each sequence of the set stands in `sequences`, and the first place that holds none of the set, or -1."""
    counts = np.zeros(num_sequences, np.int64)
    beyond = -1
    for first in range(0, len(sequences), CHUNK):
        wrong = int(_count(sequences[first : first + CHUNK].astype(np.int64), counts))
        beyond = first + wrong if beyond < 0 <= wrong else beyond
    return counts, beyond


@njit(cache=True, nogil=True)
def _count(chunk: Ints, counts: Ints) -> int:
    wrong = -1
    for place in range(len(chunk)):
        if 0 <= chunk[place] < len(counts):
            counts[chunk[place]] += 1
        elif wrong < 0:
            wrong = place
    return wrong


def permuted(shuffle: npt.NDArray[Any]) -> tuple[int, int]:
    """The first index of `shuffle` whose sample does not exist or was read before, and the first sample that none reads; -1
    each where it is a permutation."""
    seen = np.zeros(-(-len(shuffle) // 8), np.uint8)
    wrong = -1
    for first in range(0, len(shuffle), CHUNK):
        found = int(_mark(shuffle[first : first + CHUNK].astype(np.int64), seen, len(shuffle)))
        wrong = first + found if wrong < 0 <= found else wrong
    if wrong < 0:
        return -1, -1
    byte = int(np.flatnonzero(seen != 255)[0])
    return wrong, byte * 8 + next(bit for bit in range(8) if not seen[byte] >> bit & 1)


@njit(cache=True, nogil=True)
def _mark(chunk: Ints, seen: npt.NDArray[np.uint8], size: int) -> int:
    wrong = -1
    for k in range(len(chunk)):
        sample = chunk[k]
        bit = np.uint8(1 << (sample & 7))
        if sample < 0 or sample >= size or seen[sample >> 3] & bit:
            wrong = k if wrong < 0 else wrong
        else:
            seen[sample >> 3] |= bit
    return wrong


def first_unlike(mine: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> int:
    """The first place, in the length of the shorter, where the arrays differ; -1 where they do not."""
    for first in range(0, min(len(mine), len(theirs)), CHUNK):
        stop = min(first + CHUNK, len(mine), len(theirs))
        wrong = _first_unlike(mine[first:stop], theirs[first:stop])
        if wrong >= 0:
            return first + wrong
    return -1


def _first_unlike(mine: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> int:
    unlike = mine != theirs
    hits = np.flatnonzero(unlike if unlike.ndim == 1 else unlike.any(axis=1))
    return int(hits[0]) if len(hits) else -1


def _pair(row: npt.NDArray[Any]) -> tuple[int, int]:
    return int(row[0]), int(row[1])
