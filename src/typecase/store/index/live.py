"""Live: answers over a set that is being edited and appended to, equal at every moment to those of a fresh index.

    set        a b c d e | f g h          indexed once
    edits            [2, 4) -> x          tokens 2 and 3 of the set are now one x
    is now     a b x e | f g h

    answer  =  index  -  hits in the old text around the edits  +  hits in the new text around them  +  appended sets

Around an edit of a query of m tokens are the m - 1 tokens before and behind it, within its document; edits nearer than that to
each other are taken together, so no hit counts twice. Positions are those of the text as it is now, appended sets behind the
set. Price: the index's, and 1 ns for each token of the edits and around them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from typecase.core.suffix.scan import find_within
from typecase.errors import BadQuery
from typecase.store.index.answers import NextTokens
from typecase.store.index.index import Index, joined
from typecase.store.index.queries import I64, Queries, Query, as_batch, as_ids, refuse


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Positions [start, stop) of the indexed set, within one document, now hold `tokens`, fewer, as many or more.

    An insertion has start = stop; at a border it belongs to the document that begins there, behind the last token to the last
    document that has any.
    """

    start: int
    stop: int
    tokens: Query


@dataclass(frozen=True, slots=True, eq=False)
class _Around:
    """Pieces of text around the edits, end to end: piece k is tokens[offsets[k]:offsets[k + 1]], its first token stands at
    `starts[k]`; `closed` says whether its document ends with it."""

    tokens: I64
    offsets: I64
    starts: I64
    closed: npt.NDArray[np.bool_]


