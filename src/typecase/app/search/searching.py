"""Verbs over a search index: hits as places, what follows, continuations, statistics, attribution.

    with open_search("work/index/demo", run="run.toml") as search:
        search.hits("the public domain", where="source = 'notes'")
        search.index.count([464, 1171])                     the index itself, by token ids
    with open_search("work/index/demo", tokens="work/tokens/demo@") as search: ...        with the edits of its journal

A hit is a place: its document and source, its tokens, the text around it, and, with a run, every step that trains on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.app.verbs import tokenizer_for
from typecase.core.display import box, facts, marked, numbers
from typecase.errors import BadQuery, NotFound
from typecase.store.index.answers import Stretch
from typecase.store.index.filtered import Scope, count_within, positions_within
from typecase.store.index.index import Index, indexed_set, open_index
from typecase.store.index.phrases import TextMatch, Variant, search_regex, variants
from typecase.store.index.spelling import is_byte_level, text_count
from typecase.store.journal.opening import split_edited
from typecase.store.journal.view import EditedTokens
from typecase.store.timeline.documents import DocumentFacts, Library
from typecase.store.timeline.report import walk
from typecase.store.timeline.timeline import Sighting, Timeline, open_timeline
from typecase.store.tokenizer.tokenizer import Tokenizer
from typecase.store.tokens.pair import find_pair
from typecase.store.tokens.store import TokenStore

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a query stands: tokens [start, stop) of a document, with the text before, of it, and after.

    `sightings` are the places in training that see it, where a run was given.
    """

    position: int
    document: DocumentFacts
    start: int
    stop: int
    before: str
    text: str
    after: str
    sightings: tuple[Sighting, ...] = ()

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        d = self.document
        steps = sorted({s.seat.step for s in self.sightings if s.seat is not None})
        known = {"source": d.source, "id": d.doc_id, "tokens": f"[{self.start}, {self.stop})", "steps": numbers(steps, 12)}
        return facts(f"document {d.doc}", known) + box(marked(self.before, self.text, self.after))


@dataclass(frozen=True, slots=True)
class Searched:
    """What a query found: how often, of how many looked at with the filters, and some of the hits, from `offset` on."""

    asked: str
    ids: tuple[int, ...]
    count: int
    offset: int
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Following:
    """A token that follows a query: its id and text, how often, and its share of all occurrences."""

    id: int
    text: str | None
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class Quoted:
    """A stretch of a given text that stands verbatim in the set, with some of the documents that hold it.

    `positions` are some of its places, to be given to `Search.at`.
    """

    start: int
    stop: int
    text: str
    count: int
    log_prob: float
    documents: tuple[DocumentFacts, ...]
    positions: tuple[int, ...] = ()


