"""More than two raters, or several readings a document, with gaps: Krippendorff's alpha for ordered levels.

    document   rater 1   2   3
       a           4     4   5        every pair of readings of one document enters the table of coincidences,
       b           2     .   1        weighed by 1 / (readings - 1), so each reading counts once
       c           3     .   .        a single reading has no pair and does not count

    alpha = 1 - observed / expected disagreement; 1 is perfect, 0 is chance, below 0 is worse than chance

The distance of two ordered levels is the square of the readings between them, half of those at the ends (Krippendorff 2011,
"Computing Krippendorff's Alpha-Reliability", ordinal metric). Levels between the whole ones count as the nearest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


def ordinal_alpha(levels: I64, weights: F64, *, size: int) -> F64:
    """Alpha float64 (b,) of levels int64 (documents, raters) in [0, size), -1 where missing, under weights (b, documents).

    NaN where fewer than two levels are in use.
    """
    counts = np.stack([(levels == level).sum(axis=1) for level in range(size)], axis=1).astype(np.float64)
    readings = counts.sum(axis=1)
    paired = readings >= 2
    counts, readings = counts[paired], readings[paired]
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(size)
    each = (pairs / (readings - 1)[:, None, None]).reshape(len(counts), size * size)
    table = (weights[:, paired] @ each).reshape(-1, size, size)
    return alpha_of(table)


def alpha_of(table: F64) -> F64:
    """Ordinal alpha of tables of coincidences (b, size, size)."""
    margin = table.sum(axis=2)
    total = margin.sum(axis=1)
    upto = np.cumsum(margin, axis=1) - margin / 2
    distance = (upto[:, :, None] - upto[:, None, :]) ** 2
    seen = (table * distance).sum(axis=(1, 2))
    chance = np.einsum("bi,bj,bij->b", margin, margin, distance)
    with np.errstate(invalid="ignore", divide="ignore"):
        alpha: F64 = np.where(chance > 0, 1 - (total - 1) * seen / chance, np.nan)
    return alpha
