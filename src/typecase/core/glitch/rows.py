"""Rows of a matrix, a block at a time: what each one is, before any indicator looks at it.

    non_finite   a NaN or an infinity                    rank first under every indicator: a row that was never
    zero         every number is 0                       trained may be 0 exactly, and a cosine with it says nothing
    near_zero    largest number <= 1e-16, or norm below 1e-6 of the median norm
    ordinary     else

Sums run in double precision over float32 rows. `digest` is a sum of the bits of a row, each column weighed with an odd
number of its own, modulo 2^64: equal rows have equal digests, others by an accident of 1 in 2^32 or rarer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

NON_FINITE, ZERO, NEAR_ZERO, ORDINARY = "non_finite", "zero", "near_zero", "ordinary"
_LEAST = 1e-16
_LEAST_SHARE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class RowFacts:
    """By row: euclidean norm (inf or NaN as it comes), largest absolute number, digest of the bits."""

    norms: F64
    largest: F64
    digests: npt.NDArray[np.uint64]

    def kinds(self) -> npt.NDArray[np.str_]:
        """What each row is; the median is that of the rows that are not 0."""
        finite = np.isfinite(self.norms)
        some = self.norms[finite & (self.largest > 0)]
        median = float(np.median(some)) if len(some) else 0.0
        near = (self.largest <= _LEAST) | (self.norms < _LEAST_SHARE * median)
        return np.select([~finite, self.largest == 0, near], [NON_FINITE, ZERO, NEAR_ZERO], ORDINARY)

    def same_as(self) -> npt.NDArray[np.int64]:
        """The first row with the same bits (V,), its own index where there is none before it."""
        keys = np.stack((self.digests, self.norms.view(np.uint64)), axis=1)
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return np.asarray(first[inverse.reshape(-1)], np.int64)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def measure_rows(rows: F32, weights: npt.NDArray[np.uint64]) -> tuple[F64, F64, npt.NDArray[np.uint64]]:  # pragma: no cover
    """Squared norms, largest absolute numbers and digests of `rows` (n, d); `weights` uint64 (d,) are odd."""
    num_rows, width = rows.shape
    squares, largest, digests = np.empty(num_rows), np.empty(num_rows), np.empty(num_rows, np.uint64)
    bits = rows.view(np.uint32)
    for i in range(num_rows):
        total, digest = 0.0, np.uint64(0)
        for j in range(width):
            value = np.float64(rows[i, j])
            total += value * value
            digest += np.uint64(bits[i, j]) * weights[j]
        top = np.float32(0)
        for j in range(width):
            top = max(top, abs(rows[i, j]))
        squares[i], largest[i], digests[i] = total, top, digest
    return squares, largest, digests


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot_rows(rows: F32, directions: F64) -> F64:  # pragma: no cover
    """Inner products of `rows` (n, d) with `directions` (k, d), float64 (n, k)."""
    num_rows, width = rows.shape
    found = np.empty((num_rows, len(directions)))
    for i in range(num_rows):
        for k in range(len(directions)):
            total = 0.0
            for j in range(width):
                total += np.float64(rows[i, j]) * directions[k, j]
            found[i, k] = total
    return found


def column_weights(width: int) -> npt.NDArray[np.uint64]:
    """Odd 64-bit numbers, one for each column."""
    return np.random.default_rng(20240508).integers(0, 1 << 63, width, np.uint64) * np.uint64(2) + np.uint64(1)
