"""Listed: what the list says, in both directions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.order.keyed import KeyedOrder
from typecase.core.order.listed import ListedOrder
from typecase.errors import BadQuery

BASE = KeyedOrder(seq_length=4, seed=1).lay(np.array([5, 0, 9, 3, 2], np.int32), num_samples=12)


@given(listed=st.lists(st.integers(0, 11), max_size=20))
@settings(max_examples=60, deadline=None)
def test_reads_and_sightings_are_inverse(listed):
    order = ListedOrder(BASE, np.array(listed, int))
    assert order.num_samples == len(listed) and order.sample_tokens == 5
    reads = order.reads(np.arange(len(listed)))
    there = set()
    for i, k in enumerate(listed):
        assert reads.packing[i] == BASE.reads([k]).packing[0]
        at = 0
        for piece in reads.packing[i]:
            there.add((i, at, piece.doc, piece.span.start, piece.span.stop))
            at += len(piece)
    assert reads.samples.tolist() == BASE.samples_of(listed).tolist()
    seen = order.sightings(np.arange(5), np.zeros(5, int), np.full(5, 9))
    assert set(zip(*(c.tolist() for c in (seen.indices, seen.at, seen.runs, seen.starts, seen.stops)))) == there
    assert np.all(np.diff(seen.indices * 100 + seen.at) > 0)


def test_lists_nest():
    inner = ListedOrder(BASE, np.array([7, 2, 2, 9]))
    outer = ListedOrder(inner, np.array([3, 0]))
    assert outer.reads([0, 1]).samples.tolist() == BASE.samples_of([9, 7]).tolist()
    assert outer.reads([1]).indices.tolist() == [1]


def test_wrong_lists_are_refused():
    with pytest.raises(BadQuery, match="entry 1 of the list is training index 12"):
        ListedOrder(BASE, np.array([3, 12]))
    with pytest.raises(BadQuery, match="one row of whole numbers"):
        ListedOrder(BASE, np.array([0.5]))
    with pytest.raises(BadQuery, match="no training index 2: the list has 2"):
        ListedOrder(BASE, np.array([3, 1])).reads([2])
