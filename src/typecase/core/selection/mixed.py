"""Mixed: several scores draw in turn, each for an equal part of the budget; what two of them take counts once.

    draw 1   writing style        a quarter    a b c d
    draw 2   facts and trivia     a quarter    c e f g       c is there already
    …
    rest     random documents     what is still missing from every quota, from those that no draw took

The published QuRating mix. Draws are independent: each has a seed derived from the main one. The order of scores decides
nothing but which draw a document taken twice is told under.
Price: a selection for every score, and one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from typecase.core.selection.decide import apply, decide
from typecase.core.selection.keys import Digest, derive_seed, id_words
from typecase.core.selection.moments import Moments
from typecase.core.selection.policy import Budget, Policy
from typecase.core.selection.quota import Label, apportion
from typecase.core.selection.selection import KEPT, Cuts, Pool, Selection

Mask = NDArray[np.bool_]
PoolsOf = Callable[[int], Iterable[Pool]]
"""The pools of draw k: the same rows for every k, `score` being that of the k-th column of `Policy.each`."""


@dataclass(frozen=True, slots=True)
class MixedCuts:
    """The cuts of every draw, and those of the rest, whose counts are those of the whole."""

    draws: tuple[Cuts, ...]
    rest: Cuts


def decide_mixed(pools_of: PoolsOf, labels: Sequence[Label], *, budget: Budget, policy: Policy, seed: int) -> MixedCuts:
    """Where each draw is cut, and the random rest. Pools are walked several times; their division does not matter."""
    amounts = apportion([1] * len(policy.each), budget.amount)
    draws = []
    for k, amount in enumerate(amounts):
        part = Budget(**{budget.unit: amount})
        draws.append(decide(pools_of(k), labels, budget=part, policy=_of_draw(policy, k), seed=_seed_of(seed, k)))
    asked = np.sum([cuts.asked for cuts in draws], axis=0)
    taken = np.zeros((2, len(labels)), np.int64)
    for pool, kept in _taken(pools_of, draws, policy, seed):
        np.add.at(taken[0], pool.stratum[kept], 1)
        np.add.at(taken[1], pool.stratum[kept], pool.amount[kept])
    wanting = np.maximum(0, asked - taken[1])
    left = max(0, budget.amount - int(taken[1].sum()))
    rest = decide(
        _Untaken(pools_of, draws, policy, seed),
        labels,
        budget=Budget(**{budget.unit: left if wanting.any() else 0}),
        policy=_of_rest(policy, dict(zip(labels, wanting.tolist(), strict=True))),
        seed=_seed_of(seed, len(policy.each)),
    )
    moments = Moments.of(pools_of(0), len(labels))
    whole = replace(
        rest, documents=moments.documents, amount=moments.amount, rated=moments.rated, asked=asked, quota=rest.quota + taken[1],
        pool_documents=draws[0].pool_documents, pool_amount=draws[0].pool_amount, kept=rest.kept + taken[0],
        met=rest.met + taken[1], short=max(0, budget.amount - int((rest.met + taken[1]).sum())),
    )  # fmt: skip
    return MixedCuts(tuple(draws), whole)


def apply_mixed(cuts: MixedCuts, pools: Sequence[Pool], *, policy: Policy, seed: int) -> Selection:
    """What becomes of every row of one pool, given once for every draw."""
    draws = _drawn(cuts.draws, pools, policy, seed)
    taken = np.any([made.kept for made in draws], axis=0)
    rest = apply(
        cuts.rest,
        _without(pools[0], taken),
        policy=_of_rest(policy, {}),
        seed=_seed_of(seed, len(policy.each)),
    )
    reason, score, key, copies = rest.reason.copy(), rest.score.copy(), rest.key.copy(), rest.copies.copy()
    for made in reversed(draws):
        score[made.kept], key[made.kept] = made.score[made.kept], made.key[made.kept]
    reason[taken], copies[taken] = KEPT, 1
    digest = rest.digest + Digest.of(*id_words(pools[0].ids), taken)
    return Selection(reason == KEPT, reason, pools[0].stratum, score, key, copies, cuts.rest, digest)


def _drawn(draws: Sequence[Cuts], pools: Sequence[Pool], policy: Policy, seed: int) -> list[Selection]:
    return [
        apply(cuts, pool, policy=_of_draw(policy, k), seed=_seed_of(seed, k))
        for k, (cuts, pool) in enumerate(zip(draws, pools, strict=True))
    ]


def _of_draw(policy: Policy, k: int) -> Policy:
    return replace(policy, score=policy.each[k], each=())


def _of_rest(policy: Policy, wanting: dict[Label, int]) -> Policy:
    """Random documents in the same strata, by what each still wants."""
    rest = Policy(key="uniform", strata=policy.strata, only=policy.only, cut=policy.cut, spill=policy.spill)
    table = tuple((label, amount) for label, amount in wanting.items() if amount)
    return replace(rest, quota="table", table=table) if table else rest


def _seed_of(seed: int, k: int) -> int:
    return derive_seed(seed, f"draw {k}")


def _without(pool: Pool, taken: Mask) -> Pool:
    gone = taken if pool.duplicate is None else taken | pool.duplicate
    return replace(pool, duplicate=gone, score=np.full(len(pool), np.nan))


def _taken(pools_of: PoolsOf, draws: Sequence[Cuts], policy: Policy, seed: int) -> Iterator[tuple[Pool, Mask]]:
    for pools in zip(*(pools_of(k) for k in range(len(draws))), strict=True):
        yield pools[0], np.any([made.kept for made in _drawn(draws, pools, policy, seed)], axis=0)


@dataclass(frozen=True, slots=True)
class _Untaken:
    """The pools without what the draws took."""

    pools_of: PoolsOf
    draws: Sequence[Cuts]
    policy: Policy
    seed: int

    def __iter__(self) -> Iterator[Pool]:
        for pool, kept in _taken(self.pools_of, self.draws, self.policy, self.seed):
            yield _without(pool, kept)
