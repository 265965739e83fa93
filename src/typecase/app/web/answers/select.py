"""Select: how a selection came about, what it did to the corpus, why a document is in it or not; and what another would keep.

the funnel     documents in and out of every stage, shares and distributions before and after, variety, warnings
a document     its fate at every stage
what if        a policy, a budget, strata: decided over the side tables, no text is read, nothing written
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from typecase.app.funnel.facts import Funnel, Shift, Spread, Variety, funnel_of
from typecase.app.funnel.preview import Columns, Preview, preview, read_columns
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.state import ask
from typecase.core.selection.policy import Budget
from typecase.errors import BadQuery, NotFound
from typecase.recipe.why import Fate, fate
from typecase.store import exports

SUMMARY = "overall_score"
STRATA = {"source": ("source",), "domain": ("domain",), "both": ("source", "domain"), "none": ()}


@dataclass(frozen=True, slots=True)
class Query:
    selection: str = ask("", "documents or tokens whose funnel is shown; the newest selection by default, - for none")
    doc: str = ask("", "the document whose fate is shown: its doc_id", longest=64)
    ratings: str = ask("", "the ratings that a choice goes by; the first by default")
    score: str = ask("", "the score to go by; overall_score, else the first", longest=100)
    policy: str = ask("top", "top, sampled:TEMPERATURE, uniform, threshold:SCORE, qurating:TEMPERATURE …", longest=200)
    percent: float = ask(10.0, "the budget, in percent of what there is", low=0, high=100)
    unit: str = ask("documents", "what the budget counts", choices=("documents", "bytes"))
    strata: str = ask("source", "what divides the budget", choices=tuple(STRATA))
    inverse: bool = ask(False, "the negative control: the worst first")
    seed: int = ask(1, "of policies that draw", low=0)


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the funnel; documents removed and quarantined by reason."""

    stage: str
    name: str
    entered: int
    kept: int
    removed: Mapping[str, int]
    quarantined: Mapping[str, int]
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Story:
    """The funnel that leads to `name`."""

    name: str
    stages: tuple[Stage, ...]
    shifts: Mapping[str, tuple[Shift, ...]]
    spreads: tuple[Spread, ...]
    before: Variety
    after: Variety
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What one stage did with the document that was asked for."""

    stage: str
    outcome: str
    reason: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """`story` of the shown selection, `fates` of a document, `what_if` of the choice; None and () where there is nothing."""

    story: Story | None
    fates: tuple[Told, ...]
    ratings: str
    docs: str
    scores: tuple[str, ...]
    score: str
    what_if: Preview | None


def answer(desk: Desk, query: Query) -> Answer:
    """The selection and the choice of a state. Raises NotFound, BadQuery, FixInput."""
    shown = _shown(desk, query)
    if shown is None and query.doc:
        raise NotFound("no selection is shown that could tell of a document: choose one")
    fates = tuple(map(_told, fate(shown.path, query.doc))) if shown is not None and query.doc else ()
    story = _story(desk, shown) if shown is not None else None
    if not desk.catalogue.of_kind("ratings") and not query.ratings:
        return Answer(story, fates, "", "", (), "", None)
    ratings, docs = _rated(desk, query)
    columns = _columns(desk, docs, ratings)
    score = _score(query, columns)
    made = preview(
        columns,
        _budget(query, columns),
        query.policy,
        score=score,
        strata=STRATA[query.strata],
        inverse=query.inverse,
        seed=query.seed,
    )
    return Answer(story, fates, ratings.name, docs.name, tuple(columns.scores), score, made)


def _shown(desk: Desk, query: Query) -> Item | None:
    if query.selection == "-":
        return None
    if query.selection:
        return desk.catalogue.get(query.selection, "docs", "tokens")
    made = [i for i in desk.catalogue.of_kind("docs") if i.stage == "select"]
    return made[-1] if made else None


def _story(desk: Desk, item: Item) -> Story:
    def look() -> Story:
        found: Funnel = funnel_of(item.path)
        stages = tuple(
            Stage(
                s.stage,
                s.folder.name,
                s.balance.entered,
                s.balance.kept,
                dict(s.balance.removed),
                dict(s.balance.quarantined),
                s.tokens,
            )
            for s in found.steps
        )
        return Story(item.name, stages, dict(found.shifts), found.spreads, found.before, found.after, found.warnings)

    return desk.remember(("funnel", item.path), stamp_of(item), look)


def _told(one: Fate) -> Told:
    return Told(one.stage, one.outcome, one.reason, dict(one.detail))


def _rated(desk: Desk, query: Query) -> tuple[Item, Item]:
    """The ratings that a choice goes by, and the documents that they are of."""
    ratings = desk.catalogue.get(query.ratings, "ratings")
    parent = ratings.manifest().parent("docs")
    docs = desk.catalogue.by_content(parent.content, "docs") if parent is not None else None
    if docs is None:
        raise BadQuery(f"the documents that {ratings.name} rates were not served: serve their folder as well")
    return ratings, docs


def _columns(desk: Desk, docs: Item, ratings: Item) -> Columns:
    stamp = (stamp_of(docs), stamp_of(ratings))
    return desk.remember(("columns", ratings.path), stamp, lambda: read_columns(docs.path, ratings.path))


def _score(query: Query, columns: Columns) -> str:
    return query.score or (SUMMARY if SUMMARY in columns.scores else next(iter(columns.scores), ""))


def _budget(query: Query, columns: Columns) -> Budget:
    """`percent` of what there is, rounded down to whole documents or bytes."""
    if query.unit == "documents":
        return Budget(documents=int(len(columns) * query.percent / 100))
    if columns.size_bytes is None:
        raise BadQuery("these ratings do not say how many bytes they are of: give a budget in documents")
    return Budget(bytes=int(int(columns.size_bytes.sum()) * query.percent / 100))


def _parts(desk: Desk, query: Query) -> tuple[Item, Item, str, Budget]:
    ratings, docs = _rated(desk, query)
    columns = _columns(desk, docs, ratings)
    return ratings, docs, _score(query, columns), _budget(query, columns)


def python(desk: Desk, query: Query) -> str:
    ratings, docs, score, budget = _parts(desk, query)
    more = ", inverse=True" if query.inverse else ""
    return (
        "import typecase as tc\n\n"
        f"stage = tc.Select(budget=tc.Budget({budget.unit}={budget.amount}), policy={query.policy!r}, score={score!r},"
        f" strata={STRATA[query.strata]!r}, seed={query.seed}{more})\n"
        f"made = tc.run_stage(stage, {{'docs': {str(docs.path)!r}, 'ratings': {str(ratings.path)!r}}}, 'selected')\n"
        "print(made.manifest.balance)"
    )


def command(desk: Desk, query: Query) -> str:
    ratings, docs, score, budget = _parts(desk, query)
    q = shlex.quote
    more = " --inverse" if query.inverse else ""
    return (
        f"typecase select {q(str(docs.path))} -o selected --ratings {q(str(ratings.path))} --policy {q(query.policy)}"
        f" --score {q(score)} --strata {q(','.join(STRATA[query.strata]))} --budget {q(f'{budget.amount} {budget.unit}')}"
        f" --seed {query.seed}{more}"
    )


FORMATS = ("csv", "jsonl", "parquet")


def export(desk: Desk, query: Query, out: Path) -> None:
    """A row for every stratum of the choice. Raises BadQuery where nothing is rated."""
    told = answer(desk, query).what_if
    if told is None:
        raise BadQuery("nothing that was served is rated: there is no choice to download")
    exports.export_rows([pa.Table.from_pylist([asdict(row) for row in told.strata])], out)
