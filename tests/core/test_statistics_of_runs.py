"""Figures of a few runs: correlations against scipy, tokens to reach a loss, intervals over seeds and documents."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.statistics.correlations import correlations
from typecase.core.statistics.reach import Curve, mean_curve, tokens_to_reach
from typecase.core.statistics.seeded import figures_of, student_975, student_interval
from typecase.errors import BadQuery

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("seed", range(4))
def test_coefficients_are_those_of_scipy(seed: int) -> None:
    dice = np.random.default_rng(seed)
    x = dice.normal(size=12)
    y = np.round(x + dice.normal(size=12), 1)
    found = {one.kind: one for one in correlations(x, y)}
    truth = {
        "pearson": stats.pearsonr(x, y).statistic,
        "spearman": stats.spearmanr(x, y).statistic,
        "kendall": stats.kendalltau(x, y).statistic,
    }
    for kind, value in truth.items():
        one = found[kind]
        assert one.value == pytest.approx(value) and one.low <= one.value <= one.high and 0 < one.chance <= 1


def test_what_never_varies_has_no_correlation() -> None:
    assert all(math.isnan(one.value) for one in correlations(np.ones(5), np.arange(5.0)))


def test_a_loss_is_reached_between_two_looks_or_never() -> None:
    curve = Curve((100, 200, 300), (4.0, 3.0, 3.5))
    assert tokens_to_reach(curve, 3.5) == 150 and tokens_to_reach(curve, 4.5) == 100
    assert tokens_to_reach(curve, 3.0) == 200 and tokens_to_reach(curve, 2.0) is None
    assert mean_curve([curve, Curve((100, 200, 300), (2.0, 1.0, 1.5))]).losses == (3.0, 2.0, 2.5)
    with pytest.raises(BadQuery):
        mean_curve([curve, Curve((1, 2), (1.0, 1.0))])
    with pytest.raises(BadQuery):
        Curve((2, 1), (1.0, 1.0))


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=9))
def test_the_interval_of_a_few_seeds_is_students(values: list[float]) -> None:
    low, high = student_interval(values)
    array = np.array(values)
    half = stats.t.ppf(0.975, len(values) - 1) * array.std(ddof=1) / math.sqrt(len(values))
    assert low == pytest.approx(array.mean() - half, abs=1e-2 * (1 + half)) and high >= low
    assert student_975(30) == pytest.approx(stats.t.ppf(0.975, 30), abs=1e-4)


def test_arms_are_compared_on_the_same_seeds_and_documents() -> None:
    dice = np.random.default_rng(1)
    base = dice.normal(10, 1, (3, 200))
    sums = {"clean": base, "noisy": base + 2.0, "refined": base + 0.5}
    found = figures_of(sums, np.ones(200), np.arange(200), resamples=200)
    assert found.interval("clean").value == pytest.approx(base.mean())
    difference = found.difference("noisy", "clean")
    assert difference.low == pytest.approx(2.0) and difference.high == pytest.approx(2.0)  # paired: what is common goes
    share = found.recovered("refined", clean="clean", noisy="noisy")
    assert share.value == pytest.approx(0.75) and found.ranks()["clean"] == (1.0, 1.0)
    with pytest.raises(BadQuery):
        figures_of({"a": base, "b": base[:2]}, np.ones(200), np.arange(200))
