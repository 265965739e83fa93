"""HTTP responses as archives keep them: status, type, and the body with its transfer and content encodings undone.

Some archives undo an encoding and leave its header: a body that does not begin as its header says is taken as it is.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import pyarrow as pa

from typecase.store.sources.fields import FieldFault
from typecase.store.sources.rows import BAD_RECORD, TOO_LONG
from typecase.store.sources.streams import decompressed

_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([\w.:+-]+)""", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")


@dataclass(frozen=True, slots=True)
class Payload:
    """A body of some media type, lower case, `""` where unknown; `status` is 0 where there was no HTTP."""

    body: bytes
    media_type: str
    charset: str | None
    status: int = 0


def payload_of(block: bytes, content_type: str, limit_bytes: int) -> Payload:
    """What a record holds: an HTTP response, or its bytes as they are. Raises FieldFault."""
    if not block.startswith(b"HTTP/"):
        return Payload(block, *parsed_type(content_type))
    head, body = split_head(block)
    status_line, _, lines = head.partition(b"\n")
    headers = parsed_headers(lines)
    words = status_line.split()
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() and len(words[1]) == 3 else 0
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _dechunked(body)
    for coding in reversed(headers.get("content-encoding", "").lower().replace(",", " ").split()):
        body = _decoded(body, coding, limit_bytes)
    return Payload(body, *parsed_type(headers.get("content-type", "")), status)


def split_head(block: bytes) -> tuple[bytes, bytes]:
    """Header lines and what follows the blank line after them; all is header when there is none."""
    ends = [(at, size) for mark, size in ((b"\r\n\r\n", 4), (b"\n\n", 2)) if (at := block.find(mark)) >= 0]
    at, size = min(ends, default=(len(block), 0))
    return block[:at], block[at + size :]


def parsed_headers(lines: bytes) -> dict[str, str]:
    """Header lines by lower-case name; of a repeated name the first one counts."""
    headers: dict[str, str] = {}
    for line in lines.splitlines():
        name, colon, value = line.partition(b":")
        if colon and not name[:1].isspace():
            headers.setdefault(_shown(name).lower(), _shown(value))
    return headers


def parsed_type(content_type: str) -> tuple[str, str | None]:
    """Media type and charset of a Content-Type."""
    charset = _CHARSET.search(content_type)
    return content_type.partition(";")[0].strip().lower(), charset[1] if charset else None


def _shown(raw: bytes) -> str:
    try:
        return raw.strip().decode()
    except UnicodeDecodeError:
        return raw.strip().decode("latin-1")


def _dechunked(body: bytes) -> bytes:
    chunks, at = list[bytes](), 0
    while (size := _CHUNK_SIZE.match(body, at)) is not None:
        length = int(size[1], 16)
        if not length:
            return b"".join(chunks)
        chunks.append(body[size.end() : size.end() + length])
        at = size.end() + length
        if at > len(body):
            break
        at += 2 if body[at : at + 2] == b"\r\n" else body[at : at + 1] == b"\n"
    if not chunks:
        return body
    raise FieldFault(BAD_RECORD, f"the chunked body breaks off at byte {min(at, len(body))}")


def _decoded(body: bytes, coding: str, limit_bytes: int) -> bytes:
    if coding in ("gzip", "x-gzip"):
        return _inflated(body, 31, limit_bytes) if body.startswith(b"\x1f\x8b") else body
    if coding == "deflate":
        return _inflated(body, 15 if body[:1] == b"\x78" else -15, limit_bytes)
    if coding in ("br", "zstd"):
        return _decompressed(body, "brotli" if coding == "br" else "zstd", limit_bytes)
    return body


def _inflated(body: bytes, window: int, limit_bytes: int) -> bytes:
    decoder = zlib.decompressobj(window)
    try:
        out = decoder.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        raise FieldFault(BAD_RECORD, f"compressed body: {error}") from None
    if len(out) <= limit_bytes and not decoder.eof:
        raise FieldFault(BAD_RECORD, "the compressed body breaks off")
    _check(len(out), limit_bytes)
    return out


def _decompressed(body: bytes, codec: str, limit_bytes: int) -> bytes:
    out = bytearray()
    try:
        for chunk in decompressed(pa.BufferReader(body), codec, 1 << 16):
            out += chunk
            _check(len(out), limit_bytes)
    except (pa.ArrowException, OSError) as error:
        raise FieldFault(BAD_RECORD, f"compressed body: {error}") from None
    return bytes(out)


def _check(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise FieldFault(TOO_LONG, f"a body of more than {limit_bytes} bytes, which is the limit")
