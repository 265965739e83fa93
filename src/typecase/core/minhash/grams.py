"""N-grams of some texts (items), looked up in others: what a document shares with a set of questions.

    items       "who wrote the old man and the sea"        n = 5:  who … man, wrote … and, the … the, …
    document    "... asked who wrote the old man and ..."  holds the first two: 2 of 4, words [1, 7)

Units are words (see `words`) or token ids. An item shorter than n is one gram of its own length: it is found where all of
it stands. A gram is a 64-bit hash of its units and their number; looking one up is one probe or two.

Price: 4 ns a unit and gram length, beside the words themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.minhash.words import I64, U8, U64, hash_words, lower_table
from typecase.core.selection.keys import mix
from typecase.core.words import classes

_RADIX = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Grams:
    """The grams of items, ready to be looked up. Made by `grams_of_items`.

    lengths  int64, rising: how many units a gram may have
    slots    uint64 (slots,) a power of two, hashed grams, 0 where there is none;  gram_at  int64 (slots,) their numbers
    items    int64, the items that hold gram g at bounds[g]:bounds[g + 1], rising
    sizes    int64 (items,) distinct grams of each item; 0 for one that was too short to be looked for
    """

    lengths: I64
    slots: U64
    gram_at: I64
    items: I64
    bounds: I64
    sizes: I64


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a document shares with an item: `found` distinct grams, and the longest stretch of its units [start, stop)."""

    item: int
    found: int
    start: int
    stop: int


def token_units(ids: npt.NDArray[np.integer]) -> U64:
    """Token ids as units."""
    units: U64 = ids.astype(np.uint64) + _ONE
    return units


def grams_of(units: U64, length: int) -> U64:
    """The hash of every run of `length` units, uint64 (runs,); none where there are fewer units."""
    found: U64 = _grams(units, length)
    return found


def grams_of_items(items: Sequence[U64], n: int, shortest: int) -> Grams:
    """The grams of items given by their units; an item of fewer than n units is one gram, of fewer than `shortest` none."""
    hashes, owners, lengths = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], set()
    for number, units in enumerate(items):
        if len(units) >= max(1, shortest):
            length = min(n, len(units))
            lengths.add(length)
            one = np.unique(grams_of(units, length))
            hashes.append(one)
            owners.append(np.full(len(one), number, np.int64))
    gram, owner = np.concatenate(hashes), np.concatenate(owners)
    order = np.lexsort((owner, gram))
    distinct, first = np.unique(gram[order], return_index=True)
    size = 64
    while size < 2 * len(distinct):
        size *= 2
    slots, gram_at = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    _fill(distinct, slots, gram_at)
    sizes = np.bincount(owner, minlength=len(items)).astype(np.int64)
    bounds = np.append(first, len(gram)).astype(np.int64)
    return Grams(np.array(sorted(lengths), np.int64), slots, gram_at, owner[order], bounds, sizes)


def touched_texts(grams: Grams, values: U8, offsets: I64) -> npt.NDArray[np.bool_]:
    """Which of the texts `values[offsets[i]:offsets[i + 1]]` hold any gram of words, bool (texts,)."""
    out = np.zeros(len(offsets) - 1, np.bool_)
    words = np.empty(int(np.diff(offsets).max(initial=0)), np.uint64)
    _touch_texts(values, offsets, classes(), lower_table(), words, grams.lengths, grams.slots, out)
    return out


def touched_units(grams: Grams, units: U64, offsets: I64) -> npt.NDArray[np.bool_]:
    """Which of the rows `units[offsets[i]:offsets[i + 1]]` hold any gram, bool (rows,)."""
    out = np.zeros(len(offsets) - 1, np.bool_)
    _touch_units(units, offsets, grams.lengths, grams.slots, out)
    return out


