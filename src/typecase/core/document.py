"""Document, Span, Place: what everything else points at.

A document keeps its id for life: through refining, selecting and tokenising, and when the same file is read again.

    id = blake2b-128("k" + key)                     where the source names its documents
    id = blake2b-128("p" + file, place, text)       where it does not: the content and where it stood

The first form survives a move of the row, the second does not; that is its price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from typecase.core.display import box, facts, plain

ID_BYTES = 16
"""A document id is 128 bits, written as 32 lower-case hexadecimal digits."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open interval [start, stop); the unit (characters, tokens, bytes, lines) is said by its owner."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"a span needs 0 <= start <= stop, got [{self.start}, {self.stop})")

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document stood in its source.

    `file` is relative to the folder or glob that was read, with forward slashes. `row` counts records from zero (lines
    of JSONL, rows of a table, records of a WARC). `offset` is the byte at which the record begins in the decompressed
    file, -1 where the format has none (Parquet).
    """

    file: str
    row: int
    offset: int = -1

    def __str__(self) -> str:
        return f"{self.file}:{self.row}" + (f" (byte {self.offset})" if self.offset >= 0 else "")


@dataclass(frozen=True, slots=True)
class Document:
    """A text, who it is, where it came from, and every other field of its source row."""

    id: str
    text: str
    source: str
    place: Place
    meta: Mapping[str, object] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        known = {"source": self.source, "file": self.place.file, "characters": len(self.text), **self.meta}
        return facts(f"document {self.id}", known) + box(plain(self.text))


def id_from_key(key: str) -> str:
    """The id of a document that its source names `key`: 32 hexadecimal digits."""
    return blake2b(b"k" + key.encode("utf-8", "surrogatepass"), digest_size=ID_BYTES).hexdigest()


def id_from_place(file: str, place: int, text: bytes) -> str:
    """The id of an unnamed document: its UTF-8 text at `place` (byte offset, or row where there is none) of `file`."""
    head = f"p{file}\0{place}\0".encode("utf-8", "surrogatepass")
    return blake2b(head + text, digest_size=ID_BYTES).hexdigest()
