"""Windows: the spans of a long text that a rater reads.

    text of 9,000 bytes, windows of 3,000     [0, 2990) [2990, 6001) [6001, 9000)     tile it, at line or word ends
    text of 90,000 bytes, 8 windows at most   the first, the last, six evenly between

A text is cut into as few windows as hold it, all about equally long; where the budget is smaller, some are read
and the bytes read are recorded. No cut falls inside a character, and none of the text is changed.

Price: constant for each window: a text of any length costs at most the budget.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_SLACK = 256


class Windows(NamedTuple):
    """Spans in row order: window w shows values[start[w]:stop[w]], which belongs to text doc[w]. Texts may have none."""

    doc: I64
    start: I64
    stop: I64
    first: npt.NDArray[np.bool_]  # does it begin its text
    last: npt.NDArray[np.bool_]  # does it end its text


def cut_windows(values: U8, offsets: I64, *, window_bytes: int, max_windows: int) -> Windows:
    """The windows of every text of an Arrow string buffer; none for a text of white space or nothing."""
    sizes = np.diff(offsets)
    wanted = np.minimum(-(-sizes // window_bytes), max_windows)
    room = int(wanted.sum())
    doc, start, stop = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int64)
    windows = Windows(doc, start, stop, np.zeros(room, np.bool_), np.zeros(room, np.bool_))
    num = _cut(values, offsets, window_bytes, max_windows, windows)
    return pick_windows(windows, slice(0, num))


def pick_windows(windows: Windows, rows: I64 | slice) -> Windows:
    """Some of the windows, in the order of `rows`."""
    return Windows(windows.doc[rows], windows.start[rows], windows.stop[rows], windows.first[rows], windows.last[rows])


@njit(cache=True, nogil=True)
def _edge(values: U8, start: int, stop: int, aim: int) -> int:
    """The best cut in (aim - slack, aim]: after a line, else after a space, else between characters."""
    lowest = max(start, aim - _SLACK)
    for mark in (10, 32):
        for pos in range(aim, lowest, -1):
            if values[pos - 1] == mark:
                return pos
    pos = aim
    while start < pos < stop and values[pos] & 0xC0 == 0x80 and aim - pos < 4:
        pos -= 1
    return pos


@njit(cache=True, nogil=True)
def _is_blank(values: U8, start: int, stop: int) -> bool:
    pos = start
    while pos < stop and (values[pos] == 32 or 9 <= values[pos] <= 13):
        pos += 1
    return pos == stop


@njit(cache=True, nogil=True)
def _cut(values: U8, offsets: I64, window_bytes: int, max_windows: int, windows: Windows) -> int:
    num = 0
    for doc in range(len(offsets) - 1):
        start, stop = offsets[doc], offsets[doc + 1]
        size = stop - start
        count = -(-size // window_bytes)
        chosen = min(count, max_windows)
        for pick in range(chosen):
            index = pick if chosen == count else (pick * (count - 1)) // max(1, chosen - 1)
            begin = start if index == 0 else _edge(values, start, stop, start + size * index // count)
            end = stop if index == count - 1 else _edge(values, start, stop, start + size * (index + 1) // count)
            if end <= begin or _is_blank(values, begin, end):
                continue
            windows.doc[num], windows.start[num], windows.stop[num] = doc, begin, end
            windows.first[num], windows.last[num] = index == 0, index == count - 1
            num += 1
    return num
