"""The search kernels by themselves: ranks, successors, longest matches and walks equal counting in lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from typecase.core.suffix.build import suffix_array
from typecase.core.suffix.find import count_one, find_many, find_one, rank_range, sort_keys
from typecase.core.suffix.longest import longest_matches
from typecase.core.suffix.marks import mark_changes
from typecase.core.suffix.next import next_of, num_ending, successors
from typecase.core.suffix.scan import any_within, crossings, find_within
from typecase.core.suffix.tables import Suffixes, Tables, any_end, digit_bits, end_bits, first_tokens, sample_keys
from typecase.core.suffix.walk import frequent, histogram, mark_repeats

KINDS = [("uint16", 65_535), ("int32", 2**31 - 1), ("int64", 2**62)]
many = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
MOST = 2**63 - 1


def shard(docs: Sequence[Sequence[int]], dtype: str, *, table: bool = True) -> Suffixes:
    text = np.array([t for doc in docs for t in doc], dtype)
    ends = np.cumsum([len(doc) for doc in docs], dtype=np.int64)
    positions = suffix_array(text, ends)
    bits = end_bits(ends, len(text))
    low, high = int(text[positions[0]]), int(text[positions[-1]])
    width = digit_bits(low, high)
    ids, first = first_tokens(text, positions, 1 << 16)
    keys = sample_keys(text, positions, bits, low, width, 64 // width)
    marks = mark_changes(text, positions, bits)
    return Suffixes(text, positions, bits, keys, marks, ids if table else None, first if table else None)


def documents(max_id: int) -> st.SearchStrategy[list[list[int]]]:
    few = st.sampled_from([0, 1, max_id])
    some = st.integers(0, min(max_id, 9))
    doc = st.lists(few, max_size=60) | st.lists(some, max_size=60) | st.builds(lambda n: [1] * n, st.integers(1, 80))
    return st.lists(doc, min_size=1, max_size=5).filter(any)


def hits(docs: Sequence[Sequence[int]], query: Sequence[int]) -> int:
    return sum(list(doc[i : i + len(query)]) == list(query) for doc in docs for i in range(len(doc) - len(query) + 1))


@pytest.mark.parametrize("table", [True, False], ids=["table", "no-table"])
@pytest.mark.parametrize("dtype, max_id", KINDS, ids=[k for k, _ in KINDS])
@many
@given(data=st.data())
def test_ranks_are_those_of_a_scan(dtype: str, max_id: int, table: bool, data: st.DataObject) -> None:
    parts = data.draw(st.lists(documents(max_id), min_size=1, max_size=2))
    tables = Tables(np.dtype(dtype), [shard(docs, dtype, table=table) for docs in parts])
    text = [t for docs in parts for doc in docs for t in doc]
    piece = st.builds(lambda a, n: text[a : a + n], st.integers(0, len(text) - 1), st.integers(1, 12))
    asked = data.draw(st.lists(piece | st.lists(st.sampled_from([0, 1, 5, max_id]), min_size=1, max_size=5), min_size=1))
    flat = np.array([t for q in asked for t in q], np.int64)
    offsets = np.cumsum([0, *map(len, asked)])
    order = np.argsort(sort_keys(flat, offsets))
    for docs, row in zip(parts, tables.rows, strict=True):
        lower, upper = np.zeros((2, len(asked)), np.int64)
        find_many(tables.kind, row, flat, offsets, order, lower, upper)
        assert (upper - lower).tolist() == [hits(docs, q) for q in asked]
        for k, query in enumerate(asked):
            low, high = rank_range(tables.kind, row, np.array(query), np.uint64(0), len(query))
            assert high - low == upper[k] - lower[k] and (low == lower[k] or low == high)
            ids, counts, ends = next_of(tables.kind, row, np.array(query), np.uint64(0), len(query))
            grown = Counter(d[i + len(query)] for d in docs for i in places(d, query) if i + len(query) < len(d))
            assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == grown
            assert ends == hits(docs, query) - sum(grown.values())
    for query in asked:
        out = np.zeros((len(parts), 2), np.int64)
        total = sum(hits(docs, query) for docs in parts)
        assert count_one(tables.kind, tables.rows, np.array(query), MOST) == total
        assert find_one(tables.kind, tables.rows, np.array(query), MOST, out) == total == (out[:, 1] - out[:, 0]).sum()


def places(doc: Sequence[int], query: Sequence[int]) -> list[int]:
    return [i for i in range(len(doc) - len(query) + 1) if list(doc[i : i + len(query)]) == list(query)]


def test_long_runs_of_successors_are_counted() -> None:
    rng = np.random.default_rng(3)
    follows = np.concatenate([np.full(n, t) for t, n in enumerate([1, 5000, 2, 16, 17, 33, 700, 1, 64])])
    docs = [[9, int(t), 1, 2, int(t)] for t in rng.permutation(follows)] + [[9]] * 40
    tables = Tables(np.dtype("uint16"), [shard(docs, "uint16")])
    row = tables.rows[0]
    for query in ([9], [1, 2]):
        low, high = rank_range(tables.kind, row, np.array(query), np.uint64(0), len(query))
        ending = num_ending(row, low, high, len(query))
        ids, counts = successors(tables.kind, row, low + ending, high, len(query))
        assert ending == (40 if query == [9] else 0)
        assert ids.tolist() == list(range(9)) and counts.tolist() == [1, 5000, 2, 16, 17, 33, 700, 1, 64]
    deep = np.array([0] * 5)
    runs = Tables(np.dtype("uint16"), [shard([[0] * 5 + [t] for t in follows.tolist()], "uint16")])
    ids, counts, ends = next_of(runs.kind, runs.rows[0], deep, np.uint64(0), 5)
    assert ids.tolist() == list(range(9)) and counts.tolist() == [1, 5000, 2, 16, 17, 33, 700, 1, 64]
    assert ends == 1  # six times 0: behind the second five the document ends


def test_ids_outside_the_dtype_are_told() -> None:
    tables = Tables(np.dtype("uint16"), [shard([[1, 2]], "uint16")])
    assert count_one(tables.kind, tables.rows, np.array([1, 70_000]), 65_535) == -1
    assert count_one(tables.kind, tables.rows, np.array([-1]), 65_535) == -1
    assert count_one(tables.kind, tables.rows, np.zeros(0, np.int64), 65_535) == 2


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
def test_bits_of_document_ends(size: int) -> None:
    ends = np.array(sorted({0, size // 3, size // 2, size}), np.int64)
    bits = end_bits(ends, size)
    flags = np.isin(np.arange(size) + 1, ends)
    for start in range(0, size, 7):
        for stop in range(start, size + 1, 5):
            assert any_end(bits, np.uint64(start), np.uint64(stop)) == flags[start:stop].any()


@many
@given(docs=documents(9), given_text=st.lists(st.integers(0, 9), max_size=12), n=st.integers(1, 4), least=st.integers(1, 4))
def test_walks_and_longest_matches(docs: list[list[int]], given_text: list[int], n: int, least: int) -> None:
    cut = len(docs) // 2
    parts = [part for part in (docs[:cut], docs[cut:]) if any(part)]
    tables = Tables(np.dtype("uint16"), [shard(part, "uint16") for part in parts])
    grams = Counter(tuple(d[i : i + n]) for d in docs for i in range(len(d) - n + 1))
    where, counts = frequent(tables.kind, tables.rows, n, least)
    text = np.concatenate([s.text for s in tables.shards])
    found = {tuple(text[p : p + n].tolist()): c for p, c in zip(where, counts.tolist(), strict=True)}
    assert found == {g: c for g, c in grams.items() if c >= least} and list(found) == sorted(found)
    times = Counter(min(c, 3) for c in grams.values())
    assert histogram(tables.kind, tables.rows, n, 3).tolist() == [0, times[1], times[2], times[3]]
    marks = np.zeros(len(text), np.uint8)
    mark_repeats(tables.kind, tables.rows, n, marks)
    assert marks.sum() == sum(c for c in grams.values() if c > 1)
    lengths = np.zeros(len(given_text), np.int64)
    longest_matches(tables.kind, tables.rows, np.array(given_text, np.int64), lengths)
    for i, length in enumerate(lengths.tolist()):
        assert not length or hits(docs, given_text[i : i + length])
        assert i + length == len(given_text) or not hits(docs, given_text[i : i + length + 1])


def test_scans() -> None:
    text = np.array([1, 2, 1, 2, 1, 2, 3], np.uint16)
    assert crossings(text, np.array([2, 2, 3, 7]), np.array([2, 1])).tolist() == [1]
    assert crossings(text, np.array([2, 3, 7]), np.array([1, 2, 1])).tolist() == [0, 2]
    assert any_within(text, np.array([0, 1, 5]), np.array([2, 3, 7]), np.array([1, 2])).tolist() == [True, False, False]
    assert find_within(text, np.array([0, 3, 3, 7]), np.array([1, 2])).tolist() == [0, 4]
