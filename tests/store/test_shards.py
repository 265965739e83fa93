"""Parts: complete or absent, the same bytes however the rows came, checked when opened."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_documents
from typecase.errors import CorruptStore, SchemaMismatch
from typecase.store import shards
from typecase.store.documents import DOC_SCHEMA, table_of


@given(st.lists(st.text(max_size=20), max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_buffers_are_the_strings(texts: list[str], start: int, length: int) -> None:
    for kind in (pa.string(), pa.large_string()):
        array = pa.array(texts, kind).slice(start, length)
        values, offsets = shards.buffers_of(array)
        found = [bytes(values[a:b]) for a, b in itertools.pairwise(offsets)]
        assert found == [t.encode() for t in texts[start : start + length]]
        assert shards.lengths_of(pa.chunked_array([array, array])).tolist() == [len(f) for f in found + found]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.integers(1, 7))
@settings(max_examples=50)
def test_regrouping_keeps_every_row_in_order(sizes: list[int], num_rows: int) -> None:
    tables, at = [], 0
    for size in sizes:
        tables.append(pa.table({"n": np.arange(at, at + size)}))
        at += size
    groups = list(shards.regrouped(tables, num_rows))
    assert [n for g in groups for n in g.column("n").to_pylist()] == list(range(at))
    assert all(g.num_rows == num_rows for g in groups[:-1])
    assert not groups or 0 < groups[-1].num_rows <= num_rows


def test_groups_are_cut_by_bytes_of_text_and_a_long_document_stands_alone(tmp_path: Path) -> None:
    big = "x" * (shards.GROUP_BYTES + 10)
    documents = make_documents(["small", big, "small", "y" * 3_000_000, "z" * 3_000_000])
    path = tmp_path / "part.parquet"
    assert shards.write_shard(path, [table_of(documents)], DOC_SCHEMA) == 5
    meta = pq.ParquetFile(path).metadata
    assert [meta.row_group(g).num_rows for g in range(meta.num_row_groups)] == [1, 1, 2, 1]
    texts = [t for table in shards.read_groups(path, ["text"]) for t in table.column("text").to_pylist()]
    assert texts == [d.text for d in documents]


def test_text_stays_large_string(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    shards.write_shard(path, [table_of(make_documents(["a", "b"]))], DOC_SCHEMA)
    assert all(t.schema.equals(DOC_SCHEMA) for t in shards.read_groups(path))
    assert shards.read_columns(path, ["text"]).schema.field("text").type == pa.large_string()


def test_an_empty_part_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    assert shards.write_shard(path, [], DOC_SCHEMA) == 0
    assert shards.read_columns(path).num_rows == 0


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> object:
        yield table_of(make_documents(["a"]))
        raise RuntimeError("source failed")

    with pytest.raises(RuntimeError, match="source failed"):
        shards.write_shard(tmp_path / "part.parquet", broken(), DOC_SCHEMA)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@given(st.binary(max_size=300))
@settings(max_examples=30)
def test_bytes_that_are_not_parquet_are_said_to_be_so(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    path = tmp_path_factory.mktemp("junk") / "part.parquet"
    path.write_bytes(junk)
    with pytest.raises(CorruptStore, match="run the stage that made it again"):
        shards.open_shard(path)


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table({"doc_id": ["a"], "text": pa.array(["t"], pa.string())}), path)
    with pytest.raises(SchemaMismatch, match="'text' is string, expected large_string"):
        shards.open_shard(path, DOC_SCHEMA)
