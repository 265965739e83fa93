"""References: tokens that were surely never trained, found without a hand.

    seeds     the 10 rows that stand tightest among their neighbours (see `neighbours`)
    settle    m = mean of the rows; take the 10 rows nearest to m; again, until they stay the same
    check     reserved slots, bytes that no text holds, tokens that no text makes: if most of them stand together, too, how well
              do the two rankings agree?

Rows of zeros are no references: they have no direction. A set is `loose` when its own distances are no small share of those
of ordinary rows, and `compressed` when even the lowest token outside it is far from it: the indicator then says little, and
another set should be tried (a published run on a model of 2026 has its lowest tokens at half the median).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.learn.ranks import weighted_spearman

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

NUMBER = 10
_ROUNDS = 20
_LOOSE = 0.2
_COMPRESSED = 0.25
_TIGHT = 0.2
_LEAST_STRUCTURAL = 3


@dataclass(frozen=True, slots=True)
class References:
    """`ids` in rising order; `method` is given, neighbours or structural. `settled` in so many rounds, 0 if it never did."""

    ids: tuple[int, ...]
    method: str
    settled: int = 0


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two rankings agree: Jaccard index of their lowest 2 %, Spearman's rank correlation of all."""

    jaccard: float
    spearman: float


def settle(seeds: Sequence[int], shortlist: Sequence[int], gather: Callable[[Sequence[int]], F32]) -> References:
    """Moves the seeds to the rows nearest to their mean until they stay. `gather` gives float32 rows of ids, none of zeros.

    `shortlist` are the ids that may become references, the seeds among them.
    """
    ids = np.asarray(sorted({*shortlist, *seeds}), np.int64)
    rows = gather(ids.tolist()).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    chosen = np.isin(ids, np.asarray(list(seeds), np.int64))
    number = int(chosen.sum())
    for turn in range(1, _ROUNDS + 1):
        m = rows[chosen].mean(axis=0)
        distances = 1 - rows @ m / (lengths * max(float(np.linalg.norm(m)), 1e-300))
        nearest = np.zeros(len(ids), np.bool_)
        nearest[np.argsort(distances, kind="stable")[:number]] = True
        if np.array_equal(nearest, chosen):
            return References(tuple(ids[chosen].tolist()), "neighbours", turn)
        chosen = nearest
    return References(tuple(ids[chosen].tolist()), "neighbours", 0)


def tight_part(ids: Sequence[int], rows: F32, typical: float) -> tuple[int, ...]:
    """Those of `ids` whose rows (n, d), none of zeros, stand together; () when it is not most of them, or fewer than three.

    `typical` is the median cosine distance of two ordinary rows. Together are rows nearer to the middle than a fifth of it.
    """
    if len(ids) < _LEAST_STRUCTURAL:
        return ()
    unit = rows.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    middle = np.median(unit, axis=0)
    distances = 1 - unit @ middle / max(float(np.linalg.norm(middle)), 1e-300)
    near = distances <= _TIGHT * typical
    if near.sum() < max(_LEAST_STRUCTURAL, len(ids) / 2):
        return ()
    return tuple(int(i) for i in np.asarray(ids)[near])


def agreement(a: F64, b: F64, share: float = 0.02) -> Agreement:
    """Of two indicators over the same rows; rows where either is NaN are left out."""
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if len(a) < 2:
        return Agreement(float("nan"), float("nan"))
    number = max(1, int(len(a) * share))
    low_a, low_b = (set(np.argsort(x, kind="stable")[:number].tolist()) for x in (a, b))
    return Agreement(len(low_a & low_b) / len(low_a | low_b), spearman(a, b))


def spearman(a: F64, b: F64) -> float:
    """Spearman's rank correlation, ties by their mean rank; NaN for fewer than two values, or a constant side."""
    if len(a) < 2:
        return float("nan")
    return float(weighted_spearman(a, b, np.ones((1, len(a))))[0])


def warnings_of(distances: F64, references: Sequence[int]) -> tuple[str, ...]:
    """What is wrong with a set, by the indicator that it gives over all tokens (NaN for rows without one)."""
    own = np.zeros(len(distances), np.bool_)
    own[list(references)] = True
    known = ~np.isnan(distances)
    rest = distances[known & ~own]
    if not len(rest) or not known[own].any():
        return ()
    median, spread, lowest = float(np.median(rest)), float(np.median(distances[own & known])), float(rest.min())
    found = []
    if spread > _LOOSE * median:
        found.append(f"the references are loose: their own distance is {spread:.3g}, the median of all {median:.3g}")
    if lowest > _COMPRESSED * median:
        found.append(f"the indicator is compressed: no other token is below {lowest:.3g}, the median is {median:.3g}")
    return tuple(found)
