"""The survey of ingest: a split is read, its rows get their ids, and everything goes into sorted runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from typecase.core.document import id_from_key
from typecase.recipe.ingest_runs import DOCS, FAULTS, KEY_END, REMOVED, RunWriter, words_of
from typecase.store.shards import buffers_of
from typecase.store.sources.read import Reading, ids_of, read_split
from typecase.store.sources.rows import NOT_TEXT, Fault, Rows, Skipped
from typecase.store.sources.splits import Split

OUTSIDE = "outside the sample"


def spill_split(split: Split, reading: Reading, *, keep_below: int, scratch: Path) -> dict[str, Any]:
    """Reads `split` into runs in `scratch`; ids at or above `keep_below` (of KEY_END) are left out.

    Summary: `documents`, `text_bytes`, `size_bytes` (of all that was kept or quarantined), `rows` seen, `lines` that
    the split holds where it is a range of lines, `first` and `names` of its files, `files` in scratch.
    """
    spill = _Spill(split, keep_below, scratch)
    lines = 0
    for number, rows in read_split(split, reading):
        spill.add(number, rows)
        lines = rows.next_row
    files = [name for writer in (spill.docs, spill.faults, spill.removed) for name in writer.close()]
    return {
        "documents": spill.docs.num_rows,
        "text_bytes": spill.text_bytes,
        "size_bytes": spill.size_bytes,
        "rows": spill.docs.num_rows + spill.faults.num_rows + spill.removed.num_rows,
        "lines": lines if split.files[0].format == "jsonl" and len(split.files) == 1 else 0,
        "first": split.first,
        "names": [file.name for file in split.files],
        "sources": [file.source for file in split.files],
        "files": files,
    }


class _Spill:
    """The three kinds of rows of a split on their way into runs."""

    def __init__(self, split: Split, keep_below: int, scratch: Path) -> None:
        self._split, self._keep_below = split, keep_below
        self.docs = RunWriter(run_path(scratch, "docs", split.index), DOCS)
        self.faults = RunWriter(run_path(scratch, "faults", split.index), FAULTS)
        self.removed = RunWriter(run_path(scratch, "removed", split.index), REMOVED)
        self.text_bytes = self.size_bytes = 0

    def add(self, number: int, rows: Rows) -> None:
        name = self._split.files[number - self._split.first].name
        if len(rows):
            self._add_documents(number, rows, words_of(ids_of(rows, name)))
        if rows.faults:
            self.size_bytes += sum(len(fault.raw) for fault in rows.faults)
            self.faults.add(_fault_batch(rows.faults, number, name))
        if rows.skipped:
            self.removed.add(_skipped_batch(rows.skipped))

    def _add_documents(self, number: int, rows: Rows, words: np.ndarray) -> None:
        inside = None if self._keep_below == KEY_END else words[:, 0] < np.uint64(self._keep_below)
        columns: list[Any] = [
            words[:, 0].copy(),
            words[:, 1].copy(),
            np.full(len(rows), number, np.int32),
            rows.rows,
            rows.offsets,
            rows.text,
            pa.array(rows.sources, pa.string()) if rows.sources is not None else pa.nulls(len(rows), pa.string()),
            rows.meta,
        ]
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=DOCS)
        if inside is not None:
            self.removed.add(_outside_batch(words[~inside]))
            batch = batch.filter(pa.array(inside))
        text_bytes = _num_bytes(batch, "text")
        self.text_bytes += text_bytes
        self.size_bytes += text_bytes + _num_bytes(batch, "meta")
        self.docs.add(batch)


def run_path(scratch: Path, kind: str, split: int) -> Path:
    return scratch / f"{kind}-{split:05d}.arrow"


def _num_bytes(batch: pa.RecordBatch, name: str) -> int:
    _, ends = buffers_of(batch.column(name))
    return int(ends[-1] - ends[0])


def _fault_batch(faults: Sequence[Fault], number: int, name: str) -> pa.RecordBatch:
    places = [fault.row if fault.offset < 0 else fault.offset for fault in faults]
    spread = [xxhash.xxh3_64_intdigest(f"{name}\0{place}".encode()) for place in places]
    columns = [
        spread,
        [number] * len(faults),
        [fault.row for fault in faults],
        [fault.offset for fault in faults],
        [None if fault.key is None else id_from_key(fault.key) for fault in faults],
        [fault.reason for fault in faults],
        [fault.detail for fault in faults],
        [fault.raw_bytes for fault in faults],
        [fault.raw for fault in faults],
    ]
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, FAULTS, strict=True)], schema=FAULTS)


def _skipped_batch(skipped: Sequence[Skipped]) -> pa.RecordBatch:
    words = words_of([id_from_key(row.key) for row in skipped])
    details = [row.detail for row in skipped]
    return _removed_batch(words, NOT_TEXT, pa.array(details, pa.string()))


def _outside_batch(words: np.ndarray) -> pa.RecordBatch:
    return _removed_batch(words, OUTSIDE, pa.array([""] * len(words), pa.string()))


def _removed_batch(words: np.ndarray, reason: str, details: pa.Array) -> pa.RecordBatch:
    reasons = pa.array([reason] * len(words), pa.string())
    columns = [pa.array(words[:, 0].copy()), pa.array(words[:, 1].copy()), reasons, details]
    return pa.RecordBatch.from_arrays(columns, schema=REMOVED)
