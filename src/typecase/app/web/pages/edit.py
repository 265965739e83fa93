"""Edit, drawn: a form, the before and after with all that changes, and the journal with undo, redo and apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from html import escape
from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.edit import OPS, Answer, Back, Make, Preview
from typecase.app.web.shell import View
from typecase.store.journal.edit_files import TYPES

_OPS = {
    "replace": "replace a text", "delete": "delete", "inject": "inject a text", "mask": "mask a span",
    "insert": "insert a document", "append": "append a document",
}  # fmt: skip
_SHOWN = 12


def controls(view: View[Any]) -> None:
    known = view.names("tokens")
    parts.choice(view, "set", "Token set", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}}, fresh=True)
    parts.choice(view, "op", "What", {op: _OPS[op] for op in OPS}, width="12rem")
    parts.field(view, "find", "Find", width="14rem")
    parts.field(view, "text", "Put in", width="20rem")
    parts.field(view, "document", "Document", width="8rem", to=parts.whole)
    parts.field(view, "limit", "At most", width="7rem", to=parts.whole)
    runs = view.names("run")
    parts.choice(view, "run", "Run", {"": "the first over it", "-": "no run", **{n: n for n in runs}})
    with ui.expansion("More").classes("tc-more"), ui.element("div").classes("tc-controls"):
        parts.field(view, "find_regex", "Regular expression", width="14rem")
        parts.choice(view, "type", "Inject", {t: t for t in TYPES}, width="10rem")
        numbers = {
            "step": "Step", "sample": "Sample", "start": "From token", "stop": "to", "at": "Before document",
            "position": "At token", "fill": "Cover with id", "eod": "End of document",
        }  # fmt: skip
        for name, label in numbers.items():
            parts.field(view, name, label, width="8rem", to=parts.whole)
        parts.field(view, "seed", "Seed", width="6rem", to=lambda text: int(text or 0))


def result(view: View[Any], answer: Answer) -> None:
    parts.heading(f"{answer.set}: {answer.tokens:,} tokens in {answer.documents:,} documents")
    where = "the .bin says so too" if answer.applied == answer.head else f"the .bin is at entry {answer.applied}"
    ui.label(f"branch {answer.branch}, at entry {answer.head}; {where}").classes("tc-dim")
    if not answer.may_edit:
        ui.label("Edits are off: start `typecase serve` with --allow-edit. A preview changes nothing.").classes("tc-dim")
    if answer.preview is not None:
        _preview(view, answer, answer.preview)
    else:
        ui.label("Say what is to be found, put in or deleted, and where: the preview shows all that it changes.")
    _journal(view, answer)


def _preview(view: View[Any], answer: Answer, made: Preview) -> None:
    parts.heading(f"{made.num_edits:,} {'edit' if made.num_edits == 1 else 'edits'}, not made yet")
    r = made.radius
    facts = [("documents", _some(r.documents))]
    if r.samples is not None:
        facts += [
            ("samples", _some(r.samples)), ("steps", _some(r.steps or ())), ("ranks", _some(r.ranks or ())),
            ("epochs", _some(r.epochs or ())),
        ]  # fmt: skip
    parts.definitions(facts)
    allowed: dict[str, ui.checkbox] = {}
    for danger in r.dangers:
        box = ui.checkbox(f"allow {danger.code}: {danger.text}", value=False)
        allowed[danger.code] = box
    for what in (*r.invalid, *made.stale):
        ui.label(f"no longer valid: {what}").classes("tc-dim")
    reason = ui.input(label="Reason").props('dense outlined aria-label="Reason"').style("width:24rem")

    async def record() -> None:
        fields = {f.name: getattr(view.query, f.name) for f in dataclasses.fields(view.query)}
        allow = tuple(code for code, box in allowed.items() if box.value)
        asked = Make(**{**fields, "set": answer.set}, allow=allow, reason=reason.value or "", head=answer.head)
        done = await view.act("make", asked)
        if done is not None:
            ui.notify(f"entry {done.entry} was recorded", timeout=2000)
            await view.go(**{f.name: f.default for f in dataclasses.fields(view.query) if f.name not in ("set", "run", "op")})

    ui.button("Make the edit", on_click=record).props("unelevated no-caps color=primary text-color=white").set_enabled(
        answer.may_edit
    )
    for change in made.changes:
        with ui.element("article").classes("tc-hit").props(f'aria-label="{change.where}"'):
            ui.label(f"{change.where}   ({change.asked})").classes("tc-dim")
            for kind, text, ids in (("del", change.old_text, change.old), ("ins", change.new_text, change.new)):
                if ids:
                    _side(kind, text, ids)
    if made.num_edits > len(made.changes):
        ui.label(f"and {made.num_edits - len(made.changes):,} more").classes("tc-dim")


def _side(kind: str, text: str | None, ids: Sequence[int]) -> None:
    told = parts.visible(text) if text is not None else " ".join(map(str, ids))
    parts.text_block(
        f'<{kind} title="{" ".join(map(str, ids))}">{escape(told)}</{kind}>', label="Before" if kind == "del" else "After"
    )


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(f"{n:,}" for n in numbers[:_SHOWN]) + (" …" if len(numbers) > _SHOWN else "")
    return f"{len(numbers):,}" + (f" ({shown})" if numbers else "")


def _journal(view: View[Any], answer: Answer) -> None:
    parts.heading("Journal")
    if not answer.journal:
        ui.label("No edit yet.")
        return

    async def act(what: str, entry: int | None = None) -> None:
        done = await view.act(what, Back(answer.set, entry))
        if done is not None:
            told = f"{done.tokens:,} tokens of the .bin written" if what == "apply" else f"entry {done.entry} was recorded"
            ui.notify(told, timeout=2000)
            await view.refresh()

    with ui.row().classes("tc-line"):
        apply = ui.button("Apply to the .bin", on_click=lambda: act("apply")).props("outline no-caps dense")
        apply.set_enabled(answer.may_edit and answer.applied != answer.head)
        back = ui.button("Give the .bin its old bytes", on_click=lambda: act("apply", 0)).props("flat no-caps dense")
        back.set_enabled(answer.may_edit and answer.applied != 0)
        ui.button("Redo", on_click=lambda: act("redo")).props("flat no-caps dense").set_enabled(answer.may_edit)
    for line in answer.journal:
        with ui.row().classes("tc-line").props(f'role="group" aria-label="Entry {line.id}"'):
            about = f"{line.kind} of {', '.join(map(str, line.targets))}" if line.targets else line.kind
            state = "in the .bin" if line.in_bin else "" if line.standing else "taken back"
            length = "" if line.same_length else "other length"
            said = (
                f"entry {line.id}",
                about,
                f"{line.num_edits:,} edits",
                length,
                line.reason,
                line.author,
                line.time[:19],
                state,
            )
            ui.label("   ".join(s for s in said if s))
            if line.kind != "undo" and line.standing:
                ui.button(f"Undo {line.id}", on_click=lambda n=line.id: act("undo", n)).props("flat no-caps dense").set_enabled(
                    answer.may_edit
                )
