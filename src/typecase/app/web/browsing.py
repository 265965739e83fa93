"""Browsing: which documents of a set fit some filters, in which order, a page at a time.

    documents     SQL over doc_id, source, file, row, and, only where a filter names them, the scores and lengths
    token sets    `Library.where` over provenance and ratings, as search and trace use it; edits of the journal included

Price: the first page of an unfiltered set costs its narrow columns up to the page; a filter or an order one pass over the
columns it names, some 0.2 s a million documents. Counts and names of sources are kept until the files change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from typecase.app.verbs import tokenizer_for
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.filters import check_condition, column, parquet, quoted, reading
from typecase.app.web.kin import ratings_of, tokens_of
from typecase.app.web.selections import Chosen, outcomes_of
from typecase.app.web.texts import beginnings
from typecase.errors import BadQuery, FixInput
from typecase.store import exports
from typecase.store.documents import open_documents
from typecase.store.provenance import NAME as PROVENANCE
from typecase.store.timeline.documents import Library, rating_parts
from typecase.store.tokens.store import TokenStore

_NOT_SCORES = ("doc_id", "domain", "status", "rated_bytes", "raw", "windows", "codes")
_MOST_NAMES = 200
_OUTCOME = "_outcome"
BEGINS = 160
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows, in which order, from which on, and how many."""

    source: str = ""
    domain: str = ""
    score: str = ""
    low: float | None = None
    high: float | None = None
    shortest: int | None = None
    longest: int | None = None
    where: str = ""
    sort: str = ""
    down: bool = False
    offset: int = 0
    limit: int = 25
    outcome: str = ""

    @property
    def chosen(self) -> tuple[Any, ...]:
        """What decides which rows fit, whatever their order."""
        scores = (self.score, self.low, self.high)
        return (self.source, self.domain, *scores, self.shortest, self.longest, self.where, self.outcome)


@dataclass(frozen=True, slots=True)
class Row:
    """One document of a page: `doc` is what to ask for it by; `length` in tokens where they are known; `begins` its first
    characters; `score` the value of the score that is shown; `outcome` what the chosen selection says of it."""

    doc: str
    doc_id: str | None
    source: str | None
    domain: str | None
    length: int | None
    score: float | None
    begins: str
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    total: int
    rows: tuple[Row, ...]
    score: str


@dataclass(frozen=True, slots=True)
class Facets:
    """What a set can be filtered by. `parts` are the files behind it, `ratings` and `lengths` those that can be joined.

    `chosen` is the selection whose outcomes are shown.
    """

    all: int
    sources: Mapping[str, int]
    domains: Mapping[str, int]
    columns: tuple[str, ...]
    scores: tuple[str, ...]
    parts: tuple[Path, ...] = ()
    ratings: tuple[Path, ...] = ()
    lengths: tuple[Path, ...] = ()
    rated: tuple[str, ...] = field(default=())
    chosen: Chosen = field(default=Chosen())


def facets(desk: Desk, item: Item) -> Facets:
    """What a set can be filtered by, kept until its files change."""
    ratings = ratings_of(desk, item)
    stamp = (stamp_of(item), stamp_of(ratings) if ratings is not None else ())
    make = (lambda: _of_documents(desk, item, ratings)) if item.kind == "docs" else (lambda: _of_tokens(desk, item, ratings))
    return desk.remember(("facets", item.path), stamp, make)


def listing(desk: Desk, item: Item, filters: Filters, known: Facets) -> Listing:
    """The rows of a page. Raises BadQuery for a filter that the set cannot answer."""
    score = filters.score or ("overall_score" if "overall_score" in known.scores else next(iter(known.scores), ""))
    condition, used = condition_of(filters, known)
    if item.kind == "docs":
        return _list_documents(desk, item, filters, known, condition, used, score)
    with desk.tokens(item) as store:
        library = _library(desk, item, store)
        docs = _chosen_tokens(desk, item, filters, known, condition, library)
        rows = _token_rows(store, library, docs[filters.offset : filters.offset + filters.limit], score)
    outcomes = outcomes_of(desk, known.chosen, [r.doc_id for r in rows if r.doc_id])
    return Listing(len(docs), tuple(replace(r, outcome=outcomes.get(r.doc_id or "")) for r in rows), score)


