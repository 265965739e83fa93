"""Reading: 10,000 random documents and 10,000 random spans of 2,048 tokens out of a token set, each in one call.

    python benchmarks/bench_reads.py --dir /tmp/bench            a set of 1 GB, made once and kept there
    python benchmarks/bench_reads.py --dir /tmp/bench --quick    of 64 MB

Peers, on the same files:

    numpy               a loop of slices of a typed memory map, copied
    megatron-core       a loop of IndexedDataset.get, which returns views of its map; copied, as a loader must
    tokensmith-like     a seek and a read of a buffered Python file for every document or span, written for this benchmark

All readers must give the same tokens before they are timed. `cold` means that the page cache is emptied of the set, and
the set opened anew, before every turn; neither is in the time. TokenSmith (arXiv 2507.19419, paper and repository) reports
1,540 samples of 2,048 tokens a second, on a machine of its own: that line is a reference, not a measurement.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measure import Record, best_of, options, rate, report, seconds

from typecase.store.tokens.store import TokenStore, open_tokens
from typecase.store.tokens.writer import TokenSetWriter

PUBLISHED_SAMPLES_PER_SECOND = 1540.0
SPAN_TOKENS = 2048
MEAN_TOKENS = 1000
NUM_READS = 10_000

Spans = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Sequences, first tokens, numbers of tokens."""

Reader = Callable[[Spans], np.ndarray | list[np.ndarray]]


def make_set(folder: Path, size_bytes: int) -> Path:
    """A uint16 set of about `size_bytes`: documents of 1 to 1,999 tokens, every sixteenth 4,096 longer; made once."""
    prefix = folder / f"reads_{size_bytes >> 20}mb"
    if prefix.with_suffix(".idx").exists():
        return prefix
    rng = np.random.default_rng(7)
    with TokenSetWriter(prefix, np.uint16) as writer:
        while writer.num_tokens * 2 < size_bytes:
            lengths = rng.integers(1, 2 * MEAN_TOKENS, 4096)
            lengths[::16] += 2 * SPAN_TOKENS
            writer.append(rng.integers(0, 50_000, int(lengths.sum()), np.uint16), lengths)
    return prefix


def draw_documents(store: TokenStore) -> Spans:
    """NUM_READS whole documents, with repeats."""
    docs = np.random.default_rng(11).integers(0, store.num_documents, NUM_READS)
    return docs, np.zeros(NUM_READS, np.int64), store.document_lengths(docs)


def draw_spans(store: TokenStore) -> Spans:
    """NUM_READS spans of SPAN_TOKENS tokens, each within one document."""
    rng = np.random.default_rng(12)
    sequences = rng.choice(np.flatnonzero(np.asarray(store.lengths) >= SPAN_TOKENS), NUM_READS)
    return sequences, rng.integers(0, store.lengths[sequences] - SPAN_TOKENS + 1), np.full(NUM_READS, SPAN_TOKENS)


def ours(prefix: Path) -> Reader:
    store = open_tokens(prefix)
    return lambda spans: store.read_spans(*spans)[0]


def numpy_loop(prefix: Path) -> Reader:
    data = np.memmap(prefix.with_suffix(".bin"), np.uint16, "r")
    pointers = np.array(open_tokens(prefix).pointers) // 2

    def read(spans: Spans) -> list[np.ndarray]:
        begins = pointers[spans[0]] + spans[1]
        return [np.array(data[b : b + n]) for b, n in zip(begins.tolist(), spans[2].tolist(), strict=True)]

    return read


def file_loop(prefix: Path) -> Reader:
    pointers = np.array(open_tokens(prefix).pointers)

    def read(spans: Spans) -> list[np.ndarray]:
        begins = pointers[spans[0]] + 2 * spans[1]
        out = []
        with prefix.with_suffix(".bin").open("rb") as file:
            for begin, count in zip(begins.tolist(), spans[2].tolist(), strict=True):
                file.seek(begin)
                out.append(np.frombuffer(file.read(2 * count), np.uint16))
        return out

    return read


def megatron_loop(prefix: Path) -> Reader:
    with warnings.catch_warnings(action="ignore"):
        from megatron.core.datasets.indexed_dataset import IndexedDataset
    dataset = IndexedDataset(str(prefix))

    def read(spans: Spans) -> list[np.ndarray]:
        rows = zip(*(column.tolist() for column in spans), strict=True)
        return [np.array(dataset.get(s, offset=b, length=n)) for s, b, n in rows]

    return read


def readers() -> dict[str, Callable[[Path], Reader]]:
    """What is compared, ours first; megatron-core only where it is installed."""
    found = {"ours": ours, "numpy": numpy_loop, "tokensmith-like": file_loop}
    try:
        with warnings.catch_warnings(action="ignore"):
            import megatron.core.datasets.indexed_dataset  # noqa: F401
    except ImportError:
        return found
    return found | {"megatron-core": megatron_loop}


def cold_seconds(prefix: Path, open_reader: Callable[[Path], Reader], spans: Spans, rounds: int) -> float:
    """The shortest of `rounds` reads of a set of which nothing is in memory."""
    times = []
    for _ in range(rounds):
        for suffix in (".bin", ".idx"):
            fd = os.open(prefix.with_suffix(suffix), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        read = open_reader(prefix)
        times.append(seconds(lambda read=read: read(spans)))  # type: ignore[misc]
        del read
    return min(times)


def measure(name: str, prefix: Path, spans: Spans, *, rounds: int) -> list[Record]:
    """Ours against every peer, warm and cold, after all have given the same tokens."""
    opened = readers()
    reads = {kind: open_reader(prefix) for kind, open_reader in opened.items()}
    tokens = reads["ours"](spans)
    assert all(np.array_equal(np.concatenate(read(spans)), tokens) for kind, read in reads.items() if kind != "ours")
    runs = [lambda read=read: read(spans) for read in reads.values()]  # type: ignore[misc]
    warm = dict(zip(reads, best_of(runs, rounds), strict=True))
    del reads, runs
    cold = {kind: cold_seconds(prefix, open_reader, spans, 3) for kind, open_reader in opened.items()}
    peers = [kind for kind in opened if kind != "ours"]
    records = [rate(f"{name} vs {kind}", NUM_READS, warm["ours"], warm[kind], "reads/s") for kind in peers]
    records += [rate(f"{name}, cold vs {kind}", NUM_READS, cold["ours"], cold[kind], "reads/s") for kind in peers]
    published = NUM_READS / PUBLISHED_SAMPLES_PER_SECOND
    return [*records, rate(f"{name} vs TokenSmith as published", NUM_READS, warm["ours"], published, "reads/s")]


def main() -> None:
    args = options(__doc__, dir="/tmp/typecase-bench")
    prefix = make_set(Path(args.dir), (1 << 26) if args.quick else 1 << 30)
    rounds = 5 if args.quick else 15
    with open_tokens(prefix) as store:
        documents, spans = draw_documents(store), draw_spans(store)
    records = measure("documents", prefix, documents, rounds=rounds)[:-1]
    records += measure("2,048-token spans", prefix, spans, rounds=rounds)
    size_bytes = prefix.with_suffix(".bin").stat().st_size
    report(records, as_json=args.json, notes=[f"{os.cpu_count()} cores; {prefix}.bin of {size_bytes:,} bytes"])


if __name__ == "__main__":
    main()
