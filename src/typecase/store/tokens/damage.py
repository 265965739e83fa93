"""What can be told wrong of a token set from its `.idx` and the size of its `.bin`, in one pass over the index.

    error      a reader would fail or return other tokens: opening refuses
    warning    legal, yet some program reads it wrongly
    note       worth knowing

The checks are those that cost nothing beyond the index: lengths and pointers within the `.bin`, a `.bin` that ends where
the last sequence does, a document index that rises from 0 to N. Price: about 20 ns a sequence, memory one chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from typecase.store.tokens.idx import Layout

_CHUNK = 1 << 18


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, and the first place where: `document` by number, `byte` in the `.bin`."""

    code: str
    severity: Severity
    message: str
    document: int | None = None
    byte: int | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """Facts of one pass over the index.

    `contiguous`: every sequence begins where the one before ends, the first at byte 0, and the last ends the `.bin`.
    `one_to_one`: document d is sequence d. `end_byte`: where the last readable sequence, by place, ends.
    """

    num_tokens: int
    num_empty: int
    longest: int
    contiguous: bool
    one_to_one: bool
    end_byte: int
    findings: tuple[Finding, ...]

    @property
    def first_error(self) -> Finding | None:
        return next((f for f in self.findings if f.severity is Severity.ERROR), None)


@dataclass(slots=True)
class _Tally:
    """How often something was seen, and where first."""

    count: int = 0
    sequence: int = -1
    length: int = 0
    pointer: int = 0

    def add(
        self,
        mask: npt.NDArray[np.bool_],
        first: int,
        lengths: npt.NDArray[np.int64],
        pointers: npt.NDArray[np.int64],
    ) -> None:
        seen = int(np.count_nonzero(mask))
        if seen and not self.count:
            k = int(np.argmax(mask))
            self.sequence, self.length, self.pointer = first + k, int(lengths[k]), int(pointers[k])
        self.count += seen


