r"""Lines: any range of bytes of a file as blocks of whole lines.

A line belongs to the range in which its first byte lies, so a file may be cut anywhere:

    file      {"text":"a"}\n{"text":"b"}\n{"text":"c"}\n          lines begin at 0, 13, 26
    [0, 20)   {"text":"a"}\n{"text":"b"}\n                        the second line is finished beyond the range
    [20, 39)                              {"text":"c"}\n          the rest of it is passed over

Only a newline (0x0A) ends a line. A UTF-8 byte order mark at the start of the file is passed over
(no range may begin within it).

Price: a block and one line in memory; a line longer than the limit is counted and not held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from typecase.store.sources.rows import RAW_BYTES, TOO_LONG, Fault
from typecase.store.sources.streams import Stream

BLOCK_BYTES = 4 << 20
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines, the first of which begins at byte `offset` of the file; only the last of a file may lack its newline."""

    data: bytes
    offset: int


def open_lines(path: str, start: int) -> Stream:
    """The stream that `read_lines` wants for a range that begins at `start`."""
    return Stream(path, start=max(0, start - 1))


def read_lines(stream: Stream, *, start: int = 0, stop: int | None = None, limit_bytes: int) -> Iterator[Lines | Fault]:
    """The lines that begin in [start, stop), and a fault (with row 0) in the place of a line that cannot be given:
    one of more than `limit_bytes` that does not fit into a block, and the one during which a damaged stream ended,
    which may be empty."""
    end: float = float("inf") if stop is None else stop
    data, base, _ = (_filled(stream, b""), 0, True) if start == 0 else next_line(stream, start - 1, end)
    if start == 0 and data.startswith(BOM):
        data, base = data[len(BOM) :], len(BOM)
    over = False
    while base < end and not over:
        reach = base + len(data)
        last = data.find(b"\n", max(0, int(end) - 1 - base)) if reach >= end else -1
        if last >= 0:
            yield Lines(data[: last + 1], base)
            return
        if last := data.rfind(b"\n") + 1:
            yield Lines(data[:last], base)
            data, base = data[last:], base + last
        elif len(data) > max(limit_bytes, RAW_BYTES):
            head, offset = data, base
            data, base, ended = next_line(stream, reach, float("inf"))
            over = not ended
            yield _fault(stream if over else None, offset, head, base - offset - ended, limit_bytes)
        else:
            more = _filled(stream, data)
            over = len(more) == len(data)
            data = more
            if over and stream.cut is not None:
                yield _fault(stream, base, data, len(data), limit_bytes)
            elif over and data:
                yield Lines(data, base)


def _filled(stream: Stream, data: bytes) -> bytes:
    """`data` and at least a block more, or all there is; a block holds a byte order mark."""
    chunks, size = [data], 0
    while size < max(BLOCK_BYTES, len(BOM)) and (chunk := stream.read()):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def next_line(stream: Stream, base: int, end: float) -> tuple[bytes, int, bool]:
    """What follows the next newline, its offset, and whether there is one before `end`; the stream stands at `base`."""
    while base < end and (chunk := stream.read()):
        if at := chunk.find(b"\n") + 1:
            return chunk[at:], base + at, True
        base += len(chunk)
    return b"", base, False


def _fault(stream: Stream | None, offset: int, head: bytes, size: int, limit_bytes: int) -> Fault:
    if stream is None or stream.cut is None:
        reason, detail = TOO_LONG, f"a line of {size} bytes, the limit is {limit_bytes}"
    else:
        reason, detail = stream.cut
    return Fault(0, offset, reason, detail, head[:RAW_BYTES], size)
