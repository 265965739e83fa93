"""Which lines and paragraphs are frequent in a corpus: counted part by part, merged by hash range in bounded memory.

    survey   part k   -> scratch/lines-0000k.{hash,docs}.npy     sorted hashes of folded lines, documents that have each
    decide   all      -> scratch/frequent.npy                    hashes that enough documents have, sorted

A line or paragraph counts once a document, so the counts are sums over any division of the corpus into parts. The two share one
table: a paragraph has several lines or more than MAX_BYTES, so no line is one. Price: 12 bytes of scratch for every different
line and paragraph of a part; the merge holds MERGE_ENTRIES of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from typecase.core.lines import I64, U8, U32, U64, contains, document_counts, line_hashes, line_spans, merge_counts
from typecase.core.paragraphs import paragraph_spans
from typecase.core.rules.frequent import LINE, PARAGRAPH
from typecase.errors import CorruptStore
from typecase.store import atomic, shards

MIN_BYTES: Final = 4
MAX_BYTES: Final = 400
"""Bytes of a folded line that is counted; shorter ones say nothing, longer ones are paragraphs."""

MAX_PARAGRAPH_BYTES: Final = 8000
"""Bytes of a folded paragraph that is counted; what is longer is a text, and its copies are for dedup to find."""

MIN_CORPUS: Final = 10
"""Below so many documents nothing is frequent."""

MERGE_ENTRIES: Final = 1 << 22
FREQUENT: Final = "frequent.npy"

Counts = tuple[U64, U32]


def count_lines(part: Path) -> tuple[Counts, int, int]:
    """In how many documents of `part` each line and paragraph occurs, and the documents and bytes of text read."""
    waiting: list[Counts] = []
    num_waiting = documents = text_bytes = 0
    for table in shards.read_groups(part, ["text"]):
        for chunk in table.column("text").chunks:
            values, offsets = shards.buffers_of(chunk)
            hashed = _hashes(values, offsets)
            waiting += [document_counts(hashed.lines, hashed.first), document_counts(hashed.paragraphs, hashed.paragraph_first)]
            num_waiting += len(waiting[-1][0]) + len(waiting[-2][0])
            documents += len(chunk)
            text_bytes += int(offsets[-1] - offsets[0])
        if num_waiting > MERGE_ENTRIES:
            waiting = [merge_counts(waiting)]
            num_waiting = len(waiting[0][0])
    return merge_counts(waiting), documents, text_bytes


def save_counts(counts: Counts, scratch: Path, index: int) -> list[str]:
    """Writes the counts of part `index`; returns the names of the files in `scratch`."""
    names = [f"lines-{index:05d}.hash.npy", f"lines-{index:05d}.docs.npy"]
    save_array(scratch / names[0], counts[0])
    save_array(scratch / names[1], counts[1])
    return names


def merge_frequent(folder: Path, files: Sequence[Sequence[str]], *, at_least: int, entries: int = MERGE_ENTRIES) -> Counts:
    """Lines that `at_least` documents have, over the counts of all parts in `folder`; about `entries` are held at once."""
    parts = [(np.load(folder / h, mmap_mode="r"), np.load(folder / d, mmap_mode="r")) for h, d in files]
    total = sum(len(hashes) for hashes, _ in parts)
    num_ranges = max(1, -(-total // entries))
    found: list[Counts] = []
    for k in range(num_ranges):
        low, high = (k << 64) // num_ranges, ((k + 1) << 64) // num_ranges
        slices = []
        for hashes, docs in parts:
            a = int(np.searchsorted(hashes, np.uint64(low)))
            b = len(hashes) if high == 1 << 64 else int(np.searchsorted(hashes, np.uint64(high)))
            slices.append((np.asarray(hashes[a:b]), np.asarray(docs[a:b])))
        keys, counts = merge_counts(slices)
        found.append((keys[counts >= at_least], counts[counts >= at_least]))
    return np.concatenate([k for k, _ in found]), np.concatenate([c for _, c in found])


def least_documents(num_documents: int, *, least: int, share: float) -> int:
    """How many documents must have a line: `least`, or `share` of all where that is more."""
    return max(least, int(np.ceil(num_documents * share)))


def load_frequent(scratch: Path, digest: str) -> U64:
    """The sorted hashes that `decide` wrote. Raises CorruptStore when they are not those of the decision."""
    path = scratch / FREQUENT
    if atomic.content_hash(path) != digest:
        raise CorruptStore(f"{path} is not what the decision names; remove {scratch.parent} and run refine again")
    return np.asarray(np.load(path), np.uint64)


def save_array(path: Path, array: U64 | U32) -> None:
    """Writes `array` as .npy, all or nothing."""
    with atomic.atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)


def frequent_flags(chunk: pa.Array, frequent: U64) -> list[list[int] | None]:
    """For each text of `chunk` how each of its lines is frequent (bits LINE and PARAGRAPH); None where none is."""
    values, offsets = shards.buffers_of(chunk)
    hashed = _hashes(values, offsets)
    flags = contains(frequent, hashed.lines).astype(np.uint8) * LINE
    for at in np.flatnonzero(contains(frequent, hashed.paragraphs)).tolist():
        flags[hashed.first_line[at] : hashed.last_line[at] + 1] |= PARAGRAPH
    first = hashed.first
    some = np.add.reduceat(flags, first[:-1], dtype=np.int64) > 0 if len(flags) else np.zeros(0, np.bool_)
    return [flags[first[i] : first[i + 1]].tolist() if some[i] else None for i in range(len(chunk))]


@dataclass(frozen=True, slots=True)
class _Hashed:
    """Hashes of the lines and paragraphs of several texts: those of text i are [first[i], first[i + 1]) of each."""

    lines: U64
    first: I64
    paragraphs: U64
    paragraph_first: I64
    first_line: I64
    last_line: I64


def _hashes(values: U8, offsets: I64) -> _Hashed:
    first, starts, stops = line_spans(values, offsets)
    lines = line_hashes(values, starts, stops, min_bytes=MIN_BYTES, max_bytes=MAX_BYTES)
    counted, first_line, last_line = paragraph_spans(values, first, starts, stops, longer_than=MAX_BYTES)
    low, high = starts[first_line], stops[last_line]
    paragraphs = line_hashes(values, low, high, min_bytes=MIN_BYTES, max_bytes=MAX_PARAGRAPH_BYTES)
    return _Hashed(lines, first, paragraphs, counted, first_line, last_line)
