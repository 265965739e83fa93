"""Correlations of two short columns, such as perplexity and task score of some models, each with an interval and a chance.

    pearson    Fisher's z, error 1 / sqrt(n - 3)                                   (Fisher 1921)
    spearman   Fisher's z, error sqrt((1 + rho^2 / 2) / (n - 3))                   (Bonett and Wright 2000)
    kendall    Fisher's z, error sqrt(0.437 / (n - 4))                             (Fieller, Hartley and Pearson 1957)

With 10 to 40 rows a percentile bootstrap is too narrow, these are not: simulated coverage is in the tests. `chance` is the
share of random pairings that correlate at least as strongly (a permutation test, two-sided, the pairing itself counted). Rows
that share data (models trained on overlapping arms) are not independent, and then every interval is too narrow.

Price: one correlation for each of the permutations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.learn.ranks import kendall_tau, weighted_pearson, weighted_spearman

F64 = npt.NDArray[np.float64]

PERMUTATIONS = 2000
_NORMAL_975 = 1.959963984540054
_ONES = np.ones


@dataclass(frozen=True, slots=True)
class Correlation:
    """A coefficient over `rows` rows, its 95 % interval, and the chance of one as strong; NaN where it is undefined."""

    kind: str
    value: float
    low: float
    high: float
    chance: float
    rows: int


def correlations(x: F64, y: F64, *, permutations: int = PERMUTATIONS, seed: int = 0) -> tuple[Correlation, ...]:
    """Pearson's, Spearman's and Kendall's coefficient of `x` and `y` (rows,); rows with a NaN are left out."""
    good = np.isfinite(x) & np.isfinite(y)
    x, y = np.asarray(x, np.float64)[good], np.asarray(y, np.float64)[good]
    return tuple(_one(kind, x, y, permutations, seed) for kind in _KINDS)


def _one(kind: str, x: F64, y: F64, permutations: int, seed: int) -> Correlation:
    figure, error = _KINDS[kind]
    n = len(x)
    value = figure(x, y) if n > 1 else math.nan
    if math.isnan(value):
        return Correlation(kind, math.nan, math.nan, math.nan, math.nan, n)
    spread = error(value, n)
    if math.isinf(spread):
        low, high = -1.0, 1.0
    elif abs(value) >= 1 - 1e-12:
        low = high = value
    else:
        z = math.atanh(value)
        low, high = math.tanh(z - _NORMAL_975 * spread), math.tanh(z + _NORMAL_975 * spread)
    dice = np.random.default_rng(seed)
    strong = sum(abs(figure(x, y[dice.permutation(n)])) >= abs(value) - 1e-12 for _ in range(permutations))
    return Correlation(kind, value, low, high, (strong + 1) / (permutations + 1), n)


def _pearson(x: F64, y: F64) -> float:
    return float(weighted_pearson(x, y, _ONES((1, len(x))))[0])


def _spearman(x: F64, y: F64) -> float:
    return float(weighted_spearman(x, y, _ONES((1, len(x))))[0])


def _kendall(x: F64, y: F64) -> float:
    return float(kendall_tau(x, y)[0])


def _root(numerator: float, freedom: int) -> float:
    return math.sqrt(numerator / freedom) if freedom > 0 else math.inf


_KINDS: dict[str, tuple[Callable[[F64, F64], float], Callable[[float, int], float]]] = {
    "pearson": (_pearson, lambda r, n: _root(1.0, n - 3)),
    "spearman": (_spearman, lambda r, n: _root(1 + r * r / 2, n - 3)),
    "kendall": (_kendall, lambda r, n: _root(0.437, n - 4)),
}
