"""Copies, mixes of several scores, QuaDMix: what they promise, and the published scripts' faults that must not return."""

from __future__ import annotations

import math
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_selection import LABELS, counted, random_pool, taken
from typecase.core.document import id_from_key
from typecase.core.selection.decide import apply, decide, select
from typecase.core.selection.keys import Digest, hash_ids, raw_ids
from typecase.core.selection.mixed import apply_mixed, decide_mixed
from typecase.core.selection.quadmix import Curve, QuadMix, drawn_copies, expected_copies
from typecase.core.selection.selection import REASONS, Budget, Cuts, Policy, Pool, named_policy
from typecase.errors import FixInput

ALL = Policy(strata=())


def one_stratum(pool: Pool) -> Pool:
    return replace(pool, stratum=np.zeros(len(pool), np.int32))


# -- copies -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 250_000), st.integers(1, 5), st.sampled_from(["over", "under", "nearest"]))
def test_whole_copies_and_a_cut_for_the_rest(budget: int, epochs: int, cut: str) -> None:
    pool = one_stratum(random_pool(100))
    held, longest = int(pool.amount.sum()), int(pool.amount.max())
    made = select(pool, [()], budget=Budget(tokens=budget), policy=replace(ALL, epochs=epochs, cut=cut))
    met = int((pool.amount * made.copies).sum())
    assert met == int(made.cuts.met.sum()) and made.copies.max() <= epochs
    assert made.cuts.short == max(0, budget - epochs * held)
    assert abs(met - min(budget, epochs * held)) < longest
    assert made.copies.max() - made.copies.min() <= 1, "none twice while another waits"
    assert (made.kept == (made.copies > 0)).all()
    if made.copies.max() > made.copies.min():
        assert pool.score[made.copies == made.copies.max()].min() >= pool.score[made.copies == made.copies.min()].max()


def test_epochs_come_before_a_spill() -> None:
    pool = replace(counted(8), stratum=np.array([0, 0, 1, 1, 1, 1, 2, 3], np.int32))
    policy = Policy(quota="table", table={"books/law": 1.0})
    twice = select(pool, LABELS, budget=Budget(documents=5), policy=replace(policy, epochs=2, spill="none"))
    assert twice.cuts.met.tolist() == [4, 0, 0, 0] and twice.cuts.short == 1 and twice.cuts.extra.tolist() == [1, 0, 0, 0]
    with pytest.raises(FixInput, match=r"books/law \(5 of 4\)"):
        select(pool, LABELS, budget=Budget(documents=5), policy=replace(policy, epochs=2, spill="refuse"))


def test_the_digest_counts_copies() -> None:
    pool = one_stratum(counted(10))
    once, twice = (select(pool, [()], budget=Budget(documents=n), policy=replace(ALL, epochs=2)).digest for n in (10, 20))
    assert once != twice and once + once == twice


# -- each: several scores in turn -------------------------------------------------------------------------------------


def four_scores(num: int) -> list[Pool]:
    rng = np.random.default_rng(5)
    base = counted(num)
    return [replace(base, score=rng.normal(size=num)) for _ in range(4)]


MIX = replace(named_policy("qurating-mix:0.5", strata=("source", "domain")), strata=("source", "domain"))


def test_a_mix_draws_by_every_score_counts_once_and_fills_up() -> None:
    pools, budget = four_scores(2000), Budget(documents=800)
    cuts = decide_mixed(lambda k: [pools[k]], LABELS, budget=budget, policy=MIX, seed=1)
    made = apply_mixed(cuts, pools, policy=MIX, seed=1)
    assert int(made.kept.sum()) == 800 == int(cuts.rest.met.sum()) and cuts.rest.short == 0
    assert made.copies.max() == 1
    assert cuts.rest.met.tolist() == cuts.rest.asked.tolist(), "the rest fills what doublets left in every stratum"
    for pool in pools:
        assert pool.score[made.kept].mean() > pool.score.mean() + 0.2
    alone = [c.met.sum() for c in cuts.draws]
    assert alone == [200] * 4
    again = apply_mixed(cuts, pools, policy=MIX, seed=1)
    assert again.digest == made.digest and cuts.rest.kept.sum() == 800


