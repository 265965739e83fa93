"""Drift: tails equal scipy's, what moved is found, what did not move raises no alarm."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from typecase.core.drift import (
    anchor_drift,
    chi_square,
    chi_square_tail,
    criterion_shift,
    holm,
    kolmogorov_tail,
    ks_gap,
    stability_index,
)


@given(st.floats(0.01, 80), st.integers(1, 40))
def test_tails_equal_scipys(x: float, freedom: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    assert chi_square_tail(x, freedom) == pytest.approx(stats.chi2.sf(x, freedom), rel=1e-9, abs=1e-300)
    assert kolmogorov_tail(x / 10) == pytest.approx(stats.kstwobign.sf(x / 10), rel=1e-6, abs=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_gap_and_shares_equal_scipys(old: list[int], new: list[int]) -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = np.array(old, np.float64), np.array(new, np.float64)
    assert ks_gap(a, b)[0] == pytest.approx(stats.ks_2samp(a, b, method="asymp").statistic)
    counts = [np.bincount(side, minlength=7) for side in (old, new)]
    statistic, freedom, p, effect = chi_square(*counts)
    used = (counts[0] + counts[1]) > 0
    if used.sum() > 1:
        oracle = stats.chi2_contingency(np.array(counts)[:, used], correction=False)
        assert (statistic, freedom, p) == pytest.approx((oracle.statistic, oracle.dof, oracle.pvalue))
        assert 0 <= effect <= 1
    else:
        assert (statistic, p) == (0.0, 1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_the_step_down_rule(ps: list[float]) -> None:
    fair = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, fair, strict=True))
    order = np.argsort(ps, kind="stable")
    rejected = [k for k in order if fair[k] <= 0.05]
    for rank, k in enumerate(order):  # reject while p <= alpha / (tests left)
        if ps[k] > 0.05 / (len(ps) - rank):
            assert rejected == order[:rank].tolist()
            break


def test_the_index_is_nothing_for_the_same_and_large_for_the_moved() -> None:
    dice = np.random.default_rng(0)
    old = dice.normal(0, 1, 4000)
    assert stability_index(old, old) == 0
    assert stability_index(old, dice.normal(0, 1, 4000)) < 0.02
    assert stability_index(old, dice.normal(0.8, 1, 4000)) > 0.25
    levels = dice.integers(1, 6, 3000).astype(np.float64)
    assert stability_index(levels, levels) == 0
    assert stability_index(np.full(50, 2.0), np.full(50, 3.0)) > 1
    assert np.isnan(stability_index(old, np.zeros(0)))


def test_the_shift_covers_its_truth_over_groups() -> None:
    dice = np.random.default_rng(1)
    hits = 0
    for seed in range(40):
        effects = dice.normal(0, 0.5, 80)
        old, new = np.repeat(effects[:40], 10), np.repeat(effects[40:], 10) + 0.3
        group = np.repeat(np.arange(40), 10)
        found = criterion_shift("x", old, new, group, group, resamples=200, seed=seed)
        hits += found.shift.low <= 0.3 <= found.shift.high
        assert found.shift.value == pytest.approx(found.mean_new - found.mean_old)
    assert hits >= 33  # of 40 at a nominal 95 %


def test_missing_scores_are_left_out() -> None:
    nothing = criterion_shift(
        "x", np.array([np.nan]), np.array([1.0]), np.zeros(1, int), np.zeros(1, int), resamples=10, seed=0
    )
    assert nothing.num_old == 0 and np.isnan(nothing.index) and nothing.p == 1
    some = criterion_shift(
        "x", np.array([1.0, np.nan, 2.0]), np.array([1.0, 2.0]), np.arange(3), np.arange(2), resamples=50, seed=0
    )
    assert some.num_old == 2 and some.mean_old == 1.5


def test_anchors_raise_an_alarm_when_the_rater_moves_and_only_then() -> None:
    dice = np.random.default_rng(2)
    old = dice.uniform(1, 5, 300)
    group = np.arange(300) % 60

    def alarm(new: np.ndarray) -> bool:
        return anchor_drift("x", old, new, group, tolerance=0.1, resamples=300, seed=0).alarm

    assert not alarm(old) and not alarm(old + dice.normal(0, 0.2, 300))
    assert alarm(old + 0.3)
    assert not alarm(old + 0.05)  # sure, but smaller than the tolerance
    jumped = old.copy()
    jumped[:40] += np.where(np.arange(40) % 2, 2, -2)  # no shift of the mean, yet many jumps
    assert alarm(jumped)
    assert (
        anchor_drift("x", np.array([np.nan]), np.array([1.0]), np.zeros(1, int), tolerance=0.1, resamples=9, seed=0).anchors
        == 0
    )
