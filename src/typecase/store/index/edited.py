"""Edited: the answers of a fresh index over a set as its journal says it is, from the index of the set as it was found.

    answer  =  index  -  hits in the old pieces around the changes  +  hits in the new ones             (`changes`)

    open_index("index/", "web@")          the set at the current branch; web@what-if, web@17 likewise
    open_index("index/", "web")           as it lies, also when the journal has edited the .bin in place

Both kinds of pieces are small indexes of their own in memory, so a query is three searches in suffix arrays instead of one:
with 8 tokens of context for queries of up to 9 tokens, with 32 for those of up to 33, made when the first is asked. Longer ones
look at the pieces token by token. Positions, documents and tokens are those of the set as it is now.

It is of one moment: after another edit, and after one in place, open it anew. What needs the order of all suffixes (smoothing,
n-gram statistics, attribution) is refused: write the set and index that.

Price: opening sorts the pieces, some 0.1 us a token of them, 16 tokens an edit and its own; a count then costs less than two.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from typecase.core.edit.overlay import Overlay
from typecase.core.suffix.build import suffix_array
from typecase.core.suffix.find import find_many, find_one, sort_keys
from typecase.core.suffix.marks import mark_changes
from typecase.core.suffix.next import next_of
from typecase.core.suffix.scan import find_within
from typecase.core.suffix.tables import Suffixes, Tables, digit_bits, end_bits, first_tokens, sample_keys
from typecase.errors import BadQuery
from typecase.store.index import smoothing
from typecase.store.index.answers import Found, Matches, NextTokens, Ngrams, Repeated, Stretch
from typecase.store.index.changes import Pieces, changes_between, cut
from typecase.store.index.delta import count_over, followers_over
from typecase.store.index.index import Clauses, Index, _reopen, joined
from typecase.store.index.queries import I64, Queries, Query, as_batch, as_ids, refuse
from typecase.store.index.viewed import ViewedText
from typecase.store.journal.view import EditedTokens
from typecase.store.tokens.store import TokenStore

CONTEXTS = (8, 32)
_PAGE = 1 << 16
_MOST_IDS = 1 << 16
_SIZES_KEPT = 4
_LAST = np.iinfo(np.int64).max
_Followers = tuple[I64, I64, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """The pieces with `context` tokens around the changes, old and new ones indexed; `rows` are the base and the new ones."""

    context: int
    near: Pieces
    old: Tables
    new: Tables
    rows: I64


class EditedIndex(Index):
    """An index over a set as it is now; `base` is the one over what was indexed. Made by `open_index`."""

    def __init__(self, base: Index, store: TokenStore, taken_back: Overlay | None = None) -> None:
        """`store` is a view of the set, or the set as it lies; see `changes_between`."""
        self.base, self.folder, self.facts, self.store = base, base.folder, base.facts, store
        self.dtype, self.max_id = base.dtype, base.max_id
        self.num_tokens, self.num_documents = store.num_tokens, store.num_documents
        self.text = ViewedText(self)  # type: ignore[assignment]  # not laid end to end anywhere: read as it is asked for
        self.changes = changes_between(base, store, taken_back)
        self._kind = base.tables.kind
        self._around: OrderedDict[int, Pieces] = OrderedDict()
        self._levels: dict[int, _Level] = {}
        short = self._level(0)
        assert short is not None
        self._rows, self._gone, self._reach = short.rows, short.old.rows, short.context + 1
        self._events = self._shifts()

    # How often, where.

    def count(self, query: Query, *, fenced: bool = True) -> int:
        ids = as_ids(query)
        if not fenced:
            _fenced(fenced)
        rows, gone = self._rows, self._gone
        if len(ids) > self._reach:
            level = self._level(len(ids) - 1)
            if level is None:
                old, new = self._scanned(ids)
                return self.base.count(ids) - len(old) + len(new)
            rows, gone = level.rows, level.old.rows
        total = count_over(self._kind, rows, gone, ids, self.max_id)
        if total < 0:
            refuse(ids, self.max_id, self.dtype)
        return int(total)

    def count_batch(self, queries: Queries) -> I64:
        batch = as_batch(queries)
        refuse(batch.ids, self.max_id, self.dtype)
        order = np.argsort(sort_keys(batch.ids, batch.offsets))
        counts, lower, upper = np.zeros((3, len(batch)), np.int64)
        longest = int(batch.sizes.max(initial=1)) - 1
        level = self._level(min(longest, CONTEXTS[-1]))
        assert level is not None
        for sign, rows in ((1, level.rows), (-1, level.old.rows)):
            for row in rows:
                find_many(self._kind, row, batch.ids, batch.offsets, order, lower, upper)
                counts += sign * (upper - lower)
        for k in np.flatnonzero(batch.sizes > CONTEXTS[-1] + 1).tolist():
            counts[k] = self.count(batch.ids[batch.offsets[k] : batch.offsets[k + 1]])
        return counts

    def positions(
        self,
        query: Query,
        *,
        limit: int | None = None,
        offset: int = 0,
        sample: int | None = None,
        seed: int = 0,
        fenced: bool = True,
    ) -> I64:
        _fenced(fenced)
        if sample is not None:
            count = self.count(query)
            chosen = np.sort(np.random.default_rng(seed).choice(count, min(sample, count), replace=False))
            return self._numbered(query, chosen)
        out, passed, last = list[I64](), 0, _LAST if limit is None else offset + limit
        for run in self._hits(as_ids(query)):
            if passed >= last:
                break
            out.append(run[max(0, offset - passed) : max(0, last - passed)])
            passed += len(run)
        return np.concatenate([np.zeros(0, np.int64), *out])

    def pages(self, query: Query, size: int = _PAGE) -> Iterator[I64]:
        rest = np.zeros(0, np.int64)
        for run in self._hits(as_ids(query)):
            rest = np.concatenate((rest, run))
            while len(rest) >= size:
                yield rest[:size]
                rest = rest[size:]
        if len(rest):
            yield rest

    @property
    def is_current(self) -> bool:
        """Whether the bytes beneath are still those that were looked at when the view was opened."""
        return not isinstance(self.store, EditedTokens) or self.store.is_current

    # What follows.

    def next(self, query: Query, *, fenced: bool = True) -> NextTokens:
        ids = as_ids(query)
        _fenced(fenced)
        refuse(ids, self.max_id, self.dtype)
        level = self._level(len(ids))
        if level is None:
            around = self._pieces(len(ids))
            come = [_follows(around.new, around.new_ends, ids)]
            gone = [_follows(around.old, around.old_ends, ids)]
        else:
            come, gone = self._behind(level.new.rows, ids), self._behind(level.old.rows, ids)
        found = joined(self._behind(self.base.tables.rows, ids))
        came, went = joined(come), joined(gone)
        if came.ends == went.ends and np.array_equal(came.ids, went.ids) and np.array_equal(came.counts, went.counts):
            return found  # all of them are context
        ids, counts = followers_over(found.ids, found.counts, came.ids, came.counts, went.ids, went.counts)
        return NextTokens(ids, counts, found.ends + came.ends - went.ends)

    def _behind(self, rows: I64, ids: I64) -> list[_Followers]:
        return [next_of(self._kind, row, ids, np.uint64(0), len(ids)) for row in rows]

    def next_batch(self, queries: Queries, *, threads: int = 0) -> list[NextTokens]:
        batch = as_batch(queries)
        bounds = batch.offsets.tolist()
        return [self.next(batch.ids[a:b]) for a, b in pairwise(bounds)]

    def longest_suffix(self, prompt: Query, longest: int | None = None) -> int:
        ids = as_ids(prompt)
        refuse(ids, self.max_id, self.dtype)
        good, bad = 0, (len(ids) if longest is None else min(len(ids), longest)) + 1
        while bad - good > 1:  # an end that occurs has ends that occur
            middle = (good + bad) // 2
            if self.count(ids[len(ids) - middle :]):
                good = middle
            else:
                bad = middle
        return good

    # What the order of all suffixes is needed for.

    def find(self, query: Query) -> Found:
        self._write_it("the ranks of suffixes")

    def sample_unsmoothed(self, query: Query, **options: Any) -> list[I64]:
        self._write_it("continuations")

    def kneser_ney(self, order: int, *, vocab_size: int | None = None) -> smoothing.KneserNey:
        self._write_it("smoothing")

    def matching(self, clauses: Clauses, *, within: int | None = None, estimate: int | None = None, seed: int = 0) -> Matches:
        self._write_it("clauses that must hold together")

    def longest_match(self, text: Query) -> I64:
        self._write_it("the longest match of a text")

    def attribute(self, text: Query, **options: Any) -> list[Stretch]:
        self._write_it("attribution")

    def ngrams(self, n: int, *, at_least: int | None = None, top: int | None = None) -> Ngrams:
        self._write_it("n-gram statistics")

    def duplicates(self, min_tokens: int) -> Repeated:
        self._write_it("repeated stretches")

    def _write_it(self, what: str) -> NoReturn:
        raise BadQuery(
            f"{what} cannot be answered over the edits of {self.store.pair.prefix}, only over a whole index: write the set with"
            f" `typecase edit write` and index that"
        )

    # Within.

    def _shifts(self) -> tuple[I64, I64, I64]:
        """Stretches [starts, stops) of the indexed text that are no more as they were, rising, and what those before each
        added (stretches + 1,)."""
        changes, bounds = self.changes, self.base.starts
        came = self.starts[changes.come + 1] - self.starts[changes.come]
        went = bounds[changes.gone + 1] - bounds[changes.gone]
        starts = np.concatenate((changes.starts, bounds[changes.gone], changes.anchors))
        stops = np.concatenate((changes.stops, bounds[changes.gone + 1], changes.anchors))
        growth = np.concatenate((np.diff(changes.offsets) - (changes.stops - changes.starts), -went, came))
        order = np.lexsort((stops, starts))
        shift = np.concatenate((np.zeros(1, np.int64), np.cumsum(growth[order])))
        return np.append(starts[order], _LAST), stops[order], shift

    def _kept(self, hits: I64, size: int) -> I64:
        """Hits of the base that no change touches, where they stand now."""
        starts, stops, shift = self._events
        before = np.searchsorted(stops, hits, side="right")
        keep = hits + size <= starts[before]
        kept: I64 = hits[keep] + shift[before[keep]]
        return kept

    def _hits(self, ids: I64) -> Iterator[I64]:
        """Runs of rising positions of the hits, one after the other; none is empty."""
        refuse(ids, self.max_id, self.dtype)
        if not len(ids):
            yield from (np.arange(a, min(a + _PAGE, self.num_tokens)) for a in range(0, self.num_tokens, _PAGE))
            return
        added = self._added(ids)
        for page in self.base.pages(ids, _PAGE):
            kept = self._kept(page, len(ids))
            if len(kept):
                upto = int(np.searchsorted(added, kept[-1]))
                yield np.sort(np.concatenate((kept, added[:upto]))) if upto else kept
                added = added[upto:]
        if len(added):
            yield added

    def _added(self, ids: I64) -> I64:
        """Hits that changes brought, rising."""
        level = self._level(len(ids) - 1)
        if level is None:
            return self._pieces(len(ids) - 1).added(self._scanned(ids)[1], len(ids))
        ranks = np.zeros((len(level.new.rows), 2), np.int64)
        find_one(self._kind, level.new.rows, ids, self.max_id, ranks)
        found = [shard.positions[low:high] for shard, (low, high) in zip(level.new.shards, ranks.tolist(), strict=True)]
        return level.near.added(np.sort(np.concatenate([np.zeros(0, np.int64), *found])).astype(np.int64), len(ids))

    def _numbered(self, query: Query, chosen: I64) -> I64:
        """The hits number `chosen`, which rise."""
        out, passed = list[I64](), 0
        for run in self._hits(as_ids(query)):
            low, high = np.searchsorted(chosen, (passed, passed + len(run)))
            out.append(run[chosen[low:high] - passed])
            passed += len(run)
        return np.concatenate([np.zeros(0, np.int64), *out])

    def _scanned(self, ids: I64) -> tuple[I64, I64]:
        """Hits in the old and in the new text around the changes, by looking at all of it."""
        around = self._pieces(len(ids) - 1)
        old, new = ((around.old, around.old_ends), (around.new, around.new_ends))
        return _found(*old, ids), _found(*new, ids)

    def _level(self, context: int) -> _Level | None:
        """The pieces as small indexes, with `context` tokens around the changes or the fewest above; None for more than any."""
        least = next((c for c in CONTEXTS if c >= context), None)
        if least is not None and least not in self._levels:
            near = self._cut(least)
            old, new = _tables(self.dtype, near.old, near.old_ends), _tables(self.dtype, near.new, near.new_ends)
            self._levels[least] = _Level(least, near, old, new, np.concatenate((self.base.tables.rows, new.rows)))
        return self._levels[least] if least is not None else None

    def _pieces(self, context: int) -> Pieces:
        """The pieces for a context longer than that of the tables; those of the last few lengths are kept."""
        if context not in self._around:
            self._around[context] = self._cut(context)
            if len(self._around) > _SIZES_KEPT:
                self._around.popitem(last=False)
        return self._around[context]

    def _cut(self, context: int) -> Pieces:
        return cut(self.base, self.changes, self.store, self.starts, context)

    def __repr__(self) -> str:
        return f"<Edited{super().__repr__()[1:-1]}, {len(self.changes)} changes>"

    def __reduce__(self) -> tuple[Any, ...]:
        pair, store = self.store.pair, self.store
        return _reopen, (self.folder, f"{pair.prefix}@{store.entry}" if isinstance(store, EditedTokens) else pair.idx)


def _fenced(fenced: bool) -> None:
    if not fenced:
        raise BadQuery(
            "matches across borders of documents cannot be found over edits: write the set with `typecase edit write` and index"
            " that"
        )


def _tables(dtype: np.dtype[Any], text: npt.NDArray[Any], ends: I64) -> Tables:
    """An index of `text` in memory, fenced at `ends`; of no shard where there is no text."""
    if not len(text):
        return Tables(dtype, [])
    if int(text.min()) < 0:
        raise BadQuery("an edit wrote a negative id, which no index can hold: take it back, or replace it")
    positions = np.asarray(suffix_array(text, ends), np.uint32)
    bits = end_bits(ends, len(text))
    low, high = int(text[positions[0]]), int(text[positions[-1]])
    width = digit_bits(low, high)
    keys = sample_keys(text, positions, bits, low, width, 64 // width)
    ids, first = first_tokens(text, positions, max(_MOST_IDS, len(text) // 64))
    marks = mark_changes(text, positions, bits)
    table = (ids, first) if len(ids) else (None, None)
    return Tables(dtype, [Suffixes(text, positions, bits, keys, marks, *table)])


def _found(text: npt.NDArray[Any], ends: I64, ids: I64) -> I64:
    return np.asarray(find_within(text, np.concatenate((np.zeros(1, np.int64), ends)), ids), np.int64)


def _follows(text: npt.NDArray[Any], ends: I64, ids: I64) -> _Followers:
    """What follows `ids` in pieces of text; a piece that ends amid its document ends with context, which cancels out."""
    behind = _found(text, ends, ids) + len(ids)
    ending = behind == ends[np.searchsorted(ends, behind - 1, side="right")]
    tokens, counts = np.unique(text[behind[~ending]].astype(np.int64), return_counts=True)
    return tokens, counts, int(np.count_nonzero(ending))
