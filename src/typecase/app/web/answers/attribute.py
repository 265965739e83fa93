"""Attribute: which stretches of a text, say of a model's output, stand verbatim in a token set, and where each comes from.

    text      The quick brown fox jumps over a lazy zebra.
    spans      '---------- 3 times ---------'  '- once -'      the longest from every word, none within another
    places    document 812 of wiki, tokens [40, 46), trained on in step 7 …

Places are some of all where a span is frequent; its count is of all.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from typecase.app.search.searching import Hit, Quoted, Search
from typecase.app.web.answers.search import SHOWN_STEPS, Seen, run_over, seen_of
from typecase.app.web.desk import Desk
from typecase.app.web.registry import Action
from typecase.app.web.state import ask, checked
from typecase.errors import BadQuery
from typecase.store import exports

COLOURS = ("rarity", "length")
MOST_SPANS = 2000
_NO_SOURCE = "(unknown)"


@dataclass(frozen=True, slots=True)
class Query:
    index: str = ask("", "the search index; the first by default")
    text: str = ask("", "the text, as a model wrote it", longest=100_000)
    least: int = ask(6, "tokens of the shortest span", low=1, high=10_000)
    most: int | None = ask(None, "leave out spans that stand more often in the set", low=1)
    words: bool = ask(True, "spans begin and end where words do")
    run: str = ask("", "the run whose steps are shown; the first over the set by default, - for none")
    documents: int = ask(5, "places shown of each span", low=1, high=50)
    context: int = ask(20, "tokens shown on each side of a place", low=0, high=200)
    by: str = ask("rarity", "what the colours of spans tell", choices=COLOURS)
    span: int | None = ask(None, "the span whose places are shown, from 1; the rarest by default", low=1)


@dataclass(frozen=True, slots=True)
class Origin:
    """A place of the set where a span stands: tokens [start, stop) of a document, the text around them, and its steps.

    `sightings` counts the places in training that see it, of which `seen` holds the first.
    """

    position: int
    doc: int
    doc_id: str | None
    source: str | None
    place: str | None
    start: int
    stop: int
    before: str
    text: str
    after: str
    sightings: int
    seen: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens [start, stop) of the text, which stand `count` times in the set.

    `bits` is how unlikely its tokens are together by their frequencies alone: the more, the less is it there by chance.
    """

    number: int
    start: int
    stop: int
    text: str
    count: int
    bits: float
    origins: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the text that the same spans cover, by their numbers; all segments together are the text."""

    text: str
    spans: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The spans of a text of `tokens` tokens, `covered` of which stand in the set.

    `sources` counts the tokens of the text that some shown place of each source holds.
    """

    index: str
    set: str
    run: str
    set_tokens: int
    tokens: int
    covered: int
    spans: tuple[Span, ...]
    segments: tuple[Segment, ...]
    sources: Mapping[str, int]


def answer(desk: Desk, query: Query) -> Answer:
    """The spans of the text of a state. Raises NotFound, and BadQuery for an edited set, whose index tells no spans."""
    item = desk.catalogue.get(query.index, "index")
    tokens = desk.set_of(item)
    run = run_over(desk, tokens, query.run)
    name = tokens.name if tokens is not None else ""
    with desk.search(item, run) as search:
        size = search.index.store.num_tokens
        told = item.name, name, run.name if run is not None else "", size
        if not query.text.strip():
            return Answer(*told, 0, 0, (), (), {})
        ids = search.ids_of(query.text)
        quoted = _quoted(search, ids.tolist(), query)
        spans = _spans(search, quoted, query.context)
        covered = _covered(spans, len(ids))
        return Answer(*told, len(ids), int(covered.sum()), spans, _segments(search, ids, spans), _sources(spans, len(ids)))


def _quoted(search: Search, ids: Sequence[int], query: Query) -> list[Quoted]:
    found = search.attribute(ids, min_len=query.least, max_count=query.most, documents=query.documents, whole_words=query.words)
    if len(found) > MOST_SPANS:
        raise BadQuery(f"{len(found):,} spans stand in the set: at most {MOST_SPANS:,} are shown; ask for longer ones")
    return found


