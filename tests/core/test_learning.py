"""Learning: ridge against its normal equations, trees against what they must learn, figures against slow versions."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from typecase.core.learn.agreement import (
    calibration_error,
    macro_f1,
    mean_ranks,
    monotone_fit,
    quadratic_kappa,
    reliability,
    spearman,
)
from typecase.core.learn.ridge import add_linear, softmax, solve
from typecase.core.learn.trees import Growth, forest_outputs, grow_forest

GROWTH = Growth(trees=60, depth=3, rate=0.2, rows=0.8, measures=0.8, least_weight=2, damping=1)
LEVELS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=30)


def test_ridge_in_the_dual_equals_ridge_in_the_primal() -> None:
    dice = np.random.default_rng(1)
    x, y, weight = dice.normal(size=(30, 4)), dice.normal(size=(30, 2)), dice.uniform(0.5, 2, 30)
    duals, mean = solve(x @ x.T, y, weight, damping=0.3)
    by_weight = np.diag(weight)
    primal = np.linalg.solve(x.T @ by_weight @ x + 0.3 * np.eye(4), x.T @ by_weight @ (y - mean))
    np.testing.assert_allclose(x.T @ duals, primal, atol=1e-9)


def test_linear_sums_and_chances() -> None:
    dice = np.random.default_rng(2)
    rows, weights = dice.normal(size=(5, 3)).astype(np.float32), dice.normal(size=(3, 4)).astype(np.float32)
    out = np.zeros((5, 4), np.float32)
    add_linear(rows, weights, out)
    np.testing.assert_allclose(out, rows @ weights, atol=1e-5)
    share = softmax(out, heat=0.5)
    np.testing.assert_allclose(share.sum(axis=1), 1, atol=1e-6)
    assert (share.argmax(axis=1) == out.argmax(axis=1)).all()
    assert softmax(np.zeros((2, 0), np.float32), heat=1.0).shape == (2, 0)


def grown(seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dice = np.random.default_rng(5)
    x = dice.normal(size=(400, 6)).astype(np.float32)
    y = np.column_stack([(x[:, 0] > 0) * 2.0, (x[:, 0] > 0) * (x[:, 1] > 0) * 1.0 + 3])
    return x, y, forest_outputs(grow_forest(x, y, np.ones(400), GROWTH, seed=seed), x)


def test_trees_learn_steps_and_products_of_steps() -> None:
    _, y, said = grown()
    assert np.abs(said - y).mean() < 0.1


def test_equal_seeds_grow_equal_forests_and_rows_do_not_depend_on_their_batch() -> None:
    x, _, said = grown()
    np.testing.assert_array_equal(said, grown()[2])
    assert (said != grown(seed=2)[2]).any()
    dice = np.random.default_rng(6)
    forest = grow_forest(x, dice.normal(size=(400, 3)), np.ones(400), GROWTH, seed=1)
    np.testing.assert_array_equal(forest_outputs(forest, x)[7:9], forest_outputs(forest, x[7:9]))


def test_rows_of_no_weight_teach_nothing() -> None:
    x, y, _ = grown()
    weight = np.r_[np.ones(200), np.full(200, 1e-12)]
    lied = y.copy()
    lied[200:] = 100
    said = forest_outputs(grow_forest(x, lied, weight, GROWTH, seed=1), x)
    assert said.max() < 10


def test_a_constant_is_learned_as_it_is() -> None:
    x, _, _ = grown()
    said = forest_outputs(grow_forest(x, np.full((400, 1), 3.0), np.ones(400), GROWTH, seed=1), x)
    np.testing.assert_allclose(said, 3, atol=1e-5)


def test_a_forest_without_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="a forest needs trees > 0"):
        Growth(0, 3, 0.1, 1, 1, 1, 1)


@given(LEVELS)
def test_figures_equal_slow_versions(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(side) for side in zip(*pairs))
    assert mean_ranks(a).tolist() == [sum(x < y for x in a) + (sum(x == y for x in a) - 1) / 2 for y in a]
    observed = np.mean((a - b) ** 2)
    expected = np.mean([(x - y) ** 2 for x in a for y in b])
    assert quadratic_kappa(a, b, low=1, high=5) == pytest.approx(1 - observed / expected if expected else 0)
    if len(set(a.tolist())) > 1:
        assert spearman(a, a) == pytest.approx(1) and spearman(a, -a) == pytest.approx(-1)
    assert macro_f1(a, a, num_classes=6) == 1


def test_constants_correlate_with_nothing() -> None:
    assert spearman([1, 1, 1], [1, 2, 3]) == 0 and quadratic_kappa([3, 3], [3, 3], low=1, high=5) == 0


def test_calibration_counts_bins() -> None:
    confidence, truth = [0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0]
    assert calibration_error(confidence, truth, num_bins=10) == pytest.approx(0.5 * 0.45 + 0.5 * 0.15)
    assert reliability(confidence, truth, num_bins=10) == [(2, pytest.approx(0.15), 0), (2, pytest.approx(0.95), 0.5)]


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-9, 9)), min_size=1, max_size=25))
def test_a_monotone_fit_is_the_nearest_non_decreasing_function(points: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, np.float64) for side in zip(*points))
    knots, heights = monotone_fit(x, y, np.ones(len(x)))
    assert (np.diff(knots) > 0).all() and (np.diff(heights) >= 0).all()
    places = sorted(set(x.tolist()))
    means = [y[x == place].mean() for place in places]
    masses = [float((x == place).sum()) for place in places]

    def pooled(i: int, j: int) -> float:
        return float(np.average(means[i : j + 1], weights=masses[i : j + 1]))

    slow = {max(min(pooled(i, j) for j in range(k, len(places))) for i in range(k + 1)) for k in range(len(places))}
    assert np.allclose(sorted({round(h, 9) for h in heights.tolist()}), sorted({round(h, 9) for h in slow}))
