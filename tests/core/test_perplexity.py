"""Perplexity aggregates: by hand on a small set, exact under any cut, odd documents counted and never averaged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.perplexity import Perplexity, status_of, summarise

NATS, TOKENS, UNSCORED, BYTES = (np.array(c) for c in ([2.0, 12.0, np.nan, 3.0], [3, 4, 0, 1], [1, 0, 0, 0], [8, 20, 2, 4]))
STATUSES = ["ok", "ok", "empty_text", "one_token"]


def test_by_hand() -> None:
    found = summarise(NATS, TOKENS, UNSCORED, BYTES, STATUSES)
    assert found.token_weighted == pytest.approx(math.exp(14 / 6))
    assert found.geometric == pytest.approx(math.exp((1 + 3) / 2)) and found.median == pytest.approx(math.exp(2))
    assert found.published == pytest.approx((math.e + math.exp(3)) / 2)
    assert found.bits_per_byte == pytest.approx(14 / math.log(2) / 28)
    assert (found.documents, found.tokens, found.unscored, found.bytes) == (2, 7, 1, 28)
    assert found.statuses == {"ok": 2, "empty_text": 1, "one_token": 1}


def test_nothing_has_no_number() -> None:
    nothing = np.zeros(0)
    ints = np.zeros(0, np.int64)
    assert summarise(nothing, ints, ints, ints, []) == Perplexity(None, None, None, None, None, 0, 0, 0, 0, {})
    assert summarise(NATS[2:], TOKENS[2:], UNSCORED[2:], BYTES[2:], STATUSES[2:]).token_weighted is None


@given(st.lists(st.tuples(st.floats(0.001, 1e6), st.integers(1, 1000)), min_size=1, max_size=30), st.randoms())
def test_any_order_comes_to_the_same_number(rows: list[tuple[float, int]], dice: object) -> None:
    def of(some: list[tuple[float, int]]) -> Perplexity:
        tokens = np.array([t for _, t in some])
        return summarise(np.array([n for n, _ in some]), tokens, np.zeros_like(tokens), tokens, ["ok"] * len(some))

    mixed = list(rows)
    dice.shuffle(mixed)  # type: ignore[attr-defined]
    assert of(rows) == of(mixed)


def test_statuses() -> None:
    assert [status_of(5, True), status_of(0, False), status_of(1, False), status_of(2, False)] == [
        "empty_text", "empty_text", "one_token", "ok",
    ]  # fmt: skip
