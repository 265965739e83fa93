"""The work of ingest: one range of ids, gathered from all runs, sorted, and written as a part with its side tables.

Of several documents with one id, the first by file and row stays; the others are quarantined with both places.

Price: texts are copied once, from memory maps into the row group being written; in memory lie the narrow columns of a
part and its quarantine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.balance import Balance
from typecase.core.document import Place
from typecase.recipe.ingest_runs import DOCS, FAULTS, KEY_END, REMOVED, ids_of_words, read_runs
from typecase.recipe.ingest_split import run_path
from typecase.recipe.ingest_wide import Wide
from typecase.recipe.stage import Report
from typecase.store.documents import DOC_SCHEMA, QUARANTINE_SCHEMA, REMOVED_SCHEMA
from typecase.store.shards import group_bounds, part_name, write_shard
from typecase.store.sources.rows import DUPLICATE_ID, RAW_BYTES


@dataclass(frozen=True, slots=True)
class Listing:
    """What the parts must know of the splits: names and sources by file number; `bases` the row number at which each
    split begins."""

    names: Sequence[str]
    sources: Sequence[str]
    bases: Sequence[int]


@dataclass(frozen=True, slots=True)
class Part:
    """Part `index` of `num_parts`."""

    index: int
    num_parts: int

    def range_of(self, end: int) -> tuple[int, int]:
        """Its share [start, stop) of the keys [0, end)."""
        return self.index * end // self.num_parts, (self.index + 1) * end // self.num_parts


def write_part(part: Part, listing: Listing, *, keep_below: int, scratch: Path, out: Path) -> Report:
    """Writes `part-k.parquet`, and `quarantine/` and `removed/` beside it where there is something to write."""
    docs = _Docs.of(_gathered("docs", DOCS, part.range_of(keep_below), listing, scratch))
    order, firsts = _in_order(docs.narrow)
    duplicate = firsts != np.arange(len(order))
    kept = order[~duplicate]
    faults = _gathered("faults", FAULTS, part.range_of(KEY_END), listing, scratch)
    doubles = docs.duplicates(order[duplicate], order[firsts[duplicate]], listing)
    quarantined = _in_place_order(pa.concat_tables([pa.Table.from_batches(faults, FAULTS), doubles]))
    removed = _removed(pa.Table.from_batches(_gathered("removed", REMOVED, part.range_of(KEY_END), listing, scratch), REMOVED))
    name = part_name(part.index)
    files = {name: write_shard(out / name, docs.tables(kept, listing), DOC_SCHEMA)}
    if quarantined.num_rows:
        shown = _with_names(quarantined, listing).select(QUARANTINE_SCHEMA.names)
        files[f"quarantine/{name}"] = write_shard(out / "quarantine" / name, [shown], QUARANTINE_SCHEMA)
    if removed.num_rows:
        files[f"removed/{name}"] = write_shard(out / "removed" / name, [removed], REMOVED_SCHEMA)
    balance = Balance(
        docs.narrow.num_rows + sum(batch.num_rows for batch in faults) + removed.num_rows,
        len(kept),
        Counter(removed.column("reason").to_pylist()),
        Counter(quarantined.column("reason").to_pylist()),
    )
    return Report(files, balance, {"documents": len(kept), "text_bytes": int(docs.text.lengths[kept].sum())})


def _gathered(kind: str, schema: pa.Schema, keys: tuple[int, int], listing: Listing, scratch: Path) -> list[pa.RecordBatch]:
    """The rows of all splits whose keys lie in `keys`, in the order of the splits; their rows count in their file."""
    batches = []
    for split, base in enumerate(listing.bases):
        for batch in read_runs(run_path(scratch, kind, split), *keys):
            if base and "row" in schema.names:
                row = schema.names.index("row")
                batch = batch.set_column(row, schema.field(row), pc.add(batch.column(row), base))
            batches.append(batch)
    return batches


def _in_order(docs: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The order by id, int64 (rows,), equal ids by file and row; and for each place in it that of the first of its id."""
    high, low = docs.column("high").to_numpy(), docs.column("low").to_numpy()
    # Runs come in the order of files and rows and were sorted stably, so a stable sort keeps equal ids in that order.
    order = np.argsort(high, kind="stable")
    if len(order) and (high[order][1:] == high[order][:-1]).any():
        order = np.lexsort((low, high))
    high, low = high[order], low[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return order, np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))


