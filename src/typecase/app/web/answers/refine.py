"""Refine review: the documents that a run edited, dropped or held back, each with its program and a person's verdict on it.

    the list       documents by status and by who proposed a statement, undecided ones alone if wished
    one of them    its lines as they were edited, the program, who asked for what
    a verdict      accept or reject: a JSON line in NAME.judgements.jsonl beside the run, as `refine judge` writes them

A stored program is run again on the parent's text; nothing is stored twice.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from typecase.app.refine.judge import JUDGED, VERDICTS, Judging, read_judgements
from typecase.app.refine.refining import STATUSES, EditedDocument, Run, open_run, show_edited
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.filters import parquet, quoted, reading
from typecase.app.web.registry import Action
from typecase.app.web.state import ask
from typecase.errors import BadQuery, FixInput, NotFound
from typecase.store import exports

SHOWN = ("changed", *STATUSES)
PERSON = "person"


@dataclass(frozen=True, slots=True)
class Query:
    run: str = ask("", "the refined documents; the first by default")
    status: str = ask("changed", "documents of this status; changed: edited, dropped or held back", choices=SHOWN)
    by: str = ask("", "only documents of which this rule or refiner changed something", longest=200)
    least: float = ask(0.0, "only documents that lost this share of their bytes or more, 0 to 1", low=0, high=1)
    undecided: bool = ask(False, "only documents without a verdict of this person")
    who: str = ask(PERSON, "whose verdicts", longest=100)
    doc: str = ask("", "the document that is shown; the first of the page by default", longest=64)
    page: int = ask(1, "which page of documents", low=1, high=100_000_000)
    size: int = ask(15, "documents of a page", low=1, high=200)


@dataclass(frozen=True, slots=True)
class Row:
    """A document of the list; `verdict` is None where this person has said nothing."""

    doc_id: str
    source: str
    status: str
    reason: str
    bytes_before: int
    bytes_after: int
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Documents of a run: `total` fit of `all`. `statuses` counts documents of the run, `proposers` documents with a statement
    of each rule or refiner that was applied; `verdicts` what this person has said of this run. `file` is where verdicts go."""

    run: str
    all: int
    total: int
    page: int
    size: int
    rows: tuple[Row, ...]
    statuses: Mapping[str, int]
    proposers: Mapping[str, int]
    verdicts: Mapping[str, int]
    file: str
    shown: EditedDocument | None
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Judge:
    """A verdict of `who` on a document of `run`: accept or reject."""

    run: str
    doc: str
    verdict: str
    who: str = PERSON


@dataclass(frozen=True, slots=True)
class Undo:
    """Takes back the last verdict of `who` on `run`."""

    run: str
    who: str = PERSON


@dataclass(frozen=True, slots=True)
class Judged:
    """What was done: the document, and the verdict that now stands, None after undo."""

    doc: str
    verdict: str | None


def answer(desk: Desk, query: Query) -> Answer:
    """The documents of a state. Raises NotFound, and what `open_run` raises where the parent is gone or has changed."""
    if not query.run and not runs_served(desk):
        return Answer("", 0, 0, query.page, query.size, (), {}, {}, {}, "", None, None)
    item = _item(desk, query.run)
    run = open_run(item.path)
    statuses, proposers = _counts(desk, item, run)
    said = _said(item, query.who)
    total, rows = _rows(desk, run, query, said)
    doc = query.doc or (rows[0].doc_id if rows else "")
    shown = show_edited(run, doc) if doc else None
    mine = {r["doc_id"]: r["verdict"] for r in said.values()}
    counts = {v: list(mine.values()).count(v) for v in VERDICTS}
    verdict = said.get((shown.text_hash, shown.program), {}).get("verdict") if shown is not None else None
    file = judgements_of(desk, item)
    return Answer(
        item.name,
        sum(statuses.values()),
        total,
        query.page,
        query.size,
        rows,
        statuses,
        proposers,
        counts,
        file.name if file is not None else "",
        shown,
        verdict,
    )


def runs_served(desk: Desk) -> list[Item]:
    """The served documents that `refine` made."""
    return [i for i in desk.catalogue.of_kind("docs") if i.stage == "refine"]


def _item(desk: Desk, name: str) -> Item:
    known = runs_served(desk)
    found = next((i for i in known if name in ("", i.name)), None)
    if found is None:
        there = ", ".join(i.name for i in known) or "none"
        raise NotFound(f"no refined documents called {name!r} were served: there is {there}")
    return found


def judgements_of(desk: Desk, item: Item) -> Path | None:
    """The file of verdicts on a run, beside its folder; None where that is not within what was served."""
    beside = item.path.resolve().parent
    within = any(beside.is_relative_to(root) for root in desk.catalogue.roots)
    return beside / f"{item.path.name}.judgements.jsonl" if within else None


