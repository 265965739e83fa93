"""Texts of a few documents of a large store: only the row groups that hold them are read.

    beginnings(parts, ids, 160)   ->   {doc_id: its first 160 characters}

Which part and row group holds an id is known from the statistics of the files, read once. Price: one row group, some 10 ms, for
each that holds an id; a page in the order of the store is one or two.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from typecase.store import shards


@dataclass(frozen=True, slots=True)
class _Groups:
    """The first id of every row group of some parts, rising, and where each is."""

    firsts: tuple[str, ...]
    places: tuple[tuple[Path, int], ...]


def beginnings(parts: Sequence[Path], ids: Sequence[str], chars: int) -> dict[str, str]:
    """The first characters of the documents `ids` of a store with these parts."""
    found: dict[str, str] = {}
    for table in _tables(parts, ids):
        cut = pc.utf8_slice_codeunits(table.column("text"), 0, chars)
        found.update(zip(table.column("doc_id").to_pylist(), cut.to_pylist(), strict=True))
    return found


def _tables(parts: Sequence[Path], ids: Sequence[str]) -> list[pa.Table]:
    groups = _groups(tuple((p, p.stat().st_mtime_ns, p.stat().st_size) for p in parts))
    wanted: dict[tuple[Path, int], list[str]] = defaultdict(list)
    for doc_id in ids:
        at = bisect_right(groups.firsts, doc_id) - 1
        if at >= 0:
            wanted[groups.places[at]].append(doc_id)
    found = []
    for (path, group), own in wanted.items():
        file = shards.open_shard(path)
        try:
            table = file.read_row_group(group, columns=["doc_id", "text"])
        finally:
            file.close()
        found.append(table.filter(pc.is_in(table.column("doc_id"), value_set=pa.array(own))))
    return found


@functools.lru_cache(maxsize=16)
def _groups(parts: tuple[tuple[Path, int, int], ...]) -> _Groups:
    firsts: list[str] = []
    places: list[tuple[Path, int]] = []
    for path, _, _ in parts:
        file = shards.open_shard(path)
        try:
            position = file.schema_arrow.names.index("doc_id")
            for group in range(file.num_row_groups):
                statistics = file.metadata.row_group(group).column(position).statistics
                if statistics is not None and statistics.has_min_max:
                    first = statistics.min
                else:
                    first = file.read_row_group(group, columns=["doc_id"]).column("doc_id")[0].as_py()
                firsts.append(first)
                places.append((path, group))
        finally:
            file.close()
    order = sorted(range(len(firsts)), key=firsts.__getitem__)
    return _Groups(tuple(firsts[k] for k in order), tuple(places[k] for k in order))
