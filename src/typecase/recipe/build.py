"""build: documents -> a native Megatron token set with provenance.

    survey   a shard is encoded once: its ids and its rows lie in scratch, sorted by source place
    decide   dtype from the largest id that can occur; the layout: which rows go into which slice of the file
    work     a slice is merged from the shards and written into its range of the one .bin
    finish   .idx and provenance.parquet, streamed

    text_document.bin .idx     what GPT-NeoX, Megatron-LM/Core and NeMo read, byte for byte as their own builders write it
    provenance.parquet         document -> doc_id, source, file, row, offset, span of its text in bytes, tokens
    tokenizer/                 the tokenizer's own files, so that the set can be read for as long as it lies there
    removed/ quarantine/       documents that gave no tokens, or that the tokenizer refused

Documents come in the order of their sources (file, then row), or by id. Where a selection takes documents more than once
(`copies`), the set is read through in passes: all documents, then those that are taken twice, then those taken three times, so
that copies lie far apart; every copy is a document of the set with the provenance of the one it copies, and the balance counts
documents, not copies. The bytes depend on neither workers nor shards.
Price: the ids lie on disk twice until the slices are written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.balance import Balance
from typecase.engine.protocol import Engine
from typecase.errors import FingerprintMismatch, FixInput
from typecase.recipe.copies import copies_in
from typecase.recipe.layout import Layout, open_rows, plan_slices, sorted_names, source_keys
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import shards as parts
from typecase.store.atomic import atomic_path, sync_file
from typecase.store.documents import REMOVED_SCHEMA, open_documents
from typecase.store.manifest import read_manifest
from typecase.store.provenance import NAME as PROVENANCE
from typecase.store.provenance import PROVENANCE_SCHEMA
from typecase.store.tokenizer.files import copy_tokenizer
from typecase.store.tokenizer.special import SpecialPolicy, special_policy
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer
from typecase.store.tokens.gather import copy_ranges
from typecase.store.tokens.pair import SET_NAME
from typecase.store.tokens.writer import cast_ids, dtype_for, plan_layout, preallocate, write_idx, write_slice

BIN, IDX = f"{SET_NAME}.bin", f"{SET_NAME}.idx"
TOKENIZER = "tokenizer"
REFUSED = "refused by the tokenizer"
NOTHING = "tokenises to nothing"

_LAYOUT = "layout.npy"
Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]

_SHARD_BYTES = (4 << 20, 128 << 20)
_SHARD_ROWS = 1 << 17
_SLICE_TOKENS = 8 << 20
_PROVENANCE_ROWS = 1 << 16

_ROWS = pa.schema(
    [
        *[f for f in PROVENANCE_SCHEMA if f.name != "doc"],
        pa.field("at", pa.int64()),
        pa.field("refused", pa.string()),
        pa.field("copy", pa.int32()),
    ]
)
"""`at` is the first token in the shard's file of ids; `refused` says why a document has none, null where it has; `copy` counts
the copies of a document from 0, one in each pass."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Row groups [first, last) of one part of the documents, for the tokenizer of that fingerprint."""

    index: int
    part: int
    first: int
    last: int
    tokenizer: str


