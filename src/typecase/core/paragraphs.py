"""Paragraphs of a column of texts: runs of lines that are not blank.

    Home               no paragraph to count: one short line
    (blank)
    This site uses     lines 2 and 3 are one
    cookies.

Counted are paragraphs of several lines, and those of one line that is long; a short line by itself is counted as a line
(core.lines). A line is blank when it holds nothing but blanks, tabs and other ASCII white space. Price: about 1 ns a byte.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from typecase.core.lines import I64, U8


def paragraph_spans(values: U8, first: I64, starts: I64, stops: I64, *, longer_than: int) -> tuple[I64, I64, I64]:
    """Paragraphs of the lines that `core.lines.line_spans` found.

    Returns (counted, first_line, last_line): the paragraphs of string i are [counted[i], counted[i + 1]), int64 (strings + 1,);
    each has the lines first_line to last_line, both inclusive, int64 (paragraphs,). One of a single line is left out unless it
    has more than `longer_than` bytes.
    """
    counted = np.zeros(len(first), np.int64)
    lines = np.empty((2, len(starts)), np.int64)
    num = _find(values, first, starts, stops, longer_than, counted, lines)
    return counted, lines[0, :num].copy(), lines[1, :num].copy()


@njit(cache=True, nogil=True)
def _find(values, first, starts, stops, longer_than, counted, lines):  # type: ignore[no-untyped-def]
    num = 0
    for i in range(len(first) - 1):
        begun = -1
        for line in range(first[i], first[i + 1] + 1):
            written = False
            if line < first[i + 1]:
                for j in range(starts[line], stops[line]):
                    b = values[j]
                    if b != 32 and not 9 <= b <= 13:
                        written = True
                        break
            if written:
                if begun < 0:
                    begun = line
            elif begun >= 0:
                if line - 1 > begun or stops[begun] - starts[begun] > longer_than:
                    lines[0, num] = begun
                    lines[1, num] = line - 1
                    num += 1
                begun = -1
        counted[i + 1] = num
    return num
