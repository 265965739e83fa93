"""What can still be read of a damaged `.idx`: the arrays that are there, and proofs instead of guesses for the rest.

    counts of the header garbled    N is solved from the size of the file, and taken only if the pointers prove it
    bytes after the end             ignored, if the sequences before them follow each other
    file cut                        the lengths that are left; pointers by running sum, if those that are left agree
    document index impossible       every sequence becomes a document

Where the header itself is gone, or what is left contradicts itself, nothing is told: the tokens must be made again from
their text. Price: a few int64 arrays over the sequences in memory.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from typecase.errors import CorruptStore
from typecase.store.tokens.idx import (
    HEADER_BYTES,
    MAGIC,
    IndexHeader,
    Layout,
    map_file,
    parse_header,
    read_layout,
    resolve_dtype,
)
from typecase.store.tokens.pair import TokenPair


@dataclass(frozen=True, slots=True, eq=False)
class Salvage:
    """A layout whose document index can be trusted, how many documents it is known to lack, and what was done."""

    layout: Layout
    num_missing: int = 0
    notes: tuple[str, ...] = ()


def salvage(pair: TokenPair) -> Salvage:
    """Reads as much of the index of `pair` as holds. Raises CorruptStore when nothing does."""
    bin_bytes = pair.bin.stat().st_size
    try:
        return _with_documents(Salvage(read_layout(pair.idx, bin_bytes=bin_bytes)))
    except CorruptStore as error:
        data = map_file(pair.idx)
        if data is None or len(data) < HEADER_BYTES or data[: len(MAGIC)] != MAGIC:
            raise
        empty = data[:18] + bytes(16)
        parse_header(empty, idx_bytes=len(empty), where=str(pair.idx))  # raises for another format, version or dtype
        found = _solved(data, bin_bytes) or _overlong(data, bin_bytes) or _cut(data, bin_bytes)
        if found is None:
            raise CorruptStore(f"{error}; what is left of it contradicts itself: make the set again from its text") from None
        return _with_documents(found)


def _counts(data: mmap.mmap) -> tuple[int, int]:
    return int.from_bytes(data[18:26], "little"), int.from_bytes(data[26:34], "little")


def _view(data: mmap.mmap, dtype: str, count: int, offset: int) -> npt.NDArray[np.int64]:
    return np.frombuffer(data, dtype, count, offset) if count else np.zeros(0, dtype)


def _whole(data: mmap.mmap, n: int, d: int, bin_bytes: int, *, multimodal: bool) -> Layout | None:
    """The layout if the file holds n sequences and d document entries; None when no dtype fits."""
    lengths = _view(data, "<i4", n, HEADER_BYTES)
    try:
        dtype = resolve_dtype(data[17], lengths, bin_bytes=bin_bytes, where="")
    except CorruptStore:
        return None
    after = HEADER_BYTES + 12 * n
    return Layout(
        header=IndexHeader("MMIDIDX", data[17], n, d, multimodal),
        dtype=dtype,
        lengths=lengths,
        pointers=_view(data, "<i8", n, HEADER_BYTES + 4 * n),
        document_index=_view(data, "<i8", d, after),
        modes=np.frombuffer(data, "|i1", n, after + 8 * d) if multimodal else None,
    )


def _ends(layout: Layout) -> npt.NDArray[np.int64]:
    """Where each sequence ends if all follow each other from byte 0 on, with a 0 before."""
    sizes = layout.lengths.astype(np.int64) * layout.dtype.itemsize
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def _solved(data: mmap.mmap, bin_bytes: int) -> Salvage | None:
    """One document a sequence takes 20 bytes, 21 with a mode: N follows from the size, and the pointers must prove it."""
    for width in (20, 21):
        n, rest = divmod(len(data) - HEADER_BYTES - 8, width)
        layout = _whole(data, n, n + 1, bin_bytes, multimodal=width == 21) if n > 0 and not rest else None
        if layout is None or int(layout.lengths.min()) < 0:
            continue
        ends = _ends(layout)
        contiguous = np.array_equal(layout.pointers, ends[:-1]) and int(ends[-1]) == bin_bytes
        if contiguous and np.array_equal(layout.document_index, np.arange(n + 1)):
            return Salvage(layout, 0, (f"the counts in the header are wrong: the file holds {n} sequences",))
    return None


def _overlong(data: mmap.mmap, bin_bytes: int) -> Salvage | None:
    """The file without the foreign bytes at its end, if the sequences that are left follow each other."""
    n, d = _counts(data)
    size = HEADER_BYTES + 12 * n + 8 * d
    layout = _whole(data, n, d, bin_bytes, multimodal=False) if len(data) > size else None
    if layout is None or not np.array_equal(layout.pointers, _ends(layout)[:-1]):
        return None
    return Salvage(layout, 0, (f"{len(data) - size} foreign bytes at the end of the .idx were ignored",))


def _cut(data: mmap.mmap, bin_bytes: int) -> Salvage | None:
    """The sequences whose lengths are left, with every document that is known to be among them."""
    n, d = _counts(data)
    there = min(n, (len(data) - HEADER_BYTES) // 4)
    lengths = _view(data, "<i4", there, HEADER_BYTES)
    if there and int(lengths.min()) < 0:
        return None
    try:
        dtype = resolve_dtype(data[17], lengths, bin_bytes=bin_bytes, where="")
    except CorruptStore:
        return None
    header = IndexHeader("MMIDIDX", data[17], there, there + 1)
    layout = Layout(header, dtype, lengths, np.zeros(0, np.int64), np.arange(there + 1), None)
    ends = _ends(layout)
    after = HEADER_BYTES + 4 * n
    left = _view(data, "<i8", max(0, min(n, (len(data) - after) // 8)), after)
    if not np.array_equal(left, ends[: len(left)]) or int(ends[-1]) > bin_bytes:
        return None
    layout = replace(layout, pointers=ends[:-1])
    notes = (f"the .idx is cut: {there} of {n} lengths and {len(left)} of {n} pointers are left",)
    entries = _view(data, "<i8", max(0, min(d, (len(data) - after - 8 * n) // 8)), after + 8 * n)
    if len(entries) > 1 and d != n + 1:
        return Salvage(replace(layout, document_index=entries), d - len(entries), notes)
    return Salvage(layout, n - there, notes)


def _with_documents(found: Salvage) -> Salvage:
    """Gives every sequence to a document, one each where the document index is missing or impossible."""
    n, index = found.layout.num_sequences, found.layout.document_index
    rises = bool(len(index)) and index[0] == 0 and not np.any(index[1:] < index[:-1])
    if rises and (index[-1] == n or (found.num_missing and index[-1] <= n)):
        return found
    what = "there is no document index" if found.layout.lacks_documents else "the document index is impossible"
    notes = (*found.notes, f"{what}: each of the {n} sequences became a document")
    return Salvage(replace(found.layout, document_index=np.arange(n + 1)), found.num_missing, notes)