class Search:
    """An index with what is known of its token set. Made by `open_search`."""

    def __init__(
        self, index: Index, library: Library, tokenizer: Tokenizer | None, timeline: Timeline | None, *, owns_timeline: bool
    ) -> None:
        self.index, self.library, self.tokenizer, self.timeline = index, library, tokenizer, timeline
        self._owns_timeline = owns_timeline
        self.member = self._member() if timeline is not None else 0

    def _member(self) -> int:
        assert self.timeline is not None
        mine = self.index.store.pair.prefix.resolve()
        for number, store in enumerate(self.timeline.stores):
            if store.pair.prefix.resolve() == mine:
                if not _numbered_alike(store, self.index.store):
                    raise BadQuery(
                        f"the run reads {mine} with other documents or lengths than are searched: name the set in the run file"
                        " as it is to be searched, with @ and a branch or entry behind it"
                    )
                return number
        raise BadQuery(f"the run does not read {mine}, which {self.index.folder} was made from")

    def ids_of(self, query: str | Sequence[int] | npt.NDArray[np.integer]) -> Ints:
        """Token ids of a text, as it stands and without special tokens; ids stay as they are. Raises BadQuery."""
        if not isinstance(query, str):
            return np.asarray(query, np.int64)
        ids = np.asarray(self._reader().encode(query), np.int64)
        if not ids.size:
            raise BadQuery("the text encodes to no token: write at least one character")
        return ids

    def scope(self, where: str | None = None, steps: tuple[int, int] | None = None) -> Scope:
        """Where hits count: documents of a condition in SQL, and what steps [first, last) of the run train on."""
        docs = self.library.where(where) if where is not None else None
        if steps is None:
            return Scope(docs)
        if self.timeline is None:
            raise BadQuery("a range of steps needs a run: give the run file whose steps are meant")
        last = self.timeline.num_steps
        if not 0 <= steps[0] < steps[1] or (last is not None and steps[1] > last):
            raise BadQuery(f"there are no steps {steps[0]}:{steps[1]}: the run has {last}, numbered from 0")
        starts, stops = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for _, reads, _ in walk(self.timeline, *steps):
            own = np.repeat(reads.members, np.diff(reads.packing.bounds)) == self.member
            begins, _ = self._positions_of(reads.packing.docs[own], reads.packing.starts[own])
            starts.append(begins)
            stops.append(begins + (reads.packing.stops - reads.packing.starts)[own])
        begin, end = np.concatenate(starts), np.concatenate(stops)
        order = np.argsort(begin, kind="stable")
        touched = np.zeros(self.index.num_documents, np.bool_)
        touched[self.index.places(begin).docs] = True
        return Scope(touched if docs is None else touched & docs, begin[order], end[order])

    def _positions_of(self, sequences: Ints, tokens: Ints) -> tuple[Ints, Ints]:
        docs, firsts = self.library.documents_of(sequences)
        return self.index.starts[docs] + firsts + tokens, docs

    def hits(
        self,
        query: str | Sequence[int] | npt.NDArray[np.integer],
        *,
        limit: int = 10,
        offset: int = 0,
        sample: int | None = None,
        seed: int = 0,
        where: str | None = None,
        steps: tuple[int, int] | None = None,
        context: int = 20,
    ) -> Searched:
        """Hits of a text or of ids, by rising position: `limit` from the `offset`-th on, or a uniform `sample` by `seed`.

        `where` and `steps` as in `scope`; `context` tokens of the document are shown on each side.
        """
        ids = self.ids_of(query)
        plain = where is None and steps is None
        scope = self.scope(where, steps)
        count = self.index.count(ids) if plain else count_within(self.index, ids, scope)
        if sample is not None and plain:
            positions = self.index.positions(ids, sample=sample, seed=seed)
        elif sample is not None:
            every = positions_within(self.index, ids, scope)
            drawn = np.random.default_rng(seed).choice(len(every), min(sample, len(every)), replace=False)
            positions = np.sort(every[drawn])
        elif plain:
            positions = self.index.positions(ids, limit=limit, offset=offset)
        else:
            positions = positions_within(self.index, ids, scope, limit=limit, offset=offset)
        asked = query if isinstance(query, str) else f"{len(ids)} ids"
        return Searched(asked, tuple(ids.tolist()), count, offset, tuple(self.at(positions, len(ids), context=context)))

    def at(self, positions: Ints, length: int | Ints, *, context: int = 20) -> list[Hit]:
        """The hits at `positions`, of `length` tokens or of so many each (positions,)."""
        places = self.index.places(positions)
        facts = self.library.facts(places.docs)
        sightings = self.sightings(places.docs, places.offsets, length)
        found = []
        for k, (position, doc, start, own_length) in enumerate(
            zip(
                positions.tolist(),
                places.docs.tolist(),
                places.offsets.tolist(),
                np.broadcast_to(length, len(positions)).tolist(),
                strict=True,
            )
        ):
            low, stop = max(start - context, 0), start + own_length
            high = min(stop + context, int(self.index.starts[doc + 1] - self.index.starts[doc]))
            text = self.index.text[position - (start - low) : position + (high - start)]
            first, last = start - low, stop - low
            before, own, after = (self.text_of(cut) for cut in (text[:first], text[first:last], text[last:]))
            found.append(Hit(position, facts[doc], start, stop, before, own, after, sightings[k]))
        return found

    def sightings(self, docs: Ints, starts: Ints, length: int | Ints) -> list[tuple[Sighting, ...]]:
        """Of every hit (`length` tokens from token `starts` of `docs`) the places in training that see all or part of it."""
        if self.timeline is None or not len(docs):
            return [()] * len(docs)
        runs, sequences, lows, highs = [], [], [], []
        stops = starts + length
        for k, (doc, start, stop) in enumerate(zip(docs.tolist(), starts.tolist(), stops.tolist(), strict=True)):
            own = self.library.sequences_of(doc)
            _, firsts = self.library.documents_of(own)
            sizes = self.index.store.lengths[own]
            low, high = np.maximum(start - firsts, 0), np.minimum(stop - firsts, sizes)
            touched = low < high
            runs += [k] * int(touched.sum())
            sequences.append(own[touched])
            lows.append(low[touched])
            highs.append(high[touched])
        seen = self.timeline.when_each(*map(np.concatenate, (sequences, lows, highs)), member=self.member)
        found: list[list[Sighting]] = [[] for _ in docs]
        for run, sighting in seen:
            found[runs[run]].append(sighting)
        return [tuple(one) for one in found]

    def text_of(self, ids: npt.NDArray[Any]) -> str:
        """The text of token ids; the numbers themselves where no tokenizer is known."""
        return self.tokenizer.decode(ids) if self.tokenizer is not None else " ".join(map(str, ids.tolist()))

    def variants(self, text: str, *, limit: int = 12) -> list[Variant]:
        """How `text` may stand in the set as tokens, as is first, and how often each does; none without a tokenizer."""
        return variants(self.index, self.tokenizer, text, limit=limit) if self.tokenizer is not None else []

    @property
    def byte_level(self) -> bool:
        """Whether the tokens have bytes of their own, so that text can be looked for as text."""
        return self.tokenizer is not None and is_byte_level(self.tokenizer)

    def as_text(self, text: str) -> int:
        """How often `text` stands in the documents as characters, however it was cut into tokens. Raises BadQuery."""
        return text_count(self.index, self._reader(), text)

    def regex(self, pattern: str, *, limit: int | None = None) -> list[TextMatch]:
        """Matches of a regular expression in the text of the documents, narrowed by the index. Raises BadQuery."""
        return list(search_regex(self.index, self._reader(), pattern, limit=limit))

    def _reader(self) -> Tokenizer:
        if self.tokenizer is None:
            raise BadQuery(f"{self.index.store.pair.prefix} has no tokenizer recorded: name one to look at its text")
        return self.tokenizer

    def following(self, query: str | Sequence[int], *, top: int = 10) -> tuple[int, list[Following]]:
        """How often a query occurs, and the tokens that follow it most often; an end of a document is id -1."""
        found = self.index.next(self.ids_of(query) if query != "" else [])
        total = found.total
        rows = [
            Following(i, self.tokenizer.token_text(i) if self.tokenizer is not None else None, c, c / total)
            for i, c in found.top(top)
        ]
        if found.ends:
            rows.append(Following(-1, "(the document ends)", found.ends, found.ends / total))
        return total, rows

    def attribute(
        self,
        text: str | Sequence[int],
        *,
        min_len: int = 6,
        max_count: int | None = None,
        documents: int = 5,
        whole_words: bool = True,
    ) -> list[Quoted]:
        """Which stretches of `text` stand verbatim in the set, the longest from each place, with some documents of each.

        `whole_words` lets stretches begin and end where words do, where the tokenizer tells.
        """
        ids = self.ids_of(text)
        begins = self._word_begins if whole_words and self.tokenizer is not None else None
        found = self.index.attribute(ids, min_len=min_len, max_count=max_count, word_begins=begins, limit=documents)
        facts = self.library.facts(np.concatenate([one.docs for one in found])) if found else {}
        return [self._quoted(ids, one, facts) for one in found]

    def _quoted(self, ids: Ints, one: Stretch, facts: Mapping[int, DocumentFacts]) -> Quoted:
        named = tuple(facts[d] for d in dict.fromkeys(one.docs.tolist()))
        text, positions = self.text_of(ids[one.start : one.stop]), tuple(one.positions.tolist())
        return Quoted(one.start, one.stop, text, one.count, one.log_prob, named, positions)

    @cached_property
    def _word_begins(self) -> npt.NDArray[np.bool_]:
        """Of every id whether its text may begin a word: with a blank, a sign, or a letter beyond ASCII (not within one)."""
        assert self.tokenizer is not None
        begins = np.zeros(self.tokenizer.num_ids, np.bool_)
        for token in range(self.tokenizer.num_ids):
            data = self.tokenizer.token_bytes(token)
            begins[token] = not data or not (data[:1].isalnum() or 0x80 <= data[0] < 0xC0)
        return begins

    def close(self) -> None:
        self.index.store.close()
        if self.timeline is not None and self._owns_timeline:
            self.timeline.close()

    def __enter__(self) -> Search:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def hits_over(
    searches: Sequence[Search], query: str | Sequence[int], *, limit: int = 10, offset: int = 0, **options: Any
) -> Searched:
    """Hits in several indexes as if they were one, in their order: sets that were appended, each with an index of its own.

    Documents tell by `member` which index they are of. Options as in `Search.hits`, without `sample`.
    """
    if options.get("sample") is not None and len(searches) > 1:
        raise BadQuery("a sample is drawn from one index: merge the sets and index the new one, or page by offset")
    total, hits, ids, left, skip = 0, list[Hit](), tuple[int, ...](), limit, offset
    for search in searches:
        found = search.hits(query, limit=left, offset=skip, **options)
        hits += found.hits
        total, ids = total + found.count, found.ids
        left, skip = max(left - len(found.hits), 0), max(skip - found.count, 0)
    return Searched(query if isinstance(query, str) else f"{len(query)} ids", ids, total, offset, tuple(hits))


