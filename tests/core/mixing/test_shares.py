"""Plans: tokens sum to the budget, units convert exactly, caps hold."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.mixing.shares import (
    UNITS,
    Group,
    Unit,
    convert,
    parse_number,
    parse_weights,
    plan_mix,
    spread,
    token_weights,
)
from typecase.errors import BadQuery, FixInput

GROUPS = st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 10**6)), min_size=1, max_size=8).map(
    lambda rows: [Group((f"g{k}",), tokens, documents) for k, (tokens, documents) in enumerate(rows)]
)
NUMBER = st.fractions(min_value=0, max_value=50, max_denominator=1000)


@st.composite
def weighted(draw: st.DrawFn) -> tuple[list[Group], list[Fraction]]:
    groups = draw(GROUPS)
    weights = draw(st.lists(NUMBER, min_size=len(groups), max_size=len(groups)).filter(any))
    return groups, weights


def keyed(groups: list[Group], weights: list[Fraction]) -> dict[tuple[str, ...], Fraction]:
    return {group.label: weight for group, weight in zip(groups, weights)}


@given(weighted(), st.sampled_from(UNITS), st.integers(0, 10**13), st.sampled_from(["warn", "spill"]))
def test_tokens_sum_to_the_budget_and_each_row_balances(case, unit: Unit, budget: int, over) -> None:  # type: ignore[no-untyped-def]
    groups, weights = case
    plan = plan_mix(groups, keyed(groups, weights), unit=unit, budget=budget, caps={(): Fraction(3, 2)}, over=over)
    assert plan.taken + plan.short == budget
    for row, weight in zip(plan.rows, weights):
        assert row.fresh + row.repeated == row.taken and row.fresh + row.left == row.group.tokens
        assert row.taken == 0 or weight > 0
        if over == "spill":
            assert row.taken <= Fraction(3, 2) * row.group.tokens
        else:
            assert abs(row.taken - row.share * budget) < 1
    if over == "spill" and plan.short:
        assert all(row.taken == int(Fraction(3, 2) * row.group.tokens) for row, w in zip(plan.rows, weights) if w)


@given(weighted(), st.sampled_from(UNITS), st.sampled_from(UNITS))
def test_a_change_of_unit_is_exact_both_ways(case, one: Unit, other: Unit) -> None:  # type: ignore[no-untyped-def]
    groups, weights = case
    there = convert(weights, groups, one, other)
    back = convert(there, groups, other, one)
    assert sum(there) == 1 and back == [weight / sum(weights) for weight in weights]


def test_the_units_mean_what_they_say() -> None:
    groups = [Group(("web",), 400, 100), Group(("books",), 20, 10)]
    weights = {("web",): Fraction(7), ("books",): Fraction(3)}
    shares = {u: [row.share for row in plan_mix(groups, weights, unit=u, budget=120).rows] for u in UNITS}
    assert shares["tokens"] == [Fraction(7, 10), Fraction(3, 10)]
    assert shares["documents"] == [Fraction(28, 34), Fraction(6, 34)]  # 7 documents of 4 tokens, 3 of 2
    assert shares["epochs"] == [Fraction(2800, 2860), Fraction(60, 2860)]
    whole = plan_mix(groups, {("web",): Fraction(1, 2), ("books",): Fraction(3)}, unit="epochs")
    assert [row.taken for row in whole.rows] == [200, 60] and whole.rows[1].epochs == 3 and whole.rows[1].repeated == 40


def test_a_name_stands_for_all_that_begin_so_and_the_longest_wins() -> None:
    groups = [Group(("web", "a"), 30, 3), Group(("web", "b"), 10, 1), Group(("web", "c"), 99, 1), Group(("notes",), 5, 5)]
    weights = parse_weights(["web=0.8,web/c=0.1", "*=10%"])
    assert spread(weights, groups, "tokens") == [Fraction(6, 10), Fraction(2, 10), Fraction(1, 10), Fraction(1, 10)]
    assert spread(weights, groups, "epochs")[:2] == [Fraction(8, 10)] * 2
    assert token_weights([Fraction(1)] * 4, groups, "documents")[0] == 10


def test_caps_warn_refuse_or_spill() -> None:
    groups = [Group(("web",), 1000, 10), Group(("books",), 100, 10)]
    half = {("web",): Fraction(1), ("books",): Fraction(1)}
    warned = plan_mix(groups, half, unit="tokens", budget=1000, caps={(): Fraction(4)})
    assert warned.rows[1].taken == 500 and any(
        one.startswith("repeats: books would be seen 5 times") for one in warned.warnings
    )
    assert warned.largest == 800
    spilled = plan_mix(groups, half, unit="tokens", budget=1000, caps={(): Fraction(4)}, over="spill")
    assert [row.taken for row in spilled.rows] == [600, 400] and spilled.moved == 100
    with pytest.raises(FixInput, match="books would be seen 5 times"):
        plan_mix(groups, half, unit="tokens", budget=1000, caps={("books",): Fraction(4)}, over="refuse")
    short = plan_mix(groups, half, unit="tokens", budget=2000, caps={(): Fraction(1)}, over="spill")
    assert short.short == 900 and any("budget not met: 900" in one for one in short.warnings)


def test_starved_and_unused_groups_are_named() -> None:
    groups = [Group(("web",), 10**9, 10), Group(("tiny",), 10, 1), Group(("idle",), 7, 1)]
    weights = {("web",): Fraction(10**9), ("tiny",): Fraction(1)}
    said = plan_mix(groups, weights, unit="tokens", budget=100).warnings
    assert any(one.startswith("starved: tiny") for one in said) and any(one.startswith("unused: idle") for one in said)


@pytest.mark.parametrize(
    ("weights", "unit", "budget", "words"),
    [
        ({("nobody",): Fraction(1)}, "tokens", 10, "no group 'nobody'"),
        ({("web",): Fraction(0)}, "tokens", 10, "take nothing"),
        ({("web",): Fraction(1)}, "documents", None, "give a budget"),
    ],
)
def test_what_cannot_be_is_refused(weights, unit, budget, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FixInput, match=words):
        plan_mix([Group(("web",), 5, 1)], weights, unit=unit, budget=budget)


def test_numbers_are_read_exactly() -> None:
    found = [parse_number(text) for text in ("0.1", "10%", "1/3", "1e-3")]
    assert found == [Fraction(1, 10), Fraction(1, 10), Fraction(1, 3), Fraction(1, 1000)]
    for text in ("", "a", "-1", "1/0", "nan", "inf"):
        with pytest.raises(BadQuery):
            parse_number(text)
    for texts in (["web"], ["=1"], ["web=1", "web=2"]):
        with pytest.raises(BadQuery):
            parse_weights(texts)