def test_a_mix_does_not_depend_on_shards() -> None:
    pools, budget = four_scores(300), Budget(documents=100)
    whole = apply_mixed(
        decide_mixed(lambda k: [pools[k]], LABELS, budget=budget, policy=MIX, seed=1), pools, policy=MIX, seed=1
    )
    order = np.random.default_rng(0).permutation(300)
    pieces = [[taken(pool, rows) for rows in np.split(order, [10, 10, 200])] for pool in pools]
    cuts = decide_mixed(lambda k: pieces[k], LABELS, budget=budget, policy=MIX, seed=1)
    parts = [apply_mixed(cuts, list(part), policy=MIX, seed=1) for part in zip(*pieces, strict=True)]
    assert np.concatenate([p.kept for p in parts]).tolist() == whole.kept[order].tolist()
    digest = parts[0].digest
    for part in parts[1:]:
        digest += part.digest
    assert digest == whole.digest


def test_an_inverted_mix_is_a_negative_control() -> None:
    pools = four_scores(2000)
    policy = replace(MIX, inverted=True)
    cuts = decide_mixed(lambda k: [pools[k]], LABELS, budget=Budget(documents=400), policy=policy, seed=1)
    made = apply_mixed(cuts, pools, policy=policy, seed=1)
    assert all(pool.score[made.kept].mean() < pool.score.mean() - 0.1 for pool in pools)


# -- QuaDMix ----------------------------------------------------------------------------------------------------------


def test_the_curve_is_the_published_one() -> None:
    curve = Curve(20.0, 0.3, 0.7, 0.01)
    ranks = np.linspace(0, 1, 101)
    slow = [(2 / (1 + math.exp(-20 * (0.3 - r)))) ** 0.7 + 0.01 if r <= 0.3 else 0.01 for r in ranks]
    curves = np.repeat([[curve.steepness, curve.depth, curve.exponent, curve.floor]], 101, axis=0)
    np.testing.assert_allclose(expected_copies(ranks, curves, 10.0), slow, rtol=1e-12)
    assert expected_copies(ranks, curves, 1.0).max() == 1.0, "never more than the cap on epochs"


def test_copies_are_drawn_in_the_mean() -> None:
    ids = raw_ids([id_from_key(str(i)) for i in range(40_000)])
    words = hash_ids(ids, seed=1, purpose="select copies")
    for expected in (0.0, 0.1, 1.0, 1.7, 3.25):
        got = drawn_copies(np.full(40_000, expected), words)
        assert set(got.tolist()) <= {math.floor(expected), math.ceil(expected)}
        assert abs(got.mean() - expected) < 4 * math.sqrt(0.25 / 40_000)


def test_quadmix_follows_the_rank_and_the_domain() -> None:
    rng = np.random.default_rng(2)
    pool = replace(counted(20_000), score=rng.normal(size=20_000), amount=rng.integers(1, 100, 20_000))
    mix = QuadMix(Curve(200, 0.5, 1, 0.0), curves={"web": Curve(200, 0.1, 1, 0.0)})
    policy = Policy(key="uniform", quota="pool", epochs=3, quadmix=mix)
    made = select(pool, LABELS, budget=Budget(tokens=1 << 40), policy=policy, seed=3)
    assert made.copies.max() == 2 and set(made.counts()) == {"kept", "not drawn"}
    for s, label in enumerate(LABELS):
        here = pool.stratum == s
        kept = int(pool.amount[here & made.kept].sum()) / int(pool.amount[here].sum())
        assert abs(kept - (0.1 if label[0] == "web" else 0.5)) < 0.02, "a share of the tokens of the domain"
        assert pool.score[here & made.kept].min() > pool.score[here & ~made.kept].max() - 0.2
    assert int((pool.amount * made.copies).sum()) == int(made.cuts.met.sum())
    worst = select(pool, LABELS, budget=Budget(tokens=1 << 40), policy=replace(policy, inverted=True), seed=3)
    assert pool.score[worst.kept].mean() < pool.score.mean() < pool.score[made.kept].mean()
    less = select(pool, LABELS, budget=Budget(tokens=100_000), policy=policy, seed=3)
    assert abs(int(less.cuts.met.sum()) - 100_000) < 4 * 200 and not (less.kept & ~made.kept).any()


