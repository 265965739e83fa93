"""Spikes, signs and suspicion against what can be seen by eye, and against slow ways of counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.spikes import signs
from typecase.core.spikes.curve import FEWEST, find_spikes
from typecase.core.spikes.suspicion import FLOORS, Usual, deviations, suspicion, usual_of

DOCS = st.lists(st.lists(st.integers(0, 6), max_size=30), min_size=1, max_size=5)


def columns(docs: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.array([t for doc in docs for t in doc], np.int64)
    return tokens, np.concatenate(([0], np.cumsum([len(doc) for doc in docs]))).astype(np.int64)


def noisy(n: int = 200) -> np.ndarray:
    return 3.0 + 0.02 * np.random.default_rng(4).standard_normal(n)


def test_one_spike_does_not_hide_the_next() -> None:
    losses = noisy()
    losses[[50, 51, 52, 120]] = [4.0, 6.0, 5.0, 4.0]
    found = find_spikes(np.arange(200), losses)
    assert [(one.first, one.stop, one.peak) for one in found] == [(50, 53, 51), (120, 121, 120)]
    assert found[0].loss == 6.0 and abs(found[0].usual - 3.0) < 0.05 and found[0].height > found[1].height > 20


def test_a_falling_start_and_a_dip_are_none() -> None:
    losses = 8.0 * np.exp(-np.arange(200) / 30) + noisy()
    losses[150] = 1.0
    assert find_spikes(np.arange(200), losses) == []


def test_a_loss_that_is_no_number_is_the_highest() -> None:
    losses = noisy()
    losses[90] = np.nan
    (found,) = find_spikes(np.arange(0, 400, 2), losses)
    assert found.peak == 180 and found.height == np.inf


def test_a_still_curve_is_not_infinitely_steady() -> None:
    losses = np.full(60, 2.0)
    losses[40] = 2.01
    assert find_spikes(np.arange(60), losses) == []
    losses[40] = 2.1
    assert [one.peak for one in find_spikes(np.arange(60), losses)] == [40]


@given(st.lists(st.floats(0, 10), max_size=60), st.integers(FEWEST, 20))
def test_spikes_are_disjoint_and_rising(losses: list[float], window: int) -> None:
    found = find_spikes(np.arange(len(losses)), np.array(losses), window=window)
    edges = [edge for one in found for edge in (one.first, one.stop)]
    assert edges == sorted(edges) and all(one.first >= FEWEST and one.first <= one.peak < one.stop for one in found)


def test_curves_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="rise"):
        find_spikes(np.array([2, 1]), np.zeros(2))
    with pytest.raises(ValueError, match="window"):
        find_spikes(np.arange(3), np.zeros(3), window=2)


@given(DOCS)
def test_signs_are_what_slow_counting_says(docs: list[list[int]]) -> None:
    tokens, offsets = columns(docs)
    shares, stretches = signs.repeated(tokens, offsets), signs.stretch(tokens, offsets)
    counts = np.bincount(tokens, minlength=7)
    surprise = signs.surprise(tokens, offsets, counts)
    flags = signs.flagged(tokens, offsets, [1, 5])
    for k, doc in enumerate(docs):
        runs = [tuple(doc[i : i + 4]) for i in range(len(doc) - 3)]
        assert shares[k] == pytest.approx(1 - len(set(runs)) / len(runs) if runs else 0.0)
        assert 2 ** stretches[k] - 1 == pytest.approx(slow_stretch(doc))
        bits = [np.log2((counts.sum() + len(counts)) / (counts[t] + 1)) for t in doc]
        assert surprise[k] == pytest.approx(np.mean(bits) if bits else 0.0)
        assert flags[k] == pytest.approx(np.mean([t in (1, 5) for t in doc]) if doc else 0.0)


def slow_stretch(doc: list[int]) -> int:
    longest = 0
    for period in range(1, signs.PERIODS + 1):
        for start in range(period, len(doc)):
            stop = start
            while stop < len(doc) and doc[stop] == doc[stop - period]:
                stop += 1
            if stop - start >= period:
                longest = max(longest, stop - start)
    return longest


@given(DOCS, DOCS)
def test_copies_are_found_as_by_comparing_all(docs: list[list[int]], earlier: list[list[int]]) -> None:
    own = [signs.run_set(np.array(doc, np.int64)) for doc in docs]
    old = [signs.run_set(np.array(doc, np.int64)) for doc in earlier]
    similarity, which = signs.copied(own, old)
    for k, one in enumerate(own):
        best = max((len(set(one) & set(o)) / len(set(one) | set(o)) if len(one) or len(o) else 0.0 for o in old), default=0.0)
        assert similarity[k] == pytest.approx(best)
        assert (which[k] >= 0) == (best > 0)


def test_ids_beyond_the_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="beyond the counts"):
        signs.surprise(np.array([9]), np.array([0, 1]), np.zeros(5, np.int64))


def test_suspicion_rises_with_every_sign_and_is_held_back_for_few_tokens() -> None:
    z = {"repeated": np.array([0.0, 3.0, 3.0, 50.0, 3.0]), "surprise": np.array([-9.0, 0.0, 4.0, 0.0, 0.0])}
    scores = suspicion(z, [1000, 1000, 1000, 1000, 3])
    assert scores[0] == 0 and scores[2] == pytest.approx(5.0 * 1000 / 1064)
    assert scores[3] == pytest.approx(10.0 * 1000 / 1064) and scores[1] > 10 * scores[4] > 0


@pytest.mark.parametrize("sign", sorted(FLOORS))
def test_the_floor_keeps_exceptions_finite(sign: str) -> None:
    usual = usual_of(sign, np.zeros(20))
    assert usual == Usual(0.0, FLOORS[sign])
    assert deviations(np.array([np.nan, FLOORS[sign]]), usual).tolist() == [0.0, 1.0]
    assert usual_of(sign, np.full(3, np.nan)) == Usual(0.0, FLOORS[sign])
