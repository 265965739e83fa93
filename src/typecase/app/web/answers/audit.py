"""Token audit: the verdict of every token, filtered, sorted and paged; the same as points; one token from all sides.

the page    tokens [size * (page - 1), size * page) of those that fit; counts are exact
the plot    an indicator against the count, at most DOTS points of each decision
a token     what each audit says, where it stands by every indicator, its relatives, its places in a corpus
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from typecase.app.audit.page import TABLE
from typecase.app.audit.verdict import lists_of
from typecase.app.web.desk import Desk
from typecase.app.web.state import ask
from typecase.app.web.tokens import Token, token_of
from typecase.app.web.verdicts import (
    Dots,
    Filters,
    Row,
    all_rows,
    axes_of,
    condition_of,
    indicator_of,
    known_of,
    listing,
    order_of,
)
from typecase.store.audit.files import read_schema, write_table


@dataclass(frozen=True, slots=True)
class Query:
    audit: str = ask("", "the audit report; the first one by default")
    q: str = ask("", "only tokens that hold this text (a blank may be written ␣), or the token of this id", longest=400)
    decision: str = ask("", "only tokens of this decision: under_trained, suspect, unreachable, fine")
    advice: str = ask("", "only tokens with this advice: drop, replace, reinitialise, retrain, keep")
    category: str = ask("", "only tokens of this category")
    origin: str = ask("", "only tokens of this class of origin")
    least: int | None = ask(None, "only tokens that were counted so often or more", low=0)
    most: int | None = ask(None, "only tokens that were counted so often or less", low=0)
    where: str = ask("", "a condition over the columns: percentile < 1 and bytes > 4", longest=2000)
    sort: str = ask("", "the column to sort by; what is decided against comes first by default")
    down: bool = ask(False, "sort from large to small")
    page: int = ask(1, "which page of rows", low=1, high=100_000_000)
    size: int = ask(25, "rows of a page", low=1, high=200)
    indicator: str = ask("", "the indicator of the plot and the table; the one that ranks by default")
    token: int | None = ask(None, "the id of the token that is shown from all sides", low=0)
    set: str = ask("", "the token set that its places are looked up in; the first with as many ids by default, - for none")


@dataclass(frozen=True, slots=True)
class Answer:
    """A page of the tokens of `audit`: `total` fit of `all`. `detail` is the token that was asked for.

    `decisions` … `origins` say how many tokens each has, most first, in the whole audit; `lists` how many ids the report tells
    to mask, drop, …. `sides` are the audits that were joined; `void`: the prompts said nothing. `correlations` are Spearman's
    of each indicator with log(1 + count). `dots` are what fits as points, the column `across` against the column `up`.
    """

    audit: str
    all: int
    total: int
    page: int
    size: int
    rows: tuple[Row, ...]
    decisions: Mapping[str, int]
    advice: Mapping[str, int]
    categories: Mapping[str, int]
    origins: Mapping[str, int]
    lists: Mapping[str, int]
    sides: tuple[str, ...]
    void: bool
    columns: tuple[str, ...]
    indicators: tuple[str, ...]
    indicator: str
    correlations: Mapping[str, float]
    across: str
    up: str
    dots: tuple[Dots, ...]
    detail: Token | None


def answer(desk: Desk, query: Query) -> Answer:
    """The tokens that a state means. Raises NotFound, BadQuery."""
    item = desk.catalogue.get(query.audit, "audit")
    known = known_of(desk, item)
    indicator = indicator_of(known, query.indicator)
    found = listing(desk, item, filters_of(query), known, indicator, query.token)
    detail = None
    if query.token is not None:
        detail = token_of(desk, item, known, query.token, indicator=indicator, tokens=query.set)
    across, up = axes_of(known, indicator)
    return Answer(
        audit=item.name,
        all=known.all,
        total=found.total,
        page=query.page,
        size=query.size,
        rows=found.rows,
        decisions=known.names.get("decision", {}),
        advice=known.names.get("advice", {}),
        categories=known.names.get("category", {}),
        origins=known.names.get("origin", {}),
        lists=known.lists,
        sides=known.sides,
        void=known.void,
        columns=known.plain,
        indicators=known.indicators,
        indicator=indicator,
        correlations=known.correlations,
        across=across,
        up=up,
        dots=found.dots,
        detail=detail,
    )


def filters_of(query: Query) -> Filters:
    return Filters(
        query.q,
        query.category,
        query.origin,
        query.decision,
        query.advice,
        query.least,
        query.most,
        query.where,
        query.sort,
        query.down,
        query.size * (query.page - 1),
        query.size,
    )


def _sql(desk: Desk, query: Query) -> tuple[Path, str, str]:
    """The report, the condition and the order of a state, as `select_rows` and `typecase audit rows` take them."""
    item = desk.catalogue.get(query.audit, "audit")
    known = known_of(desk, item)
    if query.token is not None:
        return item.path, f"i = {query.token}", "i"
    return item.path, condition_of(filters_of(query), known), order_of(filters_of(query), known)


def python(desk: Desk, query: Query) -> str:
    path, where, sort = _sql(desk, query)
    return (
        "from typecase.store.audit.files import read_table, select_rows\n\n"
        f"table, header = read_table({str(path / TABLE)!r})\n"
        f"select_rows(table, where={where!r}, sort={sort!r}, top={query.size * query.page})"
    )


def command(desk: Desk, query: Query) -> str:
    path, where, sort = _sql(desk, query)
    told = f"typecase audit rows {shlex.quote(str(path))} --where {shlex.quote(where)}"
    return told if query.token is not None else f"{told} --sort {shlex.quote(sort)} --top {query.size * query.page}"


FORMATS = ("csv", "jsonl", "parquet", "md", "ids.json")


def export(desk: Desk, query: Query, out: Path) -> None:
    """Every column of all tokens that fit; as ids.json the lists of ids to mask, drop, … among them. Raises BadQuery."""
    item = desk.catalogue.get(query.audit, "audit")
    table = all_rows(desk, filters_of(query), known_of(desk, item))
    if out.name.endswith(".ids.json"):
        out.write_bytes(orjson.dumps(lists_of(table)))
        return
    _, header = read_schema(item.path / TABLE)
    write_table(out, table, header)