@dataclass(frozen=True, slots=True)
class _Docs:
    """The documents of a part: their narrow columns, and views of the wide ones."""

    narrow: pa.Table
    text: Wide
    meta: Wide

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch]) -> _Docs:
        narrow = pa.Table.from_batches(batches, DOCS).drop_columns(["text", "meta"]).combine_chunks()
        return cls(narrow, *(Wide.of([batch.column(name) for batch in batches]) for name in ("text", "meta")))

    def tables(self, rows: np.ndarray, listing: Listing) -> Iterator[pa.Table]:
        """`rows`, in their order, as tables of DOC_SCHEMA, a row group each."""
        names, sources = pa.array(listing.names, pa.string()), pa.array(listing.sources, pa.string())
        for start, stop in group_bounds(self.text.lengths[rows] + self.meta.lengths[rows]):
            chosen = rows[start:stop]
            narrow = self.narrow.take(pa.array(chosen))
            files = narrow.column("file").combine_chunks()
            columns = {
                "doc_id": ids_of_words(narrow.column("high").to_numpy(), narrow.column("low").to_numpy()),
                "text": self.text.take(chosen, pa.large_string()),
                "source": pc.coalesce(narrow.column("source"), sources.take(files)),
                "file": names.take(files),
                "row": narrow.column("row"),
                "offset": narrow.column("offset"),
                "meta": self.meta.take(chosen, pa.large_string()),
            }
            yield pa.table(columns, schema=DOC_SCHEMA)

    def duplicates(self, rows: np.ndarray, firsts: np.ndarray, listing: Listing) -> pa.Table:
        """`rows`, whose ids the rows `firsts` have already, as FAULTS; `raw` is the text."""
        these, those = self.narrow.take(pa.array(rows)), self.narrow.take(pa.array(firsts))
        places = [_places(table, listing) for table in (these, those)]
        lengths = self.text.lengths[rows]
        raw = [self._raw(rows[start:stop]) for start, stop in group_bounds(lengths)]
        columns = {
            "spread": these.column("high"),
            "file": these.column("file"),
            "row": these.column("row"),
            "offset": these.column("offset"),
            "doc_id": ids_of_words(these.column("high").to_numpy(), these.column("low").to_numpy()),
            "reason": pa.array([DUPLICATE_ID] * len(rows), pa.string()),
            "detail": pa.array([f"{this} has the id of {that}" for this, that in zip(*places, strict=True)], pa.string()),
            "raw_bytes": lengths,
            "raw": pa.chunked_array(raw, pa.large_binary()),
        }
        return pa.table(columns, schema=FAULTS)

    def _raw(self, rows: np.ndarray) -> pa.Array:
        return pc.binary_slice(self.text.take(rows, pa.large_binary()), 0, RAW_BYTES)


def _places(rows: pa.Table, listing: Listing) -> list[Place]:
    columns = (rows.column(name).to_pylist() for name in ("file", "row", "offset"))
    return [Place(listing.names[file], row, offset) for file, row, offset in zip(*columns, strict=True)]


def _in_place_order(table: pa.Table) -> pa.Table:
    """Faults in the order of file, row and offset."""
    table = table.combine_chunks()
    keys = [table.column(name).to_numpy() for name in ("offset", "row", "file")]
    return table.take(pa.array(np.lexsort(keys)))


def _with_names(rows: pa.Table, listing: Listing) -> pa.Table:
    names = pa.array(listing.names, pa.string()).take(rows.column("file").combine_chunks())
    return rows.set_column(rows.schema.names.index("file"), "file", names)


def _removed(rows: pa.Table) -> pa.Table:
    """Removed documents in the order of their ids."""
    high, low = rows.column("high").to_numpy(), rows.column("low").to_numpy()
    order = np.lexsort((low, high))
    rows = rows.take(pa.array(order))
    columns = {"doc_id": ids_of_words(high[order], low[order]), "reason": rows["reason"], "detail": rows["detail"]}
    return pa.table(columns, schema=REMOVED_SCHEMA)
