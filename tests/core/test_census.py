"""Census: counts are those of a naive count; merging is associative, commutative, and has a unit."""

from __future__ import annotations

from collections import Counter as Bag

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typecase.core.census as census_module
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


def test_more_documents_than_marks_tell_apart() -> None:
    """Marks of the last document are wiped after 65,535: nothing may be taken for seen, or for new, across that."""
    num, num_ids = 140_000, 5
    tokens = np.random.default_rng(3).integers(0, num_ids + 1, 2 * num).astype(np.uint16)
    ends = np.arange(1, num + 1, dtype=np.int64) * 2
    counter = Counter(num_ids, num_examples=2)
    for first in range(0, num, 50_000):
        last = min(num, first + 50_000)
        counter.add(tokens[2 * first : 2 * last], ends[: last - first], first)
    found, pairs = counter.census(), tokens.reshape(-1, 2)
    for token in range(num_ids):
        holders = np.flatnonzero((pairs == token).any(axis=1))
        assert found.documents[0, token] == len(holders) and found.counts[0, token] == (tokens == token).sum()
        assert found.examples[token].tolist() == holders[:2].tolist()
    assert found.outside == (tokens == num_ids).sum() and found.num_documents == num


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64"])
def test_ids_far_outside(dtype: str) -> None:
    limits = np.iinfo(dtype)
    tokens = np.array([3, limits.max, limits.min, 3, min(limits.max, 70_000)], dtype)
    counter = Counter(4)
    counter.add(tokens, np.array([2, 5]), 0)
    found = counter.census()
    assert found.outside == int((tokens.astype(object) >= 4).sum() + (tokens.astype(object) < 0).sum())
    assert found.total.tolist() == [int((tokens == t).sum()) for t in range(4)] and found.in_documents[3] == 2


@given(documents, st.integers(9, 40))
@settings(max_examples=40, deadline=None)
def test_counts_beyond_32_bits(docs: Docs, most: int) -> None:
    """Counts kept in 32 bits are folded into 64 before they could overflow; where that happens changes nothing."""
    counter, naive = Counter(NUM_IDS, num_sources=NUM_SOURCES, num_examples=K), counted(docs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(census_module, "_MOST", most)
        for k, (source, doc) in enumerate(docs):
            counter.add(np.array(doc, "uint16"), np.array([len(doc)]), k, np.array([source]))
            if k % 4 == 3:
                counter.census()
        assert same(counter.census(), naive) and same(counter.census(), naive)
        with pytest.raises(ValueError, match="too many to add at once"):
            counter.add(np.zeros(most + 1, "uint16"), np.array([most + 1]), len(docs))