def condition_of(filters: Filters, known: Facets) -> tuple[str, set[str]]:
    """The filters as one condition in SQL, "" for none, and the columns that it and the order name."""
    parts, used = [], set[str]()

    def bound(name: str, sign: str, value: str) -> None:
        if name not in known.columns:
            raise BadQuery(f"this set has no {name!r} to filter by: it has {', '.join(known.columns)}")
        parts.append(f"{column(name)} {sign} {value}")
        used.add(name)

    if filters.source:
        bound("source", "=", quoted(filters.source))
    if filters.domain:
        bound("domain", "=", quoted(filters.domain))
    if filters.score and filters.score not in known.scores:
        raise BadQuery(f"there is no score {filters.score!r}: there are {', '.join(known.scores) or 'none'}")
    for value, sign in ((filters.low, ">="), (filters.high, "<=")):
        if value is not None:
            if not filters.score:
                raise BadQuery("a bound needs a score: name the one that is meant")
            bound(filters.score, sign, repr(value))
    for length, sign in ((filters.shortest, ">="), (filters.longest, "<=")):
        if length is not None:
            bound("tokens", sign, str(length))
    if filters.where.strip():
        used |= check_condition(filters.where, known.columns)
        parts.append(f"({filters.where})")
    if filters.outcome:
        if filters.outcome not in (known.chosen.outcomes or {}):
            there = ", ".join(known.chosen.outcomes or {}) or "none, for no selection is chosen"
            raise BadQuery(f"there is no outcome {filters.outcome!r}: there is {there}")
        if known.parts:
            parts.append(f"{_OUTCOME} = {quoted(filters.outcome)}")
            used.add(_OUTCOME)
    if filters.sort:
        if filters.sort not in known.columns:
            raise BadQuery(f"there is no column {filters.sort!r} to sort by: there are {', '.join(known.columns)}")
        used.add(filters.sort)
    return " and ".join(parts), used


# Documents.


def _of_documents(desk: Desk, item: Item, ratings: Item | None) -> Facets:
    store = open_documents(item.path)
    rated = tuple(rating_parts(ratings.path)) if ratings is not None else ()
    tokens = tokens_of(desk, item)
    lengths = (tokens.path / PROVENANCE,) if tokens is not None and (tokens.path / PROVENANCE).is_file() else ()
    sources = _names(desk, store.parts, "source")
    scores, columns = _scores_of(rated)
    domains = _names(desk, rated, "domain") if "domain" in columns else {}
    own = ("doc_id", "source", "file", "row", *(("tokens",) if lengths else ()))
    return Facets(store.num_documents, sources, domains, (*own, *columns), scores, store.parts, rated, lengths, columns)


