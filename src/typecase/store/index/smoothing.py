"""Smoothing: an interpolated Kneser-Ney model whose counts are looked up, not stored.

    model = index.kneser_ney(3)             fitted discounts: one pass over the index an order
    model.prob([464, 3290], 318)            of any token that occurs, also where the trigram never does
    model.probs([464, 3290])                of all of them, adding up to 1
    model.sample([464], num_tokens=20)      seeded

A context costs its hits, 0.1 us each, the first time; the last few thousand contexts are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from typecase.core.suffix.kneser_ney import COUNTED, Discounts, discounted, fitted, left_counts, neighbours
from typecase.core.suffix.next import num_ending
from typecase.core.suffix.tables import HIGH
from typecase.core.suffix.walk import histogram
from typecase.errors import BadQuery
from typecase.store.index.queries import I64, Query, as_ids, refuse
from typecase.store.index.sampling import check_sizes

if TYPE_CHECKING:
    from typecase.store.index.index import Index

_KEPT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """The successors of a context by rising id, their discounted shares, and what is left for the shorter context."""

    ids: I64
    shares: npt.NDArray[np.float64]
    left: float


def fit(index: Index, order: int, *, vocab_size: int | None = None) -> KneserNey:
    """Fits the discounts of orders 1 to `order`. Raises BadQuery for an order below 1 or a vocabulary that is too small."""
    if order < 1:
        raise BadQuery(f"the order of a model is 1 or more, got {order}")
    if not index.num_tokens:
        raise BadQuery(f"{index.folder} indexes no tokens: there is nothing to fit a model to")
    kind, rows = index.tables.kind, index.tables.rows
    highest = int(rows[:, HIGH].max())
    _, ids, counts = left_counts(kind, rows, 1, highest, COUNTED)
    if vocab_size is not None and vocab_size <= highest:
        raise BadQuery(f"a vocabulary of {vocab_size} does not hold id {highest}, which occurs")
    counted = [left_counts(kind, rows, size, highest, COUNTED + 1)[0] for size in range(1, order)]
    counted.append(histogram(kind, rows, order, COUNTED + 1))
    if order == 1:
        unigrams = index.next([])
        ids, counts = unigrams.ids, unigrams.counts
    return KneserNey(index, tuple(fitted(c) for c in counted), ids, counts, vocab_size or len(ids))


class KneserNey:
    """A fitted model. `discounts[k - 1]` are those of order k, `ids` the tokens that occur, `vocab_size` what the uniform
    distribution at the bottom is spread over: those ids, unless a larger vocabulary was given."""

    def __init__(self, index: Index, discounts: tuple[Discounts, ...], ids: I64, counts: I64, vocab_size: int) -> None:
        self.index, self.discounts, self.ids, self.vocab_size = index, discounts, ids, vocab_size
        shares, left = discounted(counts, discounts[0])
        self._bottom = _Context(ids, shares, left)
        self._kept: OrderedDict[tuple[int, ...], _Context | None] = OrderedDict()

    @property
    def order(self) -> int:
        return len(self.discounts)

    def prob(self, query: Query, token: int) -> float:
        """P(token | the last tokens of `query`). Raises BadQuery for a token outside the vocabulary, where one was given."""
        refuse(as_ids([token]), self.index.max_id, self.index.dtype)
        wide = self.vocab_size > len(self.ids)
        if wide and token >= self.vocab_size:
            raise BadQuery(f"the model has no token {token}: its vocabulary is {self.vocab_size}")
        k = int(np.searchsorted(self.ids, token))
        occurs = k < len(self.ids) and int(self.ids[k]) == token
        prob = 1.0 / self.vocab_size if wide or occurs else 0.0
        for context in self._contexts(query):
            k = int(np.searchsorted(context.ids, token))
            own = context.shares[k] if k < len(context.ids) and context.ids[k] == token else 0.0
            prob = float(own) + context.left * prob
        return prob

    def probs(self, query: Query) -> npt.NDArray[np.float64]:
        """P of every one of `ids`; they add up to 1 when the vocabulary is `ids`."""
        out = np.full(len(self.ids), 1.0 / self.vocab_size)
        for context in self._contexts(query):
            out *= context.left
            out[np.searchsorted(self.ids, context.ids)] += context.shares
        return out

    def sample(self, query: Query, *, num_tokens: int, num_samples: int = 1, seed: int = 0) -> list[I64]:
        """Continuations of `query`, it included, of `num_tokens` tokens: documents do not end in a smoothed model."""
        check_sizes(self.order, num_tokens, num_samples)
        ids, rng = as_ids(query), np.random.default_rng(seed)
        out = []
        for _ in range(num_samples):
            tokens = ids.tolist()
            for _ in range(num_tokens):
                tokens.append(self._draw(tokens, rng))
            out.append(np.array(tokens, np.int64))
        return out

    def _draw(self, tokens: list[int], rng: np.random.Generator) -> int:
        for context in reversed(self._contexts(tokens[max(0, len(tokens) - self.order) :])):
            at = rng.random()
            if at >= context.left:
                cumulated = np.cumsum(context.shares)
                k = int(np.searchsorted(cumulated, (at - context.left) / (1 - context.left) * cumulated[-1], side="right"))
                return int(context.ids[min(k, len(context.ids) - 1)])
        return int(rng.integers(self.vocab_size)) if self.vocab_size > len(self.ids) else int(rng.choice(self.ids))

    def _contexts(self, query: Query) -> list[_Context]:
        """The contexts that occur with a successor, from the empty one up."""
        ids = as_ids(query)
        refuse(ids, self.index.max_id, self.index.dtype)
        out = [self._bottom]
        for size in range(1, min(self.order - 1, len(ids)) + 1):
            context = self._context(tuple(ids[len(ids) - size :].tolist()))
            if context is None:
                break
            out.append(context)
        return out

    def _context(self, key: tuple[int, ...]) -> _Context | None:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        ids, counts = self._counted(key)
        made = _Context(ids, *discounted(counts, self.discounts[len(key)])) if len(ids) else None
        self._kept[key] = made
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return made

    def _counted(self, key: tuple[int, ...]) -> tuple[I64, I64]:
        """The successors of a context, and their counts: occurrences at the highest order, below it distinct tokens before."""
        if len(key) + 1 == self.order:
            follows = self.index.next(np.array(key, np.int64))
            return follows.ids, follows.counts
        tables, pairs = self.index.tables, []
        for row, (low, high) in zip(tables.rows, self.index.find(np.array(key)).ranks.tolist(), strict=True):
            low += num_ending(row, low, high, len(key))
            pair = np.empty((2, high - low), np.int64)
            neighbours(tables.kind, row, low, high, len(key), pair[0], pair[1])
            pairs.append(pair)
        before, after = np.concatenate(pairs, axis=1)
        order = np.lexsort((before, after))
        before, after = before[order], after[order]
        new = np.ones(len(after), np.bool_)
        new[1:] = (before[1:] != before[:-1]) | (after[1:] != after[:-1])
        return np.unique(after[new], return_counts=True)
