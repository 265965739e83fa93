"""Reduce: a text that repeats at every scale, once more as a text, of a third of the length.

    anchors by position     a  b  a  b  b$           the group of each, numbered in the order of groups, is its code
    codes                   1  3  1  3  4            the last anchor of a document is alone in its group: an end code

The order of the reduced text's suffixes is the order of the anchors, so the whole sort serves again. Doubling would need a
round for every scale at which nearly all anchors repeat, as in a Fibonacci word; here each level costs a third of the last.

Price: 4 bytes an anchor for the reduced text, 9 a group.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.codes import PADDING, Codes
from typecase.core.suffix.crew import Unsigned


def reduced(
    anchors: Unsigned, order: Unsigned, flags: npt.NDArray[np.uint8], lasts: npt.NDArray[np.int64]
) -> tuple[Codes, npt.NDArray[np.int64]]:
    """The anchors (m,) as a text, and the numbers of those that are the last of their document.

    `order` (m,) holds the numbers of anchors by group, `flags` is not 0 where a group starts, `lasts` are the positions of
    the last tokens of documents.
    """
    text = np.zeros(len(anchors) + 1 + PADDING, np.uint32)
    starts = np.flatnonzero(flags)
    _number(order, flags, text[1:])
    numbers = np.unique(np.searchsorted(anchors, lasts.astype(anchors.dtype), side="right")) - 1
    numbers = numbers[numbers >= 0]
    counts = np.concatenate((np.zeros(1, np.int64), np.diff(np.append(starts, len(anchors)))))
    is_end = np.zeros(len(counts), np.uint8)
    is_end[0] = 1
    is_end[text[1 + numbers]] = 1
    return Codes(text, counts, is_end), numbers


@njit(cache=True, nogil=True)
def _number(order: Unsigned, flags: npt.NDArray[np.uint8], text: Unsigned) -> None:
    number = 0
    for k in range(len(order)):
        number += flags[k] != 0
        text[order[k]] = number
