"""Keepers: documents in keep order, each kept or joined to one that is kept, every join measured.

    order     d0      d1            d2                 d3
    meets     -       d0            d0                 d0 d2
    measured          0.91 >= 0.8   0.55               d0: 0.43, d2: 0.86
    outcome   kept    joins d0      kept               joins d2 at 0.86

A document joins the first kept one, in keep order, that it meets in a bucket and resembles. Nothing is joined through a
third document: every removed one resembles, by measure, the very document that stays. Resembling is

    shared / all distinct shingles >= threshold, of the whole documents, and
    in a crowd (see `crowd`) also shared / all >= threshold * OWN_SHARE of what is each one's own, unless both have hardly any:
    fewer than OWN_LEAST of the shingles of the larger document

so pages that share a long licence and differ in their bodies stay apart. Documents that come later than the first SLOTS kept
ones of a bucket do not find each other there, only in another one: a bucket costs its members times SLOTS at most.

Price: a comparison is one merge of two sorted sets, 2 ns a shingle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.minhash.crowd import own_against
from typecase.core.minhash.words import I64, U64

OWN_SHARE = 0.5
OWN_LEAST = 0.03
SLOTS = 64

_SLACK = 1e-6
"""Rounding may not end a comparison early; the quotient at its end decides."""

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents in keep order, each part laid end to end: document i has x[x_ends[i]:x_ends[i + 1]].

    shingles, frequent   in the order of the text, uint64 and uint8, by `offsets`
    sets                 the distinct ones, rising, by `ends`
    own                  those of its own, rising, by `own_ends`; `crowded`, bool (documents,), says whose are told
    """

    shingles: U64
    frequent: npt.NDArray[np.uint8]
    offsets: I64
    sets: U64
    ends: I64
    own: U64
    own_ends: I64
    crowded: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.crowded)


def number_buckets(keys: U64) -> I32:
    """For one band's keys, uint64 (documents,): the bucket of each, numbered from 0 by rising key; -1 where it is alone."""
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    numbers = np.where(counts > 1, np.cumsum(counts > 1) - 1, -1).astype(np.int32)
    return numbers[inverse.reshape(-1)]


def choose_keepers(candidates: Candidates, buckets: I32, threshold: float) -> tuple[I64, F64, int]:
    """Who each document joins, int64 (documents,), itself when it is kept; the similarity, 1 for itself; comparisons made.

    Document i is in the buckets buckets[i], int32 (documents, bands), -1 for none.
    """
    c = candidates
    texts, sets = (c.shingles, c.frequent, c.offsets), (c.sets, c.ends)
    joined, similarity = np.arange(len(c)), np.ones(len(c))
    compared = _choose(texts, sets, (c.own, c.own_ends, c.crowded), buckets, threshold, joined, similarity)
    return joined, similarity, int(compared)


def jaccard(a: U64, b: U64) -> float:
    """Shared over all distinct shingles of two sets, each rising and distinct; 1 for two empty ones."""
    return float(_jaccard(a, b, 0.0))


@njit(cache=True, nogil=True)
def _jaccard(a: Any, b: Any, least: float) -> float:
    """The similarity, or -1 as soon as it is known to be below `least`."""
    n, m = len(a), len(b)
    if n == 0 and m == 0:
        return 1.0
    if min(n, m) + _SLACK < least * max(n, m):
        return -1.0
    i, j, shared = 0, 0, 0
    while i < n and j < m:
        if a[i] == b[j]:
            shared += 1
            i += 1
            j += 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
        most = shared + min(n - i, m - j)
        if most + _SLACK < least * (n + m - most):
            return -1.0
    found = shared / (n + m - shared)
    return found if found >= least else -1.0


@njit(cache=True, nogil=True)
def _resemblance(texts: Any, sets: Any, owns: Any, threshold: float, one: int, other: int) -> float:
    """The similarity of two documents, or -1 when they do not resemble each other."""
    all_sets, ends = sets
    own, own_ends, crowded = owns
    a, b = all_sets[ends[one] : ends[one + 1]], all_sets[ends[other] : ends[other + 1]]
    if not (crowded[one] or crowded[other]):
        return _jaccard(a, b, threshold)
    hardly = OWN_LEAST * max(len(a), len(b))
    mine = own[own_ends[one] : own_ends[one + 1]] if crowded[one] else a
    theirs = own[own_ends[other] : own_ends[other + 1]] if crowded[other] else b
    # The cheap test first: what no other document has differs in most pairs of a crowd.
    if max(len(mine), len(theirs)) >= hardly and _jaccard(mine, theirs, threshold * OWN_SHARE) < 0:
        return -1.0
    found = _jaccard(a, b, threshold)
    if found < 0:
        return -1.0
    shingles, frequent, offsets = texts
    mine = own_against(shingles[offsets[one] : offsets[one + 1]], frequent[offsets[one] : offsets[one + 1]], b)
    theirs = own_against(shingles[offsets[other] : offsets[other + 1]], frequent[offsets[other] : offsets[other + 1]], a)
    if max(len(mine), len(theirs)) >= hardly and _jaccard(mine, theirs, threshold * OWN_SHARE) < 0:
        return -1.0
    return found


@njit(cache=True, nogil=True)
def _choose(texts: Any, sets: Any, owns: Any, buckets: Any, threshold: float, joined: Any, similarity: Any) -> int:
    num, bands = buckets.shape
    most = np.zeros(bands, np.int64)
    for band in range(bands):
        most[band] = buckets[:, band].max() + 1 if num else 0
    base = np.zeros(bands + 1, np.int64)
    base[1:] = np.cumsum(most)
    # A bucket is a chain of its kept documents, the latest first: node = document * bands + band.
    last = np.full(base[bands], -1, np.int64)
    held = np.zeros(base[bands], np.int32)
    before = np.full(num * bands, -1, np.int64)
    seen = np.full(num, -1, np.int64)
    met = np.empty(bands * SLOTS, np.int64)
    compared = 0
    for doc in range(num):
        count = 0
        for band in range(bands):
            if buckets[doc, band] >= 0:
                node = last[base[band] + buckets[doc, band]]
                while node >= 0:
                    other = node // bands
                    if seen[other] != doc:
                        seen[other] = doc
                        met[count] = other
                        count += 1
                    node = before[node]
        met[:count].sort()
        for k in range(count):
            compared += 1
            found = _resemblance(texts, sets, owns, threshold, doc, met[k])
            if found >= 0:
                joined[doc], similarity[doc] = met[k], found
                break
        if joined[doc] == doc:
            for band in range(bands):
                if buckets[doc, band] >= 0:
                    bucket = base[band] + buckets[doc, band]
                    if held[bucket] < SLOTS:
                        held[bucket] += 1
                        before[doc * bands + band] = last[bucket]
                        last[bucket] = doc * bands + band
    return compared
