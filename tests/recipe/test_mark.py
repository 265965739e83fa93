"""mark: shares are naive ones, any parts and workers give the same rows, and search and selection go by them."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from tests.conftest import make_docs_artifact
from tests.recipe.rated import byte_tokenizer, corpus, rated
from tests.recipe.test_run import tree
from typecase.core.selection.selection import Budget, Policy
from typecase.engine.local import Local
from typecase.errors import BadQuery, FixInput
from typecase.recipe.build import Build
from typecase.recipe.mark import Mark, listed_tokens
from typecase.recipe.run import run_stage
from typecase.recipe.select import Select
from typecase.store.audit.files import write_table
from typecase.store.documents import open_documents
from typecase.store.journal.opening import open_set
from typecase.store.shards import read_columns
from typecase.store.timeline.documents import Library
from typecase.store.tokenizer.tokenizer import open_tokenizer


@pytest.fixture
def listed(tmp_path: Path) -> tuple[str, Path, bytes]:
    """A tokenizer of bytes, and a list that holds the bytes of é and w."""
    spec = byte_tokenizer(tmp_path)
    tokenizer = open_tokenizer(spec)
    ids = [int(i) for i in tokenizer.encode("éw")]
    (tmp_path / "ids.json").write_bytes(orjson.dumps({"mask": ids, "drop": []}))
    return spec, tmp_path / "ids.json", "éw".encode()


def test_shares_are_naive_ones(tmp_path: Path, listed: tuple[str, Path, bytes]) -> None:
    spec, ids, bad = listed
    documents = [*corpus(40)]
    docs = make_docs_artifact(tmp_path / "docs", documents, 3)
    made = run_stage(Mark(tokens=str(ids), tokenizer=spec), {"docs": docs}, tmp_path / "marks")
    rows = [row for k in range(3) for row in read_columns(made.folder / f"part-{k:05d}.parquet").to_pylist()]
    assert [row["doc_id"] for row in rows] == [d.id for d in open_documents(docs)]
    for row, document in zip(rows, open_documents(docs), strict=True):
        raw = document.text.encode()
        hits = sum(byte in bad for byte in raw)
        assert (row["text_tokens"], row["under_trained"]) == (len(raw), hits)
        assert row["under_trained_share"] == hits / len(raw) and row["trained_share"] == 1 - hits / len(raw)
    counts = made.manifest.counts
    assert counts["documents"] == 40 and counts["under_trained"] == sum(r["under_trained"] for r in rows) > 0
    assert made.manifest.kind == "ratings" and made.manifest.params["num_tokens"] == len(set(bad))


def test_workers_change_nothing_and_ratings_go_along(tmp_path: Path, listed: tuple[str, Path, bytes]) -> None:
    spec, ids, _ = listed
    given = rated(tmp_path, 60, unrated=5)
    stage = Mark(tokens=str(ids), tokenizer=spec)
    first = run_stage(stage, given, tmp_path / "a")
    second = run_stage(stage, given, tmp_path / "b", engine=Local(2))
    assert tree(first.folder) == tree(second.folder)
    marked = pa.concat_tables([read_columns(p) for p in sorted(first.folder.glob("part-*.parquet"))]).to_pylist()
    parts = sorted(given["ratings"].glob("part-*.parquet"))
    known = {row["doc_id"]: row for row in pa.concat_tables([read_columns(p) for p in parts]).to_pylist()}
    assert len(marked) == 60
    for row in marked:
        assert row["overall_score"] == known.get(row["doc_id"], {}).get("overall_score")
    again = run_stage(stage, {"docs": given["docs"], "ratings": first.folder}, tmp_path / "c")
    assert [read_columns(p) for p in sorted(again.folder.glob("part-*.parquet"))] == [
        read_columns(p) for p in sorted(first.folder.glob("part-*.parquet"))
    ]


def test_selection_and_search_go_by_them(tmp_path: Path, listed: tuple[str, Path, bytes]) -> None:
    spec, ids, bad = listed
    docs = make_docs_artifact(tmp_path / "docs", corpus(40), 2)
    marks = run_stage(Mark(tokens=str(ids), tokenizer=spec), {"docs": docs}, tmp_path / "marks").folder
    best = Select(budget=Budget(documents=10), policy="top", score="trained_share", strata=())
    few = Select(budget=Budget(documents=10), policy=Policy(score=(("under_trained_share", -1.0),), strata=()))
    kept = [
        {d.id for d in open_documents(run_stage(stage, {"docs": docs, "ratings": marks}, tmp_path / name).folder)}
        for stage, name in ((best, "best"), (few, "few"))
    ]
    share = {d.id: sum(b in bad for b in d.text.encode()) / len(d.text.encode()) for d in open_documents(docs)}
    assert kept[0] == kept[1] and len(kept[0]) == 10
    assert max(share[i] for i in kept[0]) <= min(share[i] for i in share if i not in kept[0])
    built = run_stage(Build(tokenizer=spec, eod=False), {"docs": docs}, tmp_path / "tokens").folder
    with open_set(built) as store:
        library = Library(0, store, marks)
        chosen = library.where("under_trained_share < 0.2 and tokens > 5")
        facts = library.facts(chosen.nonzero()[0])
    assert 0 < len(facts) < 40
    sizes = {d.id: len(d.text.encode()) for d in open_documents(docs)}
    assert {f.doc_id for f in facts.values()} == {i for i in share if share[i] < 0.2 and sizes[i] > 5}
    assert all(f.scores["under_trained_share"] < 0.2 for f in facts.values())


def test_a_list_is_read_or_refused(tmp_path: Path, listed: tuple[str, Path, bytes]) -> None:
    verdict = pa.table({"i": [0, 1, 2], "decision": ["fine", "under_trained", "suspect"]})
    write_table(tmp_path / "v.parquet", verdict, {})
    assert listed_tokens(tmp_path / "v.parquet", ("under_trained",), 3).tolist() == [1]
    assert listed_tokens(tmp_path / "v.parquet", ("under_trained", "suspect"), 3).tolist() == [1, 2]
    (tmp_path / "plain.json").write_text("[2, 0, 2]")
    assert listed_tokens(tmp_path / "plain.json", (), 3).tolist() == [0, 2]
    with pytest.raises(FixInput, match="id 2, the tokenizer has ids below 2"):
        listed_tokens(tmp_path / "plain.json", (), 2)
    with pytest.raises(BadQuery, match="the tokenizer has 2"):
        listed_tokens(tmp_path / "v.parquet", (), 2)
    for text in ("[true]", '["a"]', "{}", "nonsense", '{"mask": 3}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(BadQuery, match=r"list of (ids|tokens)"):
            listed_tokens(tmp_path / "bad.json", (), 9)
    write_table(tmp_path / "one.parquet", pa.table({"i": [0]}), {})
    with pytest.raises(BadQuery, match="no decisions"):
        listed_tokens(tmp_path / "one.parquet", (), 9)
