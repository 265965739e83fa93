"""Verdicts: the tokens of an audit report that fit some filters, a page at a time; the same as points; where they stand.

    known_of(desk, item)                    what the table has: columns, indicators, names to filter by
    listing(desk, item, filters, …)         rows of a page, and at most DOTS points of each decision
    standing(desk, item, known, 17)         where a token stands among all, by every indicator

All is asked of `tokens.parquet` through DuckDB: a page costs one pass over the columns that it names, some 20 ms a hundred
thousand tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from typecase.app.audit.page import IDS, TABLE
from typecase.app.audit.sections import DECISIONS, shown_row
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.filters import check_condition, column, parquet, quoted, reading
from typecase.errors import BadQuery
from typecase.store.audit.files import read_schema

INDICATORS = (
    *("main_indicator", "e_out_cosine", "e_out_l2", "density", "e_out_norm", "e_in_norm"),
    *("p_marginal", "mean_logit", "max_prob"),
)
DOTS = 500
"""Points of one decision at most: where there are more, every n-th by id."""
_SAID = ("category", "kind", "origin", "decision", "advice", "count", "documents", "rank", "max_prob", "verified", "reasons")
_SPELLED = ("hex", "decoded", "raw_vocab")
_WORST = " ".join(f"when {quoted(d)} then {k}" for k, d in enumerate(DECISIONS))


@dataclass(frozen=True, slots=True)
class Filters:
    """Which tokens, in which order, from which on, and how many. `text` is part of a token, or its id."""

    text: str = ""
    category: str = ""
    origin: str = ""
    decision: str = ""
    advice: str = ""
    least: int | None = None
    most: int | None = None
    where: str = ""
    sort: str = ""
    down: bool = False
    offset: int = 0
    limit: int = 25


@dataclass(frozen=True, slots=True)
class Row:
    """A token: `token` is its bytes as a visible line, `value` the indicator that is shown, None for what no audit said."""

    i: int
    token: str
    category: str | None
    kind: str | None
    origin: str | None
    decision: str
    advice: str
    count: int | None
    documents: int | None
    value: float | None
    rank: int | None
    max_prob: float | None
    verified: bool | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dots:
    """Points of the tokens of one decision, of `of` that have both values; `ids[k]` is `tokens[k]`, at (x[k], y[k])."""

    decision: str
    of: int
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    total: int
    rows: tuple[Row, ...]
    dots: tuple[Dots, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """The value of an indicator, and how many of the `of` tokens that have one have a smaller one."""

    indicator: str
    value: float
    smaller: int
    of: int


@dataclass(frozen=True, slots=True)
class Known:
    """What an audit has. `plain` columns can be sorted and asked for; `names` say how many tokens each value has."""

    path: Path
    all: int
    columns: tuple[str, ...]
    plain: tuple[str, ...]
    indicators: tuple[str, ...]
    names: Mapping[str, Mapping[str, int]]
    sides: tuple[str, ...]
    void: bool
    correlations: Mapping[str, float]
    lists: Mapping[str, int]


def known_of(desk: Desk, item: Item) -> Known:
    """What an audit has, kept until it is written anew. Raises BadQuery for a folder that only looks like one."""
    return desk.remember(("verdicts", item.path), _stamp(item), lambda: _look(desk, item))


def _stamp(item: Item) -> tuple[Any, ...]:
    facts = (item.path / TABLE).stat()
    return (stamp_of(item), facts.st_mtime_ns, facts.st_size)


def _look(desk: Desk, item: Item) -> Known:
    path = item.path / TABLE
    schema, header = read_schema(path)
    if not {"i", "decision", "advice"} <= set(schema.names):
        raise BadQuery(f"{path} holds no verdict: `typecase audit report TABLES -o FOLDER` writes one")
    plain = tuple(f.name for f in schema if not pa.types.is_nested(f.type))
    indicators = tuple(n for n in INDICATORS if n in plain)
    names: dict[str, dict[str, int]] = {}
    with reading([path], seconds=desk.limits.seconds) as connection:
        number = int(connection.sql(f"select count(*) from {parquet([path])}").fetchall()[0][0])
        for name in ("category", "origin", "decision", "advice"):
            if name in plain:
                sql = f"select {name}, count(*) as n from {parquet([path])} where {name} is not null group by 1"
                names[name] = dict(connection.sql(f"{sql} order by n desc, 1").fetchall())
    correlations = {k: v for k, v in (header.get("correlations") or {}).items() if _finite(v) is not None}
    return Known(
        path,
        number,
        tuple(schema.names),
        plain,
        indicators,
        names,
        tuple(header.get("sides") or ()),
        bool(header.get("void")),
        correlations,
        _lists(item),
    )


def _lists(item: Item) -> dict[str, int]:
    try:
        return {str(k): len(v) for k, v in orjson.loads((item.path / IDS).read_bytes()).items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise BadQuery(f"{item.path / IDS} holds no lists of ids ({error!r}): write the report anew") from None


def condition_of(filters: Filters, known: Known) -> str:
    """The filters as one condition in SQL, "true" for none. Raises BadQuery for a column that the audit has not."""
    parts = []
    if filters.text:
        parts.append(_holding(filters.text, known))
    for name in ("category", "origin", "decision", "advice"):
        if value := getattr(filters, name):
            parts.append(f"{_there(name, known)} = {quoted(value)}")
    for bound, sign in ((filters.least, ">="), (filters.most, "<=")):
        if bound is not None:
            parts.append(f"{_there('count', known)} {sign} {bound}")
    if filters.where.strip():
        check_condition(filters.where, known.plain)
        parts.append(f"({filters.where})")
    return " and ".join(parts) or "true"


def _holding(text: str, known: Known) -> str:
    """Tokens that hold a text, whose blanks may be written as they are shown, or whose id it is."""
    ways = [f"i = {int(text)}"] if text.isascii() and text.isdigit() and len(text) < 10 else []
    if "decoded" in known.plain:
        ways += [f"contains(decoded, {quoted(one)})" for one in dict.fromkeys((text, text.replace("␣", " ")))]
    return f"({' or '.join(ways) or 'false'})"


def _there(name: str, known: Known) -> str:
    if name not in known.plain:
        raise BadQuery(f"this audit has no {name!r}: it has {', '.join(known.plain)}")
    return column(name)


def order_of(filters: Filters, known: Known) -> str:
    """The order in SQL: by a column, else what is decided against first, then by rank or count."""
    if filters.sort:
        return f"{_there(filters.sort, known)} {'desc' if filters.down else 'asc'} nulls last"
    keys = [f"case decision {_WORST} else {len(DECISIONS)} end"]
    return ", ".join([*keys, *(f"{name} nulls last" for name in ("rank", "count") if name in known.plain)])


def indicator_of(known: Known, name: str) -> str:
    """The indicator that is shown: named, else the first. Raises BadQuery."""
    if name and name not in known.indicators:
        raise BadQuery(f"this audit has no indicator {name!r}: it has {', '.join(known.indicators) or 'none'}")
    return name or next(iter(known.indicators), "")


def axes_of(known: Known, indicator: str) -> tuple[str, str]:
    """The columns across and up: count and indicator; the id stands in for what the audit has not."""
    count = "count" if "count" in known.plain else ""
    return (count or "i", indicator) if indicator else ("i", count or "i")


def listing(desk: Desk, item: Item, filters: Filters, known: Known, indicator: str, chosen: int | None) -> Listing:
    """The rows of a page and the points of all that fit; the token `chosen` is among the points. Raises BadQuery."""
    condition, table = condition_of(filters, known), parquet([known.path])
    columns = ["i", *(c for c in (*_SAID, *_SPELLED) if c in known.columns)]
    picked = ", ".join(map(column, columns)) + (f", {column(indicator)} as value" if indicator else ", null as value")
    sql = f"select {picked} from {table} where {condition} order by {order_of(filters, known)}, i"
    with reading([known.path], seconds=desk.limits.seconds) as connection:
        total = int(connection.sql(f"select count(*) from {table} where {condition}").fetchall()[0][0])
        page = connection.sql(f"{sql} limit {filters.limit} offset {filters.offset}").to_arrow_table().to_pylist()
        dots = _dots(connection, known, condition, axes_of(known, indicator), chosen)
    return Listing(total, tuple(map(_row, page)), dots)


def rows_of_ids(desk: Desk, known: Known, ids: Sequence[int], indicator: str = "") -> dict[int, Row]:
    """The rows of a few tokens by id."""
    if not ids:
        return {}
    columns = ", ".join(column(c) for c in ("i", *_SAID, *_SPELLED) if c in known.columns)
    value = column(indicator) if indicator else "null"
    wanted = ", ".join(str(int(i)) for i in ids)
    sql = f"select {columns}, {value} as value from {parquet([known.path])} where i in ({wanted})"
    with reading([known.path], seconds=desk.limits.seconds) as connection:
        return {r["i"]: _row(r) for r in connection.sql(sql).to_arrow_table().to_pylist()}


def _row(r: Mapping[str, Any]) -> Row:
    return Row(
        i=r["i"],
        token=shown_row(r),
        category=r.get("category"),
        kind=r.get("kind"),
        origin=r.get("origin"),
        decision=r["decision"],
        advice=r["advice"],
        count=r.get("count"),
        documents=r.get("documents"),
        value=_finite(r.get("value")),
        rank=r.get("rank"),
        max_prob=_finite(r.get("max_prob")),
        verified=r.get("verified"),
        reasons=tuple(r.get("reasons") or ()),
    )


def _dots(connection: Any, known: Known, condition: str, axes: tuple[str, str], chosen: int | None) -> tuple[Dots, ...]:
    x, y = (f"cast({column(a)} as double)" for a in axes)
    spelled = "".join(f", {c}" for c in _SPELLED if c in known.columns)
    own = f"select i, decision, {x} as x, {y} as y{spelled} from {parquet([known.path])}"
    own += f" where isfinite({x}) and isfinite({y}) and (({condition}) or i = {-1 if chosen is None else chosen})"
    numbered = f"select *, count(*) over w as n, row_number() over (w order by i) - 1 as k from ({own}) window w as"
    thinned = f"select * from ({numbered} (partition by decision)) where k % cast(ceil(n / {DOTS}.0) as bigint) = 0"
    sql = f"{thinned} or i = {-1 if chosen is None else chosen} order by i"
    found: dict[str, list[dict[str, Any]]] = {}
    for r in connection.sql(sql).to_arrow_table().to_pylist():
        found.setdefault(r["decision"], []).append(r)
    return tuple(
        Dots(
            decision,
            rows[0]["n"],
            tuple(r["i"] for r in rows),
            tuple(map(shown_row, rows)),
            tuple(r["x"] for r in rows),
            tuple(r["y"] for r in rows),
        )
        for decision in sorted(found, key=lambda d: DECISIONS[::-1].index(d) if d in DECISIONS else -1)
        if (rows := found[decision])
    )


def standing(desk: Desk, known: Known, token: int) -> tuple[Standing, ...]:
    """Where a token stands among all, by every indicator that it has a value of."""
    if not known.indicators:
        return ()
    table = parquet([known.path])
    one = f"(select {', '.join(map(column, known.indicators))} from {table} where i = {token}) as o"
    asked = [
        f"any_value(o.{c}), count(*) filter (t.{c} < o.{c}), count(*) filter (isfinite(cast(t.{c} as double)))"
        for c in map(column, known.indicators)
    ]
    with reading([known.path], seconds=desk.limits.seconds) as connection:
        told = connection.sql(f"select {', '.join(asked)} from {table} as t, {one}").fetchall()[0]
    rows = [(name, *told[3 * k : 3 * k + 3]) for k, name in enumerate(known.indicators)]
    return tuple(Standing(name, float(v), int(s), int(n)) for name, v, s, n in rows if _finite(v) is not None)


def whole_row(desk: Desk, known: Known, token: int) -> dict[str, Any]:
    """All that the audit says of a token. Raises BadQuery for an id that it has not."""
    sql = f"select * from {parquet([known.path])} where i = {token}"
    with reading([known.path], seconds=desk.limits.seconds) as connection:
        found = connection.sql(sql).to_arrow_table().to_pylist()
    if not found:
        raise BadQuery(f"there is no token {token:,}: the audit has the ids 0 to {known.all - 1:,}")
    return {k: _plain(v) for k, v in found[0].items()}


def merged_into(desk: Desk, known: Known, token: int, most: int) -> tuple[list[int], int]:
    """The first tokens that are merged of a token, and how many there are."""
    if "merged_of" not in known.columns:
        return [], 0
    sql = f"select i, count(*) over () from {parquet([known.path])} where list_contains(merged_of, {token}) order by i"
    with reading([known.path], seconds=desk.limits.seconds) as connection:
        found = connection.sql(f"{sql} limit {most}").fetchall()
    return [int(r[0]) for r in found], int(found[0][1]) if found else 0


def all_rows(desk: Desk, filters: Filters, known: Known) -> pa.Table:
    """Every column of all tokens that fit, in order. Raises BadQuery for none."""
    sql = f"select * from {parquet([known.path])} where {condition_of(filters, known)} order by {order_of(filters, known)}, i"
    with reading([known.path], seconds=desk.limits.seconds * 4) as connection:
        found = connection.sql(sql).to_arrow_table()
    if not found.num_rows:
        raise BadQuery("no token fits the filters: there is nothing to download")
    return found


def decisions_elsewhere(desk: Desk, item: Item, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What other served audits of the same vocabulary decide of a token: their name and the decision."""
    own = known_of(desk, item)
    for other in desk.catalogue.of_kind("audit"):
        if other.name == item.name or not (other.path / TABLE).is_file():
            continue
        known = known_of(desk, other)
        if known.all == own.all and "hex" in known.columns:
            found = whole_row(desk, known, int(row["i"]))
            if found.get("hex") == row.get("hex"):
                yield other.name, str(found["decision"])


def _plain(value: Any) -> Any:
    return _finite(value) if isinstance(value, float) else value


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
