"""Ratings: what an annotation set says of its documents: levels, correlations, groups, a score against another, examples.

    levels         rows by rounded score, over all and for each source or domain
    correlations   Pearson's between criteria, and the domains of each source
    scatter        a bounded sample of rows, chosen by doc_id: one score against another
    curves         a score by the length of the text, and by perplexity where a side table of it was served

It is `analyse` of the command line, made once for a state of the files; only the scatter asks the table again.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from typecase.app.analyse.analysing import Analysis, CriterionFacts, Curve, GroupFacts, SetFacts, analyse
from typecase.app.analyse.findings import findings_of
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.filters import column, parquet, reading
from typecase.app.web.state import ask
from typecase.errors import BadQuery
from typecase.store import exports

BY = ("source", "domain")
MOST_POINTS = 2000
MOST_GROUPS = 30


@dataclass(frozen=True, slots=True)
class Query:
    ratings: str = ask("", "the annotation set; the first by default")
    criterion: str = ask("", "the score that is shown; the summary of the rubric by default", longest=100)
    by: str = ask("source", "what documents are grouped by", choices=BY)
    group: str = ask("", "examples of this source only", longest=200)
    against: str = ask("", "the score that the scatter goes along; the one that goes most with it by default", longest=100)
    level: int | None = ask(None, "examples of this level only")


@dataclass(frozen=True, slots=True)
class Score:
    """One criterion: its rows, those without it, mean and deviation, and rows by level."""

    id: str
    name: str
    rows: int
    missing: int
    mean: float | None
    deviation: float | None
    levels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One source or domain: rows, the mean of the shown score and its rows by level."""

    name: str
    rows: int
    mean: float | None
    levels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """A document in the scatter."""

    doc_id: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Bend:
    """A slice of a curve: documents of about `x` bytes, or nats a token, with mean and quartiles of the score."""

    rows: int
    x: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Shown:
    """An example: the beginning of a document of some source and level."""

    doc_id: str
    source: str
    level: int
    score: float
    excerpt: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a set of ratings says. `levels` names the levels of `criterion`; `matrix` is correlations by `scores`, None where a
    score does not vary; `crossed` documents by source and domain. `findings` are sentences, the graver first."""

    ratings: str
    docs: str
    rubric: str
    rows: int
    statuses: Mapping[str, int]
    criterion: str
    against: str
    levels: tuple[int, ...]
    scores: tuple[Score, ...]
    groups: tuple[Group, ...]
    num_groups: int
    matrix: tuple[tuple[float | None, ...], ...]
    sources: tuple[str, ...]
    domains: tuple[str, ...]
    crossed: tuple[tuple[int, ...], ...]
    scatter: tuple[Dot, ...]
    correlation: float | None
    length: tuple[Bend, ...]
    perplexity: tuple[Bend, ...]
    examples: tuple[Shown, ...]
    findings: tuple[str, ...]


def answer(desk: Desk, query: Query) -> Answer:
    """The ratings of a state. Raises NotFound, BadQuery, and what `analyse` raises."""
    item = _item(desk, query)
    found = _analysis(desk, item)
    facts = found.sets[0]
    names = [c.id for c in facts.criteria]
    main = _column(query.criterion, names) or facts.rubric.summary or names[0]
    matrix = tuple(tuple(_number(v) for v in row) for row in facts.correlation)
    at = names.index(main)
    other = _column(query.against, names) or _closest(matrix[at], at, names)
    groups = facts.sources if query.by == "source" else facts.domains
    docs = _docs(desk, item)
    return Answer(
        ratings=item.name,
        docs=docs.name if docs is not None else "",
        rubric=facts.rubric.id,
        rows=facts.rows,
        statuses=dict(facts.statuses),
        criterion=main,
        against=other,
        levels=tuple(range(math.floor(facts.rubric.low), math.floor(facts.rubric.low) + len(facts.criteria[at].levels))),
        scores=tuple(map(_score, facts.criteria)),
        groups=tuple(_group(g, at) for g in groups[:MOST_GROUPS]),
        num_groups=len(groups),
        matrix=matrix,
        sources=tuple(g.name for g in facts.sources[:MOST_GROUPS]),
        domains=tuple(g.name for g in facts.domains[:MOST_GROUPS]),
        crossed=tuple(row[:MOST_GROUPS] for row in facts.crossed[:MOST_GROUPS]),
        scatter=_scatter(desk, item, other, main),
        correlation=matrix[at][names.index(other)],
        length=_bends(facts.length, main),
        perplexity=_bends(facts.surprise, main),
        examples=_examples(found, main, query),
        findings=tuple(findings_of(facts)),
    )


def _item(desk: Desk, query: Query) -> Item:
    return desk.catalogue.get(query.ratings, "ratings")


def _docs(desk: Desk, item: Item) -> Item | None:
    parent = item.manifest().parent("docs") if item.has_manifest else None
    return desk.catalogue.by_content(parent.content, "docs") if parent is not None else None


def _perplexity(desk: Desk, item: Item) -> Item | None:
    docs = _docs(desk, item)
    return next(iter(desk.catalogue.children(docs, "perplexity")), None) if docs is not None else None


def _analysis(desk: Desk, item: Item) -> Analysis:
    docs, beside = _docs(desk, item), _perplexity(desk, item)
    stamp = tuple(stamp_of(i) for i in (item, docs, beside) if i is not None)

    def look() -> Analysis:
        return analyse(
            [item.path],
            docs=docs.path if docs is not None else None,
            perplexity=beside.path if beside is not None else None,
            num_examples=3,
        )

    return desk.remember(("analysis", item.path), stamp, look)


def _column(asked: str, names: Sequence[str]) -> str:
    if asked and asked not in names:
        raise BadQuery(f"these ratings have no score {asked!r}: there are {', '.join(names)}")
    return asked


def _closest(row: Sequence[float | None], at: int, names: Sequence[str]) -> str:
    """The criterion that goes most with the one at place `at`."""
    others = [(-abs(v or 0.0), name) for k, (v, name) in enumerate(zip(row, names, strict=True)) if k != at]
    return min(others)[1] if others else names[at]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _score(c: CriterionFacts) -> Score:
    spread = _number(c.variance)
    return Score(c.id, c.name, c.rows, c.missing, _number(c.mean), math.sqrt(spread) if spread else spread, c.levels)


def _group(g: GroupFacts, at: int) -> Group:
    return Group(g.name, g.rows, _number(g.means[at]), g.levels[at])


def _bends(curves: Sequence[Curve], criterion: str) -> tuple[Bend, ...]:
    found = next((c for c in curves if c.criterion == criterion), None)
    return tuple(Bend(p.rows, p.x, p.mean, p.quarter, p.three_quarters) for p in found.points) if found else ()


def _scatter(desk: Desk, item: Item, x: str, y: str) -> tuple[Dot, ...]:
    """The first rows by doc_id, which is a hash: a fair sample, the same one every time, and no more is read."""
    parts = sorted(item.path.glob("part-*.parquet"))
    a, b = column(x), column(y)
    with reading(parts, seconds=desk.limits.seconds) as connection:
        there = f"{a} is not null and {b} is not null"
        sql = f"select doc_id, {a}, {b} from {parquet(parts)} where {there} order by doc_id limit {MOST_POINTS}"
        return tuple(Dot(*row) for row in connection.sql(sql).fetchall())


def _examples(found: Analysis, criterion: str, query: Query) -> tuple[Shown, ...]:
    return tuple(
        Shown(e.doc_id, e.source, e.level, e.score, e.excerpt)
        for e in found.examples
        if e.criterion == criterion
        and (not query.group or e.source == query.group)
        and (query.level is None or e.level == query.level)
    )


def python(desk: Desk, query: Query) -> str:
    return (
        f"import typecase as tc\n\nfound = tc.analyse([{str(_item(desk, query).path)!r}])\n"
        "for criterion in found.sets[0].criteria:\n    print(criterion.id, criterion.rows, criterion.mean, criterion.levels)"
    )


def command(desk: Desk, query: Query) -> str:
    item = _item(desk, query)
    beside = _perplexity(desk, item)
    more = f" --perplexity {shlex.quote(str(beside.path))}" if beside is not None else ""
    return f"typecase analyse {shlex.quote(str(item.path))}{more}"


FORMATS = ("csv", "jsonl", "parquet")


def export(desk: Desk, query: Query, out: Path) -> None:
    """A row for every group and criterion: rows, mean, and rows by level."""
    facts: SetFacts = _analysis(desk, _item(desk, query)).sets[0]
    rows: list[dict[str, Any]] = []
    for kind, groups in (("source", facts.sources), ("domain", facts.domains)):
        for g in groups:
            for k, c in enumerate(facts.criteria):
                levels = {f"level_{n}": rows_ for n, rows_ in enumerate(g.levels[k], math.floor(facts.rubric.low))}
                rows.append(
                    {"by": kind, "group": g.name, "criterion": c.id, "rows": g.rows, "mean": _number(g.means[k]), **levels}
                )
    exports.export_rows([pa.Table.from_pylist(rows)], out)
