"""Sketches: shingles of words, their minima under many permutations, and a key for each band of minima.

    words       the  quick  brown  fox  jumps  over
    shingles   (the … jumps) (quick … over)                     5 words each, hashed to 64 bits
    signature   minimum over shingles of (a_p x + b_p) mod 2^32, for every p      x: the upper half of a shingle's hash
    keys        hash of rows 0-5 of the signature, of rows 6-11, …                one for each band

Two documents with Jaccard similarity s (shared shingles over all distinct ones) have the same key in a given band with
probability s^rows, so they meet in at least one of the bands with 1 - (1 - s^rows)^bands (Leskovec, Rajaraman, Ullman:
Mining of Massive Datasets, 3.4). `scheme_for` takes the longest bands that still let RECALL of the pairs at the
threshold meet; meeting decides nothing, see `keepers`.

Price: 128 permutations at most; 50 million shingles a second and core at 96 of them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from typecase.core.minhash.words import I64, U8, U32, U64, hash_words, lower_table
from typecase.core.selection.keys import mix
from typecase.core.words import classes
from typecase.errors import FixInput

RECALL = 0.99
PERMUTATIONS = 128
LEAST, MOST = 0.3, 1.0
SHINGLE = 5
MIN_SHINGLES = 16

_RADIX = np.uint64(0x9E3779B97F4A7C15)
_SEED = 0x6D696E68


@dataclass(frozen=True, slots=True)
class Scheme:
    """`bands` keys of `rows` minima each."""

    bands: int
    rows: int

    def recall(self, similarity: float) -> float:
        """The chance that two documents of that similarity meet in a band."""
        return float(1.0 - (1.0 - similarity**self.rows) ** self.bands)

    @property
    def permutations(self) -> int:
        return self.bands * self.rows


def scheme_for(threshold: float) -> Scheme:
    """The longest bands that bring RECALL at `threshold` with PERMUTATIONS or fewer. Raises FixInput outside 0.3 to 1."""
    if not LEAST <= threshold <= MOST:
        raise FixInput(
            f"near duplicates need a similarity from {LEAST} to {MOST:g}, got {threshold:g}: below it, bands that find all"
            " pairs find nearly everything"
        )
    best = Scheme(PERMUTATIONS, 1)
    for rows in range(1, 17):
        meets = threshold**rows
        bands = 2 if meets >= 1.0 else math.ceil(math.log(1.0 - RECALL) / math.log(1.0 - meets))
        if bands * rows <= PERMUTATIONS:
            best = Scheme(max(2, bands), rows)
    return best


@functools.cache
def permutations(num: int) -> tuple[U32, U32]:
    """Odd factors and summands of `num` permutations of 32-bit numbers: always the same."""
    rng = np.random.default_rng(_SEED)
    factors = rng.integers(1 << 8, 1 << 31, PERMUTATIONS * 2, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    summands = rng.integers(0, 1 << 32, PERMUTATIONS * 2, dtype=np.uint32)
    return factors[:num], summands[:num]


def sketch_texts(values: U8, offsets: I64, wanted: Any, scheme: Scheme, shingle: int = SHINGLE) -> tuple[U64, I64]:
    """Keys uint64 (rows, bands) and the number of shingles int64 (rows,) of the texts `values[offsets[i]:offsets[i + 1]]`.

    Rows that are not `wanted`, bool (rows,), and those of fewer than MIN_SHINGLES shingles have keys of 0.
    """
    rows = len(offsets) - 1
    keys, counts = np.zeros((rows, scheme.bands), np.uint64), np.zeros(rows, np.int64)
    longest = int(np.diff(offsets).max(initial=0))
    words = np.empty(longest, np.uint64)
    factors, summands = permutations(scheme.permutations)
    _sketch(values, offsets, wanted, classes(), lower_table(), shingle, words, factors, summands, scheme.rows, keys, counts)
    return keys, counts


def shingles_of(text: str, shingle: int = SHINGLE) -> U64:
    """Hashes of all shingles of a text in their order."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    return shingle_texts(data, np.array([0, len(data)], np.int64), np.ones(1, np.bool_), shingle)[0]


