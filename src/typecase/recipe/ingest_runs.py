"""Runs: the rows of a split on disk, each flush sorted by its key, so that any range of keys is one slice of each run.

    docs-00003.arrow       run 0: ids 00… – ff…     run 1: ids 00… – ff…     …
    part k reads             [--)                     [--)                     of every run of every split

It is the first half of an external sort by document id. Files are Arrow IPC, uncompressed: a slice is a memory map and
copies nothing. They lie in the scratch folder and are gone when the stage ends.

Price: scratch space of the size of the decompressed input; memory of one flush, twice over while it is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from typecase.recipe.ingest_wide import Wide

FLUSH_BYTES = 32 << 20
KEY_END = 1 << 64

DOCS = pa.schema(
    [
        ("high", pa.uint64()),
        ("low", pa.uint64()),
        ("file", pa.int32()),
        ("row", pa.int64()),
        ("offset", pa.int64()),
        ("text", pa.large_string()),
        ("source", pa.string()),
        ("meta", pa.large_string()),
    ]
)
"""A document; (high, low) is its id as two words. `row` counts from the start of the split."""

FAULTS = pa.schema(
    [
        ("spread", pa.uint64()),
        ("file", pa.int32()),
        ("row", pa.int64()),
        ("offset", pa.int64()),
        ("doc_id", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("raw_bytes", pa.int64()),
        ("raw", pa.large_binary()),
    ]
)
"""A row that is no document; `spread` is a hash of its place, which shares such rows out among the parts."""

REMOVED = pa.schema([("high", pa.uint64()), ("low", pa.uint64()), ("reason", pa.string()), ("detail", pa.string())])
"""A document that is left out."""


class RunWriter:
    """Collects batches of `schema` and writes them as sorted runs; the first column is the key. Absent until closed."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self.schema = path, schema
        self.num_rows = 0
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._writer: pa.RecordBatchFileWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._size = 0
        self._buffers: dict[str, np.ndarray] = {}  # fresh memory for every run would cost more than the copy into it

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._size += batch.nbytes
        self.num_rows += batch.num_rows
        if self._size >= FLUSH_BYTES:
            self._flush()

    def close(self) -> list[str]:
        """Finishes the file; its name, or nothing when there were no rows."""
        self._flush()
        if self._writer is None:
            return []
        self._writer.close()
        # The record of the survey holds the hash of this file, so a torn write is found without a sync here.
        self._temporary.replace(self.path)
        return [self.path.name]

    def _flush(self) -> None:
        if not self._batches:
            return
        columns = zip(*(batch.columns for batch in self._batches), strict=True)
        keys = np.concatenate([batch.column(0).to_numpy() for batch in self._batches])
        order = np.argsort(keys, kind="stable")
        ordered = [self._taken(name, pieces, order) for name, pieces in zip(self.schema.names, columns, strict=True)]
        self._batches, self._size = [], 0
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._temporary), self.schema)
        self._writer.write_batch(pa.RecordBatch.from_arrays(ordered, schema=self.schema))

    def _taken(self, name: str, pieces: Sequence[pa.Array], order: np.ndarray) -> pa.Array:
        kind = self.schema.field(name).type
        if kind not in (pa.large_string(), pa.large_binary()):
            return pa.concat_arrays(pieces).take(pa.array(order))
        wide = Wide.of(pieces)
        size = int(wide.lengths.sum())
        if name not in self._buffers or len(self._buffers[name]) < size:
            self._buffers[name] = np.empty(size + size // 4, np.uint8)
        return wide.take(order, kind, self._buffers[name])


def read_runs(path: Path, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """The rows of every run of `path` whose keys lie in [start, stop), as views of a memory map."""
    if not path.exists() or start == stop:
        return
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            keys = batch.column(0).to_numpy()
            low = int(np.searchsorted(keys, np.uint64(start), side="left"))
            high = int(np.searchsorted(keys, np.uint64(stop - 1), side="right"))
            if high > low:
                yield batch.slice(low, high - low)


def words_of(doc_ids: list[str]) -> np.ndarray:
    """Ids of 32 hexadecimal digits as uint64 (docs, 2), which sort as they do."""
    return np.frombuffer(bytes.fromhex("".join(doc_ids)), ">u8").astype(np.uint64).reshape(-1, 2)


def ids_of_words(high: np.ndarray, low: np.ndarray) -> pa.Array:
    """The inverse of `words_of`, as an Arrow string array."""
    digits = np.stack([high, low], axis=1).astype(">u8").tobytes().hex().encode()
    offsets = np.arange(0, 32 * len(high) + 1, 32, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(high), [None, pa.py_buffer(offsets), pa.py_buffer(digits)])
