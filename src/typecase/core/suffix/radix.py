"""A stable sort of (key, element) pairs within a group, by the bits in which its keys differ.

    keys      0x7a31  0x7a10  0x7a3f  0x7a11
    differ        ..      ..      ..      ..       the bits above are common: skipped
    digit     3       1       3       1            as many bits as the size of the group deserves
    pass      0x7a10  0x7a11 | 0x7a31  0x7a3f      each part again, by the bits that are left

Parts of 16 or fewer are sorted by insertion. Everything is stable, and that is how suffixes that are equal to the ends
of their documents come out in the order of their positions.

Price: an in-cache group of 32,000 random 64-bit keys takes about 17 ns an element; equal keys cost one look.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.crew import Unsigned

INSERTION = 16
MAX_DIGITS = 1 << 11
"""Length of the `counts` that a caller lends to `sort_pairs`."""


@njit(cache=True, nogil=True)
def bit_length(value: Any) -> Any:
    """Bits needed to write `value`; 0 for 0."""
    bits = 0
    rest = np.uint64(value)
    for step in (32, 16, 8, 4, 2, 1):
        if rest >> np.uint64(step):
            rest >>= np.uint64(step)
            bits += step
    return bits + np.int64(rest)


@njit(cache=True, nogil=True)
def insert_pairs(keys: Unsigned, elements: Unsigned, lo: int, hi: int) -> None:
    """Insertion sort of [lo, hi)."""
    for i in range(lo + 1, hi):
        key, element = keys[i], elements[i]
        j = i - 1
        while j >= lo and keys[j] > key:
            keys[j + 1], elements[j + 1] = keys[j], elements[j]
            j -= 1
        keys[j + 1], elements[j + 1] = key, element


@njit(cache=True, nogil=True)
def _digit_bits(size: int) -> int:
    """Wide enough that most parts are short, narrow enough that clearing the counts is not the work."""
    if size < 256:
        return 5
    return 8 if size < 8192 else 11


@njit(cache=True, nogil=True)
def sort_pairs(
    keys: Unsigned,
    elements: Unsigned,
    spare_keys: Unsigned,
    spare_elements: Unsigned,
    begin: int,
    end: int,
    stack: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> None:
    """Sorts [begin, end) of `keys` and, with them, of `elements`; stable.

    The spare arrays are as long as the others, `stack` holds two entries for every 16 elements and two more: the parts
    that wait on it are disjoint and each longer than 16.
    """
    waiting = 1
    stack[0], stack[1] = begin, end
    while waiting:
        waiting -= 1
        lo, hi = stack[2 * waiting], stack[2 * waiting + 1]
        if hi - lo <= INSERTION:
            insert_pairs(keys, elements, lo, hi)
            continue
        first = keys[lo]
        differ = np.uint64(0)
        for i in range(lo + 1, hi):
            differ |= np.uint64(keys[i] ^ first)
        if not differ:
            continue
        width = _digit_bits(hi - lo)
        shift = np.uint64(max(bit_length(differ) - width, 0))
        mask = np.uint64((1 << width) - 1)
        counts[: 1 << width] = 0
        for i in range(lo, hi):
            counts[np.int64((np.uint64(keys[i]) >> shift) & mask)] += 1
        place = lo
        for digit in range(1 << width):
            held = counts[digit]
            counts[digit] = place
            place += held
        for i in range(lo, hi):
            own = np.int64((np.uint64(keys[i]) >> shift) & mask)
            place = counts[own]
            counts[own] = place + 1
            spare_keys[place], spare_elements[place] = keys[i], elements[i]
        keys[lo:hi] = spare_keys[lo:hi]
        elements[lo:hi] = spare_elements[lo:hi]
        if not shift:
            continue
        part = lo
        for digit in range(1 << width):
            stop = counts[digit]
            if stop - part > INSERTION:
                stack[2 * waiting], stack[2 * waiting + 1] = part, stop
                waiting += 1
            elif stop - part > 1:
                insert_pairs(keys, elements, part, stop)
            part = stop