def _scores_of(parts: Sequence[Path]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The numbers that a rater gave, and all columns that can be asked for."""
    if not parts:
        return (), ()
    schema = pq.read_schema(parts[0])
    plain = [f for f in schema if not pa.types.is_nested(f.type) and f.name not in ("doc_id", "raw")]
    scores = [f.name for f in plain if pa.types.is_floating(f.type) and not f.name.endswith("_surety")]
    return tuple(scores), tuple(f.name for f in plain)


def _names(desk: Desk, parts: Sequence[Path], name: str) -> dict[str, int]:
    if not parts:
        return {}
    sql = f"select {column(name)} as name, count(*) as n from {parquet(parts)} group by 1 order by n desc, name"
    sql += f" limit {_MOST_NAMES}"
    with reading(parts, seconds=desk.limits.seconds) as connection:
        table = connection.sql(sql).to_arrow_table()
    return {r["name"]: r["n"] for r in table.to_pylist() if r["name"] is not None}


def _relation(known: Facets, used: set[str]) -> tuple[str, list[Path]]:
    """The tables that `used` columns come from, joined, and their files."""
    paths = list(known.parts)
    sql = f'(select doc_id, source, file, "row" from {parquet(known.parts)}) as d'
    if used & set(known.rated):
        names = ", ".join(column(c) for c in sorted(used & set(known.rated)))
        sql += f" left join (select doc_id, {names} from {parquet(known.ratings)}) as r using (doc_id)"
        paths += known.ratings
    if "tokens" in used:
        lengths = f"(select doc_id, max(tokens) as tokens from {parquet(known.lengths)} group by doc_id)"
        sql += f" left join {lengths} as p using (doc_id)"
        paths += known.lengths
    if _OUTCOME in used:
        sql += f" left join (select doc_id, reason as {_OUTCOME} from {parquet(known.chosen.parts)}) as s using (doc_id)"
        paths += known.chosen.parts
    return sql, paths


def _list_documents(
    desk: Desk, item: Item, filters: Filters, known: Facets, condition: str, used: set[str], score: str
) -> Listing:
    relation, paths = _relation(known, used)
    where = f" where {condition}" if condition else ""
    seconds = desk.limits.seconds
    with reading(paths, seconds=seconds) as connection:

        def count() -> int:
            return int(connection.sql(f"select count(*) from {relation}{where}").fetchall()[0][0])

        total = known.all
        if condition:
            total = desk.remember(("count", item.path, filters.chosen, known.chosen.name), stamp_of(item), count)
        order = f"{column(filters.sort)} {'desc' if filters.down else 'asc'} nulls last, doc_id" if filters.sort else "doc_id"
        sql = f"select doc_id, source from {relation}{where} order by {order} limit {filters.limit} offset {filters.offset}"
        page = connection.sql(sql).to_arrow_table().to_pylist()
    return Listing(total, _document_rows(desk, known, page, score), score)


def _document_rows(desk: Desk, known: Facets, page: Sequence[Mapping[str, Any]], score: str) -> tuple[Row, ...]:
    ids = [r["doc_id"] for r in page]
    begins = beginnings(known.parts, ids, BEGINS)
    domain = "domain" if "domain" in known.rated else ""
    rated = _side(desk, known.ratings, ids, [n for n in (score, domain) if n in known.rated])
    lengths = _side(desk, known.lengths, ids, ["tokens"] if known.lengths else [])
    outcomes = outcomes_of(desk, known.chosen, ids)
    return tuple(
        Row(
            r["doc_id"],
            r["doc_id"],
            r["source"],
            rated.get(r["doc_id"], {}).get("domain"),
            lengths.get(r["doc_id"], {}).get("tokens"),
            rated.get(r["doc_id"], {}).get(score),
            begins.get(r["doc_id"], ""),
            outcomes.get(r["doc_id"]),
        )
        for r in page
    )


def _side(desk: Desk, parts: Sequence[Path], ids: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Some narrow columns of the rows of a few ids."""
    if not parts or not names or not ids:
        return {}
    wanted = ", ".join(quoted(i) for i in ids)
    sql = f"select doc_id, {', '.join(map(column, names))} from {parquet(parts)} where doc_id in ({wanted})"
    with reading(parts, seconds=desk.limits.seconds) as connection:
        return {r["doc_id"]: r for r in connection.sql(sql).to_arrow_table().to_pylist()}


# Token sets.


def _of_tokens(desk: Desk, item: Item, ratings: Item | None) -> Facets:
    with desk.tokens(item) as store:
        library = _library(desk, item, store)
        count = store.num_documents
        rated = tuple(rating_parts(ratings.path)) if ratings is not None and library.provenance is not None else ()
        scores, columns = _scores_of(rated)
        if library.provenance is None:
            return Facets(count, {}, {}, ("doc", "tokens"), ())
        sources = _names(desk, [library.provenance.path], "source")
    domains = _names(desk, rated, "domain") if "domain" in columns else {}
    own = ("doc", "doc_id", "source", "file", "row", "tokens")
    return Facets(count, sources, domains, (*own, *columns), scores, ratings=rated, rated=columns)


def _library(desk: Desk, item: Item, store: TokenStore) -> Library:
    ratings = ratings_of(desk, item)
    return Library(0, store, ratings.path if ratings is not None else None)


def _chosen_tokens(desk: Desk, item: Item, filters: Filters, known: Facets, condition: str, library: Library) -> Ints:
    """The numbers of the documents that fit, in order; the last few such lists are kept."""

    def choose() -> Ints:
        docs: Ints = np.flatnonzero(library.where(condition)) if condition else np.arange(library.store.num_documents)
        if filters.outcome:
            docs = docs[_with_outcome(library, known.chosen, filters.outcome)[docs]]
        if filters.sort in ("", "doc"):
            return docs[::-1] if filters.sort and filters.down else docs
        ordered: Ints = docs[_order(library, filters, docs)]
        return ordered

    key = ("chosen", item.path, filters.chosen, known.chosen.name, filters.sort, filters.down)
    return desk.remember(key, stamp_of(item), choose)


def _with_outcome(library: Library, chosen: Chosen, outcome: str) -> npt.NDArray[np.bool_]:
    """Of every document of a token set whether a selection gives it this outcome."""
    own = pq.read_table(list(chosen.parts), columns=["doc_id"], filters=[("reason", "=", outcome)]).column("doc_id")
    ids = library.columns(["doc_id"]).column("doc_id")
    return np.asarray(pa.compute.is_in(ids, value_set=own.combine_chunks().cast(ids.type)))


def _order(library: Library, filters: Filters, docs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if filters.sort == "tokens":
        values = pa.array(library.store.document_lengths(docs))
    else:
        values = library.columns([filters.sort]).column(filters.sort).combine_chunks().take(pa.array(docs))
    way = "descending" if filters.down else "ascending"
    table = pa.table({"value": values, "doc": docs})
    order = pa.compute.sort_indices(table, sort_keys=[("value", way), ("doc", "ascending")])
    return np.asarray(order)


def _token_rows(store: TokenStore, library: Library, docs: np.ndarray[Any, Any], score: str) -> tuple[Row, ...]:
    facts = library.facts(docs)
    reader = tokenizer_for(store.pair.bin.parent, None)
    lengths = store.document_lengths(docs)
    rows = []
    for doc, length in zip(docs.tolist(), lengths.tolist(), strict=True):
        one = facts[doc]
        own = library.sequences_of(doc)[:1]
        ids = store.read_spans(own, np.zeros(1, np.int64), np.minimum(store.lengths[own], 48))[0] if len(own) else ()
        text = reader.decode(ids)[:BEGINS] if reader is not None else " ".join(map(str, np.asarray(ids)[:24].tolist()))
        value = one.scores.get(score)
        domain = one.scores.get("domain")
        rows.append(Row(str(doc), one.doc_id, one.source, domain, length, value, text))
    return tuple(rows)


# Downloads.


def export_listing(desk: Desk, item: Item, filters: Filters, known: Facets, out: Path) -> None:
    """Writes all documents that fit to a new file. Raises FixInput for more than may be downloaded."""
    condition, used = condition_of(filters, known)
    if item.kind == "docs":
        store = open_documents(item.path)
        where: set[str] | None = None
        if condition:
            relation, paths = _relation(known, used)
            with reading(paths, seconds=desk.limits.seconds * 4) as connection:
                found = connection.sql(f"select doc_id from {relation} where {condition}").to_arrow_table()
            where = set(found.column("doc_id").to_pylist())
        _bound(desk, len(where) if where is not None else known.all)
        exports.export_rows(_with_rows(exports.document_rows(store, where=where)), out)
        return
    with desk.tokens(item) as store_:
        library = _library(desk, item, store_)
        docs = _chosen_tokens(desk, item, filters, known, condition, library)
        _bound(desk, len(docs))
        reader = tokenizer_for(store_.pair.bin.parent, None)
        decode = reader.decode if reader is not None else None
        what: exports.What = "both" if reader is not None else "tokens"
        exports.export_rows(exports.token_rows(store_, docs, what=what, decode=decode, provenance=library.provenance), out)


def _bound(desk: Desk, number: int) -> None:
    if number > desk.limits.export_rows:
        raise FixInput(
            f"{number:,} documents fit: at most {desk.limits.export_rows:,} are downloaded; filter, or use `typecase export`"
        )
    if number == 0:
        raise BadQuery("no document fits the filters: there is nothing to download")


def _with_rows(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield from tables
