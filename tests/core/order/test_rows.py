"""Rows: the walk against the definition, taken literally."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from typecase.core.order.rows import sample_rows
from typecase.errors import BadQuery


def naive_rows(lengths: list[int], order: list[int], length: int, extra: int, count: int) -> list[list[int]]:
    """The closed form, one row at a time; what the stream does not reach is the end of its last sequence."""
    ends = np.cumsum([lengths[s] for s in order])
    rows = [[0, 0]]
    for k in range(1, count + 1):
        reach = [j for j, end in enumerate(ends) if end >= k * length + extra]
        if reach:
            rows.append([reach[0], int(k * length - ends[reach[0]] + lengths[order[reach[0]]])])
        else:
            rows.append([len(order) - 1, lengths[order[-1]] - extra])
    return rows


@settings(max_examples=200, deadline=None)
@given(
    order=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    lengths=st.lists(st.integers(0, 9) | st.just(1), min_size=5, max_size=5),
    length=st.integers(1, 8),
    extra=st.integers(0, 1),
    partial=st.booleans(),
)
@example(order=[0], lengths=[4, 0, 0, 0, 0], length=4, extra=0, partial=False)
@example(order=[0, 1, 2], lengths=[4, 0, 1, 0, 0], length=4, extra=1, partial=False)
def test_rows_are_the_closed_form(order: list[int], lengths: list[int], length: int, extra: int, partial: bool) -> None:
    total = sum(lengths[s] for s in order) - extra
    count = max(-(-total // length) if partial else total // length, 0)
    cut = partial and total % length > 0
    expected = naive_rows(lengths, order, length, extra, count)
    sequences, held = np.array(order, np.int32), np.array(lengths, np.int32)
    if cut and expected[-1][1] < 0:
        with pytest.raises(BadQuery, match="no token"):
            sample_rows(sequences, held, seq_length=length, extra=extra, num_samples=count, partial=partial)
        return
    found = sample_rows(sequences, held, seq_length=length, extra=extra, num_samples=count, partial=partial, dtype=np.int32)
    assert found.dtype == np.int32 and found.tolist() == expected


def test_long_walks_cross_blocks() -> None:
    rng = np.random.default_rng(1)
    lengths, sequences = rng.integers(0, 30, 500).astype(np.int32), rng.integers(0, 500, 5000).astype(np.int64)
    ends = np.cumsum(lengths[sequences].astype(np.int64))
    count = int(ends[-1] - 1) // 16
    found = sample_rows(sequences, lengths, seq_length=16, extra=1, num_samples=count)
    j = np.searchsorted(ends, np.arange(1, count + 1) * 16 + 1)
    assert np.array_equal(found[1:, 0], j)
    assert np.array_equal(found[1:, 1], np.arange(1, count + 1) * 16 - ends[j] + lengths[sequences[j]])


def test_lengths_of_any_form() -> None:
    """As they stand in a mapped `.idx`: unaligned, read-only, strided."""
    lengths = np.array([5, 0, 7, 3], np.int32)
    unaligned = np.frombuffer(b"\0\0" + lengths.tobytes(), np.uint8)[2:].view(np.int32)
    sequences = np.array([2, 0, 1, 3], np.int32)
    expected = sample_rows(sequences, lengths, seq_length=4, extra=1, num_samples=3)
    for form in (unaligned, np.repeat(lengths, 2)[::2], lengths.astype(np.int64)):
        assert np.array_equal(sample_rows(sequences, form, seq_length=4, extra=1, num_samples=3), expected)


def test_more_samples_than_tokens() -> None:
    sequences, lengths = np.array([0], np.int32), np.array([9], np.int32)
    with pytest.raises(BadQuery, match="for 2 samples of 4 and 3 are asked"):
        sample_rows(sequences, lengths, seq_length=4, extra=1, num_samples=3)
    with pytest.raises(BadQuery, match="for 2 samples of 4 and 4 are asked"):
        sample_rows(sequences, lengths, seq_length=4, extra=1, num_samples=4, partial=True)


def test_no_sample_at_all() -> None:
    none = np.zeros(0, np.int32)
    assert sample_rows(none, none, seq_length=4, extra=1, num_samples=0).tolist() == [[0, 0]]
