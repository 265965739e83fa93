"""Improbable bigrams: pairs of incomplete tokens that the encoder really makes, the least likely to have been seen first.

audit_bigrams(tokenizer, weights)      a row for each pair: the text, the scripts of both sides, how suspicious each side is

A pair is kept when the encoder gives exactly these two ids for its text. Without weights, pairs whose other characters are of
different scripts come first; with them, pairs by the more suspicious side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from typecase.core.glitch.bigrams import fragment_pairs
from typecase.core.glitch.utf8 import classify
from typecase.errors import BadQuery
from typecase.store.audit.files import read_table
from typecase.store.audit.table import script_of
from typecase.store.audit.vocabulary import open_vocabulary

_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True)
class BigramAudit:
    """`possible` pairs make a whole text, `made` of them by the encoder; `mixed` of these join two scripts."""

    tokenizer: str
    fragments: int
    possible: int
    made: int
    mixed: int
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}


def audit_bigrams(tokenizer: str | Path, *, weights: str | Path | None = None) -> BigramAudit:
    """Finds the pairs of a vocabulary; `weights` is a Parquet table of audit weights. Raises BadQuery when it is of another."""
    vocabulary = open_vocabulary(tokenizer)
    utf8 = [None if data is None else classify(data) for data in vocabulary.data]
    percentiles = _percentiles(weights, vocabulary.num_ids) if weights is not None else [None] * vocabulary.num_ids
    pairs, possible, rows = fragment_pairs(vocabulary.data, utf8), 0, []
    while chunk := list(islice(pairs, _CHUNK)):
        possible += len(chunk)
        texts = [((vocabulary.data[a] or b"") + (vocabulary.data[b] or b"")).decode() for a, b in chunk]
        for (a, b), text, ids in zip(chunk, texts, vocabulary.codec.encode(texts)):
            if ids == [a, b]:
                rows.append(_row(a, b, text, vocabulary.data, percentiles))
    rows.sort(key=_order)
    schema = pa.schema(
        [
            *((name, pa.int64()) for name in ("a", "b")),
            *((name, pa.string()) for name in ("text", "script_a", "script_b")),
            ("mixed", pa.bool_()),
            *((name, pa.float64()) for name in ("percentile_a", "percentile_b")),
        ]
    )
    return BigramAudit(
        tokenizer=vocabulary.where,
        fragments=sum(kind is not None and kind.kind in ("prefix", "suffix", "both") for kind in utf8),
        possible=possible,
        made=len(rows),
        mixed=sum(row["mixed"] for row in rows),
        table=pa.Table.from_pylist(rows, schema=schema),
    )


def _row(a: int, b: int, text: str, data: Sequence[bytes | None], percentiles: Sequence[float | None]) -> dict[str, Any]:
    left, right = ((data[t] or b"").decode("utf-8", "ignore") for t in (a, b))
    scripts = script_of(left) if left else None, script_of(right) if right else None
    mixed = None not in scripts and scripts[0] != scripts[1]
    return {
        "a": a, "b": b, "text": text, "script_a": scripts[0], "script_b": scripts[1], "mixed": mixed,
        "percentile_a": percentiles[a], "percentile_b": percentiles[b],
    }  # fmt: skip


def _order(row: dict[str, Any]) -> tuple[float, bool, int, int]:
    worst = [p for p in (row["percentile_a"], row["percentile_b"]) if p is not None]
    return min(worst, default=0.0), not row["mixed"], row["a"], row["b"]


def _percentiles(weights: str | Path, num_ids: int) -> list[float | None]:
    table, _ = read_table(Path(weights))
    if table.num_rows != num_ids or "percentile" not in table.column_names:
        raise BadQuery(f"{weights} is no table of audit weights for a tokenizer of {num_ids:,} ids")
    found: list[float | None] = table.column("percentile").to_pylist()
    return found
