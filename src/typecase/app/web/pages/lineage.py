"""Lineage, drawn: the tree as boxes and lines, one thing of it in full, and a table of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson
from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.lineage import Answer, Made, Tie
from typecase.app.web.registry import page_named
from typecase.app.web.shell import View
from typecase.app.web.tree import Box, tree_html

_MOST_DRAWN = 200
_SHOWN_BY = {
    "docs": ("documents", "Its documents"),
    "tokens": ("documents", "Its documents and tokens"),
    "index": ("search", "Search it"),
    "run": ("time", "Its steps"),
    "ratings": ("ratings", "Its distributions"),
    "audit": ("audit", "Its verdicts"),
}
_BY_STAGE = {"refine": ("refine", "Its programs"), "select": ("select", "Its cuts")}


def controls(view: View[Any]) -> None:
    names = sorted(i.name for i in view.desk.catalogue.items if not i.note and i.kind != "losses")
    parts.choice(view, "of", "Thing", {"": "everything", **{n: n for n in names}}, width="20rem")
    kinds = sorted({i.kind for i in view.desk.catalogue.items if i.kind != "losses"})
    parts.choice(view, "kind", "Kind", {"": "all kinds", **{k: k for k in kinds}})


def result(view: View[Any], answer: Answer) -> None:
    if not answer.made:
        ui.label("Nothing of this kind was served: name folders that hold artifacts, such as `typecase serve work`.")
        return
    lost = [m for m in answer.made if m.missing]
    ui.label(f"{answer.total:,} things" + (f", of which {len(lost)} are gone or were made anew" if lost else ""))
    if len(answer.made) <= _MOST_DRAWN:
        parts.html_region(tree_html([_box(view, answer, m) for m in answer.made]), label="Tree, parents to the left")
    else:
        ui.label(f"More than {_MOST_DRAWN} are too many for one picture: choose a thing to see what it is made of.")
    focus = next((m for m in answer.made if m.id == answer.focus), None)
    if focus is not None:
        _one(view, focus)
    _table(view, answer)


def _box(view: View[Any], answer: Answer, one: Made) -> Box:
    what = one.kind if not one.stage else f"{one.kind} by {one.stage}"
    kept = f"{one.kept:,} of {one.entered:,}" if one.kept is not None and one.entered is not None else ""
    look = f"k-{one.kind}" + (" tc-lost" if one.missing else "") + (" tc-asked" if one.id == answer.focus else "")
    lines = (_name(one), what, "gone" if one.missing else kept)
    to = view.here(of=one.name if one.served else one.id)
    return Box(one.id, one.generation, tuple(dict.fromkeys(t.id for t in one.parents)), lines, to, look)


def _name(one: Made) -> str:
    return one.name if one.served else one.name.rstrip("/").rpartition("/")[2]


def _one(view: View[Any], one: Made) -> None:
    with ui.element("article").classes("tc-card").props('aria-label="Thing"'):
        with ui.row().classes("tc-title"):
            parts.heading(one.name)
            ui.space()
            link = link_of(view, one)
            if link is not None:
                ui.link(link.text, link.to)
            ui.button(icon="close", on_click=lambda: view.go(of="")).props('flat dense aria-label="Show everything"')
        if one.missing:
            ui.label(one.missing)
        facts = [("kind", one.kind), ("made by", f"{one.stage} {one.version or ''}".strip()), ("lies at", one.place)]
        facts += [("content", one.id if one.fingerprint else ""), ("fingerprint", one.fingerprint)]
        facts += [("also", ", ".join(one.copies))]
        parts.definitions([(k, v) for k, v in facts if v])
        _numbers("Balance", _balance(one))
        _numbers("Counts", one.counts)
        _numbers("Seeds", one.seeds)
        _numbers("Versions", one.versions)
        if one.params:
            parts.heading("Parameters", 3)
            text = orjson.dumps(dict(one.params), option=orjson.OPT_INDENT_2, default=str).decode()
            parts.plain_block(text, label="Parameters")
        _ties(view, "Made from", one.parents)
        _ties(view, "Went into", one.children)


def _balance(one: Made) -> Mapping[str, Any]:
    if one.entered is None:
        return {}
    removed = {f"removed: {k}": v for k, v in one.removed.items()}
    return {"in": one.entered, "kept": one.kept, **removed, **{f"quarantined: {k}": v for k, v in one.quarantined.items()}}


def _numbers(title: str, values: Mapping[str, Any]) -> None:
    plain = [(k, parts.number(v)) for k, v in values.items() if not isinstance(v, list | tuple | dict)]
    if plain:
        parts.heading(title, 3)
        parts.definitions(plain)


def _ties(view: View[Any], title: str, ties: tuple[Tie, ...]) -> None:
    if ties:
        parts.heading(title, 3)
        with ui.row().classes("tc-line"):
            for tie in ties:
                ui.link(f"{tie.role}: {tie.name}", view.here(of=tie.id))


def link_of(view: View[Any], one: Made) -> parts.Link | None:
    """Where a thing is shown; None where no page shows it."""
    page, words = _BY_STAGE.get(one.stage, _SHOWN_BY.get(one.kind, ("", "")))
    if not one.served or not view.has(page):
        page, words = _SHOWN_BY.get(one.kind, ("", ""))
    if not one.served or not view.has(page):
        return None
    known = [f.name for f in dataclasses.fields(page_named(page).twin.query)]
    field = next((f for f in (one.kind, one.stage, "set", "run") if f in known), None)
    return parts.Link(words, view.link(page, **{field: one.name}) if field else page_named(page).path)


def _table(view: View[Any], answer: Answer) -> None:
    parts.heading("All of them")
    rows = []
    for m in answer.made:
        seeds = ", ".join(f"{k} {v}" for k, v in m.seeds.items())
        removed = sum(m.removed.values()) if m.entered is not None else None
        quarantined = sum(m.quarantined.values()) if m.entered is not None else None
        made_by = f"{m.stage} {m.version or ''}".strip()
        name = parts.Link(m.name, view.here(of=m.name if m.served else m.id))
        versions = m.versions.get("typecase", "")
        behind = ", ".join(f"{t.role}: {t.name}" for t in m.parents)
        shown = link_of(view, m) or m.missing
        rows.append((name, m.kind, made_by, m.entered, m.kept, removed, quarantined, seeds, versions, behind, shown))
    heads = ("name", "kind", "made by", "in", "kept", "removed", "quarantined", "seeds", "typecase", "made from", "shown by")
    parts.table(heads, rows, numbers={3, 4, 5, 6}, tight={2}, caption="Things and what they were made from")
    if answer.total > len(answer.made):
        ui.label(f"The first {len(answer.made):,} of {answer.total:,}: choose a kind or a thing, or download them.")
