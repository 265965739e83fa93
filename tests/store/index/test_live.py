"""Edits and appended sets: at every moment the answers of a fresh index."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.index.naive import Docs, Naive, build, corpora, queries
from typecase.errors import BadQuery
from typecase.store.index.live import Change, LiveIndex

few = settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@st.composite
def changes(draw: st.DrawFn, docs: Docs) -> list[tuple[int, int, int, list[int]]]:
    """Edits as (document, start, stop, tokens), at most three a document, none overlapping."""
    out = []
    for d, doc in enumerate(docs):
        cuts = sorted(draw(st.lists(st.integers(0, len(doc)), max_size=6, unique=True))) if doc else []
        spans = list(zip(cuts[::2], cuts[1::2]))
        if len(cuts) % 2 and cuts[-1] < len(doc):
            spans.append((cuts[-1], cuts[-1]))  # an insertion
        out += [(d, a, b, draw(st.lists(st.sampled_from([0, 1, 2, 7]), max_size=4))) for a, b in spans]
    return out


@few
@given(data=st.data())
def test_equal_to_a_fresh_index(data: st.DataObject) -> None:
    docs, more = data.draw(corpora(9).filter(any)), data.draw(st.none() | corpora(9))
    edits = data.draw(changes(docs))
    now = [list(doc) for doc in docs]
    for d, a, b, tokens in reversed(edits):
        now[d][a:b] = tokens
    starts = Naive(docs).starts
    naive = Naive(now + (more or []))
    with tempfile.TemporaryDirectory() as folder:
        index = build(Path(folder), docs, shard_tokens=data.draw(st.sampled_from([None, 8])))
        appended = [build(Path(folder) / "more", more)] if more is not None else []
        changed = [Change(starts[d] + a, starts[d] + b, tokens) for d, a, b, tokens in edits]
        live = LiveIndex(index, data.draw(st.permutations(changed)), appended=appended)
        assert live.num_tokens == len(naive.text)
        asked = [data.draw(queries(naive.docs, 9)) for _ in range(6)]
        for query in asked:
            hits = naive.positions(query)
            assert live.count(query) == len(hits)
            assert live.contains(query) == bool(hits)
            assert live.positions(query).tolist() == hits
            assert live.positions(query, offset=1, limit=2).tolist() == hits[1:3]
            want, ends = naive.next(query)
            follows = live.next(query)
            assert dict(zip(follows.ids.tolist(), follows.counts.tolist())) == want and follows.ends == ends
        assert live.count_batch(asked).tolist() == [len(naive.positions(q)) for q in asked]


@pytest.mark.parametrize(
    "edits, words",
    [
        ([Change(0, 9, [])], "leaves the set"),
        ([Change(2, 4, [])], "leaves document 0, which ends at 3"),
        ([Change(0, 2, []), Change(1, 3, [])], "overlap"),
        ([Change(1, 1, [5]), Change(1, 1, [6])], "overlap"),
        ([Change(1, 1, [70_000])], "id 70000"),
    ],
)
def test_edits_that_cannot_be(tmp_path: Path, edits: list[Change], words: str) -> None:
    with pytest.raises(BadQuery, match=words):
        LiveIndex(build(tmp_path, [[1, 2, 3], [4]]), edits)
