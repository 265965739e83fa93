"""Two raters side by side: every figure of one criterion or of the domain, under weights, so that intervals come by bootstrap.

    right ->  1  2  3  4  5
    left  1   .                  exact       on the diagonal
          2      .  o            within one  on it or beside it
          3      o  .  o         two-class   both below the middle level, or neither
          4         o  .  x
          5            x  .

`right` is the reference: positive accuracy is the share of what it puts at the middle level or above that `left` puts there
too, negative accuracy that of the rest. Scores between levels count as the nearest level in the table, the half upwards;
distances and correlations take them as they are. The trivial raters are tables too: whoever always says the commonest
level, and whoever draws from the reference's own levels blindfold.

Price: a count of the rows for each resample.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from typecase.core.learn.ranks import kendall_tau, weighted_pearson, weighted_spearman

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

TABLE_FIGURES = (
    "exact", "within_one", "two_class", "positive", "negative", "macro_f1", "kappa", "quadratic_kappa", "level_error",
)  # fmt: skip
ROW_FIGURES = ("mae", "bias", "pearson", "spearman")
ALL_FIGURES = (*TABLE_FIGURES, *ROW_FIGURES, "kendall")


def levels_of(scores: F64, *, low: int, high: int) -> I64:
    """The nearest whole level in [low, high], a half upwards, as int64 from 0."""
    return np.clip(np.floor(scores + 0.5), low, high).astype(np.int64) - low


def confusion(left: I64, right: I64, weights: F64, *, size: int) -> F64:
    """How often left said i and right said j: float64 (b, size, size) under weights (b, rows)."""
    cell = left * size + right
    return np.array([np.bincount(cell, row, minlength=size * size) for row in weights]).reshape(-1, size, size)


def table_figures(table: F64, *, cut: int) -> dict[str, F64]:
    """TABLE_FIGURES of confusion tables (b, size, size), each float64 (b,); `cut` is the first level that counts as positive.

    kappa is Cohen's (1960), quadratic_kappa weighs a disagreement by its square (Cohen 1968), level_error is the mean
    distance in levels, macro_f1 the mean over the levels that either side uses. NaN where a figure does not exist.
    """
    size = table.shape[1]
    near = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    high = np.arange(size) >= cut
    total = table.sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = table / total[:, None, None]
        same = high[:, None] == high[None, :]
        seen_high, seen_low = share[:, :, high].sum(axis=(1, 2)), share[:, :, ~high].sum(axis=(1, 2))
        return {
            "exact": (share * (near == 0)).sum(axis=(1, 2)),
            "within_one": (share * (near <= 1)).sum(axis=(1, 2)),
            "two_class": (share * same).sum(axis=(1, 2)),
            "positive": share[:, high][:, :, high].sum(axis=(1, 2)) / seen_high,
            "negative": share[:, ~high][:, :, ~high].sum(axis=(1, 2)) / seen_low,
            "macro_f1": f1_of(table),
            "kappa": kappa_of(share, (near > 0).astype(np.float64)),
            "quadratic_kappa": kappa_of(share, near.astype(np.float64) ** 2),
            "level_error": (share * near).sum(axis=(1, 2)),
        }


def f1_of(table: F64) -> F64:
    """Mean F1 over the classes that occur on either side, float64 (b,)."""
    both = np.diagonal(table, axis1=1, axis2=2)
    either = table.sum(axis=1) + table.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(either > 0, 2 * both / either, 0.0)
        mean: F64 = each.sum(axis=1) / (either > 0).sum(axis=1)
    return mean


def kappa_of(share: F64, cost: F64) -> F64:
    """1 - observed over expected cost, float64 (b,); NaN where both sides say the same one thing only."""
    expected = np.einsum("bi,bj,ij->b", share.sum(axis=2), share.sum(axis=1), cost)
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa: F64 = np.where(expected > 1e-15, 1 - (share * cost).sum(axis=(1, 2)) / expected, np.nan)
    return kappa


def pair_figures(left: F64, right: F64, weights: F64, *, low: int, high: int, kendall: bool = True) -> dict[str, F64]:
    """Every figure of two raters' scores (rows,) under weights (b, rows), each float64 (b,); see the module."""
    size = high - low + 1
    a, b = levels_of(left, low=low, high=high), levels_of(right, low=low, high=high)
    found = table_figures(confusion(a, b, weights, size=size), cut=positive_level(low, high) - low)
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found["mae"] = (weights @ np.abs(left - right)) / total
        found["bias"] = (weights @ (left - right)) / total
    found["pearson"] = weighted_pearson(left, right, weights)
    found["spearman"] = weighted_spearman(left, right, weights)
    if kendall:
        found["kendall"] = kendall_tau(left, right, weights)
    return found


def positive_level(low: int, high: int) -> int:
    """The first level that counts as positive: the middle one, 3 on a scale of 1 to 5."""
    return -((-low - high) // 2)


def baseline_tables(table: F64) -> dict[str, F64]:
    """Expected tables (1, size, size) of the trivial raters against the reference of one table (1, size, size).

    majority   always the reference's commonest level, the lowest of equals
    prior      draws from the reference's levels without reading
    """
    prior = table.sum(axis=1)
    share = prior / max(1.0, float(prior.sum()))
    common = np.eye(table.shape[1])[share[0].argmax()][None, :]
    return {"majority": common[:, :, None] * prior[:, None, :], "prior": share[:, :, None] * prior[:, None, :]}


def baselines(left: F64, right: F64, *, low: int, high: int) -> dict[str, Mapping[str, float]]:
    """TABLE_FIGURES of the trivial raters against `right`, by name; correlations of a blindfold rater are 0 and not told."""
    size = high - low + 1
    a, b = levels_of(left, low=low, high=high), levels_of(right, low=low, high=high)
    table = confusion(a, b, np.ones((1, len(left))), size=size)
    cut = positive_level(low, high) - low
    return {
        name: {figure: float(values[0]) for figure, values in table_figures(blind, cut=cut).items()}
        for name, blind in baseline_tables(table).items()
    }


def class_figures(left: I64, right: I64, weights: F64, *, size: int) -> dict[str, F64]:
    """accuracy, macro_f1 and kappa of two raters' classes (rows,) in [0, size) under weights (b, rows), each float64 (b,)."""
    return class_table_figures(confusion(left, right, weights, size=size))


def class_table_figures(table: F64) -> dict[str, F64]:
    """accuracy, macro_f1 and kappa of confusion tables (b, size, size), each float64 (b,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = table / table.sum(axis=(1, 2))[:, None, None]
    return {
        "accuracy": np.trace(share, axis1=1, axis2=2),
        "macro_f1": f1_of(table),
        "kappa": kappa_of(share, 1 - np.eye(table.shape[1])),
    }


def abstention(confidence: F64, right: npt.NDArray[np.bool_], shares: tuple[float, ...]) -> list[tuple[float, float, float]]:
    """(share answered, least confidence among them, accuracy) if only the surest `shares` of the rows were answered.

    Rows of one confidence are answered together, so the share told may exceed the share asked for.
    """
    if not len(confidence):
        return []
    order = np.argsort(-confidence, kind="stable")
    sorted_trust, hits = confidence[order], np.cumsum(right[order])
    curve = []
    for share in shares:
        least = sorted_trust[min(len(order), max(1, int(np.ceil(share * len(order))))) - 1]
        num = int(np.searchsorted(-sorted_trust, -least, side="right"))
        curve.append((num / len(order), float(least), float(hits[num - 1] / num)))
    return curve
