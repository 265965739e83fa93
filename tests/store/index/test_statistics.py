"""Counts of n-grams, repeats and contamination, added up over shards, equal to counting in lists."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.index.naive import Naive, build, corpora, queries
from typecase.errors import BadQuery

few = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@few
@given(data=st.data())
def test_counts_and_repeats(data: st.DataObject) -> None:
    docs = data.draw(corpora(9))
    naive, n = Naive(docs), data.draw(st.integers(1, 4))
    counts = naive.ngrams(n)
    with tempfile.TemporaryDirectory() as folder:
        index = build(Path(folder), docs, shard_tokens=data.draw(st.sampled_from([None, 1, 8])))
        least = data.draw(st.integers(1, 3))
        found = index.ngrams(n, at_least=least)
        assert [tuple(g) for g in found.ids.tolist()] == sorted(g for g, c in counts.items() if c >= least)
        assert found.counts.tolist() == [counts[tuple(g)] for g in found.ids.tolist()]
        assert all(p in naive.positions(g) for g, p in zip(found.ids.tolist(), found.positions.tolist()))
        top = index.ngrams(n, top=3)
        want = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]
        assert [(tuple(g), c) for g, c in zip(top.ids.tolist(), top.counts.tolist())] == want

        repeated = index.duplicates(n)
        assert list(zip(repeated.starts.tolist(), repeated.stops.tolist(), repeated.docs.tolist())) == stretches(naive, n)

        texts = data.draw(st.lists(queries(docs, 9), max_size=3))
        for text, share in zip(texts, index.contamination(texts, n)):
            grams = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
            assert np.isnan(share) if not grams else np.isclose(share, sum(g in counts for g in grams) / len(grams))


def stretches(naive: Naive, n: int) -> list[tuple[int, int, int]]:
    counts, out = naive.ngrams(n), list[tuple[int, int, int]]()
    for d, doc in enumerate(naive.docs):
        start = naive.starts[d]
        for i in range(len(doc) - n + 1):
            if counts[tuple(doc[i : i + n])] < 2:
                continue
            if out and out[-1][2] == d and out[-1][1] > start + i:
                out[-1] = (out[-1][0], start + i + n, d)
            else:
                out.append((start + i, start + i + n, d))
    return out


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    index = build(tmp_path, [[1, 2]])
    for ask in (
        lambda: index.ngrams(0, top=1),
        lambda: index.ngrams(2),
        lambda: index.ngrams(2, top=1, at_least=1),
        lambda: index.duplicates(0),
        lambda: index.contamination([[1]], 0),
    ):
        with pytest.raises(BadQuery, match="1 "):
            ask()
