"""Comparisons: the fit is the optimum, finds what made the answers, and says what it cannot know."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits

from typecase.core import pairwise
from typecase.core.judges import fit_judged
from typecase.core.learn.agreement import spearman
from typecase.core.pairing import neighbour_pairs, random_pairs, telling_pairs
from typecase.core.pairwise import Comparisons, both_orders, components, fit_scores, place_bias, win_share
from typecase.errors import BadQuery


def world(num: int, pairs: int, *, bias: float = 0.0, votes: int = 20, seed: int = 0) -> tuple[np.ndarray, Comparisons]:
    dice = np.random.default_rng(seed)
    truth = dice.normal(0, 1, num)
    asked = random_pairs(num, pairs, seed=seed + 1)
    chance = 1 / (1 + np.exp(-(truth[asked[:, 1]] - truth[asked[:, 0]] + bias)))
    return truth, Comparisons.of(asked[:, 0], asked[:, 1], dice.binomial(votes, chance) / votes)


def slope_at(found: pairwise.Scores, rows: Comparisons, spread: float) -> np.ndarray:
    """The gradient of the penalised log-likelihood, written out pair by pair."""
    slope = -found.scores / spread**2
    for a, b, p, w in zip(rows.first, rows.second, rows.chance, rows.weight, strict=True):
        won = 1 / (1 + np.exp(-(found.scores[b] - found.scores[a] + found.bias)))
        slope[b] += w * (p - won)
        slope[a] -= w * (p - won)
    return slope


@limits(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(1, 20), st.booleans())
def test_the_fit_stands_where_the_slope_is_nothing(seed: int, num: int, pairs: int, with_bias: bool) -> None:
    dice = np.random.default_rng(seed)
    first = dice.integers(0, num, pairs)
    second = (first + dice.integers(1, num, pairs)) % num
    rows = Comparisons(first, second, dice.integers(0, 5, pairs) / 4, dice.integers(1, 4, pairs).astype(np.float64))
    found = fit_scores(rows, num, with_bias=with_bias, prior_spread=2.0)
    assert found.settled
    assert np.abs(slope_at(found, rows, 2.0)).max() < 1e-5
    for group in np.unique(found.component):
        assert abs(found.scores[found.component == group].mean()) < 1e-6


def test_scores_and_bias_come_back() -> None:
    truth, rows = world(400, 8000, bias=0.4)
    found = fit_scores(rows, 400)
    assert spearman(found.scores, truth) > 0.99
    assert found.bias == pytest.approx(0.4, abs=0.05)
    assert found.components == 1 and found.used == 8000


def test_standard_errors_are_the_spread_of_what_is_missed() -> None:
    truth, rows = world(300, 6000, votes=1)
    found = fit_scores(rows, 300)
    miss = (found.scores - (truth - truth.mean())) / found.errors
    assert 0.85 < miss.std() < 1.15


def test_errors_by_probes_come_near_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    _, rows = world(200, 3000)
    exact = fit_scores(rows, 200).errors
    monkeypatch.setattr(pairwise, "_DENSE_ITEMS", 10)
    probed = fit_scores(rows, 200).errors
    assert np.median(np.abs(probed / exact - 1)) < 0.1


def test_an_item_that_always_wins_stays_finite_and_groups_are_told_apart() -> None:
    rows = Comparisons.of([0, 1, 3], [1, 2, 4], [1.0, 1.0, 0.0])
    found = fit_scores(rows, 6, with_bias=False)
    assert np.isfinite(found.scores).all() and found.scores[2] > found.scores[1] > found.scores[0]
    assert found.component.tolist() == [0, 0, 0, 1, 1, 2]
    assert found.components == 2 and found.compared.tolist() == [1, 2, 1, 1, 1, 0]
    assert found.scores[5] == 0 and found.errors[5] == pytest.approx(pairwise.PRIOR_SPREAD)


def test_missing_and_unsure_answers_are_counted_and_do_not_count() -> None:
    rows = Comparisons.of([0, 0, 1, 1], [1, 2, 2, 0], [0.9, np.nan, 0.6, 0.1])
    found = fit_scores(rows, 3, confidence=0.5, with_bias=False)
    assert (found.used, found.invalid, found.unsure) == (2, 1, 1)
    kept = fit_scores(rows.pick(np.array([0, 3])), 3, with_bias=False)
    np.testing.assert_allclose(found.scores, kept.scores, atol=1e-9)


def test_turning_a_row_around_changes_nothing_without_a_bias() -> None:
    _, rows = world(30, 200)
    turned = Comparisons.of(rows.second, rows.first, 1 - rows.chance)
    a, b = (fit_scores(r, 30, with_bias=False).scores for r in (rows, turned))
    np.testing.assert_allclose(a, b, atol=1e-7)
    np.testing.assert_allclose(fit_scores(rows, 30, start=a + 1).scores, fit_scores(rows, 30).scores, atol=1e-6)


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(BadQuery, match="itself"):
        Comparisons.of([1], [1], [0.5])
    with pytest.raises(BadQuery, match="within 0 and 1"):
        Comparisons.of([0], [1], [1.5])
    with pytest.raises(BadQuery, match="spread"):
        fit_scores(Comparisons.of([0], [1], [1.0]), 2, prior_spread=0)


def test_both_orders_cancel_the_place() -> None:
    assert both_orders([0.7, 1.0, np.nan], [0.5, 1.0, 0.2])[:2].tolist() == pytest.approx([0.6, 0.5])
    assert np.isnan(both_orders([np.nan], [0.2])[0])
    odds = np.linspace(-3, 3, 9)
    forward, backward = 1 / (1 + np.exp(-(odds + 0.7))), 1 / (1 + np.exp(odds - 0.7))
    assert place_bias(forward, backward) == pytest.approx(0.7)
    assert np.isnan(place_bias([np.nan], [0.3]))
    assert win_share(np.array([0.0]), np.array([-1.0, 1.0]))[0] == pytest.approx(0.5)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=15))
def test_components_equal_a_slow_search(rows: list[tuple[int, int]]) -> None:
    first, second = (np.array([row[k] for row in rows], np.int64) for k in (0, 1))
    groups = [{item} for item in range(10)]
    for a, b in rows:
        joined = next(g for g in groups if a in g) | next(g for g in groups if b in g)
        groups = [g for g in groups if not g & joined] + [joined]
    found = components(first, second, 10)
    for group in groups:
        assert len({found[item] for item in group}) == 1
    assert len(set(found.tolist())) == len(groups)


@given(st.integers(2, 40), st.integers(1, 200), st.integers(0, 5))
def test_random_pairs_differ_and_share_out_evenly(num: int, pairs: int, seed: int) -> None:
    found = random_pairs(num, pairs, seed=seed)
    codes = {tuple(sorted(pair)) for pair in found.tolist()}
    assert len(codes) == len(found) == min(pairs, num * (num - 1) // 2)
    assert (found[:, 0] != found[:, 1]).all() if len(found) else True
    if pairs * 8 < num * (num - 1) // 2:
        often = np.bincount(found.ravel(), minlength=num)
        assert often.max() - often.min() <= 4


def test_neighbours_come_in_rising_distance() -> None:
    assert neighbour_pairs(4, 4).tolist() == [[0, 1], [1, 2], [2, 3], [0, 2]]
    assert len(neighbour_pairs(4, 100)) == 6 and len(neighbour_pairs(1, 3)) == 0


def test_telling_pairs_are_open_loose_and_new() -> None:
    scores, errors = np.array([0.0, 0.1, 5.0, 5.1]), np.array([1.0, 1.0, 0.1, 0.1])
    assert sorted(telling_pairs(scores, errors, 1, seed=0)[0].tolist()) == [0, 1]
    known = np.array([[1, 0]])
    found = telling_pairs(scores, errors, 9, seed=0, known=known, most=9)
    assert [0, 1] not in np.sort(found, axis=1).tolist() and len(found) == 5


def test_a_judge_against_the_others_loses_his_say() -> None:
    dice = np.random.default_rng(5)
    truth = dice.normal(0, 1, 100)
    asked = random_pairs(100, 3000, seed=1)
    judge = np.arange(3000) % 5
    slope = np.array([1.0, 1.0, 1.0, 0.0, -1.0])[judge]
    chance = 1 / (1 + np.exp(-slope * 2 * (truth[asked[:, 1]] - truth[asked[:, 0]])))
    rows = Comparisons.of(asked[:, 0], asked[:, 1], (dice.random(3000) < chance).astype(np.float64))
    found, slopes = fit_judged(rows, judge, 100, with_bias=False)
    assert slopes[:3].min() > 3 * abs(slopes[3]) and slopes[4] < 0
    assert spearman(found.scores, truth) > spearman(fit_scores(rows, 100, with_bias=False).scores, truth) + 0.02
