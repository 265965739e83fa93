"""Tails: the naive quantile, ties by row, at least one, never both; length held still."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.tails import tails
from typecase.errors import BadQuery


def naive(sources: list[int], means: list[float], quantile: float) -> tuple[list[int], list[int]]:
    low: list[int] = []
    high: list[int] = []
    for source in sorted(set(sources)):
        rows = [row for row, own in enumerate(sources) if own == source]
        size = max(1, int(quantile * len(rows) + 1e-9))
        top = sorted(rows, key=lambda row: (-means[row], row))[:size]
        high += top
        low += [row for row in sorted(rows, key=lambda row: (means[row], row)) if row not in top][:size]
    return low, high


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=60), st.sampled_from([0.01, 0.02, 0.1, 0.5]))
def test_tails_are_the_naive_ones(rows: list[tuple[int, int]], quantile: float) -> None:
    sources, means = [s for s, _ in rows], [float(m) for _, m in rows]
    found = tails(np.array(sources, np.int64), np.array(means), np.ones(len(rows), np.int64), quantile=quantile)
    assert (found.low.tolist(), found.high.tolist()) == naive(sources, means, quantile)
    assert not set(found.low.tolist()) & set(found.high.tolist())


def test_a_lone_document_is_high_and_a_hundred_give_two() -> None:
    one = tails(np.zeros(1, np.int64), np.array([3.0]), np.ones(1, np.int64), quantile=0.02)
    assert one.high.tolist() == [0] and one.low.tolist() == []
    many = tails(np.zeros(100, np.int64), np.arange(100.0), np.ones(100, np.int64), quantile=0.02)
    assert many.high.tolist() == [99, 98] and many.low.tolist() == [0, 1]


@pytest.mark.parametrize("control", ["bins", "regress"])
def test_control_takes_out_what_length_explains(control: str) -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(10, 5000, 2000)
    means = 9 - np.log(lengths) + rng.normal(0, 0.1, 2000)
    odd = rng.choice(2000, 40, replace=False)
    means[odd] += 2
    zeros = np.zeros(2000, np.int64)
    plain = tails(zeros, means, lengths, quantile=0.02)
    held = tails(zeros, means, lengths, quantile=0.02, control=control)  # type: ignore[arg-type]
    assert np.isin(held.high, odd).mean() > 0.85 > 0.5 > np.isin(plain.high, odd).mean()


def test_equal_lengths_need_no_line() -> None:
    found = tails(np.zeros(4, np.int64), np.array([1.0, 4, 2, 3]), np.full(4, 7), quantile=0.25, control="regress")
    assert found.high.tolist() == [1] and found.low.tolist() == [0]


@pytest.mark.parametrize(("quantile", "control"), [(0, "none"), (0.6, "none"), (0.1, "median")])
def test_what_cannot_be_is_refused(quantile: float, control: str) -> None:
    with pytest.raises(BadQuery):
        tails(np.zeros(1, np.int64), np.zeros(1), np.ones(1, np.int64), quantile=quantile, control=control)  # type: ignore[arg-type]
