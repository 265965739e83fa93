"""Drift: whether the ratings of two shards, dumps or runs come from the same place, and whether the rater itself moved.

    index    Σ (qᵢ - pᵢ) ln(qᵢ / pᵢ) over bins      population stability index: below 0.1 small, above 0.25 large
    gap      max |F₁ - F₂|                           Kolmogorov-Smirnov, p by its limit law; with ties p is too large
    shift    mean₂ - mean₁                           with an interval over groups
    domains  chi-square of the shares, Cramér's V    how far, beside how surely

With many documents every p is tiny, so a finding needs both: a p that survives Holm's correction for all the tests that were
made, and an effect worth its name. The p values take documents as independent; sources make them less so, and only the
interval of the shift takes account of that. Whether the *rater* moved cannot be told from other documents: that takes the
same anchor documents, rated again (`anchor_drift`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.learn.bootstrap import Interval, interval_of, intervals, row_weights

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

SMALL_INDEX, LARGE_INDEX = 0.1, 0.25
NOTABLE_V = 0.1
_BINS = 10


def stability_index(old: F64, new: F64, *, bins: int = _BINS) -> float:
    """Population stability index of two samples over bins of equally many old values; half a count is added to each bin."""
    if not len(old) or not len(new):
        return float("nan")
    distinct = np.unique(np.concatenate([old, new]))
    if len(distinct) <= bins:
        edges = (distinct[1:] + distinct[:-1]) / 2
    else:
        edges = np.unique(np.quantile(old, np.arange(1, bins) / bins))
    p, q = (np.bincount(np.searchsorted(edges, side, side="right"), minlength=len(edges) + 1) + 0.5 for side in (old, new))
    p, q = p / p.sum(), q / q.sum()
    return float(((q - p) * np.log(q / p)).sum())


def ks_gap(old: F64, new: F64) -> tuple[float, float]:
    """(largest gap of the two distribution functions, p): the two-sided Kolmogorov-Smirnov test, p by the limit law."""
    if not len(old) or not len(new):
        return float("nan"), float("nan")
    at = np.unique(np.concatenate([old, new]))
    share = [np.searchsorted(np.sort(side), at, side="right") / len(side) for side in (old, new)]
    gap = float(np.abs(share[0] - share[1]).max())
    return gap, kolmogorov_tail(gap * math.sqrt(len(old) * len(new) / (len(old) + len(new))))


def kolmogorov_tail(x: float) -> float:
    """P(K > x) of the Kolmogorov distribution: 2 Σ (-1)^(k-1) exp(-2 k² x²), or its theta twin where x is small."""
    if x <= 0:
        return 1.0
    if x < 1:
        below = sum(math.exp(-((2 * k - 1) ** 2) * math.pi**2 / (8 * x * x)) for k in range(1, 20))
        return float(1 - math.sqrt(2 * math.pi) / x * below)
    return float(min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 20))))


def chi_square(old: I64, new: I64) -> tuple[float, int, float, float]:
    """(statistic, degrees of freedom, p, Cramér's V) of two rows of counts; classes that neither has are left out."""
    used = (old + new) > 0
    table = np.array([old[used], new[used]], np.float64)
    freedom = int(used.sum()) - 1
    if freedom < 1 or (table.sum(axis=1) == 0).any():
        return 0.0, max(freedom, 0), 1.0, 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return statistic, freedom, chi_square_tail(statistic, freedom), math.sqrt(statistic / table.sum())


def chi_square_tail(x: float, freedom: int) -> float:
    """P(chi-square with `freedom` degrees > x), the finite sums for whole degrees (Abramowitz and Stegun 26.4.4, 26.4.5)."""
    if x <= 0:
        return 1.0
    half = x / 2
    if freedom % 2 == 0:
        terms = [k * math.log(half) - math.lgamma(k + 1) - half for k in range(freedom // 2)]
        return float(min(1.0, math.fsum(math.exp(term) for term in terms)))
    terms = [(k + 0.5) * math.log(half) - math.lgamma(k + 1.5) - half for k in range((freedom - 1) // 2)]
    return float(min(1.0, math.erfc(math.sqrt(half)) + math.fsum(math.exp(term) for term in terms)))


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for their number (Holm 1979): the chance of any false alarm among all is kept."""
    order = sorted(range(len(p_values)), key=lambda k: p_values[k])
    out, highest = [1.0] * len(p_values), 0.0
    for rank, k in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[k]))
        out[k] = highest
    return out


@dataclass(frozen=True, slots=True)
class Shift:
    """What moved in one criterion. `holm_p` is corrected for all tests of the report; `moved` needs it below 0.01 and a
    stability index above SMALL_INDEX."""

    criterion: str
    num_old: int
    num_new: int
    mean_old: float
    mean_new: float
    shift: Interval
    index: float
    gap: float
    p: float
    holm_p: float = 1.0
    moved: bool = False


def criterion_shift(criterion: str, old: F64, new: F64, old_group: I64, new_group: I64, *, resamples: int, seed: int) -> Shift:
    """Compares two samples of one criterion (NaN left out); groups are drawn on each side for the interval of the shift."""
    old_group, new_group = old_group[~np.isnan(old)], new_group[~np.isnan(new)]
    old, new = old[~np.isnan(old)], new[~np.isnan(new)]
    if not len(old) or not len(new):
        nothing = float("nan")
        return Shift(
            criterion, len(old), len(new), nothing, nothing, Interval(nothing, nothing, nothing, 0), nothing, nothing, 1.0
        )
    drawn = [
        np.concatenate([(w @ side) / w.sum(axis=1) for w in row_weights(_dense(group), resamples=resamples, seed=seed + k)])
        for k, (side, group) in enumerate(((old, old_group), (new, new_group)))
    ]
    mean_old, mean_new = float(old.mean()), float(new.mean())
    shift = interval_of(mean_new - mean_old, drawn[1] - drawn[0])
    return Shift(criterion, len(old), len(new), mean_old, mean_new, shift, stability_index(old, new), *ks_gap(old, new))


def _dense(group: I64) -> I64:
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, slots=True)
class AnchorDrift:
    """What a rater says now of documents that it rated before. `alarm`: the interval of the shift leaves out 0 and the
    shift is larger than the tolerance, or more than a tenth of the anchors changed by a level or more."""

    criterion: str
    anchors: int
    shift: Interval
    mean_change: float
    level_changes: float
    largest: float
    alarm: bool


def anchor_drift(criterion: str, old: F64, new: F64, group: I64, *, tolerance: float, resamples: int, seed: int) -> AnchorDrift:
    """Compares ratings of the same anchors (rows,), pair by pair; NaN on either side is left out."""
    both = ~np.isnan(old) & ~np.isnan(new)
    change, group = (new - old)[both], _dense(group[both])
    if not len(change):
        nothing = float("nan")
        return AnchorDrift(criterion, 0, Interval(nothing, nothing, nothing, 0), nothing, nothing, nothing, False)
    shift = intervals(lambda w: {"shift": (w @ change) / w.sum(axis=1)}, group, resamples=resamples, seed=seed)["shift"]
    size = np.abs(change)
    level_changes = float((size >= 1).mean())
    moved = (shift.low > 0 or shift.high < 0) and abs(shift.value) > tolerance
    return AnchorDrift(
        criterion, len(change), shift, float(size.mean()), level_changes, float(size.max()), moved or level_changes > 0.1
    )