def test_quadmix_weights_are_one_for_each_criterion() -> None:
    mix = QuadMix(alphas={"web": (0.2, 0.8)})
    assert mix.alphas_of([("books",), ("web", "law")], [1.0, 1.0]).tolist() == [[1.0, 1.0], [0.2, 0.8]]
    with pytest.raises(FixInput, match="'web' has 2 weights for 1 criteria"):
        mix.alphas_of([("web",)], [1.0])


# -- keys -------------------------------------------------------------------------------------------------------------


def test_cost_aware_draws_buy_more_score_for_a_token() -> None:
    rng = np.random.default_rng(4)
    pool = one_stratum(replace(random_pool(5000, longest=2000), score=rng.integers(1, 6, 5000).astype(np.float64)))
    means = {}
    for key in ("uniform", "proportional", "per_token"):
        made = select(pool, [()], budget=Budget(tokens=400_000), policy=replace(ALL, key=key), seed=1)
        means[key] = pool.score[made.kept].sum() / pool.amount[made.kept].sum()
    assert means["per_token"] > 1.5 * means["proportional"] > 1.5 * means["uniform"] > 0


def test_a_band_and_its_inverse_share_the_pool() -> None:
    rng = np.random.default_rng(4)
    pool = replace(counted(4000), score=rng.normal(size=4000))
    band = named_policy("perplexity:middle:25-75")
    inside, outside = (
        select(pool, LABELS, budget=Budget(documents=4000), policy=replace(p, strata=("source", "domain")), seed=1)
        for p in (band, replace(band, inverted=True))
    )
    assert (inside.kept ^ outside.kept).all() and abs(int(inside.kept.sum()) - 2000) <= 4
    low, high = np.quantile(pool.score[pool.stratum == 0], [0.25, 0.75])
    kept = pool.score[(pool.stratum == 0) & inside.kept]
    assert low - 0.02 < kept.min() < kept.max() < high + 0.02
    middle = Policy(key="middle")
    made = select(pool, LABELS, budget=Budget(documents=2000), policy=middle)
    np.testing.assert_allclose(
        [pool.score[made.kept].min(), pool.score[made.kept].max()], np.quantile(pool.score, [0.25, 0.75]), atol=0.12
    )
    tails = select(pool, LABELS, budget=Budget(documents=2000), policy=replace(middle, inverted=True))
    assert abs(int((made.kept & tails.kept).sum())) <= 8


def test_ranks_make_scales_comparable() -> None:
    pool = replace(counted(2000), score=np.exp(np.random.default_rng(0).normal(size=2000) * 5))
    policy = Policy(key="gumbel", temperature=0.2, normalise="stratum_rank")
    same = select(replace(pool, score=np.log(pool.score)), LABELS, budget=Budget(documents=300), policy=policy, seed=1)
    assert select(pool, LABELS, budget=Budget(documents=300), policy=policy, seed=1).digest == same.digest


def test_cost_aware_draws_are_plackett_luce_by_score_per_token() -> None:
    """8 documents in each of 20,000 strata: the first of each is drawn with chance weight / sum of weights."""
    draws, scores, amounts = 20_000, [1, 2, 3, 4, 5, 1, 2, 3], [10, 10, 90, 20, 200, 1, 400, 30]
    rng = np.random.default_rng(1)
    pool = Pool(
        rng.integers(0, 256, (8 * draws, 16)).astype(np.uint8),
        np.tile(amounts, draws).astype(np.int64),
        np.repeat(np.arange(draws), 8).astype(np.int32),
        np.tile(scores, draws).astype(np.float64),
    )
    labels = [(f"{i:05d}",) for i in range(draws)]
    made = select(pool, labels, budget=Budget(tokens=0), policy=Policy(key="per_token", strata=("draw",)), seed=1)
    first = np.bincount(made.key.reshape(draws, 8).argmax(1), minlength=8) / draws
    weights = np.array(scores) / np.array(amounts)
    assert np.abs(first - weights / weights.sum()).max() < 4 * math.sqrt(0.25 / draws)


# -- processes --------------------------------------------------------------------------------------------------------

