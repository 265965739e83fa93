"""Rows and faults: what every reader gives.

A reader yields `Rows`, a block of a few megabytes: the texts that became documents, in Arrow buffers, and beside them
the faults, one for every row that could not. A row that a reader saw is in one or the other; nothing else exists.

    JSONL block   {"text": "a", "n": 1}     ->  text "a", meta {"n":1}, row 0, offset 0
                  {"text": "", "n": 2}      ->  Fault(row 1, offset 21, "empty text")
                                            ->  (a blank line is not a row)

Price: a Python object per row only where the format needs one; texts are joined once and never copied again here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

RAW_BYTES = 4096
"""A fault keeps this much of the row that it stands for."""

EMPTY_TEXT = "empty text"
MISSING_TEXT = "missing text"
TEXT_NOT_STRING = "text not a string"
TOO_LONG = "too long"
BAD_UTF8 = "bad UTF-8"
NUL_BYTE = "NUL byte"
BAD_JSON = "bad JSON"
LONE_SURROGATE = "lone surrogate"
WRONG_FIELDS = "wrong number of fields"
UNCLOSED_QUOTE = "unclosed quote"
MISSING_ID = "missing id"
BAD_ID = "bad id"
DUPLICATE_ID = "duplicate id"
NO_HTML_TEXT = "no text in HTML"
BAD_HTML = "undecodable HTML"
BAD_RECORD = "bad WARC record"
TRUNCATED_RECORD = "truncated record"
TRUNCATED = "truncated file"
DAMAGED = "damaged file"
UNREADABLE = "unreadable file"
UNKNOWN_FORMAT = "unknown format"

NOT_TEXT = "not text"
"""Why a sound record of a WARC is left out: it holds an image, a script, a redirect of another type …"""


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that is no document. `row` and `offset` as in Place; `raw` is its first RAW_BYTES, `raw_bytes` its length.

    `file` is filled in where faults of several files come together.
    """

    row: int
    offset: int
    reason: str
    detail: str = ""
    raw: bytes = b""
    raw_bytes: int = 0
    key: str | None = None
    file: str = ""

    @classmethod
    def of(cls, row: int, offset: int, reason: str, detail: str, raw: bytes, *, key: str | None = None) -> Fault:
        return cls(row, offset, reason, detail, bytes(raw[:RAW_BYTES]), len(raw), key)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A sound record that is not text: `key` names it, `detail` says what it is."""

    row: int
    offset: int
    key: str
    detail: str


@dataclass(frozen=True, slots=True)
class Rows:
    """A block of rows of one file.

    text, meta     large_string (rows,); meta is a JSON object
    rows, offsets  int64 (rows,): the Place of each; offset -1 where the format has none
    keys           the name that the source gives each row; None, or None for a row, where it gives none
    sources        likewise
    next_row       the row number at which the next block of this file begins
    """

    text: pa.Array
    meta: pa.Array
    rows: np.ndarray
    offsets: np.ndarray
    next_row: int
    keys: Sequence[str | None] | None = None
    sources: Sequence[str | None] | None = None
    faults: Sequence[Fault] = ()
    skipped: Sequence[Skipped] = ()

    def __len__(self) -> int:
        return len(self.rows)


def strings_of(values: Sequence[bytes]) -> pa.Array:
    """UTF-8 byte strings as one large_string array; they are trusted to be UTF-8."""
    return pa.array(values, pa.large_binary()).view(pa.large_string())


def no_meta(num_rows: int) -> pa.Array:
    """`{}` for every row."""
    offsets = np.arange(0, 2 * num_rows + 1, 2, dtype=np.int64)
    return pa.Array.from_buffers(pa.large_string(), num_rows, [None, pa.py_buffer(offsets), pa.py_buffer(b"{}" * num_rows)])


def text_fault(text: bytes, limit_bytes: int) -> tuple[str, str] | None:
    """Why `text`, which is UTF-8, cannot be a document: (reason, detail); None when it can."""
    if not text:
        return EMPTY_TEXT, ""
    if len(text) > limit_bytes:
        return TOO_LONG, f"{len(text)} bytes of text, the limit is {limit_bytes}"
    if (at := text.find(0)) >= 0:
        return NUL_BYTE, f"U+0000 at byte {at} of the text"
    return None


@dataclass(slots=True)
class RowsBuilder:
    """Collects rows one by one, for formats and lines that cannot be read in bulk."""

    limit_bytes: int
    texts: list[bytes] = field(default_factory=list)
    metas: list[bytes] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    size_bytes: int = 0

    def add(
        self,
        row: int,
        offset: int,
        text: bytes,
        *,
        raw: bytes,
        meta: bytes = b"{}",
        key: str | None = None,
        source: str | None = None,
    ) -> None:
        """A row whose text is valid UTF-8; it becomes a fault when the text cannot be a document."""
        if (wrong := text_fault(text, self.limit_bytes)) is not None:
            self.fault(Fault.of(row, offset, *wrong, raw, key=key))
            return
        self.texts.append(text)
        self.metas.append(meta)
        self.places.append((row, offset))
        self.keys.append(key)
        self.sources.append(source)
        self.size_bytes += len(text) + len(meta)

    def fault(self, fault: Fault) -> None:
        self.faults.append(fault)
        self.size_bytes += len(fault.raw)

    def skip(self, skipped: Skipped) -> None:
        self.skipped.append(skipped)

    def finish(self, next_row: int) -> Rows:
        """The rows so far; the builder is done."""
        places = np.array(self.places, np.int64).reshape(len(self.places), 2)
        return Rows(
            text=strings_of(self.texts),
            meta=strings_of(self.metas),
            rows=places[:, 0].copy(),
            offsets=places[:, 1].copy(),
            next_row=next_row,
            keys=self.keys if any(k is not None for k in self.keys) else None,
            sources=self.sources if any(s is not None for s in self.sources) else None,
            faults=self.faults,
            skipped=self.skipped,
        )
