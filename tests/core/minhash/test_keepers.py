"""Keepers and crowds on sets alone: similarity by sets, joins by order, frequent shingles, what is a document's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.minhash.crowd import OWN_RUN, count_shingles, own_against, own_sets, sort_sets
from typecase.core.minhash.keepers import SLOTS, Candidates, choose_keepers, jaccard, number_buckets

SETS = st.sets(st.integers(0, 12), max_size=10)


def laid(documents: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    flat = np.array([shingle for document in documents for shingle in document], np.uint64)
    return flat, np.cumsum([0, *map(len, documents)]).astype(np.int64)


def candidates_of(documents: Sequence[Sequence[int]], crowd: int) -> Candidates:
    shingles, offsets = laid(documents)
    sets, own, frequent = np.zeros_like(shingles), np.zeros_like(shingles), np.zeros(len(shingles), np.uint8)
    ends = sort_sets(shingles, offsets, sets)
    own_ends, crowded = own_sets(shingles, offsets, count_shingles(sets, ends), crowd, frequent, own)
    return Candidates(shingles, frequent, offsets, sets, ends, own, own_ends, crowded)


@given(SETS, SETS)
def test_similarity_is_shared_over_all(a: set[int], b: set[int]) -> None:
    one, other = (np.array(sorted(x), np.uint64) for x in (a, b))
    assert jaccard(one, other) == (len(a & b) / len(a | b) if a | b else 1.0)


@given(st.lists(SETS, min_size=1, max_size=12), st.sampled_from([0.29, 0.5, 0.55, 0.57, 0.8, 1.0]))
def test_joins_are_those_of_a_plain_search(sets: list[set[int]], threshold: float) -> None:
    """All in one bucket: everyone is compared with every kept one before it, in order."""
    candidates = candidates_of([sorted(one) for one in sets], crowd=1000)
    joined, similarity, _ = choose_keepers(candidates, np.zeros((len(sets), 1), np.int32), threshold)
    kept: list[int] = []
    for k, one in enumerate(sets):
        found = [(j, len(one & sets[j]) / max(1, len(one | sets[j])) if one | sets[j] else 1.0) for j in kept]
        fits = [(j, s) for j, s in found if s >= threshold]
        assert (int(joined[k]), float(similarity[k])) == (fits[0] if fits else (k, 1.0))
        kept += [] if fits else [k]


def test_only_those_that_meet_are_compared() -> None:
    candidates = candidates_of([[1, 2, 3]] * 4, crowd=1000)
    buckets = np.array([[0, -1], [1, 0], [-1, 0], [-1, -1]], np.int32)
    joined, _, compared = choose_keepers(candidates, buckets, 0.8)
    assert joined.tolist() == [0, 1, 1, 3] and compared == 1


def test_a_bucket_of_strangers_costs_no_square() -> None:
    documents = [[10 * k, 10 * k + 1] for k in range(500)]
    _, _, compared = choose_keepers(candidates_of(documents, 1000), np.zeros((500, 1), np.int32), 0.5)
    assert compared == SLOTS * (SLOTS - 1) // 2 + (500 - SLOTS) * SLOTS


@given(st.lists(st.integers(0, 4), max_size=12))
def test_buckets_are_numbered_and_those_alone_have_none(keys: list[int]) -> None:
    found = number_buckets(np.array(keys, np.uint64)).tolist()
    shared = sorted({key for key in keys if keys.count(key) > 1})
    assert found == [shared.index(key) if key in shared else -1 for key in keys]


@given(st.lists(st.lists(st.integers(0, 30), max_size=60), max_size=6), st.integers(2, 4))
def test_own_is_every_long_run_without_a_frequent_shingle(documents: list[list[int]], crowd: int) -> None:
    found = candidates_of(documents, crowd)
    times = {k: sum(k in document for document in documents) for k in range(31)}
    for number, document in enumerate(documents):
        marks = [times[shingle] >= crowd for shingle in document]
        start, stop = found.offsets[number : number + 2]
        assert found.frequent[start:stop].astype(bool).tolist() == marks
        assert bool(found.crowded[number]) == any(marks)
        own = found.own[found.own_ends[number] : found.own_ends[number + 1]].tolist()
        assert own == (naive_own(document, marks) if any(marks) else [])


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=80), st.sets(st.integers(0, 60)))
def test_own_against_another_leaves_out_what_is_frequent_and_shared(text: list[tuple[int, bool]], other: set[int]) -> None:
    shingles = np.array([shingle for shingle, _ in text], np.uint64)
    frequent = np.array([mark for _, mark in text], np.uint8)
    marks = [mark and shingle in other for shingle, mark in text]
    found = own_against(shingles, frequent, np.array(sorted(other), np.uint64)).tolist()
    assert found == naive_own([shingle for shingle, _ in text], marks)


def naive_own(document: Sequence[int], marks: Sequence[bool]) -> list[int]:
    """The distinct shingles of runs of OWN_RUN or more without a mark."""
    own: set[int] = set()
    run: list[int] = []
    for shingle, mark in [*zip(document, marks, strict=True), (0, True)]:
        if mark:
            own |= set(run) if len(run) >= OWN_RUN else set()
            run = []
        else:
            run.append(shingle)
    return sorted(own)


@pytest.mark.parametrize(("own", "same"), [(range(100, 104), True), (range(100, 140), False)])
def test_in_a_crowd_a_body_decides_and_a_few_words_do_not(own: range, same: bool) -> None:
    """Twelve documents of 200 shared shingles, and in the last some of its own."""
    documents = [list(range(1000, 1200)) for _ in range(11)] + [[*range(1000, 1200), *own]]
    joined, _, _ = choose_keepers(candidates_of(documents, crowd=10), np.zeros((12, 1), np.int32), 0.8)
    assert joined[:11].tolist() == [0] * 11
    assert (joined[11] == 0) == same
