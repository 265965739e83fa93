"""Ids: token ids of a sparse vocabulary, numbered densely in their own order.

    ids      7  2000000000  7  40        ->   0  2  0  1        of  7, 40, 2000000000

Used where a table by id would be larger than the text deserves: the distinct ids are collected in a hash table, sorted, and
looked up there. Price: at least 24 bytes a distinct id, since at most half of the table is taken, and two look-ups a token:
quick while the table is in the cache, many times slower than all the rest where nearly every id differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.crew import Unsigned, share, spans

_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)
"""No id: ids are below 2^63."""


@njit(cache=True, nogil=True)
def _slot(slots: npt.NDArray[np.uint64], token: Any) -> Any:
    """Where `token` is, or the free slot where it would be."""
    mask = np.uint64(len(slots) - 1)
    at = ((token * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while slots[at] != token and slots[at] != _FREE:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@njit(cache=True, nogil=True)
def _collect(tokens: npt.NDArray[Any], slots: npt.NDArray[np.uint64], begin: int, held: int) -> tuple[int, int]:
    """Puts the ids from `begin` on into `slots`, until half of them are taken; where it stopped, and how many are held."""
    for i in range(begin, len(tokens)):
        token = np.uint64(tokens[i])
        at = _slot(slots, token)
        if slots[at] == _FREE:
            if 2 * held >= len(slots):
                return i, held
            slots[at] = token
            held += 1
    return len(tokens), held


@njit(cache=True, nogil=True)
def _renumber(tokens: npt.NDArray[Any], slots: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint32], out: Unsigned) -> None:
    for i in range(len(tokens)):
        out[i] = numbers[_slot(slots, np.uint64(tokens[i]))]


def number_ids(tokens: npt.NDArray[np.integer[Any]], threads: int) -> tuple[npt.NDArray[np.uint32], int]:
    """The ids, none below 0, as numbers (tokens,) from 0 on without gaps, in the same order; and how many there are."""
    slots = np.full(1 << 12, _FREE)
    done = held = 0
    while True:
        done, held = _collect(tokens, slots, done, held)
        if done == len(tokens):
            break
        kept, slots = slots[slots != _FREE], np.full(4 * len(slots), _FREE)
        _collect(kept, slots, 0, 0)
    used = np.flatnonzero(slots != _FREE)
    numbers = np.zeros(len(slots), np.uint32)
    numbers[used[np.argsort(slots[used])]] = np.arange(held, dtype=np.uint32)
    out = np.empty(len(tokens), np.uint32)
    share(threads, lambda s: _renumber(tokens[slice(*s)], slots, numbers, out[slice(*s)]), spans(len(tokens), threads))
    return out, held
