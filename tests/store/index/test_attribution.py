"""Given texts: longest matches and maximal stretches equal a naive search."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.index.naive import Naive, build, corpora, queries
from typecase.errors import BadQuery

few = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def longest(naive: Naive, text: list[int], start: int) -> int:
    return max(stop for stop in range(start, len(text) + 1) if stop == start or naive.positions(text[start:stop]))


@pytest.mark.parametrize("dtype, max_id", [("uint16", 65_535), ("int32", 2**31 - 1)])
@few
@given(data=st.data())
def test_longest_matches_equal_a_naive_search(dtype: str, max_id: int, data: st.DataObject) -> None:
    docs = data.draw(corpora(max_id))
    text = [t for piece in data.draw(st.lists(queries(docs, max_id), max_size=4)) for t in piece]
    with tempfile.TemporaryDirectory() as folder:
        index = build(Path(folder), docs, dtype, shard_tokens=data.draw(st.sampled_from([None, 3, 12])))
        assert index.longest_match(text).tolist() == [longest(Naive(docs), text, i) for i in range(len(text))]


@few
@given(data=st.data())
def test_maximal_stretches(data: st.DataObject) -> None:
    docs = data.draw(corpora(9))
    naive = Naive(docs)
    text = [t for piece in data.draw(st.lists(queries(docs, 9), max_size=4)) for t in piece]
    min_len, max_count = data.draw(st.integers(1, 3)), data.draw(st.none() | st.integers(1, 4))
    begins = np.array([True, True, False, True, False]) if data.draw(st.booleans()) else None
    delimiters = data.draw(st.sampled_from([(), (1,), (7, 2)]))

    def is_begin(i: int) -> bool:
        return begins is None or i in (0, len(text)) or (text[i] < len(begins) and bool(begins[text[i]]))

    want, reached = [], 0
    for start in range(len(text)):
        stop = longest(naive, text, start)
        stop = next((i + 1 for i in range(start, stop) if text[i] in delimiters), stop)
        while stop > start and not is_begin(stop):
            stop -= 1
        hits = naive.positions(text[start:stop])
        if is_begin(start) and stop - start >= min_len and stop > reached and (max_count is None or len(hits) <= max_count):
            want.append((start, stop, len(hits), hits))
            reached = stop
    with tempfile.TemporaryDirectory() as folder:
        index = build(Path(folder), docs, shard_tokens=data.draw(st.sampled_from([None, 6])))
        options = {"min_len": min_len, "max_count": max_count, "delimiters": delimiters, "word_begins": begins}
        found = index.attribute(text, **options)
        assert [(s.start, s.stop, s.count, s.positions.tolist()) for s in found] == want
        for s in found:
            shares = [naive.text.count(t) / len(naive.text) for t in text[s.start : s.stop]]
            assert math.isclose(s.log_prob, sum(map(math.log, shares)), abs_tol=1e-9)
            assert s.docs.tolist() == [naive.doc_of(p) for p in s.positions.tolist()]


def test_a_long_verbatim_text(tmp_path: Path) -> None:
    doc = np.random.default_rng(1).integers(0, 50, 3000).tolist()
    index = build(tmp_path, [doc, doc[:1000]])
    text = doc[500:2500]
    assert index.longest_match(text).tolist() == [2000] * 2000
    (only,) = index.attribute(text)
    assert (only.start, only.stop, only.positions.tolist()) == (0, 2000, [500])
    with pytest.raises(BadQuery, match="1 token or more"):
        index.attribute(text, min_len=0)
