"""Search: where a text or a row of ids stands, its variants, what follows it, and for every hit its document and steps.

phrase    as it stands, as tokens; the variants say how else it may stand and how often
all       phrases, one a line, that stand in one document, or within so many tokens; `one|other` is either
most      documents by how many of the phrases they hold
regex     a regular expression over the text, narrowed by the index
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from typecase.app.search import statistics
from typecase.app.search.searching import Following, Hit, Search
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk
from typecase.app.web.filters import check_condition
from typecase.app.web.kin import runs_of
from typecase.app.web.state import ask
from typecase.errors import BadQuery
from typecase.store import exports
from typecase.store.picks import numbers
from typecase.store.timeline.documents import DocumentFacts
from typecase.store.timeline.timeline import Sighting

MODES = ("phrase", "all", "most", "regex")
MOST_IDS = 10_000
SHOWN_STEPS = 12


@dataclass(frozen=True, slots=True)
class Query:
    index: str = ask("", "the search index; the first by default")
    q: str = ask("", "the text to look for; with all and most a phrase a line, one|other for either")
    ids: str = ask("", "token ids instead of the text, with commas")
    mode: str = ask("phrase", "what is asked", choices=MODES)
    within: int | None = ask(None, "with all: phrases begin within so many tokens", low=1)
    where: str = ask("", "only documents of a condition: source = 'wiki' and tokens < 2000", longest=2000)
    run: str = ask("", "the run whose steps are shown; the first over the set by default, - for none")
    steps: str = ask("", "only what these steps of the run train on: 100:200", longest=40)
    context: int = ask(20, "tokens shown on each side", low=0, high=200)
    top: int = ask(20, "tokens that follow", low=0, high=200)
    page: int = ask(1, "which page of hits", low=1, high=100_000_000)
    size: int = ask(20, "hits of a page", low=1, high=200)


@dataclass(frozen=True, slots=True)
class Way:
    """One row of tokens that the text may be: why it was tried, its ids and their texts, how often it stands in the set."""

    reason: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A place in training that sees a hit; `step` is None beyond the run."""

    step: int | None
    rank: int | None
    index: int
    at: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Found:
    """A hit: tokens [start, stop) of a document, the text around it, and the first places in training of `sightings`."""

    position: int
    doc: int
    doc_id: str | None
    source: str | None
    start: int
    stop: int
    before: str
    text: str
    after: str
    sightings: int
    seen: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document that holds phrases: how many of them, and how many hits, where that was counted."""

    doc: int
    doc_id: str | None
    source: str | None
    phrases: int
    hits: int
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found in `set` by `index`.

    `total` counts hits of a phrase, places with all phrases, or documents that are shown. `as_text` counts the text as
    characters, however it was cut. `off` is the standard error of an estimated total.
    """

    index: str
    set: str
    run: str
    set_tokens: int
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    total: float
    off: float
    as_text: int | None
    page: int
    size: int
    ways: tuple[Way, ...]
    hits: tuple[Found, ...]
    documents: tuple[FoundDocument, ...]
    following: tuple[Following, ...]


def answer(desk: Desk, query: Query) -> Answer:
    """What a state asks. Raises NotFound, BadQuery, and FingerprintMismatch for an index of another set."""
    item = desk.catalogue.get(query.index, "index")
    tokens = desk.set_of(item)
    run = run_over(desk, tokens, query.run)
    with desk.search(item, run) as search:
        base = _Base(item.name, tokens.name if tokens is not None else "", run.name if run is not None else "", search)
        if not query.q.strip() and not query.ids.strip():
            return base.answer(query)
        if query.where.strip():
            check_condition(query.where, columns_of(search))
        if query.mode == "phrase" or query.ids.strip():
            return _phrase(base, query)
        if query.mode == "regex":
            return _regex(base, query)
        return _phrases(base, query)


@dataclass(frozen=True, slots=True)
class _Base:
    index: str
    set: str
    run: str
    search: Search

    def answer(self, query: Query, **found: Any) -> Answer:
        nothing: dict[str, Any] = {"ids": (), "pieces": (), "total": 0, "off": 0.0, "as_text": None, "ways": (), "hits": ()}
        nothing |= {"documents": (), "following": ()}
        size = self.search.index.store.num_tokens
        return Answer(self.index, self.set, self.run, size, page=query.page, size=query.size, **{**nothing, **found})