def shingle_texts(values: U8, offsets: I64, wanted: Any, shingle: int = SHINGLE) -> tuple[U64, I64]:
    """Shingles of the wanted texts in order, end to end uint64, and how many each row has, int64 (rows,)."""
    sizes = np.where(wanted, np.diff(offsets), 0)
    words = np.empty(int(sizes.max(initial=0)), np.uint64)
    counts = np.zeros(len(sizes), np.int64)
    out = np.empty(int(sizes.sum()), np.uint64)
    total = _shingle(values, offsets, wanted, classes(), lower_table(), shingle, words, out, counts)
    return out[:total], counts


def keys_of(shingles: U64, scheme: Scheme) -> U64:
    """The keys uint64 (bands,) of one set of shingles."""
    factors, summands = permutations(scheme.permutations)
    keys = np.empty(scheme.bands, np.uint64)
    fill_keys(shingles, len(shingles), factors, summands, scheme.rows, np.empty(len(factors), np.uint32), keys)
    return keys


def sketch_sets(sets: U64, ends: I64, scheme: Scheme) -> U64:
    """Keys uint64 (documents, bands) of sets of shingles laid end to end, document i at sets[ends[i]:ends[i + 1]]."""
    factors, summands = permutations(scheme.permutations)
    keys = np.zeros((len(ends) - 1, scheme.bands), np.uint64)
    _sketch_sets(sets, ends, factors, summands, scheme.rows, keys)
    return keys


@njit(cache=True, nogil=True)
def _sketch_sets(sets: Any, ends: Any, factors: Any, summands: Any, rows: int, keys: Any) -> None:
    minima = np.empty(len(factors), np.uint32)
    for i in range(len(keys)):
        fill_keys(sets[ends[i] : ends[i + 1]], ends[i + 1] - ends[i], factors, summands, rows, minima, keys[i])


@njit(cache=True, nogil=True)
def _sketch(
    values: Any,
    offsets: Any,
    wanted: Any,
    table: Any,
    lower: Any,
    shingle: int,
    words: Any,
    factors: Any,
    summands: Any,
    rows: int,
    keys: Any,
    counts: Any,
) -> None:
    nowhere = np.empty(0, np.int64)
    minima = np.empty(len(factors), np.uint32)
    for i in range(len(counts)):
        if wanted[i]:
            num = hash_words(values, offsets[i], offsets[i + 1], table, lower, words, nowhere, nowhere)
            counts[i] = _join(words, num, shingle, words)
            if counts[i] >= MIN_SHINGLES:
                fill_keys(words, counts[i], factors, summands, rows, minima, keys[i])


@njit(cache=True, nogil=True)
def _shingle(
    values: Any, offsets: Any, wanted: Any, table: Any, lower: Any, shingle: int, words: Any, out: Any, counts: Any
) -> int:
    nowhere = np.empty(0, np.int64)
    at = 0
    for i in range(len(counts)):
        if wanted[i]:
            num = hash_words(values, offsets[i], offsets[i + 1], table, lower, words, nowhere, nowhere)
            counts[i] = _join(words, num, shingle, out[at:])
            at += counts[i]
    return at


@njit(cache=True, nogil=True)
def _join(words: Any, num: int, shingle: int, out: Any) -> int:
    """Hashes every run of `shingle` words into `out`, which may be `words` itself: a place is read before it is written."""
    if num < shingle:
        return 0
    top = np.uint64(1)
    for _ in range(shingle):
        top *= _RADIX
    rolled = np.uint64(0)
    for j in range(shingle):
        rolled = rolled * _RADIX + words[j]
    for i in range(num - shingle + 1):
        first = words[i]
        out[i] = mix(rolled)
        if i + shingle < num:
            rolled = rolled * _RADIX + words[i + shingle] - first * top
    return num - shingle + 1


@njit(cache=True, nogil=True)
def fill_keys(shingles: Any, num: int, factors: Any, summands: Any, rows: int, minima: Any, keys: Any) -> None:
    """The keys of the first `num` shingles; `minima` is room for the signature."""
    minima[:] = np.uint32(0xFFFFFFFF)
    for i in range(num):
        x = np.uint32(shingles[i] >> np.uint64(32))
        for p in range(len(minima)):
            minima[p] = min(minima[p], np.uint32(np.uint32(x * factors[p]) + summands[p]))
    for band in range(len(keys)):
        key = np.uint64(band)
        for r in range(rows):
            key = mix(key ^ np.uint64(minima[band * rows + r]))
        keys[band] = key
