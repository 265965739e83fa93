"""Index: exact search over a token set by a suffix array in memory maps.

    index = open_index("index/")                     milliseconds: maps, no scan
    index.count([464, 3290])                         occurrences within documents
    index.positions([464, 3290], limit=10)           rising; `index.places` turns them into documents and tokens
    index.next([464, 3290])                          what follows, sparse

A *position* counts tokens from 0 over all documents laid end to end; in a set whose sequences lie so in the `.bin`, which is
nearly every set, it is the number of the item there. A match lies within one document; `fenced=False` asks for those that
cross a border as well, which takes a look at every border. The empty query occurs at every token.

Price: a count 1–4 us, in batches half of it; a position 15–40 ns; what follows 1 us and 30–80 ns for each distinct token. An
index has no state: threads and processes may share it, and it pickles as the folder that it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.edit.overlay import Overlay
from typecase.core.suffix.crew import share, spans
from typecase.core.suffix.find import count_one, find_many, find_one, occurs_longest, sort_keys
from typecase.core.suffix.next import next_many, next_of
from typecase.core.suffix.scan import crossings
from typecase.core.suffix.tables import Tables
from typecase.engine.local import available_cores
from typecase.errors import BadQuery, NotFound, SchemaMismatch, TryAgain
from typecase.store.index import attribution, boolean, pages, sampling, smoothing, statistics
from typecase.store.index.answers import (
    Found,
    LongestNext,
    Matches,
    NextTokens,
    Ngrams,
    Places,
    Probability,
    Ranked,
    Repeated,
    Stretch,
)
from typecase.store.index.layout import FLAT, Facts, read_shard
from typecase.store.index.queries import I64, Batch, Queries, Query, as_batch, as_ids, refuse
from typecase.store.index.recognise import Check, recognise, signature
from typecase.store.journal.opening import open_edited, split_edited
from typecase.store.journal.view import EditedTokens
from typecase.store.manifest import Manifest, read_manifest
from typecase.store.tokens.pair import TokenPair, find_pair
from typecase.store.tokens.store import TokenStore, open_tokens

_LEAST_QUERIES = 32
"""Fewer are not worth another thread."""

Clauses = Sequence[Query | Sequence[Query]]
"""Phrases that must all hold; a list of phrases is a clause that holds where one of them does."""


def open_index(folder: Path | str, tokens: Path | str | None = None, *, check: Check = "stamp") -> Index:
    """Opens the index in `folder` over the token set `tokens`, by default the one that it was made from, where it lay.

    With `@` behind its name the set is searched as its journal says (see `open_set`); without, as it lies, edits in place by
    its journal included. `check` says how closely the set is looked at; see `recognise`. Raises
    NotFound, SchemaMismatch when the folder holds another artifact, FingerprintMismatch when the set is not the one that was
    indexed, CorruptStore when a file is damaged, TryAgain when it is being edited in place.
    """
    folder = Path(folder)
    manifest = _manifest_of(folder)
    path, at = split_edited(tokens) if tokens is not None else (_indexed_set(folder, manifest), None)
    pair, facts = find_pair(path), Facts.of(manifest.decision, folder)
    for _ in range(2):  # the first opening may itself end an application in place that was broken off
        before = signature(pair)
        opened = _opened(folder, facts, pair, at, check)
        if signature(pair) == before:
            return opened
        opened.store.close()
    raise TryAgain(f"{pair.prefix} was written to while it was opened: repeat when that is done")


def _opened(folder: Path, facts: Facts, pair: TokenPair, at: str | None, check: Check) -> Index:
    store = open_edited(pair.idx, at or None) if at is not None else open_tokens(pair.idx)
    try:
        taken_back = recognise(pair, facts, folder, check)
        base = Index(folder, facts, store.base if isinstance(store, EditedTokens) else store, taken_back)
        if at is None and taken_back is None:
            return base
        from typecase.store.index.edited import EditedIndex

        return EditedIndex(base, store, taken_back)
    except BaseException:
        store.close()
        raise


def indexed_set(folder: Path | str) -> Path:
    """The `.idx` of the set that the index in `folder` was made from. Raises NotFound where it lies there no more."""
    return _indexed_set(Path(folder), _manifest_of(Path(folder)))


def _manifest_of(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    if manifest.kind != "index":
        raise SchemaMismatch(f"{folder} holds {manifest.kind}, not an index: make one with `typecase index`")
    return manifest


def _indexed_set(folder: Path, manifest: Manifest) -> Path:
    parent = manifest.parent("tokens")
    where = Path(folder, parent.path) if parent is not None else folder
    try:
        return find_pair(where).idx
    except NotFound:
        raise NotFound(f"the token set of {folder} is no longer at {where.resolve()}: say where it lies now") from None


class Index:
    """An open index; get one from `open_index`. `store` is the token set, `text` its tokens by position (tokens,)."""

    def __init__(self, folder: Path, facts: Facts, store: TokenStore, taken_back: Overlay | None = None) -> None:
        """`taken_back` is laid over the `.bin` of `store`, where that was edited in place after it was indexed."""
        self.folder, self.facts, self.store = folder, facts, store
        self.dtype = facts.dtype
        self.num_tokens, self.num_documents = facts.num_tokens, facts.num_documents
        self.max_id = int(np.iinfo(facts.dtype).max)
        self.text: npt.NDArray[Any] = _text(folder / FLAT if facts.flat else store.pair.bin, facts)
        if taken_back is not None and not facts.flat:
            self.text = _restored(store, facts, taken_back)
        shards = [read_shard(folder, k, self.text[s.first_token : s.last_token]) for k, s in enumerate(facts.shards)]
        self.tables = Tables(facts.dtype, shards)
        self._kind, self._rows = self.tables.kind, self.tables.rows

    # How often, where.

    def count(self, query: Query, *, fenced: bool = True) -> int:
        """How often `query` occurs. Raises BadQuery for an id that the set cannot hold."""
        ids = as_ids(query)
        total = count_one(self._kind, self._rows, ids, self.max_id)
        if total < 0:
            refuse(ids, self.max_id, self.dtype)
        return int(total) if fenced else int(total) + len(self._crossing(ids))

    def count_batch(self, queries: Queries) -> I64:
        """`count` of every query, (queries,)."""
        lower, upper, _ = self._ranks(as_batch(queries))
        counts: I64 = (upper - lower).sum(axis=0)
        return counts

    def contains(self, query: Query, *, fenced: bool = True) -> bool:
        return self.count(query, fenced=fenced) > 0

    def contains_batch(self, queries: Queries) -> npt.NDArray[np.bool_]:
        return self.count_batch(queries) > 0

    def find(self, query: Query) -> Found:
        """The ranks of the suffixes that begin with `query`, shard by shard."""
        ids, ranks = as_ids(query), np.zeros((len(self._rows), 2), np.int64)
        total = find_one(self._kind, self._rows, ids, self.max_id, ranks)
        if total < 0:
            refuse(ids, self.max_id, self.dtype)
        return Found(int(total), ranks)

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
        """Positions of the hits, rising: all, `limit` of them from the `offset`-th on, or a uniform `sample` of them."""
        found = self.find(query)
        more = None if fenced else self._crossing(as_ids(query))
        if sample is not None:
            return pages.drawn(self.tables, found.ranks, more, sample, np.random.default_rng(seed))
        return pages.cut(self.tables, found.ranks, more, offset, limit)

    def pages(self, query: Query, size: int = 1 << 16) -> Iterator[I64]:
        """All positions, rising, `size` at a time: memory is bounded for any number of hits."""
        return pages.paged(self.tables, self.find(query).ranks, size)

    def places(self, positions: npt.ArrayLike) -> Places:
        """The document of every position, and the token within it. Raises BadQuery for a position outside the set."""
        wanted = as_ids(np.asarray(positions))
        if wanted.size and not 0 <= int(wanted.min()) <= int(wanted.max()) < self.num_tokens:
            raise BadQuery(f"positions lie in [0, {self.num_tokens}), got {int(wanted.min())} … {int(wanted.max())}")
        docs = np.searchsorted(self.starts, wanted, side="right") - 1
        return Places(wanted, docs, wanted - self.starts[docs])

    @cached_property
    def starts(self) -> I64:
        """The position where each document begins, and the end of the last one (documents + 1,); made at the first use."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.store.document_lengths(), dtype=np.int64)))

    # What follows.

    def next(self, query: Query, *, fenced: bool = True) -> NextTokens:
        """The tokens that follow `query`; of the empty query, all tokens."""
        ids = as_ids(query)
        refuse(ids, self.max_id, self.dtype)
        parts = [next_of(self._kind, row, ids, np.uint64(0), len(ids)) for row in self._rows]
        inside = joined(parts)
        return inside if fenced or not len(ids) else self._next_over_borders(ids, inside)

    def next_batch(self, queries: Queries, *, threads: int = 0) -> list[NextTokens]:
        """`next` of every query, by `threads` threads; 0 means every core. The answers are the same for any number."""
        batch = as_batch(queries)
        lower, upper, order = self._ranks(batch)
        sizes, back = batch.sizes[order], np.argsort(order)

        def some(span: tuple[int, int]) -> list[NextTokens]:
            own, num = order[slice(*span)], sizes[slice(*span)]
            parts = [next_many(self._kind, row, num, lower[k][own], upper[k][own]) for k, row in enumerate(self._rows)]
            return [
                joined([(ids[o[k] : o[k + 1]], counts[o[k] : o[k + 1]], ends[k]) for ids, counts, o, ends in parts])
                for k in range(len(own))
            ]

        cuts = spans(len(batch), threads or available_cores(), _LEAST_QUERIES)
        found = [one for part in share(len(cuts), some, cuts) for one in part]
        return [found[k] for k in back.tolist()]

    def prob(self, prompt: Query, token: int) -> Probability:
        """How likely `token` follows `prompt` in the set."""
        ids = as_ids(prompt)
        return self._prob(ids, token, len(ids))

    def infgram_prob(self, prompt: Query, token: int) -> Probability:
        """`prob` behind the longest end of the prompt that occurs."""
        ids = as_ids(prompt)
        return self._prob(ids, token, self.longest_suffix(ids))

    def infgram_next(self, prompt: Query) -> LongestNext:
        """`next` behind the longest end of the prompt that occurs."""
        ids = as_ids(prompt)
        size = self.longest_suffix(ids)
        return LongestNext(size, self.next(ids[len(ids) - size :]))

    def longest_suffix(self, prompt: Query, longest: int | None = None) -> int:
        """Tokens of the longest end of `prompt` that occurs, `longest` at most."""
        ids = as_ids(prompt)
        refuse(ids, self.max_id, self.dtype)
        return int(occurs_longest(self._kind, self._rows, ids, min(len(ids), len(ids) if longest is None else longest)))

    def sample_unsmoothed(self, query: Query, *, n: int, num_tokens: int, num_samples: int = 1, seed: int = 0) -> list[I64]:
        """Continues `query` by up to `num_tokens` tokens, each drawn as often as it follows the last n - 1; see `sampling`."""
        return sampling.unsmoothed(self, query, n=n, num_tokens=num_tokens, num_samples=num_samples, seed=seed)

    def kneser_ney(self, order: int, *, vocab_size: int | None = None) -> smoothing.KneserNey:
        """A smoothed model of n-grams up to `order`, its discounts fitted to this set: one pass over the index an order."""
        return smoothing.fit(self, order, vocab_size=vocab_size)

    # Several phrases, given texts, statistics.

    def matching(self, clauses: Clauses, *, within: int | None = None, estimate: int | None = None, seed: int = 0) -> Matches:
        """Hits of the rarest clause with all the others in the same document, or `within` so many tokens; see `boolean`."""
        return boolean.matching(self, clauses, within=within, estimate=estimate, seed=seed)

    def ranked(self, clauses: Clauses, *, limit: int = 10) -> Ranked:
        """The documents that hold the most of `clauses`."""
        return boolean.ranked(self, clauses, limit=limit)

    def longest_match(self, text: Query) -> I64:
        """For every token of `text` the end of the longest stretch from there that occurs, (m,)."""
        return attribution.longest_match(self, text)

    def attribute(self, text: Query, **options: Any) -> list[Stretch]:
        """Which stretches of `text` stand verbatim in the set; see `attribution` for the options."""
        return attribution.attribute(self, text, **options)

    def ngrams(self, n: int, *, at_least: int | None = None, top: int | None = None) -> Ngrams:
        """N-grams that occur `at_least` so often, in their own order, or the `top` most frequent."""
        return statistics.ngrams(self, n, at_least=at_least, top=top)

    def duplicates(self, min_tokens: int) -> Repeated:
        """The stretches of `min_tokens` tokens or more that are covered by repeats of that length."""
        return statistics.duplicates(self, min_tokens)

    def contamination(self, texts: Sequence[Query], n: int) -> npt.NDArray[np.float64]:
        """Of each text, the share of its n-grams that occur in the set; NaN for a text shorter than n."""
        return statistics.contamination(self, texts, n)

    # Within.

    def _ranks(self, batch: Batch) -> tuple[I64, I64, I64]:
        """Lower and upper ranks (shards, queries), and the order that brings like queries together."""
        refuse(batch.ids, self.max_id, self.dtype)
        order = np.argsort(sort_keys(batch.ids, batch.offsets))
        lower, upper = np.zeros((2, len(self._rows), len(batch)), np.int64)
        for k, row in enumerate(self._rows):
            find_many(self._kind, row, batch.ids, batch.offsets, order, lower[k], upper[k])
        return lower, upper, order

    def _prob(self, ids: I64, token: int, size: int) -> Probability:
        used = ids[len(ids) - size :]
        prompt, count = self.count(used), self.count(np.append(used, as_ids([token])))
        return Probability(prompt, count, count / prompt if prompt else None, size)

    def _crossing(self, ids: I64) -> I64:
        return np.asarray(crossings(self.text, self.starts[1:], ids), np.int64)

    def _next_over_borders(self, ids: I64, inside: NextTokens) -> NextTokens:
        """What follows when borders are no fences: the tokens behind crossing hits, and those behind the ends of documents."""
        ends = np.unique(self.starts[1:])
        closing = ends - len(ids)
        closing = closing[closing >= self.starts[np.searchsorted(self.starts, ends) - 1]]
        for k, token in enumerate(ids.tolist()):
            closing = closing[self.text[closing + k] == token]
        hits = [self._crossing(ids), closing]
        behind = np.concatenate(hits) + len(ids)
        more, counts = np.unique(self.text[behind[behind < self.num_tokens]].astype(np.int64), return_counts=True)
        both = joined([(inside.ids, inside.counts, 0), (more, counts, 0)])
        return NextTokens(both.ids, both.counts, int(np.count_nonzero(behind >= self.num_tokens)))

    def __repr__(self) -> str:
        return f"<Index {self.folder}: {self.num_documents} documents, {self.num_tokens} tokens, {len(self._rows)} shards>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.folder, self.store.pair.idx)


