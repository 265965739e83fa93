"""Documents: a set of documents or tokens, filtered, sorted and paged, and one document of it from all sides.

    the page    rows [size * (page - 1), size * page) of what fits the filters; counts are exact
    a document  text, tokens with their boundaries, scores, program, and what became of it at every stage

Nothing loads a set: filters run over narrow columns, texts are read for the rows of the page alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typecase.app.web.browsing import Facets, Filters, Listing, Row, export_listing, facets, listing
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk
from typecase.app.web.detail import Detail, detail_of
from typecase.app.web.selections import chosen_selection, selections_of
from typecase.app.web.state import ask


@dataclass(frozen=True, slots=True)
class Query:
    set: str = ask("", "documents or token set; the first of them by default")
    source: str = ask("", "only documents of this source")
    domain: str = ask("", "only documents of this domain")
    score: str = ask("", "the score that is shown, and that low and high bound")
    low: float | None = ask(None, "only scores from this on")
    high: float | None = ask(None, "only scores up to this")
    shortest: int | None = ask(None, "only documents of so many tokens or more", low=0)
    longest: int | None = ask(None, "only documents of so many tokens or fewer", low=0)
    where: str = ask("", "a condition over the columns: source = 'wiki' and tokens < 2000", longest=2000)
    selection: str = ask("", "the selection of these documents whose outcome is shown; the first by default, - for none")
    outcome: str = ask("", "only documents with this outcome: kept, or why not", longest=100)
    sort: str = ask("", "the column to sort by; as stored by default")
    down: bool = ask(False, "sort from large to small")
    page: int = ask(1, "which page of rows", low=1, high=100_000_000)
    size: int = ask(25, "rows of a page", low=1, high=200)
    doc: str = ask("", "the document that is shown: its number in a token set, or its doc_id", longest=64)
    tokens: int = ask(1000, "tokens of it that are shown", low=1, high=20_000)


@dataclass(frozen=True, slots=True)
class Answer:
    """A page of documents of `set`: `total` fit of `all`. `detail` is the document that was asked for.

    `sources` and `domains` say how many documents each has, most first, at most 200; `columns` are those that can be sorted and
    asked for, `scores` the numbers among them that a rater gave. `selections` are those made over these documents; `outcomes`
    says how many documents each reason has in the shown one, `selection`.
    """

    set: str
    kind: str
    all: int
    total: int
    page: int
    size: int
    rows: tuple[Row, ...]
    sources: Mapping[str, int]
    domains: Mapping[str, int]
    columns: tuple[str, ...]
    scores: tuple[str, ...]
    score: str
    selections: tuple[str, ...]
    selection: str
    outcomes: Mapping[str, int]
    detail: Detail | None


def answer(desk: Desk, query: Query) -> Answer:
    """The page of documents that a state means. Raises NotFound, BadQuery, CorruptStore."""
    item = desk.catalogue.get(query.set, "docs", "tokens")
    known = _known(desk, item, query)
    found: Listing = listing(desk, item, filters_of(query), known)
    detail = detail_of(desk, item, query.doc, limit=query.tokens) if query.doc else None
    return Answer(
        item.name,
        item.kind,
        known.all,
        found.total,
        query.page,
        query.size,
        found.rows,
        known.sources,
        known.domains,
        known.columns,
        known.scores,
        found.score,
        tuple(s.name for s in selections_of(desk, item)),
        known.chosen.name,
        known.chosen.outcomes or {},
        detail,
    )


def _known(desk: Desk, item: Item, query: Query) -> Facets:
    return replace(facets(desk, item), chosen=chosen_selection(desk, item, query.selection))


def filters_of(query: Query) -> Filters:
    return Filters(
        query.source,
        query.domain,
        query.score,
        query.low,
        query.high,
        query.shortest,
        query.longest,
        query.where,
        query.sort,
        query.down,
        query.size * (query.page - 1),
        query.size,
        query.outcome,
    )


def python(desk: Desk, query: Query) -> str:
    item = desk.catalogue.get(query.set, "docs", "tokens")
    lines = ["import typecase as tc", "", f"store = tc.open({str(item.path)!r})"]
    if query.doc and item.kind == "docs":
        lines.append(f"store.get({query.doc!r}).text")
    elif query.doc:
        lines.append(f"store.read({query.doc if query.doc.isdigit() else repr(query.doc)})")
    elif item.kind == "docs":
        lines.append('store.sql("select * from docs order by doc_id limit 25")')
    else:
        lines.append("store.document_lengths()")
    return "\n".join(lines)


def command(desk: Desk, query: Query) -> str:
    item = desk.catalogue.get(query.set, "docs", "tokens")
    path = shlex.quote(str(item.path))
    if query.doc:
        return f"typecase show {path} {shlex.quote(query.doc)}"
    return f"typecase export {path} -o documents.jsonl"


FORMATS = ("jsonl", "csv", "parquet")


def export(desk: Desk, query: Query, out: Path) -> Any:
    """All documents that fit the filters, with text and, of a token set, tokens."""
    item = desk.catalogue.get(query.set, "docs", "tokens")
    export_listing(desk, item, filters_of(query), _known(desk, item, query), out)
