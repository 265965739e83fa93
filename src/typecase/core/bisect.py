"""Bisection of rising arrays that lie in files: unaligned, strided or mapped, without the copy that numpy would make."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def last_not_above(ascending: npt.NDArray[Any], values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For every value the last index with `ascending[index] <= value`, -1 where there is none.

    What `np.searchsorted(…, side="right") - 1` gives; it touches log2(n) places a value and no more.
    """
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, len(ascending), np.int64)
    for _ in range(len(ascending).bit_length()):
        middle = (low + high) >> 1
        open_ = low < high
        below = np.zeros(values.shape, np.bool_)
        below[open_] = ascending[middle[open_]] <= values[open_]
        low = np.where(below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)
    return low - 1
