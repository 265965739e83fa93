"""Improbable bigrams: pairs of incomplete tokens that the encoder really makes, the least likely to have been seen first.

audit_bigrams(tokenizer, weights, tokens)      a row for each pair: the text, the scripts of both sides, how suspicious each
                                               side is, how often a corpus holds the pair

A pair is kept when the encoder gives exactly these two ids for its text. Those that no text of the corpus holds come first;
then, with weights, pairs by the more suspicious side; then those whose other characters are of different scripts, and last
those of one character alone. What a model makes of them says `app.audit.pairs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from typecase.core.glitch.bigrams import PairCounter, fragment_pairs
from typecase.core.glitch.utf8 import classify
from typecase.errors import BadQuery
from typecase.recipe.build import open_recorded_tokenizer
from typecase.store.audit.files import read_table
from typecase.store.audit.table import script_of
from typecase.store.audit.vocabulary import Vocabulary, open_vocabulary
from typecase.store.journal.opening import open_set

_CHUNK = 1 << 14
_BLOCK_TOKENS = 1 << 22
"""A sequence longer than this is read in parts; a pair that lies across two of them is not counted."""


@dataclass(frozen=True, slots=True)
class BigramAudit:
    """`possible` pairs make a whole text, `made` of them by the encoder; `mixed` of these join two scripts.

    `never` of those made no document of `corpus` holds, which has `corpus_tokens`; None where no token set was given.
    """

    tokenizer: str
    fragments: int
    possible: int
    made: int
    mixed: int
    corpus: str | None
    corpus_tokens: int | None
    never: int | None
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}


def audit_bigrams(tokenizer: str | Path, *, weights: str | Path | None = None, tokens: str | Path | None = None) -> BigramAudit:
    """Finds the pairs of a vocabulary; `weights` is a Parquet table of audit weights, `tokens` a token set of any maker.

    Raises BadQuery when one of them is of another vocabulary.
    """
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
    counted, size = _counted(tokens, rows, vocabulary) if tokens is not None else ([None] * len(rows), None)
    for row, count in zip(rows, counted, strict=True):
        row["count"] = count
    rows.sort(key=_order)
    schema = pa.schema(
        [
            *((name, pa.int64()) for name in ("a", "b")),
            *((name, pa.string()) for name in ("text", "script_a", "script_b")),
            ("mixed", pa.bool_()),
            *((name, pa.float64()) for name in ("percentile_a", "percentile_b")),
            ("count", pa.int64()),
        ]
    )
    return BigramAudit(
        tokenizer=vocabulary.where,
        fragments=sum(kind is not None and kind.kind in ("prefix", "suffix", "both") for kind in utf8),
        possible=possible,
        made=len(rows),
        mixed=sum(row["mixed"] for row in rows),
        corpus=None if tokens is None else str(tokens),
        corpus_tokens=size,
        never=None if tokens is None else sum(count == 0 for count in counted),
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


def _order(row: dict[str, Any]) -> tuple[int, float, bool, bool, int, int]:
    worst = [p for p in (row["percentile_a"], row["percentile_b"]) if p is not None]
    return row["count"] or 0, min(worst, default=0.0), not row["mixed"], len(row["text"]) == 1, row["a"], row["b"]


def _counted(tokens: str | Path, rows: Sequence[dict[str, Any]], vocabulary: Vocabulary) -> tuple[list[int], int]:
    """How often a set holds each pair within a sequence, and its size in tokens."""
    counter = PairCounter([(row["a"], row["b"]) for row in rows], vocabulary.num_ids)
    with open_set(tokens) as store:
        recorded = open_recorded_tokenizer(store.pair.bin.parent)
        if recorded is not None and recorded.num_ids != vocabulary.num_ids:
            raise BadQuery(
                f"{tokens} was built with a tokenizer of {recorded.num_ids:,} ids, {vocabulary.where} has"
                f" {vocabulary.num_ids:,}"
            )
        for block in store.blocks(_BLOCK_TOKENS):
            counter.add(block.tokens, block.offsets)
        size = store.num_tokens
    return counter.counts.tolist(), size


def _percentiles(weights: str | Path, num_ids: int) -> list[float | None]:
    table, _ = read_table(Path(weights))
    if table.num_rows != num_ids or "percentile" not in table.column_names:
        raise BadQuery(f"{weights} is no table of audit weights for a tokenizer of {num_ids:,} ids")
    found: list[float | None] = table.column("percentile").to_pylist()
    return found
