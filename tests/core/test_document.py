"""Ids, spans and balances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.balance import Balance
from typecase.core.document import Place, Span, id_from_key, id_from_place


def test_ids_are_pinned() -> None:
    # Changing an id breaks every side table ever written: it is a decision, not a refactoring.
    assert id_from_key("doc-1") == "7d6e6457fe3584a71212c68d98c690b5"
    assert id_from_place("a/b.jsonl", 17, b"hello") == "12f6037ceb89ec5df96d76e30ddc5219"


@given(st.text(), st.text())
def test_keys_give_different_ids(a: str, b: str) -> None:
    assert (id_from_key(a) == id_from_key(b)) == (a == b)
    assert len(id_from_key(a)) == 32


@given(st.tuples(st.text(), st.integers(0, 9), st.binary()), st.tuples(st.text(), st.integers(0, 9), st.binary()))
def test_a_place_and_a_content_give_an_id(a: tuple[str, int, bytes], b: tuple[str, int, bytes]) -> None:
    clear = "\0" not in a[0] + b[0]
    if clear:
        assert (id_from_place(*a) == id_from_place(*b)) == (a == b)


@given(st.integers(-3, 9), st.integers(-3, 9))
def test_a_backward_span_cannot_exist(start: int, stop: int) -> None:
    if 0 <= start <= stop:
        assert len(Span(start, stop)) == stop - start
    else:
        with pytest.raises(ValueError, match="0 <= start <= stop"):
            Span(start, stop)


def test_a_place_reads_as_people_write_it() -> None:
    assert str(Place("a.jsonl", 3, 120)) == "a.jsonl:3 (byte 120)"
    assert str(Place("a.parquet", 3)) == "a.parquet:3"


counts = st.dictionaries(st.sampled_from("abc"), st.integers(0, 5))


@given(st.integers(0, 9), counts, counts, st.integers(-2, 2))
def test_a_balance_that_does_not_close_cannot_exist(
    kept: int, removed: dict[str, int], quarantined: dict[str, int], off: int
) -> None:
    entered = kept + sum(removed.values()) + sum(quarantined.values()) + off
    if off:
        with pytest.raises(ValueError, match="does not close"):
            Balance(entered, kept, removed, quarantined)
    else:
        balance = Balance(entered, kept, removed, quarantined)
        both = balance + balance
        assert both.entered == 2 * entered and both.kept == 2 * kept
        assert sum(both.removed.values()) == 2 * balance.num_removed
