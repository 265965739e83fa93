"""Token audit: the verdict on every token of a vocabulary, filtered, sorted and paged, and one token from all sides.

    audit report … -o glitch      tokens.parquet    a row a token: decision, advice, counts, indicators, reasons
    the plot                      every token that is not fine, and some of those that are: an indicator against a count

Nothing but the table is read; where a token stands in a corpus is asked of a search index by its id.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from typecase.app.audit.page import TABLE
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.filters import check_condition, column, parquet, quoted, reading
from typecase.app.web.state import ask
from typecase.errors import BadQuery, NotFound
from typecase.store.audit.files import SUFFIXES, read_table, write_table

GROUPS = ("decision", "advice", "category", "origin", "reach", "kind")
"""Columns that tell tokens apart in a few words."""
INDICATORS = (
    "main_indicator",
    "e_out_cosine",
    "e_out_l2",
    "e_out_norm",
    "e_in_norm",
    "density",
    "p_marginal",
    "max_prob",
    "rank",
)
MOST_POINTS = 3000
_SHOWN = (
    "i", "decoded", "decision", "advice", "category", "reach", "origin", "count", "documents", "main_indicator", "rank",
    "max_prob", "reasons",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    audit: str = ask("", "the report of an audit; the first by default")
    decision: str = ask("", "only tokens with this decision", longest=100)
    advice: str = ask("", "only tokens with this advice", longest=100)
    category: str = ask("", "only tokens of this category", longest=100)
    origin: str = ask("", "only tokens of this origin", longest=100)
    text: str = ask("", "only tokens whose text holds this", longest=200)
    low: int | None = ask(None, "only tokens that the corpus holds so often or more", low=0)
    high: int | None = ask(None, "only tokens that the corpus holds so often or less", low=0)
    where: str = ask("", "a condition over the columns: parents = 0 and bytes > 8", longest=2000)
    sort: str = ask("", "the column to sort by; the most suspicious first by default", longest=100)
    down: bool = ask(False, "sort from large to small")
    page: int = ask(1, "which page of tokens", low=1, high=10_000_000)
    size: int = ask(50, "tokens of a page", low=1, high=200)
    across: str = ask("count", "what the plot goes along: count, documents or an indicator", longest=100)
    up: str = ask("", "the indicator that the plot goes up; the one that ranks by default", longest=100)
    token: int | None = ask(None, "the token that is shown, by its id", low=0)


@dataclass(frozen=True, slots=True)
class Token:
    """A row of the table; what an audit did not look at is None."""

    i: int
    decoded: str | None
    decision: str | None
    advice: str | None
    category: str | None
    reach: str | None
    origin: str | None
    count: int | None
    documents: int | None
    main_indicator: float | None
    rank: float | None
    max_prob: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A token in the plot."""

    i: int
    decoded: str | None
    across: float
    up: float
    decision: str | None


@dataclass(frozen=True, slots=True)
class Named:
    """Another token that one speaks of: what it was merged of, or what absorbs it."""

    role: str
    i: int
    decoded: str | None


