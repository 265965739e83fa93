"""Deciding and applying: pools -> cuts -> a selection.

    decide(pools)       passes over all pools: moments, bins, quotas and spill, crossings     -> Cuts
    apply(cuts, pool)   one pool, row by row                                                  -> Selection
    select(pool)        both, for what fits in memory

Price: about one second for 5 million documents in 105 strata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from typecase.core.selection.cut import BUFFER_ROWS, find_crossings, first_bins, mark_kept
from typecase.core.selection.keys import Digest
from typecase.core.selection.moments import Moments
from typecase.core.selection.policy import Budget, Policy
from typecase.core.selection.quota import Label, Spill, Weight, apportion, quotas_of_table, spill, tempered
from typecase.core.selection.scores import Keyed, Scale, allowed_strata, keyed, scale_of
from typecase.core.selection.selection import KEPT, Cuts, Pool, Selection
from typecase.errors import FixInput

I64 = NDArray[np.int64]


def select(pool: Pool, labels: Sequence[Label], *, budget: Budget, policy: Policy, seed: int | None = None) -> Selection:
    """Selects from a pool in memory; `labels` names the strata that `pool.stratum` counts.

    Raises FixInput when the policy draws and no seed is given, or what `decide` raises.
    """
    cuts = decide([pool], labels, budget=budget, policy=policy, seed=seed)
    return apply(cuts, pool, policy=policy, seed=seed)


def decide(
    pools: Iterable[Pool],
    labels: Sequence[Label],
    *,
    budget: Budget,
    policy: Policy,
    seed: int | None = None,
    buffer_rows: int = BUFFER_ROWS,
    moments: Moments | None = None,
) -> Cuts:
    """Where each stratum is cut so that `budget` is met.

    `pools` is walked several times and must give the same pools each time; their division and order do not matter.
    `moments` may be given where they are known. Raises FixInput for a quota table that names no stratum, for scores
    that cannot be averaged, and for a budget that cannot be met where the policy refuses that.
    """
    _check_seed(policy, seed)
    moments = moments or Moments.of(pools, len(labels))
    scale = scale_of(moments, labels, policy)

    def source() -> Iterator[Keyed]:
        for pool in pools:
            yield from keyed(pool, scale, policy, seed)

    bins = first_bins(source, len(labels))
    pool_amount = bins.amounts.sum(1)
    asked, spilled = _quotas(budget, policy, labels, scale.allowed, moments.amount, pool_amount)
    quota = np.array(spilled.quotas, np.int64)
    found = find_crossings(source, bins, quota, policy.cut, buffer_rows=buffer_rows)
    return Cuts(
        labels=tuple(labels),
        documents=moments.documents,
        amount=moments.amount,
        rated=moments.rated,
        pool_documents=bins.documents.sum(1),
        pool_amount=pool_amount,
        asked=asked,
        quota=quota,
        kept=found.kept,
        met=found.met,
        take=found.take,
        key=found.key,
        cut_id=found.cut_id,
        inclusive=found.inclusive,
        fill=scale.fill,
        mean=scale.mean,
        std=scale.std,
        moved=spilled.moved,
        short=spilled.short,
    )


def apply(cuts: Cuts, pool: Pool, *, policy: Policy, seed: int | None = None) -> Selection:
    """What becomes of every row of `pool`, by cuts that were decided with the same policy and seed."""
    _check_seed(policy, seed)
    scale = Scale(cuts.fill, cuts.mean, cuts.std, allowed_strata(cuts.labels, policy))
    rows, start, digest = len(pool), 0, Digest()
    reason, score, key = np.empty(rows, np.uint8), np.empty(rows), np.empty(rows)
    for part in keyed(pool, scale, policy, seed):
        mark_kept(part, cuts)
        digest += Digest.of(part.hi, part.lo, part.reason == KEPT)
        stop = start + len(part.pool)
        reason[start:stop], score[start:stop], key[start:stop] = part.reason, part.score, part.key
        start = stop
    return Selection(reason == KEPT, reason, pool.stratum, score, key, cuts, digest)


def _check_seed(policy: Policy, seed: int | None) -> None:
    if policy.needs_seed and seed is None:
        raise FixInput(f"a policy with key={policy.key!r} draws documents: give a seed, for example seed=1")


def _quotas(
    budget: Budget, policy: Policy, labels: Sequence[Label], allowed: NDArray[np.bool_], corpus: I64, pool: I64
) -> tuple[I64, Spill]:
    """Quotas before the spill, int64 (strata,), and after. Ties go to the smaller label.

    A stratum that is not asked for gets none, unless the table names it: then it spills.
    """
    order = sorted(np.flatnonzero(allowed | (policy.quota == "table")).tolist(), key=lambda s: labels[s])
    names = [labels[s] for s in order]
    masses, room = [int(corpus[s]) for s in order], [int(pool[s]) for s in order]
    quotas, weights = _shares(policy, names, masses, room, budget.amount)
    if policy.spill == "none":
        weights = [0] * len(names)
    spilled = spill(quotas, room, weights, names, policy.strata)
    short = spilled.short + budget.amount - sum(quotas)
    if policy.spill == "refuse" and (short or any(spilled.moved.values())):
        wanting = [f"{'/'.join(n)} ({q:,} of {r:,})" for n, q, r in zip(names, quotas, room, strict=True) if q > r]
        raise FixInput(
            f"{len(wanting)} strata cannot fill their quota of {budget.unit}: {', '.join(wanting[:5])}; lower the budget, or"
            " let the rest go to siblings with spill='siblings'"
        )
    asked, after = [0] * len(labels), [0] * len(labels)
    for s, quota, final in zip(order, quotas, spilled.quotas, strict=True):
        asked[s], after[s] = quota, final
    return np.array(asked, np.int64), Spill(after, spilled.moved, short)


def _shares(
    policy: Policy, labels: Sequence[Label], corpus: Sequence[int], pool: Sequence[int], total: int
) -> tuple[list[int], Sequence[Weight]]:
    if policy.quota == "table":
        return quotas_of_table(policy.quota_table, labels, corpus, total)
    weights: Mapping[str, Sequence[Weight]] = {
        "corpus": corpus,
        "pool": pool,
        "equal": [1] * len(labels),
        "tempered": tempered(corpus, policy.alpha) if policy.quota == "tempered" else (),
    }
    return apportion(weights[policy.quota], total), weights[policy.quota]
