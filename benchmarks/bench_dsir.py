"""DSIR log-weights: hashed words and pairs of the same English text, a few MB; one core each.

    python benchmarks/bench_dsir.py [--quick] [--json] [--package FOLDER]

    naive      the definition as published: WordPunct tokens by a regular expression, SHA-256 of each word and each pair
    package    `data-selection` 1.0.3, where --package names a folder that `pip install --no-deps --target` put it and nltk in
    sha256     ours, the same buckets: a feature is hashed once and remembered
    fast       ours, other buckets

Checked first: by SHA-256 the log-weights of all agree to 1e-6.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
from collections.abc import Callable

import numpy as np
from corpus import texts as real_texts
from measure import Record, best_of, options, rate, report

from typecase.core.selection.importance import BUCKETS, Hashing, features_of, log_ratio_of

Featurizer = Callable[[str], np.ndarray]


def naive(text: str) -> np.ndarray:
    """Counts of buckets, int64 (buckets,)."""
    words = re.findall(r"\w+|[^\w\s]+", text.lower())
    counts = np.zeros(BUCKETS, np.int64)
    for word in words:
        counts[int(hashlib.sha256(word.encode()).hexdigest(), 16) % BUCKETS] += 1
    for one, two in itertools.pairwise(words):
        counts[int(hashlib.sha256(f"{one} {two}".encode()).hexdigest(), 16) % BUCKETS] += 1
    return counts


def published(folder: str) -> Featurizer:
    sys.path.insert(0, folder)
    from data_selection.hashed_ngram_dsir import get_ngram_counts

    return lambda text: get_ngram_counts(text, n=2, num_buckets=BUCKETS)


def weights_of(featurizer: Featurizer, texts: list[str], ratio: np.ndarray) -> np.ndarray:
    return np.array([ratio @ featurizer(text) for text in texts])


def ours(texts: list[str], ratio: np.ndarray, hashing: Hashing) -> np.ndarray:
    data = [(text.lower() if hashing == "fast" else text).encode() for text in texts]
    offsets = np.cumsum([0, *map(len, data)]).astype(np.int64)
    return features_of(np.frombuffer(b"".join(data), np.uint8), offsets, hashing).log_weights(ratio)


def main() -> None:
    args = options(__doc__, package="")
    texts = real_texts((1 if args.quick else 6) << 20)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    target = sum((naive(text) for text in texts[: len(texts) // 10]), np.zeros(BUCKETS, np.int64))
    ratio = log_ratio_of(target, sum((naive(text) for text in texts), np.zeros(BUCKETS, np.int64)))
    peers: dict[str, Featurizer] = {"naive": naive} | ({"package": published(args.package)} if args.package else {})
    for featurizer in peers.values():
        np.testing.assert_allclose(ours(texts, ratio, "sha256"), weights_of(featurizer, texts, ratio), rtol=0, atol=1e-6)
    ours(texts[:1], ratio, "fast")
    records: list[Record] = []
    for name, featurizer in peers.items():
        for hashing in ("fast", "sha256"):
            kind: Hashing = "fast" if hashing == "fast" else "sha256"

            def run(kind: Hashing = kind) -> object:
                return ours(texts, ratio, kind)

            def peer(featurizer: Featurizer = featurizer) -> object:
                return weights_of(featurizer, texts, ratio)

            mine, theirs = best_of([run, peer], 1 if args.quick else 3)
            records.append(rate(f"{hashing} vs {name}", megabytes, mine, theirs, "MB/s"))
    report(records, as_json=args.json, notes=[f"{megabytes:.1f} MB in {len(texts):,} texts, one core"])


if __name__ == "__main__":
    main()