def run_over(desk: Desk, tokens: Item | None, name: str) -> Item | None:
    """The run whose steps are shown: the first over a token set by default, - for none. Raises NotFound."""
    if name == "-":
        return None
    if name:
        return desk.catalogue.get(name, "run")
    return next(iter(runs_of(desk, tokens)), None) if tokens is not None else None


def columns_of(search: Search) -> list[str]:
    """The columns that a condition over the documents of a set may name."""
    library = search.library
    if library.provenance is None:
        return ["doc", "tokens"]
    import pyarrow.parquet as pq

    own = ["doc", "doc_id", "source", "file", "row", "tokens"]
    rated = [n for p in library._ratings[:1] for n in pq.read_schema(p).names]
    return list(dict.fromkeys([*own, *rated]))


def asked_ids(query: Query) -> list[int]:
    """The ids that were given instead of a text. Raises BadQuery."""
    if ":" in query.ids:
        raise BadQuery("token ids are written one by one, with commas")
    ids = numbers(query.ids)
    if len(ids) > MOST_IDS:
        raise BadQuery(f"{len(ids):,} ids are given: at most {MOST_IDS:,} are looked for")
    return ids


def _steps(text: str) -> tuple[int, int] | None:
    if not text.strip():
        return None
    first, colon, last = text.strip().partition(":")
    if not first.isdigit() or (colon and not last.isdigit()):
        raise BadQuery(f"{text!r} is no range of steps: write 100 or 100:200")
    return (int(first), int(last)) if colon else (int(first), int(first) + 1)


def _phrase(base: _Base, query: Query) -> Answer:
    search = base.search
    asked: str | list[int] = asked_ids(query) if query.ids.strip() else query.q
    where = query.where if query.where.strip() else None
    found = search.hits(
        asked,
        limit=query.size,
        offset=query.size * (query.page - 1),
        where=where,
        steps=_steps(query.steps),
        context=query.context,
    )
    ways: tuple[Way, ...] = ()
    as_text = None
    if query.q.strip():
        ways = tuple(Way(v.reason, v.ids, v.pieces, v.count) for v in search.variants(query.q))
        as_text = search.as_text(query.q) if search.byte_level else None
    _, following = search.following(asked, top=query.top) if query.top else (0, [])
    return base.answer(
        query,
        ids=found.ids,
        pieces=_pieces(search, found.ids),
        total=found.count,
        as_text=as_text,
        ways=ways,
        hits=tuple(map(_hit, found.hits)),
        following=tuple(following),
    )


def _pieces(search: Search, ids: tuple[int, ...]) -> tuple[str, ...]:
    reader = search.tokenizer
    return tuple(reader.token_text(i) if reader is not None and i <= reader.max_id else str(i) for i in ids)


def _hit(hit: Hit) -> Found:
    d = hit.document
    seen = tuple(map(seen_of, hit.sightings[:SHOWN_STEPS]))
    return Found(
        hit.position, d.doc, d.doc_id, d.source, hit.start, hit.stop, hit.before, hit.text, hit.after, len(hit.sightings), seen
    )


def seen_of(one: Sighting) -> Seen:
    """A place in training, as it is shown."""
    seat = one.seat
    return Seen(seat.step if seat else None, seat.rank if seat else None, one.index, one.at, one.epoch)


def _phrases(base: _Base, query: Query) -> Answer:
    texts = [line for line in query.q.splitlines() if line.strip()]
    if query.where.strip() or query.steps.strip():
        raise BadQuery("a condition or a range of steps goes with one phrase: ask for it alone, or leave them out")
    if query.mode == "all":
        found = statistics.together(base.search, texts, within=query.within, limit=query.size)
        documents = tuple(_document(d, len(texts), 0, "") for d in found.documents)
        return base.answer(query, total=found.count, off=found.standard_error, documents=documents)
    ranked = statistics.ranked(base.search, texts, limit=query.size)
    documents = tuple(_document(r.document, r.clauses, r.hits, "") for r in ranked)
    return base.answer(query, total=len(documents), documents=documents)


def _document(facts: DocumentFacts, phrases: int, hits: int, text: str) -> FoundDocument:
    return FoundDocument(facts.doc, facts.doc_id, facts.source, phrases, hits, text)


