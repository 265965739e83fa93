"""Documents, drawn: filters, a table of rows, and the document that was clicked with text and tokens side by side."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.documents import Answer
from typecase.app.web.browsing import Row
from typecase.app.web.detail import Detail, Tokens
from typecase.app.web.shell import Key, View

_SHOWN_SCORES = 40


def controls(view: View[Any]) -> None:
    known = view.names("docs", "tokens")
    parts.choice(view, "set", "Set", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}}, fresh=True)
    boxes = {
        "source": parts.suggested(view, "source", "Source"),
        "domain": parts.suggested(view, "domain", "Domain"),
        "score": parts.suggested(view, "score", "Score"),
    }
    parts.field(view, "low", "Score from", width="7rem", to=parts.decimal)
    parts.field(view, "high", "Score to", width="7rem", to=parts.decimal)
    parts.field(view, "shortest", "Tokens from", width="7rem", to=parts.whole)
    parts.field(view, "longest", "Tokens to", width="7rem", to=parts.whole)
    parts.field(view, "where", "Where", width="22rem", placeholder="source = 'wiki' and tokens < 2000")
    boxes["selection"] = parts.suggested(view, "selection", "Selection", width="16rem", clears=("outcome",))
    boxes["outcome"] = parts.suggested(view, "outcome", "Outcome")
    boxes["sort"] = parts.suggested(view, "sort", "Sort by")
    parts.tick(view, "down", "Large first")
    view.on_answer(lambda answer: _suggest(boxes, answer))


def _suggest(boxes: dict[str, Any], answer: Answer) -> None:
    parts.offer(boxes["source"], {s: f"{s} ({n:,})" for s, n in answer.sources.items()}, "all sources")
    parts.offer(boxes["domain"], {d: f"{d} ({n:,})" for d, n in answer.domains.items()}, "all domains")
    parts.offer(boxes["score"], {s: s for s in answer.scores}, answer.score or "none")
    first = answer.selections[0] if answer.selections else ""
    others = {s: s for s in answer.selections[1:]} | ({"-": "none"} if first else {})
    parts.offer(boxes["selection"], others, first or "none")
    parts.offer(boxes["outcome"], {o: f"{o} ({n:,})" for o, n in answer.outcomes.items()}, "any")
    parts.offer(boxes["sort"], {c: c for c in answer.columns}, "as stored")


def result(view: View[Any], answer: Answer) -> None:
    fits = f"{answer.total:,} of {answer.all:,}" if answer.total != answer.all else f"{answer.all:,}"
    ui.label(f"{fits} documents in {answer.set} ({answer.kind})")
    if answer.detail is not None:
        _detail(view, answer, answer.detail)
    if not answer.rows:
        ui.label("No document fits." if answer.total == 0 else "There are no more rows: go back a page.")
    else:
        heads = ["document", "source", "domain", "tokens", answer.score or "score"]
        heads += [*([answer.selection] if answer.selection else []), "begins"]
        rows = [_row(view, answer, r) for r in answer.rows]
        parts.table(heads, rows, numbers={3, 4}, tight={0, 2, *((5,) if answer.selection else ())}, caption="Documents")
    parts.pager(view, total=answer.total, page=answer.page, size=answer.size)


def _row(view: View[Any], answer: Answer, r: Row) -> tuple[Any, ...]:
    outcome = (r.outcome or "not in it",) if answer.selection else ()
    link = parts.Link(r.doc[:12], view.here(doc=r.doc))
    return (link, r.source, r.domain, r.length, r.score, *outcome, r.begins.replace("\n", " ⏎ "))


def _detail(view: View[Any], answer: Answer, one: Detail) -> None:
    with ui.element("article").classes("tc-card").props('aria-label="Document"'):
        with ui.row().classes("tc-title"):
            parts.heading(f"Document {one.doc}")
            ui.space()
            for by, words in ((-1, "Previous document"), (1, "Next document")):
                icon = "chevron_left" if by < 0 else "chevron_right"
                ui.button(icon=icon, on_click=lambda by=by: step(view, by)).props(f'flat dense aria-label="{words}"')
            ui.button(icon="close", on_click=lambda: view.go(doc="")).props('flat dense aria-label="Close document"')
        said = [one.doc_id or "", one.source or "", one.place or "", *(f"{k}: {v}" for k, v in one.meta.items())]
        ui.label("  ·  ".join(s for s in said if s)).classes("tc-dim")
        with ui.element("div").classes("tc-two"):
            with ui.element("div"):
                parts.heading("Text", 3)
                if one.text is None:
                    ui.label("The text of this document was not served; its tokens are.")
                else:
                    parts.plain_block(one.text)
                    if one.text_chars > len(one.text):
                        ui.label(f"The first {len(one.text):,} of {one.text_chars:,} characters.")
            with ui.element("div"):
                parts.heading("Tokens", 3)
                _tokens(view, one.tokens)
        _scores(one)
        _program(one)
        _fate(one)
        _labels(view, one)


def _tokens(view: View[Any], tokens: Tokens | None) -> None:
    if tokens is None:
        ui.label("No served token set holds this document.")
        return
    parts.tokens_block(tokens.pieces, tokens.ids, special=tokens.special, poor=tokens.poor, boundaries=tokens.boundaries)
    with ui.row().classes("tc-dim"):
        ui.label(
            f"{tokens.num_tokens:,} tokens"
            + (f", first {len(tokens.ids):,} shown" if len(tokens.ids) < tokens.num_tokens else "")
        )
        if tokens.special:
            ui.label(f"{len(tokens.special)} special ids")
        if tokens.judged_by:
            ui.label(f"{len(tokens.poor)} under-trained ids by {tokens.judged_by}")
        if len(tokens.ids) < tokens.num_tokens and len(tokens.ids) < 20_000:
            ui.button("Show more", on_click=lambda: view.go(tokens=min(20_000, len(tokens.ids) * 4))).props(
                "flat dense no-caps"
            )
    with ui.row():
        for run in view.names("run"):
            ui.link(f"When {run} trains on it", view.link("time", run=run, doc=str(tokens.doc), set=tokens.set))
        if view.has("edit"):
            ui.link("Edit it", view.link("edit", set=tokens.set, document=tokens.doc))


def _scores(one: Detail) -> None:
    if one.scores:
        parts.heading("Scores", 3)
        shown = list(one.scores.items())[:_SHOWN_SCORES]
        parts.definitions([(k, parts.number(v)) for k, v in shown if v is not None and not isinstance(v, list | dict)])


def _program(one: Detail) -> None:
    if one.program or one.program_status:
        parts.heading("Program", 3)
        ui.label(" ".join(s for s in (one.program_status, one.program_reason) if s))
        parts.plain_block(one.program or "(empty)", label="Program")


def _fate(one: Detail) -> None:
    if one.fate:
        parts.heading("What became of it", 3)
        parts.table(
            ("stage", "outcome", "reason", "detail"),
            [(f.stage, f.outcome, f.reason, f.detail) for f in one.fate],
            caption="Fate",
        )


def _labels(view: View[Any], one: Detail) -> None:
    if one.labels:
        parts.heading("Selections", 3)
        rows = [
            (parts.Link(s.selection, view.here(selection=s.selection)), s.reason, s.stratum, s.score, s.copies)
            for s in one.labels
        ]
        heads = ("selection", "outcome", "stratum", "score", "copies")
        parts.table(heads, rows, numbers={3, 4}, caption="Selections of this document")


async def step(view: View[Any], by: int) -> None:
    """The document before or after the shown one, on this page of rows."""
    answer: Answer | None = view.answered
    if answer is None or not answer.rows:
        return
    docs = [r.doc for r in answer.rows]
    at = docs.index(view.query.doc) + by if view.query.doc in docs else (0 if by > 0 else len(docs) - 1)
    if 0 <= at < len(docs):
        await view.go(doc=docs[at])


KEYS = (
    *parts.PAGING,
    Key("j", "next document", lambda view: step(view, 1)),
    Key("k", "previous document", lambda view: step(view, -1)),
    Key("x", "close the document", lambda view: view.go(doc="")),
)
