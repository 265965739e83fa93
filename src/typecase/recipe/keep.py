"""Keeping the marked rows of a part: what every stage that removes whole documents ends with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from typecase.store import shards
from typecase.store.documents import DOC_SCHEMA


def write_kept(part: Path, kept: NDArray[np.bool_], out: Path) -> tuple[int, int]:
    """Copies the documents of `part` where `kept`, bool (rows,), holds to `out`; returns (documents, bytes of text).

    Row groups are cut anew, so the bytes depend on the kept documents alone. Memory: two row groups.
    """
    text_bytes = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal text_bytes
        for group in _groups(part, kept):
            text_bytes += int(shards.lengths_of(group.column("text")).sum())
            yield group

    rows = shards.write_shard(out, counted(), DOC_SCHEMA)
    return rows, text_bytes


def _groups(part: Path, kept: NDArray[np.bool_]) -> Iterator[pa.Table]:
    held, start = DOC_SCHEMA.empty_table(), 0
    for table in shards.read_groups(part, DOC_SCHEMA.names):
        mask = kept[start : start + table.num_rows]
        start += table.num_rows
        if mask.any():
            held = pa.concat_tables([held, table.filter(pa.array(mask))])
            *whole, held = shards.cut_groups(held)
            yield from (group.combine_chunks() for group in whole)
    assert start == len(kept), f"{part} has {start} rows, {len(kept)} were marked"
    if held.num_rows:
        yield held.combine_chunks()