def overlaps(grams: Grams, units: U64) -> list[Overlap]:
    """What a document of these units shares with every item that it shares a gram with, in the order of items."""
    places, numbers, lengths = [], [], []
    for length in grams.lengths.tolist():
        found = _look_up(units, length, grams.slots, grams.gram_at)
        at = np.flatnonzero(found >= 0)
        places.append(at)
        numbers.append(found[at])
        lengths.append(np.full(len(at), length, np.int64))
    if not places:
        return []
    place, number, length_of = np.concatenate(places), np.concatenate(numbers), np.concatenate(lengths)
    many = grams.bounds[number + 1] - grams.bounds[number]
    hit = np.repeat(np.arange(len(place)), many)
    within = np.arange(len(hit)) - np.repeat(np.cumsum(many) - many, many)
    item = grams.items[np.repeat(grams.bounds[number], many) + within]
    order = np.argsort(item, kind="stable")
    cuts = np.flatnonzero(np.diff(item[order])) + 1
    told = []
    for rows in np.split(order, cuts) if len(order) else ():
        one, mine = int(item[rows[0]]), hit[rows]
        start, stop = _longest(np.sort(place[mine]), int(length_of[mine[0]]))
        told.append(Overlap(one, len(np.unique(number[mine])), start, stop))
    return told


def _longest(places: I64, length: int) -> tuple[int, int]:
    """The longest stretch that grams at rising places cover without a gap; the first of equals."""
    cuts = np.flatnonzero(np.diff(places) > length) + 1
    begins = places[np.concatenate(([0], cuts))]
    ends = places[np.concatenate((cuts - 1, [len(places) - 1]))] + length
    best = int(np.argmax(ends - begins))
    return int(begins[best]), int(ends[best])


@njit(cache=True, nogil=True, inline="always")
def _hashed(rolled: Any, length: int) -> Any:
    found = mix(rolled ^ (np.uint64(length) * _RADIX))
    return found if found != np.uint64(0) else _ONE


@njit(cache=True, nogil=True)
def _grams(units: Any, length: int) -> Any:
    num = max(0, len(units) - length + 1)
    out = np.empty(num, np.uint64)
    top, rolled = _ONE, np.uint64(0)
    for _ in range(length):
        top *= _RADIX
    for j in range(length if num else 0):
        rolled = rolled * _RADIX + units[j]
    for i in range(num):
        out[i] = _hashed(rolled, length)
        if i + length < len(units):
            rolled = rolled * _RADIX + units[i + length] - units[i] * top
    return out


@njit(cache=True, nogil=True)
def _fill(distinct: Any, slots: Any, gram_at: Any) -> None:
    mask = np.uint64(len(slots) - 1)
    for number in range(len(distinct)):
        at = distinct[number] & mask
        while slots[at] != np.uint64(0):
            at = (at + _ONE) & mask
        slots[at], gram_at[at] = distinct[number], number


@njit(cache=True, nogil=True, inline="always")
def _slot_of(gram: Any, slots: Any) -> Any:
    """The slot that holds the gram, or an empty one."""
    mask = np.uint64(len(slots) - 1)
    at = gram & mask
    while slots[at] != np.uint64(0) and slots[at] != gram:
        at = (at + _ONE) & mask
    return at


@njit(cache=True, nogil=True)
def _look_up(units: Any, length: int, slots: Any, gram_at: Any) -> Any:
    grams = _grams(units, length)
    out = np.full(len(grams), -1, np.int64)
    for i in range(len(grams)):
        at = _slot_of(grams[i], slots)
        if slots[at] != np.uint64(0):
            out[i] = gram_at[at]
    return out


@njit(cache=True, nogil=True)
def _touches(units: Any, length: int, slots: Any) -> bool:
    num = len(units) - length + 1
    if num < 1:
        return False
    top, rolled = _ONE, np.uint64(0)
    for _ in range(length):
        top *= _RADIX
    for j in range(length):
        rolled = rolled * _RADIX + units[j]
    for i in range(num):
        if slots[_slot_of(_hashed(rolled, length), slots)] != np.uint64(0):
            return True
        if i + 1 < num:
            rolled = rolled * _RADIX + units[i + length] - units[i] * top
    return False


@njit(cache=True, nogil=True)
def _touch_texts(values: Any, offsets: Any, table: Any, lower: Any, words: Any, lengths: Any, slots: Any, out: Any) -> None:
    nowhere = np.empty(0, np.int64)
    for row in range(len(out)):
        num = hash_words(values, offsets[row], offsets[row + 1], table, lower, words, nowhere, nowhere)
        for k in range(len(lengths)):
            out[row] |= _touches(words[:num], lengths[k], slots)


@njit(cache=True, nogil=True)
def _touch_units(units: Any, offsets: Any, lengths: Any, slots: Any, out: Any) -> None:
    for row in range(len(out)):
        for k in range(len(lengths)):
            out[row] |= _touches(units[offsets[row] : offsets[row + 1]], lengths[k], slots)
