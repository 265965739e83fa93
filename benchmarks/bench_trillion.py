"""A billion documents, a trillion tokens, by lengths alone: what the rooms that keep an order and a choice take at that size.

    python benchmarks/bench_trillion.py [--quick] [--json] [--documents 1000000000] [--folder FOLDER]

No text exists. Lengths are drawn (lognormal, about a thousand tokens) and lie in two files as a `.idx` has them: int32 lengths
and uint64 starts, 12 bytes a document, mapped and not read. Over them:

    keyed    the keyed order is laid; 100,000 random training indices are read (sample, documents, spans), and for 1,000 random
             documents every step that sees them is found
    tables   what GPT-NeoX and Megatron keep in memory for the same run by their own rule, as arithmetic: a document index of
             int32, a sample index of two numbers a sample, a shuffle index
    select   candidates of id, tokens, score and stratum, made part by part; the cut of a tenth is decided and applied

`ours` is the full size, `peer` ten times a tenth of it (of a read: the tenth itself), so the ratio says how linear it is: 1 is
linear, below 1 is worse. Peak memory is printed beside it. 13 GB of disk and about 10 minutes; --quick takes 10 M documents.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_select import SAMPLED, SEED, STRATA, Made, high_water_mb
from measure import Record, options, report

from typecase.core.order.keyed import KeyedOrder
from typecase.core.selection.decide import apply, decide
from typecase.core.selection.selection import Budget

BLOCK, CONTEXT, READS, DOCUMENTS = 1 << 22, 4096, 100_000, 1_000


def write_lengths(folder: Path, documents: int) -> tuple[Any, Any]:
    """Lengths int32 and starts uint64 of so many documents, written block by block, then mapped."""
    at, names = 0, (folder / f"lengths-{documents}", folder / f"starts-{documents}")
    with names[0].open("wb") as lengths, names[1].open("wb") as starts:
        for first in range(0, documents, BLOCK):
            dice = np.random.default_rng([SEED, first])
            own = np.clip(np.exp(dice.normal(6.4, 1.0, min(BLOCK, documents - first))), 1, 200_000).astype(np.int32)
            ends = np.cumsum(own, dtype=np.int64) + at
            lengths.write(own.data)
            starts.write((ends - own).astype(np.uint64).data)
            at = int(ends[-1])
    return np.memmap(names[0], np.int32, "r"), np.memmap(names[1], np.uint64, "r")


def keyed(sizes: Any, starts: Any) -> tuple[float, float, float]:
    """Seconds to lay the order, microseconds a read, microseconds a document's sightings."""
    begin = time.perf_counter()
    laid = KeyedOrder(seq_length=CONTEXT, seed=SEED).lay(sizes, starts=starts)
    laying = time.perf_counter() - begin
    dice = np.random.default_rng(SEED)
    indices = dice.integers(0, laid.num_samples, READS)
    begin = time.perf_counter()
    reads = laid.reads(indices)
    reading = time.perf_counter() - begin
    docs = dice.integers(0, len(sizes), DOCUMENTS)
    begin = time.perf_counter()
    seen = laid.sightings(docs, np.zeros(DOCUMENTS, np.int64), np.asarray(sizes[docs], np.int64))
    seeing = time.perf_counter() - begin
    assert len(reads.packing.docs) >= READS and len(seen.indices) >= DOCUMENTS
    return laying, 1e6 * reading / READS, 1e6 * seeing / DOCUMENTS


def chosen(rows: int) -> float:
    """Seconds to decide and apply a tenth of made rows, making them counted once out."""
    begin = time.perf_counter()
    budget = sum(int(pool.amount.sum()) for pool in Made(rows)) // 10
    making = time.perf_counter() - begin
    begin = time.perf_counter()
    cuts = decide(Made(rows), STRATA, budget=Budget(tokens=budget), policy=SAMPLED, seed=SEED)
    kept = sum(int(apply(cuts, pool, policy=SAMPLED, seed=SEED).kept.sum()) for pool in Made(rows))
    assert kept == int(cuts.kept.sum())
    return time.perf_counter() - begin - 3 * making


def table_bytes(documents: int, tokens: int) -> float:
    """What tables of GPT-NeoX and Megatron hold in memory for an epoch: document, sample and shuffle index."""
    samples = tokens // CONTEXT
    return 4.0 * documents + 8.0 * samples + (8.0 if samples >= 2**32 else 4.0) * samples


def main() -> None:
    args = options(__doc__, documents="1000000000", folder="")
    documents = 10_000_000 if args.quick else int(args.documents)
    records, notes = [], []
    with tempfile.TemporaryDirectory(dir=args.folder or None) as name:
        figures = {}
        for count in (documents // 10, documents):
            sizes, starts = write_lengths(Path(name), count)
            figures[count] = keyed(sizes, starts)
            tokens = int(starts[-1]) + int(sizes[-1])
            del sizes, starts
        notes.append(
            f"{documents:,} documents, {tokens:,} tokens; tables for the same run {table_bytes(documents, tokens) / 1e9:.1f} GB"
        )
    less, full = figures[documents // 10], figures[documents]
    records.append(Record("keyed order laid, against ten times a tenth", full[0], 10 * less[0], "s", 10 * less[0] / full[0]))
    records.append(Record("a training index read, against a tenth", full[1], less[1], "us", less[1] / full[1]))
    records.append(Record("a document's steps, against a tenth", full[2], less[2], "us", less[2] / full[2]))
    tenth, own = chosen(documents // 10), chosen(documents)
    records.append(Record("selection, against ten times a tenth", own, 10 * tenth, "s", 10 * tenth / own))
    notes.append(f"peak memory of the process, mapped files included: {high_water_mb():,.0f} MB")
    report(records, as_json=args.json, notes=notes)


if __name__ == "__main__":
    main()
