"""Census: how often each token of a vocabulary occurs, in how many documents, of which sources; and in which first.

    counts     (sources, V)   occurrences
    documents  (sources, V)   documents with at least one
    family     (V,)           sum of a hash of every such document: tokens of the very same documents have the same
    examples   (V, k)         the first k such documents, NONE beyond

Law: a census of runs of documents that do not overlap is the merge of theirs. Sums are sums, the first k are the least k of
both, so merging is associative and commutative and `empty_census` is its unit: any cut into shards, on any number of workers,
gives the same census.

Price: one pass, 2 ns a token on one core; while counting 8 bytes an id and source (16 more once 2^32 tokens are counted, and at
the end), and 36 an id. Whether a token is new in its document cannot be predicted, so it is added, not branched on: that alone
is a factor of two. What is touched for every token is kept small, for it must stay in the cache: a count of 32 bits, and 16
bits that say in which document it was last seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]

NONE = -1
"""No document: where a token has fewer examples than were asked for."""

_FAR = np.iinfo(np.int64).max
_MOST = (1 << 32) - 1
"""Tokens that 32 bits surely count; before more, counts are added up in 64."""

_ROUND = (1 << 16) - 1
"""Documents that 16 bits tell apart; after so many the marks of the last document are wiped, and numbers begin again."""


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """See the module docstring; `outside` counts tokens that are no id of the vocabulary."""

    counts: Ints
    documents: Ints
    family: npt.NDArray[np.uint64]
    examples: Ints
    num_documents: int
    num_tokens: int
    outside: int = 0

    @property
    def num_ids(self) -> int:
        return int(self.counts.shape[1])

    @property
    def num_sources(self) -> int:
        return int(self.counts.shape[0])

    @property
    def total(self) -> Ints:
        """Occurrences of every id (V,)."""
        total: Ints = self.counts.sum(axis=0)
        return total

    @property
    def in_documents(self) -> Ints:
        """Documents that hold every id (V,)."""
        total: Ints = self.documents.sum(axis=0)
        return total

    @property
    def in_sources(self) -> Ints:
        """Sources that hold every id (V,)."""
        total: Ints = np.count_nonzero(self.documents, axis=0).astype(np.int64)
        return total

    def __add__(self, other: Census) -> Census:
        """The census of both. The documents must be others; ValueError when ids, sources or examples differ in number."""
        if self.counts.shape != other.counts.shape or self.examples.shape != other.examples.shape:
            raise ValueError(
                f"censuses of {self.counts.shape} and {other.counts.shape} counts, {self.examples.shape} and"
                f" {other.examples.shape} examples do not merge"
            )
        return Census(
            self.counts + other.counts,
            self.documents + other.documents,
            self.family + other.family,
            _least(self.examples, other.examples),
            self.num_documents + other.num_documents,
            self.num_tokens + other.num_tokens,
            self.outside + other.outside,
        )


def empty_census(num_ids: int, *, num_sources: int = 1, num_examples: int = 3) -> Census:
    """The census of nothing: the unit of merging."""
    table = np.zeros((num_sources, num_ids), np.int64)
    examples = np.full((num_ids, num_examples), NONE, np.int64)
    return Census(table, table.copy(), np.zeros(num_ids, np.uint64), examples, 0, 0)


class Counter:
    """Counts runs of documents into one census; `add` may be called with any runs, each document once and whole."""

    def __init__(self, num_ids: int, *, num_sources: int = 1, num_examples: int = 3) -> None:
        # Rows beyond the vocabulary take what lies outside it. No id of 16 bits needs a check: each has a row of its own. Of
        # wider ids all that are too large share the last row, so that the loop need not branch.
        rows = max(num_ids + 1, 1 << 16)
        self._num_ids = num_ids
        self._tables = _Tables(
            np.zeros((num_sources, rows), np.uint32),
            np.zeros((num_sources, rows), np.uint32),
            np.zeros(rows, np.uint64),
            np.full((rows, num_examples), _FAR, np.int64),
            np.zeros(rows, np.uint16),
            np.zeros(rows + 1, np.uint32),
        )
        self._folded: tuple[Ints, Ints] | None = None
        self._num_documents = self._num_tokens = self._since_fold = 0

    def add(self, tokens: npt.NDArray[Any], ends: Ints, first_doc: int, sources: npt.NDArray[np.integer] | None = None) -> None:
        """Documents `first_doc` and on, end to end in `tokens`, document d up to `ends[d]`; `sources` (documents,) of each.

        Raises ValueError when ends fall, leave `tokens`, a source is none, or `tokens` are 2^32 or more.
        """
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(ends) else ends
        if (int(ends[-1]) if len(ends) else 0) != len(tokens) or (ends < starts).any():
            raise ValueError(f"{len(tokens)} tokens need document ends that rise up to them, got {ends[:3]} … {ends[-3:]}")
        labels = np.zeros(len(ends), np.int64) if sources is None else np.ascontiguousarray(sources, np.int64)
        num_sources = len(self._tables.counts)
        if len(labels) != len(ends) or (len(labels) and not 0 <= labels.min() <= labels.max() < num_sources):
            raise ValueError(f"{len(ends)} documents need as many sources below {num_sources}, got {len(labels)}")
        if len(tokens) > _MOST:
            raise ValueError(f"{len(tokens):,} tokens are too many to add at once: add runs of fewer than 2^32")
        if self._since_fold + len(tokens) > _MOST:
            self._fold()
        if len(ends):
            view = np.asarray(tokens).view(np.dtype(f"u{tokens.dtype.itemsize}"))  # a negative id becomes a large one: outside
            _count(view, np.ascontiguousarray(ends, np.int64), first_doc, self._num_documents, labels, *self._tables)
        self._num_documents += len(ends)
        self._num_tokens += len(tokens)
        self._since_fold += len(tokens)

    def _fold(self) -> tuple[Ints, Ints]:
        """Counts and documents so far in 64 bits; those in 32 begin again."""
        tables = self._tables
        if self._folded is None:
            self._folded = tables.counts.astype(np.int64), tables.documents.astype(np.int64)
        else:
            for whole, part in zip(self._folded, (tables.counts, tables.documents)):
                whole += part
        tables.counts[:], tables.documents[:], self._since_fold = 0, 0, 0
        return self._folded

    def census(self) -> Census:
        """What was counted so far."""
        tables, num_ids = self._tables, self._num_ids
        counts, documents = self._fold()
        examples = np.sort(tables.examples[:num_ids], axis=1)
        examples[examples == _FAR] = NONE
        return Census(
            counts[:, :num_ids].copy(),
            documents[:, :num_ids].copy(),
            tables.family[:num_ids].copy(),
            examples,
            self._num_documents,
            self._num_tokens,
            int(counts[:, num_ids:].sum()),
        )


class _Tables(NamedTuple):
    """`last` is the document that each token was last seen in (1, 2, … up to `_ROUND`, then from 1 again), `fresh` room for the
    tokens that are new in one."""

    counts: npt.NDArray[np.uint32]
    documents: npt.NDArray[np.uint32]
    family: npt.NDArray[np.uint64]
    examples: Ints
    last: npt.NDArray[np.uint16]
    fresh: npt.NDArray[np.uint32]


@njit(cache=True, nogil=True)
def _count(
    tokens: npt.NDArray[Any],
    ends: Ints,
    first_doc: int,
    before: int,
    labels: Ints,
    counts: npt.NDArray[np.uint32],
    documents: npt.NDArray[np.uint32],
    family: npt.NDArray[np.uint64],
    examples: Ints,
    last: npt.NDArray[np.uint16],
    fresh: npt.NDArray[np.uint32],
) -> None:
    limit, wide = np.uint64(len(last) - 1), tokens.itemsize > 2
    start = np.int64(0)
    for d in range(len(ends)):
        if (before + d) % _ROUND == 0:
            last[:] = 0
        doc, here = first_doc + d, np.uint16((before + d) % _ROUND + 1)
        counted, held = counts[labels[d]], documents[labels[d]]
        own = tokens[start : ends[d]]
        # Unsigned places need no look at whether they count from the end. Appending always and moving on only when the token is
        # new costs no mispredicted branch.
        num_fresh = np.uint64(0)
        for i in range(np.uint64(len(own))):
            token = np.uint64(own[i])
            if wide:
                token = min(token, limit)
            counted[token] += np.uint32(1)
            fresh[num_fresh] = np.uint32(token)
            num_fresh += np.uint64(last[token] != here)
            last[token] = here
        mixed = _mixed(doc)
        for k in range(num_fresh):
            token = np.uint64(fresh[k])
            family[token] += mixed
            known = held[token]
            held[token] = known + np.uint32(1)
            if known < examples.shape[1]:
                _keep(examples[token], doc)
        start = ends[d]


@njit(cache=True, nogil=True)
def _keep(kept: Ints, doc: int) -> None:
    """Puts `doc` among the least few documents; other sources may have put later ones there."""
    worst = 0
    for k in range(len(kept)):
        if kept[k] > kept[worst]:
            worst = k
    if len(kept) and doc < kept[worst]:
        kept[worst] = doc


@njit(cache=True, nogil=True)
def _mixed(doc: int) -> np.uint64:
    """A well-mixed 64-bit hash of a document number (the finisher of splitmix64)."""
    h = np.uint64(doc) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def _least(a: Ints, b: Ints) -> Ints:
    """The least k of both, row by row, rising, NONE last."""
    both = np.concatenate((a, b), axis=1)
    both[both == NONE] = _FAR
    both.sort(axis=1)
    least = both[:, : a.shape[1]].copy()
    least[least == _FAR] = NONE
    return least
