"""Reading by format, and a look at an input without writing anything."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from typecase.core.document import Document, Place, id_from_key, id_from_place
from typecase.errors import FingerprintMismatch
from typecase.store.sources.fields import Fields
from typecase.store.sources.files import list_files
from typecase.store.sources.read import Reading, read_file, read_source
from typecase.store.sources.rows import EMPTY_TEXT, UNKNOWN_FORMAT, UNREADABLE, Fault


def test_every_format(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text":"json","n":1}\n{"text":""}\n')
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"text\ncsv\n"))
    (tmp_path / "c.tsv").write_bytes(b"text\ttag\ntsv\tx\n")
    (tmp_path / "d.txt").write_bytes(b"plain\n")
    (tmp_path / "e.html").write_bytes(b"<p>html")
    pq.write_table(pa.table({"text": ["parquet"]}), tmp_path / "f.parquet")
    (tmp_path / "g.warc").write_bytes(
        b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: u\r\nContent-Type: text/plain\r\n"
        b"Content-Length: 4\r\n\r\nwarc\r\n\r\n"
    )
    (tmp_path / "h.bin").write_bytes(b"??")
    found = list(read_source(str(tmp_path)))
    documents = [item for item in found if isinstance(item, Document)]
    assert [d.text for d in documents] == ["json", "csv", "tsv", "plain\n", "html", "parquet", "warc"]
    assert documents[0] == Document(id_from_place("a.jsonl", 0, b"json"), "json", "a", Place("a.jsonl", 0, 0), {"n": 1})
    assert documents[5] == Document(id_from_place("f.parquet", 0, b"parquet"), "parquet", "f", Place("f.parquet", 0), {})
    assert documents[6].id == id_from_key("u")
    faults = [item for item in found if isinstance(item, Fault)]
    assert [(f.file, f.row, f.reason) for f in faults] == [("a.jsonl", 1, EMPTY_TEXT), ("h.bin", 0, UNKNOWN_FORMAT)]


def test_names_and_ids(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'{"body":"a","k":1,"site":"s"}\n')
    reading = Reading(Fields("body", "k", "site"))
    (document,) = read_source([str(tmp_path / "x.jsonl")], reading=reading)
    assert document == Document(id_from_key("1"), "a", "s", Place("x.jsonl", 0, 0), {"k": 1, "site": "s"})


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text":"a"}\n')
    (file,) = list_files([str(path)])
    path.write_bytes(b'{"text":"a"}\n{"text":"b"}\n')
    with pytest.raises(FingerprintMismatch, match="changed"):
        list(read_file(file, Reading()))


def test_a_file_that_went_is_a_fault(tmp_path: Path) -> None:
    for name in ("x.jsonl", "x.csv", "x.txt", "x.html", "x.warc", "x.parquet"):
        path = tmp_path / name
        path.write_bytes(b"")
        (file,) = list_files([str(path)])
        path.unlink()
        faults = [fault for rows in read_file(file, Reading()) for fault in rows.faults]
        assert [fault.reason for fault in faults] == [UNREADABLE]


def test_a_link_to_nothing_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").symlink_to(tmp_path / "gone")
    (fault,) = read_source(str(tmp_path))
    assert isinstance(fault, Fault) and (fault.reason, fault.detail) == (UNREADABLE, os.strerror(2))
