"""Context: where a line stands on its page, what stands around it, whether it stands there twice.

    menu        <- before the first sentence of the page, in a run of short lines, neighbours alike
    Title       <- said again further up, blank line after it
    A sentence. <- as long as those below it
    footer      <- after the last sentence

A row a written line, float32, columns as NAMES says; windows are of written lines of the same page. Reads the columns
of core/tagger/shape and the word scores. All sums are prefix sums in double precision within a page, so a page gives the
same bytes in any batch.

Price: 0.7 microseconds a line.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

PLACE: Final = (
    "lines",
    "from_top",
    "from_bottom",
    "place",
    "chars_before",
    "page_line_size",
    "prose_before",
    "prose_after",
    "prose_share",
    "to_prose_above",
    "to_prose_below",
    "times",
    "said_before",
    "to_twin",
    "to_next_twin",
    "is_first_line",
    "run",
    "run_place",
    "run_from_top",
    "run_to_bottom",
    "prefix_above",
    "prefix_below",
    "indent_above",
    "indent_below",
    "section",
    "to_gap_above",
    "to_gap_below",
    "worst_before",
    "worst_after",
)
WINDOWED: Final = ("size", "sentence", "bullet", "capitals", "score", "stop_words", "twin", "gap")
REACHES: Final = ((1, 1), (2, 4), (5, 16))
"""Windows above and below a line: from the first to the last of so many lines away."""

NAMES: Final = (
    *PLACE,
    *(f"{name}_{side}_{far}" for name in WINDOWED for _, far in REACHES for side in ("above", "below")),
    *(f"{name}_page" for name in WINDOWED),
)

_SIZE, _SENTENCE, _BULLET, _STOP, _CAPITALS, _INDENT, _GAP = 0, 8, 12, 19, 20, 13, 25
_PROSE_SIZE: Final = math.log1p(60)
_SHORT: Final = math.log1p(40)
_ROWS: Final = np.array(REACHES, np.int64)


@njit(cache=True, nogil=True)
def measure_context(values: U8, starts: I64, stops: I64, pages: I64, hashes: U64, shapes: F32, scores: F32, out: F32) -> None:
    """Fills `out` float32 (lines, at least len(NAMES)); page i has the written lines [pages[i], pages[i + 1])."""
    for page in range(len(pages) - 1):
        first, last = pages[page], pages[page + 1]
        if last > first:
            _page(values, starts[first:last], stops[first:last], hashes[first:last], shapes[first:last],
                  scores[first:last], out[first:last])  # fmt: skip


@njit(cache=True, nogil=True)
def _page(values, starts, stops, hashes, shapes, scores, out):  # type: ignore[no-untyped-def]
    num = len(starts)
    prose = np.zeros(num, np.bool_)
    for row in range(num):
        prose[row] = shapes[row, _SIZE] >= _PROSE_SIZE and (shapes[row, _SENTENCE] > 0 or shapes[row, _STOP] > 0.25)
    _places(starts, stops, prose, shapes, scores, out)
    _twins(hashes, out)
    _runs(shapes, prose, out)
    _neighbours(values, starts, stops, shapes, out)
    _windows(shapes, scores, out)


@njit(cache=True, nogil=True)
def _places(starts, stops, prose, shapes, scores, out):  # type: ignore[no-untyped-def]
    num = len(starts)
    chars = 0
    total = 0
    for row in range(num):
        total += stops[row] - starts[row]
    all_prose = prose.sum()
    before = 0
    above = -1
    gap = 0
    section = 0
    worst = np.float32(0)
    for row in range(num):
        if shapes[row, _GAP] > 0:
            gap = row
            section += 1
        out[row, 0] = math.log1p(num)
        out[row, 1] = math.log1p(row)
        out[row, 2] = math.log1p(num - 1 - row)
        out[row, 3] = (row + 0.5) / num
        out[row, 4] = chars / max(1, total)
        out[row, 5] = math.log1p(total / num)
        out[row, 6] = math.log1p(before)
        out[row, 7] = math.log1p(all_prose - before - prose[row])
        out[row, 8] = all_prose / num
        out[row, 9] = math.log1p(row - above) if above >= 0 else 9
        out[row, 24] = math.log1p(section)
        out[row, 25] = math.log1p(row - gap)
        out[row, 27] = worst
        worst = max(worst, scores[row])
        chars += stops[row] - starts[row]
        if prose[row]:
            before += 1
            above = row
    below = -1
    gap = num - 1
    worst = np.float32(0)
    for row in range(num - 1, -1, -1):
        out[row, 10] = math.log1p(below - row) if below >= 0 else 9
        out[row, 26] = math.log1p(gap - row)
        out[row, 28] = worst
        worst = max(worst, scores[row])
        if shapes[row, _GAP] > 0:
            gap = row - 1
        if prose[row]:
            below = row


@njit(cache=True, nogil=True)
def _twins(hashes, out):  # type: ignore[no-untyped-def]
    order = np.argsort(hashes, kind="mergesort")
    num = len(hashes)
    at = 0
    while at < num:
        end = at + 1
        while end < num and hashes[order[end]] == hashes[order[at]]:
            end += 1
        for entry in range(at, end):
            row = order[entry]
            alone = hashes[row] == 0 or end - at == 1
            out[row, 11] = 0 if alone else math.log(end - at)
            out[row, 12] = 0 if alone else math.log1p(entry - at)
            out[row, 13] = -1 if alone or entry == at else math.log1p(row - order[entry - 1])
            out[row, 14] = -1 if alone or entry == end - 1 else math.log1p(order[entry + 1] - row)
        at = end
    for row in range(num):
        out[row, 15] = hashes[row] == hashes[0]


@njit(cache=True, nogil=True)
def _runs(shapes, prose, out):  # type: ignore[no-untyped-def]
    """Runs of short lines that are no prose."""
    num = len(shapes)
    at = 0
    while at < num:
        end = at
        while end < num and shapes[end, _SIZE] < _SHORT and not prose[end] and shapes[end, _SENTENCE] == 0:
            end += 1
        if end == at:
            out[at, 16:20] = 0
            at += 1
            continue
        for row in range(at, end):
            out[row, 16] = math.log1p(end - at)
            out[row, 17] = (row - at + 0.5) / (end - at)
            out[row, 18] = math.log1p(at)
            out[row, 19] = math.log1p(num - end)
        at = end


@njit(cache=True, nogil=True)
def _neighbours(values, starts, stops, shapes, out):  # type: ignore[no-untyped-def]
    num = len(starts)
    for row in range(num):
        out[row, 20] = out[row - 1, 21] if row else -1
        out[row, 22] = shapes[row, _INDENT] - shapes[row - 1, _INDENT] if row else 0
        if row + 1 == num:
            out[row, 21] = -1
            out[row, 23] = 0
            continue
        out[row, 23] = shapes[row + 1, _INDENT] - shapes[row, _INDENT]
        same = 0
        room = min(24, stops[row] - starts[row], stops[row + 1] - starts[row + 1])
        while same < room and values[starts[row] + same] == values[starts[row + 1] + same]:
            same += 1
        out[row, 21] = same


@njit(cache=True, nogil=True)
def _windows(shapes, scores, out):  # type: ignore[no-untyped-def]
    num = len(shapes)
    column = 29
    page_column = 29 + 8 * 6
    sums = np.zeros(num + 1)
    for kind in range(8):
        for row in range(num):
            if kind == 4:
                value = scores[row]
            elif kind == 6:
                value = np.float32(out[row, 14] >= 0)
            elif kind == 7:
                value = np.float32(shapes[row, _GAP] > 0)
            else:
                source = _SIZE
                if kind == 1:
                    source = _SENTENCE
                elif kind == 2:
                    source = _BULLET
                elif kind == 3:
                    source = _CAPITALS
                elif kind == 5:
                    source = _STOP
                value = shapes[row, source]
            sums[row + 1] = sums[row] + value
        for reach in range(3):
            near, far = _ROWS[reach]
            for row in range(num):
                low, high = max(0, row - far), max(0, row - near + 1)
                out[row, column] = (sums[high] - sums[low]) / (high - low) if high > low else -1
                low, high = min(num, row + near), min(num, row + far + 1)
                out[row, column + 1] = (sums[high] - sums[low]) / (high - low) if high > low else -1
            column += 2
        for row in range(num):
            out[row, page_column + kind] = sums[num] / num
