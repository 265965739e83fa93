"""Ingest: each document once, the same bytes from any cutting of the work, nothing lost."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from typecase.core.document import Document, id_from_key
from typecase.engine.local import Local
from typecase.errors import BadRecipe, FixInput, NotFound
from typecase.recipe import ingest_runs
from typecase.recipe.ingest import Ingest
from typecase.recipe.recipe import Recipe
from typecase.recipe.run import Artifact, run_stage
from typecase.store.documents import DOC_SCHEMA, QUARANTINE_SCHEMA, REMOVED_SCHEMA, open_documents
from typecase.store.manifest import first_damage
from typecase.store.sources import files, lines, splits
from typecase.store.sources.rows import BAD_UTF8, DUPLICATE_ID, EMPTY_TEXT, TRUNCATED


def ingest(tmp_path: Path, stage: Ingest, name: str = "out", workers: int = 0) -> Artifact:
    return run_stage(stage, {}, tmp_path / name, engine=Local(workers))


def documents(artifact: Artifact) -> list[Document]:
    return list(open_documents(artifact.folder))


def side(artifact: Artifact, name: str) -> list[dict[str, Any]]:
    parts = open_documents(artifact.folder).side_parts(name)
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def line(i: int, **fields: object) -> bytes:
    return json.dumps({"text": f"document {i} " + "x" * (i % 97), "id": f"k{i}", "n": i, **fields}).encode() + b"\n"


def corpus(root: Path, num: int = 400) -> Path:
    """One of everything, with bad rows, in a few files."""
    root.mkdir()
    rows = [line(i) for i in range(num)]
    rows[7], rows[11], rows[20] = b'{"text":"","id":"e"}\n', b'{"text":"\xff","id":"u"}\n', b"\n"
    rows[30] = line(num + 5, id="k3")
    (root / "a.jsonl").write_bytes(b"".join(rows[: num // 2]))
    (root / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(rows[num // 2 :]))[:-9])
    (root / "c.csv").write_bytes(b"id,text\n" + b"".join(b"c%d,cell %d\n" % (i, i) for i in range(50)) + b"x,y,z\n")
    pq.write_table(
        pa.table({"id": [f"p{i}" for i in range(60)], "text": [f"row {i} " * 9 for i in range(60)]}),
        root / "d.parquet", row_group_size=9,
    )  # fmt: skip
    return root


def test_the_walk(tmp_path: Path) -> None:
    artifact = ingest(tmp_path, Ingest(inputs=(str(corpus(tmp_path / "in")),), id_key="id"))
    store = open_documents(artifact.folder)
    found = list(store)
    assert [d.id for d in found] == sorted(d.id for d in found)
    assert store.get(id_from_key("k3")).text.startswith("document 3 ")
    assert store.get(id_from_key("k100")).meta == {"id": "k100", "n": 100}
    assert store.get(id_from_key("p7")).place.row == 7 and store.get(id_from_key("p7")).source == "d"
    balance = artifact.manifest.balance
    assert balance is not None
    assert balance.quarantined == {
        BAD_UTF8: 1, EMPTY_TEXT: 1, DUPLICATE_ID: 1, "wrong number of fields": 1, TRUNCATED: 1,
    }  # fmt: skip
    assert (balance.entered, balance.kept) == (399 + 1 + 51 + 60, len(found))
    assert artifact.manifest.counts == {"documents": len(found), "text_bytes": sum(len(d.text.encode()) for d in found)}
    assert artifact.manifest.decision == {"files": 4, "parts": 1}
    assert first_damage(artifact.folder, artifact.manifest) is None
    assert pq.read_schema(store.parts[0]).equals(DOC_SCHEMA)
    assert pq.read_schema(store.side_parts("quarantine")[0]).equals(QUARANTINE_SCHEMA)
    assert [(row["file"], row["row"]) for row in side(artifact, "quarantine")] == [
        ("a.jsonl", 7), ("a.jsonl", 11), ("a.jsonl", 30), ("b.jsonl.gz", 200), ("c.csv", 50),
    ]  # fmt: skip


def test_every_row_lies_where_it_says(tmp_path: Path) -> None:
    """Place is exact: file, line and byte lead back to the row."""
    root = corpus(tmp_path / "in")
    data = (root / "a.jsonl").read_bytes()
    artifact = ingest(tmp_path, Ingest(inputs=(str(root / "a.jsonl"),)))
    for d in documents(artifact):
        assert data.split(b"\n")[d.place.row] == data[d.place.offset :].split(b"\n")[0]
        assert json.loads(data[d.place.offset :].split(b"\n")[0])["text"] == d.text
    for row in side(artifact, "quarantine"):
        assert data[row["offset"] :].startswith(row["raw"]) and row["raw_bytes"] == len(row["raw"])


def test_any_cutting_and_any_workers_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Ingest(inputs=(str(corpus(tmp_path / "in")),), id_key="id", part_bytes=8000)
    first = ingest(tmp_path, stage, "first")
    assert first.manifest.decision["parts"] > 2
    for split, group, flush, block, workers in (
        (900, 300, 500, 64, 0),
        (3000, 50, 1 << 20, 1 << 20, 0),
        (5000, 900, 1 << 20, 4000, 2),
    ):
        monkeypatch.setattr(splits, "SPLIT_BYTES", split)
        monkeypatch.setattr(splits, "GROUP_BYTES", group)
        monkeypatch.setattr(ingest_runs, "FLUSH_BYTES", flush)
        monkeypatch.setattr(lines, "BLOCK_BYTES", block)
        other = ingest(tmp_path, stage, f"{split}", workers)
        assert other.manifest == first.manifest


def test_any_part_size_gives_the_same_rows(tmp_path: Path) -> None:
    root = str(corpus(tmp_path / "in"))
    whole = ingest(tmp_path, Ingest(inputs=(root,), id_key="id"))
    for part_bytes in (1000, 20_000):
        parts = ingest(tmp_path, Ingest(inputs=(root,), id_key="id", part_bytes=part_bytes), f"out{part_bytes}")
        assert documents(parts) == documents(whole)
        by_place = sorted(side(parts, "quarantine"), key=lambda row: (row["file"], row["row"]))
        assert by_place == side(whole, "quarantine")
        assert parts.manifest.balance == whole.manifest.balance


def test_the_place_of_the_files_does_not_matter(tmp_path: Path) -> None:
    here, there = corpus(tmp_path / "here"), corpus(tmp_path / "there")
    assert (
        ingest(tmp_path, Ingest(inputs=(str(here),))).manifest == ingest(tmp_path, Ingest(inputs=(str(there),)), "b").manifest
    )
    (there / "c.csv").write_bytes((there / "c.csv").read_bytes().replace(b"cell 7", b"cell 8"))
    stage = Ingest(inputs=(str(there),))
    assert stage.identity(Local(0)) != Ingest(inputs=(str(here),)).identity(Local(0))


def test_the_first_of_an_id_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "b.jsonl").write_bytes(b"".join(line(i, id=f"{i % 10}") for i in range(100)))
    (root / "a.jsonl").write_bytes(line(5, id=5) + line(6, id="x"))
    monkeypatch.setattr(splits, "SPLIT_BYTES", 500)
    artifact = ingest(tmp_path, Ingest(inputs=(str(root),), id_key="id"))
    kept = {d.meta["id"]: (d.place.file, d.place.row) for d in documents(artifact)}
    assert kept == {5: ("a.jsonl", 0), "x": ("a.jsonl", 1)} | {f"{i}": ("b.jsonl", i) for i in range(10) if i != 5}
    doubles = side(artifact, "quarantine")
    assert [row["row"] for row in doubles] == [i for i in range(100) if i >= 10 or i == 5]
    assert doubles[0]["doc_id"] == id_from_key("5") and doubles[0]["reason"] == DUPLICATE_ID
    assert doubles[0]["detail"].endswith("has the id of a.jsonl:0 (byte 0)") and doubles[0]["detail"].startswith("b.jsonl:5 ")
    assert doubles[0]["raw"] == b"document 5 xxxxx" and doubles[0]["raw_bytes"] == 16


def test_sources(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.jsonl").write_bytes(line(0, site="s") + line(1))
    root = str(tmp_path / "in")
    for name, options, expected in (
        ("file", {}, {"x"}),
        ("constant", {"source": "books"}, {"books"}),
        ("column", {"source_key": "site"}, {"s", "x"}),
    ):
        assert {d.source for d in documents(ingest(tmp_path, Ingest(inputs=(root,), **options), name))} == expected  # type: ignore[arg-type]


def test_a_sample_is_the_first_share_of_ids(tmp_path: Path) -> None:
    root = str(corpus(tmp_path / "in"))
    whole = ingest(tmp_path, Ingest(inputs=(root,), id_key="id"), "whole")
    some = ingest(tmp_path, Ingest(inputs=(root,), id_key="id", part_bytes=4000).sampled(0.25), "some")
    assert documents(some) == [d for d in documents(whole) if int(d.id[:16], 16) < 1 << 62]
    assert some.manifest.decision["parts"] > 1
    balance = some.manifest.balance
    assert balance is not None and whole.manifest.balance is not None
    assert balance.entered == whole.manifest.balance.entered
    # Of an id outside the sample, all rows are outside it: none is looked at for being the second.
    removed = side(some, "removed")
    assert balance.removed == {"outside the sample": len(removed)}
    assert [row["doc_id"] for row in removed] == sorted(row["doc_id"] for row in removed)
    assert {row["doc_id"] for row in removed} == {d.id for d in documents(whole)} - {d.id for d in documents(some)}
    assert pq.read_schema(open_documents(some.folder).side_parts("removed")[0]).equals(REMOVED_SCHEMA)


def test_nothing_but_bad_rows_is_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"{}\n" * 5)
    artifact = ingest(tmp_path, Ingest(inputs=(str(tmp_path / "x.jsonl"),)))
    store = open_documents(artifact.folder)
    assert (len(store), len(store.parts), list(store)) == (0, 1, [])
    assert artifact.manifest.balance is not None and artifact.manifest.balance.num_quarantined == 5
    (tmp_path / "y.jsonl").write_bytes(b"")
    assert len(open_documents(ingest(tmp_path, Ingest(inputs=(str(tmp_path / "y.jsonl"),)), "empty").folder)) == 0


def test_one_document_larger_than_a_part(tmp_path: Path) -> None:
    big = "word " * 40_000
    (tmp_path / "x.jsonl").write_bytes(line(0, text=big) + line(1) + line(2))
    artifact = ingest(tmp_path, Ingest(inputs=(str(tmp_path / "x.jsonl"),), part_bytes=50_000))
    assert sorted(len(d.text) for d in documents(artifact))[-1] == len(big)
    assert artifact.manifest.decision["parts"] == 5


@pytest.mark.parametrize("num", [600, pytest.param(20_000, marks=pytest.mark.slow)])
def test_many_tiny_files(tmp_path: Path, num: int) -> None:
    root = tmp_path / "in"
    for i in range(num):
        path = root / f"{i % 20:02d}" / f"{i}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<p>page {i}")
    stage = Ingest(inputs=(str(root),))
    assert len(stage.shards({})) == -(-num // 256)
    found = documents(ingest(tmp_path, stage))
    assert sorted(int(d.text.split()[1]) for d in found) == list(range(num))
    assert {d.source for d in found} == {f"{i:02d}" for i in range(20)}


def test_warc_records_of_other_types_are_removed(tmp_path: Path) -> None:
    def record(kind: bytes, body: bytes, url: bytes) -> bytes:
        block = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n\r\n" + body
        head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: " + url + b"\r\nContent-Length: %d\r\n\r\n" % len(block)
        return head + block + b"\r\n\r\n"

    (tmp_path / "x.warc").write_bytes(
        record(b"text/html", b"<p>a", b"u1") + record(b"image/png", b"PNG", b"u2") + record(b"text/html", b"<p>b", b"u1")
    )
    artifact = ingest(tmp_path, Ingest(inputs=(str(tmp_path / "x.warc"),)))
    assert [(d.id, d.text) for d in documents(artifact)] == [(id_from_key("u1"), "a")]
    assert side(artifact, "removed") == [{"doc_id": id_from_key("u2"), "reason": "not text", "detail": "image/png"}]
    assert [row["reason"] for row in side(artifact, "quarantine")] == [DUPLICATE_ID]
    assert artifact.manifest.balance is not None and artifact.manifest.balance.entered == 3


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe:
        buffer = io.BytesIO(gzip.compress(line(0) + line(1)))

    files._spooled_stdin.cache_clear()
    monkeypatch.setattr(sys, "stdin", Pipe)
    artifact = ingest(tmp_path, Ingest(inputs=("-",), format="jsonl"))
    assert sorted(d.meta["n"] for d in documents(artifact)) == [0, 1]  # type: ignore[type-var]
    assert artifact.manifest.params["inputs"][0]["name"] == "stdin"
    Path(files._spooled_stdin()).unlink()
    files._spooled_stdin.cache_clear()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ingest(inputs=()),
        lambda: Ingest(inputs=("x",), format="docx"),
        lambda: Ingest(inputs=("x",), source="a", source_key="b"),
        lambda: Ingest(inputs=("x",), sample=0.0),
        lambda: Ingest(inputs=("x",), sample=1.5),
        lambda: Ingest(inputs=("x",), part_bytes=0),
    ],
)
def test_parameters_that_cannot_work(make: Callable[[], Ingest]) -> None:
    with pytest.raises(BadRecipe):
        make()


def test_inputs_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing-\\*"):
        ingest(tmp_path, Ingest(inputs=(str(tmp_path / "nothing-*.jsonl"),)))
    (tmp_path / "x.docx").touch()
    with pytest.raises(FixInput, match="format="):
        ingest(tmp_path, Ingest(inputs=(str(tmp_path / "x.docx"),)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.docx"]


def test_one_input_needs_no_tuple(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(line(0))
    assert Ingest(inputs=str(tmp_path / "x.jsonl")).inputs == (str(tmp_path / "x.jsonl"),)  # type: ignore[arg-type]


def test_in_a_recipe(tmp_path: Path) -> None:
    root = str(corpus(tmp_path / "in"))
    recipe = Recipe("r", Ingest(inputs=(root,), id_key="id"))
    (artifact,) = recipe.run(tmp_path / "work")
    (again,) = recipe.run(tmp_path / "work")
    assert again.reused and again.folder == artifact.folder
    (sample,) = recipe.sampled(0.5).run(tmp_path / "work")
    assert 0 < len(documents(sample)) < len(documents(artifact))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", "ab", "", "é"]), st.sampled_from(["1", "2", "3", None])), max_size=12
    ),
    cut=st.integers(0, 12),
    split=st.sampled_from([20, 100, 1 << 20]),
    part_bytes=st.sampled_from([3, 40, 1 << 20]),
)
def test_as_the_naive_reading(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str | None]], cut: int, split: int, part_bytes: int
) -> None:
    """Fast equals slow: a dictionary that keeps the first row of every id."""
    tmp_path = tmp_path_factory.mktemp("i")
    (tmp_path / "in").mkdir()
    seen: dict[str, str] = {}
    bad = 0
    for name, part in (("a.jsonl", rows[:cut]), ("b.jsonl", rows[cut:])):
        (tmp_path / "in" / name).write_bytes(b"".join(json.dumps({"text": t, "id": k}).encode() + b"\n" for t, k in part))
        for text, key in part:
            if key is None or not text or id_from_key(key) in seen:
                bad += 1
            else:
                seen[id_from_key(key)] = text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "SPLIT_BYTES", split)
        artifact = ingest(tmp_path, Ingest(inputs=(str(tmp_path / "in"),), id_key="id", part_bytes=part_bytes))
    assert {d.id: d.text for d in documents(artifact)} == seen
    assert artifact.manifest.balance is not None
    assert (artifact.manifest.balance.entered, artifact.manifest.balance.num_quarantined) == (len(rows), bad)


def test_a_file_without_fields_is_not_asked_for_an_id(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"id": "x", "text": "one"}\n{"text": "no id"}\n')
    (tmp_path / "in" / "b.html").write_text("<p>two")
    (tmp_path / "in" / "c.txt").write_text("three")
    made = run_stage(Ingest(inputs=(str(tmp_path / "in"),), id_key="id"), {}, tmp_path / "out")
    assert sorted(d.text for d in open_documents(made.folder)) == ["one", "three", "two"]
    assert made.manifest.balance is not None and made.manifest.balance.quarantined == {"missing id": 1}
