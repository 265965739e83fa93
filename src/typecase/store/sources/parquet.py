"""Parquet: any row groups of a file.

Texts stay in Arrow buffers from the file to the store. The text column may be a string of any kind, a dictionary of
strings, or binary that is UTF-8. Every other column becomes metadata in the form of `arrow_json`. A damaged row group
is one fault that names its rows; the groups after it are read. Rows have no byte offset (-1).

Price: 400 MB/s of text alone; other columns cost a Python object per value.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from typecase.store.shards import buffers_of
from typecase.store.sources.arrow_json import json_values
from typecase.store.sources.fields import FieldFault, Fields, json_bytes, key_of, pop_text, source_of, unique_names
from typecase.store.sources.rows import (
    BAD_UTF8,
    DAMAGED,
    MISSING_TEXT,
    TEXT_NOT_STRING,
    UNREADABLE,
    Fault,
    Rows,
    RowsBuilder,
    no_meta,
    strings_of,
    text_fault,
)
from typecase.store.sources.streams import Stream, compression_of

BLOCK_BYTES = 8 << 20
_BAD_FILE = (pa.ArrowException, OSError, ValueError)
"""What pyarrow raises for bytes that are not Parquet."""


def group_bytes(path: str) -> list[int]:
    """The uncompressed bytes of every row group; empty when the file cannot be opened, which its reader will report."""
    try:
        with pq.ParquetFile(path) as file:
            return [file.metadata.row_group(g).total_byte_size for g in range(file.num_row_groups)]
    except _BAD_FILE:
        return []


def read_parquet(path: str, fields: Fields, *, groups: range | None = None, limit_bytes: int) -> Iterator[Rows]:
    """The rows of the row groups `groups`, all by default; row numbers count from the start of the file."""
    try:
        with _seekable(path) as source, pq.ParquetFile(source, buffer_size=1 << 20) as file:
            if any(file.metadata.row_group(g).num_rows < 0 for g in range(file.num_row_groups)):
                raise _Cut(DAMAGED, "a row group of less than no rows")
            for group in groups if groups is not None else range(file.num_row_groups):
                yield from _read_group(file, group, fields, limit_bytes)
    except _Cut as cut:
        yield _one_fault(0, cut.reason, cut.detail)
    except _BAD_FILE as error:
        errno = getattr(error, "errno", None)
        yield _one_fault(0, DAMAGED if errno is None else UNREADABLE, _first_line(error))


class _Cut(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@contextmanager
def _seekable(path: str) -> Iterator[str | IO[bytes]]:
    """The file itself, or its decompressed copy in a temporary file."""
    if not compression_of(path):
        yield path
        return
    with tempfile.TemporaryFile() as copy, Stream(path) as stream:
        while chunk := stream.read():
            copy.write(chunk)
        if stream.cut is not None:
            raise _Cut(*stream.cut)
        copy.seek(0)
        yield copy


def _read_group(file: pq.ParquetFile, group: int, fields: Fields, limit_bytes: int) -> Iterator[Rows]:
    row = sum(file.metadata.row_group(g).num_rows for g in range(group))
    meta = file.metadata.row_group(group)
    stop = row + meta.num_rows
    average = max(1, meta.total_byte_size // max(1, meta.num_rows))
    size = int(np.clip(BLOCK_BYTES // average, 1, 1 << 14))
    wrong = "it has fewer rows than it says"
    try:
        for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
            rows = _rows_of(batch, row, fields, limit_bytes)
            yield rows
            row = rows.next_row
    except _BAD_FILE as error:
        wrong = _first_line(error)
    if row < stop:
        yield _one_fault(row, DAMAGED, f"row group {group}, rows [{row}, {stop}): {wrong}", next_row=stop)


def _rows_of(batch: pa.RecordBatch, row: int, fields: Fields, limit_bytes: int) -> Rows:
    names = unique_names(batch.schema.names)
    if fields.text not in names:
        return _by_row(batch, names, row, fields, limit_bytes)
    at = names.index(fields.text)
    texts = _as_text(batch.column(at))
    others = names[:at] + names[at + 1 :]
    columns = [json_values(batch.column(i)) for i in range(len(names)) if i != at]
    if texts is None:
        detail = f"column {fields.text!r} is {batch.schema.field(at).type}"
        return _all_wrong(_items(others, columns, len(batch)), row, TEXT_NOT_STRING, detail)
    faults, keys, sources, metas = dict[int, Fault](), list[str | None](), list[str | None](), list[bytes]()
    wrong = _wrong_texts(texts, limit_bytes)
    for i, item in enumerate(_items(others, columns, len(batch)) if others or fields.key else ()):
        key = source = None
        meta = b"{}"
        try:
            key, source, meta = key_of(item, fields), source_of(item, fields), json_bytes(item)
        except FieldFault as fault:
            wrong[i] = (fault.reason, fault.detail)
        keys.append(key)
        sources.append(source)
        metas.append(meta)
    for i, (reason, detail) in wrong.items():
        raw = texts[i].as_buffer() or pa.py_buffer(metas[i] if metas else b"")
        faults[i] = Fault.of(row + i, -1, reason, detail, raw.to_pybytes(), key=keys[i] if keys else None)
    rows = Rows(
        text=texts,
        meta=strings_of(metas) if metas else no_meta(len(batch)),
        rows=np.arange(row, row + len(batch), dtype=np.int64),
        offsets=np.full(len(batch), -1, np.int64),
        next_row=row + len(batch),
        keys=keys if fields.key is not None else None,
        sources=sources if fields.source is not None and sources else None,
    )
    return _without(rows, faults) if faults else rows


def _without(rows: Rows, faults: dict[int, Fault]) -> Rows:
    keep = np.ones(len(rows), bool)
    keep[list(faults)] = False
    index = np.flatnonzero(keep)
    chosen, kept = pa.array(index), index.tolist()
    return Rows(
        text=rows.text.take(chosen),
        meta=rows.meta.take(chosen),
        rows=rows.rows[index],
        offsets=rows.offsets[index],
        next_row=rows.next_row,
        keys=[rows.keys[i] for i in kept] if rows.keys is not None else None,
        sources=[rows.sources[i] for i in kept] if rows.sources is not None else None,
        faults=[faults[i] for i in sorted(faults)],
    )


def _as_text(column: pa.Array) -> pa.Array | None:
    """The column as large_string, not yet known to be UTF-8; None when it is no text."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _as_text(column.storage)
    if pt.is_dictionary(kind):
        return _as_text(column.dictionary_decode())
    if pt.is_null(kind):
        return column.cast(pa.large_string())
    if pt.is_string(kind) or pt.is_large_string(kind) or kind == pa.string_view():
        return column.cast(pa.large_string())
    if pt.is_binary(kind) or pt.is_large_binary(kind) or kind == pa.binary_view():
        return column.cast(pa.large_binary()).view(pa.large_string())
    return None


