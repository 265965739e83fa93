"""Joint histograms: ranks and quantiles as a naive computation over the rows gives them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from typecase.core.learn.agreement import spearman
from typecase.core.statistics.joint import BINS, Scale, curve_of, joint_counts, quantile_of, spearman_of

LEVELS = arrays.arrays(np.int64, st.tuples(st.just(2), st.integers(2, 40)), elements=st.integers(1, 5))


@given(LEVELS)
def test_whole_levels_rank_exactly(levels: np.ndarray) -> None:
    bins = Scale(1, 5).bins(levels)
    rank = spearman_of(joint_counts(bins[0], bins[1]))
    if len(set(levels[0])) == 1 or len(set(levels[1])) == 1:
        assert math.isnan(rank.rho)
    else:
        assert rank.rho == pytest.approx(spearman(levels[0], levels[1]), abs=1e-12)
        assert rank.low <= rank.rho <= rank.high and rank.rows == levels.shape[1]


def test_smooth_scores_rank_nearly_and_holes_are_left_out() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(3, 0.7, 20_000).clip(1, 5)
    y = (0.6 * x + rng.normal(1, 0.7, 20_000)).clip(1, 5)
    holes = rng.random(20_000) < 0.1
    scale = Scale(1, 5)
    rank = spearman_of(joint_counts(scale.bins(np.where(holes, np.nan, x)), scale.bins(y)))
    assert rank.rho == pytest.approx(spearman(x[~holes], y[~holes]), abs=1e-3) and rank.rows == (~holes).sum()


def test_the_interval_holds_the_true_value_as_often_as_it_says() -> None:
    """2,000 samples of 60 rows of a bivariate normal with r = 0.5, whose Spearman is 6 / pi * asin(r / 2)."""
    rng = np.random.default_rng(7)
    truth = 6 / math.pi * math.asin(0.25)
    scale, held = Scale(-5.0, 5.0), 0
    for _ in range(2000):
        x = rng.normal(size=60)
        y = 0.5 * x + math.sqrt(0.75) * rng.normal(size=60)
        rank = spearman_of(joint_counts(scale.bins(x), scale.bins(y)))
        held += rank.low <= truth <= rank.high
    assert 0.93 <= held / 2000 <= 0.97


def test_two_rows_and_fewer_say_nothing_for_certain() -> None:
    nothing = np.zeros((BINS, BINS), np.int64)
    assert math.isnan(spearman_of(nothing).rho) and curve_of(nothing, 5) == []
    two = nothing.copy()
    two[3, 4] = two[9, 8] = 1
    assert (spearman_of(two).rho, spearman_of(two).low, spearman_of(two).high) == (1.0, -1.0, 1.0)


def test_what_lies_beyond_the_scale_is_at_its_edge_and_no_number_is_nowhere() -> None:
    assert Scale(0, 16).bins(np.array([-3.0, 0.0, 15.99, 16.0, 99.0, np.nan, np.inf])).tolist() == [0, 0, 255, 255, 255, -1, -1]


@given(
    arrays.arrays(np.int64, st.integers(1, 50), elements=st.integers(0, BINS - 1)), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
)
def test_a_quantile_has_its_share_below(bins: np.ndarray, share: float) -> None:
    place = quantile_of(np.bincount(bins, minlength=BINS), share)
    assert (bins < math.floor(place - 1e-9)).mean() <= share <= (bins < place + 1e-9).mean() or share == 0.0
    assert bins.min() <= place <= bins.max() + 1


def test_a_curve_follows_the_rows_of_its_slices() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, BINS, 5000), rng.integers(0, BINS, 5000)
    y = (x + y) // 2
    slices = curve_of(joint_counts(x, y), 8)
    assert len(slices) == 8 and sum(one.rows for one in slices) == 5000
    assert max(one.rows for one in slices) < 1.2 * 5000 / 8
    assert [one.mean for one in slices] == sorted(one.mean for one in slices)
    assert np.average([one.mean for one in slices], weights=[one.rows for one in slices]) == pytest.approx(y.mean() + 0.5)
    assert all(one.quarter <= one.median <= one.three_quarters for one in slices)


def test_a_finer_scale_on_one_side() -> None:
    """What two bins of the finer scale hold is what one bin of the coarse one holds."""
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0, 4, 3000), Scale(0, 4).bins(rng.uniform(0, 4, 3000))
    fine = joint_counts(Scale(0, 4, 2 * BINS).bins(x), y, 2 * BINS)
    assert fine.shape == (2 * BINS, BINS)
    assert (fine.reshape(BINS, 2, BINS).sum(axis=1) == joint_counts(Scale(0, 4).bins(x), y)).all()
    assert spearman_of(fine).rho == pytest.approx(spearman_of(joint_counts(Scale(0, 4).bins(x), y)).rho, abs=0.002)


def test_counts_of_shards_add_up() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(-1, BINS, 500), rng.integers(-1, BINS, 500)
    assert (joint_counts(x, y) == joint_counts(x[:99], y[:99]) + joint_counts(x[99:], y[99:])).all()
