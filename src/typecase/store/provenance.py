"""Provenance: document of a token set -> the document, file, row and bytes that it was made from.

A Parquet table with one row a document, in the order of the set, in row groups of a few thousand rows: rows of a few
documents are read without the rest. Token sets of other makers have none; that is said, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.errors import NotFound
from typecase.store import shards

NAME = "provenance.parquet"

PROVENANCE_SCHEMA = pa.schema(
    [
        ("doc", pa.int64()),
        ("doc_id", pa.string()),
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("offset", pa.int64()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("tokens", pa.int64()),
    ]
)
"""`doc` numbers the documents of the token set; [start, stop) is the span of the document's text, in UTF-8 bytes."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """An opened provenance table."""

    path: Path

    def rows(self, docs: npt.NDArray[np.int64]) -> pa.Table:
        """The rows of the documents `docs` (any order, repeats allowed), in that order; only their row groups are read."""
        file = shards.open_shard(self.path, PROVENANCE_SCHEMA)
        try:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            starts = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
            groups = np.unique(np.searchsorted(starts, docs, side="right") - 1)
            if not len(docs):
                return PROVENANCE_SCHEMA.empty_table()
            table = file.read_row_groups(groups.tolist())
        finally:
            file.close()
        return table.take(pc.index_in(pa.array(docs), value_set=table.column("doc")))

    def find(self, doc_id: str) -> npt.NDArray[np.int64]:
        """The numbers of the document `doc_id`, or of the only one whose id begins with it: several where the set holds
        copies. Raises NotFound."""
        first = 0
        found: list[int] = []
        ids: set[str] = set()
        for table in shards.read_groups(self.path, ["doc_id"]):
            hits = pc.starts_with(table.column("doc_id"), doc_id.lower())
            found += (first + np.flatnonzero(hits.to_numpy(zero_copy_only=False))).tolist()
            ids.update(table.column("doc_id").filter(hits).to_pylist())
            first += table.num_rows
        if len(ids) == 1:
            return np.array(found, np.int64)
        if ids:
            raise NotFound(f"{doc_id!r} fits {len(ids)} documents of {self.path.parent}; give more digits")
        raise NotFound(
            f"no document {doc_id!r} in {self.path.parent} ({first} documents); it may have been removed: typecase why"
        )


def open_provenance(folder: Path) -> Provenance | None:
    """The provenance table in `folder`, None when there is none."""
    path = folder / NAME
    return Provenance(path) if path.is_file() else None
