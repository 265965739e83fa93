"""Census: counts are those of a naive count; merging is associative, commutative, and has a unit."""

from __future__ import annotations

from collections import Counter as Bag

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.census import NONE, Census, Counter, empty_census

NUM_IDS, NUM_SOURCES, K = 7, 3, 2
documents = st.lists(st.tuples(st.integers(0, NUM_SOURCES - 1), st.lists(st.integers(0, NUM_IDS + 1), max_size=9)), max_size=12)
Docs = list[tuple[int, list[int]]]


def counted(docs: Docs, first: int = 0, dtype: str = "uint16") -> Census:
    counter = Counter(NUM_IDS, num_sources=NUM_SOURCES, num_examples=K)
    tokens = np.array([t for _, doc in docs for t in doc], dtype)
    ends = np.cumsum([len(doc) for _, doc in docs], dtype=np.int64)
    counter.add(tokens, ends, first, np.array([source for source, _ in docs], np.int64))
    return counter.census()


def same(a: Census, b: Census) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in Census.__dataclass_fields__)


@given(documents, st.sampled_from(["uint16", "int32", "int64", "uint8"]))
@settings(max_examples=60, deadline=None)
def test_counts_are_naive_counts(docs: Docs, dtype: str) -> None:
    found = counted(docs, 5, dtype)
    for token in range(NUM_IDS):
        holders = [d for d, (_, doc) in enumerate(docs) if token in doc]
        assert found.examples[token].tolist() == ([d + 5 for d in holders] + [NONE] * K)[:K]
        for source in range(NUM_SOURCES):
            own = [doc for s, doc in docs if s == source]
            assert found.counts[source, token] == sum(doc.count(token) for doc in own)
            assert found.documents[source, token] == sum(token in doc for doc in own)
    assert found.outside == sum(t >= NUM_IDS for _, doc in docs for t in doc)
    assert found.num_documents == len(docs) and found.num_tokens == sum(len(doc) for _, doc in docs)
    assert (found.in_sources <= found.in_documents).all()


@given(documents, st.integers(0, 12), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_merging(docs: Docs, i: int, j: int) -> None:
    i, j = sorted((min(i, len(docs)), min(j, len(docs))))
    a, b, c = counted(docs[:i]), counted(docs[i:j], i), counted(docs[j:], j)
    whole = counted(docs)
    unit = empty_census(NUM_IDS, num_sources=NUM_SOURCES, num_examples=K)
    assert same((a + b) + c, whole) and same(a + (b + c), whole) and same(c + (a + b), whole)
    assert same(a + unit, a) and same(unit + a, a)


@given(documents)
@settings(max_examples=60, deadline=None)
def test_family_means_the_very_same_documents(docs: Docs) -> None:
    found = counted(docs)
    held = [frozenset(d for d, (_, doc) in enumerate(docs) if t in doc) for t in range(NUM_IDS)]
    groups = Bag(zip(found.in_documents.tolist(), found.family.tolist()))
    assert sorted(groups.values()) == sorted(Bag(held).values())


def test_negative_ids_lie_outside() -> None:
    counter = Counter(4)
    counter.add(np.array([-1, 2, -5, 9], "int32"), np.array([4]), 0)
    assert counter.census().outside == 3 and counter.census().total.tolist() == [0, 0, 1, 0]


def test_what_does_not_fit_is_refused() -> None:
    counter = Counter(4, num_sources=2)
    for ends in ([3], [5], [3, 2, 4], []):
        with pytest.raises(ValueError, match="document ends"):
            counter.add(np.zeros(4, "uint16"), np.array(ends, np.int64), 0)
    with pytest.raises(ValueError, match="sources below 2"):
        counter.add(np.zeros(4, "uint16"), np.array([4]), 0, np.array([2]))
    with pytest.raises(ValueError, match="do not merge"):
        empty_census(3) + empty_census(4)
