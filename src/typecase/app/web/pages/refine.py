"""Refine review, drawn: the list, the document with what is gone struck through, its program, and keys to judge it."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import ui

from typecase.app.refine.refining import EditedDocument, EditedLine, Piece
from typecase.app.web import parts
from typecase.app.web.answers.refine import SHOWN, Answer, Judge, Undo, runs_served
from typecase.app.web.shell import Key, View

_STATUSES = {"changed": "edited, dropped or held back", **{name: name for name in SHOWN[1:]}}
_MOST_LINES = 2000


def controls(view: View[Any]) -> None:
    known = [i.name for i in runs_served(view.desk)]
    parts.choice(view, "run", "Run", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}}, fresh=True)
    parts.choice(view, "status", "Documents", _STATUSES, width="15rem", clears=("doc",))
    by = parts.suggested(view, "by", "Changed by", clears=("doc",))
    parts.field(view, "least", "Lost at least", width="8rem", to=lambda text: float(text or 0), clears=("doc",))
    parts.tick(view, "undecided", "Undecided only")
    parts.field(view, "who", "Verdicts of", width="9rem", clears=("doc",))
    view.on_answer(lambda answer: parts.offer(by, {n: f"{n} ({k:,})" for n, k in answer.proposers.items()}, "anyone"))


def result(view: View[Any], answer: Answer) -> None:
    if not answer.run:
        ui.label("No refined documents were served: `typecase refine DOCS -o OUT` makes some.")
        return
    parts.heading(f"{answer.total:,} of {answer.all:,} documents")
    told = "   ".join(f"{name} {number:,}" for name, number in answer.statuses.items())
    said = ", ".join(f"{number:,} {name}ed" for name, number in answer.verdicts.items())
    ui.label(f"{told}      {view.query.who}: {said}").classes("tc-dim")
    with ui.element("div").classes("tc-two tc-wide-right"):
        with ui.element("div"):
            _list(view, answer)
        with ui.element("div"):
            if answer.shown is not None:
                _shown(view, answer, answer.shown)


def _list(view: View[Any], answer: Answer) -> None:
    chosen = answer.shown.doc_id if answer.shown is not None else ""
    rows = [
        (
            parts.Link(f"{r.doc_id[:8]}{' ◂' if r.doc_id == chosen else ''}", view.here(doc=r.doc_id)),
            r.source, r.status, f"{1 - r.bytes_after / r.bytes_before:.0%}" if r.bytes_before else "", r.verdict or "",
        )
        for r in answer.rows
    ]  # fmt: skip
    parts.table(("document", "source", "status", "lost", "verdict"), rows, numbers={3}, tight={0, 2}, caption="Documents")
    parts.pager(view, total=answer.total, page=answer.page, size=answer.size)


def _shown(view: View[Any], answer: Answer, one: EditedDocument) -> None:
    with ui.element("article").props(f'aria-label="Document {one.doc_id[:8]}"'):
        parts.heading(f"{one.doc_id[:8]}: {one.status}" + (f", {answer.verdict}ed" if answer.verdict else ""))
        ui.label(f"{one.source}   {one.bytes_before:,} bytes, {one.bytes_after:,} left   {one.reason} {one.detail}").classes(
            "tc-dim"
        )
        with ui.row().classes("tc-line"):
            for word, key in (("accept", "a"), ("reject", "r")):
                button = ui.button(f"{word.capitalize()} ({key})", on_click=lambda word=word: say(view, word))
                button.props("outline no-caps dense").set_enabled(view.desk.allow_edit)
            ui.button("Undo (u)", on_click=lambda: take_back(view)).props("flat no-caps dense").set_enabled(
                view.desk.allow_edit
            )
            if not view.desk.allow_edit:
                ui.label("verdicts are off: start `typecase serve` with --allow-edit").classes("tc-dim")
            elif answer.file:
                ui.label(f"kept in {answer.file}").classes("tc-dim")
        lines = one.lines[:_MOST_LINES]
        parts.text_block("\n".join(map(_line, lines)), label="The document as it was edited")
        if len(one.lines) > len(lines):
            ui.label(f"{len(lines):,} of {len(one.lines):,} lines.").classes("tc-dim")
        rows = [(s.statement, s.by, f"{s.confidence:.2f}", s.verdict, s.about) for s in one.statements]
        parts.heading("Program", 3)
        parts.table(("statement", "by", "sure", "verdict", "about"), rows, numbers={2}, caption="Program")
        if one.refusals:
            parts.table(("chunk", "code", "message"), one.refusals, caption="Refused of the refiner's answers")


def _line(line: EditedLine) -> str:
    return f'<span class="tc-dim">{line.number:>5} </span>' + "".join(map(_piece, line.pieces))


def _piece(piece: Piece) -> str:
    text = escape(piece.text)
    if piece.kind == "kept":
        return text
    if piece.kind == "held":
        return f'<span class="u" title="a guard kept this">{text}</span>'
    return f"<del>{text}</del>" + (f"<ins>{escape(piece.target)}</ins>" if piece.target else "")


async def say(view: View[Any], verdict: str) -> None:
    """Judges the shown document, then shows the next one of the page."""
    answer: Answer | None = view.answered
    if answer is None or answer.shown is None:
        return
    done = await view.act("judge", Judge(answer.run, answer.shown.doc_id, verdict, view.query.who))
    if done is not None:
        ui.notify(f"{answer.shown.doc_id[:8]} {verdict}ed", timeout=1200)
        await _after(view, answer)


async def _after(view: View[Any], answer: Answer) -> None:
    ids = [r.doc_id for r in answer.rows]
    shown = answer.shown.doc_id if answer.shown else ""
    at = ids.index(shown) + 1 if shown in ids else 0
    if at < len(ids):
        await view.go(doc=ids[at])
    else:
        await view.refresh()


async def take_back(view: View[Any]) -> None:
    """Takes back the last verdict and shows its document."""
    answer: Answer | None = view.answered
    if answer is not None and answer.run:
        done = await view.act("undo", Undo(answer.run, view.query.who))
        if done is not None:
            await view.go(doc=done.doc) if done.doc != view.query.doc else await view.refresh()


async def step(view: View[Any], by: int) -> None:
    """The document before or after the shown one, of those on the page."""
    answer: Answer | None = view.answered
    if answer is not None and answer.shown is not None:
        ids = [r.doc_id for r in answer.rows]
        at = ids.index(answer.shown.doc_id) + by if answer.shown.doc_id in ids else 0
        if 0 <= at < len(ids):
            await view.go(doc=ids[at])


KEYS = (
    *parts.PAGING,
    Key("j", "next document", lambda view: step(view, 1)),
    Key("k", "previous document", lambda view: step(view, -1)),
    Key("a", "accept the program", lambda view: say(view, "accept")),
    Key("r", "reject the program", lambda view: say(view, "reject")),
    Key("u", "take back the last verdict", take_back),
)
