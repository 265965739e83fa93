"""Keyed noise: a random number that belongs to a document, not to the moment it is drawn.

    noise(seed, purpose, document)  =  Gumbel( mix of (derived seed, first 8 id bytes, last 8 id bytes) )

No generator has a state, so the order of documents, the number of shards and of workers cannot matter. The mix is the
64-bit finaliser of splitmix64 (Steele, Lea, Flood 2014), chained three times. Logarithms are computed here from
IEEE additions, multiplications and divisions alone, because the `log` of C libraries differs in the last bit between
platforms and one bit can swap two documents.

Price: 30 ns a document for one Gumbel number.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numba import njit
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S12, _S52 = (np.uint64(n) for n in (27, 30, 31, 12, 52))
_MANTISSA = np.uint64((1 << 52) - 1)
_ONE = np.uint64(0x3FF0000000000000)
_SIGN = np.uint64(1 << 63)
_SQRT2 = 1.4142135623730951
_LN2 = 0.6931471805599453
_TWO54 = 18014398509481984.0


def derive_seed(seed: int, purpose: str) -> int:
    """The 64-bit seed of one purpose: draws for different purposes are independent, and seed + 1 is another seed."""
    return int.from_bytes(blake2b(f"{seed}\0{purpose}".encode(), digest_size=8).digest(), "little")


def id_words(ids: U8) -> tuple[U64, U64]:
    """The two halves of raw document ids, uint8 (docs, 16), as big-endian words: (hi, lo) sorts as the hex ids do."""
    words = np.ascontiguousarray(ids).view(">u8")
    return words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)


def raw_ids(doc_ids: list[str]) -> U8:
    """Document ids of 32 hex digits as raw bytes, uint8 (docs, 16)."""
    return np.frombuffer(bytes.fromhex("".join(doc_ids)), np.uint8).reshape(-1, 16)


def hash_ids(ids: U8, *, seed: int, purpose: str) -> U64:
    """A uniform 64-bit number for every document of `ids`, uint8 (docs, 16)."""
    return hash_many(*id_words(ids), derive_seed(seed, purpose))


def hash_many(hi: U64, lo: U64, derived: int) -> U64:
    """`hash_ids` of the words of `id_words`, under a seed that `derive_seed` gave."""
    words: U64 = _hash_many(hi, lo, np.uint64(derived))
    return words


def gumbel_noise(ids: U8, *, seed: int, purpose: str) -> F64:
    """Standard Gumbel noise for every document: the largest of score + noise is a draw from softmax(score)."""
    noise: F64 = _gumbel_many(hash_ids(ids, seed=seed, purpose=purpose))
    return noise


_DIGEST_SEEDS = (np.uint64(derive_seed(0, "digest 0")), np.uint64(derive_seed(0, "digest 1")))


@dataclass(frozen=True, slots=True)
class Digest:
    """A set of documents as two 64-bit sums of hashes: independent of order, and digests of disjoint sets add up."""

    first: int = 0
    second: int = 0

    @classmethod
    def of(cls, hi: U64, lo: U64, kept: NDArray[np.bool_]) -> Digest:
        first, second = _sums(hi, lo, kept, *_DIGEST_SEEDS)
        return cls(int(first), int(second))

    def __add__(self, other: Digest) -> Digest:
        return Digest((self.first + other.first) % (1 << 64), (self.second + other.second) % (1 << 64))

    def __str__(self) -> str:
        return f"{self.first:016x}{self.second:016x}"


@njit(cache=True, nogil=True, inline="always")
def mix(z: np.uint64) -> np.uint64:
    """The finaliser of splitmix64: a bijection of 64-bit words that looks random."""
    z = (z ^ (z >> _S30)) * _MIX_A
    z = (z ^ (z >> _S27)) * _MIX_B
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True, inline="always")
def hash_words(hi: np.uint64, lo: np.uint64, seed: np.uint64) -> np.uint64:
    """The 64-bit number of the document (hi, lo) under a derived seed."""
    return mix(mix(mix(seed + _STEP) ^ hi) ^ lo)


@njit(cache=True, nogil=True)
def log_exact(x: float) -> float:
    """The natural logarithm of a finite x > 0, the same bits on every platform; within 2 units of the last place.

    x = m * 2**e with m in [1/sqrt 2, sqrt 2]; log m = 2 artanh((m - 1) / (m + 1)) by its power series.
    """
    shift = 0
    if x < 2.2250738585072014e-308:
        x *= _TWO54
        shift = 54
    word = np.float64(x).view(np.uint64)
    e = np.int64(word >> _S52) - 1023 - shift
    m = np.uint64((word & _MANTISSA) | _ONE).view(np.float64)
    if m > _SQRT2:
        m *= 0.5
        e += 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 0.0
    for k in (23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3):
        p = (p + 1.0 / k) * z
    return e * _LN2 + 2.0 * (s + s * p)


@njit(cache=True, nogil=True)
def gumbel_of(word: np.uint64) -> float:
    """A uniform word as standard Gumbel noise; u keeps 52 bits and lies strictly between 0 and 1."""
    u = (np.float64(word >> _S12) + 0.5) * 2.220446049250313e-16
    return -log_exact(-log_exact(u))


@njit(cache=True, nogil=True, inline="always")
def rank_of(key: float) -> np.uint64:
    """A key as a word that rises as the key falls: what is taken first comes first. -0.0 ranks as 0.0."""
    word = np.float64(key + 0.0).view(np.uint64)
    if word & _SIGN:
        return word
    return ~(word | _SIGN)


@njit(cache=True, nogil=True)
def _hash_many(hi: U64, lo: U64, seed: np.uint64) -> U64:
    out = np.empty(hi.size, np.uint64)
    for i in range(hi.size):
        out[i] = hash_words(hi[i], lo[i], seed)
    return out


@njit(cache=True, nogil=True)
def _gumbel_many(words: U64) -> F64:
    out = np.empty(words.size, np.float64)
    for i in range(words.size):
        out[i] = gumbel_of(words[i])
    return out


@njit(cache=True, nogil=True)
def _sums(hi: U64, lo: U64, kept: NDArray[np.bool_], seed_a: np.uint64, seed_b: np.uint64) -> tuple[np.uint64, np.uint64]:
    a, b = np.uint64(0), np.uint64(0)
    for i in range(hi.size):
        if kept[i]:
            a += hash_words(hi[i], lo[i], seed_a)
            b += hash_words(hi[i], lo[i], seed_b)
    return a, b
