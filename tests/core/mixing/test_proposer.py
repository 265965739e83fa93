"""Proposals: never outside their bounds, certified, equal to a general solver's; conflicts are named; kept ratios hold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from typecase.core.mixing.proposer import objective, propose
from typecase.core.mixing.reuse import propose_tied, tie, whole_gap
from typecase.core.mixing.simplex import bounds_of, linear_best, middle, nearest_shape, whole_tokens
from typecase.errors import FixInput

SEEDS = st.integers(0, 10**6)


def random_problem(seed: int):  # type: ignore[no-untyped-def]
    """A problem that has a mix: tiny domains, active caps, floors, some bounds equal."""
    dice = np.random.default_rng(seed)
    k, j = int(dice.integers(1, 12)), int(dice.integers(1, 5))
    names = [f"d{i}" for i in range(k)]
    budget = int(dice.integers(k * 10, 10**9))
    supply = {n: int(s) for n, s in zip(names, dice.exponential(budget / k, k) + 1)}
    supply[names[-1]] = budget  # so that there is always enough
    room = [min(1.0, 4 * supply[n] / budget) for n in names]
    floors = {n: Fraction(float(dice.uniform(0, 0.9) * r / k)).limit_denominator(10**6) for n, r in zip(names, room)}
    bounds = bounds_of(names, budget, available=supply, floors=floors if seed % 2 else {})
    goal = objective(dice.normal(0, 3, (j, k)), importance=dice.uniform(0, 2, j), nearness=[0.0, 0.1][seed // 2 % 2],
                     prior=dice.dirichlet(np.ones(k)) + 1e-6)  # fmt: skip
    return bounds, goal


@settings(max_examples=60)
@given(SEEDS)
def test_no_bound_is_broken_and_the_gap_is_closed(seed: int) -> None:
    bounds, goal = random_problem(seed)
    low, high = bounds.shares
    made = propose(goal, low, high)
    assert (made.mix >= low).all() and (made.mix <= high).all() and abs(made.mix.sum() - 1) < 1e-9
    assert 0 <= made.gap <= 1e-6 * max(1.0, abs(made.value))
    tokens = whole_tokens(made.mix, bounds)
    assert sum(tokens) == bounds.budget
    assert all(a <= t <= b for a, t, b in zip(bounds.low, tokens, bounds.high, strict=True))


@settings(max_examples=25)
@given(SEEDS)
def test_the_certificate_holds_against_any_other_mix(seed: int) -> None:
    bounds, goal = random_problem(seed)
    low, high = bounds.shares
    made = propose(goal, low, high)
    dice = np.random.default_rng(seed)
    for _ in range(20):
        other = nearest_shape(dice.dirichlet(np.full(len(low), 0.3)), low, high)
        assert goal.value(other) >= made.value - made.gap - 1e-9 * abs(made.value)


@pytest.mark.parametrize("seed", range(12))
def test_equal_to_a_general_solver(seed: int) -> None:
    bounds, goal = random_problem(seed + 100)
    low, high = bounds.shares
    rule = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(len(w))}
    peer = minimize(goal.value, middle(low, high), jac=goal.gradient, bounds=list(zip(np.maximum(low, 1e-13), high)),
                    constraints=rule, method="SLSQP", options={"maxiter": 400, "ftol": 1e-13})  # fmt: skip
    assert propose(goal, low, high).value <= peer.fun + 1e-6 * abs(peer.fun)


@given(SEEDS)
def test_linear_best_equals_a_linear_program(seed: int) -> None:
    bounds, _ = random_problem(seed)
    low, high = bounds.shares
    cost = np.random.default_rng(seed).normal(size=len(low))
    peer = linprog(cost, A_eq=np.ones((1, len(low))), b_eq=[1], bounds=list(zip(low, high)))
    assert abs(cost @ linear_best(cost, low, high) - peer.fun) < 1e-7


def test_the_known_optimum_inside_and_on_a_face() -> None:
    # Only the divergence: the best mix is the prior. One linear-like loss and no divergence: all on the best domain.
    prior = np.array([0.5, 0.3, 0.2])
    assert np.allclose(
        propose(objective(np.zeros((1, 3)), nearness=1.0, prior=prior), [0, 0, 0], [1, 1, 1]).mix, prior, atol=1e-6
    )
    steep = objective([[0.0, -1.0, -3.0]])
    assert np.allclose(propose(steep, [0, 0, 0], [1, 1, 1]).mix, [0, 0, 1], atol=1e-6)
    assert np.allclose(propose(steep, [0.1, 0, 0], [1, 1, 0.4]).mix, [0.1, 0.5, 0.4], atol=1e-6)
    # exp(-a w1) + exp(-a w2): even by symmetry
    assert np.allclose(propose(objective([[-2.0, 0.0], [0.0, -2.0]]), [0, 0], [1, 1]).mix, [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"available": {"a": 10, "b": 5}}, "caps and supply give 60 of 100 tokens .*lower the budget to 60"),
        ({"floors": {"a": 0.7, "b": 0.6}}, "floors sum to 1.3"),
        (
            {"floors": {"a": 0.7}, "available": {"a": 10}},
            "floor of a asks for 70 .* there is 40 tokens with",
        ),
        ({"floors": {"a": 0.7}, "caps": {"a": 0.5}}, "but there is a cap of 50"),
        ({"caps": {"zz": 1}}, "no domain"),
        ({"repeats": 0}, "epochs above 0"),
    ],
)
def test_conflicts_are_named(more, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FixInput, match=words):
        bounds_of(["a", "b"], 100, **more)


def test_a_prior_of_zero_and_a_floor_exclude_each_other() -> None:
    with pytest.raises(FixInput, match="prior leaves out"):
        propose(objective(np.zeros((1, 2)), nearness=0.1, prior=[1.0, 0.0]), [0, 0.2], [1, 1])


@settings(max_examples=30)
@given(SEEDS)
def test_kept_ratios_hold_and_reuse_is_as_good_as_its_gap_says(seed: int) -> None:
    dice = np.random.default_rng(seed)
    k = 6
    names = [f"d{i}" for i in range(k)]
    goal = objective(dice.normal(0, 2, (4, k)), nearness=0.05, prior=dice.dirichlet(np.ones(k)) + 0.01)
    low, high = np.zeros(k), np.ones(k)
    best = propose(goal, low, high)
    tied = tie(names, best.mix, {"d2"})
    again = propose_tied(goal, low, high, tied)
    assert abs(again.value - best.value) < 1e-6  # nothing changed, so the old mix is still the best
    changed = objective(goal.slope + np.eye(k)[2] * dice.normal(0, 2, (4, 1)), nearness=0.05, prior=goal.prior)
    reused, fresh = propose_tied(changed, low, high, tied), propose(changed, low, high)
    kept = [0, 1, 3, 4, 5]
    if reused.mix[kept].sum() > 1e-6:
        assert np.allclose(reused.mix[kept] / reused.mix[kept].sum(), best.mix[kept] / best.mix[kept].sum(), atol=1e-9)
    assert fresh.value - 1e-6 <= reused.value <= fresh.value + whole_gap(changed, reused.mix, low, high) + 1e-6


def test_reuse_says_when_the_ratios_allow_no_mix() -> None:
    tied = tie(["a", "b", "c"], [0.5, 0.5, 0.0], {"c"})
    with pytest.raises(FixInput, match="kept ratios allow no mix"):
        propose_tied(objective(np.zeros((1, 3))), [0, 0, 0], [0.1, 1, 0.2], tied)
    with pytest.raises(FixInput, match="nothing to keep"):
        tie(["a", "b"], [0.0, 1.0], {"b"})
