"""Agreement: weights equal rows written out, figures equal scipy's and scikit-learn's, intervals draw groups."""

from __future__ import annotations

import warnings
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits

from typecase.core.learn.agreement_many import ordinal_alpha
from typecase.core.learn.agreement_pair import (
    ALL_FIGURES,
    abstention,
    baselines,
    class_figures,
    levels_of,
    pair_figures,
    positive_level,
)
from typecase.core.learn.bootstrap import groups_of, interval_of, intervals, mean_interval, row_weights
from typecase.core.learn.calibration import fit_isotonic, fit_logistic, fit_temperature, held_out, tempered
from typecase.core.learn.ranks import kendall_tau, weighted_spearman

ROWS = st.lists(st.tuples(st.integers(2, 10), st.integers(1, 5), st.integers(0, 3)), min_size=2, max_size=25)
ONE = np.ones((1, 1))


def made(num: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(seed)
    left = np.round(np.clip(dice.normal(3, 1, num), 1, 5), 1)
    return left, np.clip(np.round(left + dice.normal(0, 0.8, num)), 1, 5)


@given(ROWS)
def test_a_weight_is_a_row_written_out_as_often(rows: list[tuple[int, int, int]]) -> None:
    left, right, times = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    left = left / 2
    if times.sum() < 2:
        return
    often = times.astype(int)
    weighed = pair_figures(left, right, times[None, :], low=1, high=5)
    a, b = np.repeat(left, often), np.repeat(right, often)
    plain = pair_figures(a, b, np.ones((1, len(a))), low=1, high=5)
    for name in ALL_FIGURES:
        np.testing.assert_allclose(weighed[name], plain[name], atol=1e-9, err_msg=name)


@limits(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30))
def test_rank_correlations_equal_scipys(rows: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    ones = np.ones((1, len(a)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rho, tau = stats.spearmanr(a, b)[0], stats.kendalltau(a, b)[0]
    np.testing.assert_allclose(weighted_spearman(a, b, ones)[0], rho, atol=1e-9)
    np.testing.assert_allclose(kendall_tau(a, b)[0], tau, atol=1e-9)


def test_figures_equal_scikit_learns() -> None:
    metrics: Any = pytest.importorskip("sklearn.metrics")
    left, right = made()
    a, b = levels_of(left, low=1, high=5), levels_of(right, low=1, high=5)
    found = {name: values[0] for name, values in pair_figures(left, right, np.ones((1, len(left))), low=1, high=5).items()}
    assert found["exact"] == pytest.approx(metrics.accuracy_score(b, a))
    assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(a, b))
    assert found["quadratic_kappa"] == pytest.approx(metrics.cohen_kappa_score(a, b, weights="quadratic"))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(b, a, average="macro"))
    assert found["two_class"] == pytest.approx(metrics.accuracy_score(b >= 2, a >= 2))
    assert found["positive"] == pytest.approx(metrics.recall_score(b >= 2, a >= 2))
    assert found["negative"] == pytest.approx(metrics.recall_score(b < 2, a < 2))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(right, left))
    assert found["bias"] == pytest.approx(float((left - right).mean()))
    assert found["pearson"] == pytest.approx(np.corrcoef(left, right)[0, 1])
    classes = class_figures(a, b, np.ones((1, len(a))), size=5)
    assert classes["accuracy"][0] == pytest.approx(metrics.accuracy_score(b, a))
    assert classes["kappa"][0] == pytest.approx(metrics.cohen_kappa_score(a, b))


def test_what_does_not_exist_is_nan_and_not_a_number_to_be_proud_of() -> None:
    same = np.full(6, 4.0)
    found = pair_figures(same, same, np.ones((1, 6)), low=1, high=5)
    assert found["exact"][0] == 1
    for name in ("kappa", "quadratic_kappa", "pearson", "spearman", "kendall", "negative"):
        assert np.isnan(found[name][0]), name


def test_levels_and_the_positive_level() -> None:
    assert levels_of(np.array([0.2, 1.5, 2.49, 2.5, 9]), low=1, high=5).tolist() == [0, 1, 1, 2, 4]
    assert (positive_level(1, 5), positive_level(0, 5), positive_level(1, 4)) == (3, 3, 3)


def test_trivial_raters_are_what_their_names_say() -> None:
    left, right = made(5000)
    found = baselines(left, right, low=1, high=5)
    share = np.bincount(right.astype(int), minlength=6)[1:] / len(right)
    assert found["majority"]["exact"] == pytest.approx(share.max())
    assert found["prior"]["exact"] == pytest.approx((share**2).sum())
    drawn = np.random.default_rng(1).permutation(right)
    assert found["prior"]["within_one"] == pytest.approx(float((np.abs(drawn - right) <= 1).mean()), abs=0.03)
    assert found["majority"]["quadratic_kappa"] == pytest.approx(0, abs=1e-9)


def test_alpha_equals_its_definition_and_the_published_example() -> None:
    text = "*****341211 33*3".replace(" ", ""), "1*2133 43*******".replace(" ", ""), "**2134 4*2113 3*4".replace(" ", "")
    levels = np.array([[int(c) - 1 if c != "*" else -1 for c in row] for row in text]).T
    ones = np.ones((1, len(levels)))
    assert ordinal_alpha(levels, ones, size=4)[0] == pytest.approx(slow_alpha(levels, 4), abs=1e-12)
    assert ordinal_alpha(levels, ones, size=4)[0] == pytest.approx(0.807, abs=5e-4)  # three coders, Krippendorff 2011


@given(st.lists(st.lists(st.integers(-1, 3), min_size=3, max_size=3), min_size=3, max_size=15))
def test_alpha_equals_a_slow_one(rows: list[list[int]]) -> None:
    levels = np.array(rows)
    np.testing.assert_allclose(ordinal_alpha(levels, np.ones((1, len(rows))), size=4)[0], slow_alpha(levels, 4), atol=1e-9)


