"""Outliers: where the suspicious end of an indicator stops.

    |||||||| |            .  . ...:::::|||||||||||||||
    plateau  gap              share (2 %)      the rest

share       the published rule: candidates are at or below the 2nd percentile (linear) of the ordinary tokens
plateau     the values below the widest gap (as a ratio) in the lowest tenth, when the gap is a factor of 2 or more
soft        with verifications: where, in order of the indicator, less than 2/3 of a window of 25 are verified
median      with verifications: the median indicator of the verified
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

SHARE = 0.02
_WINDOW = 25
_VERIFIED_SHARE = 2 / 3
_LOWEST = 0.1
_GAP = 2.0
_FLOOR = 1e-6
_LEAST_PLATEAU = 3


@dataclass(frozen=True, slots=True)
class Plateau:
    """`size` values from `low` to `high`; the next value is `after`."""

    size: int
    low: float
    high: float
    after: float


def threshold_of(values: F64, ordinary: npt.NDArray[np.bool_], share: float = SHARE) -> float:
    """The `share` percentile of the ordinary tokens' values, NaN without any."""
    some = values[ordinary & np.isfinite(values)]
    return float(np.percentile(some, 100 * share)) if len(some) else float("nan")


def plateau_of(values: F64) -> Plateau | None:
    """The plateau of the low end, None where the values rise without a gap. Values below 1e-6 are one value."""
    some = np.sort(values[np.isfinite(values)])
    low = some[: max(2, int(len(some) * _LOWEST))]
    if len(low) <= _LEAST_PLATEAU:
        return None
    raised = np.maximum(low, _FLOOR)
    ratios = raised[1:] / raised[:-1]
    ratios[: _LEAST_PLATEAU - 1] = 0
    at = int(np.argmax(ratios))
    if ratios[at] < _GAP:
        return None
    return Plateau(at + 1, float(low[0]), float(low[at]), float(low[at + 1]))


def soft_threshold(values: F64, verified: npt.NDArray[np.bool_]) -> float:
    """The soft threshold over candidates in rising order of `values`; NaN without candidates.

    The window of a position are the 12 before it, itself and the 12 after it; positions before the 13th are not looked at.
    """
    if not len(values):
        return float("nan")
    half = _WINDOW // 2
    for at in range(half, len(values)):
        if verified[max(0, at - half) : at + half + 1].mean() < _VERIFIED_SHARE:
            return float(values[at - 1])
    return float(values[-1])


def median_threshold(values: F64, verified: npt.NDArray[np.bool_]) -> float:
    """The median of the verified candidates' values, 0 without any."""
    return float(np.median(values[verified])) if verified.any() else 0.0
