"""Windows: the anchors sorted by their codes, 64 bits at a time, until what is left are repeats.

    anchors            window 0           window 1
    by position        [the same codes]   [       ]      a group shares all codes so far; it is closed when
    ------------->     [              ] > [ x     ]        one suffix is left,
    bucket by 16 bits  [different     ]   [ y     ]        the shared codes hold the end of a document (equal suffixes),
                                                           or they prove where the next anchor of all its suffixes is

The last case leaves a group open for `doubling`, which goes on from anchor to anchor. The proof: after a fall the codes
rise again, so the valley between is an anchor, at the same distance for all of the group. Since a group never reads far
past the next anchor, the work is linear in the text, however long its repeats are.

Buckets are tasks. One of more than LARGE suffixes is first split without storing keys, so that scratch stays small.
All keys of a level are read before any is sorted: the reads do not wait for each other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.ahead import DISTANCE, prefetch
from typecase.core.suffix.codes import Codes
from typecase.core.suffix.crew import Scratch, Unsigned, share, spans
from typecase.core.suffix.radix import MAX_DIGITS, bit_length, sort_pairs

LARGE = 1 << 15

_BUCKET_BITS = 16
_SPLIT_BITS = 10
_GREW, _FELL, _PROVEN, _ENDED = 0, 1, 2, 3
"""What the shared codes of a group have done since the anchor; the last two close it."""


@njit(cache=True, nogil=True)
def _read_four(text: Unsigned, is_end: npt.NDArray[np.uint8], index: Any, bits: int) -> np.uint64:
    one, step = np.uint64(1), np.uint64(bits)
    a, b, c, d = text[index], text[index + 1], text[index + 2], text[index + 3]
    alive_b = np.uint64(is_end[a]) - one
    alive_c = (np.uint64(is_end[b]) - one) & alive_b
    alive_d = (np.uint64(is_end[c]) - one) & alive_c
    high = (np.uint64(a) << step) | (np.uint64(b) & alive_b)
    low = ((np.uint64(c) & alive_c) << step) | (np.uint64(d) & alive_d)
    return (high << (step << one)) | low


@njit(cache=True, nogil=True)
def read_key(text: Unsigned, is_end: npt.NDArray[np.uint8], index: Any, bits: int, per_key: int) -> np.uint64:
    """The codes text[index : index + per_key] as one number, 0 behind the end of the document."""
    if per_key == 4:  # what the loop below does, as one straight line: the usual case, and twice the speed
        return _read_four(text, is_end, index, bits)
    if per_key == 8:
        high = _read_four(text, is_end, index, bits)
        if is_end[text[index]] | is_end[text[index + 1]] | is_end[text[index + 2]] | is_end[text[index + 3]]:
            return high << np.uint64(4 * bits)
        return (high << np.uint64(4 * bits)) | _read_four(text, is_end, index + 4, bits)
    key = np.uint64(0)
    alive = ~np.uint64(0)
    for j in range(per_key):
        code = text[index + j]
        key = (key << np.uint64(bits)) | (np.uint64(code) & alive)
        alive &= np.uint64(is_end[code]) - np.uint64(1)
    return key


@njit(cache=True, nogil=True)
def _read_keys(
    own: Unsigned,
    begin: int,
    end: int,
    text: Unsigned,
    is_end: npt.NDArray[np.uint8],
    depth: int,
    bits: int,
    per_key: int,
    keys: npt.NDArray[np.uint64],
) -> None:
    """keys[begin:end] of the suffixes own[begin:end], `depth` codes on."""
    last = len(own) - 1
    for i in range(begin, end):
        prefetch(text, np.int64(own[min(i + DISTANCE, last)]) + depth + 1)
        keys[i] = read_key(text, is_end, np.int64(own[i]) + depth + 1, bits, per_key)


@njit(cache=True, nogil=True)
def _follow(key: Any, before: Any, state: int, is_end: npt.NDArray[np.uint8], bits: int, per_key: int) -> int:
    """The state of a group after the codes of `key`; `before` is the code ahead of them."""
    mask = np.uint64((1 << bits) - 1)
    for j in range(per_key - 1, -1, -1):
        code = np.int64((key >> np.uint64(j * bits)) & mask)
        if code < before:
            state = _FELL
        elif code > before and state == _FELL:
            return _PROVEN
        if is_end[code]:
            return _ENDED
        before = code
    return state


@njit(cache=True, nogil=True)
def _count_keys(
    anchors: Unsigned,
    text: Unsigned,
    is_end: npt.NDArray[np.uint8],
    bits: int,
    num_first: int,
    shift: int,
    by_key: npt.NDArray[np.int64],
    by_code: npt.NDArray[np.int64],
) -> None:
    for k in range(len(anchors)):
        index = np.int64(anchors[k]) + 1
        by_code[text[index]] += 1
        by_key[np.int64(read_key(text, is_end, index, bits, num_first) >> np.uint64(shift))] += 1


@njit(cache=True, nogil=True)
def _spread(
    anchors: Unsigned,
    text: Unsigned,
    is_end: npt.NDArray[np.uint8],
    bits: int,
    num_first: int,
    shift: int,
    places: npt.NDArray[np.int64],
    order: Unsigned,
) -> None:
    for k in range(len(anchors)):
        index = np.int64(anchors[k]) + 1
        bucket = np.int64(read_key(text, is_end, index, bits, num_first) >> np.uint64(shift))
        place = places[bucket]
        places[bucket] = place + 1
        order[place] = anchors[k]


@njit(cache=True, nogil=True)
def _sort_small(
    own: Unsigned,
    flags: npt.NDArray[np.uint8],
    text: Unsigned,
    is_end: npt.NDArray[np.uint8],
    bits: int,
    per_key: int,
    depth: int,
    state: int,
    keys: npt.NDArray[np.uint64],
    spare_keys: npt.NDArray[np.uint64],
    spare: Unsigned,
    stack: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64],
) -> None:
    """Sorts `own`, at most LARGE suffixes that share `depth` codes, until every group is closed.

    `groups` (2, LARGE, 2) holds the open groups of this level and of the next, as start, 2 * stop + state.
    """
    level, num_groups = 0, 1
    groups[0, 0, 0], groups[0, 0, 1] = 0, 2 * len(own) + state
    while num_groups:
        for g in range(num_groups):
            _read_keys(own, groups[level, g, 0], groups[level, g, 1] >> 1, text, is_end, depth, bits, per_key, keys)
        num_next = 0
        for g in range(num_groups):
            begin, end, state = groups[level, g, 0], groups[level, g, 1] >> 1, groups[level, g, 1] & 1
            sort_pairs(keys, own, spare_keys, spare, begin, end, stack, counts)
            while begin < end:
                stop = begin + 1
                while stop < end and keys[stop] == keys[begin]:
                    stop += 1
                flags[begin] = 1
                if stop - begin > 1:
                    before = np.int64(text[np.int64(own[begin]) + depth]) if depth else np.int64(0)
                    reached = _follow(keys[begin], before, state, is_end, bits, per_key)
                    if reached == _ENDED:
                        flags[begin:stop] = 1
                    elif reached != _PROVEN:
                        groups[1 - level, num_next, 0], groups[1 - level, num_next, 1] = begin, 2 * stop + reached
                        num_next += 1
                begin = stop
        level, num_groups, depth = 1 - level, num_next, depth + per_key


@njit(cache=True, nogil=True)
def _sort_bucket(
    order: Unsigned,
    spare_order: Unsigned,
    flags: npt.NDArray[np.uint8],
    text: Unsigned,
    is_end: npt.NDArray[np.uint8],
    bits: int,
    per_key: int,
    keys: npt.NDArray[np.uint64],
    spare_keys: npt.NDArray[np.uint64],
    spare: Unsigned,
    stack: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64],
) -> None:
    """Sorts a bucket of any size: parts above LARGE are split by the bits in which their keys differ, never storing keys."""
    large = len(keys)
    parts = np.empty((len(order) // large + 2, 4), np.int64)
    parts[0, 0], parts[0, 1], parts[0, 2], parts[0, 3] = 0, len(order), 0, _GREW
    places = np.empty(1 << _SPLIT_BITS, np.int64)
    waiting = 1
    while waiting:
        waiting -= 1
        lo, hi, depth, state = parts[waiting, 0], parts[waiting, 1], parts[waiting, 2], parts[waiting, 3]
        if hi - lo <= large:
            _sort_small(
                order[lo:hi], flags[lo:hi], text, is_end, bits, per_key, depth, state,
                keys, spare_keys, spare, stack, counts, groups,
            )  # fmt: skip
            continue
        first = read_key(text, is_end, np.int64(order[lo]) + depth + 1, bits, per_key)
        differ = np.uint64(0)
        for k in range(lo, hi):
            prefetch(text, np.int64(order[min(k + DISTANCE, hi - 1)]) + depth + 1)
            differ |= read_key(text, is_end, np.int64(order[k]) + depth + 1, bits, per_key) ^ first
        if not differ:
            before = np.int64(text[np.int64(order[lo]) + depth]) if depth else np.int64(0)
            reached = _follow(first, before, state, is_end, bits, per_key)
            flags[lo] = 1
            if reached == _ENDED:
                flags[lo:hi] = 1
            elif reached != _PROVEN:
                parts[waiting, 0], parts[waiting, 1], parts[waiting, 2], parts[waiting, 3] = lo, hi, depth + per_key, reached
                waiting += 1
            continue
        shift = np.uint64(max(bit_length(differ) - _SPLIT_BITS, 0))
        mask = np.uint64((1 << _SPLIT_BITS) - 1)
        places[:] = 0
        for k in range(lo, hi):
            prefetch(text, np.int64(order[min(k + DISTANCE, hi - 1)]) + depth + 1)
            key = read_key(text, is_end, np.int64(order[k]) + depth + 1, bits, per_key)
            places[np.int64((key >> shift) & mask)] += 1
        place = lo
        for digit in range(1 << _SPLIT_BITS):
            held = places[digit]
            places[digit] = place
            place += held
        for k in range(lo, hi):
            prefetch(text, np.int64(order[min(k + DISTANCE, hi - 1)]) + depth + 1)
            key = read_key(text, is_end, np.int64(order[k]) + depth + 1, bits, per_key)
            own = np.int64((key >> shift) & mask)
            spare_order[places[own]] = order[k]
            places[own] += 1
        order[lo:hi] = spare_order[lo:hi]
        begin, part = lo, lo  # small neighbours are sorted together and at once, large ones wait
        for digit in range((1 << _SPLIT_BITS) + 1):
            stop = places[digit] if digit < 1 << _SPLIT_BITS else hi
            if stop - begin > large or digit == 1 << _SPLIT_BITS:
                if part - begin > large:
                    parts[waiting, 0], parts[waiting, 1], parts[waiting, 2], parts[waiting, 3] = begin, part, depth, state
                    waiting += 1
                elif part > begin:
                    _sort_small(
                        order[begin:part], flags[begin:part], text, is_end, bits, per_key, depth, state,
                        keys, spare_keys, spare, stack, counts, groups,
                    )  # fmt: skip
                begin = part
            part = stop


def sort_windows(
    codes: Codes, anchors: Unsigned, order: Unsigned, spare_order: Unsigned, threads: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Fills `order` with the sorted anchors; returns flags (anchors,), 1 where a group starts, and how many anchors a code has.

    `spare_order` is as long as `order` and is overwritten. Anchors of a longer group are in the order of their positions.
    """
    bits, per_key = codes.bits, codes.per_key
    num_first = min(per_key, -(-_BUCKET_BITS // bits))
    shift = max(0, bits * num_first - _BUCKET_BITS)
    parts = [anchors[slice(*span)] for span in spans(len(anchors), threads)]
    by_key = np.zeros((len(parts), 1 << (bits * num_first - shift)), np.int64)
    by_code = np.zeros((len(parts), len(codes.counts)), np.int64)
    read = (codes.text, codes.is_end, bits, num_first, shift)
    share(threads, lambda k: _count_keys(parts[k], *read, by_key[k], by_code[k]), range(len(parts)))
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(by_key.sum(axis=0))))
    places = starts[:-1] + np.concatenate((np.zeros_like(by_key[:1]), np.cumsum(by_key, axis=0)[:-1]))
    share(threads, lambda k: _spread(parts[k], *read, places[k], order), range(len(parts)))

    flags = np.zeros(len(anchors), np.uint8)
    scratch = Scratch()

    def sort(task: tuple[int, int]) -> None:
        own = slice(*task)
        _sort_bucket(
            order[own], spare_order[own], flags[own], codes.text, codes.is_end, bits, per_key,
            scratch.take("keys", LARGE, np.uint64), scratch.take("spare keys", LARGE, np.uint64),
            scratch.take("spare", LARGE, order.dtype), scratch.take("stack", LARGE // 8 + 2, np.int64),
            scratch.take("counts", MAX_DIGITS, np.int64), scratch.take("groups", 2 * LARGE * 2, np.int64).reshape(2, LARGE, 2),
        )  # fmt: skip

    share(threads, sort, _tasks(starts, len(anchors)))
    return flags, by_code.sum(axis=0)


def _tasks(starts: npt.NDArray[np.int64], total: int) -> list[tuple[int, int]]:
    """Neighbouring buckets together up to LARGE, larger ones alone; the longest first."""
    starts = np.unique(starts)  # empty buckets leave no trace
    cuts = [0]
    while cuts[-1] < total:
        cuts.append(
            int(starts[max(np.searchsorted(starts, cuts[-1] + LARGE, "right") - 1, np.searchsorted(starts, cuts[-1]) + 1)])
        )
    return sorted(pairwise(cuts), key=lambda task: task[0] - task[1])