def _reopen(folder: Path, tokens: Path) -> Index:
    return open_index(folder, tokens, check="probe")


def _text(path: Path, facts: Facts) -> npt.NDArray[Any]:
    if not facts.num_tokens:
        return np.zeros(0, facts.dtype)
    return np.memmap(path, facts.dtype, "r", shape=(facts.num_tokens,)).view(np.ndarray)


def _restored(store: TokenStore, facts: Facts, taken_back: Overlay) -> npt.NDArray[Any]:
    """The text as it was indexed: the pages that were edited in place are private copies, all others the file's."""
    text = np.memmap(store.pair.bin, facts.dtype, "c", shape=(facts.num_tokens,)).view(np.ndarray)
    begins = store.pointers[taken_back.sequences] // facts.dtype.itemsize + taken_back.starts
    counts = taken_back.counts
    text[np.arange(len(taken_back.new)) + np.repeat(begins - taken_back.offsets[:-1], counts)] = taken_back.new
    return text


def joined(parts: Sequence[tuple[I64, I64, int]]) -> NextTokens:
    """What several shards say, added up."""
    if len(parts) == 1:
        return NextTokens(parts[0][0], parts[0][1], int(parts[0][2]))
    if not parts:
        return NextTokens(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    ids, where = np.unique(np.concatenate([p[0] for p in parts]), return_inverse=True)
    counts = np.zeros(len(ids), np.int64)
    np.add.at(counts, where, np.concatenate([p[1] for p in parts]))
    return NextTokens(ids, counts, int(sum(p[2] for p in parts)))