class LiveIndex:
    """An index with edits, and sets appended behind it. A new edit makes a new LiveIndex: it costs the edits, not the set."""

    def __init__(self, index: Index, edits: Sequence[Change] = (), *, appended: Sequence[Index] = ()) -> None:
        """Raises BadQuery for edits that overlap, or leave their document or the set."""
        self.index, self.appended = index, tuple(appended)
        ordered = sorted(edits, key=lambda e: (e.start, e.stop))
        self._new = [as_ids(e.tokens) for e in ordered]
        self._starts = np.array([e.start for e in ordered], np.int64)
        self._stops = np.array([e.stop for e in ordered], np.int64)
        for tokens in self._new:
            refuse(tokens, index.max_id, index.dtype)
        self._docs = self._checked()
        self._growth = np.array([len(t) for t in self._new], np.int64) - (self._stops - self._starts)
        self._shift = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._growth)))
        self._around: OrderedDict[int, tuple[_Around, _Around]] = OrderedDict()

    @property
    def num_tokens(self) -> int:
        return self._own_tokens + sum(part.num_tokens for part in self.appended)

    @property
    def _own_tokens(self) -> int:
        return self.index.num_tokens + int(self._shift[-1])

    def count(self, query: Query) -> int:
        """How often `query` occurs now."""
        ids = as_ids(query)
        total = self.index.count(ids) + sum(part.count(ids) for part in self.appended)
        if not len(ids):
            return total + int(self._shift[-1])
        if not len(self._starts):
            return total
        old, new = self._pieces(len(ids))
        return total - len(find_within(old.tokens, old.offsets, ids)) + len(find_within(new.tokens, new.offsets, ids))

    def count_batch(self, queries: Queries) -> I64:
        """`count` of every query, (queries,)."""
        batch = as_batch(queries)
        if not len(self._starts):
            parts = (self.index, *self.appended)
            return np.asarray(np.sum([part.count_batch(batch) for part in parts], axis=0, dtype=np.int64))
        bounds = batch.offsets.tolist()
        return np.array([self.count(batch.ids[a:b]) for a, b in pairwise(bounds)], np.int64)

    def contains(self, query: Query) -> bool:
        return self.count(query) > 0

    def positions(self, query: Query, *, limit: int | None = None, offset: int = 0) -> I64:
        """Where `query` stands now, rising; see `Index.positions`."""
        ids = as_ids(query)
        refuse(ids, self.index.max_id, self.index.dtype)
        if len(ids):
            hits = self._kept(self.index.positions(ids), len(ids))
            _, new = self._pieces(len(ids))
            found = find_within(new.tokens, new.offsets, ids)
            piece = np.searchsorted(new.offsets, found, side="right") - 1
            added = new.starts[piece] + found - new.offsets[piece]
            own = np.union1d(hits, added)
        else:
            own = np.arange(self._own_tokens)
        parts, base = [own], self._own_tokens
        for part in self.appended:
            parts.append(part.positions(ids) + base)
            base += part.num_tokens
        return np.concatenate(parts)[offset : None if limit is None else offset + limit]

    def next(self, query: Query) -> NextTokens:
        """What follows `query` now."""
        ids = as_ids(query)
        found = joined([(n.ids, n.counts, n.ends) for n in (part.next(ids) for part in (self.index, *self.appended))])
        if not len(self._starts):
            return found
        old, new = self._pieces(len(ids) + 1)
        gone, come = _follows(old, ids), _follows(new, ids)
        now = joined(
            [(found.ids, found.counts, found.ends), (gone.ids, -gone.counts, -gone.ends), (come.ids, come.counts, come.ends)]
        )
        return NextTokens(now.ids[now.counts > 0], now.counts[now.counts > 0], now.ends)

    def _checked(self) -> I64:
        """The document of every edit."""
        starts, stops, bounds = self._starts, self._stops, self.index.starts
        for k in range(len(starts)):
            if not 0 <= starts[k] <= stops[k] <= self.index.num_tokens or not self.index.num_tokens:
                raise BadQuery(f"an edit of [{starts[k]}, {stops[k]}) leaves the set of {self.index.num_tokens} tokens")
            if k and (starts[k] < stops[k - 1] or starts[k] == starts[k - 1]):
                raise BadQuery(f"the edits of [{starts[k - 1]}, {stops[k - 1]}) and [{starts[k]}, {stops[k]}) overlap")
        docs = np.searchsorted(bounds, np.minimum(starts, self.index.num_tokens - 1), side="right") - 1
        leaves = stops > bounds[docs + 1]
        if leaves.any():
            k = int(np.argmax(leaves))
            raise BadQuery(
                f"an edit of [{starts[k]}, {stops[k]}) leaves document {docs[k]}, which ends at {bounds[docs[k] + 1]}:"
                " make one edit for each document"
            )
        return docs

    def _kept(self, hits: I64, size: int) -> I64:
        """Hits of the index that no edit touches, where they stand now."""
        before = np.searchsorted(self._stops, hits, side="right")  # edits that end at or before the hit
        inserted = np.append(self._starts, np.iinfo(np.int64).max)
        keep = hits + size <= inserted[before]
        kept: I64 = hits[keep] + self._shift[before[keep]]
        return kept

    def _pieces(self, size: int) -> tuple[_Around, _Around]:
        """The old and the new text around the edits, for queries of `size` tokens; the last few sizes are kept."""
        if size not in self._around:
            self._around[size] = self._cut(size)
            if len(self._around) > 16:
                self._around.popitem(last=False)
        return self._around[size]

    def _cut(self, size: int) -> tuple[_Around, _Around]:
        bounds, text = self.index.starts, self.index.text
        lows = np.maximum(self._starts - size + 1, bounds[self._docs])
        highs = np.minimum(self._stops + size - 1, bounds[self._docs + 1])
        old, new, where, closed = list[I64](), list[I64](), list[tuple[int, int]](), list[bool]()
        k = 0
        while k < len(lows):
            last = k
            while last + 1 < len(lows) and self._docs[last + 1] == self._docs[k] and lows[last + 1] < highs[last]:
                last += 1
            low, high, at, parts = int(lows[k]), int(highs[last]), int(lows[k]), list[I64]()
            for e in range(k, last + 1):
                parts += [text[at : self._starts[e]].astype(np.int64), self._new[e]]
                at = int(self._stops[e])
            parts.append(text[at:high].astype(np.int64))
            old.append(text[low:high].astype(np.int64))
            new.append(np.concatenate(parts))
            where.append((low, low + int(self._shift[k])))
            closed.append(high == int(bounds[self._docs[k] + 1]))
            k = last + 1
        ends = np.array(closed, np.bool_)
        return _around(old, [w[0] for w in where], ends), _around(new, [w[1] for w in where], ends)


def _around(pieces: list[I64], starts: list[int], closed: npt.NDArray[np.bool_]) -> _Around:
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(p) for p in pieces], dtype=np.int64)))
    tokens = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    return _Around(tokens, offsets, np.array(starts, np.int64), closed)


def _follows(around: _Around, ids: I64) -> NextTokens:
    """What follows `ids` within the pieces."""
    if not len(ids):
        tokens, counts = np.unique(around.tokens, return_counts=True)
        return NextTokens(tokens, counts, 0)
    behind = find_within(around.tokens, around.offsets, ids) + len(ids)
    piece = np.searchsorted(around.offsets, behind - 1, side="right") - 1
    ending = behind == around.offsets[piece + 1]
    tokens, counts = np.unique(around.tokens[behind[~ending]], return_counts=True)
    return NextTokens(tokens, counts, int(np.count_nonzero(around.closed[piece[ending]])))