@dataclass(frozen=True, slots=True)
class Sides:
    """One token from all sides: every column that says something, by name, and the tokens that it is tied to.

    `first_documents` are numbers in the token set that was counted; `examples` places of it with what is around them.
    """

    i: int
    decoded: str | None
    facts: Mapping[str, Any]
    reasons: tuple[str, ...]
    related: tuple[Named, ...]
    first_documents: tuple[int, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Tokens of `audit`: `total` fit of `all`. `groups` says, column by column, how many tokens each value has, over all.

    `points` of `plotted` tokens that fit and have both numbers: all that are not fine as far as there is room, others evenly.
    """

    audit: str
    all: int
    total: int
    page: int
    size: int
    rows: tuple[Token, ...]
    groups: Mapping[str, Mapping[str, int]]
    columns: tuple[str, ...]
    across: str
    up: str
    plotted: int
    points: tuple[Point, ...]
    token: Sides | None


def answer(desk: Desk, query: Query) -> Answer:
    """The tokens that a state means. Raises NotFound, BadQuery."""
    item = _item(desk, query)
    columns = _columns(desk, item)
    wanted = _condition(query, columns)
    across, up = _axis(query.across, columns, ("count", "documents")), _axis(query.up, columns, INDICATORS)
    path = item.path / TABLE
    with reading([path], seconds=desk.limits.seconds) as connection:
        table = parquet([path])
        total = connection.sql(f"select count(*) from {table} where {wanted}").fetchall()[0][0]
        names = ", ".join(column(n) for n in _SHOWN if n in columns)
        bounds = f"limit {query.size} offset {query.size * (query.page - 1)}"
        rows = connection.sql(f"select {names} from {table} where {wanted} order by {_order(query, columns)} {bounds}")
        shown = [_token(row) for row in rows.to_arrow_table().to_pylist()]
        plotted, points = _points(connection, table, wanted, across, up, columns)
        sides = _sides(connection, table, query.token, columns) if query.token is not None else None
    known = _groups(desk, item, columns)
    return Answer(
        item.name, known[0], total, query.page, query.size, tuple(shown), known[1], columns, across, up, plotted, points, sides
    )


def _item(desk: Desk, query: Query) -> Item:
    return desk.catalogue.get(query.audit, "audit")


def _columns(desk: Desk, item: Item) -> tuple[str, ...]:
    return desk.remember(("audit columns", item.path), _stamp(item), lambda: tuple(pq.read_schema(item.path / TABLE).names))


def _stamp(item: Item) -> tuple[Any, ...]:
    facts = (item.path / TABLE).stat()
    return (*stamp_of(item), facts.st_mtime_ns, facts.st_size)


def _groups(desk: Desk, item: Item, columns: Sequence[str]) -> tuple[int, dict[str, dict[str, int]]]:
    """How many tokens there are, and of each value of the columns in a few words."""

    def count() -> tuple[int, dict[str, dict[str, int]]]:
        path = item.path / TABLE
        found = {}
        with reading([path], seconds=desk.limits.seconds) as connection:
            for name in (n for n in GROUPS if n in columns):
                what = column(name)
                counted = f"select {what}, count(*) as n from {parquet([path])} where {what} is not null group by 1"
                found[name] = dict(connection.sql(f"{counted} order by n desc, 1 limit 100").fetchall())
            return connection.sql(f"select count(*) from {parquet([path])}").fetchall()[0][0], found

    return desk.remember(("audit groups", item.path), _stamp(item), count)


def _condition(query: Query, columns: Sequence[str]) -> str:
    """The SQL condition of a state over the columns that the table has."""
    parts = []
    for name in ("decision", "advice", "category", "origin"):
        if value := getattr(query, name):
            _need(name, columns)
            parts.append(f"{column(name)} = {quoted(value)}")
    if query.text:
        _need("decoded", columns)
        parts.append(f"contains(lower({column('decoded')}), lower({quoted(query.text)}))")
    for bound, sign in ((query.low, ">="), (query.high, "<=")):
        if bound is not None:
            _need("count", columns)
            parts.append(f"{column('count')} {sign} {bound}")
    if query.where:
        check_condition(query.where, columns)
        parts.append(f"({query.where})")
    return " and ".join(parts) or "true"


def _need(name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise BadQuery(f"this audit has no column {name!r}: join the table that has it with `typecase audit report`")


def _order(query: Query, columns: Sequence[str]) -> str:
    if query.sort:
        _need(query.sort, columns)
        return f"{column(query.sort)} {'desc' if query.down else 'asc'} nulls last, i"
    worst = "case decision when 'under_trained' then 0 when 'suspect' then 1 when 'unreachable' then 2 else 3 end"
    rank = f"{column('rank')} asc nulls last, " if "rank" in columns else ""
    return f"{worst}, {rank}i"


def _axis(asked: str, columns: Sequence[str], usual: Sequence[str]) -> str:
    """The column of an axis: the one asked for, else the first usual one; "" where the audit has none."""
    if asked in columns or not asked:
        return asked or next((n for n in usual if n in columns), "")
    if asked == "count":  # the default, of an audit without a corpus
        return next((n for n in ("documents", "rank", "i") if n in columns), "")
    raise BadQuery(f"this audit has no column {asked!r}: there are {', '.join(columns)}")


def _points(
    connection: Any, table: str, wanted: str, across: str, up: str, columns: Sequence[str]
) -> tuple[int, tuple[Point, ...]]:
    if not across or not up:
        return 0, ()
    x, y = (f"try_cast({column(name)} as double)" for name in (across, up))
    both = f"{wanted} and {x} is not null and {y} is not null and not isnan({y})"
    total = connection.sql(f"select count(*) from {table} where {both}").fetchall()[0][0]
    text = column("decoded") if "decoded" in columns else "null"
    step = max(1, -(-total // (MOST_POINTS // 2)))
    some = f"(decision <> 'fine' or i % {step} = 0)" if total > MOST_POINTS else "true"
    rows = connection.sql(
        f"select i, {text}, {x}, {y}, decision from {table} where {both} and {some}"
        f" order by decision = 'fine', {y}, i limit {MOST_POINTS}"
    ).fetchall()
    return total, tuple(Point(*row) for row in rows)


def _token(row: Mapping[str, Any]) -> Token:
    plain: dict[str, Any] = {name: row.get(name) for name in _SHOWN if name != "reasons"}
    return Token(**plain, reasons=tuple(row.get("reasons") or ()))


def _sides(connection: Any, table: str, token: int, columns: Sequence[str]) -> Sides:
    found = connection.sql(f"select * from {table} where i = {token}").to_arrow_table().to_pylist()
    if not found:
        raise NotFound(f"there is no token {token} in this audit")
    row = found[0]
    lists = {name: row.pop(name, None) or [] for name in ("reasons", "merged_of", "absorbed_by", "first_documents", "examples")}
    tied = [(role, int(i)) for role in ("merged_of", "absorbed_by") for i in lists[role]]
    tied += [("duplicate_of", row[name]) for name in ("duplicate_of",) if row.get(name) is not None]
    texts: dict[int, str | None] = {}
    if tied and "decoded" in columns:
        ids = ", ".join(str(i) for _, i in tied)
        texts = dict(connection.sql(f"select i, decoded from {table} where i in ({ids})").fetchall())
    return Sides(
        token,
        row.get("decoded"),
        {name: value for name, value in row.items() if value is not None and name not in ("i", "decoded")},
        tuple(lists["reasons"]),
        tuple(Named(role, i, texts.get(i)) for role, i in tied),
        tuple(lists["first_documents"]),
        tuple(lists["examples"]),
    )


def python(desk: Desk, query: Query) -> str:
    item = _item(desk, query)
    told = _condition(query, _columns(desk, item))
    return (
        "from pathlib import Path\n\nfrom typecase.store.audit.files import read_table, select_rows\n\n"
        f"table, header = read_table(Path({str(item.path / TABLE)!r}))\n"
        f"print(select_rows(table, where={told!r}, top={query.size}).to_pylist())"
    )


def command(desk: Desk, query: Query) -> str:
    item = _item(desk, query)
    columns = _columns(desk, item)
    told = f"--where {shlex.quote(_condition(query, columns))} --sort {shlex.quote(_order(query, columns))} --top {query.size}"
    return f"typecase audit rows {shlex.quote(str(item.path))} {told}"


FORMATS = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)


def export(desk: Desk, query: Query, out: Path) -> None:
    """All tokens that fit, with every column, in the order of the state."""
    item = _item(desk, query)
    path, columns = item.path / TABLE, _columns(desk, item)
    with reading([path], seconds=desk.limits.seconds) as connection:
        sql = f"select * from {parquet([path])} where {_condition(query, columns)} order by {_order(query, columns)}"
        table = connection.sql(sql).to_arrow_table()
    write_table(out, table, read_table(path)[1])
