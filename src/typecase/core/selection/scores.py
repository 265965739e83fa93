"""Scores to keys: what is known of every stratum first, then one key a document.

    score  ->  filled in (missing)  ->  in range?  ->  normalised  ->  key (with noise)
                        '- statistics of the stratum -'

A document without a score, or with one that cannot be used, gets a reason instead of a key.
Price: 10 ns a document, 40 ns where the key holds noise, 60 ns more where scores are ranked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from typecase.core.selection.keys import derive_seed, gumbel_of, hash_many, hash_words, id_words, log_exact
from typecase.core.selection.moments import LIMIT, Moments
from typecase.core.selection.policy import Policy
from typecase.core.selection.quadmix import drawn_copies, expected_copies
from typecase.core.selection.quota import Label
from typecase.core.selection.ranks import Ranks
from typecase.core.selection.selection import (
    BELOW_CUT,
    DUPLICATE,
    INVALID,
    MISSING,
    NOT_ASKED,
    NOT_DRAWN,
    OUT_OF_RANGE,
    Pool,
)
from typecase.errors import FixInput

F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

CHUNK_ROWS = 1 << 19
"""Pools are worked through in chunks of this many rows, so that what is derived from them stays small."""

_KINDS = {"top_k": 0, "gumbel": 1, "proportional": 2, "uniform": 3, "per_token": 4, "middle": 5}


@dataclass(frozen=True, slots=True)
class Scale:
    """How a score is read in each stratum, float64 (strata,): fill for a missing one, then (score - mean) / std.

    `allowed` bool (strata,): strata that the policy asks for. `ranks` where the policy ranks scores; `curves` float64
    (strata, 4) where it is a QuaDMix.
    """

    fill: F64
    mean: F64
    std: F64
    allowed: NDArray[np.bool_]
    ranks: Ranks | None = None
    curves: F64 | None = None


def ranks_of(pools: Iterable[Pool], num_strata: int, policy: Policy) -> Ranks | None:
    """The ranks that the policy goes by; None where it goes by none."""
    if policy.ranked is None:
        return None
    return Ranks.of(pools, num_strata, whole=policy.ranked == "corpus", by_amount=policy.quadmix is not None)


def scale_of(moments: Moments, labels: Sequence[Label], policy: Policy, ranks: Ranks | None = None) -> Scale:
    """The scale of every stratum. Raises FixInput when scores are too large to be averaged."""
    n = len(labels)
    fill, mean, std = np.full(n, np.nan), np.zeros(n), np.ones(n)
    averages = policy.missing == "stratum_mean" or policy.normalise in ("corpus", "stratum")
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
    curves = policy.quadmix.curves_of(labels) if policy.quadmix is not None else None
    return Scale(fill, mean, std, allowed_strata(labels, policy), ranks, curves)


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
    """A pool with its keys. `reason` uint8 (docs,) is BELOW_CUT for every document in the running.

    `copies` int32 (docs,) is how often a document counts when it is kept, None for once; `pool.amount` is that of all
    its copies.
    """

    pool: Pool
    hi: U64
    lo: U64
    key: F64
    score: F64
    reason: U8
    copies: NDArray[np.int32] | None = None


def keyed(pool: Pool, scale: Scale, policy: Policy, seed: int | None) -> Iterator[Keyed]:
    """The keys of a pool, chunk by chunk in its order. `seed` is needed where the policy draws."""
    noise_seed = np.uint64(derive_seed(seed, "select noise") if seed is not None else 0)
    kind = "top_k" if policy.key == "gumbel" and not policy.temperature else policy.key
    for start in range(0, len(pool), CHUNK_ROWS):
        part = slice_pool(pool, start, start + CHUNK_ROWS)
        hi, lo = id_words(part.ids)
        made = Keyed(part, hi, lo, np.full(len(part), np.nan), part.score.copy(), np.zeros(len(part), np.uint8))
        rank = np.zeros(0)
        if scale.ranks is not None:
            filled = np.where(np.isnan(part.score), scale.fill[part.stratum], part.score)
            rank = scale.ranks.of_rows(filled, part.stratum, hi, lo)
        low, high = policy.between or (-math.inf, math.inf)
        _keys(
            hi,
            lo,
            part.stratum,
            part.amount,
            made.score,
            rank,
            policy.normalise in ("rank", "stratum_rank"),
            part.duplicate if part.duplicate is not None else np.zeros(0, np.bool_),
            scale.allowed,
            scale.fill,
            scale.mean,
            scale.std,
            -math.inf if policy.at_least is None else policy.at_least,
            math.inf if policy.at_most is None else policy.at_most,
            low,
            high,
            policy.inverted and policy.filters,
            policy.needs_score,
            _KINDS[kind],
            (-1.0 if policy.inverted else 1.0) / (policy.temperature if kind == "gumbel" else 1.0),
            noise_seed,
            made.key,
            made.reason,
        )
        yield _multiplied(made, rank, scale.curves, policy, seed) if scale.curves is not None else made


def _multiplied(made: Keyed, rank: F64, curves: F64, policy: Policy, seed: int | None) -> Keyed:
    """Every document in the running as often as the curve of its stratum says; what it says never of is out."""
    assert seed is not None, "a policy with copies draws"
    running = made.reason == BELOW_CUT
    expected = expected_copies(rank if policy.inverted else 1.0 - rank, curves[made.pool.stratum], float(policy.epochs))
    copies = drawn_copies(np.where(running, expected, 0.0), hash_many(made.hi, made.lo, derive_seed(seed, "select copies")))
    made.reason[running & (copies == 0)] = NOT_DRAWN
    made.key[copies == 0] = np.nan
    return replace(made, pool=replace(made.pool, amount=made.pool.amount * np.maximum(copies, 1)), copies=copies)


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
    amount: NDArray[np.int64],
    score: F64,
    rank: F64,
    by_rank: bool,
    duplicate: NDArray[np.bool_],
    allowed: NDArray[np.bool_],
    fill: F64,
    mean: F64,
    std: F64,
    at_least: float,
    at_most: float,
    low: float,
    high: float,
    outside: bool,
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
            if math.isinf(x) or (x < 0 and (kind == 2 or kind == 4)):
                reason[i] = INVALID
                continue
            inside = at_least <= x <= at_most and (not rank.size or low <= rank[i] <= high)
            if inside == outside:
                reason[i] = OUT_OF_RANGE
                continue
            if by_rank:
                x = rank[i]
        reason[i] = BELOW_CUT
        if kind == 3:
            key[i] = gumbel_of(hash_words(hi[i], lo[i], seed))
        elif kind == 0:
            key[i] = factor * ((x - mean[s]) / std[s])
        elif kind == 1:
            key[i] = factor * ((x - mean[s]) / std[s]) + gumbel_of(hash_words(hi[i], lo[i], seed))
        elif kind == 5:
            key[i] = -factor * abs(rank[i] - 0.5)
        elif x == 0.0:
            key[i] = -factor * math.inf
        elif kind == 2:
            key[i] = factor * log_exact(x) + gumbel_of(hash_words(hi[i], lo[i], seed))
        else:
            cost = log_exact(np.float64(max(1, amount[i])))
            key[i] = factor * (log_exact(x) - cost) + gumbel_of(hash_words(hi[i], lo[i], seed))
