"""Company: what a first look said of the lines around a line, for a second look.

    first look      .8 .6 .3 .5 .3 .2 .3 | .0 .0 .1 | .2 .3      a menu of names: each may be content
    its company     the run's mean .4, nothing above it is content, its twins at the bottom look alike …

A row a written line, float32, columns as NAMES says; log odds of the first look, within one page.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

NAMES: Final = (
    "odds",
    "odds_above_1",
    "odds_below_1",
    "odds_above_4",
    "odds_below_4",
    "odds_above_16",
    "odds_below_16",
    "odds_run",
    "odds_section",
    "odds_from_top",
    "odds_to_bottom",
    "least_above",
    "least_below",
    "most_above",
    "most_below",
    "odds_twins",
    "odds_page",
    "odds_alike",
    "odds_run_most",
    "odds_run_first",
    "odds_section_above",
    "odds_section_below",
)

_GAP, _INDENT, _BULLET = 25, 13, 12
_RUN_PLACE: Final = 17
"""The column of core/tagger/context that says where in its run of short lines a line stands."""


@njit(cache=True, nogil=True)
def measure_company(odds: F32, pages: I64, hashes: U64, shapes: F32, runs: F32, out: F32) -> None:
    """Fills `out` float32 (lines, len(NAMES)). `runs` holds the run's place of each line, 0 outside of runs."""
    for page in range(len(pages) - 1):
        first, last = pages[page], pages[page + 1]
        if last > first:
            _page(odds[first:last], hashes[first:last], shapes[first:last], runs[first:last], out[first:last])


@njit(cache=True, nogil=True)
def _page(odds, hashes, shapes, runs, out):  # type: ignore[no-untyped-def]
    num = len(odds)
    sums = np.zeros(num + 1)
    for row in range(num):
        sums[row + 1] = sums[row] + odds[row]
    for row in range(num):
        out[row, 0] = odds[row]
        column = 1
        for far in (1, 4, 16):
            low = max(0, row - far)
            out[row, column] = (sums[row] - sums[low]) / (row - low) if row > low else -9
            high = min(num, row + far + 1)
            out[row, column + 1] = (sums[high] - sums[row + 1]) / (high - row - 1) if high > row + 1 else -9
            column += 2
        out[row, 9] = sums[row + 1] / (row + 1)
        out[row, 10] = (sums[num] - sums[row]) / (num - row)
        out[row, 16] = sums[num] / num
    _extremes(odds, out)
    _stretches(odds, sums, shapes, runs, out)
    _groups(odds, hashes, out, 15)
    kinds = np.zeros(num, np.uint64)
    for row in range(num):
        kinds[row] = np.uint64(2 + 2 * int(shapes[row, _INDENT]) + int(shapes[row, _BULLET]))
    _groups(odds, kinds, out, 17)


@njit(cache=True, nogil=True)
def _extremes(odds, out):  # type: ignore[no-untyped-def]
    num = len(odds)
    least, most = np.float32(9), np.float32(-9)
    for row in range(num):
        out[row, 11], out[row, 13] = least, most
        least, most = min(least, odds[row]), max(most, odds[row])
    least, most = np.float32(9), np.float32(-9)
    for row in range(num - 1, -1, -1):
        out[row, 12], out[row, 14] = least, most
        least, most = min(least, odds[row]), max(most, odds[row])


@njit(cache=True, nogil=True)
def _stretches(odds, sums, shapes, runs, out):  # type: ignore[no-untyped-def]
    num = len(odds)
    at = 0
    while at < num:
        end = at + 1
        while runs[at] > 0 and end < num and runs[end] > runs[end - 1]:
            end += 1
        most = odds[at]
        for row in range(at, end):
            most = max(most, odds[row])
        for row in range(at, end):
            out[row, 7] = (sums[end] - sums[at]) / (end - at)
            out[row, 18] = most
            out[row, 19] = odds[at]
        at = end
    at = 0
    above = np.float32(-9)
    while at < num:
        end = at + 1
        while end < num and shapes[end, _GAP] == 0:
            end += 1
        mean = np.float32((sums[end] - sums[at]) / (end - at))
        for row in range(at, end):
            out[row, 8] = mean
            out[row, 20] = above
            out[row, 21] = -9
        back = at - 1
        while back >= 0:
            out[back, 21] = mean
            if shapes[back, _GAP] > 0:
                break
            back -= 1
        above = mean
        at = end


@njit(cache=True, nogil=True)
def _groups(odds, keys, out, column):  # type: ignore[no-untyped-def]
    """The mean of the other lines with the same key; the line's own where there are none, or where its key is 0."""
    order = np.argsort(keys, kind="mergesort")
    num = len(keys)
    at = 0
    while at < num:
        end = at + 1
        while end < num and keys[order[end]] == keys[order[at]]:
            end += 1
        total = 0.0
        for entry in range(at, end):
            total += odds[order[entry]]
        for entry in range(at, end):
            row = order[entry]
            alone = keys[row] == 0 or end - at == 1
            out[row, column] = odds[row] if alone else (total - odds[row]) / (end - at - 1)
        at = end
