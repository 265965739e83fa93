"""Merging: the documents of all sources in order, whatever shape the sources have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.naive_tokens import bin_of, idx_bytes, idx_of, legacy_bytes, write_set
from tests.store.test_tokens import DOCUMENTS, PAIRS
from typecase.errors import AlreadyExists, BadQuery, CorruptStore
from typecase.store.provenance import PROVENANCE_SCHEMA
from typecase.store.tokens.merge import merge_tokens
from typecase.store.tokens.store import open_tokens


def _bytes(prefix: Path) -> tuple[bytes, bytes]:
    return bin_of(prefix).read_bytes(), idx_of(prefix).read_bytes()


@settings(max_examples=30, deadline=None)
@given(sources=st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_merged_is_written_in_one_go(tmp_path_factory: pytest.TempPathFactory, sources: list[list[list[list[int]]]]) -> None:
    folder = tmp_path_factory.mktemp("merge")
    prefixes = [write_set(folder / f"s{k}" / "x", documents) for k, documents in enumerate(sources)]
    summary = merge_tokens(prefixes, folder / "out")
    whole = write_set(folder / "whole", [document for documents in sources for document in documents])
    assert _bytes(summary.prefix) == _bytes(whole)
    assert summary.num_documents == sum(map(len, sources)) and summary.num_sources == len(sources)


def test_the_order_is_the_one_given(tmp_path: Path) -> None:
    b, a = write_set(tmp_path / "b", [[[2]]]), write_set(tmp_path / "a", [[[1]]])
    with open_tokens(merge_tokens([b, a, b], tmp_path / "out").prefix) as store:
        assert store.read_many(range(3))[0].tolist() == [2, 1, 2]


def test_sources_with_gaps_and_moved_sequences(tmp_path: Path) -> None:
    """Documents [3, 4], [1], [3, 4, 5] of a .bin that is read by pointer: a copy of the whole file would corrupt them."""
    np.array([1, 9, 9, 3, 4, 5], np.uint16).tofile(tmp_path / "g.bin")
    (tmp_path / "g.idx").write_bytes(idx_bytes(8, [2, 1, 3], [6, 0, 6], [0, 1, 2, 3]))
    plain = write_set(tmp_path / "p", [[[7, 7]]])
    summary = merge_tokens([plain, tmp_path / "g"], tmp_path / "out")
    assert _bytes(summary.prefix) == _bytes(write_set(tmp_path / "w", [[[7, 7]], [[3, 4]], [[1]], [[3, 4, 5]]]))
    assert summary.not_contiguous == (tmp_path / "g",)


def test_a_source_without_document_index_counts_one_document_a_sequence(tmp_path: Path) -> None:
    lost = write_set(tmp_path / "lost", [[[1], [2]], [[3]]], index=[0])
    kept = write_set(tmp_path / "kept", [[[4], [5]]])
    summary = merge_tokens([lost, kept], tmp_path / "out")
    assert _bytes(summary.prefix) == _bytes(write_set(tmp_path / "w", [[[1]], [[2]], [[3]], [[4], [5]]]))
    assert summary.without_documents == (lost,)


def test_mixed_dtypes(tmp_path: Path) -> None:
    small, large = write_set(tmp_path / "s", [[[1, 65_535]]], "uint16"), write_set(tmp_path / "l", [[[-100, 70_000]]], "int32")
    with pytest.raises(BadQuery, match=r"uint16.*int32.*promote=True.*int32"):
        merge_tokens([small, large], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    summary = merge_tokens([small, large], tmp_path / "out", promote=True)
    assert summary.promoted == (small,) and summary.dtype == "int32"
    assert _bytes(summary.prefix) == _bytes(write_set(tmp_path / "w", [[[1, 65_535]], [[-100, 70_000]]], "int32"))
    assert merge_tokens([small, small], tmp_path / "out2", promote=True).dtype == "uint16"


def test_int16_beside_uint16_widens_to_int32(tmp_path: Path) -> None:
    a, b = write_set(tmp_path / "a", [[[-1]]], "int16"), write_set(tmp_path / "b", [[[65_535]]], "uint16")
    assert merge_tokens([a, b], tmp_path / "out", promote=True).dtype == "int32"


def test_floats_do_not_join_ids(tmp_path: Path) -> None:
    a, b = write_set(tmp_path / "a", [[[1]]], "float32"), write_set(tmp_path / "b", [[[1]]], "int32")
    with pytest.raises(BadQuery, match="cannot be merged"):
        merge_tokens([a, b], tmp_path / "out", promote=True)
    for code in (6, 7):
        idx_of(a).write_bytes(idx_bytes(code, [1], [0], [0, 1]))
        out = merge_tokens([a, a], tmp_path / f"out{code}").prefix
        assert idx_of(out).read_bytes() == idx_bytes(code, [1, 1], [0, 4], [0, 1, 2])


def test_modes_are_kept(tmp_path: Path) -> None:
    images = write_set(tmp_path / "m", [[[1], [2]]], "int32", modes=[0, 1])
    text = write_set(tmp_path / "t", [[[3]]], "int32")
    summary = merge_tokens([text, images], tmp_path / "out")
    whole = write_set(tmp_path / "w", [[[3]], [[1], [2]]], "int32", modes=[0, 0, 1])
    assert _bytes(summary.prefix) == _bytes(whole) and summary.multimodal


def test_a_legacy_source_becomes_a_modern_one(tmp_path: Path) -> None:
    np.array([1, 2, 3, 4, 5], np.int32).tofile(tmp_path / "x.bin")
    (tmp_path / "x.idx").write_bytes(legacy_bytes(4, 4, [3, 2], [0, 1, 2]))
    summary = merge_tokens([tmp_path / "x"], tmp_path / "out")
    assert _bytes(summary.prefix) == _bytes(write_set(tmp_path / "w", [[[1, 2, 3]], [[4, 5]]], "int32"))


def test_outputs_that_are_refused(tmp_path: Path) -> None:
    one = write_set(tmp_path / "one" / "text_document", [[[1]]])
    with pytest.raises(BadQuery, match="nothing to merge"):
        merge_tokens([], tmp_path / "out")
    with pytest.raises(BadQuery, match="also an input"):
        merge_tokens([one], tmp_path / "one")
    (tmp_path / "link").symlink_to(tmp_path / "one")
    with pytest.raises(BadQuery, match="also an input"):
        merge_tokens([one], tmp_path / "link")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").touch()
    with pytest.raises(AlreadyExists, match="not empty"):
        merge_tokens([one], tmp_path / "full")


def test_a_damaged_source_stops_the_merge_and_leaves_nothing(tmp_path: Path) -> None:
    good, bad = write_set(tmp_path / "good", [[[1]]]), write_set(tmp_path / "bad", [[[1, 2]]])
    bin_of(bad).write_bytes(b"\x01\x00\x02")
    with pytest.raises(CorruptStore, match=r"bad is damaged.*typecase doctor"):
        merge_tokens([good, bad], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _with_rows(prefix: Path, ids: list[str]) -> Path:
    n = len(ids)
    rows = {
        "doc": range(n),
        "doc_id": ids,
        "source": ["s"] * n,
        "file": ["f"] * n,
        "row": range(n),
        "offset": [0] * n,
        "start": [0] * n,
        "stop": [5] * n,
        "tokens": [1] * n,
    }
    pq.write_table(
        pa.table({k: list(v) for k, v in rows.items()}, schema=PROVENANCE_SCHEMA), prefix.parent / "provenance.parquet"
    )
    return prefix


def test_provenance_is_numbered_through(tmp_path: Path) -> None:
    a = _with_rows(write_set(tmp_path / "a" / "text_document", [[[1]], [[2]]]), ["aa", "bb"])
    b = _with_rows(write_set(tmp_path / "b" / "text_document", [[[3]]]), ["cc"])
    summary = merge_tokens([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert summary.provenance == tmp_path / "out" / "provenance.parquet" and not summary.without_provenance
    table = pq.read_table(summary.provenance)
    assert table.schema.equals(PROVENANCE_SCHEMA)
    assert table.column("doc").to_pylist() == [0, 1, 2] and table.column("doc_id").to_pylist() == ["aa", "bb", "cc"]
    bare = write_set(tmp_path / "c" / "x", [[[4]]])
    partly = merge_tokens([a, bare, b], tmp_path / "out2")
    assert partly.provenance is None and partly.without_provenance == (bare,)
    assert not (tmp_path / "out2" / "provenance.parquet").exists()


def test_provenance_of_another_set_is_refused(tmp_path: Path) -> None:
    a = _with_rows(write_set(tmp_path / "a" / "x", [[[1]], [[2]]]), ["aa"])
    with pytest.raises(CorruptStore, match=r"1 documents.*2: it belongs to another set"):
        merge_tokens([a], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("folder", ["megatron-core", "gpt-neox"])
def test_twenty_shards_into_one(tmp_path: Path, folder: str) -> None:
    idx = next(p for p in PAIRS if p.parent.name == folder and p.stem == "a_u16")
    summary = merge_tokens([idx] * 20, tmp_path / "out")
    with open_tokens(idx) as one, open_tokens(summary.prefix) as many:
        assert many.num_documents == 20 * one.num_documents and many.facts.contiguous
        assert many.pair.bin.read_bytes() == one.pair.bin.read_bytes() * 20


@pytest.mark.oracle
def test_megatron_core_merges_to_the_same_bytes(tmp_path: Path) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset", reason="needs the oracle extra")
    pytest.importorskip("torch", reason="needs the oracle extra")
    sources = [idx.with_suffix("") for idx in PAIRS if idx.parent.name == "megatron-core" and "b_i32" not in idx.stem]
    builder = indexed.IndexedDatasetBuilder(str(bin_of(tmp_path / "m")), dtype=np.uint16)
    for source in sources:
        builder.add_index(str(source))
    builder.finalize(str(idx_of(tmp_path / "m")))
    assert _bytes(merge_tokens(sources, tmp_path / "out").prefix) == _bytes(tmp_path / "m")
