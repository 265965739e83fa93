"""Order: building the sample order of a training run, reading 10,000 samples by it, and finding what reads a text.

    python benchmarks/bench_order.py --dir /tmp/bench            10^8 sequences, 10^11 tokens; 10 M samples; a set of 1 GB
    python benchmarks/bench_order.py --dir /tmp/bench --quick    10^6, 10^9; 1 M; 64 MB

Builds run in a process each, on lengths that are in memory before; memory is the most that the build takes beyond that. Peers:

    megatron-core       its own functions in the order of GPTDataset: document index, compiled sample index, shuffle index
    gpt-neox            the same with one shuffle over all epochs, as its dataset builds them; its compiled helper is not in a
                        package, so the one of megatron-core, of the same code, stands in

All arrays must be equal before a figure counts. Samples are read through order files that are mapped, and their tokens out of
a token set. Peers read the same pieces: `numpy loop` slices a typed memory map piece by piece; `one copy` copies as many bytes
in one stretch and knows no order at all. TokenSmith (arXiv 2507.19419) reports 1,540 samples of 2,048 tokens a second on a
machine of its own: that line is a reference, not a measurement.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from bench_reads import PUBLISHED_SAMPLES_PER_SECOND, make_set
from measure import Record, best_of, cost, options, rate, report

from typecase.core.order.megatron import MegatronOrder
from typecase.core.order.neox import NeoxOrder
from typecase.core.order.order import Reads
from typecase.core.order.tables import Tables
from typecase.store.tokens.store import TokenStore, open_tokens

MEAN_TOKENS = 1000
SEQUENCE_LENGTH = 2048
SEED = 1234
NUM_READS = 10_000
STEP_SAMPLES = 1024
LIMIT_SECONDS = 0.05
"""What a look into a cached order of 10 M samples may take."""

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def lengths_of(num_sequences: int) -> np.ndarray:
    return np.random.default_rng(7).integers(1, 2 * MEAN_TOKENS, num_sequences, np.int32)


# --- building: one process a build ---


def ours_megatron(lengths: np.ndarray) -> Arrays:
    laid = MegatronOrder(sequence_length=SEQUENCE_LENGTH, random_seed=SEED, split=None).lay(lengths)
    return laid.sequences, laid.rows, laid.shuffle


def ours_neox(lengths: np.ndarray) -> Arrays:
    asked = int(lengths.sum(dtype=np.int64)) * 3 // 2 // SEQUENCE_LENGTH
    laid = NeoxOrder(seq_length=SEQUENCE_LENGTH, seed=SEED, split="1", num_samples=asked).lay(lengths)
    return laid.sequences, laid.rows, laid.shuffle


def peer(lengths: np.ndarray, epochs: int) -> Arrays:
    """The steps of GPTDataset._build_document_sample_shuffle_indices without a separate last epoch."""
    gpt, helpers = _megatron()
    indices = np.arange(len(lengths), dtype=np.int32)
    tokens = int(np.sum(lengths[indices]))
    random = np.random.RandomState(SEED)
    documents = gpt._build_document_index(indices, epochs, random, False)
    rows = helpers.build_sample_idx(lengths.copy(), documents, SEQUENCE_LENGTH, epochs, tokens, True, True)
    return documents, rows, gpt._build_shuffle_index(len(rows) - 1, len(rows) - 1, random)


def _megatron() -> tuple[Any, Any]:
    with warnings.catch_warnings(action="ignore"):
        from megatron.core.datasets import gpt_dataset, helpers
    return gpt_dataset, helpers


BUILDS: dict[str, Callable[[np.ndarray], Arrays]] = {
    "ours-megatron": ours_megatron,
    "ours-neox": ours_neox,
    "peer-megatron": lambda lengths: peer(lengths, 1),
    "peer-neox": lambda lengths: peer(lengths, 2),
}


def _resident(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) << 10


def child(name: str, num_sequences: int) -> None:
    """Prints seconds, peak bytes and a digest of one build."""
    build = BUILDS[name]
    build(lengths_of(1000))  # imports and compiled kernels
    lengths = lengths_of(num_sequences)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, begin = _resident("VmRSS"), time.perf_counter()
    arrays = build(lengths)
    seconds, peak = time.perf_counter() - begin, _resident("VmHWM") - before
    digests = [xxhash.xxh3_64_hexdigest(np.ascontiguousarray(array).data) for array in arrays]
    print(json.dumps({"seconds": seconds, "peak": peak, "digests": digests}))


def built(name: str, num_sequences: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", f"{name}:{num_sequences}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_builds(framework: str, num_sequences: int, rounds: int) -> list[Record]:
    """Ours and the peer in turn, the best of each."""
    runs = [(built(f"ours-{framework}", num_sequences), built(f"peer-{framework}", num_sequences)) for _ in range(rounds)]
    assert all(ours["digests"] == theirs["digests"] for ours, theirs in runs)
    ours, theirs = (min(run[side]["seconds"] for run in runs) for side in (0, 1))
    name = f"{framework}, {num_sequences:,} sequences"
    return [
        rate(f"{name}, build", num_sequences, ours, theirs, "sequences/s"),
        cost(f"{name}, memory", *(min(run[side]["peak"] for run in runs) / 1e6 for side in (0, 1)), "MB"),
    ]


# --- looking: through order files ---


def cached(laid: Tables, folder: Path) -> Tables:
    """`laid`, its arrays mapped from files, as a training run finds them."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("sequences", "rows", "shuffle")
    for name in names:
        np.save(folder / f"{name}.npy", getattr(laid, name))
    return replace(laid, **{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names})


