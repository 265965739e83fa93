"""JSON lines: every line is a document or a fault, the block and the line-by-line reading agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.store.sources import jsonl
from typecase.store.sources.fields import Fields
from typecase.store.sources.jsonl import read_jsonl
from typecase.store.sources.lines import open_lines
from typecase.store.sources.rows import (
    BAD_ID,
    BAD_JSON,
    BAD_UTF8,
    EMPTY_TEXT,
    LONE_SURROGATE,
    MISSING_ID,
    MISSING_TEXT,
    NUL_BYTE,
    TEXT_NOT_STRING,
    TOO_LONG,
    Fault,
    Rows,
)


def read(path: Path, data: bytes, fields: Fields | None = None, *, limit_bytes: int = 1 << 20) -> list[Rows]:
    path.write_bytes(data)
    with open_lines(str(path), 0) as stream:
        return list(read_jsonl(stream, fields or Fields(), limit_bytes=limit_bytes))


Doc = tuple[int, int, str, str, str | None, str | None]


def docs(blocks: Sequence[Rows]) -> list[Doc]:
    out: list[Doc] = []
    for rows in blocks:
        none = [None] * len(rows)
        out += zip(
            rows.rows.tolist(),
            rows.offsets.tolist(),
            rows.text.to_pylist(),
            rows.meta.to_pylist(),
            rows.keys or none,
            rows.sources or none,
        )
    return out


def faults(blocks: Sequence[Rows]) -> list[Fault]:
    return [fault for rows in blocks for fault in rows.faults]


def one(tmp_path: Path, line: bytes, fields: Fields | None = None) -> Doc | Fault:
    blocks = read(tmp_path / "x.jsonl", line + b"\n", fields)
    (item,) = [*docs(blocks), *faults(blocks)]
    return item


def test_ten_lines_with_one_bad_byte_lose_one_line(tmp_path: Path) -> None:
    lines = [b'{"text": "document %d", "n": %d}' % (i, i) for i in range(10)]
    lines[2] = b'{"text": "doc\xffument", "n": 2}'
    blocks = read(tmp_path / "x.jsonl", b"\n".join(lines))
    assert [d[0] for d in docs(blocks)] == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    (fault,) = faults(blocks)
    assert (fault.row, fault.offset, fault.reason) == (2, sum(len(line) + 1 for line in lines[:2]), BAD_UTF8)
    assert fault.raw == lines[2] and fault.raw_bytes == len(lines[2])
    assert blocks[-1].next_row == 10


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": ""}', EMPTY_TEXT),
        (b'{"txt": "a"}', MISSING_TEXT),
        (b"{}", MISSING_TEXT),
        (b'{"text": 3}', TEXT_NOT_STRING),
        (b'{"text": null}', TEXT_NOT_STRING),
        (b'{"text": ["a"]}', TEXT_NOT_STRING),
        (b'{"text": {"a": "b"}}', TEXT_NOT_STRING),
        (b'["text"]', BAD_JSON),
        (b'"text"', BAD_JSON),
        (b"17", BAD_JSON),
        (b"null", BAD_JSON),
        (b'{"text": "a"', BAD_JSON),
        (b'{"text": "a"} x', BAD_JSON),
        (b'{"text": "a\tb"}', BAD_JSON),
        (b"[" * 5000, BAD_JSON),
        (b'{"a": 1' + b"0" * 5000 + b', "text": "x"}', BAD_JSON),
        (b'{"text": "a\xff"}', BAD_UTF8),
        (b'{"text": "a", "b": "\xed\xa0\x80"}', BAD_UTF8),
        (b'{"text": "a\x00b"}', NUL_BYTE),
        (b'{"text": "a\\u0000b"}', NUL_BYTE),
        (b'{"text": "\\ud800"}', LONE_SURROGATE),
        (b'{"text": "a", "b": "\\udc00\\ud800"}', LONE_SURROGATE),
    ],
)
def test_reasons(tmp_path: Path, line: bytes, reason: str) -> None:
    fault = one(tmp_path, line)
    assert isinstance(fault, Fault) and fault.reason == reason
    assert fault.raw == line[:4096] and fault.raw_bytes == len(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a"}', MISSING_ID),
        (b'{"text": "a", "id": null}', MISSING_ID),
        (b'{"text": "a", "id": ""}', MISSING_ID),
        (b'{"text": "a", "id": true}', BAD_ID),
        (b'{"text": "a", "id": 1.0}', BAD_ID),
        (b'{"text": "a", "id": ["x"]}', BAD_ID),
    ],
)
def test_reasons_of_ids(tmp_path: Path, line: bytes, reason: str) -> None:
    fault = one(tmp_path, line, Fields(key="id"))
    assert isinstance(fault, Fault) and fault.reason == reason


def test_ids_are_strings_or_integers_of_any_length(tmp_path: Path) -> None:
    data = b'{"text":"a","id":"x"}\n{"text":"b","id":7}\n{"text":"c","id":-123456789012345678901234567890}\n'
    assert [d[4] for d in docs(read(tmp_path / "x", data, Fields(key="id")))] == ["x", "7", "-123456789012345678901234567890"]


def test_a_row_with_an_id_and_no_text_keeps_its_id(tmp_path: Path) -> None:
    fault = one(tmp_path, b'{"text": "", "id": "k"}', Fields(key="id"))
    assert isinstance(fault, Fault) and fault.key == "k"


def test_blank_lines_have_numbers_and_are_no_rows(tmp_path: Path) -> None:
    blocks = read(tmp_path / "x", b'\n{"text":"a"}\r\n \t\r\n\n{"text":"b"}')
    assert [(d[0], d[1], d[2]) for d in docs(blocks)] == [(1, 1, "a"), (4, 20, "b")]
    assert not faults(blocks)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert docs(read(tmp_path / "x", b'\xef\xbb\xbf{"text":"\xef\xbb\xbfa"}\n')) == [(0, 3, "\ufeffa", "{}", None, None)]


def test_text_and_metadata_come_through_exactly(tmp_path: Path) -> None:
    text = "  lead\r\nand\ttrail \u2028\u0085 😀 e\u0301 \ufffe"
    meta = {
        "😀": "ключ", "big": 2**200, "neg": -(2**64), "u64": 2**64 - 1, "int": -3, "one": 1.0, "tiny": 5e-324, "zero": -0.0,
        "yes": True, "none": None, "deep": {"a": [1, {"b": []}]}, "nul": "a\0b", "quote": '"\\/',
    }  # fmt: skip
    for ascii_only in (True, False):
        line = json.dumps({"text": text, **meta}, ensure_ascii=ascii_only).encode()
        item = one(tmp_path, line)
        assert isinstance(item, tuple)
        assert item[2] == text
        assert json.loads(item[3]) == meta and list(json.loads(item[3])) == list(meta)
        assert isinstance(json.loads(item[3])["big"], int) and isinstance(json.loads(item[3])["one"], float)


def test_nan_and_infinity_become_null(tmp_path: Path) -> None:
    item = one(tmp_path, b'{"text":"a","x":NaN,"y":[Infinity,-Infinity],"z":1e999,"i":123456789012345678901234567890}')
    assert isinstance(item, tuple)
    assert item[3] == '{"x":null,"y":[null,null],"z":null,"i":123456789012345678901234567890}'


def test_nested_names(tmp_path: Path) -> None:
    fields = Fields("data.text", "data.id", "data.from.site")
    lines = [
        b'{"data":{"text":"a","id":"1","from":{"site":"s"}},"n":1}',
        b'{"data":{"text":"b","id":"2","from":{}},"n":1}',
        b'{"data.text":"c","data":{"text":"x","id":"3"}}',
        b'{"data":"text"}',
        b'{"data":{"id":"4"}}',
    ]
    blocks = read(tmp_path / "x", b"\n".join(lines), fields)
    assert [(d[2], d[4], d[5]) for d in docs(blocks)] == [("a", "1", "s"), ("b", "2", None), ("c", "3", None)]
    assert docs(blocks)[0][3] == '{"data":{"id":"1","from":{"site":"s"}},"n":1}'
    assert [f.reason for f in faults(blocks)] == [MISSING_ID, MISSING_TEXT]


def test_sources_that_are_no_strings_are_shown_as_json(tmp_path: Path) -> None:
    data = b'{"text":"a","s":"x"}\n{"text":"a","s":1}\n{"text":"a","s":null}\n{"text":"a"}\n{"text":"a","s":[1]}\n'
    assert [d[5] for d in docs(read(tmp_path / "x", data, Fields(source="s")))] == ["x", "1", None, None, "[1]"]


def test_a_long_line_is_one_fault(tmp_path: Path) -> None:
    long = b'{"text":"' + b"x" * 200 + b'"}'
    blocks = read(tmp_path / "x", b'{"text":"a"}\n' + long + b'\n{"text":"b"}\n', limit_bytes=100)
    assert [d[2] for d in docs(blocks)] == ["a", "b"]
    (fault,) = faults(blocks)
    assert (fault.row, fault.offset, fault.reason, fault.raw_bytes) == (1, 13, TOO_LONG, len(long))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=8) | json_values,
        "id": st.text(max_size=3) | json_values,
        "s": json_values,
        "x": json_values,
    },
)
lines_of_json = st.builds(lambda item, ascii_only: json.dumps(item, ensure_ascii=ascii_only).encode(), objects, st.booleans())


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(lines_of_json | st.binary(max_size=12).filter(lambda b: b"\n" not in b), min_size=1, max_size=8),
    key=st.sampled_from([None, "id", "x.y"]),
    source=st.sampled_from([None, "s"]),
    text=st.sampled_from(["text", "x.text"]),
)
def test_at_once_is_one_by_one(lines: list[bytes], key: str | None, source: str | None, text: str) -> None:
    """Fast equals slow: where a block can be read at once, line by line gives the same."""
    fields = Fields(text, key, source)
    offsets = np.cumsum([0, *(len(line) + 1 for line in lines)])[:-1]
    slow = jsonl._one_by_one(lines, 5, offsets.tolist(), fields, 1 << 20)
    assert len(slow) + len(slow.faults) == sum(1 for line in lines if line.strip())
    fast = jsonl._at_once(lines, 5, offsets, fields)
    if fast is not None:
        assert not slow.faults
        assert docs([fast]) == docs([slow])
    else:
        singles = [jsonl._at_once([line], 5, offsets[:1], fields) for line in lines]
        assert any(single is None for single in singles) or "." in f"{key}{text}"


@settings(max_examples=100, deadline=None)
@given(objects.filter(lambda item: isinstance(item.get("text"), str)))
def test_metadata_round_trips(item: dict[str, Any]) -> None:
    """What Python writes and reads, the reader keeps: all fields but the text, NaN as null."""
    line = json.dumps(item).encode()
    rows = jsonl._one_by_one([line], 0, [0], Fields(), 1 << 20)
    expected = json.loads(line, parse_constant=lambda _: None)
    text = expected.pop("text")
    if len(rows):
        assert rows.text[0].as_py() == text
        assert json.loads(rows.meta[0].as_py()) == expected
    else:
        assert rows.faults[0].reason in (EMPTY_TEXT, NUL_BYTE, LONE_SURROGATE)
