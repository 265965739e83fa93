"""Words, trees, company, smoothing: fast forms against slow ones, and that they learn what is there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.learn.trees import Growth, forest_outputs
from typecase.core.tagger import company
from typecase.core.tagger.boost import grow_chances, log_odds
from typecase.core.tagger.look import look_at
from typecase.core.tagger.smooth import smooth
from typecase.core.tagger.words import BITS, learn_words, word_rows, word_scores

GROWTH = Growth(trees=30, depth=3, rate=0.3, rows=0.8, measures=1.0, least_weight=1, damping=1)


def lines_of(text: str):
    look = look_at([text])
    return look.values, look.starts, look.stops


def test_case_and_digits_do_not_count_but_words_do():
    rows = word_rows(*lines_of("Page 3 of 12\npage 7 of 45\npage 7 of 456 pages"))
    first, second, third = (rows.buckets[rows.ends[i] : rows.ends[i + 1]].tolist() for i in range(3))
    assert first == second
    assert set(third) != set(first)


def test_words_learn_which_lines_are_menus():
    text = "\n".join(["next page", "previous page", "a text of words", "words of a text"] * 20)
    rows = word_rows(*lines_of(text))
    truth = np.where(np.arange(80) % 4 < 2, 1.0, -1.0)
    weights = learn_words(rows, truth, np.ones(80), np.ones(1 << BITS, np.bool_), 5, 0.3)
    scale = float(np.abs(weights).max()) / 127
    scores = word_scores(*lines_of(text), np.rint(weights / scale).astype(np.int8), scale)
    assert (scores[truth > 0] > 0).all() and (scores[truth < 0] < 0).all()


def test_a_line_of_unknown_words_scores_nothing():
    assert word_scores(*lines_of("whatever"), np.zeros(1 << BITS, np.int8), 1.0).tolist() == [0.0]


def test_trees_learn_what_no_single_measure_says():
    rng = np.random.default_rng(1)
    measures = rng.random((4000, 3), np.float32)
    truth = (measures[:, 0] > 0.5) ^ (measures[:, 1] > 0.3)
    weight = np.ones(4000)
    forest = grow_chances(measures[:3000], truth[:3000], weight[:3000], GROWTH, seed=2)
    odds = log_odds(forest, measures[3000:])
    assert ((odds > 0) == truth[3000:]).mean() > 0.97
    assert odds.tobytes() == forest_outputs(forest, measures[3000:])[:, 0].tobytes()


def test_equal_seeds_grow_equal_trees_and_others_do_not():
    rng = np.random.default_rng(3)
    measures, truth = rng.random((500, 4), np.float32), rng.random(500) > 0.5
    grown = [grow_chances(measures, truth, np.ones(500), GROWTH, seed=s) for s in (1, 1, 2)]
    assert grown[0].leaves.tobytes() == grown[1].leaves.tobytes()
    assert grown[0].measure.tobytes() != grown[2].measure.tobytes() or grown[0].leaves.tobytes() != grown[2].leaves.tobytes()


def test_lines_of_one_kind_teach_nothing():
    with pytest.raises(ValueError, match="one kind"):
        grow_chances(np.zeros((3, 1), np.float32), np.zeros(3, np.bool_), np.ones(3), GROWTH, seed=1)


def brute_force(chances: list[float], stay: float, trust: float) -> list[float]:
    """Posteriors by summing over all labellings."""
    num = len(chances)
    mass = np.zeros((num, 2))
    for labels in np.ndindex(*([2] * num)):
        weight = 0.5
        for at, label in enumerate(labels):
            chance = min(max(chances[at], 1e-4), 1 - 1e-4)
            weight *= (chance if label else 1 - chance) ** trust
            if at:
                weight *= stay if label == labels[at - 1] else 1 - stay
        for at, label in enumerate(labels):
            mass[at, label] += weight
    return (mass[:, 1] / mass.sum(axis=1)).tolist()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.floats(0.51, 0.99), st.floats(0.3, 1))
@settings(max_examples=60, deadline=None)
def test_smoothing_is_the_sum_over_all_labellings(chances: list[float], stay: float, trust: float):
    made = smooth(np.array(chances), np.array([0, len(chances)]), stay, trust)
    assert made.tolist() == pytest.approx(brute_force(chances, stay, trust), abs=1e-9)


def test_pages_do_not_smooth_each_other():
    chances = np.array([0.9, 0.8, 0.1, 0.2])
    apart = np.concatenate([smooth(chances[:2], np.array([0, 2]), 0.8, 1.0), smooth(chances[2:], np.array([0, 2]), 0.8, 1.0)])
    assert smooth(chances, np.array([0, 2, 4]), 0.8, 1.0).tobytes() == apart.tobytes()


def company_of(text: str, odds: list[float]) -> dict[str, list[float]]:
    look = look_at([text])
    out = np.zeros((len(odds), len(company.NAMES)), np.float32)
    company.measure_company(
        np.array(odds, np.float32), look.pages, look.hashes, look.shapes, np.zeros(len(odds), np.float32), out
    )
    return {name: out[:, at].tolist() for at, name in enumerate(company.NAMES)}


def test_company_by_hand():
    seen = company_of("menu\ntitle\n\ntext\nmenu", [2.0, 1.0, -3.0, 0.0])
    assert seen["odds_twins"] == [0.0, 1.0, -3.0, 2.0]
    assert seen["least_above"] == [9.0, 2.0, 1.0, -3.0]
    assert seen["most_below"] == [1.0, 0.0, 0.0, -9.0]
    assert seen["odds_section"] == [1.5, 1.5, -1.5, -1.5]
    assert seen["odds_section_above"] == [-9.0, -9.0, 1.5, 1.5]
    assert seen["odds_section_below"] == [-1.5, -1.5, -9.0, -9.0]
    assert seen["odds_above_1"] == [-9.0, 2.0, 1.0, -3.0]
