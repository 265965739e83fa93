"""The document store: documents by id, SQL over narrow columns, joins on doc_id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.conftest import make_docs_artifact, make_documents
from typecase.core.document import id_from_key
from typecase.errors import BadQuery, CorruptStore, NotFound, SchemaMismatch
from typecase.store import shards
from typecase.store.documents import join_side, open_documents


@pytest.mark.parametrize("num_parts", [1, 3, 7])
def test_every_document_is_found_by_id_and_in_order(docs_artifact: Callable[..., Path], num_parts: int) -> None:
    documents = make_documents([f"text {i} 🎈 汉字" for i in range(50)], meta={"emoji": "🎈", "n": 12345678901234567890})
    store = open_documents(docs_artifact(documents, num_parts))
    assert len(store) == 50
    assert [d.id for d in store] == sorted(d.id for d in documents)
    for document in documents:
        assert store.get(document.id) == document
        assert store.get(document.id[:16].upper()) == document


def test_unknown_and_ambiguous_ids(docs_artifact: Callable[..., Path]) -> None:
    store = open_documents(docs_artifact(make_documents(["a"] * 40), 2))
    with pytest.raises(NotFound, match="no document 'ffffffffffffffffffff'"):
        store.get("f" * 20)
    with pytest.raises(BadQuery, match="give more digits"):
        store.get("")


def test_sql_sees_narrow_columns_only(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    store = open_documents(docs_artifact(make_documents(["a", "b", "c"], meta={"lang": "en"}), 2))
    found = store.sql("select source, count(*) as n, min(meta->>'$.lang') as lang from docs group by source")
    assert found.to_pylist() == [{"source": "test", "n": 3, "lang": "en"}]
    shards.write_shard(
        tmp_path / "s" / "part-00000.parquet",
        [pa.table({"doc_id": [id_from_key("1")], "x": [7]})],
        pa.schema([("doc_id", pa.string()), ("x", pa.int64())]),
    )
    joined = store.sql("select x from docs join side using (doc_id)", side=tmp_path / "s")
    assert joined.column("x").to_pylist() == [7]
    with pytest.raises(BadQuery, match="text"):
        store.sql("select text from docs")


def test_a_join_keeps_order_and_gives_null_for_strangers(tmp_path: Path) -> None:
    ids = sorted(id_from_key(str(i)) for i in range(20))
    schema = pa.schema([("doc_id", pa.string()), ("score", pa.int64())])
    for part, chunk in enumerate([range(5), range(5, 16)]):
        table = pa.table({"doc_id": [ids[i] for i in chunk], "score": list(chunk)}, schema=schema)
        shards.write_shard(tmp_path / shards.part_name(part), [table], schema)
    parts = sorted(tmp_path.glob("part-*"))
    wanted = pa.chunked_array([ids[3:9], ids[14:18]])
    assert join_side(wanted, parts, ["score"]).column("score").to_pylist() == [3, 4, 5, 6, 7, 8, 14, 15, None, None]
    assert join_side(pa.chunked_array([ids[17:19]]), parts, ["score"]).column("score").to_pylist() == [None, None]
    assert join_side(pa.chunked_array([], pa.string()), parts, ["score"]).num_rows == 0


def test_what_is_no_document_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"holds no manifest\.json"):
        open_documents(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(CorruptStore, match="is not JSON"):
        open_documents(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(SchemaMismatch, match="format 99"):
        open_documents(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 1, "kind": "docs"}')
    with pytest.raises(CorruptStore, match="lacks or garbles"):
        open_documents(tmp_path)


def test_another_kind_of_artifact_is_refused(tmp_path: Path) -> None:
    folder = make_docs_artifact(tmp_path / "d", make_documents(["a"]))
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"kind": "docs"', '"kind": "tokens"'))
    with pytest.raises(SchemaMismatch, match="holds tokens, not docs"):
        open_documents(folder)
