"""Marks: which suffixes begin with another two tokens than the one before them."""

from __future__ import annotations

import numpy as np
import pytest

from typecase.core.suffix.build import suffix_array
from typecase.core.suffix.marks import mark_changes
from typecase.core.suffix.tables import end_bits


@pytest.mark.parametrize("dtype, most", [("uint16", 300), ("int32", 5), ("int64", 2**40)])
def test_marks_are_where_the_first_two_tokens_change_for_any_number_of_threads(dtype: str, most: int) -> None:
    rng = np.random.default_rng(7)
    text = rng.integers(0, most, 210_001).astype(dtype)
    ends = np.unique(np.append(rng.integers(1, len(text), 3_000), len(text)))
    positions = np.asarray(suffix_array(text, ends), np.uint32)
    ended = np.isin(positions.astype(np.int64) + 1, ends)
    second = np.where(ended, -1, text[np.minimum(positions.astype(np.int64) + 1, len(text) - 1)].astype(np.int64))
    pairs = np.column_stack([text[positions].astype(np.int64), second])
    expected = np.append(True, (pairs[1:] != pairs[:-1]).any(axis=1))
    for threads in (1, 2, 3):
        marks = mark_changes(text, positions, end_bits(ends, len(text)), threads=threads)
        bits = np.unpackbits(marks.view(np.uint8), bitorder="little").astype(bool)
        assert np.array_equal(bits[: len(text)], expected) and not bits[len(text) :].any()
