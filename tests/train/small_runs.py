"""Small token sets of words that repeat, and models that learn them in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from typecase.store.provenance import NAME, PROVENANCE_SCHEMA
from typecase.store.shards import write_shard
from typecase.store.tokens.writer import TokenSetWriter
from typecase.train.config import ModelShape, TrainPlan

VOCAB, CONTEXT = 61, 16


def make_words(folder: Path, *, documents: int = 60, seed: int = 1, provenance: bool = True) -> Path:
    """Documents of rising runs of ids, some longer than a sample, with provenance; returns the prefix."""
    dice = np.random.default_rng(seed)
    lengths = dice.integers(1, 40, documents)
    starts = dice.integers(0, VOCAB, documents)
    ids = np.concatenate([(start + np.arange(length)) % VOCAB for start, length in zip(starts, lengths, strict=True)])
    folder.mkdir(parents=True, exist_ok=True)
    prefix = folder / "text_document"
    with TokenSetWriter(prefix, np.dtype(np.uint16)) as writer:
        writer.append(ids.astype(np.uint16), lengths, per_document=np.ones(documents, np.int64))
    if provenance:
        write_shard(folder / NAME, [_rows(lengths)], PROVENANCE_SCHEMA)
    return prefix


def _rows(lengths: Sequence[int] | Any) -> pa.Table:
    rows = [
        {"doc": k, "doc_id": f"id-{k:04d}", "source": "made", "file": "made", "row": k, "offset": 0, "start": 0, "stop": 1}
        | {"tokens": int(length)}
        for k, length in enumerate(lengths)
    ]
    return pa.Table.from_pylist(rows, PROVENANCE_SCHEMA)


def small_shape(**changes: Any) -> ModelShape:
    sizes: dict[str, Any] = {"layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "hidden": 48}
    return ModelShape(**(sizes | {"vocab": VOCAB, "context": CONTEXT} | changes))


def small_plan(steps: int = 8, **changes: Any) -> TrainPlan:
    return TrainPlan(**({"steps": steps, "batch": 6, "learning_rate": 3e-3, "warmup": 2, "save_every": 3} | changes))
