"""Importance: how much more like a target a document is than like the corpus (DSIR, Xie et al. 2023, arXiv 2302.03169).

    lower-cased text     "the cat sat!"
    words                the | cat | sat | !              runs of word characters, runs of other visible ones
    features             4 words and 3 pairs, each in one of 10,000 buckets by a hash
    log-weight           sum over features of log(target share + 1e-8) - log(corpus share + 1e-8) of their bucket

Counts of buckets add up, so parts of a corpus in any order come to the same distribution.

    sha256   the bucket is SHA-256 of the word, or of "word word", modulo the buckets: the published definition, to the bit
    fast     words are hashed as they are read and pairs from the hashes of their words: other buckets, the same statistics

A log-weight grows with the length of its document: at a thousand words chance hardly matters any more, and long documents
win or lose by their length. `per word` is the log-weight divided by the words.

Price: 100 MB/s and more in fast mode, 5 to 10 MB/s by SHA-256, where a word is hashed once and remembered.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from typecase.core.selection.keys import mix
from typecase.core.utf8 import code_at

U8 = NDArray[np.uint8]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

Hashing = Literal["fast", "sha256"]
BUCKETS = 10_000
SMALL = 1e-8
"""Added to every share before its logarithm, as published."""

_WORDS = re.compile(r"\w+|[^\w\s]+")
_REMEMBERED = 1 << 20
_BLANK, _WORD, _OTHER = 0, 1, 2
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_PAIR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Features:
    """Bucket of every feature of some texts, end to end: text i is buckets[ends[i - 1]:ends[i]], words first or mixed.

    buckets   int32 (features,)
    ends      int64 (texts,)
    words     int64 (texts,)
    """

    buckets: NDArray[np.int32]
    ends: I64
    words: I64

    def counts(self, num_buckets: int = BUCKETS) -> I64:
        """How often each bucket occurs, int64 (buckets,)."""
        return np.bincount(self.buckets, minlength=num_buckets).astype(np.int64)

    def log_weights(self, log_ratio: F64) -> F64:
        """Sum of log_ratio[bucket] over the features of each text, float64 (texts,)."""
        out = np.zeros(len(self.ends))
        _add_up(self.buckets, self.ends, log_ratio, out)
        return out


def log_ratio_of(target: I64, corpus: I64) -> F64:
    """log(target share + 1e-8) - log(corpus share + 1e-8) of every bucket, float64 (buckets,), from counts.

    A side without any count has shares of zero.
    """
    shares = [counts / max(1, int(counts.sum())) for counts in (target, corpus)]
    ratio: F64 = np.log(shares[0] + SMALL) - np.log(shares[1] + SMALL)
    return ratio


def features_of(values: U8, offsets: I64, hashing: Hashing = "fast", num_buckets: int = BUCKETS) -> Features:
    """The features of the texts values[offsets[i]:offsets[i + 1]], UTF-8; lower-cased by the caller in fast mode."""
    if hashing == "sha256":
        data = values.tobytes()
        return sha_features([data[a:b].decode() for a, b in itertools.pairwise(offsets)], num_buckets)
    size = int(offsets[-1] - offsets[0])
    buckets = np.empty(2 * size, np.int32)
    ends, words = np.empty(len(offsets) - 1, np.int64), np.empty(len(offsets) - 1, np.int64)
    num = _read(values, offsets.astype(np.int64), classes(), num_buckets, buckets, ends, words)
    return Features(buckets[:num], ends, words)


def sha_features(texts: Sequence[str], num_buckets: int = BUCKETS) -> Features:
    """Features by the published definition."""
    buckets: list[int] = []
    ends, words = np.empty(len(texts), np.int64), np.empty(len(texts), np.int64)
    bucket_of = _sha_buckets(num_buckets)
    for i, text in enumerate(texts):
        found = _WORDS.findall(text.lower())
        buckets += map(bucket_of, found)
        buckets += map(bucket_of, map(" ".join, itertools.pairwise(found)))
        ends[i], words[i] = len(buckets), len(found)
    return Features(np.array(buckets, np.int32), ends, words)


@functools.cache
def _sha_buckets(num_buckets: int) -> functools._lru_cache_wrapper[int]:
    @functools.lru_cache(maxsize=_REMEMBERED)
    def bucket_of(feature: str) -> int:
        return int.from_bytes(hashlib.sha256(feature.encode()).digest(), "big") % num_buckets

    return bucket_of


@functools.cache
def classes() -> U8:
    """Class of every character: blank, word or other, uint8 (0x110000,), as Python's `\\\\s` and `\\\\w` have it."""
    table = np.full(sys.maxunicode + 1, _OTHER, np.uint8)
    every = "".join(chr(c) if not 0xD800 <= c < 0xE000 else "." for c in range(sys.maxunicode + 1))
    for kind, pattern in ((_WORD, r"\w+"), (_BLANK, r"\s+")):
        for found in re.finditer(pattern, every):
            table[found.start() : found.end()] = kind
    return table


@njit(cache=True, nogil=True)
def _add_up(buckets: NDArray[np.int32], ends: I64, log_ratio: F64, out: F64) -> None:
    start = 0
    for i in range(ends.size):
        total = 0.0
        for j in range(start, ends[i]):
            total += log_ratio[buckets[j]]
        out[i] = total
        start = ends[i]


@njit(cache=True, nogil=True)
def _read(values: Any, offsets: Any, table: Any, num_buckets: int, buckets: Any, ends: Any, words: Any) -> Any:
    """Writes the buckets of words and of pairs as they are met; returns how many."""
    n = 0
    modulo = np.uint64(num_buckets)
    for t in range(offsets.size - 1):
        at, stop = offsets[t], offsets[t + 1]
        kind, before, num = np.int64(_BLANK), np.uint64(0), 0
        key = _BASIS
        while at <= stop:
            code, size, now = np.int64(0), np.int64(1), np.int64(_BLANK)
            if at < stop:
                code = np.int64(values[at])
                if code >= 128:
                    code, size = code_at(values, at, stop)
                now = np.int64(table[code])
            if now != kind:
                if kind != _BLANK:
                    word = mix(key)
                    buckets[n] = word % modulo
                    n += 1
                    if num:
                        buckets[n] = mix(mix(before + _PAIR) ^ word) % modulo
                        n += 1
                    before = word
                    num += 1
                kind, key = now, _BASIS
            if now != _BLANK:
                key = (key ^ np.uint64(code)) * _PRIME
            at += size
        ends[t], words[t] = n, num
    return n
