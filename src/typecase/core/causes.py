"""Causes: phrases that say why, gathered into clusters of the same meaning, and how clusters go together.

    "many spelling mistakes", "misspelled words", "spelling is poor", "cookie banner"   ->   [spelling …] [cookie banner]

A phrase is a vector of its words and of the character trigrams within them, weighed by tf-idf, length 1. Clusters are joined
by average linkage (UPGMA; Sokal and Michener 1958) along nearest-neighbour chains (Murtagh 1983) as long as the mean
cosine of two clusters is at least `closeness`. Equal phrases are one point with their number as weight. Ties go to the earlier
phrase, phrases are taken in sorted order: the clusters depend on the set of phrases alone, not on their order.

Price: 4 n (n + features) bytes and n² steps of about 2 ns for n different phrases; `MOST_PHRASES` bounds n.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.errors import BadQuery

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

MOST_PHRASES = 4096
_WORD = re.compile(r"\w+")
_STOPS = """a an and are as at be by contains containing document for from has have in is it its no not of on or that the there
this text to very with which was were so too much many"""
_STOP = frozenset(_STOPS.split())


@dataclass(frozen=True, slots=True)
class Cluster:
    """Phrases of one meaning: rows of the given phrases, rising, and the phrase in the middle of them."""

    members: tuple[int, ...]
    centre: str


def cluster(phrases: Sequence[str], *, closeness: float = 0.25) -> tuple[Cluster, ...]:
    """Clusters of `phrases`, the largest first; `closeness` is the mean cosine, within 0 and 1, that joins two."""
    if not 0 < closeness <= 1:
        raise BadQuery(f"closeness is a cosine above 0 and at most 1, got {closeness}")
    plain = [" ".join(_WORD.findall(phrase.casefold())) for phrase in phrases]
    points = sorted(set(plain))
    if len(points) > MOST_PHRASES:
        raise BadQuery(f"{len(points)} different phrases are more than {MOST_PHRASES}: take a smaller quantile")
    if not points:
        return ()
    vectors = phrase_vectors(points)
    times = Counter(plain)
    weights = np.array([times[point] for point in points], np.float64)
    # Rounded, so that another order of additions in the product does not decide a tie.
    likeness: F32 = np.round(np.clip(vectors @ vectors.T, 0, 1), 5).astype(np.float32)
    labels = average_linkage(likeness, weights, closeness)
    rows_of: dict[str, list[int]] = {}
    for row, phrase in enumerate(plain):
        rows_of.setdefault(phrase, []).append(row)
    found = []
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        middle = vectors[own].T @ weights[own].astype(np.float32)
        centre = points[int(own[np.argmax(np.round(vectors[own] @ middle, 5))])]
        members = sorted(row for k in own for row in rows_of[points[int(k)]])
        found.append(Cluster(tuple(members), phrases[rows_of[centre][0]]))
    return tuple(sorted(found, key=lambda one: (-len(one.members), one.centre)))


def phrase_vectors(phrases: Sequence[str]) -> F32:
    """tf-idf of words and of trigrams within words, float32 (phrases, features), rows of length 1 or 0."""
    bags = [_features(phrase) for phrase in phrases]
    frequency = Counter(feature for bag in bags for feature in bag)
    column = {feature: k for k, feature in enumerate(sorted(frequency))}
    vectors = np.zeros((len(phrases), max(1, len(column))), np.float32)
    for row, bag in enumerate(bags):
        for feature, times in bag.items():
            idf = np.log((1 + len(phrases)) / (1 + frequency[feature])) + 1
            kind = 1.0 if feature[0] == "w" else 0.5
            vectors[row, column[feature]] = kind * idf * (1 + np.log(times))
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: F32 = (vectors / np.where(length > 0, length, 1)).astype(np.float32)
    return unit


def average_linkage(likeness: F32, weights: F64, closeness: float) -> I64:
    """Labels (points,) of the clusters whose mean likeness, weighted by points' weights, reaches `closeness`.

    likeness   symmetric (points, points)
    """
    merges = _chain(likeness.astype(np.float32), weights.copy(), np.float32(closeness))
    parent = np.arange(len(weights))
    for kept, gone in merges:
        parent[gone] = kept
    for point in range(len(parent)):
        root = point
        while parent[root] != root:
            root = parent[root]
        parent[point] = root
    return parent.astype(np.int64)


def correlations(columns: F64) -> F64:
    """Pearson's correlation of the columns, float64 (columns, columns); NaN for a constant column, 1 on the diagonal."""
    centred = columns - columns.mean(axis=0) if len(columns) else columns
    spread = np.sqrt((centred**2).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: F64 = (centred.T @ centred) / np.outer(spread, spread)
    found = np.clip(found, -1, 1)
    np.fill_diagonal(found, np.where(spread > 0, 1.0, np.nan))
    return found


def component_shares(correlation: F64) -> F64:
    """Share of the variance on each principal component, falling; constant columns are left out."""
    known = ~np.isnan(np.diag(correlation))
    if not known.any():
        return np.zeros(0)
    values = np.linalg.eigvalsh(correlation[np.ix_(known, known)])[::-1]
    shares: F64 = np.maximum(values, 0) / known.sum()
    return shares


def _features(phrase: str) -> Counter[str]:
    words = [word for word in phrase.split() if word not in _STOP]
    bag = Counter(f"w{word}" for word in words)
    for word in words:
        edged = f"^{word}$"
        bag.update(f"t{edged[i : i + 3]}" for i in range(len(edged) - 2))
    return bag


@njit(cache=True, nogil=True)
def _nearest(likeness: Any, alive: Any, point: Any, before: Any) -> Any:
    """The point most like `point`; of equals `before` if it is one, else the first. `before` is -1 if there is none."""
    best, row = before, likeness[point]
    for other in range(len(alive)):
        if alive[other] and other != point and (best < 0 or row[other] > row[best]):
            best = other
    return best


@njit(cache=True, nogil=True)
def _chain(likeness: Any, weights: Any, closeness: Any) -> list[tuple[int, int]]:
    """(kept, gone) of each merge; a chain that ends in a pair too unlike to merge takes its tip out."""
    num = len(weights)
    alive = np.ones(num, np.bool_)
    merges = [(0, 0) for _ in range(0)]
    chain = np.empty(num + 1, np.int64)
    length, left = 0, num
    while left > 0:
        if length == 0:
            chain[0], length = np.flatnonzero(alive)[0], 1
        tip = chain[length - 1]
        before = chain[length - 2] if length > 1 else np.int64(-1)
        near = _nearest(likeness, alive, tip, before)
        if near < 0 or likeness[tip, near] < closeness:
            # Nothing comes nearer by later merges: a mean is never above its largest part.
            alive[tip] = False
            left -= 1
            length -= 1
        elif near == before:
            kept, gone = min(tip, near), max(tip, near)
            share = weights[kept] / (weights[kept] + weights[gone])
            for other in range(num):
                likeness[kept, other] = share * likeness[kept, other] + (1 - share) * likeness[gone, other]
                likeness[other, kept] = likeness[kept, other]
            weights[kept] += weights[gone]
            alive[gone] = False
            left -= 1
            length -= 2
            merges.append((kept, gone))
        else:
            chain[length] = near
            length += 1
    return merges
