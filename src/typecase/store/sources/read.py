"""Reading: a split, or a whole input for a look, whatever its formats.

for item in read_source("crawl/*.jsonl.gz"):
    print(item)          # a Document, or a Fault with the place and the reason
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import orjson

from typecase.core.document import Document, Place, id_from_key, id_from_place
from typecase.errors import FingerprintMismatch
from typecase.store.shards import buffers_of
from typecase.store.sources.delimited import read_delimited
from typecase.store.sources.fields import Fields
from typecase.store.sources.files import SourceFile, list_files
from typecase.store.sources.jsonl import read_jsonl
from typecase.store.sources.lines import open_lines
from typecase.store.sources.parquet import read_parquet
from typecase.store.sources.rows import RAW_BYTES, UNREADABLE, Fault, Rows, RowsBuilder
from typecase.store.sources.splits import Split
from typecase.store.sources.streams import Stream
from typecase.store.sources.texts import read_html, read_text
from typecase.store.sources.warc import read_warc

LIMIT_BYTES = 64 << 20
"""A longer document is a fault unless another limit is given."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How rows are read: their fields, the longest document, and how much of an HTML page is its text."""

    fields: Fields = field(default_factory=Fields)
    limit_bytes: int = LIMIT_BYTES
    main_content: bool = False


def read_split(split: Split, reading: Reading) -> Iterator[tuple[int, Rows]]:
    """(number of the file in the listing, block of rows) of a split; rows of a range of lines count from its start.

    Raises FingerprintMismatch when a file is not what it was when it was listed.
    """
    for number, file in enumerate(split.files, split.first):
        for rows in read_file(file, reading, start=split.start, stop=split.stop):
            yield number, rows


def read_file(file: SourceFile, reading: Reading, *, start: int = 0, stop: int | None = None) -> Iterator[Rows]:
    """The rows of a file, or of a part as Split bounds it."""
    if file.problem is not None:
        yield _problem(file)
        return
    _check_unchanged(file)
    fields, limit, path = reading.fields, reading.limit_bytes, file.path
    match file.format:
        case "jsonl":
            with open_lines(path, start) as stream:
                yield from read_jsonl(stream, fields, start=start, stop=stop, limit_bytes=limit)
        case "parquet":
            groups = None if stop is None else range(start, stop)
            yield from read_parquet(path, fields, groups=groups, limit_bytes=limit)
        case "csv" | "tsv":
            with Stream(path) as stream:
                delimiter = "," if file.format == "csv" else "\t"
                yield from read_delimited(stream, fields, delimiter=delimiter, limit_bytes=limit)
        case "text":
            with Stream(path) as stream:
                yield from read_text(stream, limit_bytes=limit)
        case "html":
            with Stream(path) as stream:
                yield from read_html(stream, main_content=reading.main_content, limit_bytes=limit)
        case "warc":
            with Stream(path) as stream:
                yield from read_warc(stream, fields, main_content=reading.main_content, limit_bytes=limit)
        case other:
            raise AssertionError(f"no reader for {other!r}")


def ids_of(rows: Rows, name: str) -> list[str]:
    """The document ids of the rows of the file `name`: by key where a row has one, else by place and text."""
    if rows.keys is not None and None not in rows.keys:
        return [id_from_key(key) for key in rows.keys if key is not None]
    values, ends = buffers_of(rows.text)
    raw = values.data
    places = [row if offset < 0 else offset for row, offset in zip(rows.rows.tolist(), rows.offsets.tolist(), strict=True)]
    keys = rows.keys if rows.keys is not None else [None] * len(rows)
    bounds = ends.tolist()
    return [
        id_from_place(name, place, bytes(raw[a:b])) if key is None else id_from_key(key)
        for key, place, a, b in zip(keys, places, bounds[:-1], bounds[1:], strict=True)
    ]


def read_source(
    inputs: str | Sequence[str], *, format: str | None = None, reading: Reading | None = None
) -> Iterator[Document | Fault]:
    """Every row of `inputs` in the order of the files, as `Ingest` would read it; nothing is written.

    Duplicate ids are not looked for. Raises as `list_files` does.
    """
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for file in list_files(names, format=format):
        for rows in read_file(file, reading or Reading()):
            yield from (replace(fault, file=file.name) for fault in rows.faults)
            yield from _documents(rows, file)


def _documents(rows: Rows, file: SourceFile) -> Iterator[Document]:
    sources = rows.sources or [None] * len(rows)
    columns = zip(
        ids_of(rows, file.name),
        rows.text.to_pylist(),
        rows.meta.to_pylist(),
        sources,
        rows.rows.tolist(),
        rows.offsets.tolist(),
        strict=True,
    )
    for doc_id, text, meta, source, row, offset in columns:
        place = Place(file.name, row, offset)
        yield Document(doc_id, text, file.source if source is None else source, place, orjson.loads(meta))


def _check_unchanged(file: SourceFile) -> None:
    try:
        status = os.stat(file.path)  # noqa: PTH116
    except OSError:
        return  # the reader will say why
    if (status.st_size, status.st_mtime_ns) != (file.size_bytes, file.changed_ns):
        raise FingerprintMismatch(f"{file.path} changed while it was being read: run this again when it is finished")


def _problem(file: SourceFile) -> Rows:
    """A file that cannot be read as one row."""
    assert file.problem is not None
    reason, detail = file.problem
    raw = b"" if reason == UNREADABLE else _head(file.path)
    return RowsBuilder(0, faults=[Fault(0, 0, reason, detail, raw, file.size_bytes)]).finish(1)


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(RAW_BYTES)
    except OSError:
        return b""