SAMPLED = Policy(key="gumbel", temperature=0.3, normalise="stratum_rank", epochs=2)


def applied(job: tuple[Cuts, Pool]) -> tuple[int, int]:
    made = apply(job[0], job[1], policy=SAMPLED, seed=9)
    return made.digest.first, made.digest.second


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_start_method_and_the_workers_do_not_matter(method: str) -> None:
    pool = counted(400)
    order = np.random.default_rng(0).permutation(400)
    whole = select(pool, LABELS, budget=Budget(documents=500), policy=SAMPLED, seed=9)
    for workers in (1, 2, 4) if method == "fork" else (2,):
        shards = [taken(pool, rows) for rows in np.array_split(order, workers)]
        cuts = decide(shards, LABELS, budget=Budget(documents=500), policy=SAMPLED, seed=9)
        with multiprocessing.get_context(method).Pool(min(2, workers)) as processes:
            sums = processes.map(applied, [(cuts, shard) for shard in shards])
        total = sum((Digest(*one) for one in sums), Digest())
        assert total == whole.digest


# -- faults of the published scripts ----------------------------------------------------------------------------------


def test_ties_are_broken_the_same_way_in_any_order() -> None:
    """Fault e: integer ratings tie by the thousand, and an unstable sort decided."""
    pool = counted(3000)
    made = select(pool, LABELS, budget=Budget(documents=500), policy=named_policy("dataman:accuracy"))
    order = np.random.default_rng(1).permutation(3000)
    moved = select(taken(pool, order), LABELS, budget=Budget(documents=500), policy=named_policy("dataman:accuracy"))
    assert (made.kept[order] == moved.kept).all()
    assert (pool.score[made.kept] == 5).all() and (pool.score[~made.kept] == 5).any()


def test_no_domain_column_is_no_crash() -> None:
    """Fault f: strata without a domain, target domains without target scores."""
    pool = counted(100)
    labels = [("books",), ("web",)]
    folded = replace(pool, stratum=(pool.stratum // 2).astype(np.int32))
    policy = named_policy("dataman:overall=4-5", strata=("source",))
    made = select(folded, labels, budget=Budget(documents=20), policy=policy, seed=1)
    assert int(made.kept.sum()) == 20 and (pool.score[made.kept] >= 4).all()
    law = named_policy("uniform@law", strata=("source", "domain"))
    assert np.isin(pool.stratum[select(pool, LABELS, budget=Budget(documents=20), policy=law, seed=1).kept], [0, 2]).all()


@pytest.mark.parametrize("salt", ["0", "1", "12345"])
def test_strata_are_known_by_their_names_in_any_process(salt: str) -> None:
    """Fault g: domains went through the language's salted hash; another salt made other strata."""
    code = (
        "from tests.core.test_selection import LABELS, counted\n"
        "from typecase.core.selection.decide import select\n"
        "from typecase.core.selection.selection import Budget, named_policy\n"
        "print(select(counted(500), LABELS, budget=Budget(documents=100), policy=named_policy('sampled:1'), seed=1).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    here = select(counted(500), LABELS, budget=Budget(documents=100), policy=named_policy("sampled:1"), seed=1).digest
    assert done.stdout.strip() == str(here)


def test_memory_is_strata_and_not_strata_times_rows() -> None:
    """Fault h: one mask over the corpus for each stratum. Here 20,000 strata take two passes over the pools."""
    num = 40_000
    pool = replace(counted(num), stratum=(np.arange(num) % 20_000).astype(np.int32))
    passes = 0

    class Counted:
        def __iter__(self):  # type: ignore[no-untyped-def]
            nonlocal passes
            passes += 1
            yield pool

    labels = [(f"{i:05d}",) for i in range(20_000)]
    policy = Policy(strata=("topic",))
    cuts = decide(Counted(), labels, budget=Budget(documents=20_000), policy=policy)
    assert int(cuts.met.sum()) == 20_000 and passes <= 6
    assert (apply(cuts, pool, policy=policy).kept.reshape(2, 20_000).sum(0) == 1).all()


def test_every_reason_has_a_name() -> None:
    assert REASONS[7] == "not drawn" and len(REASONS) == 8
