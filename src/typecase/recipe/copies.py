"""Copies: how often each kept document counts, from the selection beside the documents.

    select   doc_id  kept  copies         copies_of   part 0   [1 2 2]      one number for each document of the part
               a     yes     1                        part 1   [1]
               b     yes     2
               c     no      0

A document store holds each document once. What is made of it later, tokens or a mix, takes a document `copies` times.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from typecase.errors import CorruptStore
from typecase.store.documents import open_documents
from typecase.store.shards import open_shard, read_columns


def copies_of(folder: Path) -> Iterator[NDArray[np.int32]]:
    """For every part of the documents in `folder`, in order: copies of each of its documents, int32 (documents,).

    All ones where no selection made the documents. Memory: one part. Raises CorruptStore where the selection beside
    them is of other documents.
    """
    for number in range(len(open_documents(folder).parts)):
        yield copies_in(folder, number)


def copies_in(folder: Path, number: int) -> NDArray[np.int32]:
    """Copies of each document of part `number`, int32 (documents,); see `copies_of`."""
    store = open_documents(folder)
    part = store.parts[number]
    rows = _rows(part)
    chosen = next((path for path in store.side_parts("selection") if path.name == part.name), None)
    if chosen is None or "copies" not in _names(chosen):
        return np.ones(rows, np.int32)
    table = read_columns(chosen, ["copies"])
    kept = table.column("copies").filter(pc.greater(table.column("copies"), 0))
    if len(kept) != rows:
        raise CorruptStore(f"{chosen} keeps {len(kept)} documents, {part} has {rows}: select them again")
    found: NDArray[np.int32] = kept.to_numpy().astype(np.int32)
    return found


def _rows(part: Path) -> int:
    file = open_shard(part)
    try:
        return int(file.metadata.num_rows)
    finally:
        file.close()


def _names(part: Path) -> list[str]:
    file = open_shard(part)
    try:
        return list(file.schema_arrow.names)
    finally:
        file.close()
