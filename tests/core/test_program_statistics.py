"""Statistics of programs, and FLOPs: against readable versions and the published check values."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from typecase.core.lines import line_table
from typecase.core.program.flops import (
    break_even_parameters,
    published_flops,
    refining_flops,
    training_flops,
    training_tokens,
)
from typecase.core.program.guards import FREE
from typecase.core.program.language import Program, remove_lines, remove_str
from typecase.core.program.run import run
from typecase.core.program.statistics import (
    BUCKETS,
    QUANTILES,
    Agreement,
    agreement,
    bucket_names,
    lengths_of,
    removed_lines,
)


def test_the_published_flops() -> None:
    cost = published_flops(313_000_000, 62.5e9, 19.0e9)
    assert cost == pytest.approx(5.1e19, rel=0.001)
    assert training_tokens(cost, 710_000_000) == pytest.approx(12e9, rel=0.01)
    assert training_tokens(cost, 1_676_000_000) == pytest.approx(5e9, rel=0.02)
    assert refining_flops(10, 90, 10) == 2_000 == published_flops(10, 60, 40)
    assert training_tokens(training_flops(7, 30.0), 7) == 30.0


def test_refining_pays_from_where_training_saves_as_much() -> None:
    size = break_even_parameters(6e18, 3e9, 1e9)
    assert size == pytest.approx(5e8)
    assert size is not None and 6e18 + training_flops(int(size), 1e9) == pytest.approx(training_flops(int(size), 3e9))
    assert break_even_parameters(6e18, 1e9, 1e9) is None


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=60))
def test_lengths_are_those_of_documents(units: list[int]) -> None:
    found = lengths_of(np.array(units, np.int64))
    assert found.documents == len(units) and found.units == sum(units) and found.mean == pytest.approx(sum(units) / len(units))
    assert found.short == pytest.approx(sum(u < 200 for u in units) / len(units))
    for percent, value in zip(QUANTILES, found.quantiles, strict=True):
        assert value in units and sum(u <= value for u in units) * 100 >= percent * len(units)
        assert sum(u < value for u in units) * 100 < percent * len(units) or value == min(units)


def test_no_documents_have_lengths_too() -> None:
    assert lengths_of(np.zeros(0, np.int64)).quantiles == (0,) * len(QUANTILES)
    assert len(bucket_names()) == len(BUCKETS) and bucket_names()[0] == "0–49" and bucket_names()[-1] == "5000+"


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_agreement_adds_up_and_turns_round(a: set[int], b: set[int], c: set[int]) -> None:
    found = agreement(a, b)
    assert (found.precision, found.recall) == (agreement(b, a).recall, agreement(b, a).precision)
    assert found.f1 == (None if not a | b else pytest.approx(2 * len(a & b) / (len(a) + len(b))))
    assert agreement(a, a).f1 in (None, 1.0)
    assert found + agreement(c, b) == Agreement(len(a & b) + len(c & b), len(a - b) + len(c - b), len(b - a) + len(b - c))


TEXTS = st.lists(st.sampled_from(["one two", "three", "", "  ", "four five six"]), min_size=1, max_size=8)


@given(TEXTS, st.data())
def test_removed_lines_are_those_that_were_named(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    named = data.draw(st.sets(st.integers(0, len(lines) - 1), min_size=1))
    outcome = run(Program(tuple(remove_lines(n, n) for n in sorted(named))), text, FREE)
    if outcome.status == "edited":
        assert removed_lines(text, outcome.changes) == {n for n in named if lines[n].strip()}


def test_a_line_of_which_a_part_is_left_is_not_removed() -> None:
    text = "one two\n  all of it \nthree"
    some = run(Program((remove_str(0, " two"),)), text, FREE)
    assert some.text.startswith("one\n") and removed_lines(text, some.changes) == set()
    most = run(Program((remove_str(1, "all of it"),)), text, FREE)
    assert most.status == "edited" and removed_lines(text, most.changes) == {1}
    assert len(line_table(most.text)[0]) == 3, "blanks may be left of it"
