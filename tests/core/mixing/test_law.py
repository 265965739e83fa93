"""Laws: a true law is found again, outliers do not move it, judgements are made on mixes that were not seen."""

from __future__ import annotations

import numpy as np
import pytest

from typecase.core.learn.agreement import spearman
from typecase.core.mixing.judging import entropy_of, fit_ridge, judge, noise_ceiling, own_domain, same_mixes
from typecase.core.mixing.law import Law, fit_law
from typecase.core.mixing.swarm import PARTS, Swarm, draw_swarm, smoothed_prior
from typecase.errors import FixInput

DOMAINS = ("web", "books", "code", "math", "law")


def world(seed: int = 0) -> Law:
    dice = np.random.default_rng(seed)
    slope = dice.normal(0, 0.5, (3, 5))
    slope[np.arange(3), np.arange(3)] -= 1.5
    return Law(dice.uniform(1, 3, 3), slope)


def mixes(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(5, 0.6), n)


def test_a_law_without_noise_is_found_again() -> None:
    true, w = world(), mixes(60)
    found = fit_law(w, true.predict(w), damping=1e-9)
    assert np.allclose(found.predict(mixes(200, 1)), true.predict(mixes(200, 1)), atol=1e-3)
    assert np.allclose(found.floor, true.floor, atol=0.05)


def test_outliers_hardly_move_it() -> None:
    true, w = world(), mixes(80)
    y = true.predict(w)
    y[::10] += 2.0
    held = mixes(200, 1)
    error = np.abs(fit_law(w, y).predict(held) - true.predict(held)).mean()
    assert error < 0.02 and error < 0.2 * np.abs(fit_ridge(w, y)(held) - true.predict(held)).mean()


def test_the_same_runs_give_the_same_law_to_the_bit_and_fewer_runs_than_domains_a_law() -> None:
    w = mixes(40)
    y = world().predict(w) + np.random.default_rng(2).normal(0, 0.02, (40, 3))
    one, two = fit_law(w, y), fit_law(w, y)
    assert one.slope.tobytes() == two.slope.tobytes() and one.floor.tobytes() == two.floor.tobytes()
    few = fit_law(w[:4], y[:4])
    assert np.isfinite(few.slope).all() and np.isfinite(few.predict(mixes(50, 3))).all()


def test_constant_losses_and_bad_input() -> None:
    w = mixes(10)
    assert np.allclose(fit_law(w, np.full((10, 1), 2.5)).predict(w), 2.5)
    for bad in (w[:2], np.where(np.arange(10)[:, None] == 3, np.nan, w)):
        with pytest.raises(FixInput):
            fit_law(bad, np.ones((len(bad), 1)))
    with pytest.raises(FixInput):
        fit_law(w, np.ones((9, 1)))


def test_judging_prints_the_trivial_predictors_and_tells_signal_from_noise() -> None:
    w = mixes(60)
    true = world()
    y = np.column_stack([true.predict(w)[:, 0], np.random.default_rng(5).normal(size=60)])
    rows = {(one.target, one.predictor): one.rho for one in judge(w, y, ("web", "noise"), DOMAINS)}
    assert {name for _, name in rows} == {"law", "ridge", "own share", "entropy"}
    assert rows["web", "law"].value > 0.98 and rows["noise", "law"].low < 0.1
    assert rows["web", "own share"].value == pytest.approx(spearman(-w[:, 0], y[:, 0]))
    assert np.isnan(rows["noise", "own share"].value) and ("mean", "law") in rows


def test_repeated_mixes_give_the_ceiling_of_their_noise() -> None:
    dice = np.random.default_rng(0)
    w = np.repeat(mixes(400), 2, axis=0)
    true = world().predict(w)[:, :1]
    assert noise_ceiling(w[::2], true[::2]) is None
    assert noise_ceiling(w, true)[0] == pytest.approx(1.0)  # type: ignore[index]
    noisy = true + dice.normal(0, float(true.std()), true.shape)  # half of the variance is noise
    ceiling = noise_ceiling(w, noisy)
    assert ceiling is not None and ceiling[0] == pytest.approx(6 / np.pi * np.arcsin(np.sqrt(0.5) / 2), abs=0.05)
    assert (same_mixes(w) == np.repeat(np.arange(400), 2)).all()


def test_the_domain_of_a_target_is_found_by_its_name() -> None:
    domains = ("pile_cc", "books", "wikipedia_en")
    assert [own_domain(t, domains) for t in ("books", "valid/pile_cc/loss", "loss.wikipedia_en", "arc", "notebooks")] == [
        1,
        0,
        2,
        None,
        None,
    ]
    assert entropy_of(np.array([[1.0, 0.0], [0.5, 0.5]])) == pytest.approx([0, np.log(2)])


def test_a_swarm_is_of_distinct_mixes_within_caps_and_the_same_again() -> None:
    have = {"web": 10**9, "books": 10**8, "tiny": 10**5}
    rules = Swarm(budget=10**7, epochs=4, distance=0.02)
    drawn = draw_swarm(have, 50, settings=rules, seed=3)
    assert (np.round(drawn * PARTS).sum(axis=1) == PARTS).all() and len(np.unique(drawn, axis=0)) == 50
    assert (drawn[:, 2] <= 0.04).all() and ((drawn == 0) | (drawn >= 1.9e-4)).all() and (drawn == 0).any()
    gaps = 0.5 * np.abs(drawn[:, None] - drawn[None]).sum(axis=2) + np.eye(50)
    assert gaps.min() >= 0.02
    assert (
        drawn.tobytes()
        == draw_swarm(have, 50, settings=rules, seed=3).tobytes()
        != draw_swarm(have, 50, settings=rules, seed=4).tobytes()
    )
    assert smoothed_prior([400, 100, 0], 0.5).tolist() == [2 / 3, 1 / 3, 0]


def test_a_swarm_that_cannot_be_filled_says_why() -> None:
    with pytest.raises(FixInput, match="above its cap"):
        draw_swarm({"a": 100, "b": 100}, 5, settings=Swarm(budget=10**6, epochs=1), seed=0)
