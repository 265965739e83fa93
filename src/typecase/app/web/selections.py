"""Selections: what became of the documents of a set in each `select` that was made of them.

docs/raw --select--> docs/best        kept, below cut …      two selections of the same documents are two answers,
     '-----select--> docs/random      kept, not drawn …      so one is shown at a time, by its name
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.filters import column, parquet, quoted, reading
from typecase.app.web.kin import made_from
from typecase.errors import NotFound
from typecase.store.documents import row_of

NONE = "-"


@dataclass(frozen=True, slots=True)
class Label:
    """What one selection says of a document: `reason` is "kept", or why not; `copies` how often it counts."""

    selection: str
    kept: bool
    reason: str
    stratum: str | None
    score: float | None
    copies: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """A selection with the parts of its table, and how many documents each reason has; no name where there is none."""

    name: str = ""
    parts: tuple[Path, ...] = ()
    outcomes: Mapping[str, int] | None = None


def selections_of(desk: Desk, item: Item) -> list[Item]:
    """The served selections over the documents of a set: itself, what was selected of it, and those behind it."""

    def look() -> list[Item]:
        near = [item, *made_from(desk, item)]
        docs = [i for i in near if i.kind == "docs"]
        made = [child for own in docs for child in desk.catalogue.children(own, "docs")]
        found = [i for i in (*docs, *made) if i.stage == "select" and parts_of(i)]
        return list({i.name: i for i in found}.values())

    return desk.remember(("selections", item.path), (stamp_of(item), desk.catalogue.looks), look)


def parts_of(selection: Item) -> tuple[Path, ...]:
    """The files of the table that a selection wrote."""
    return tuple(sorted((selection.path / "selection").glob("part-*.parquet")))


def chosen_selection(desk: Desk, item: Item, name: str) -> Chosen:
    """The selection called `name` of a set; the first without a name, none for "-". Raises NotFound."""
    known = selections_of(desk, item)
    if name == NONE or (not name and not known):
        return Chosen()
    found = next((s for s in known if name in ("", s.name)), None)
    if found is None:
        there = ", ".join(s.name for s in known) or "none"
        raise NotFound(f"no selection called {name!r} is over {item.name}: there is {there}")
    parts = parts_of(found)

    def count() -> dict[str, int]:
        with reading(parts, seconds=desk.limits.seconds) as connection:
            sql = f"select reason, count(*) as n from {parquet(parts)} group by 1 order by n desc, reason"
            return dict(connection.sql(sql).fetchall())

    return Chosen(found.name, parts, desk.remember(("outcomes", found.path), stamp_of(found), count))


def labels_of(desk: Desk, chosen: Chosen, ids: Sequence[str]) -> dict[str, Label]:
    """What a selection says of some documents, by id."""
    if not chosen.parts or not ids:
        return {}
    names = ", ".join(map(column, ("doc_id", "kept", "reason", "stratum", "score", "copies")))
    wanted = ", ".join(quoted(i) for i in ids)
    with reading(chosen.parts, seconds=desk.limits.seconds) as connection:
        table = connection.sql(f"select {names} from {parquet(chosen.parts)} where doc_id in ({wanted})").to_arrow_table()
    return {row["doc_id"]: _label(chosen.name, row) for row in table.to_pylist()}


def outcomes_of(desk: Desk, chosen: Chosen, ids: Sequence[str]) -> dict[str, str]:
    """What a selection did with some documents, in a word: its reason, and how many copies where it took several."""
    return {
        i: f"{label.reason} {label.copies} times" if label.copies > 1 else label.reason
        for i, label in labels_of(desk, chosen, ids).items()
    }


def all_labels(desk: Desk, item: Item, doc_id: str) -> tuple[Label, ...]:
    """What every selection over a set says of one document."""
    rows = ((s.name, row_of(parts_of(s), doc_id)) for s in selections_of(desk, item))
    return tuple(_label(name, row) for name, row in rows if row is not None)


def _label(name: str, row: Mapping[str, Any]) -> Label:
    return Label(name, bool(row["kept"]), row["reason"], row["stratum"], row["score"], int(row["copies"] or 0))
