"""Several phrases: exact answers equal a naive look at every document; estimates say how far off they may be."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.index.naive import Naive, build, corpora, queries
from typecase.errors import BadQuery
from typecase.store.index import boolean

few = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
Clause = list[list[int]]


def hits_of(naive: Naive, clause: Clause) -> list[int]:
    return sorted({p for phrase in clause for p in naive.positions(phrase)})


def expected(naive: Naive, clauses: list[Clause], within: int | None) -> list[int]:
    totals = [sum(len(naive.positions(p)) for p in {tuple(p) for p in clause}) for clause in clauses]
    anchor = totals.index(min(totals))
    others = [hits_of(naive, c) for k, c in enumerate(clauses) if k != anchor]

    def near(a: int, b: int) -> bool:
        return naive.doc_of(a) == naive.doc_of(b) and (within is None or abs(a - b) <= within)

    return [p for p in hits_of(naive, clauses[anchor]) if all(any(near(p, q) for q in hits) for hits in others)]


@pytest.mark.parametrize("listed", [0, 20, 10**9], ids=["listed", "mixed", "scanned"])
@few
@given(data=st.data())
def test_equal_to_a_naive_look(listed: int, data: st.DataObject) -> None:
    docs = data.draw(corpora(9))
    naive = Naive(docs)
    clauses = data.draw(st.lists(st.lists(queries(docs, 9).filter(len), min_size=1, max_size=3), min_size=1, max_size=3))
    within = data.draw(st.none() | st.integers(0, 6))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(boolean, "_LISTED_NS", listed)
        index = build(Path(folder), docs, shard_tokens=data.draw(st.sampled_from([None, 8])))
        found = index.matching(clauses, within=within)
        assert found.positions.tolist() == expected(naive, clauses, within)
        assert found.exact and found.count == len(found.positions) and found.standard_error == 0
        assert found.docs.tolist() == [naive.doc_of(p) for p in found.positions.tolist()]
        order = sorted(
            (
                (-sum(bool(h) for h in per), -sum(len(h) for h in per), d)
                for d in range(len(docs))
                if any(per := [[p for p in hits_of(naive, c) if naive.doc_of(p) == d] for c in clauses])
            ),
        )
        ranked = index.ranked(clauses, limit=4)
        assert list(zip(ranked.clauses.tolist(), ranked.hits.tolist(), ranked.docs.tolist())) == [
            (-c, -h, d) for c, h, d in order[:4]
        ]


def test_an_estimate_is_unbiased_and_says_how_far_off(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    docs = [rng.choice(30, 40, p=np.arange(30, 0, -1) / 465).tolist() for _ in range(200)]
    index = build(tmp_path, docs, shard_tokens=2000)
    clauses = [[[20], [20, 1], [21]], [[3]]]
    exact = index.matching(clauses, within=8)
    drawn = [index.matching(clauses, within=8, estimate=80, seed=seed) for seed in range(200)]
    errors = np.array([(d.count - exact.count) / d.standard_error for d in drawn])
    assert not drawn[0].exact and drawn[0].looked_at == 80 and drawn[0].hits > 80
    assert abs(errors.mean()) < 0.3 and 0.7 < errors.std() < 1.3
    assert drawn[0].count == index.matching(clauses, within=8, estimate=80, seed=0).count
    assert set(drawn[0].positions.tolist()) <= set(exact.positions.tolist())
    assert index.matching(clauses, within=8, estimate=10**6).exact


def test_a_single_phrase_is_a_clause(tmp_path: Path) -> None:
    index = build(tmp_path, [[1, 2, 3], [1, 2], [3]])
    assert index.matching([[1, 2], [3]]).positions.tolist() == [2] or index.matching([[1, 2], [3]]).docs.tolist() == [0]
    assert index.matching([np.array([1, 2]), [[3], [2]]]).docs.tolist() == [0, 1]


@pytest.mark.parametrize(
    "clauses, options, words",
    [
        ([], {}, "no clause"),
        ([[1], []], {}, "holds everywhere"),
        ([[[1], []]], {}, "holds everywhere"),
        ([[1]], {"within": -1}, "0 or more"),
        ([[1]], {"estimate": 1}, "2 or more"),
        ([[70_000]], {}, "id 70000"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, clauses: list[list[int]], options: dict[str, int], words: str) -> None:
    with pytest.raises(BadQuery, match=words):
        build(tmp_path, [[1, 2]]).matching(clauses, **options)
