"""Joint: a histogram of two quantities, from which ranks, quantiles and curves are read; it adds up over shards.

            bin of y                 Spearman    ranks of bins, ties by mean rank, only rows that have both
          . : . .                    curve       y within slices of x that hold equally many rows
    bin   . # # :
    of x  : # # .

Ranks of millions of rows would need all of them at once. Here a score is cut into 256 bins and every row of a bin is a tie,
which is exact for whole levels and moves rho by less than 0.001 for smooth scores. Price: 512 KB a pair of scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

BINS = 256
_NORMAL_975 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Scale:
    """`size` bins of equal width over [low, high]; what lies beyond falls into the outermost ones."""

    low: float
    high: float
    size: int = BINS

    def bins(self, values: NDArray[np.floating]) -> I64:
        """The bin of every value, -1 where it is no number."""
        array = np.asarray(values, np.float64)
        there = np.isfinite(array)
        place = np.floor((np.where(there, array, self.low) - self.low) * (self.size / (self.high - self.low)))
        return np.where(there, np.clip(place, 0, self.size - 1), -1).astype(np.int64)

    def value(self, place: float) -> float:
        """The quantity at a place counted in bins: 0.5 is the middle of the first."""
        return self.low + place * (self.high - self.low) / self.size


def joint_counts(x: I64, y: I64, x_size: int = BINS) -> I64:
    """Rows in each pair of bins, int64 (x_size, BINS); rows with a bin of -1 on either side are left out."""
    both = (x >= 0) & (y >= 0)
    return np.bincount(x[both] * BINS + y[both], minlength=x_size * BINS).reshape(x_size, BINS)


@dataclass(frozen=True, slots=True)
class Rank:
    """Spearman's rho over `rows` rows, and a 95 % interval; NaN where one side is constant."""

    rho: float
    low: float
    high: float
    rows: int


def spearman_of(counts: I64) -> Rank:
    """Spearman's rank correlation of a joint histogram.

    The interval is Bonett and Wright's (2000): Fisher's z with the error sqrt((1 + rho**2 / 2) / (n - 3)). It takes rows for
    independent; where documents of one source resemble each other the truth is less certain.
    """
    n = int(counts.sum())
    if n < 2:
        return Rank(math.nan, math.nan, math.nan, n)
    x, y = _ranks(counts.sum(axis=1), n), _ranks(counts.sum(axis=0), n)
    spread = float((counts.sum(axis=1) * x * x).sum()) * float((counts.sum(axis=0) * y * y).sum())
    if spread <= 0:
        return Rank(math.nan, math.nan, math.nan, n)
    rho = max(-1.0, min(1.0, float(x @ (counts @ y)) / math.sqrt(spread)))
    if n <= 3:
        return Rank(rho, -1.0, 1.0, n)
    if abs(rho) >= 1.0 - 1e-12:
        return Rank(rho, rho, rho, n)
    z, error = math.atanh(rho), math.sqrt((1 + rho * rho / 2) / (n - 3))
    return Rank(rho, math.tanh(z - _NORMAL_975 * error), math.tanh(z + _NORMAL_975 * error), n)


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of neighbouring bins of x: where they lie (median), and mean and quartiles of their y, all counted in bins."""

    rows: int
    x: float
    mean: float
    quarter: float
    median: float
    three_quarters: float


def curve_of(counts: I64, num_slices: int) -> list[Slice]:
    """The course of y over x: slices of x with about equally many rows each, at most `num_slices`."""
    mass = counts.sum(axis=1)
    total = int(mass.sum())
    if not total:
        return []
    middle = np.cumsum(mass) - (mass + 1) // 2
    slot = np.minimum(middle * num_slices // total, num_slices - 1)
    slices = []
    for k in range(num_slices):
        rows = np.flatnonzero((slot == k) & (mass > 0))
        if len(rows):
            seen = counts[rows].sum(axis=0)
            mean = float(seen @ (np.arange(BINS) + 0.5)) / int(seen.sum())
            y = [quantile_of(seen, share) for share in (0.25, 0.5, 0.75)]
            slices.append(Slice(int(seen.sum()), rows[0] + quantile_of(mass[rows[0] : rows[-1] + 1], 0.5), mean, *y))
    return slices


def quantile_of(mass: I64, share: float) -> float:
    """Where a share of the mass lies below, counted in bins and read linearly within one."""
    ends = np.cumsum(mass)
    goal = share * int(ends[-1])
    place = int(np.searchsorted(ends, goal, side="left"))
    while not mass[place]:
        place += 1
    return place + (goal - int(ends[place] - mass[place])) / int(mass[place])


def _ranks(mass: I64, n: int) -> F64:
    """Mean ranks of bins, centred, as a share of the rows."""
    return (2.0 * (np.cumsum(mass) - mass) + mass - n) / n