def slow_alpha(levels: np.ndarray, size: int) -> float:
    """Over pairs of readings, as it is defined."""
    units = [[v for v in row if v >= 0] for row in levels.tolist()]
    units = [row for row in units if len(row) > 1]
    values = [v for row in units for v in row]
    counts = np.bincount(np.array(values, np.int64), minlength=size)

    def distance(a: int, b: int) -> float:
        low, high = min(a, b), max(a, b)
        return float(counts[low : high + 1].sum() - (counts[low] + counts[high]) / 2) ** 2

    seen = sum(distance(a, b) / (len(row) - 1) for row in units for i, a in enumerate(row) for j, b in enumerate(row) if i != j)
    chance = sum(distance(a, b) for i, a in enumerate(values) for j, b in enumerate(values) if i != j)
    if chance == 0:
        return float("nan")
    return 1 - (seen / len(values)) / (chance / (len(values) * (len(values) - 1)))


def test_resamples_draw_whole_groups_and_depend_on_the_seed_alone() -> None:
    group = groups_of(["b", "a", "b", "c", "c"])
    assert group.tolist() == [1, 0, 1, 2, 2]
    drawn = np.concatenate(list(row_weights(group, resamples=200, seed=3)))
    assert drawn.shape == (200, 5)
    assert (drawn[:, 0] == drawn[:, 2]).all() and (drawn[:, 3] == drawn[:, 4]).all()
    assert (drawn[:, [0, 1, 3]].sum(axis=1) == 3).all()
    assert np.array_equal(drawn, np.concatenate(list(row_weights(group, resamples=200, seed=3))))
    assert not np.array_equal(drawn, np.concatenate(list(row_weights(group, resamples=200, seed=4))))


def test_an_interval_of_groups_is_wider_than_one_of_rows_and_covers() -> None:
    dice = np.random.default_rng(0)
    hits = 0
    for seed in range(60):
        effect = np.repeat(dice.normal(0, 1, 60), 10)
        values, group = effect + dice.normal(0, 0.3, 600), np.repeat(np.arange(60), 10)
        wide, narrow = (mean_interval(values, g, resamples=200, seed=seed) for g in (group, np.arange(600)))
        assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
        hits += wide.low <= 0 <= wide.high
    assert hits >= 50  # of 60 at a nominal 95 %


def test_undefined_resamples_are_left_out_and_counted() -> None:
    found = interval_of(0.5, np.array([0.4, np.nan, 0.6, np.nan]))
    assert found.defined == 0.5 and 0.4 <= found.low <= found.high <= 0.6
    assert np.isnan(interval_of(float("nan"), np.array([np.nan])).low)
    assert intervals(lambda w: {"x": w[:, 0]}, np.zeros(0, np.int64)) == {}


def test_abstention_answers_the_surest_first() -> None:
    trust, right = np.array([0.9, 0.5, 0.9, 0.1]), np.array([True, False, True, False])
    assert abstention(trust, right, (1.0, 0.5, 0.25)) == [(1.0, 0.1, 0.5), (0.5, 0.9, 1.0), (0.5, 0.9, 1.0)]
    assert abstention(np.zeros(0), np.zeros(0, np.bool_), (1.0,)) == []


def test_curves_find_what_made_the_answers() -> None:
    dice = np.random.default_rng(2)
    x = dice.normal(0, 1, 4000)
    yes = (dice.random(4000) < 1 / (1 + np.exp(-(1 + 2 * x)))).astype(np.float64)
    curve = fit_logistic(x, yes)
    assert curve.start == pytest.approx(1, abs=0.15) and curve.slope == pytest.approx(2, abs=0.2)
    rising = fit_isotonic(x, yes)(np.sort(x))
    assert (np.diff(rising) >= 0).all() and rising[0] < 0.1 < 0.9 < rising[-1]
    separable = fit_logistic(np.array([1.0, 2, 3, 4]), np.array([0.0, 0, 1, 1]))
    assert np.isfinite(separable.slope) and separable.slope > 0


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=25))
def test_isotonic_equals_scikit_learns_at_its_values(rows: list[tuple[int, int, int]]) -> None:
    isotonic: Any = pytest.importorskip("sklearn.isotonic")
    x, y, w = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    ours = fit_isotonic(x, y, w)
    np.testing.assert_allclose(ours(x), isotonic.IsotonicRegression().fit(x, y, w).predict(x), atol=1e-9)


def test_a_sharp_border_stays_sharp() -> None:
    x = np.linspace(1, 5, 41)
    curve = fit_isotonic(x, (x > 3).astype(np.float64))
    assert curve(np.array([2.9, 3.0, 3.1])).tolist() == [0.0, 0.0, 1.0]


def test_temperature_cools_what_is_too_sure() -> None:
    dice = np.random.default_rng(3)
    logits = dice.normal(0, 1, (3000, 4))
    share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = np.array([dice.choice(4, p=row) for row in share])
    heat = fit_temperature(3 * logits, truth)
    assert heat == pytest.approx(3, rel=0.1)
    np.testing.assert_allclose(tempered(3 * logits, 3.0), share, atol=1e-9)


def test_held_out_values_never_saw_their_own_group() -> None:
    group = np.repeat(np.arange(5), 4)

    def fit(rows: np.ndarray) -> Any:
        return lambda asked: np.array([float(group[k] in group[rows]) for k in asked])

    assert held_out(group, fit, folds=3, seed=0).sum() == 0
    with pytest.raises(ValueError, match="two groups"):
        held_out(np.zeros(3, np.int64), fit, folds=3, seed=0)
