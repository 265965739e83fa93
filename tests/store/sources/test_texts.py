"""Plain text and HTML files: one document each, or one fault."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from typecase.store.sources import texts
from typecase.store.sources.rows import BAD_UTF8, EMPTY_TEXT, NO_HTML_TEXT, NUL_BYTE, TOO_LONG, TRUNCATED, Rows
from typecase.store.sources.streams import Stream


def read(path: Path, data: bytes, *, html: bool = False, limit: int = 1 << 20) -> Rows:
    path.write_bytes(data)
    with Stream(str(path)) as stream:
        if html:
            (rows,) = texts.read_html(stream, main_content=False, limit_bytes=limit)
        else:
            (rows,) = texts.read_text(stream, limit_bytes=limit)
    assert len(rows) + len(rows.faults) == 1 == rows.next_row
    return rows


@pytest.mark.parametrize("data", [b" a \r\n", "\ufeffmark".encode(), b"\n", b"a\rb\n\n"])
def test_a_text_is_the_bytes_of_its_file(tmp_path: Path, data: bytes) -> None:
    rows = read(tmp_path / "x.txt", data)
    assert rows.text[0].as_py().encode() == data
    assert (rows.rows[0], rows.offsets[0], rows.meta[0].as_py(), rows.keys) == (0, 0, "{}", None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", EMPTY_TEXT), (b"caf\xe9", BAD_UTF8), (b"a\0b", NUL_BYTE), (b"x" * 101, TOO_LONG)],
)
def test_texts_that_are_none(tmp_path: Path, data: bytes, reason: str) -> None:
    (fault,) = read(tmp_path / "x.txt", data, limit=100).faults
    assert (fault.reason, fault.raw, fault.raw_bytes) == (reason, data, len(data))


def test_html(tmp_path: Path) -> None:
    rows = read(tmp_path / "x.html", "<p>hällo".encode("latin-1"), html=True)
    assert (rows.text[0].as_py(), rows.meta[0].as_py()) == ("hällo", '{"encoding":"cp1252"}')
    assert read(tmp_path / "x.html", b"<p>", html=True).faults[0].reason == NO_HTML_TEXT


def test_a_cut_file_is_one_fault(tmp_path: Path) -> None:
    (fault,) = read(tmp_path / "x.txt.gz", gzip.compress(b"a b c " * 1000)[:-9]).faults
    assert fault.reason == TRUNCATED and fault.raw.startswith(b"a b c ")


def test_a_long_file_is_not_held(tmp_path: Path) -> None:
    (fault,) = read(tmp_path / "x.txt.gz", gzip.compress(b"x" * 30_000_000), limit=1000).faults
    assert (fault.reason, fault.raw_bytes, len(fault.raw)) == (TOO_LONG, 30_000_000, 4096)