def open_search(
    index: Path | str,
    *,
    tokens: Path | str | None = None,
    tokenizer: str | None = None,
    run: Timeline | Path | str | None = None,
    ratings: Path | None = None,
    member: int = 0,
) -> Search:
    """Opens the index in a folder, with the documents, tokenizer and scores of its token set; `run` adds the steps of a run.

    `tokens` names the set where it lies elsewhere, or as its journal says: `set@`, `set@branch`, `set@17`. Without, it is
    searched as the run reads it, or as it lies. Raises NotFound when there is no index, FingerprintMismatch when its token set
    has changed since, otherwise than by its own journal.
    """
    folder = Path(index)
    if not folder.is_dir():
        raise NotFound(f"{folder} holds no index: make one with `typecase index TOKENS -o {folder}`")
    current = tokens is not None and split_edited(tokens)[1] == ""
    if isinstance(run, Timeline) or run is None:
        timeline = run
    else:
        timeline = open_timeline(run, ratings=ratings, edited=current)
    opened = open_index(folder, tokens if timeline is None else _as_read(timeline, tokens or indexed_set(folder)))
    library = Library(member, opened.store, ratings)
    reader = tokenizer_for(opened.store.pair.bin.parent, tokenizer)
    return Search(opened, library, reader, timeline, owns_timeline=not isinstance(run, Timeline))


def _as_read(timeline: Timeline, tokens: Path | str) -> Path | str:
    """`tokens` as the run reads it, where it does not say itself which entry of its journal is meant."""
    plain, at = split_edited(tokens)
    if at is None:
        mine = find_pair(plain).prefix
        for store in timeline.stores:
            if isinstance(store, EditedTokens) and store.pair.prefix.resolve() == mine.resolve():
                return f"{mine}@{store.entry}"
    return tokens


def _numbered_alike(one: TokenStore, other: TokenStore) -> bool:
    """Whether sequences have the same numbers and lengths in both, so that a place in the one is one in the other."""
    if not any(isinstance(store, EditedTokens) and store.moved for store in (one, other)):
        return True
    return np.array_equal(one.lengths, other.lengths) and np.array_equal(one.document_index, other.document_index)
