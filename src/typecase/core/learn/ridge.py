"""Ridge: linear models learned in the dual, for data sets of a few thousand rows and any number of features.

    f(x) = mean + sum_i <x, x_i> a_i          (K + damping / weight) a = targets - mean,   K = <x_i, x_j>

A view of the text (sparse n-grams, the direction of its word classes) is a part of x; inner products of views add up. Once
solved, the duals fold back into one weight a feature, so what is rated costs nothing for the rows that taught.

Price: n^3 / 3 operations to solve, 0.3 s for 1,700 rows.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

LANES = 8
"""Outputs are padded to a multiple of this, so that a row is added in whole vector registers."""


def solve(gram: F64, targets: F64, weight: F64, *, damping: float) -> tuple[F64, F64]:
    """(duals (rows, outputs), mean (outputs,)) of ridge regression; a row of half the weight is damped twice as much."""
    mean: F64 = weight @ targets / weight.sum()
    duals: F64 = np.linalg.solve(gram + np.diag(damping / weight), targets - mean).astype(np.float64)
    return duals, mean


@njit(cache=True, nogil=True)
def add_linear(rows: F32, weights: F32, out: F32) -> None:
    """Adds rows @ weights to `out`, in a fixed order: a matrix library would sum differently for other batch sizes."""
    for row in range(len(rows)):
        for feature in range(rows.shape[1]):
            for column in range(out.shape[1]):
                out[row, column] += rows[row, feature] * weights[feature, column]


@njit(cache=True, nogil=True)
def _softmax(rows: F32, heat: float, out: F32) -> None:
    for row in range(len(rows)):
        highest = rows[row, 0]
        for column in range(rows.shape[1]):
            highest = max(highest, rows[row, column])
        total = 0.0
        for column in range(rows.shape[1]):
            total += math.exp((rows[row, column] - highest) / heat)
        for column in range(rows.shape[1]):
            out[row, column] = math.exp((rows[row, column] - highest) / heat) / total


def softmax(rows: F32, *, heat: float) -> F32:
    """Chances that sum to 1 in every row, the sharper the lower `heat`, float32 like `rows`."""
    out = np.zeros(rows.shape, np.float32)
    if rows.shape[1]:
        _softmax(rows, heat, out)
    return out
