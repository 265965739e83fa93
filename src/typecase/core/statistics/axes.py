"""Axes: the principal axes of a correlation matrix, and how many criteria it really holds.

    14 criteria, shares 0.48 0.14 0.08 …        one axis explains half: they mostly say the same

Constant columns have no correlation and take no part. An axis points where most of its loadings are positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Axes:
    """Principal axes, the strongest first.

    columns    the columns that vary, as indices
    shares     float64 (axes,): of the variance of all columns at unit variance; sums to 1
    loadings   float64 (columns, axes): correlation of a column with an axis
    effective  how many independent columns vary as much: 1 / sum of squared shares (participation ratio)
    """

    columns: tuple[int, ...]
    shares: F64
    loadings: F64
    effective: float


def principal_axes(correlation: F64) -> Axes:
    """The axes of `correlation`, float64 (columns, columns), NaN in the rows of constant columns."""
    columns = tuple(int(i) for i in np.flatnonzero(np.isfinite(np.diag(correlation))))
    if not columns:
        return Axes((), np.zeros(0), np.zeros((0, 0)), 0.0)
    matrix = np.nan_to_num(correlation[np.ix_(columns, columns)])
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    order = np.argsort(-values, kind="stable")
    values, vectors = np.maximum(values[order], 0.0), vectors[:, order]
    vectors = vectors * np.where(vectors.sum(axis=0) < 0, -1.0, 1.0)
    shares = values / values.sum()
    return Axes(columns, shares, vectors * np.sqrt(values), float(1 / (shares**2).sum()))
