"""The response of a rater: golden figures of made-up ratings."""

from __future__ import annotations

import numpy as np
import pytest

from typecase.core.damage.planting import DAMAGES, DOSES, Damage
from typecase.core.damage.response import FALL, Response, response_of

COLUMNS = ("accuracy", "coherence", "overall_score")
MISSPELT = next(damage for damage in DAMAGES if damage.criterion == "accuracy")
SOURCES = [f"s{doc // 2}" for doc in range(40)]


def respond(scores: np.ndarray, damage: Damage = MISSPELT) -> Response:
    return response_of(damage, scores, DOSES, SOURCES, COLUMNS, "overall_score")


def falling(accuracy: float, coherence: float, overall: float) -> np.ndarray:
    """40 documents whose ratings fall by so much from no damage to the highest dose, in equal steps."""
    steps = np.linspace(0, 1, 1 + len(DOSES))[None, :, None]
    base = np.linspace(3, 5, 40)[:, None, None]
    return np.asarray(base - steps * np.array([accuracy, coherence, overall]))


def test_a_rater_that_falls_in_every_document() -> None:
    found = respond(falling(2, 1, 1.5))
    assert found.falls and found.rho == pytest.approx(-1) and found.rho_interval == pytest.approx((-1, -1))
    assert found.own_rho == pytest.approx(-1) and found.violations == 0 and found.rises == 0
    assert found.own_effect == pytest.approx(-2) and found.specificity == pytest.approx(2)
    assert found.means == pytest.approx(4 - np.linspace(0, 1.5, 6)) and found.effects == pytest.approx([-2, -1, -1.5])


def test_a_rater_that_does_not_move_or_goes_up() -> None:
    still = respond(falling(0, 0, 0))
    assert not still.falls and still.rho == 0 and np.isnan(still.specificity)
    up = respond(falling(-1, 0, -1))
    assert not up.falls and up.rho == pytest.approx(1) and up.rises == len(DOSES) and up.violations == 1


def test_a_step_that_rises_beyond_noise_is_no_fall() -> None:
    scores = falling(2, 1, 1.5)
    scores[:, 2, 2] = scores[:, 1, 2] + 0.05
    found = respond(scores)
    assert found.rises == 1 and found.rho_interval[1] < FALL and not found.falls


def test_the_interval_is_over_sources() -> None:
    dice = np.random.default_rng(1)
    scores = falling(1, 1, 0.2) + dice.normal(0, 0.5, (40, 1, 1)) + dice.normal(0, 0.2, (40, 6, 3))
    found = respond(scores)
    low, high = found.rho_interval
    assert low < found.rho < high and respond(scores).rho_interval == found.rho_interval
    doubled = response_of(
        MISSPELT, np.repeat(scores, 2, axis=0), DOSES, [s for s in SOURCES for _ in range(2)], COLUMNS, "overall_score"
    )
    assert doubled.rho == pytest.approx(found.rho)
    assert doubled.rho_interval == pytest.approx(found.rho_interval, abs=1e-9)  # copies promise nothing


def test_a_damage_aimed_at_a_criterion_that_is_not_rated() -> None:
    other = next(damage for damage in DAMAGES if damage.criterion == "sensitivity")
    with pytest.raises(ValueError):
        respond(falling(1, 1, 1), other)
