"""Scores to keys: what is known of every stratum first, then one key a document.

    score  ->  filled in (missing)  ->  in range?  ->  normalised  ->  key (with noise)
                        '- statistics of the stratum -'

A document without a score, or with one that cannot be used, gets a reason instead of a key.
Price: 10 ns a document, 40 ns where the key holds noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from typecase.core.selection.keys import derive_seed, gumbel_of, hash_words, id_words, log_exact
from typecase.core.selection.moments import LIMIT, Moments
from typecase.core.selection.policy import Policy
from typecase.core.selection.quota import Label
from typecase.core.selection.selection import BELOW_CUT, DUPLICATE, INVALID, MISSING, NOT_ASKED, OUT_OF_RANGE, Pool
from typecase.errors import FixInput

F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

CHUNK_ROWS = 1 << 19
"""Pools are worked through in chunks of this many rows, so that what is derived from them stays small."""

_KINDS = {"top_k": 0, "gumbel": 1, "proportional": 2, "uniform": 3}


@dataclass(frozen=True, slots=True)
class Scale:
    """How a score is read in each stratum, float64 (strata,): fill for a missing one, then (score - mean) / std.

    `allowed` bool (strata,): strata that the policy asks for.
    """

    fill: F64
    mean: F64
    std: F64
    allowed: NDArray[np.bool_]


def scale_of(moments: Moments, labels: Sequence[Label], policy: Policy) -> Scale:
    """The scale of every stratum. Raises FixInput when scores are too large to be averaged."""
    n = len(labels)
    fill, mean, std = np.full(n, np.nan), np.zeros(n), np.ones(n)
    averages = policy.missing == "stratum_mean" or policy.normalise != "none"
    if policy.needs_score and averages and moments.beyond:
        raise FixInput(
            f"{moments.beyond} scores are beyond {LIMIT:g} and cannot be averaged: scale the column,"
            f" as in score=(({policy.terms[0][0]!r}, 1e-9),)"
        )
    if policy.needs_score:
        whole = moments.grouped([0] * n, 1)
        if policy.missing != "exclude":
            fill[:] = [_fill(moments, whole, s, policy.missing) for s in range(n)]
        if policy.normalise == "corpus" and n:
            mean[:], std[:] = whole.mean_std(0)
        elif policy.normalise == "stratum":
            mean[:], std[:] = np.array([moments.mean_std(s) for s in range(n)]).reshape(-1, 2).T
        std[~(std > 0)] = 1.0
        mean[np.isnan(mean)] = 0.0
    return Scale(fill, mean, std, allowed_strata(labels, policy))


def allowed_strata(labels: Sequence[Label], policy: Policy) -> NDArray[np.bool_]:
    """bool (strata,): whether `only` asks for the stratum."""
    wanted = [(policy.strata.index(column), set(names)) for column, names in policy.wanted.items()]
    return np.array([all(label[at] in names for at, names in wanted) for label in labels], np.bool_)


def _fill(moments: Moments, whole: Moments, stratum: int, missing: str) -> float:
    """A stratum without any rating borrows from the whole corpus."""
    source, s = (moments, stratum) if moments.rated[stratum] else (whole, 0)
    if not source.rated[s]:
        return math.nan
    return float(source.lowest[s]) if missing == "lowest" else source.mean_std(s)[0]


@dataclass(frozen=True, slots=True)
class Keyed:
    """A pool with its keys. `reason` uint8 (docs,) is BELOW_CUT for every document in the running."""

    pool: Pool
    hi: U64
    lo: U64
    key: F64
    score: F64
    reason: U8


def keyed(pool: Pool, scale: Scale, policy: Policy, seed: int | None) -> Iterator[Keyed]:
    """The keys of a pool, chunk by chunk in its order. `seed` is needed where the policy draws."""
    noise_seed = np.uint64(derive_seed(seed, "select noise") if seed is not None else 0)
    kind = "top_k" if policy.key == "gumbel" and not policy.temperature else policy.key
    for start in range(0, len(pool), CHUNK_ROWS):
        part = slice_pool(pool, start, start + CHUNK_ROWS)
        hi, lo = id_words(part.ids)
        made = Keyed(part, hi, lo, np.full(len(part), np.nan), part.score.copy(), np.zeros(len(part), np.uint8))
        _keys(
            hi,
            lo,
            part.stratum,
            made.score,
            part.duplicate if part.duplicate is not None else np.zeros(0, np.bool_),
            scale.allowed,
            scale.fill,
            scale.mean,
            scale.std,
            -math.inf if policy.at_least is None else policy.at_least,
            math.inf if policy.at_most is None else policy.at_most,
            policy.needs_score,
            _KINDS[kind],
            (-1.0 if policy.inverted else 1.0) / (policy.temperature if kind == "gumbel" else 1.0),
            noise_seed,
            made.key,
            made.reason,
        )
        yield made


def slice_pool(pool: Pool, start: int, stop: int) -> Pool:
    """Rows [start, stop) of a pool, as views."""
    duplicate = pool.duplicate[start:stop] if pool.duplicate is not None else None
    rows = slice(start, stop)
    return Pool(pool.ids[rows], pool.amount[rows], pool.stratum[rows], pool.score[rows], duplicate)


@njit(cache=True, nogil=True)
def _keys(
    hi: U64,
    lo: U64,
    stratum: NDArray[np.int32],
    score: F64,
    duplicate: NDArray[np.bool_],
    allowed: NDArray[np.bool_],
    fill: F64,
    mean: F64,
    std: F64,
    at_least: float,
    at_most: float,
    needs_score: bool,
    kind: int,
    factor: float,
    seed: np.uint64,
    key: F64,
    reason: U8,
) -> None:
    for i in range(hi.size):
        s = stratum[i]
        if duplicate.size and duplicate[i]:
            reason[i] = DUPLICATE
            continue
        if not allowed[s]:
            reason[i] = NOT_ASKED
            continue
        x = score[i]
        if needs_score:
            if math.isnan(x):
                x = fill[s]
                score[i] = x
            if math.isnan(x):
                reason[i] = MISSING
                continue
            if math.isinf(x) or (kind == 2 and x < 0):
                reason[i] = INVALID
                continue
            if not at_least <= x <= at_most:
                reason[i] = OUT_OF_RANGE
                continue
        reason[i] = BELOW_CUT
        if kind == 3:
            key[i] = gumbel_of(hash_words(hi[i], lo[i], seed))
        elif kind == 0:
            key[i] = factor * ((x - mean[s]) / std[s])
        elif kind == 1:
            key[i] = factor * ((x - mean[s]) / std[s]) + gumbel_of(hash_words(hi[i], lo[i], seed))
        elif x == 0.0:
            key[i] = -factor * math.inf
        else:
            key[i] = factor * log_exact(x) + gumbel_of(hash_words(hi[i], lo[i], seed))
