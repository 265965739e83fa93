"""LCP and repeats against brute force, fenced."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.suffix.naive import documents_of, naive_lcp, naive_ngrams, texts
from tests.core.suffix.test_build import LONG
from typecase.core.suffix import crew, repeats
from typecase.core.suffix.build import suffix_array
from typecase.core.suffix.lcp import lcp_array
from typecase.core.suffix.repeats import duplicated_spans, frequent_ngrams, top_ngrams


@settings(max_examples=300, deadline=None)
@given(texts(), st.sampled_from([None, 1, 2, 5, 300]))
def test_lcp_is_what_neighbours_share(text, cap):
    tokens, ends = text
    array = suffix_array(tokens, ends)
    expected = naive_lcp(tokens, ends, array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crew.spans, "__defaults__", (4,))
        shared = lcp_array(tokens, array, ends, cap=cap, threads=3)
    assert shared.tolist() == [min(h, cap or h) for h in expected]


@pytest.mark.parametrize(("cap", "dtype"), [(1, np.uint8), (255, np.uint8), (256, np.uint16), (None, np.uint32)])
def test_lcp_is_as_small_as_its_cap(cap, dtype):
    tokens, ends = LONG["natural"]
    array = suffix_array(tokens, ends, threads=2)
    full = lcp_array(tokens, array, ends)
    shared = lcp_array(tokens, array, ends, cap=cap, threads=2)
    assert shared.dtype == dtype
    assert np.array_equal(shared, full if cap is None else np.minimum(full, cap))


def test_lcp_of_one_token_repeated():
    tokens = np.full(50_000, 3, np.uint16)
    assert np.array_equal(lcp_array(tokens, suffix_array(tokens)), np.arange(50_000))


@settings(max_examples=200, deadline=None)
@given(texts(), st.integers(1, 4), st.integers(2, 5), st.integers(1, 6))
def test_frequent_ngrams(text, n, threshold, k):
    tokens, ends = text
    array = suffix_array(tokens, ends)
    lcp = lcp_array(tokens, array, ends, cap=n)
    expected = {gram: positions for gram, positions in naive_ngrams(tokens, ends, n).items() if len(positions) >= threshold}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_BLOCK", 3)
        blocks = list(frequent_ngrams(lcp, n, threshold))
        top = top_ngrams(lcp, n, k)
    pairs = [(int(row), int(count)) for rows, counts in blocks for row, count in zip(rows, counts)]
    found = {
        tuple(tokens[array[row] : array[row] + n].tolist()): sorted(array[row : row + count].tolist()) for row, count in pairs
    }
    assert found == expected
    assert [row for row, _ in pairs] == sorted(row for row, _ in pairs)

    again = sorted(((-len(p), gram) for gram, p in naive_ngrams(tokens, ends, n).items() if len(p) > 1))[:k]
    assert [(-count, tuple(tokens[array[row] : array[row] + n].tolist())) for row, count in zip(*top)] == again


@settings(max_examples=300, deadline=None)
@given(texts(), st.integers(1, 5), st.booleans())
def test_duplicated_spans(text, length, capped):
    tokens, ends = text
    array = suffix_array(tokens, ends)
    lcp = lcp_array(tokens, array, ends, cap=length if capped else None)
    covered = np.zeros(len(tokens), bool)
    for positions in naive_ngrams(tokens, ends, length).values():
        for p in positions if len(positions) > 1 else []:
            covered[p : p + length] = True
    expected = []
    for start, stop in documents_of(tokens, ends):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], covered[start:stop], [0]))))
        expected += (start + edges.reshape(-1, 2)).tolist()
    assert duplicated_spans(array, lcp, length, ends, threads=2).tolist() == expected


def test_what_is_refused():
    tokens = np.array([1, 2, 1], np.uint16)
    array = suffix_array(tokens)
    lcp = lcp_array(tokens, array)
    with pytest.raises(ValueError, match="cap is at least 1"):
        lcp_array(tokens, array, cap=0)
    with pytest.raises(ValueError, match="threshold >= 2"):
        next(frequent_ngrams(lcp, 1, 1))
    with pytest.raises(ValueError, match="k >= 1"):
        top_ngrams(lcp, 1, 0)
    with pytest.raises(ValueError, match="at least one token"):
        duplicated_spans(array, lcp, 0)
