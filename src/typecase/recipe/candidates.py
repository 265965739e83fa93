"""Candidates: the narrow columns of documents that a selection looks at, one scratch file a part.

    documents      doc_id source file meta text
    ratings        doc_id overall_score domain …       joined on doc_id, wherever their parts are cut
       |
    candidates     id (16 bytes)  amount  tokens  score  cell  duplicate      memory-mapped, without a copy

A cell is the finest group that is reported on: strata columns, source and domain together.

Price: 45 bytes a document on disk while the stage runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from typecase.core.selection.quota import Label
from typecase.core.selection.selection import Pool
from typecase.recipe.columns import Arrays, map_columns, write_columns
from typecase.recipe.values import raw_ids_of, read_values
from typecase.store import shards
from typecase.store.documents import DocumentStore

Terms = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """What is read: `labels` form the cells, `terms` add up to the score, the tokenizer counts tokens where it is given."""

    labels: tuple[str, ...]
    terms: Terms
    unit: str
    tokenizer: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.labels, *(name for name, _ in self.terms))))


@dataclass(frozen=True, slots=True)
class Candidates:
    """One part's narrow columns, all (docs,); `cell` counts rows of `cells`. `tokens` is None where nothing counted them."""

    ids: NDArray[np.uint8]
    amount: NDArray[np.int64]
    tokens: NDArray[np.int64] | None
    score: NDArray[np.float64]
    cell: NDArray[np.int32]
    duplicate: NDArray[np.bool_]
    cells: tuple[Label, ...]

    def pool(self, stratum_of: Mapping[Label, int]) -> Pool:
        """The pool whose strata are given by cell."""
        lookup = np.array([stratum_of[cell] for cell in self.cells], np.int32)
        stratum = lookup[self.cell] if len(lookup) else np.zeros(0, np.int32)
        return Pool(self.ids, self.amount, stratum, self.score, self.duplicate)


def survey_part(store: DocumentStore, index: int, ratings: Path | None, columns: Columns, out: Path) -> dict[str, Any]:
    """Writes the candidates of part `index` to `out`; returns their count, bytes of text, tokens and cells."""
    part = store.parts[index]
    doc_ids, values = read_values(part, columns.names, ratings)
    size_bytes, tokens = _measure(part, columns)
    amount = {"tokens": tokens, "bytes": size_bytes}.get(columns.unit)
    ids = raw_ids_of(doc_ids)
    score = np.zeros(len(ids))
    for name, weight in columns.terms:
        score += weight * values.numbers(name)
    cell, cells = _cells([values.labels(name) for name in columns.labels], len(ids))
    made = Candidates(
        ids,
        amount if amount is not None else np.ones(len(ids), np.int64),
        tokens,
        score if columns.terms else np.full(len(ids), np.nan),
        cell,
        _repeats(ids, _last_id(store, index)),
        cells,
    )
    _write(made, out)
    counts = {"documents": len(ids), "tokens": int(tokens.sum()) if tokens is not None else 0}
    return counts | {"text_bytes": int(size_bytes.sum()) if size_bytes is not None else 0, "cells": [list(c) for c in cells]}


def open_candidates(path: Path) -> Candidates:
    """The candidates of a scratch file, memory-mapped."""
    columns, note = map_columns(path)
    return Candidates(
        columns["ids"],
        columns["amount"],
        columns.get("tokens"),
        columns["score"],
        columns["cell"],
        columns["duplicate"].view(np.bool_),
        tuple(tuple(cell) for cell in note),
    )


def _write(made: Candidates, out: Path) -> None:
    columns: Arrays = {name: getattr(made, name) for name in ("ids", "amount", "score", "cell", "duplicate")}
    if made.tokens is not None:
        columns["tokens"] = made.tokens
    write_columns(out, columns, [list(cell) for cell in made.cells])


def _measure(part: Path, columns: Columns) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """(bytes of text, tokens) of every document; None where they are not asked for."""
    if columns.tokenizer is None and columns.unit != "bytes":
        return None, None
    tokenizer = None
    if columns.tokenizer is not None:
        from typecase.store.tokenizer.tokenizer import open_tokenizer  # half a second of imports, only where tokens are counted

        tokenizer = open_tokenizer(columns.tokenizer)
    sizes, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for table in shards.read_groups(part, ["text"]):
        text = table.column("text")
        sizes.append(shards.lengths_of(text))
        if tokenizer is not None:
            counts.append(np.asarray(tokenizer.encode_batch(text)[1], np.int64))
    return np.concatenate(sizes), np.concatenate(counts) if tokenizer is not None else None


def _cells(labels: Sequence[pa.Array], rows: int) -> tuple[NDArray[np.int32], tuple[Label, ...]]:
    """Rows of equal labels as numbers of sorted cells."""
    code, known = np.zeros(rows, np.int64), [()] if rows else []
    for column in labels:
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        code = code * max(1, len(names)) + encoded.indices.to_numpy(zero_copy_only=False)
        present, code = np.unique(code, return_inverse=True)
        known = [(*known[c // len(names)], names[c % len(names)]) for c in present.tolist()]
    order = sorted(range(len(known)), key=lambda c: known[c])
    rank = np.empty(len(known), np.int32)
    rank[order] = np.arange(len(known), dtype=np.int32)
    return rank[code] if rows else np.zeros(0, np.int32), tuple(known[c] for c in order)


def _repeats(ids: NDArray[np.uint8], last: str | None) -> NDArray[np.bool_]:
    """Rows whose id is that of the row before; `last` is the id before the first."""
    again = np.zeros(len(ids), np.bool_)
    again[1:] = (ids[1:] == ids[:-1]).all(1)
    again[:1] = last is not None and ids[:1].tobytes().hex() == last
    return again


def _last_id(store: DocumentStore, index: int) -> str | None:
    """The last id before part `index`: the same id again is a duplicate."""
    for part in reversed(store.parts[:index]):
        file = shards.open_shard(part)
        try:
            if file.metadata.num_rows:
                return str(file.read_row_group(file.num_row_groups - 1, ["doc_id"]).column("doc_id")[-1].as_py())
        finally:
            file.close()
    return None
