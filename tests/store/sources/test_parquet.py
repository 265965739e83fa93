"""Parquet: texts come through exactly, every other column as JSON, damage costs its row group."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from typecase.store.sources.fields import Fields
from typecase.store.sources.parquet import group_bytes, read_parquet
from typecase.store.sources.rows import (
    BAD_UTF8,
    DAMAGED,
    EMPTY_TEXT,
    MISSING_ID,
    MISSING_TEXT,
    NUL_BYTE,
    TEXT_NOT_STRING,
    TOO_LONG,
    TRUNCATED,
    UNREADABLE,
    Fault,
)

Doc = tuple[int, str, str, str | None, str | None]


def read(path: Path, fields: Fields | None = None, **options: Any) -> tuple[list[Doc], list[Fault]]:
    docs: list[Doc] = []
    faults: list[Fault] = []
    for rows in read_parquet(str(path), fields or Fields(), limit_bytes=options.pop("limit_bytes", 1 << 20), **options):
        none = [None] * len(rows)
        assert set(rows.offsets.tolist()) <= {-1}
        assert rows.text.type == pa.large_string()
        rows.text.validate(full=True)
        docs += zip(rows.rows.tolist(), rows.text.to_pylist(), rows.meta.to_pylist(), rows.keys or none, rows.sources or none)
        faults += rows.faults
    return docs, faults


def table(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_text_of_any_kind(tmp_path: Path, kind: pa.DataType) -> None:
    texts = ["a", "  b\r\n", "ключ 😀", "a"]
    array = pa.array(texts).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(texts).cast(kind)
    docs, faults = read(table(tmp_path, {"text": array}, row_group_size=3))
    assert [(d[0], d[1], d[2]) for d in docs] == [(i, t, "{}") for i, t in enumerate(texts)]
    assert not faults


def test_texts_that_are_none(tmp_path: Path) -> None:
    texts = pa.array([b"ok", None, b"", b"a\0b", b"caf\xe9", b"x" * 200, b"last"])
    docs, faults = read(table(tmp_path, {"text": texts, "n": range(7)}), limit_bytes=100)
    assert [(d[0], d[1], d[2]) for d in docs] == [(0, "ok", '{"n":0}'), (6, "last", '{"n":6}')]
    assert [(f.row, f.reason) for f in faults] == [
        (1, TEXT_NOT_STRING), (2, EMPTY_TEXT), (3, NUL_BYTE), (4, BAD_UTF8), (5, TOO_LONG),
    ]  # fmt: skip
    assert faults[3].raw == b"caf\xe9" and faults[4].raw_bytes == 200


def test_bytes_that_only_claim_to_be_utf8(tmp_path: Path) -> None:
    liar = pa.array([b"ok", b"caf\xe9"]).cast(pa.large_binary()).view(pa.large_string())
    docs, faults = read(table(tmp_path, {"text": liar, "also": liar}))
    assert [d[2] for d in docs] == ['{"also":"ok"}']
    assert [f.reason for f in faults] == [BAD_UTF8]


@pytest.mark.parametrize("columns", [{"text": [1, 2]}, {"text": [["a"], []]}])
def test_a_text_column_of_another_type(tmp_path: Path, columns: dict[str, Any]) -> None:
    docs, faults = read(table(tmp_path, columns))
    assert not docs and [f.reason for f in faults] == [TEXT_NOT_STRING] * 2


def test_no_text_column(tmp_path: Path) -> None:
    docs, faults = read(table(tmp_path, {"body": ["a", "b"], "n": [1, 2]}))
    assert not docs and [f.reason for f in faults] == [MISSING_TEXT] * 2
    assert faults[1].raw == b'{"body":"b","n":2}'


def test_text_within_a_struct(tmp_path: Path) -> None:
    docs, faults = read(
        table(tmp_path, {"data": [{"text": "a", "k": 1}, {"text": None, "k": 2}, None], "n": [1, 2, 3]}), Fields("data.text")
    )
    assert [(d[1], d[2]) for d in docs] == [("a", '{"data":{"k":1},"n":1}')]
    assert [f.reason for f in faults] == [TEXT_NOT_STRING, MISSING_TEXT]


def test_ids_and_sources(tmp_path: Path) -> None:
    path = table(tmp_path, {"text": ["a", "b", "c"], "id": [7, None, 9], "site": ["x", "y", None]})
    docs, faults = read(path, Fields(key="id", source="site"))
    assert [(d[1], d[3], d[4]) for d in docs] == [("a", "7", "x"), ("c", "9", None)]
    assert [f.reason for f in faults] == [MISSING_ID]
    assert docs[0][2] == '{"id":7,"site":"x"}'


def test_every_type_has_a_json_form(tmp_path: Path) -> None:
    when = dt.datetime(2017, 7, 14, 2, 40, 0, 123456)
    columns = {
        "text": ["a"],
        "naive": pa.array([when], pa.timestamp("us")),
        "zoned": pa.array([when], pa.timestamp("us", tz="Europe/Berlin")),
        "nanos": pa.array([1_500_000_000_123_456_789], pa.timestamp("ns")),
        "date": [when.date()],
        "time": [when.time()],
        "long": pa.array([90_000], pa.duration("ms")),
        "money": [Decimal("12345678901234567890.10")],
        "raw": [b"\xff\x00"],
        "f32": pa.array([0.1], pa.float32()),
        "nan": [float("nan")],
        "inf": [float("-inf")],
        "u64": pa.array([2**64 - 1], pa.uint64()),
        "none": pa.nulls(1),
        "tags": [["x", None]],
        "times": [[when, None]],
        "blobs": [[[b"a"], None, []]],
        "map": pa.array([[("k", when)]], pa.map_(pa.string(), pa.timestamp("us"))),
        "pairs": pa.array([[(1, "a")]], pa.map_(pa.int64(), pa.string())),
        "struct": [{"b": b"b", "s": {"t": when}}],
        "word": pa.array(["w"]).dictionary_encode(),
        "flag": [True],
    }
    (doc,), faults = read(table(tmp_path, columns))
    assert not faults
    assert json.loads(doc[2]) == {
        "naive": "2017-07-14T02:40:00.123456",
        "zoned": "2017-07-14T02:40:00.123456Z",
        "nanos": "2017-07-14T02:40:00.123456789",
        "date": "2017-07-14",
        "time": "02:40:00.123456",
        "long": 90_000,
        "money": "12345678901234567890.10",
        "raw": "/wA=",
        "f32": 0.10000000149011612,
        "nan": None,
        "inf": None,
        "u64": 2**64 - 1,
        "none": None,
        "tags": ["x", None],
        "times": ["2017-07-14T02:40:00.123456", None],
        "blobs": [["YQ=="], None, []],
        "map": {"k": "2017-07-14T02:40:00.123456"},
        "pairs": [[1, "a"]],
        "struct": {"b": "Yg==", "s": {"t": "2017-07-14T02:40:00.123456"}},
        "word": "w",
        "flag": True,
    }


def test_row_groups_tile_the_file(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(100)]
    path = table(tmp_path, {"text": texts}, row_group_size=7)
    whole, _ = read(path)
    assert len(group_bytes(str(path))) == 15
    parts = [read(path, groups=range(a, b))[0] for a, b in ((0, 4), (4, 5), (5, 15))]
    assert whole == [doc for docs in parts for doc in docs] == [(i, t, "{}", None, None) for i, t in enumerate(texts)]


def test_a_damaged_row_group_costs_itself(tmp_path: Path) -> None:
    path = table(tmp_path, {"text": [f"text {i} " * 50 for i in range(300)]}, row_group_size=100, compression="zstd")
    data = bytearray(path.read_bytes())
    place = pq.read_metadata(path).row_group(1).column(0)
    start = place.dictionary_page_offset or place.data_page_offset
    for i in range(start + 30, start + place.total_compressed_size):
        data[i] ^= 0x5A
    path.write_bytes(data)
    docs, faults = read(path)
    assert [d[0] for d in docs] == [*range(100), *range(200, 300)]
    (fault,) = faults
    assert (fault.row, fault.reason) == (100, DAMAGED) and "row group 1, rows [100, 200)" in fault.detail


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1rubbish and rubbishPAR1", b"not parquet at all"])
def test_a_file_that_is_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(data)
    docs, (fault,) = read(path)
    assert not docs and fault.reason == DAMAGED and fault.detail
    assert group_bytes(str(path)) == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    docs, (fault,) = read(tmp_path / "none.parquet")
    assert not docs and fault.reason == UNREADABLE


def test_packed_parquet(tmp_path: Path) -> None:
    plain = table(tmp_path, {"text": ["a", "b"]}).read_bytes()
    path = tmp_path / "y.parquet.gz"
    path.write_bytes(gzip.compress(plain))
    assert [d[1] for d in read(path)[0]] == ["a", "b"]
    path.write_bytes(gzip.compress(plain)[:-20])
    assert [f.reason for f in read(path)[1]] == [TRUNCATED]