@dataclass(frozen=True, kw_only=True)
class Build(Stage):
    """tokenizer   a tokenizer.json, a folder, a tiktoken rank file, or package:NAME
    eod         the end-of-document token put after every document: True (the tokenizer's own), a token, an id, or False
    bos         likewise, before every document
    order       "source" (file, then row) or "id"
    allow_special   text that spells a special token becomes that token; off, it stays text
    """

    verb: ClassVar[str] = "build"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    gives: ClassVar[str] = "tokens"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow", "tokenizers", "tiktoken")

    tokenizer: str
    eod: bool | str | int = True
    bos: bool | str | int = False
    order: Literal["source", "id"] = "source"
    allow_special: bool = False

    def __post_init__(self) -> None:
        if self.order not in ("source", "id"):
            raise FixInput(f"order must be 'source' or 'id', got {self.order!r}")

    def identity(self, engine: Engine) -> dict[str, Any]:
        tokenizer = _opened(self.tokenizer)
        return {
            "tokenizer": tokenizer.fingerprint,
            "num_ids": tokenizer.num_ids,
            "special": self._policy(tokenizer).describe(),
            "order": self.order,
            "allow_special": self.allow_special,
        }

    def _policy(self, tokenizer: Tokenizer) -> SpecialPolicy:
        return special_policy(tokenizer, bos=self.bos, eod=self.eod)

    def shards(self, given: Given) -> Sequence[Shard]:
        tokenizer = _opened(self.tokenizer)
        store = open_documents(given["docs"])
        total = int(store.manifest.counts.get("text_bytes", 0))
        target = min(max(total // 256, _SHARD_BYTES[0]), _SHARD_BYTES[1])
        found: list[Shard] = []
        for part, path in enumerate(store.parts):
            for first, last in _runs_of_groups(path, target):
                found.append(Shard(len(found), part, first, last, tokenizer.fingerprint))
        return found

    def survey(self, given: Given, shard: Shard, scratch: Path) -> Summary:
        tokenizer = _opened(self.tokenizer)
        if tokenizer.fingerprint != shard.tokenizer:
            raise FingerprintMismatch(f"the tokenizer {self.tokenizer} changed while the run went on: run it again")
        policy, dtype = self._policy(tokenizer), dtype_for(tokenizer.max_id)
        path = open_documents(given["docs"]).parts[shard.part]
        copies = copies_in(given["docs"], shard.part)[parts.rows_before(path, shard.first) :]
        rows: list[pa.Table] = []
        at = seen = 0
        with atomic_path(scratch / _tokens_name(shard.index), sync=False) as temporary, temporary.open("wb") as file:
            for table in _read_groups(path, shard.first, shard.last):
                encoded = tokenizer.try_encode_batch(table.column("text"), allow_special=self.allow_special)
                lengths = encoded.lengths.copy()
                ids, lengths[lengths > 0] = policy.surround(encoded.ids, encoded.lengths[encoded.lengths > 0])
                file.write(_fitting(ids, dtype, lengths, table).data)
                rows.append(_copied(_rows_of(table, lengths, at, encoded.refused), copies[seen : seen + table.num_rows]))
                at, seen = at + len(ids), seen + table.num_rows
        table = pa.concat_tables(rows) if rows else _ROWS.empty_table()
        keys = ("copy", "file", "row") if self.order == "source" else ("copy", "at", "doc_id")
        if self.order == "source" or pc.max(table.column("copy")).as_py():
            table = table.sort_by([(name, "ascending") for name in keys])
        _write_rows(scratch / _rows_name(shard.index), table)
        files = [_tokens_name(shard.index), _rows_name(shard.index)]
        texts = int(table.column("stop").to_numpy().sum())
        return {"files": files, "documents": table.num_rows, "text_bytes": texts, "tokens": at}

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        rows = [scratch / _rows_name(k) for k in range(len(summaries))]
        layout = plan_slices(rows, slice_tokens=_SLICE_TOKENS, by_source=self.order == "source")
        layout.save(scratch / _LAYOUT)
        dtype = dtype_for(_opened(self.tokenizer).max_id)
        target, size_bytes = scratch.parent / BIN, layout.num_tokens * dtype.itemsize
        if not target.exists() or target.stat().st_size != size_bytes:
            target.unlink(missing_ok=True)
            preallocate(target, size_bytes)
        probes = _opened(self.tokenizer).probe_ids
        return {"dtype": dtype.name, "probe_ids": probes, "_shards": len(summaries), "_slices": layout.num_slices}

    def tasks(self, given: Given, shards: Sequence[Any], decision: Mapping[str, Any]) -> Sequence[int]:
        return range(decision["_slices"])

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        dtype = np.dtype(decision["dtype"])
        layout = Layout.load(scratch / _LAYOUT)
        shards = [scratch / _rows_name(k) for k in range(decision["_shards"])]
        table, shard = _merged(shards, layout, task, by_source=self.order == "source")
        tokens = _collected(table, shard, dtype, scratch)
        start = int(plan_layout(np.diff(layout.starts), dtype)[task])
        write_slice(out / BIN, start, tokens)
        _write_rows(scratch / _placed_name(task), table)
        counts = {"documents": int(np.count_nonzero(table.column("tokens").to_numpy())), "tokens": len(tokens)}
        counts["text_bytes"] = int(table.column("stop").to_numpy().sum())
        once = table.filter(pc.equal(table.column("copy"), 0))
        refused = once.num_rows - once.column("refused").null_count
        kept = int(np.count_nonzero(once.column("tokens").to_numpy()))
        empty = once.num_rows - kept - refused
        balance = Balance(once.num_rows, kept, {NOTHING: empty} if empty else {}, {REFUSED: refused} if refused else {})
        if copies := counts["documents"] - kept:
            again = table.filter(pc.greater(table.column("copy"), 0))
            counts |= {"copies": copies, "copied_tokens": int(again.column("tokens").to_numpy().sum())}
        return Report({}, balance, counts, {BIN: (start, start + tokens.nbytes)} if tokens.nbytes else {})

    def finish(self, given: Given, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        sync_file(out / BIN)  # the slices were written by many; nothing else forces them to disk before the set appears
        placed = [scratch / _placed_name(k) for k in range(decision["_slices"])]
        with atomic_path(out / IDX) as temporary:
            write_idx(temporary, np.dtype(decision["dtype"]), (_kept(p).column("tokens").to_numpy() for p in placed))
        rows = parts.write_shard(out / PROVENANCE, _numbered(_kept(p) for p in placed), PROVENANCE_SCHEMA)
        files = {BIN: 0, IDX: rows, PROVENANCE: rows}
        files |= {f"{TOKENIZER}/{name}": 0 for name in copy_tokenizer(self.tokenizer, out / TOKENIZER)}
        for name, quarantined in (("removed", False), ("quarantine", True)):
            left = pa.concat_tables([_left(p, quarantined) for p in placed])
            if left.num_rows:
                file = f"{name}/{parts.part_name(0)}"
                files[file] = parts.write_shard(out / file, [left.sort_by("doc_id")], REMOVED_SCHEMA)
        return Report(files)


@functools.lru_cache(maxsize=2)
def _opened(spec: str) -> Tokenizer:
    return open_tokenizer(spec)


def _tokens_name(shard: int) -> str:
    return f"tokens-{shard:05d}.bin"


def _rows_name(shard: int) -> str:
    return f"rows-{shard:05d}.arrow"


def _placed_name(task: int) -> str:
    return f"placed-{task:05d}.arrow"


def _fitting(ids: Ints32, dtype: np.dtype[Any], lengths: Ints, table: pa.Table) -> npt.NDArray[Any]:
    """`ids` as `dtype`. Raises BadQuery naming the document of an id that does not fit."""
    if ids.size and int(ids.max()) > np.iinfo(dtype).max:
        return cast_ids(ids, dtype, lengths=lengths, names=table.column("doc_id").to_pylist())
    return ids.astype(dtype)


def _collected(table: pa.Table, shard: Ints, dtype: np.dtype[Any], scratch: Path) -> npt.NDArray[Any]:
    """The tokens of the rows of a slice, end to end, out of the files of ids of their shards."""
    item = dtype.itemsize
    begins = table.column("at").to_numpy() * item
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(table.column("tokens").to_numpy(), dtype=np.int64))) * item
    out = np.empty(int(offsets[-1]), np.uint8)
    for k in np.unique(shard):
        path = scratch / _tokens_name(int(k))
        if path.stat().st_size:
            copy_ranges(np.memmap(path, np.uint8, "r"), begins, offsets, np.flatnonzero(shard == k), out)
    return out.view(dtype)


def _kept(path: Path) -> pa.Table:
    table = open_rows(path)
    return table.filter(pc.greater(table.column("tokens"), 0)).drop_columns(["at", "refused", "copy"])


def _left(path: Path, quarantined: bool) -> pa.Table:
    """The rows of a slice that gave no tokens, as a table of REMOVED_SCHEMA."""
    table = open_rows(path)
    table = table.filter(pc.equal(table.column("copy"), 0))
    refused = pc.is_valid(table.column("refused"))
    table = table.filter(refused if quarantined else pc.and_(pc.equal(table.column("tokens"), 0), pc.invert(refused)))
    reason = pa.repeat(pa.scalar(REFUSED if quarantined else NOTHING), table.num_rows)
    return pa.table([table.column("doc_id"), reason, table.column("refused")], schema=REMOVED_SCHEMA)


def open_recorded_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer that the token set in `folder` was built with, None when none lies there.

    Raises FingerprintMismatch when it encodes otherwise than it did then: its files, or the library, have changed.
    """
    recorded = folder / TOKENIZER
    if not recorded.is_dir():
        return None
    tokenizer, manifest = open_tokenizer(recorded), read_manifest(folder)
    tokenizer.check(manifest.params["tokenizer"], manifest.decision["probe_ids"])
    return tokenizer


def _write_rows(path: Path, table: pa.Table) -> None:
    with atomic_path(path, sync=False) as temporary, pa.ipc.new_file(str(temporary), table.schema) as writer:
        writer.write_table(table)


def _runs_of_groups(path: Path, target: int) -> Iterator[tuple[int, int]]:
    """Runs of whole row groups of about `target` bytes of text."""
    file = parts.open_shard(path)
    column = file.schema_arrow.names.index("text")
    first = held = rows = 0
    for group in range(file.num_row_groups):
        meta = file.metadata.row_group(group)
        size = meta.column(column).total_uncompressed_size
        if group > first and (held + size > target or rows + meta.num_rows > _SHARD_ROWS):
            yield first, group
            first, held, rows = group, 0, 0
        held, rows = held + size, rows + meta.num_rows
    if file.num_row_groups > first:
        yield first, file.num_row_groups
    file.close()


def _read_groups(path: Path, first: int, last: int) -> Iterator[pa.Table]:
    file = parts.open_shard(path)
    try:
        for group in range(first, last):
            yield file.read_row_group(group, columns=["doc_id", "text", "source", "file", "row", "offset"])
    finally:
        file.close()


def _rows_of(table: pa.Table, lengths: Ints, at: int, refused: Mapping[int, str]) -> pa.Table:
    ends = np.cumsum(lengths, dtype=np.int64)
    stops = parts.lengths_of(table.column("text"))
    columns = {name: table.column(name) for name in ("doc_id", "source", "file", "row", "offset")}
    columns |= {"start": pa.array(np.zeros(len(lengths), np.int64)), "stop": pa.array(stops)}
    columns |= {"tokens": pa.array(lengths), "at": pa.array(at + ends - lengths)}
    columns |= {
        "refused": pa.array([refused.get(i) for i in range(len(lengths))] if refused else pa.nulls(len(lengths)), pa.string())
    }
    columns |= {"copy": pa.array(np.zeros(len(lengths), np.int32))}
    return pa.table([columns[name] for name in _ROWS.names], schema=_ROWS)


def _copied(rows: pa.Table, copies: Ints32) -> pa.Table:
    """Every row as often as it is taken; one of no tokens once, since nothing can be taken of it."""
    times = np.where(rows.column("tokens").to_numpy() > 0, copies, 1)
    if not len(times) or int(times.max()) == 1:
        return rows
    at = np.repeat(np.arange(len(times)), times)
    first = np.repeat(np.cumsum(times) - times, times)
    number = pa.array((np.arange(len(at)) - first).astype(np.int32))
    return rows.take(pa.array(at)).set_column(rows.column_names.index("copy"), "copy", number)


def _merged(rows: Sequence[Path], layout: Layout, task: int, *, by_source: bool) -> tuple[pa.Table, Ints]:
    """The rows of a slice in their final order, and the shard that each came from."""
    low, high = layout.bounds[task], layout.bounds[task + 1]
    used = np.flatnonzero(high > low)
    if not used.size:
        return _ROWS.empty_table(), np.zeros(0, np.int64)
    table = pa.concat_tables([open_rows(rows[int(k)]).slice(low[k], high[k] - low[k]) for k in used])
    shard = np.repeat(used, (high - low)[used])
    if not by_source:
        return table, shard
    order = np.argsort(source_keys(table, sorted_names(table.column("file"))), kind="stable")
    return table.take(order), shard[order]


def _numbered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Adds the number of each document, in tables of a fixed number of rows, whatever the slices were."""
    first = 0
    for table in parts.regrouped(tables, _PROVENANCE_ROWS):
        doc = pa.array(np.arange(first, first + table.num_rows, dtype=np.int64))
        first += table.num_rows
        yield table.add_column(0, "doc", doc).cast(PROVENANCE_SCHEMA)
