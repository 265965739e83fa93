"""CSV and TSV: cells stay as they are; a bad record costs itself and nothing after it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.store.sources import delimited
from typecase.store.sources.delimited import read_delimited
from typecase.store.sources.fields import Fields
from typecase.store.sources.rows import (
    BAD_UTF8,
    EMPTY_TEXT,
    MISSING_ID,
    MISSING_TEXT,
    NUL_BYTE,
    TOO_LONG,
    TRUNCATED,
    UNCLOSED_QUOTE,
    WRONG_FIELDS,
    Fault,
    Rows,
)
from typecase.store.sources.streams import Stream

Item = tuple[int, int, str, str] | Fault


def read(path: Path, data: bytes, fields: Fields | None = None, *, delimiter: str = ",", limit: int = 1 << 20) -> list[Item]:
    path.write_bytes(data)
    return list(items(path, fields or Fields(), delimiter, limit))


def items(path: Path, fields: Fields, delimiter: str, limit: int) -> Iterator[Item]:
    next_row = 0
    with Stream(str(path)) as stream:
        for rows in read_delimited(stream, fields, delimiter=delimiter, limit_bytes=limit):
            found: list[Item] = list(
                zip(rows.rows.tolist(), rows.offsets.tolist(), rows.text.to_pylist(), rows.meta.to_pylist())
            )
            found += rows.faults
            assert sorted(row_of(item) for item in found) == list(range(next_row, rows.next_row))
            next_row = rows.next_row
            yield from sorted(found, key=row_of)


def row_of(item: Item) -> int:
    return item.row if isinstance(item, Fault) else item[0]


def shown(found: list[Item]) -> list[str]:
    return [item.reason if isinstance(item, Fault) else item[2] for item in found]


def test_cells_stay_as_they_are(tmp_path: Path) -> None:
    data = 'text,n\n" a ",1\n"b\r\nc\rd",2\n"say ""x""",3\nNA,4\nnull,5\nNone,nan\n,7\n""\u2028,8\n'
    found = read(tmp_path / "x.csv", data.encode())
    assert shown(found) == [" a ", "b\r\nc\rd", 'say "x"', "NA", "null", "None", EMPTY_TEXT, "\u2028"]
    assert found[5] == (5, data.index("None"), "None", '{"n":"nan"}')


def test_bad_records_cost_themselves(tmp_path: Path) -> None:
    data = b"id,text\n1,a\n2\n3,b,c\n4,\xff\n5,x\0\n,y\n7,last"
    found = read(tmp_path / "x.csv", data, Fields(key="id"))
    assert shown(found) == ["a", WRONG_FIELDS, WRONG_FIELDS, BAD_UTF8, NUL_BYTE, MISSING_ID, "last"]
    bad = found[3]
    assert isinstance(bad, Fault)
    assert (bad.offset, bad.raw, bad.detail) == (data.index(b"4,"), b"4,\xff", "invalid start byte at byte 2 of the record")


def test_marks_line_ends_and_blank_lines(tmp_path: Path) -> None:
    assert read(tmp_path / "x", b"\xef\xbb\xbftext\r\n\r\na\r\n\r\nb") == [(0, 11, "a", "{}"), (1, 16, "b", "{}")]
    assert shown(read(tmp_path / "x", b"text\ra\rb\r")) == ["a", "b"]
    assert read(tmp_path / "x", b"") == [] == read(tmp_path / "x", b"\n\n") == read(tmp_path / "x", b"text\n")


def test_tabs(tmp_path: Path) -> None:
    assert read(tmp_path / "x", b'n\ttext\n1\ta,b\n2\t"c\td"\n', delimiter="\t") == [
        (0, 7, "a,b", '{"n":"1"}'),
        (1, 13, "c\td", '{"n":"2"}'),
    ]


def test_columns_of_one_name_are_all_kept(tmp_path: Path) -> None:
    (row,) = read(tmp_path / "x", b"text,a,a,a_2,\n1,2,3,4,5\n")
    assert isinstance(row, tuple) and json.loads(row[3]) == {"a": "2", "a_3": "3", "a_2": "4", "": "5"}


