"""Editing: 10,000 edits in place, one durable edit, a preview, and reads through a view that holds 100,000 edits.

    python benchmarks/bench_edit.py --dir /tmp/bench            a set of 10^6 documents, made once and kept there
    python benchmarks/bench_edit.py --dir /tmp/bench --quick    of 10^5 documents

An edit overwrites 32 tokens at the head of a random training sample, which lies in one or more documents. `in place` counts
everything: planning, the checks, the journal with before-images and hash chain, writing ahead, the `.bin`, and every wait for
the disk, in batches of 5,000. TokenSmith (arXiv 2507.19419, paper and repository) reports 250 edits a second, neither
journalled nor forced to disk, on a machine of its own: that line is a reference, not a measurement. The peer that is measured
here is written for this benchmark: per edit a read, a seek and a write of a buffered file, as TokenSmith does, with one fsync
at the end and no journal.

The view is compared with the bare set: the same random samples of 2,048 tokens, each a span or several.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np
from measure import Record, best_of, cost, options, rate, report, seconds

from typecase.core.edit.edit import Replacement
from typecase.core.edit.inject import Sample, seq_start
from typecase.core.edit.spans import Spans
from typecase.store.journal.journal import Journal
from typecase.store.journal.opening import open_journal
from typecase.store.tokens.store import TokenStore, open_tokens
from typecase.store.tokens.writer import TokenSetWriter

PUBLISHED_EDITS_PER_SECOND = 250.0
SAMPLE_TOKENS = 2049
TEXT_TOKENS = 32
NUM_EDITS = 10_000
BATCH = 5_000
VIEW_EDITS = 100_000


def make_set(folder: Path, num_documents: int) -> Path:
    """A uint16 set of documents of 1 to 799 tokens; made once."""
    prefix = folder / f"edits_{num_documents}"
    if prefix.with_suffix(".idx").exists():
        return prefix
    rng = np.random.default_rng(7)
    with TokenSetWriter(prefix, np.uint16) as writer:
        for _ in range(num_documents // 10_000):
            lengths = rng.integers(1, 800, 10_000)
            writer.append(rng.integers(0, 50_000, int(lengths.sum()), np.uint16), lengths)
    return prefix


def draw_samples(store: TokenStore, count: int, seed: int) -> list[list[tuple[int, int, int]]]:
    """`count` samples that share no token: runs of SAMPLE_TOKENS tokens of the stream, as pieces."""
    ends = np.cumsum(store.lengths, dtype=np.int64)
    total = (int(ends[-1]) // SAMPLE_TOKENS) * SAMPLE_TOKENS
    firsts = np.random.default_rng(seed).choice(total // SAMPLE_TOKENS, count, replace=False) * SAMPLE_TOKENS
    samples = []
    for first in firsts.tolist():
        pieces, sequence, last = [], int(np.searchsorted(ends, first, side="right")), first + SAMPLE_TOKENS
        while first < last:
            end = int(ends[sequence])
            begin = end - int(store.lengths[sequence])
            if end > first:
                pieces.append((sequence, first - begin, min(end, last) - begin))
            first, sequence = max(first, min(end, last)), sequence + 1
        samples.append(pieces)
    return samples


def flat(samples: list[list[tuple[int, int, int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    columns = np.array([piece for sample in samples for piece in sample], np.int64)
    return columns[:, 0], columns[:, 1], columns[:, 2] - columns[:, 1]


def plan(journal: Journal, samples: list[list[tuple[int, int, int]]], texts: np.ndarray) -> list[Replacement]:
    """What injecting a text into each of `samples` replaces, planned over what the view shows."""
    tokens, offsets = journal.view().read_spans(*flat(samples))
    edits, done, piece = [], 0, 0
    for pieces, text in zip(samples, texts, strict=True):
        piece += len(pieces)
        edits += seq_start(Sample.of(pieces, tokens[done : offsets[piece]]), text).edits
        done = int(offsets[piece])
    return edits


def in_place(prefix: Path, samples: list[list[tuple[int, int, int]]]) -> float:
    """Seconds of all edits in batches: planned, journalled, applied, forced to disk."""
    texts = np.random.default_rng(3).integers(0, 50_000, (len(samples), TEXT_TOKENS)).astype(np.uint16)
    with open_journal(prefix, write=True, author="bench") as journal:
        begin = time.perf_counter()
        for first in range(0, len(samples), BATCH):
            journal.record(plan(journal, samples[first : first + BATCH], texts[first : first + BATCH]), reason="bench")
            journal.apply()
        took = time.perf_counter() - begin
        journal.unapply()
    return took


def peer(prefix: Path, samples: list[list[tuple[int, int, int]]], store: TokenStore) -> float:
    """The same texts at the same places through a buffered file: read the sample, write its head."""
    texts = np.random.default_rng(3).integers(0, 50_000, (len(samples), TEXT_TOKENS)).astype(np.uint16)
    copy = prefix.with_name("peer.bin")
    shutil.copyfile(prefix.with_suffix(".bin"), copy)
    pointers = np.array(store.pointers)
    begin = time.perf_counter()
    with copy.open("r+b") as file:
        for pieces, text in zip(samples, texts, strict=True):
            for sequence, start, stop in pieces:
                file.seek(pointers[sequence] + 2 * start)
                file.read(2 * (stop - start))
            done = 0
            for sequence, start, stop in pieces:
                size = min(stop - start, TEXT_TOKENS - done)
                file.seek(pointers[sequence] + 2 * start)
                file.write(text[done : done + size].tobytes())
                done += size
                if done == TEXT_TOKENS:
                    break
        file.flush()
        os.fsync(file.fileno())
    took = time.perf_counter() - begin
    copy.unlink()
    return took


def single(prefix: Path, samples: list[list[tuple[int, int, int]]]) -> tuple[float, float]:
    """Median seconds of one durable edit (planned, journalled, applied) and of one preview."""
    texts = np.random.default_rng(4).integers(0, 50_000, (len(samples), TEXT_TOKENS)).astype(np.uint16)
    edits, previews = [], []
    with open_journal(prefix, write=True, author="bench") as journal:
        for pieces, text in zip(samples, texts, strict=True):
            begin = time.perf_counter()
            planned = plan(journal, [pieces], text[None])
            journal.preview(planned).read_spans(*flat([pieces]))
            middle = time.perf_counter()
            journal.record(plan(journal, [pieces], text[None]), reason="one")
            journal.apply()
            edits.append(time.perf_counter() - middle)
            previews.append(middle - begin)
        journal.unapply()
    return float(np.median(edits)), float(np.median(previews))


def view_reads(prefix: Path, store: TokenStore, rounds: int) -> Record:
    """Random samples through a view of 100,000 edits against the bare set."""
    rng = np.random.default_rng(5)
    num_edits = min(VIEW_EDITS, store.num_sequences // 2)
    long = np.flatnonzero(np.asarray(store.lengths) >= TEXT_TOKENS)
    sequences = np.sort(rng.choice(long, num_edits, replace=False))
    starts = rng.integers(0, store.lengths[sequences] - TEXT_TOKENS + 1)
    counts = np.full(num_edits, TEXT_TOKENS)
    old, _ = store.read_spans(sequences, starts, counts)
    new = rng.integers(0, 50_000, len(old)).astype(np.uint16)
    with open_journal(prefix, write=True, author="bench") as journal:
        journal.record(Spans.from_columns(sequences, starts, old, counts, new, counts, np.uint16))
        view = journal.view()
        spans = flat(draw_samples(store, 10_000, 6))
        assert not np.array_equal(view.read_spans(*spans)[0], store.read_spans(*spans)[0])
        ours, bare = best_of([lambda: view.read_spans(*spans), lambda: store.read_spans(*spans)], rounds)
    return rate(f"view with {num_edits:,} edits vs the bare set", 10_000, ours, bare, "samples/s")


def fresh(prefix: Path) -> None:
    shutil.rmtree(prefix.parent / "journal", ignore_errors=True)


def main() -> None:
    args = options(__doc__, dir="/tmp/typecase-bench")
    folder = Path(args.dir)
    folder.mkdir(parents=True, exist_ok=True)
    prefix = make_set(folder, 100_000 if args.quick else 1_000_000)
    rounds = 5
    with open_tokens(prefix) as store:
        samples = draw_samples(store, NUM_EDITS, 1)
        fresh(prefix)
        seconds(lambda: in_place(prefix, samples[:1_000]))  # compiles the kernels
        times = []
        for _ in range(rounds):
            fresh(prefix)
            times.append((in_place(prefix, samples), peer(prefix, samples, store)))
        ours, theirs = (min(column) for column in zip(*times, strict=True))
        edit, preview = single(prefix, draw_samples(store, 100, 2))
        fresh(prefix)
        records = [
            rate("in place vs a buffered file, no journal", NUM_EDITS, ours, theirs, "edits/s"),
            rate("in place vs TokenSmith as published", NUM_EDITS, ours, NUM_EDITS / PUBLISHED_EDITS_PER_SECOND, "edits/s"),
            cost("one durable edit vs the 20 ms aimed at", edit * 1e3, 20.0, "ms"),
            cost("one preview vs the 10 ms aimed at", preview * 1e3, 10.0, "ms"),
            view_reads(prefix, store, rounds),
        ]
        notes = [
            f"{os.cpu_count()} cores; {store.num_documents:,} documents, {store.num_tokens:,} tokens; batches of {BATCH:,}"
        ]
        fresh(prefix)
    report(records, as_json=args.json, notes=notes)


if __name__ == "__main__":
    main()