def read_tokens(reads: Reads, store: TokenStore) -> np.ndarray:
    pieces = reads.packing
    return store.read_spans(pieces.docs, pieces.starts, pieces.stops - pieces.starts)[0]


def numpy_loop(reads: Reads, data: np.ndarray, pointers: np.ndarray) -> list[np.ndarray]:
    pieces = reads.packing
    begins, sizes = pointers[pieces.docs] + pieces.starts, pieces.stops - pieces.starts
    return [np.array(data[b : b + n]) for b, n in zip(begins.tolist(), sizes.tolist(), strict=True)]


def measure_reads(prefix: Path, folder: Path, rounds: int) -> list[Record]:
    """NUM_READS random training indices, from index to tokens."""
    store = open_tokens(prefix)
    data = np.memmap(prefix.with_suffix(".bin"), np.uint16, "r")
    pointers = np.array(store.pointers) // 2
    laid = cached(MegatronOrder(sequence_length=SEQUENCE_LENGTH, split=None).lay(store.lengths), folder)
    asked = np.random.default_rng(11).integers(0, laid.num_samples, NUM_READS)
    reads = laid.reads(asked)
    tokens = read_tokens(reads, store)
    assert np.array_equal(np.concatenate(numpy_loop(reads, data, pointers)), tokens)
    stretch = np.resize(data, len(tokens))
    ours, loop, copy = best_of(
        [
            lambda: read_tokens(laid.reads(asked), store),
            lambda: numpy_loop(laid.reads(asked), data, pointers),
            lambda: np.array(stretch),
        ],
        rounds,
    )
    published = NUM_READS / PUBLISHED_SAMPLES_PER_SECOND
    name = f"{NUM_READS:,} samples of {SEQUENCE_LENGTH:,}"
    peers = {"TokenSmith as published": published, "numpy loop over the same pieces": loop, "one copy of as many bytes": copy}
    return [rate(f"{name} vs {kind}", NUM_READS, ours, seconds, "samples/s") for kind, seconds in peers.items()]


def measure_looks(num_samples: int, folder: Path, rounds: int) -> list[Record]:
    """A step of a cached order, and where one text, or eight, are read."""
    lengths = lengths_of(num_samples * 2)
    order = MegatronOrder(sequence_length=SEQUENCE_LENGTH, split=None, num_samples=num_samples * 19 // 20)
    laid = cached(order.lay(lengths), folder)
    rng = np.random.default_rng(3)
    step = np.arange(STEP_SAMPLES) + num_samples // 2
    one, eight = rng.integers(0, len(lengths), 1), rng.integers(0, len(lengths), 8)
    assert len(laid.sightings(eight, [0] * 8, [64] * 8).indices)
    looks = best_of(
        [
            lambda: laid.reads(step),
            lambda: laid.sightings(one, [0], [64]),
            lambda: laid.sightings(eight, [0] * 8, [64] * 8),
        ],
        rounds,
    )
    names = (f"trace at {STEP_SAMPLES:,} indices", "sightings of one text", "sightings of eight texts")
    return [
        cost(f"{name}, {laid.num_samples:,} samples, vs limit", seconds, LIMIT_SECONDS, "s")
        for name, seconds in zip(names, looks, strict=True)
    ]


def main() -> None:
    args = options(__doc__, dir="/tmp/typecase-bench", child="")
    if args.child:
        name, _, count = args.child.partition(":")
        child(name, int(count))
        return
    folder, rounds = Path(args.dir) / "order", 2 if args.quick else 3
    size = 10**6 if args.quick else 10**8
    records = measure_builds("megatron", size, rounds) + measure_builds("neox", size // 2, rounds)
    prefix = make_set(Path(args.dir), (1 << 26) if args.quick else 1 << 30)
    records += measure_reads(prefix, folder / "reads", 5 if args.quick else 15)
    records += measure_looks(10**6 if args.quick else 10**7, folder / "looks", 5 if args.quick else 15)
    notes = [f"{os.cpu_count()} cores; peers that give the same arrays; gpt-neox walks its sequences twice"]
    report(records, as_json=args.json, notes=notes)


if __name__ == "__main__":
    main()