def test_no_text_column(tmp_path: Path) -> None:
    assert shown(read(tmp_path / "x", b"a,b\n1,2\n3,4\n")) == [MISSING_TEXT] * 2


def test_an_unclosed_quote_costs_its_line(tmp_path: Path) -> None:
    found = read(tmp_path / "x", b'text\na\n"never closed\nb\nc ""d""\ne')
    assert shown(found) == ["a", UNCLOSED_QUOTE, "b", 'c ""d""', "e"]
    assert isinstance(found[1], Fault) and found[1].raw == b'"never closed' and found[1].offset == 7


def test_an_unclosed_quote_beyond_the_limit_costs_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 64)
    monkeypatch.setattr("typecase.store.sources.streams.CHUNK_BYTES", 64)
    rows = [b"row %d" % i for i in range(200)]
    found = read(tmp_path / "x", b'text\na\n"never closed\n' + b"\n".join(rows), limit=100)
    assert shown(found) == ["a", UNCLOSED_QUOTE, *(row.decode() for row in rows)]


def test_a_long_record_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = b'"' + b"line\n" * 100 + b'"'
    data = b"text\na\n" + long + b"\nb\n" + long
    for block in (16, 1 << 20):
        monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
        monkeypatch.setattr("typecase.store.sources.streams.CHUNK_BYTES", block)
        found = read(tmp_path / "x", data, limit=100)
        assert shown(found) == ["a", TOO_LONG, "b", TOO_LONG]
        assert [f.raw_bytes for f in found if isinstance(f, Fault)] == [502, 502]
        assert [f.offset for f in found if isinstance(f, Fault)] == [7, 512]


def test_a_cut_file_gives_all_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    data = b"text\n" + b"".join(b"row %d\n" % (i * i) for i in range(5000))
    path.write_bytes(gzip.compress(data)[:-2000])
    *rows, last = items(path, Fields(), ",", 1 << 20)
    assert isinstance(last, Fault) and last.reason == TRUNCATED
    assert len(rows) > 2500
    assert data.startswith(b"text\n" + "".join(r[2] + "\n" for r in rows if isinstance(r, tuple)).encode())


@settings(max_examples=100, deadline=None)
@given(
    data=st.lists(st.sampled_from([b'"', b",", b"\n", b"\r\n", b"a", b"bc", b'""', b"\xff", b"\0"]), max_size=40).map(b"".join),
    block=st.sampled_from([3, 16, 1 << 20]),
    limit=st.sampled_from([8, 1000]),
)
def test_no_read_size_changes_anything(tmp_path_factory: pytest.TempPathFactory, data: bytes, block: int, limit: int) -> None:
    path = tmp_path_factory.mktemp("d") / "x"
    whole = read(path, b"n,text\n" + data, limit=limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BLOCK_BYTES", block)
        patch.setattr("typecase.store.sources.streams.CHUNK_BYTES", block)
        assert read(path, b"n,text\n" + data, limit=limit) == whole


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.lists(st.sampled_from(["", "a", "b c", "é", "\0", 'q"']), min_size=1, max_size=4), max_size=5),
    key=st.sampled_from([None, "k", "none"]),
    source=st.sampled_from([None, "s", "none"]),
    limit=st.sampled_from([8, 1000]),
)
def test_at_once_is_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], key: str | None, source: str | None, limit: int
) -> None:
    """Fast equals slow."""
    path = tmp_path_factory.mktemp("d") / "x"
    path.write_text("text,k,s\n" + "".join(",".join(row) + "\n" for row in rows))
    found = []
    for fast in (True, False):
        with pytest.MonkeyPatch.context() as patch, Stream(str(path)) as stream:
            if not fast:
                patch.setattr(delimited._Reader, "_at_once", lambda self, cells, first: None)
            blocks = list(read_delimited(stream, Fields("text", key, source), delimiter=",", limit_bytes=limit))
        found.append([shown_block(block) for block in blocks])
    assert found[0] == found[1]


def shown_block(rows: Rows) -> tuple[object, ...]:
    lists = [list(values) if values else None for values in (rows.keys, rows.sources, rows.faults)]
    return rows.text.to_pylist(), rows.meta.to_pylist(), rows.rows.tolist(), rows.offsets.tolist(), rows.next_row, *lists
