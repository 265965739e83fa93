"""Thresholds: the best within the limits, by counting on small pages."""

from __future__ import annotations

import numpy as np
import pytest

from typecase.lm.tagger.thresholds import PLAIN, Tagged, choose, chosen, confidence_curve, counts, figures_without, goes, grid


def tagged(seed: int, generators: int = 4) -> Tagged:
    rng = np.random.default_rng(seed)
    page = np.repeat(np.arange(40), 10)
    clean = np.arange(40) >= 20
    truth = (rng.random(400) < 0.3) & ~clean[page]
    chances = np.clip(truth * 0.55 + rng.random(400) * 0.45, 0, 1)
    return Tagged(chances, truth, rng.integers(3, 80, 400).astype(float), page, np.arange(40) % generators, clean)


def test_a_line_goes_by_its_length_and_its_page():
    chances = np.array([0.9, 0.6, 0.6, 0.6])
    page = np.array([0, 0, 0, 1])
    chars = np.array([5.0, 5.0, 90.0, 5.0])
    assert goes(chances, chars, page, 2, (0.3, 0.7, 0.8)).tolist() == [True, True, False, False]
    assert goes(chances, chars, page, 2, (0.65, 0.2, 0.8)).tolist() == [True, False, False, False]


def test_a_line_right_above_one_that_stays_needs_a_better_chance():
    chances, page = np.array([0.9, 0.3, 0.3, 0.1, 0.9, 0.3]), np.array([0, 0, 0, 0, 1, 1])
    gone = goes(chances, np.full(6, 5.0), page, 2, (0.2, 0.2, 0.8))
    assert gone.tolist() == [True, True, False, False, True, True]


def test_confidence_is_how_often_such_lines_were_boilerplate():
    seen = tagged(6)
    curve = confidence_curve(seen, (0.3, 0.3, 0.6))
    assert (np.diff(curve.knots) > 0).all() and (np.diff(curve.heights) >= 0).all() and curve.heights[-1] == 1.0
    assert curve(np.array([0.0])) == curve.heights[0] < 0.9
    few = Tagged(np.zeros(400), seen.truth, seen.chars, seen.page, seen.generator, seen.clean)
    assert confidence_curve(few, (0.3, 0.3, 0.6)) is PLAIN


@pytest.mark.parametrize("seed", [1, 2])
def test_counts_are_those_of_the_lines(seed: int):
    seen = tagged(seed)
    for at in (0, 40, len(grid()) - 1):
        gone = goes(seen.chances, seen.chars, seen.page, 40, grid()[at])
        real = ~seen.clean[seen.page]
        wrong = gone & ~seen.truth
        wished = [
            (gone & seen.truth & real).sum(),
            (wrong & real).sum(),
            (~gone & seen.truth & real).sum(),
            seen.chars[real & ~seen.truth].sum(),
            seen.chars[wrong & real].sum(),
            20,
            len(set(seen.page[wrong & ~real].tolist())),
        ]
        assert counts(seen)[at].sum(axis=0).tolist() == wished


def test_the_choice_keeps_within_the_limits_and_none_within_them_is_better():
    seen = tagged(3)
    sums = counts(seen).sum(axis=1)
    at = choose(sums, over=0.02, touched=0.1)
    fits = [row for row in sums if row[4] <= 0.02 * row[3] and row[6] <= 0.1 * row[5]]
    assert any((sums[at] == row).all() for row in fits)
    assert sums[at][0] / (2 * sums[at][0] + sums[at][1] + sums[at][2]) == pytest.approx(
        max(row[0] / max(1, 2 * row[0] + row[1] + row[2]) for row in fits)
    )


def test_where_nothing_fits_the_most_careful_is_taken():
    seen = tagged(4)
    wrong = Tagged(np.ones(400), seen.truth, seen.chars, seen.page, seen.generator, seen.clean)
    assert chosen(wrong, over=0.0, touched=0.0) == (0.9, 0.9, 0.9)


def test_generators_are_measured_by_the_choice_of_the_others():
    seen = tagged(5, generators=2)
    figures = figures_without(seen, over=0.02, touched=0.1)
    each = counts(seen)
    hit = sum(each[choose(each[:, 1 - g], over=0.02, touched=0.1), g, 0] for g in (0, 1))
    assert figures["recall"] == pytest.approx(hit / (seen.truth & ~seen.clean[seen.page]).sum(), abs=1e-5)
