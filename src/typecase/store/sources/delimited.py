"""CSV and TSV: a header, then one document a record.

The grammar is that of `cells`. Cells are strings and stay as they are: "NA" is a text of two letters and an empty cell
is an empty text. A quote that never closes costs its own line: reading goes on with the next one. Rows are records
after the header, from zero; a blank line is no record. A UTF-8 byte order mark is passed over.

Price: 100 MB/s with records of 3 kB and two more columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from typecase.store.sources.cells import Cells, ends_in_quotes, find_cells, record_end, unescaped
from typecase.store.sources.fields import FieldFault, Fields, json_bytes, key_of, pop_text, source_of, unique_names
from typecase.store.sources.lines import BOM, next_line
from typecase.store.sources.rows import (
    BAD_UTF8,
    NUL_BYTE,
    RAW_BYTES,
    TOO_LONG,
    UNCLOSED_QUOTE,
    WRONG_FIELDS,
    Fault,
    Rows,
    RowsBuilder,
    no_meta,
    strings_of,
)
from typecase.store.sources.streams import Stream

BLOCK_BYTES = 4 << 20


def read_delimited(stream: Stream, fields: Fields, *, delimiter: str, limit_bytes: int) -> Iterator[Rows]:
    """The rows of a file that begins with a header."""
    yield from _Reader(stream, fields, ord(delimiter), limit_bytes).blocks()


@dataclass(slots=True)
class _Reader:
    """The unread bytes at hand, where they stand, and the number of the next row."""

    stream: Stream
    fields: Fields
    delimiter: int
    limit_bytes: int
    data: bytes = b""
    base: int = 0
    row: int = 0
    at_end: bool = False
    done: bool = False
    names: list[str] = field(default_factory=list)

    def blocks(self) -> Iterator[Rows]:
        self._more()
        if self.data.startswith(BOM):
            self._drop(len(BOM))
        while not self.done:
            cells = find_cells(self.data, self.delimiter, final=self.at_end and self.stream.cut is None)
            if len(cells.spans):
                yield self._rows(cells)
            self._drop(cells.used)
            if not self.at_end and len(self.data) > max(self.limit_bytes, RAW_BYTES):
                yield self._pass_over()
            elif not self.at_end:
                self._more()
            elif self.stream.cut is not None:
                yield self._last(*self.stream.cut, len(self.data))
            elif self.data:
                yield self._unclosed()
            else:
                self.done = True

    def _more(self) -> None:
        chunks, size = [self.data], 0
        while size < max(BLOCK_BYTES, len(BOM)) and (chunk := self.stream.read()):
            chunks.append(chunk)
            size += len(chunk)
        self.data, self.at_end = b"".join(chunks), size == 0

    def _drop(self, size: int) -> None:
        self.data, self.base = self.data[size:], self.base + size

    def _fault(self, reason: str, detail: str, size: int) -> Rows:
        """The record at hand, of `size` bytes."""
        fault = Fault(self.row, self.base, reason, detail, self.data[: min(size, RAW_BYTES)], size)
        self.row += 1
        return RowsBuilder(self.limit_bytes, faults=[fault]).finish(self.row)

    def _last(self, reason: str, detail: str, size: int) -> Rows:
        self.done = True
        return self._fault(reason, detail, size)

    def _unclosed(self) -> Rows:
        """A quote that closes nowhere up to the end of the file, all of which is at hand: its line goes, the next is read."""
        size = min((at for at in (self.data.find(b"\n"), self.data.find(b"\r")) if at >= 0), default=len(self.data))
        rows = self._fault(UNCLOSED_QUOTE, _NO_QUOTE, size)
        self._drop(size)
        return rows

    def _pass_over(self) -> Rows:
        """A record longer than the limit, read to its end without being held."""
        _, state = record_end(self.data, self.delimiter, 0)
        size = len(self.data)
        while chunk := self.stream.read():
            end, state = record_end(chunk, self.delimiter, state)
            if end >= 0:
                rows = self._fault(TOO_LONG, self._too_long(size + end - 1), size + end - 1)
                self.data, self.base = chunk[end:], self.base + size + end
                return rows
            size += len(chunk)
        if self.stream.cut is not None:
            return self._last(*self.stream.cut, size)
        if not ends_in_quotes(state):
            return self._last(TOO_LONG, self._too_long(size), size)
        self.stream = self.stream.reopened(self.base)
        rest, base, ended = next_line(self.stream, self.base, float("inf"))
        rows = self._fault(UNCLOSED_QUOTE, _NO_QUOTE, base - self.base - ended)
        self.data, self.base = rest, base
        return rows

    def _too_long(self, size: int) -> str:
        return f"a record of {size} bytes, the limit is {self.limit_bytes}"

    def _rows(self, cells: Cells) -> Rows:
        """The complete records at hand; the first of the file is the header."""
        first = 0
        if not self.names:
            header = self._values(cells, slice(0, int(cells.first[1])))
            self.names, first = unique_names([value.decode("utf-8", "backslashreplace") for value in header]), 1
        rows = self._at_once(cells, first)
        return rows if rows is not None else self._one_by_one(cells, first)

    def _values(self, cells: Cells, span: slice) -> list[bytes]:
        """The values of the cells in `span`."""
        data, escaped = self.data, cells.escaped[span]
        values = [data[a:b] for a, b in zip(cells.starts[span].tolist(), cells.stops[span].tolist())]
        for i in np.flatnonzero(escaped).tolist():
            values[i] = unescaped(values[i])
        return values

    def _at_once(self, cells: Cells, first: int) -> Rows | None:
        """The records from number `first` on, all as documents; None as soon as one needs a closer look."""
        fields, width, spans = self.fields, len(self.names), cells.spans[first:]
        wanted = [name for name in (fields.text, fields.key, fields.source) if name is not None]
        raw = np.frombuffer(self.data, np.uint8, cells.used)
        if (
            not len(spans)
            or not set(wanted) <= set(self.names)
            or (np.diff(cells.first[first:]) != width).any()
            or (spans[:, 1] - spans[:, 0]).max() > self.limit_bytes
            or raw.min() == 0
        ):
            return None
        start = int(cells.first[first])
        columns = {name: self._values(cells, slice(start + i, None, width)) for i, name in enumerate(self.names)}
        texts = columns.pop(fields.text)
        try:
            shown = {name: [value.decode() for value in values] for name, values in columns.items()}
            text = strings_of(texts)
            text.validate(full=True)
        except (UnicodeDecodeError, pa.ArrowInvalid):
            return None
        keys = shown[fields.key] if fields.key is not None and fields.key in shown else None
        if b"" in texts or (keys is None) != (fields.key is None) or (keys is not None and "" in keys):
            return None
        if fields.source is not None and fields.source not in shown:
            return None
        metas = [orjson.dumps(dict(zip(shown, row))) for row in zip(*shown.values())] if shown else None
        row, self.row = self.row, self.row + len(spans)
        return Rows(
            text=text,
            meta=strings_of(metas) if metas else no_meta(len(spans)),
            rows=np.arange(row, self.row, dtype=np.int64),
            offsets=self.base + spans[:, 0],
            next_row=self.row,
            keys=keys,
            sources=shown[fields.source] if fields.source is not None else None,
        )

    def _one_by_one(self, cells: Cells, first: int) -> Rows:
        builder = RowsBuilder(self.limit_bytes)
        for record in range(first, len(cells.spans)):
            start, stop = cells.spans[record].tolist()
            values = self._values(cells, slice(int(cells.first[record]), int(cells.first[record + 1])))
            self._read(builder, self.data[start:stop], self.base + start, values)
            self.row += 1
        return builder.finish(self.row)

    def _read(self, builder: RowsBuilder, raw: bytes, offset: int, values: list[bytes]) -> None:
        key = None
        try:
            item = self._item(raw, values)
            key, source = key_of(item, self.fields), source_of(item, self.fields)
            text = pop_text(item, self.fields).encode()
            builder.add(self.row, offset, text, raw=raw, meta=json_bytes(item), key=key, source=source)
        except FieldFault as fault:
            builder.fault(Fault.of(self.row, offset, fault.reason, fault.detail, raw, key=key))

    def _item(self, raw: bytes, values: list[bytes]) -> dict[str, Any]:
        if len(raw) > self.limit_bytes:
            raise FieldFault(TOO_LONG, self._too_long(len(raw)))
        if (at := raw.find(0)) >= 0:
            raise FieldFault(NUL_BYTE, f"at byte {at} of the record")
        try:
            shown = [value.decode() for value in values]
        except UnicodeDecodeError:
            raise FieldFault(BAD_UTF8, _bad_byte(raw)) from None
        if len(shown) != len(self.names):
            raise FieldFault(WRONG_FIELDS, f"{len(shown)} fields, the header has {len(self.names)}")
        return dict(zip(self.names, shown))


_NO_QUOTE = "no closing quote up to the end of the file"


def _bad_byte(raw: bytes) -> str:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"{error.reason} at byte {error.start} of the record"
    return ""