def _wrong_texts(texts: pa.Array, limit_bytes: int) -> dict[int, tuple[str, str]]:
    """Row -> why its text cannot be a document."""
    values, ends = buffers_of(texts)
    lengths = np.diff(ends)
    suspects = (lengths == 0) | (lengths > limit_bytes)
    suspects |= texts.is_null().to_numpy(zero_copy_only=False)
    if (values[ends[0] : ends[-1]] == 0).any() or not _is_utf8(texts):
        suspects[:] = True
    wrong = {}
    for i in np.flatnonzero(suspects).tolist():
        text = texts[i].as_buffer()
        fault = (TEXT_NOT_STRING, "it is null") if text is None else _bytes_fault(text.to_pybytes(), limit_bytes)
        if fault is not None:
            wrong[i] = fault
    return wrong


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _bytes_fault(text: bytes, limit_bytes: int) -> tuple[str, str] | None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return BAD_UTF8, f"{error.reason} at byte {error.start} of the text"
    return text_fault(text, limit_bytes)


def _by_row(batch: pa.RecordBatch, names: Sequence[str], row: int, fields: Fields, limit_bytes: int) -> Rows:
    """Rows whose text lies within a struct, or nowhere."""
    builder = RowsBuilder(limit_bytes)
    columns = [json_values(batch.column(i)) for i in range(len(names))]
    for number, item in enumerate(_items(names, columns, len(batch)), row):
        key = None
        try:
            key, source = key_of(item, fields), source_of(item, fields)
            text = pop_text(item, fields).encode()
            builder.add(number, -1, text, raw=text, meta=json_bytes(item), key=key, source=source)
        except FieldFault as fault:
            raw = b"" if fault.reason != MISSING_TEXT else _shown(item)
            builder.fault(Fault.of(number, -1, fault.reason, fault.detail, raw, key=key))
    return builder.finish(row + len(batch))


def _all_wrong(items: Iterator[dict[str, Any]], row: int, reason: str, detail: str) -> Rows:
    faults = [Fault.of(number, -1, reason, detail, _shown(item)) for number, item in enumerate(items, row)]
    return RowsBuilder(0, faults=faults).finish(row + len(faults))


def _items(names: Sequence[str], columns: Sequence[list[Any]], num_rows: int) -> Iterator[dict[str, Any]]:
    if not columns:
        return ({} for _ in range(num_rows))
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _shown(item: dict[str, Any]) -> bytes:
    try:
        return json_bytes(item)
    except FieldFault:
        return b""


def _one_fault(row: int, reason: str, detail: str, *, next_row: int | None = None) -> Rows:
    fault = Fault(row, -1, reason, detail)
    return RowsBuilder(0, faults=[fault]).finish(row + 1 if next_row is None else next_row)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