def _said(item: Item, who: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The verdicts of a person, by text and program, the last one of each."""
    path = item.path.resolve().parent / f"{item.path.name}.judgements.jsonl"
    rows = read_judgements(path) if path.is_file() else []
    return {(r["text_hash"], r["program"]): r for r in rows if r["who"] == who}


def _counts(desk: Desk, item: Item, run: Run) -> tuple[dict[str, int], dict[str, int]]:
    def count() -> tuple[dict[str, int], dict[str, int]]:
        parts = list(run.programs)
        with reading(parts, seconds=desk.limits.seconds) as connection:
            sql = f"select status, count(*) as n from {parquet(parts)} group by 1 order by n desc"
            statuses = dict(connection.sql(sql).fetchall())
            entries = f"select doc_id, unnest(json_extract(provenance, '$[*]')) as e from {parquet(parts)}"
            sql = (
                f"select json_extract_string(e, '$[1]') as name, count(distinct doc_id) as n from ({entries})"
                " where json_extract_string(e, '$[3]') = 'applied' group by 1 order by n desc, 1 limit 200"
            )
            return statuses, dict(connection.sql(sql).fetchall())

    return desk.remember(("refined", item.path), stamp_of(item), count)


def _rows(desk: Desk, run: Run, query: Query, said: Mapping[tuple[str, str], Mapping[str, Any]]) -> tuple[int, tuple[Row, ...]]:
    parts = list(run.programs)
    wanted = _condition(query)
    known = pa.table(
        {"text_hash": [k for k, _ in said], "program": [p for _, p in said], "v": [r["verdict"] for r in said.values()]}
    )
    known = known.cast(pa.schema([(n, pa.large_string()) for n in known.column_names]))
    with reading(parts, seconds=desk.limits.seconds, tables={"said": known}) as connection:
        both = f"{parquet(parts)} as p left join said on p.text_hash = said.text_hash and p.program = said.program"
        wanted += " and said.v is null" if query.undecided else ""
        total = connection.sql(f"select count(*) from {both} where {wanted}").fetchall()[0][0]
        names = "doc_id, source, status, reason, bytes_before, bytes_after, said.v"
        bounds = f"limit {query.size} offset {query.size * (query.page - 1)}"
        found = connection.sql(f"select {names} from {both} where {wanted} order by doc_id {bounds}").fetchall()
    return total, tuple(Row(*row) for row in found)


def _condition(query: Query) -> str:
    statuses = JUDGED if query.status == "changed" else (query.status,)
    parts = [f"status in ({', '.join(map(quoted, statuses))})"]
    if query.by:
        name = orjson.dumps(query.by).decode()
        parts.append(f"contains(provenance, {quoted(f',{name},')})")
    if query.least:
        parts.append(f"bytes_before - bytes_after >= {query.least!r} * bytes_before")
    return " and ".join(parts)


def judge(desk: Desk, asked: Judge) -> Judged:
    """Writes a verdict. Raises NotFound for a document that the run does not have, FixInput where it cannot be kept."""
    item = _item(desk, asked.run)
    run = open_run(item.path)
    one = show_edited(run, asked.doc)
    session = Judging(run, _file(desk, item), asked.who, [one.doc_id], _all(item), one)
    session.answer(asked.verdict)
    return Judged(one.doc_id, asked.verdict)


def undo(desk: Desk, asked: Undo) -> Judged:
    """Takes back a person's last verdict. Raises BadQuery where there is none."""
    item = _item(desk, asked.run)
    session = Judging(open_run(item.path), _file(desk, item), asked.who, [], _all(item))
    before = [r for r in session.rows if r["who"] == asked.who]
    if not session.undo():
        raise BadQuery(f"{asked.who} has given no verdict that could be taken back")
    return Judged(before[-1]["doc_id"], None)


def _file(desk: Desk, item: Item) -> Path:
    path = judgements_of(desk, item)
    if path is None:
        raise FixInput(f"verdicts on {item.name} would lie outside what was served: serve the folder that it lies in")
    return path


def _all(item: Item) -> list[dict[str, Any]]:
    path = item.path.resolve().parent / f"{item.path.name}.judgements.jsonl"
    return read_judgements(path) if path.is_file() else []


def python(desk: Desk, query: Query) -> str:
    item = _item(desk, query.run)
    doc = f"show_edited(run, {query.doc!r})" if query.doc else "ids_of(run, 15, ('edited', 'dropped', 'guarded'))"
    return (
        "from typecase.app.refine.refining import ids_of, open_run, show_edited\n\n"
        f"run = open_run({str(item.path)!r})\nprint({doc})"
    )


def command(desk: Desk, query: Query) -> str:
    path = shlex.quote(str(_item(desk, query.run).path))
    return f"typecase refine show {path} {shlex.quote(query.doc)}" if query.doc else f"typecase refine show {path} --browse 15"


FORMATS = ("jsonl", "csv", "parquet")


def export(desk: Desk, query: Query, out: Path) -> None:
    """The documents that fit, with their programs and the verdicts of the person. Raises BadQuery where none fits."""
    item = _item(desk, query.run)
    run = open_run(item.path)
    most = desk.limits.export_rows
    whole = Query(**{**asdict(query), "page": 1, "size": most})
    total, rows = _rows(desk, run, whole, _said(item, query.who))
    if not total:
        raise BadQuery("no document fits: there is nothing to download")
    exports.export_rows([pa.Table.from_pylist([asdict(row) for row in rows])], out)


ACTIONS = (
    Action("judge", Judge, Judged, judge, "Accept or reject the program of a document", edits=True),
    Action("undo", Undo, Judged, undo, "Take back the last verdict", edits=True),
)