def _spans(search: Search, quoted: Sequence[Quoted], context: int) -> tuple[Span, ...]:
    positions = np.array([p for q in quoted for p in q.positions], np.int64)
    lengths = np.array([q.stop - q.start for q in quoted for _ in q.positions], np.int64)
    hits = iter(search.at(positions, lengths, context=context) if len(positions) else ())
    return tuple(
        Span(
            number,
            q.start,
            q.stop,
            q.text,
            q.count,
            -q.log_prob / math.log(2),
            tuple(_origin(next(hits)) for _ in q.positions),
        )
        for number, q in enumerate(quoted, 1)
    )


def _origin(hit: Hit) -> Origin:
    d = hit.document
    seen = tuple(map(seen_of, hit.sightings[:SHOWN_STEPS]))
    facts = hit.position, d.doc, d.doc_id, d.source, d.place
    return Origin(*facts, hit.start, hit.stop, hit.before, hit.text, hit.after, len(hit.sightings), seen)


def _covered(spans: Sequence[Span], tokens: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    covered = np.zeros(tokens, np.bool_)
    for span in spans:
        covered[span.start : span.stop] = True
    return covered


def _segments(search: Search, ids: np.ndarray[Any, Any], spans: Sequence[Span]) -> tuple[Segment, ...]:
    borders = sorted({0, len(ids), *(s.start for s in spans), *(s.stop for s in spans)})
    found = []
    for low, high in pairwise(borders):
        own = tuple(s.number for s in spans if s.start <= low and high <= s.stop)
        found.append(Segment(search.text_of(ids[low:high]), own))
    return tuple(found)


def _sources(spans: Sequence[Span], tokens: int) -> dict[str, int]:
    names = sorted({o.source or _NO_SOURCE for s in spans for o in s.origins})
    held = Counter(
        {n: int(_covered([s for s in spans if n in {o.source or _NO_SOURCE for o in s.origins}], tokens).sum()) for n in names}
    )
    return dict(held.most_common())


def python(desk: Desk, query: Query) -> str:
    item = desk.catalogue.get(query.index, "index")
    run = run_over(desk, desk.set_of(item), query.run)
    given = f", run={str(run.path)!r}" if run is not None else ""
    more = f", max_count={query.most}" if query.most is not None else ""
    more += "" if query.words else ", whole_words=False"
    return (
        f"import typecase as tc\n\nwith tc.open_search({str(item.path)!r}{given}) as search:\n"
        f"    for span in search.attribute({query.text!r}, min_len={query.least}{more}, documents={query.documents}):\n"
        f"        print(span.start, span.stop, span.count, [d.doc for d in span.documents])"
    )


def command(desk: Desk, query: Query) -> str:
    path = shlex.quote(str(desk.catalogue.get(query.index, "index").path))
    more = f" --max-count {query.most}" if query.most is not None else ""
    told = f"--min-tokens {query.least}{more} --documents {query.documents}"
    return f"printf %s {shlex.quote(query.text)} | typecase search attribute {path} - {told}"


FORMATS = ("jsonl", "csv", "parquet")


def export(desk: Desk, query: Query, out: Path) -> None:
    """A row for every shown place of every span. Raises BadQuery where no span stands in the set."""
    told = answer(desk, query)
    if not told.spans:
        raise BadQuery("no span of the text stands in the set: there is nothing to download")
    exports.export_rows([pa.Table.from_pylist([_row(s, o) for s in told.spans for o in s.origins])], out)


def _row(span: Span, origin: Origin) -> dict[str, Any]:
    known = {k: v for k, v in asdict(span).items() if k != "origins"}
    place = {f"set_{k}" if k in ("start", "stop") else k: v for k, v in asdict(origin).items() if k not in ("seen", "text")}
    return {**known, **place, "steps": [s.step for s in origin.seen if s.step is not None]}


def _read(desk: Desk, asked: Query) -> Answer:
    return answer(desk, checked(asked))


ACTIONS = (Action("read", Query, Answer, _read, "The spans of a text that is too long for an address"),)
