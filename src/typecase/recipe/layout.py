"""Layout: where every document's tokens go, whatever the shards they were encoded in.

    shard 0  rows sorted by key:  a3 b1 c9        a key is (copy, file, row) in source order, or (copy, doc_id)
    shard 1                       a1 b7 d2
    slices   [a1 a3] [b1 b7] [c9 d2]              cut at keys, so that each slice holds about as many tokens

A slice is a range of rows in every shard; a worker merges those ranges by key and writes one run of bytes. The cuts are
chosen from a sample of keys, but the order of documents does not depend on them: any cuts give the same file.

Price: one int64 per shard and slice; one shard's keys in memory at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.errors import FixInput

_ROW_BITS = 36
_SAMPLES = 512
_ROW_TOKENS = 256
"""A row weighs as much as this many tokens: millions of tiny documents must not fall into one slice."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """`bounds` int64 (slices + 1, shards): slice s takes rows [bounds[s, k], bounds[s + 1, k]) of shard k.

    `starts` int64 (slices + 1,): the token at which each slice begins.
    """

    bounds: Ints
    starts: Ints

    @property
    def num_slices(self) -> int:
        return len(self.starts) - 1

    @property
    def num_tokens(self) -> int:
        return int(self.starts[-1])

    def save(self, path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, self.starts)
            np.save(file, self.bounds)

    @classmethod
    def load(cls, path: Path) -> Layout:
        with path.open("rb") as file:
            starts = np.load(file, allow_pickle=False)
            return cls(np.load(file, allow_pickle=False), starts)


def open_rows(path: Path) -> pa.Table:
    """The rows that a shard left, mapped, not read."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def plan_slices(shards: Sequence[Path], *, slice_tokens: int, by_source: bool) -> Layout:
    """Cuts the rows of `shards`, each sorted by key, into slices of about `slice_tokens` tokens, fewer for short documents.

    Raises FixInput beyond 2^27 files or 2^36 rows in one file.
    """
    if not by_source:
        return _whole_shards(shards)
    files = sorted_files(shards)
    sampled = [_sample(open_rows(path), files) for path in shards]
    keys = np.concatenate([k for k, _ in sampled]) if sampled else np.zeros(0, np.int64)
    weights = np.concatenate([w for _, w in sampled]) if sampled else np.zeros(0, np.int64)
    cuts = _cuts(keys, weights, slice_tokens)
    bounds = np.zeros((len(cuts) + 2, len(shards)), np.int64)
    tokens = np.zeros(len(cuts) + 2, np.int64)
    for k, path in enumerate(shards):
        table = open_rows(path)
        at = np.searchsorted(source_keys(table, files), cuts, side="left")
        bounds[1:-1, k], bounds[-1, k] = at, table.num_rows
        tokens += _ends(table)[bounds[:, k]]
    return Layout(bounds, tokens)


def _whole_shards(shards: Sequence[Path]) -> Layout:
    """Slice p · shards + s is the rows of copy p of shard s alone: earlier shards are used up, later ones not begun."""
    passes = max((int(pc.max(open_rows(path).column("copy")).as_py() or 0) + 1 for path in shards), default=1)
    bounds = np.zeros((passes * len(shards) + 1, len(shards)), np.int64)
    tokens = np.zeros(passes * len(shards) + 1, np.int64)
    for k, path in enumerate(shards):
        table = open_rows(path)
        used = np.searchsorted(table.column("copy").to_numpy(), np.arange(passes), side="right")
        ends = _ends(table)
        for p in range(passes):
            own = p * len(shards) + k
            bounds[own + 1 :, k] = used[p]
            tokens[own + 1] = ends[used[p]] - ends[used[p - 1] if p else 0]
    return Layout(bounds, np.cumsum(tokens))


def sorted_files(shards: Sequence[Path]) -> pa.Array:
    """Every file name of `shards`, sorted by its bytes: a file's place in it is its rank."""
    files = sorted_names(pa.chunked_array([pc.unique(open_rows(path).column("file")) for path in shards], pa.string()))
    if len(files) >= 1 << (63 - _ROW_BITS):
        raise FixInput(f"{len(files)} source files cannot be ordered at once; build with order='id'")
    return files


def sorted_names(column: pa.ChunkedArray) -> pa.Array:
    """The distinct values of a string column, sorted by their bytes."""
    names = pc.unique(column)
    return names.take(pc.sort_indices(names))


def source_keys(table: pa.Table, files: pa.Array) -> Ints:
    """(copy, rank of file, row) of every row as one int64 (rows,)."""
    ranks = pc.index_in(table.column("file").combine_chunks(), value_set=files).to_numpy(zero_copy_only=False)
    ranks = ranks + table.column("copy").to_numpy().astype(np.int64) * len(files)
    if ranks.size and int(ranks.max()) >= 1 << (63 - _ROW_BITS):
        raise FixInput(f"{len(files)} source files cannot be ordered so many times over; build with order='id'")
    rows = table.column("row").to_numpy()
    if rows.size and int(rows.max()) >= 1 << _ROW_BITS:
        raise FixInput(f"row {int(rows.max())} of one source file cannot be ordered; build with order='id'")
    keys: Ints = (ranks.astype(np.int64) << _ROW_BITS) | rows
    return keys


def _ends(table: pa.Table) -> Ints:
    """Tokens before each row and after the last, int64 (rows + 1,)."""
    lengths = table.column("tokens").to_numpy()
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def _sample(table: pa.Table, files: pa.Array) -> tuple[Ints, Ints]:
    if not table.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    at = np.unique(np.linspace(0, table.num_rows, min(_SAMPLES, table.num_rows), endpoint=False).astype(np.int64))
    weights = np.diff((_ends(table) + _ROW_TOKENS * np.arange(table.num_rows + 1))[np.append(at, table.num_rows)])
    return source_keys(table.take(at), files), weights


def _cuts(keys: Ints, weights: Ints, slice_tokens: int) -> Ints:
    order = np.argsort(keys, kind="stable")
    mass = np.cumsum(weights[order])
    total = int(mass[-1]) if mass.size else 0
    wanted = np.arange(slice_tokens, total, slice_tokens)
    return np.unique(keys[order][np.searchsorted(mass, wanted, side="right")])