def chunk_of(layout: Layout, start: int, stop: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lengths and pointers of sequences [start, stop), aligned int64 copies."""
    return layout.lengths[start:stop].astype(np.int64), layout.pointers[start:stop].astype(np.int64)


def is_readable(
    lengths: npt.NDArray[np.int64], pointers: npt.NDArray[np.int64], *, item_bytes: int, bin_bytes: int
) -> npt.NDArray[np.bool_]:
    """Which sequences lie within the `.bin`; written so that no number in a damaged index can overflow."""
    room = bin_bytes - np.clip(pointers, 0, bin_bytes)
    return (lengths >= 0) & (pointers >= 0) & (pointers <= bin_bytes) & (lengths <= room // item_bytes)


def broken_documents(layout: Layout, *, bin_bytes: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which documents hold a sequence of negative length, and which of the others one outside the `.bin`; (documents,) each.

    The document index must be sound. Takes some 30 bytes a sequence.
    """
    lengths, pointers = chunk_of(layout, 0, layout.num_sequences)
    readable = is_readable(lengths, pointers, item_bytes=layout.dtype.itemsize, bin_bytes=bin_bytes)
    bounds = np.arange(len(lengths) + 1) if layout.lacks_documents else layout.document_index.astype(np.int64)

    def any_in_document(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        return np.diff(np.concatenate((np.zeros(1, np.int64), np.cumsum(flags)))[bounds]) > 0

    negative = any_in_document(lengths < 0)
    return negative, any_in_document(~readable) & ~negative


def survey(layout: Layout, *, bin_bytes: int) -> Survey:
    """Looks at every sequence and document of `layout` for a `.bin` of `bin_bytes`; damage is reported, never raised."""
    item_bytes = layout.dtype.itemsize
    negative, outside, skipped, odd = _Tally(), _Tally(), _Tally(), _Tally()
    num_tokens = num_empty = longest = end_byte = follows = 0
    for start in range(0, layout.num_sequences, _CHUNK):
        lengths, pointers = chunk_of(layout, start, start + _CHUNK)
        readable = is_readable(lengths, pointers, item_bytes=item_bytes, bin_bytes=bin_bytes)
        sizes = np.where(readable, lengths * item_bytes, 0)
        ends = np.where(readable, pointers, 0) + sizes
        negative.add(lengths < 0, start, lengths, pointers)
        outside.add(~readable & (lengths >= 0), start, lengths, pointers)
        skipped.add(pointers != np.concatenate(([follows], ends[:-1])), start, lengths, pointers)
        odd.add(pointers % item_bytes != 0, start, lengths, pointers)
        num_tokens += int(np.where(readable, lengths, 0).sum())
        num_empty += int(np.count_nonzero(lengths == 0))
        longest, end_byte, follows = max(longest, int(lengths.max())), max(end_byte, int(ends.max())), int(ends[-1])
    findings = [
        *_errors(layout, negative, outside, bin_bytes),
        *_document_index(layout),
        *_trailing(layout, end_byte, bin_bytes, broken=bool(negative.count or outside.count)),
        *_warnings(layout, skipped, odd, broken=bool(negative.count or outside.count)),
    ]
    return Survey(
        num_tokens=num_tokens,
        num_empty=num_empty,
        longest=longest,
        contiguous=not (negative.count or outside.count or skipped.count) and end_byte == bin_bytes,
        one_to_one=layout.lacks_documents or _is_counting(layout.document_index, layout.num_sequences),
        end_byte=end_byte,
        findings=tuple(findings),
    )


def _is_counting(document_index: npt.NDArray[np.int64], num_sequences: int) -> bool:
    """Whether the document index is 0, 1, …, N."""
    if len(document_index) != num_sequences + 1:
        return False
    for start in range(0, len(document_index), _CHUNK):
        chunk = document_index[start : start + _CHUNK]
        if not np.array_equal(chunk, np.arange(start, start + len(chunk))):
            return False
    return True


def _document_at(layout: Layout, sequence: int) -> int | None:
    """The document of `sequence`, None where the document index cannot say."""
    if layout.lacks_documents:
        return sequence
    doc = int(np.searchsorted(layout.document_index, sequence, side="right")) - 1
    return doc if 0 <= doc < layout.num_documents else None


def _errors(layout: Layout, negative: _Tally, outside: _Tally, bin_bytes: int) -> list[Finding]:
    found = []
    if negative.count:
        found.append(
            Finding(
                "negative-length",
                Severity.ERROR,
                f"sequence {negative.sequence} has {negative.length} tokens ({negative.count} such sequences): the .idx is"
                " damaged",
                _document_at(layout, negative.sequence),
                negative.pointer,
            )
        )
    if outside.count:
        size = outside.length * layout.dtype.itemsize
        found.append(
            Finding(
                "outside-bin",
                Severity.ERROR,
                f"sequence {outside.sequence} needs bytes [{outside.pointer}, {outside.pointer + size}) of a .bin of"
                f" {bin_bytes} ({outside.count} such sequences): the .bin was cut, or the .idx belongs to another .bin",
                _document_at(layout, outside.sequence),
                max(outside.pointer, 0) if outside.pointer < bin_bytes else bin_bytes,
            )
        )
    return sorted(found, key=lambda f: (f.document is None, f.document))


def _document_index(layout: Layout) -> list[Finding]:
    index, num_sequences = layout.document_index, layout.num_sequences
    if not len(index):
        return [Finding("document-index", Severity.ERROR, "there is no document index, not even its first entry 0")]
    if int(index[0]) != 0:
        return [Finding("document-index", Severity.ERROR, f"the document index begins with {index[0]}, not 0", 0)]
    if layout.lacks_documents:
        return [
            Finding(
                "no-documents",
                Severity.WARNING,
                f"merged without a document index: the {num_sequences} sequences count as documents; Megatron-Core refuses the"
                " set, `typecase doctor --repair` writes one that it reads",
            )
        ]
    for start in range(0, len(index) - 1, _CHUNK):
        chunk = index[start : start + _CHUNK + 1].astype(np.int64)
        falls = chunk[1:] < chunk[:-1]
        if falls.any():
            doc = start + int(np.argmax(falls))
            return [
                Finding(
                    "document-index",
                    Severity.ERROR,
                    f"the document index falls from {index[doc]} to {index[doc + 1]} after document {doc}",
                    doc,
                )
            ]
    if int(index[-1]) != num_sequences:
        return [
            Finding(
                "document-index",
                Severity.ERROR,
                f"the document index ends with {index[-1]}, but there are {num_sequences} sequences",
                len(index) - 2,
            )
        ]
    return []


def _trailing(layout: Layout, end_byte: int, bin_bytes: int, *, broken: bool) -> list[Finding]:
    if broken or end_byte == bin_bytes:
        return []
    return [
        Finding(
            "trailing-bytes",
            Severity.ERROR,
            f"the sequences end at byte {end_byte}, but the .bin has {bin_bytes} bytes: the .idx belongs to another .bin, or a"
            f" writer died; the last {bin_bytes - end_byte} bytes are in no document",
            layout.num_documents or None,
            end_byte,
        )
    ]


def _warnings(layout: Layout, skipped: _Tally, odd: _Tally, *, broken: bool) -> list[Finding]:
    found = []
    if skipped.count and not broken:
        found.append(
            Finding(
                "not-contiguous",
                Severity.WARNING,
                f"{skipped.count} sequences do not begin where the one before ends (first: sequence {skipped.sequence} at byte"
                f" {skipped.pointer}): training reads this well, programs that take the .bin as one stream do not",
                _document_at(layout, skipped.sequence),
                skipped.pointer,
            )
        )
    if odd.count:
        found.append(
            Finding(
                "unaligned",
                Severity.WARNING,
                f"{odd.count} sequences begin between two items of {layout.dtype.itemsize} bytes (first: sequence"
                f" {odd.sequence}): readers that map the .bin as an array read other tokens",
                _document_at(layout, odd.sequence),
                odd.pointer,
            )
        )
    return found
