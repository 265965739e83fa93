"""WARC: every record that is a page is a document, whatever lies around it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from typecase.store.sources import warc
from typecase.store.sources.fields import Fields
from typecase.store.sources.rows import (
    BAD_HTML,
    BAD_RECORD,
    BAD_UTF8,
    EMPTY_TEXT,
    NO_HTML_TEXT,
    TOO_LONG,
    TRUNCATED,
    TRUNCATED_RECORD,
    Fault,
    Skipped,
)
from typecase.store.sources.streams import Stream

HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"


def record(
    body: bytes,
    *,
    kind: str = "response",
    http: bytes | None = HTML,
    content_type: str = "application/http; msgtype=response",
    url: str = "http://example.org/",
    length: object = None,
) -> bytes:
    block = body if http is None else http + b"\r\n" + body
    length = len(block) if length is None else length
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
        f"WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: {content_type}\r\nContent-Length: {length}"
    )
    return head.encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def page(i: int) -> bytes:
    return record(b"<p>page %d</p>" % i, url=f"http://example.org/{i}")


Item = tuple[int, int, str, str, str | None] | Fault | Skipped


def items(path: Path, fields: Fields, limit: int) -> Iterator[Item]:
    with Stream(str(path)) as stream:
        for rows in warc.read_warc(stream, fields, main_content=False, limit_bytes=limit):
            keys = rows.keys or [None] * len(rows)
            docs = zip(rows.rows.tolist(), rows.offsets.tolist(), rows.text.to_pylist(), rows.meta.to_pylist(), keys)
            found: list[Item] = [*docs, *rows.faults, *rows.skipped]
            yield from sorted(found, key=lambda item: item[0] if isinstance(item, tuple) else item.row)


def read(
    tmp_path: Path, data: bytes, fields: Fields | None = None, *, name: str = "x.warc", limit: int = 1 << 20
) -> list[Item]:
    path = tmp_path / name
    path.write_bytes(data)
    return list(items(path, fields or Fields(), limit))


def shown(found: list[Item]) -> list[str]:
    return [i.reason if isinstance(i, Fault) else i.detail if isinstance(i, Skipped) else i[2] for i in found]


def test_pages_and_their_fields(tmp_path: Path) -> None:
    info = record(b"software: x", kind="warcinfo", http=None, content_type="application/warc-fields")
    request = record(b"", kind="request", http=b"GET / HTTP/1.1\r\n", content_type="application/http; msgtype=request")
    data = info + request + page(1) + page(2)
    found = read(tmp_path, data)
    assert shown(found) == ["page 1", "page 2"]
    row, offset, _, meta, key = found[0]  # type: ignore[misc]
    assert (row, offset, key) == (2, len(info + request), "http://example.org/1")
    assert json.loads(meta) == {
        "url": "http://example.org/1", "date": "2020-01-02T03:04:05Z", "record_id": "urn:uuid:1",
        "content_type": "text/html", "status": 200, "encoding": "utf-8",
    }  # fmt: skip


def test_a_member_a_record(tmp_path: Path) -> None:
    data = b"".join(gzip.compress(page(i)) for i in range(20))
    assert shown(read(tmp_path, data, name="x.warc.gz")) == [f"page {i}" for i in range(20)]
    data = b"".join(bytes(pa.Codec("zstd").compress(page(i), asbytes=True)) for i in range(20))
    assert shown(read(tmp_path, data, name="x.warc.zst")) == [f"page {i}" for i in range(20)]


def test_another_field_may_be_the_id(tmp_path: Path) -> None:
    ((*_, key),) = read(tmp_path, page(1), Fields(key="record_id"))  # type: ignore[misc]
    assert key == "urn:uuid:1"


def test_texts_and_other_types(tmp_path: Path) -> None:
    data = b"".join(
        [
            record("plain ключ\r\n".encode(), http=b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"),
            record(b"caf\xe9", http=b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=latin-1\r\n"),
            record(b"wet text", kind="conversion", http=None, content_type="text/plain"),
            record(b"<p>saved", kind="resource", http=None, content_type="text/html"),
            record(b"\x89PNG", http=b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"),
            record(b"?", http=b"HTTP/1.1 200 OK\r\n"),
            record(b"<p>", http=HTML),
            record(b"", http=b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"),
            record("ж".encode() * 9 + b"\xff", http=b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"),
            record("<p>ж".encode() * 9 + b"\xff"),
        ]
    )
    assert shown(read(tmp_path, data)) == [
        "plain ключ\r\n", "café", "wet text", "saved", "image/png", "no content type",
        NO_HTML_TEXT, EMPTY_TEXT, BAD_UTF8, BAD_HTML,
    ]  # fmt: skip


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


BODY = b"<p>a body of some length"
CHUNKED = b"a;x=y\r\n" + BODY[:10] + b"\r\nE\r\n" + BODY[10:] + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"Transfer-Encoding: chunked\r\n", CHUNKED),
        (b"Transfer-Encoding: chunked\r\n", BODY),  # undone by the archive, the header left
        (b"Content-Encoding: gzip\r\n", gzip.compress(BODY, mtime=0)),
        (b"Content-Encoding: gzip\r\n", BODY),
        (b"Content-Encoding: deflate\r\n", zlib.compress(BODY)),
        (b"Content-Encoding: deflate\r\n", raw_deflate(BODY)),
        (b"Content-Encoding: br\r\n", bytes(pa.Codec("brotli").compress(BODY, asbytes=True))),
        (b"Content-Encoding: zstd\r\n", bytes(pa.Codec("zstd").compress(BODY, asbytes=True))),
        (b"Content-Encoding: identity\r\n", BODY),
    ],
)
def test_encodings_are_undone(tmp_path: Path, headers: bytes, body: bytes) -> None:
    assert shown(read(tmp_path, record(body, http=HTML + headers) + page(1))) == ["a body of some length", "page 1"]


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        (b"Transfer-Encoding: chunked\r\n", CHUNKED[:-20], BAD_RECORD),
        (b"Content-Encoding: gzip\r\n", gzip.compress(BODY, mtime=0)[:-12], BAD_RECORD),
        (b"Content-Encoding: br\r\n", b"\xff\xff\xff", BAD_RECORD),
        (b"Content-Encoding: gzip\r\n", gzip.compress(b"x" * 2000, mtime=0), TOO_LONG),
        (b"Content-Encoding: br\r\n", bytes(pa.Codec("brotli").compress(b"x" * 2000, asbytes=True)), TOO_LONG),
    ],
)
def test_broken_bodies(tmp_path: Path, headers: bytes, body: bytes, reason: str) -> None:
    assert shown(read(tmp_path, record(body, http=HTML + headers) + page(1), limit=1000)) == [reason, "page 1"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (page(0) + b"rubbish\r\n\r\n" + page(1), ["page 0", BAD_RECORD, "page 1"]),
        (b"rubbish\r\n" + page(1), [BAD_RECORD, "page 1"]),
        (page(0) + record(b"x", length="many") + page(1), ["page 0", BAD_RECORD, "page 1"]),
        (page(0) + record(b"x", length=10) + page(1), ["page 0", BAD_RECORD, "page 1"]),
        (page(0) + record(b"x", length=200) + page(1) + page(2), ["page 0", BAD_RECORD, "page 1", "page 2"]),
        (page(0) + record(b"x", length=50_000) + page(1), ["page 0", TRUNCATED_RECORD, "page 1"]),
        (page(0) + record(b"x", length=10**17) + page(1), ["page 0", TRUNCATED_RECORD, "page 1"]),
        (page(0) + page(1)[:-10], ["page 0", TRUNCATED_RECORD]),
        (page(0) + page(1)[:60], ["page 0", BAD_RECORD]),
        (page(0) + b"\r\n\r\n\r\n" + page(1).rstrip(), ["page 0", "page 1"]),
        (b"WARC/1.0\r\n" + b"x: y\r\n" * 20_000 + page(1), [BAD_RECORD, "page 1"]),
        (b"not a warc at all", [BAD_RECORD]),
        (b"", []),
    ],
)
def test_damage_costs_its_record(tmp_path: Path, data: bytes, expected: list[str]) -> None:
    found = read(tmp_path, data)
    assert shown(found) == expected
    for item in found:
        if isinstance(item, Fault) and item.reason == BAD_RECORD:
            assert data[item.offset : item.offset + item.raw_bytes][:4096] == item.raw


def test_a_long_record_is_passed_over(tmp_path: Path) -> None:
    image = record(b"x" * 300_000, http=b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n")
    found = read(tmp_path, page(0) + record(b"<p>" + b"x" * 300_000) + image + page(1), limit=100_000)
    assert shown(found) == ["page 0", TOO_LONG, "image/png", "page 1"]


def test_a_cut_archive(tmp_path: Path) -> None:
    data = b"".join(gzip.compress(page(i)) for i in range(5))
    assert shown(read(tmp_path, data[:-30], name="x.warc.gz")) == [f"page {i}" for i in range(4)] + [TRUNCATED]
    assert shown(read(tmp_path, gzip.compress(page(0))[:-8], name="x.warc.gz")) == ["page 0", TRUNCATED]
