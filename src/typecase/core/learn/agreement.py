"""Agreement: how far two raters, or a rater and the readers, say the same; always to be printed beside trivial raters.

    rank     Spearman's rho, ties by mean rank
    level    quadratic-weighted kappa (Cohen 1968) of whole levels; mean absolute error
    class    accuracy, macro-F1
    trust    expected calibration error (Guo et al. 2017) of a confidence against what came true

Price: a sort an array.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def mean_ranks(values: npt.ArrayLike) -> F64:
    """Ranks from 0, equal values sharing the mean of theirs, float64 (values,)."""
    array = np.asarray(values, np.float64)
    order = np.argsort(array, kind="stable")
    _, start, count = np.unique(array[order], return_index=True, return_counts=True)
    ranks = np.empty(len(array))
    ranks[order] = np.repeat(start + (count - 1) / 2, count)
    return ranks


def pearson(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Pearson's correlation; 0 where one side is constant."""
    a, b = np.asarray(left, np.float64), np.asarray(right, np.float64)
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else 0.0


def spearman(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Spearman's rank correlation; 0 where one side is constant."""
    return pearson(mean_ranks(left), mean_ranks(right))


def quadratic_kappa(left: npt.ArrayLike, right: npt.ArrayLike, *, low: int, high: int) -> float:
    """Kappa of ratings rounded to whole levels in [low, high], disagreement weighed by its square; 0 if both are constant."""
    size = high - low + 1
    a, b = (np.clip(np.floor(np.asarray(x, np.float64) + 0.5), low, high).astype(np.int64) - low for x in (left, right))
    seen = np.bincount(a * size + b, minlength=size * size).reshape(size, size) / len(a)
    cost = np.subtract.outer(np.arange(size), np.arange(size)) ** 2
    chance = (np.outer(seen.sum(1), seen.sum(0)) * cost).sum()
    return float(1 - (seen * cost).sum() / chance) if chance > 0 else 0.0


def mean_absolute_error(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Mean distance of two ratings."""
    return float(np.abs(np.asarray(left, np.float64) - np.asarray(right, np.float64)).mean())


def macro_f1(said: npt.ArrayLike, true: npt.ArrayLike, *, num_classes: int) -> float:
    """Mean F1 over the classes that occur on either side."""
    a, b = np.asarray(said, np.int64), np.asarray(true, np.int64)
    both = np.bincount(a[a == b], minlength=num_classes)
    total = np.bincount(a, minlength=num_classes) + np.bincount(b, minlength=num_classes)
    return float((2 * both[total > 0] / total[total > 0]).mean())


def calibration_error(confidence: npt.ArrayLike, came_true: npt.ArrayLike, *, num_bins: int) -> float:
    """Mean distance of confidence and frequency over bins of equal width, weighed by their size."""
    trust, truth = np.asarray(confidence, np.float64), np.asarray(came_true, np.float64)
    place = np.minimum((trust * num_bins).astype(np.int64), num_bins - 1)
    gap = np.bincount(place, trust - truth, minlength=num_bins)
    return float(np.abs(gap).sum() / len(trust))


def reliability(confidence: npt.ArrayLike, came_true: npt.ArrayLike, *, num_bins: int) -> list[tuple[int, float, float]]:
    """(cases, mean confidence, frequency) of each bin that holds any."""
    trust, truth = np.asarray(confidence, np.float64), np.asarray(came_true, np.float64)
    place = np.minimum((trust * num_bins).astype(np.int64), num_bins - 1)
    rows = [np.flatnonzero(place == index) for index in range(num_bins)]
    return [(len(row), float(trust[row].mean()), float(truth[row].mean())) for row in rows if len(row)]


def monotone_fit(values: npt.ArrayLike, targets: npt.ArrayLike, weight: npt.ArrayLike) -> tuple[F64, F64]:
    """The non-decreasing function nearest to the targets (pool adjacent violators): (knots, heights), both ascending.

    Between knots the function is linear; outside it is constant. Equal values are pooled first.
    """
    x, y, w = (np.asarray(a, np.float64) for a in (values, targets, weight))
    knots, place = np.unique(x, return_inverse=True)
    mass = np.bincount(place, w)
    height = np.bincount(place, w * y) / mass
    blocks: list[list[float]] = []  # [height, mass, values in it, sum of mass * knot]
    for knot, value, size in zip(knots, height, mass, strict=True):
        blocks.append([value, size, knot * size])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            last = blocks.pop()
            into = blocks[-1]
            total = into[1] + last[1]
            blocks[-1] = [(into[0] * into[1] + last[0] * last[1]) / total, total, into[2] + last[2]]
    return np.array([b[2] / b[1] for b in blocks]), np.array([b[0] for b in blocks])
