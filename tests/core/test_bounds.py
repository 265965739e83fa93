"""Floors and caps: every bound holds, the sum is the budget, and what cannot hold is named."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from typecase.core.selection.bounds import Bounds, bounded, share_within
from typecase.core.selection.quota import apportion, spill
from typecase.errors import FixInput

LABELS = [("books", "law"), ("books", "math"), ("web", "law"), ("web", "math"), ("web", "news")]
KEYS = [*LABELS, ("books",), ("web",)]
SHARES = st.dictionaries(st.sampled_from(KEYS), st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.4, 0.5, 0.9, 1.0]), max_size=4)


def of(quotas: list[int], key: tuple[str, ...]) -> int:
    return sum(q for q, label in zip(quotas, LABELS, strict=True) if label[: len(key)] == key)


@given(st.lists(st.integers(0, 1000), min_size=5, max_size=5), SHARES, SHARES, st.integers(1, 10_000))
def test_bounds_hold_or_are_refused(
    masses: list[int], floors: dict[tuple[str, ...], float], caps: dict[tuple[str, ...], float], total: int
) -> None:
    assume(any(masses))
    bounds = Bounds.of(floors, caps, LABELS, total)
    plain = apportion(masses, total)
    try:
        quotas = bounded(plain, masses, LABELS, bounds)
    except FixInput:
        assert not feasible(bounds, total)
        return
    assert sum(quotas) == total and min(quotas) >= 0
    assert all(of(quotas, key) >= least for key, least in bounds.floors.items())
    assert all(of(quotas, key) <= most for key, most in bounds.caps.items())
    if all(of(plain, k) >= v for k, v in bounds.floors.items()) and all(of(plain, k) <= v for k, v in bounds.caps.items()):
        assert quotas == plain, "bounds that hold anyway change nothing"


def feasible(bounds: Bounds, total: int) -> bool:
    """Every group of strata by hand: leaf ranges, then source ranges, then the whole."""

    def limits(key: tuple[str, ...], low: int, high: int) -> tuple[int, int]:
        return max(low, bounds.floors.get(key, 0)), min(high, bounds.caps.get(key, total))

    groups = []
    for source in ("books", "web"):
        leaves = [limits(label, 0, total) for label in LABELS if label[0] == source]
        if any(low > high for low, high in leaves):
            return False
        low, high = limits((source,), sum(a for a, _ in leaves), sum(b for _, b in leaves))
        if low > high:
            return False
        groups.append((low, high))
    return sum(a for a, _ in groups) <= total <= sum(b for _, b in groups)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=4), st.integers(0, 16))
def test_shares_within_are_the_fairest_that_fit(rows: list[tuple[int, int, int]], total: int) -> None:
    """Against all divisions: none has a smaller sum of squared distances from proportion, relative to weight, by much."""
    weights, lows = [w for w, _, _ in rows], [a for _, a, _ in rows]
    highs = [a + b for _, a, b in rows]
    assume(sum(lows) <= total <= sum(highs))
    got = share_within(weights, lows, highs, total)
    assert sum(got) == total and all(a <= q <= b for a, q, b in zip(lows, got, highs, strict=True))

    def unfairness(division: tuple[int, ...]) -> float:
        return sum(q * q / w for q, w in zip(division, weights, strict=True))

    best = min(
        unfairness(d)
        for d in itertools.product(*(range(a, b + 1) for a, b in zip(lows, highs, strict=True)))
        if sum(d) == total
    )
    assert unfairness(tuple(got)) <= best + len(rows), "rounding aside"


def test_what_a_cap_takes_away_goes_to_the_others_by_mass() -> None:
    bounds = Bounds.of({("books",): 0.2}, {("web",): 0.5}, LABELS, 100)
    assert bounded([10, 0, 70, 10, 10], [10, 0, 70, 10, 10], LABELS, bounds) == [50, 0, 39, 6, 5]
    assert Bounds.of({("web",): 0.1}, {("web",): 0.1}, LABELS, 1000).floors == {("web",): 100}, "0.1 is a tenth"


@pytest.mark.parametrize(
    ("floors", "caps", "message"),
    [
        ({("books",): 0.6, ("web",): 0.5}, {}, r"floors of books \(60\), web \(50\) come to 110.*the budget is 100"),
        ({}, {("books",): 0.3, ("web",): 0.4}, r"caps of books \(30\), web \(40\) come to 70.*the budget is 100"),
        ({("web",): 0.6}, {("web",): 0.5}, "floor of web is 60.*its cap is 50"),
        (
            {("web", "law"): 0.3, ("web", "math"): 0.3},
            {("web",): 0.5},
            r"floors of web/law \(30\), web/math \(30\).*web has a cap",
        ),
        (
            {("books",): 0.5},
            {("books", "law"): 0.2, ("books", "math"): 0.2},
            r"caps of books/law \(20\).*books has a floor of 50",
        ),
    ],
)
def test_conflicts_are_named(floors: dict[tuple[str, ...], float], caps: dict[tuple[str, ...], float], message: str) -> None:
    with pytest.raises(FixInput, match=message):
        bounded([20] * 5, [1] * 5, LABELS, Bounds.of(floors, caps, LABELS, 100))


def test_a_bound_of_nothing_is_refused() -> None:
    with pytest.raises(FixInput, match="name books/art, but no stratum begins so"):
        Bounds.of({("books", "art"): 0.1}, {}, LABELS, 10)


@given(st.lists(st.integers(0, 100), min_size=5, max_size=5), st.lists(st.integers(0, 100), min_size=5, max_size=5))
def test_a_spill_stops_at_the_caps(asked: list[int], room: list[int]) -> None:
    caps = {("web",): of(asked, ("web",)), ("books", "law"): asked[0]}
    got = spill(asked, room, [1] * 5, LABELS, ("source", "domain"), caps)
    assert sum(got.quotas) + got.short == sum(asked)
    assert all(of(got.quotas, key) <= cap for key, cap in caps.items())
