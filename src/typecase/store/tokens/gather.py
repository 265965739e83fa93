"""Gather: many byte ranges of a memory map, copied end to end in one call.

    map     ....[aaaa].......[bb]....[cccccc]...        ranges in any order, overlapping or not
    out     [cccccc][aaaa][bb]                          in the order asked for

Ranges are visited by rising address and, where the copy is long, shared out over threads: a cold disk then serves
several faults at once. Price: one copy. 10,000 ranges of 2 KB take about 5 ms from the page cache; cold, out of 1 GB, about
0.25 s against 0.75 s in one thread.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from numba import njit

_THREAD_BYTES = 4 << 20
_NUM_THREADS = 8
"""More than cores: they wait for the disk, not for each other."""


@njit(cache=True, nogil=True)
def copy_ranges(
    source: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> None:
    """out[offsets[k] : offsets[k + 1]] = source[begins[k] : …] for every k of `order`; the caller has checked the ranges."""
    for k in order:
        begin, offset = np.uint64(begins[k]), np.uint64(offsets[k])
        for i in range(np.uint64(offsets[k + 1] - offsets[k])):
            out[offset + np.uint64(i)] = source[begin + np.uint64(i)]


def gather(
    source: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Bytes [begins[k], begins[k] + sizes[k]) of `source`, end to end, and their offsets (ranges + 1,).

    The ranges must lie within `source`: the caller has checked them.
    """
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    out = np.empty(int(offsets[-1]), np.uint8)
    order = np.arange(len(begins)) if np.all(begins[1:] >= begins[:-1]) else np.argsort(begins, kind="stable")
    if out.nbytes < _THREAD_BYTES:
        copy_ranges(source, begins, offsets, order, out)
        return out, offsets
    done = np.cumsum(sizes[order])
    cuts = np.searchsorted(done, np.arange(1, _NUM_THREADS) * (out.nbytes // _NUM_THREADS))
    with ThreadPoolExecutor(_NUM_THREADS) as pool:
        for task in [pool.submit(copy_ranges, source, begins, offsets, own, out) for own in np.split(order, cuts)]:
            task.result()
    return out, offsets
