"""Quotas: the sum is the budget, shares are fair, spilled quota finds the nearest room."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.selection.quota import apportion, quotas_of_table, spill, tempered
from typecase.errors import FixInput

WEIGHTS = st.lists(st.one_of(st.integers(0, 10**12), st.fractions(min_value=0, max_value=100)), max_size=30)


def naive_apportion(weights: list[Fraction], total: int) -> list[int]:
    """Round down, then hand out what is left, one unit after the other, to the largest remainder."""
    exact = [w * total / sum(weights) for w in weights]
    quotas = [x.numerator // x.denominator for x in exact]
    while sum(quotas) < total:
        lacking = [x - q for x, q in zip(exact, quotas)]
        quotas[lacking.index(max(lacking))] += 1
    return quotas


@given(WEIGHTS, st.integers(0, 10**15))
def test_quotas_sum_to_the_budget_exactly(weights: list[int | Fraction], total: int) -> None:
    quotas = apportion(weights, total)
    if not sum(weights):
        assert quotas == [0] * len(weights)
        return
    assert sum(quotas) == total
    for weight, quota in zip(weights, quotas, strict=True):
        assert abs(quota - Fraction(weight) * total / Fraction(sum(weights))) < 1
        assert weight > 0 or quota == 0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any), st.integers(0, 60))
def test_fast_equals_one_unit_after_the_other(weights: list[int], total: int) -> None:
    assert apportion(weights, total) == naive_apportion([Fraction(w) for w in weights], total)


def test_the_earlier_stratum_wins_a_tie() -> None:
    assert apportion([1, 1, 1], 4) == [2, 1, 1]
    assert apportion([5, 3, 2], 7) == [4, 2, 1]


def test_one_unit_may_move_when_the_budget_grows() -> None:
    """Largest remainder is not monotone (Alabama paradox); known, and at most one unit a stratum."""
    assert apportion([6, 6, 2], 10) == [4, 4, 2]
    assert apportion([6, 6, 2], 11) == [5, 5, 1]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0, 2.0])
def test_tempered_weights(alpha: float) -> None:
    masses = [1, 10, 1000, 123_456_789_012, 0]
    weights = tempered(masses, alpha)
    assert weights[-1] == 0
    for mass, weight in zip(masses[:-1], weights, strict=False):
        assert float(weight) / 1e20 == pytest.approx(mass**alpha, rel=1e-12)


LABELS = [("books", "law"), ("books", "math"), ("web", "law"), ("web", "math"), ("web", "news")]


def test_a_table_names_strata_or_their_beginnings() -> None:
    masses = [10, 30, 5, 5, 90]
    quotas, weights = quotas_of_table({("books",): 1.0, ("web", "law"): 1.0, ("web",): 2.0}, LABELS, masses, 400)
    assert quotas == [25, 75, 100, 11, 189]
    assert sum(weights) == 4
    assert quotas_of_table({("books", "law"): 3.0}, LABELS, masses, 7)[0] == [7, 0, 0, 0, 0]
    assert quotas_of_table({(): 1.0}, LABELS, [0] * 5, 7)[0] == [2, 2, 1, 1, 1]
    with pytest.raises(FixInput, match=r"'books/art'.*no document is there.*books/law"):
        quotas_of_table({("books", "art"): 1.0}, LABELS, masses, 7)


AMOUNTS = st.lists(st.integers(0, 1000), min_size=5, max_size=5)


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_a_spill_conserves_and_respects_room(asked: list[int], room: list[int], weights: list[int]) -> None:
    got = spill(asked, room, weights, LABELS, ("source", "domain"))
    assert sum(got.quotas) + got.short == sum(asked)
    assert sum(got.moved.values()) + got.short == sum(max(0, a - r) for a, r in zip(asked, room))
    for a, r, w, q in zip(asked, room, weights, got.quotas, strict=True):
        assert min(a, r) <= q <= r
        assert w or q == min(a, r)
    if got.short:
        assert all(q == r for w, r, q in zip(weights, room, got.quotas) if w), "short only when nothing has room"


def test_siblings_come_first() -> None:
    got = spill([50, 10, 10, 10, 10], [10, 30, 100, 10, 1000], [1] * 5, LABELS, ("source", "domain"))
    assert got.quotas == [10, 30, 30, 10, 10], "20 to the same source, then 20 to the same domain"
    assert got.moved == {"source": 20, "domain": 20, "all": 0} and got.short == 0
    got = spill([50, 10, 10, 10, 10], [10, 10, 15, 10, 20], [1] * 5, LABELS, ("source", "domain"))
    assert got.quotas == [10, 10, 15, 10, 20]
    assert got.moved == {"source": 0, "domain": 5, "all": 10} and got.short == 25
