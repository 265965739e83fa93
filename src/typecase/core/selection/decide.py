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

from typecase.core.selection.bounds import Bounds, bounded
from typecase.core.selection.cut import BUFFER_ROWS, find_crossings, first_bins, mark_kept
from typecase.core.selection.keys import Digest
from typecase.core.selection.moments import Moments
from typecase.core.selection.policy import Budget, Policy
from typecase.core.selection.quota import Label, Spill, Weight, apportion, quotas_of_table, spill, tempered
from typecase.core.selection.ranks import Ranks
from typecase.core.selection.scores import Keyed, Scale, allowed_strata, keyed, ranks_of, scale_of
from typecase.core.selection.selection import BELOW_CUT, KEPT, Cuts, Pool, Selection
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
    ranks: Ranks | None = None,
) -> Cuts:
    """Where each stratum is cut so that `budget` is met.

    `pools` is walked several times and must give the same pools each time; their division and order do not matter.
    `moments` may be given where they are known, and `ranks` where the policy goes by them. Raises FixInput for a quota
    table that names no stratum, for scores that cannot be averaged, for floors and caps that cannot hold together, and for
    a budget that cannot be met where the policy refuses that.
    """
    _check_seed(policy, seed)
    moments = moments or Moments.of(pools, len(labels))
    ranks = ranks or ranks_of(pools, len(labels), policy)
    scale = scale_of(moments, labels, policy, ranks)

    def source() -> Iterator[Keyed]:
        for pool in pools:
            yield from keyed(pool, scale, policy, seed)

    bins = first_bins(source, len(labels))
    pool_amount = bins.amounts.sum(1)
    asked, spilled = _quotas(budget, policy, labels, scale.allowed, moments.amount, pool_amount)
    quota = np.array(spilled.quotas, np.int64)
    extra = np.clip((quota - 1) // np.maximum(pool_amount, 1), 0, _repeats(policy) - 1) * (pool_amount > 0)
    found = find_crossings(source, bins, quota - extra * pool_amount, policy.cut, buffer_rows=buffer_rows)
    pool_documents = bins.documents.sum(1)
    return Cuts(
        labels=tuple(labels),
        documents=moments.documents,
        amount=moments.amount,
        rated=moments.rated,
        pool_documents=pool_documents,
        pool_amount=pool_amount,
        asked=asked,
        quota=quota,
        kept=np.where(extra > 0, pool_documents, found.kept),
        met=found.met + extra * pool_amount,
        extra=extra,
        take=found.take,
        key=found.key,
        cut_id=found.cut_id,
        inclusive=found.inclusive,
        fill=scale.fill,
        mean=scale.mean,
        std=scale.std,
        moved=spilled.moved,
        short=spilled.short,
        ranks=ranks,
    )


def apply(cuts: Cuts, pool: Pool, *, policy: Policy, seed: int | None = None) -> Selection:
    """What becomes of every row of `pool`, by cuts that were decided with the same policy and seed."""
    _check_seed(policy, seed)
    curves = policy.quadmix.curves_of(cuts.labels) if policy.quadmix is not None else None
    scale = Scale(cuts.fill, cuts.mean, cuts.std, allowed_strata(cuts.labels, policy), cuts.ranks, curves)
    rows, start, digest = len(pool), 0, Digest()
    reason, score, key, copies = np.empty(rows, np.uint8), np.empty(rows), np.empty(rows), np.empty(rows, np.int32)
    for part in keyed(pool, scale, policy, seed):
        here = slice(start, start + len(part.pool))
        copies[here] = _copies(part, cuts)
        for times in range(1, int(copies[here].max(initial=0)) + 1):
            digest += Digest.of(part.hi, part.lo, copies[here] >= times)
        reason[here], score[here], key[here] = part.reason, part.score, part.key
        start = here.stop
    return Selection(reason == KEPT, reason, pool.stratum, score, key, copies, cuts, digest)


def _copies(part: Keyed, cuts: Cuts) -> NDArray[np.int32]:
    """How often each document is taken, int32 (docs,); the reason of what is taken becomes KEPT."""
    running = part.reason == BELOW_CUT
    mark_kept(part, cuts)
    times = np.where(running, cuts.extra[part.pool.stratum], 0) + (part.reason == KEPT)
    part.reason[times > 0] = KEPT
    copies: NDArray[np.int32] = (times if part.copies is None else times * part.copies).astype(np.int32)
    return copies


def _repeats(policy: Policy) -> int:
    """How often the whole pool of a stratum may be taken; the copies of a QuaDMix are in its curve."""
    return 1 if policy.quadmix is not None else policy.epochs


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
    masses, in_pool = [int(corpus[s]) for s in order], [int(pool[s]) for s in order]
    quotas, weights = _shares(policy, names, masses, in_pool, budget.amount)
    bounds = Bounds.of(policy.floor_table, policy.cap_table, names, budget.amount)
    if bounds:
        quotas = bounded(quotas, weights, names, bounds)
    if policy.spill == "none":
        weights = [0] * len(names)
    room = [amount * _repeats(policy) for amount in in_pool]
    spilled = spill(quotas, room, weights, names, policy.strata, bounds.caps)
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