def _regex(base: _Base, query: Query) -> Answer:
    import numpy as np

    if query.where.strip() or query.steps.strip():
        raise BadQuery("a condition or a range of steps goes with a phrase: leave them out with a regular expression")
    matches = base.search.regex(query.q, limit=query.size)
    facts = base.search.library.facts(np.array([m.doc for m in matches], np.int64)) if matches else {}
    documents = tuple(_document(facts[m.doc], 1, 1, m.text) for m in matches)
    return base.answer(query, total=len(documents), documents=documents)


def python(desk: Desk, query: Query) -> str:
    item = desk.catalogue.get(query.index, "index")
    run = run_over(desk, desk.set_of(item), query.run)
    given = f", run={str(run.path)!r}" if run is not None else ""
    asked = repr(asked_ids(query) if query.ids.strip() else query.q)
    texts = repr([line for line in query.q.splitlines() if line.strip()])
    if query.mode == "all" and not query.ids:
        call = f"together(search, {texts}, within={query.within})"
        return f"import typecase as tc\nfrom typecase.app.search.statistics import together\n\n{_with(item, given)}\n    {call}"
    if query.mode == "most" and not query.ids:
        call = f"ranked(search, {texts})"
        return f"import typecase as tc\nfrom typecase.app.search.statistics import ranked\n\n{_with(item, given)}\n    {call}"
    call = f"search.regex({query.q!r})" if query.mode == "regex" else f"search.hits({asked}{_options(query)})"
    return f"import typecase as tc\n\n{_with(item, given)}\n    {call}"


def _with(item: Item, given: str) -> str:
    return f"with tc.open_search({str(item.path)!r}{given}) as search:"


def _options(query: Query) -> str:
    told = f", where={query.where!r}" if query.where.strip() else ""
    told += f", steps={_steps(query.steps)!r}" if query.steps.strip() else ""
    return f"{told}, limit={query.size}, offset={query.size * (query.page - 1)}, context={query.context}"


def command(desk: Desk, query: Query) -> str:
    item = desk.catalogue.get(query.index, "index")
    run = run_over(desk, desk.set_of(item), query.run)
    path = shlex.quote(str(item.path))
    texts = " ".join(shlex.quote(line) for line in query.q.splitlines() if line.strip())
    if query.mode == "regex" and not query.ids:
        return f"typecase search regex {path} {shlex.quote(query.q)}"
    if query.mode in ("all", "most") and not query.ids:
        more = " --all" + (f" --within {query.within}" if query.within else "") if query.mode == "all" else ""
        return f"typecase search rank {path} {texts}{more}"
    said = f"--ids {shlex.quote(query.ids)}" if query.ids.strip() else shlex.quote(query.q)
    said += f" --where {shlex.quote(query.where)}" if query.where.strip() else ""
    said += f" --run {shlex.quote(str(run.path))}" if run is not None else ""
    said += f" --steps {shlex.quote(query.steps)}" if query.steps.strip() else ""
    return f"typecase search find {path} {said} --limit {query.size} --offset {query.size * (query.page - 1)}"


FORMATS = ("jsonl", "csv", "parquet")


def export(desk: Desk, query: Query, out: Path) -> None:
    """All hits of a phrase, or the documents that are shown. Raises BadQuery for nothing, FixInput for too many."""
    item = desk.catalogue.get(query.index, "index")
    first = answer(desk, query)
    if not first.hits and not first.documents:
        raise BadQuery("nothing was found: there is nothing to download")
    if first.documents:
        exports.export_rows([pa.Table.from_pylist([_as_row(d) for d in first.documents])], out)
        return
    if first.total > desk.limits.export_rows:
        raise BadQuery(f"{first.total:,.0f} hits: at most {desk.limits.export_rows:,} are downloaded; narrow the question")
    run = run_over(desk, desk.set_of(item), query.run) if query.steps.strip() else None
    with desk.search(item, run) as search:
        exports.export_rows(_all_hits(search, query, int(first.total)), out)


def _all_hits(search: Search, query: Query, total: int) -> Iterator[pa.Table]:
    asked: str | list[int] = asked_ids(query) if query.ids.strip() else query.q
    where = query.where if query.where.strip() else None
    for offset in range(0, total, 2000):
        found = search.hits(asked, limit=2000, offset=offset, where=where, steps=_steps(query.steps), context=query.context)
        yield pa.Table.from_pylist(
            [{k: v for k, v in _as_row(_hit(h)).items() if k not in ("seen", "sightings")} for h in found.hits]
        )


def _as_row(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}
