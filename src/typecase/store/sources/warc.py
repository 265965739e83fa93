"""WARC: web pages and their texts.

A record is HTML or plain text by what HTTP says it is, or its own header where there is no HTTP. `response`, `resource`
and `conversion` records become documents; those that hold something else are left out, with their type as the reason.
Requests, crawl information and metadata are no rows. The fields of a row are

    url  date  record_id  content_type  status  encoding      its id is the url, unless another field is asked for

Row numbers count all records. Where records do not join, reading goes on at the next line that begins one; what lies
between is one fault.

    WARC/1.0 … Content-Length: n  |  n bytes  |  CRLF CRLF  |  WARC/1.0 …

Price: a record in memory, up to the limit; the speed is that of HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typecase.store.sources.fields import FieldFault, Fields, json_bytes, key_of, source_of
from typecase.store.sources.http import Payload, parsed_headers, parsed_type, payload_of, split_head
from typecase.store.sources.markup import decoded, html_text
from typecase.store.sources.rows import (
    BAD_RECORD,
    BAD_UTF8,
    RAW_BYTES,
    TOO_LONG,
    TRUNCATED_RECORD,
    Fault,
    Rows,
    RowsBuilder,
    Skipped,
)
from typecase.store.sources.streams import Stream

BLOCK_BYTES = 8 << 20
_BEGIN = b"WARC/"
_NEXT = b"\nWARC/1."
_HEAD_BYTES = 1 << 16
_WANTED = ("response", "resource", "conversion")
_HTML = ("text/html", "application/xhtml+xml")


def read_warc(stream: Stream, fields: Fields, *, main_content: bool, limit_bytes: int) -> Iterator[Rows]:
    """The rows of an archive."""
    yield from _Reader(stream, fields, main_content, limit_bytes).blocks()


@dataclass(slots=True)
class _Reader:
    """`data[at:]` is unread; `data` begins at byte `base` of the archive; `row` is the number of the next record."""

    stream: Stream
    fields: Fields
    main_content: bool
    limit_bytes: int
    data: bytes = b""
    at: int = 0
    base: int = 0
    row: int = 0
    at_end: bool = False
    end: int | None = None
    told: bool = False

    def blocks(self) -> Iterator[Rows]:
        builder = RowsBuilder(self.limit_bytes)
        while self._at_record():
            self._record(builder)
            self.row += 1
            if builder.size_bytes >= BLOCK_BYTES:
                yield builder.finish(self.row)
                builder = RowsBuilder(self.limit_bytes)
        if self.stream.cut is not None and not self.told:
            builder.fault(Fault(self.row, self.base + self.at, *self.stream.cut))
            self.row += 1
        yield builder.finish(self.row)

    def _need(self, size: int) -> bool:
        """Whether `size` unread bytes are at hand, after reading on."""
        held = len(self.data) - self.at
        if held >= size or self.at_end:
            return held >= size
        chunks = [self.data[self.at :]]
        while held < size and not self.at_end:
            chunk = self.stream.read()
            self.at_end = not chunk
            chunks.append(chunk)
            held += len(chunk)
        self.data, self.base, self.at = b"".join(chunks), self.base + self.at, 0
        return held >= size

    def _at_record(self) -> bool:
        """Passes over blank lines; whether anything follows."""
        while self._need(1):
            while self.data[self.at : self.at + 1] in (b"\r", b"\n"):
                self.at += 1
            if self.at < len(self.data):
                return True
        return False

    def _record(self, builder: RowsBuilder) -> None:
        """Reads the record at hand and passes over it."""
        self._need(_HEAD_BYTES)
        if not self.data.startswith(_BEGIN, self.at):
            self._resync(builder, 0, BAD_RECORD, "no record begins here")
            return
        first = self.data[self.at : self.at + _HEAD_BYTES]
        head, rest = split_head(first)
        if head == first:
            self._resync(builder, len(_BEGIN), BAD_RECORD, f"no end of its header within {_HEAD_BYTES} bytes")
            return
        start = len(first) - len(rest)
        headers = parsed_headers(head.partition(b"\n")[2])
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > 18:
            self._resync(builder, start, BAD_RECORD, f"Content-Length is {length[:40]!r}")
        elif int(length) > self.limit_bytes:
            self._pass_over(builder, headers, start, start + int(length))
        elif not self._need(start + int(length)):
            there = len(self.data) - self.at - start
            self._resync(builder, start, TRUNCATED_RECORD, f"{there} of {length} bytes are there")
        elif not self._joins(start + int(length)):
            self._resync(builder, start, BAD_RECORD, f"the record does not end after the {length} bytes that it states")
        else:
            if headers.get("warc-type", "").lower() in _WANTED:
                self._document(builder, headers, self.data[self.at : self.at + start + int(length)], start)
            self.at += start + int(length)

    def _joins(self, stop: int) -> bool:
        """Whether a record may end `stop` bytes from here: a blank line, another record, or the end follows."""
        self._need(stop + 16)
        after = self.data[self.at + stop : self.at + stop + 16]
        return after.startswith((b"\r\n\r\n", b"\n\n")) or after.lstrip(b"\r\n")[:5] in (b"", _BEGIN)

    def _resync(self, builder: RowsBuilder, start: int, reason: str, detail: str) -> None:
        """One fault for everything up to the next record that begins `start` bytes from here or later."""
        offset, raw = self.base + self.at, self.data[self.at : self.at + RAW_BYTES]
        while (found := self.data.find(_NEXT, self.at + start)) < 0 and not self.at_end:
            self.at, start = max(self.at + start, len(self.data) - len(_NEXT)), 0
            self._need(len(self.data) - self.at + 1)
        self.at = found + 1 if found >= 0 else len(self.data)
        if found < 0 and self.stream.cut is not None:
            (reason, detail), self.told = self.stream.cut, True
        size = self.base + self.at - offset
        builder.fault(Fault(self.row, offset, reason, detail, raw[:size], size))

    def _pass_over(self, builder: RowsBuilder, headers: Mapping[str, str], start: int, stop: int) -> None:
        """A record longer than the limit: read to its end without being held."""
        head, offset = self.data[self.at : self.at + _HEAD_BYTES], self.base + self.at
        if self.end is None or offset + stop <= self.end:
            reach = self.base + len(self.data)
            while reach < offset + stop and (chunk := self.stream.read()):
                self.data, self.base, reach = chunk, reach, reach + len(chunk)
            if reach >= offset + stop:
                self.at = offset + stop - self.base
                self._too_long(builder, headers, head, start, offset, stop)
                return
            self.end = reach
            self.stream = self.stream.reopened(offset)
            self.data, self.base, self.at, self.at_end = b"", offset, 0, False
            self._need(_HEAD_BYTES)
        self._resync(builder, start, TRUNCATED_RECORD, f"it would end at byte {offset + stop}, the file at {self.end}")

    def _too_long(
        self, builder: RowsBuilder, headers: Mapping[str, str], head: bytes, start: int, offset: int, size: int
    ) -> None:
        if headers.get("warc-type", "").lower() not in _WANTED:
            return
        content_type = headers.get("content-type", "")
        if head.startswith(b"HTTP/", start):
            content_type = parsed_headers(split_head(head[start:])[0]).get("content-type", "")
        media_type = parsed_type(content_type)[0]
        if _is_text(media_type):
            detail = f"a record of {size} bytes, the limit is {self.limit_bytes}"
            builder.fault(Fault(self.row, offset, TOO_LONG, detail, head[:RAW_BYTES], size))
        else:
            builder.skip(Skipped(self.row, offset, _key(headers, offset), media_type or "no content type"))

    def _document(self, builder: RowsBuilder, headers: Mapping[str, str], raw: bytes, start: int) -> None:
        offset, key = self.base + self.at, None
        item: dict[str, Any] = {
            "url": headers.get("warc-target-uri", "").strip("<>"),
            "date": headers.get("warc-date", ""),
            "record_id": headers.get("warc-record-id", "").strip("<>"),
        }
        try:
            payload = payload_of(raw[start:], headers.get("content-type", ""), self.limit_bytes)
            media_type = payload.media_type or headers.get("warc-identified-payload-type", "").lower()
            if not _is_text(media_type):
                builder.skip(Skipped(self.row, offset, _key(headers, offset), media_type or "no content type"))
                return
            item |= {"content_type": media_type, "status": payload.status}
            item = {name: value for name, value in item.items() if value}
            key = key_of(item, self.fields) if self.fields.key is not None else item.get("url")
            text, item["encoding"] = self._text(payload, media_type)
            source = source_of(item, self.fields)
            builder.add(self.row, offset, text.encode(), raw=raw, meta=json_bytes(item), key=key, source=source)
        except FieldFault as fault:
            builder.fault(Fault.of(self.row, offset, fault.reason, fault.detail, raw, key=key))

    def _text(self, payload: Payload, media_type: str) -> tuple[str, str]:
        if media_type in _HTML:
            return html_text(payload.body, main_content=self.main_content, charset=payload.charset)
        return decoded(payload.body, payload.charset, reason=BAD_UTF8)


def _key(headers: Mapping[str, str], offset: int) -> str:
    return headers.get("warc-target-uri", "").strip("<>") or headers.get("warc-record-id", "") or str(offset)


def _is_text(media_type: str) -> bool:
    return media_type in _HTML or media_type == "text/plain"
