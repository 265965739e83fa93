"""Plain text and HTML: one document a file, at row 0, byte 0.

A file has no fields, so no `id_key` or `source_key` is asked of it: its id comes from its text and place.
A plain text is the UTF-8 of the file, to the byte: no newline is changed, nothing is stripped, a byte order mark stays.
HTML is read by `markup`. A file longer than the limit is counted and not held.

Price: a file in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from typecase.store.sources.fields import FieldFault, json_bytes
from typecase.store.sources.markup import html_text
from typecase.store.sources.rows import BAD_UTF8, RAW_BYTES, TOO_LONG, Fault, Rows, RowsBuilder
from typecase.store.sources.streams import Stream


def read_text(stream: Stream, *, limit_bytes: int) -> Iterator[Rows]:
    """The file as one document; an empty file is a fault."""
    data = _whole(stream, limit_bytes)
    if isinstance(data, Fault):
        yield RowsBuilder(limit_bytes, faults=[data]).finish(1)
        return
    builder = RowsBuilder(limit_bytes)
    try:
        builder.add(0, 0, checked_utf8(data), raw=data)
    except FieldFault as fault:
        builder.fault(Fault.of(0, 0, fault.reason, fault.detail, data))
    yield builder.finish(1)


def read_html(stream: Stream, *, main_content: bool, limit_bytes: int) -> Iterator[Rows]:
    """The text of the page as one document; `encoding` is its metadata."""
    data = _whole(stream, limit_bytes)
    if isinstance(data, Fault):
        yield RowsBuilder(limit_bytes, faults=[data]).finish(1)
        return
    builder = RowsBuilder(limit_bytes)
    try:
        text, encoding = html_text(data, main_content=main_content)
        builder.add(0, 0, text.encode(), raw=data, meta=json_bytes({"encoding": encoding}))
    except FieldFault as fault:
        builder.fault(Fault.of(0, 0, fault.reason, fault.detail, data))
    yield builder.finish(1)


def checked_utf8(data: bytes) -> bytes:
    """`data`, when it is UTF-8. Raises FieldFault."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise FieldFault(BAD_UTF8, f"{error.reason} at byte {error.start}") from None
    return data


def _whole(stream: Stream, limit_bytes: int) -> bytes | Fault:
    chunks: list[bytes] = []
    size = held = 0
    while chunk := stream.read():
        size += len(chunk)
        if size <= limit_bytes or held < RAW_BYTES:
            chunks.append(chunk)
            held += len(chunk)
        else:
            del chunks[1:]
    data = b"".join(chunks)
    if stream.cut is not None:
        return Fault(0, 0, *stream.cut, data[:RAW_BYTES], size)
    if size > limit_bytes:
        return Fault(0, 0, TOO_LONG, f"a file of {size} bytes, the limit is {limit_bytes}", data[:RAW_BYTES], size)
    return data
