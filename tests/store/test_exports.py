"""Exports: every format holds the same documents, with their numbers and ids; picks choose as Python slices do."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import make_documents
from typecase.errors import AlreadyExists, BadQuery, NotFound
from typecase.store import shards
from typecase.store.documents import open_documents
from typecase.store.exports import document_rows, export_rows, export_subset, format_of, token_rows
from typecase.store.picks import picked
from typecase.store.provenance import PROVENANCE_SCHEMA, open_provenance
from typecase.store.tokens.store import TokenStore, open_tokens
from typecase.store.tokens.writer import TokenSetWriter

DOCS = [[5, 6, 7], [], [65_535], list(range(300)), [1, 2]]


def decode(ids: Sequence[int]) -> str:
    return "".join(chr(97 + i % 26) for i in ids) + '",\n🎈'


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    with TokenSetWriter(tmp_path / "set" / "text_document", np.uint16) as writer:
        writer.append(np.concatenate([np.array(d, np.int64) for d in DOCS]), np.array([len(d) for d in DOCS]))
    rows = {
        "doc": range(5),
        "doc_id": [f"{i:02d}ab" + "0" * 28 for i in range(5)],
        "source": ["s"] * 5,
        "file": ["f.jsonl"] * 5,
        "row": range(5),
        "offset": [-1] * 5,
        "start": [0] * 5,
        "stop": [9] * 5,
        "tokens": [len(d) for d in DOCS],
    }
    table = pa.table({k: list(v) for k, v in rows.items()}, schema=PROVENANCE_SCHEMA)
    shards.write_shard(tmp_path / "set" / "provenance.parquet", [table], PROVENANCE_SCHEMA)
    return open_tokens(tmp_path / "set")


def exported(store: TokenStore, out: Path, docs: list[int], what: str = "both") -> int:
    provenance = open_provenance(store.pair.bin.parent)
    tables = token_rows(store, np.array(docs, np.int64), what=what, decode=decode, provenance=provenance)  # type: ignore[arg-type]
    return export_rows(tables, out)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst", "x.csv", "x.csv.gz", "x.parquet"])
def test_every_format_holds_the_same(store: TokenStore, tmp_path: Path, name: str) -> None:
    docs = [3, 0, 1, 2]
    assert exported(store, tmp_path / name, docs) == 4
    rows = read(tmp_path / name)
    assert [int(r["doc"]) for r in rows] == docs
    assert [r["doc_id"] for r in rows] == [f"{d:02d}ab" + "0" * 28 for d in docs]
    assert [r["tokens"] for r in rows] == [DOCS[d] for d in docs]
    assert [r["text"] for r in rows] == [decode(DOCS[d]) for d in docs]


def read(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with pa.input_stream(str(path), compression={".gz": "gzip", ".zst": "zstd"}.get(path.suffix)) as file:
        text = file.read().decode()
    if ".csv" in path.name:
        found: list[dict[str, object]] = list(csv.DictReader(text.splitlines(keepends=True)))
        return [r | {"tokens": orjson.loads(str(r["tokens"]))} for r in found]
    return [orjson.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(("what", "has", "lacks"), [("text", "text", "tokens"), ("tokens", "tokens", "text")])
def test_text_or_tokens_alone(store: TokenStore, tmp_path: Path, what: str, has: str, lacks: str) -> None:
    exported(store, tmp_path / "x.jsonl", [0], what)
    [row] = read(tmp_path / "x.jsonl")
    assert has in row and lacks not in row


def test_a_subset_is_a_token_set_with_its_provenance(store: TokenStore, tmp_path: Path) -> None:
    made = export_subset(store, np.array([3, 1, 0]), tmp_path / "sub" / "text_document.bin")
    assert made.documents == 3 and made.tokens == 303
    again = open_tokens(tmp_path / "sub")
    assert [again.read(n).tolist() for n in range(3)] == [DOCS[3], DOCS[1], DOCS[0]]
    rows = pq.read_table(tmp_path / "sub" / "provenance.parquet").to_pylist()
    assert [(r["doc"], r["doc_id"][:2]) for r in rows] == [(0, "03"), (1, "01"), (2, "00")]


def test_all_of_it_as_a_subset_is_the_same_bytes(store: TokenStore, tmp_path: Path) -> None:
    export_subset(store, np.arange(5), tmp_path / "all" / "text_document")
    for name in ("text_document.bin", "text_document.idx", "provenance.parquet"):
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "set" / name).read_bytes()


def test_nothing_is_overwritten_and_nothing_half_written(store: TokenStore, tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    out.write_text("mine")
    with pytest.raises(AlreadyExists):
        exported(store, out, [0])
    assert out.read_text() == "mine"
    with pytest.raises(BadQuery):
        exported(store, tmp_path / "y.jsonl.gz", [0, 99])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set", "x.jsonl"]


@pytest.mark.parametrize("name", ["x", "x.txt", "x.parquet.gz", "x.bin.zst", "x.gz"])
def test_a_name_without_a_format_is_refused(name: str) -> None:
    with pytest.raises(BadQuery, match="cannot tell the format"):
        format_of(Path(name))


def test_documents_are_exported_with_their_metadata(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    documents = make_documents(["a\nb", "ü🎈"], meta={"n": 1.5, "tags": ["x"]})
    opened = open_documents(docs_artifact(documents, 2))
    assert export_rows(document_rows(opened), tmp_path / "d.jsonl.gz") == 2
    rows = [orjson.loads(line) for line in gzip.decompress((tmp_path / "d.jsonl.gz").read_bytes()).splitlines()]
    assert {r["doc_id"]: (r["text"], r["meta"]) for r in rows} == {d.id: (d.text, d.meta) for d in documents}
    assert export_rows(document_rows(opened, where={documents[1].id}), tmp_path / "one.parquet") == 1


@given(
    st.integers(0, 30),
    st.lists(
        st.tuples(st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9), st.none() | st.integers(1, 4)),
        min_size=1,
        max_size=4,
    ),
)
def test_picks_are_slices(num: int, slices: list[tuple[int | None, int | None, int | None]]) -> None:
    text = ",".join(":".join("" if v is None else str(v) for v in s) for s in slices)
    wanted = [i for a, b, c in slices for i in range(num)[a:b:c]]
    assert picked(text, num).tolist() == wanted


def test_picks_by_number_and_id(store: TokenStore) -> None:
    provenance = open_provenance(store.pair.bin.parent)
    assert picked("4, 03ab00, 0:2", 5, provenance).tolist() == [4, 3, 0, 1]
    with pytest.raises(BadQuery, match="no document 5"):
        picked("5", 5)
    with pytest.raises(NotFound, match=r"no document 'ffffff' in .* \(5 documents\)"):
        picked("ffffff", 5, provenance)
    with pytest.raises(BadQuery, match="no provenance"):
        picked("03ab00", 5)
    for bad in ("", "x", "1:2:3:4", "1.5", "::0"):
        with pytest.raises(BadQuery):
            picked(bad, 5)
