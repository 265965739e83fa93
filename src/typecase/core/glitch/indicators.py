"""Indicators: how little a row of the output or input matrix looks trained. Low means suspicious, for all of them.

    m = mean of U over the references

    e_in_norm        ||E_t||                                                untied models only; in tied ones it is inverted
    e_out_cosine     1 - U_t.m / (||U_t|| ||m||)                            the default
    e_out_l2         ||U_t - m||
    centred_cosine   the cosine distance after the mean row of U was taken from U_t and from m
    pc_cosine        the cosine distance after the first principal component was projected out of U_t and m (never a ranking)

Of Land & Bartolo, "Fishing for Magikarp", arXiv 2405.05417; the last two are of older versions of their tool and kept to
compare. All follow from norms and inner products in double precision, so identical rows have a distance of about 1e-16, not
1e-7. A cosine is not defined for a row of zeros: NaN, and `ranks` puts it first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
_STEPS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Center:
    """A direction to measure from: m (d,), and optionally the mean row and the first principal component."""

    m: F64
    mean: F64 | None = None
    component: F64 | None = None

    def directions(self) -> F64:
        """What rows are multiplied with, (k, d): m, then whichever of the others there are."""
        return np.stack([v for v in (self.m, self.mean, self.component) if v is not None])


def center_of(rows: F32) -> F64:
    """The mean of reference rows (K, d), in double precision."""
    return np.asarray(rows.astype(np.float64).mean(axis=0))


def cosine_distances(norms: F64, dots: F64, center: F64) -> F64:
    """1 - cosine with `center` for rows of these norms and inner products with it; NaN for a norm of 0."""
    length = float(np.linalg.norm(center))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(norms > 0, 1 - dots / (norms * length), np.nan) if length > 0 else np.full(len(norms), np.nan)


def l2_distances(norms: F64, dots: F64, center: F64) -> F64:
    """Euclidean distances to `center`."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(np.maximum(0.0, norms**2 - 2 * dots + float(center @ center)))


def centred_distances(norms: F64, dots: F64, mean_dots: F64, center: F64, mean: F64) -> F64:
    """Cosine distances after `mean` was subtracted from the rows and from `center`."""
    moved = np.sqrt(np.maximum(0.0, norms**2 - 2 * mean_dots + float(mean @ mean)))
    inner = dots - mean_dots - float(center @ mean) + float(mean @ mean)
    return cosine_distances(moved, inner, center - mean)


def component_distances(norms: F64, dots: F64, component_dots: F64, center: F64, component: F64) -> F64:
    """Cosine distances after `component` (of length 1) was projected out of the rows and of `center`."""
    along = float(center @ component)
    left = np.sqrt(np.maximum(0.0, norms**2 - component_dots**2))
    return cosine_distances(left, dots - component_dots * along, center - along * component)


def first_component(rows: F32) -> F64:
    """The direction (d,), of length 1, along which `rows` (n, d) vary most around their mean. By power iteration."""
    centred = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    spread = np.square(centred, dtype=np.float64).sum(axis=0)
    direction = np.sqrt(spread) + 1e-12 * np.arange(1, len(spread) + 1)
    for _ in range(_STEPS):
        direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
        direction = (centred.T @ (centred @ direction.astype(np.float32))).astype(np.float64)
    return np.asarray(direction / max(float(np.linalg.norm(direction)), 1e-300))


def ranks(values: F64, first: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Rank of every row, 1 the most suspicious: those marked `first`, then by rising value, then by index; NaN last."""
    keys = np.where(first, -np.inf, np.where(np.isnan(values), np.inf, values))
    order = np.lexsort((np.arange(len(values)), keys))
    found = np.empty(len(values), np.int64)
    found[order] = np.arange(1, len(values) + 1)
    return found
