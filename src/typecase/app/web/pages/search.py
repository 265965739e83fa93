"""Search, drawn: the question, how the text may stand as tokens, the hits with their context and steps, and what follows."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.search import Answer, Found, Way
from typecase.app.web.shell import View

_MODES = {
    "phrase": "a phrase",
    "all": "all of these, a line each",
    "most": "most of these, a line each",
    "regex": "a regular expression",
}


def controls(view: View[Any]) -> None:
    said = "Enter asks; Shift+Enter begins a line; one|other"
    parts.field(view, "q", "Text", width="30rem", area=True, placeholder=said, clears=("ids",))
    ui.button("Search", icon="search", on_click=lambda: view.refresh()).props("outline no-caps color=primary")
    parts.choice(view, "mode", "Look for", _MODES, width="15rem")
    parts.field(view, "ids", "or token ids", width="12rem", placeholder="262,2746")
    parts.field(view, "where", "Where", width="20rem", placeholder="source = 'wiki' and tokens < 2000")
    known = view.names("index")
    parts.choice(view, "index", "Index", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}})
    runs = view.names("run")
    parts.choice(view, "run", "Steps of", {"": "the first run over it", "-": "no run", **{n: n for n in runs}})
    parts.field(view, "steps", "Only steps", width="8rem", placeholder="100:200")
    parts.field(view, "within", "Within tokens", width="8rem", to=parts.whole)
    parts.field(view, "context", "Context", width="6rem", to=lambda text: int(text or 0))


def result(view: View[Any], answer: Answer) -> None:
    if not answer.ids and not answer.documents and not view.query.q.strip():
        ui.label(f"{answer.index} finds texts and token ids among the {answer.set_tokens:,} tokens of {answer.set}.")
        return
    _headline(view, answer)
    if answer.ways:
        _ways(view, answer)
    with ui.element("div").classes("tc-two tc-wide-left" if answer.following else ""):
        with ui.element("div"):
            _hits(view, answer)
        if answer.following:
            with ui.element("div"):
                _following(view, answer)


def _headline(view: View[Any], answer: Answer) -> None:
    if view.query.mode == "phrase" or answer.ids:
        parts.heading(f"{answer.total:,.0f} hits in {answer.set}")
        if answer.as_text is not None and answer.as_text != answer.total:
            ui.label(f"{answer.as_text:,} as characters, however they were cut into tokens: choose another way to see those.")
    elif view.query.mode == "all":
        off = f" ± {answer.off:,.0f}" if answer.off else ""
        parts.heading(f"{answer.total:,.0f}{off} places with all of them")
    else:
        parts.heading(f"{answer.total:,.0f} {'documents' if view.query.mode == 'most' else 'matches'} shown")
    if answer.ids:
        with ui.row().classes("tc-line"):
            ui.label("Asked as tokens:").classes("tc-dim")
            parts.text_block(parts.tokens_html(answer.pieces, answer.ids), label="The question as tokens")


def _ways(view: View[Any], answer: Answer) -> None:
    shown = [w for w in answer.ways if w.count or w.ids == answer.ids]
    title = f"Ways it may stand ({sum(w.count > 0 for w in answer.ways)} of {len(answer.ways)} occur)"
    with ui.expansion(title, value=True).classes("tc-narrow"):
        rows = [(_way(view, w), w.reason + (", shown" if w.ids == answer.ids else ""), w.count) for w in shown]
        parts.table(("as tokens", "why", "hits"), rows, numbers={2}, caption="Ways the text may stand as tokens")
        absent = "; ".join(w.reason for w in answer.ways if w not in shown)
        if absent:
            ui.label(f"Not in the set: {absent}.").classes("tc-dim")


def _way(view: View[Any], way: Way) -> parts.Link:
    return parts.Link("·".join(map(parts.visible, way.pieces)), view.here(ids=",".join(map(str, way.ids)), page=1))


def _hits(view: View[Any], answer: Answer) -> None:
    if answer.documents:
        _documents(view, answer)
    for hit in answer.hits:
        _hit(view, answer, hit)
    if answer.total and answer.ids:
        parts.pager(view, total=int(answer.total), page=answer.page, size=answer.size)
    if not answer.documents and not answer.hits:
        ui.label("Nothing stands there." if not answer.total else "There are no more hits: go back a page.")


def _documents(view: View[Any], answer: Answer) -> None:
    more = {"all": (), "most": ("phrases", "hits"), "regex": ("text",)}[view.query.mode]
    rows = [
        (_document(view, answer, d.doc, d.doc_id), d.source, *(str(getattr(d, m)).replace("\n", " ⏎ ") for m in more))
        for d in answer.documents
    ]
    numbers = {2, 3} if more[1:] else ()
    parts.table(("document", "source", *more), rows, numbers=numbers, tight={0}, caption="Documents")


def _document(view: View[Any], answer: Answer, doc: int, doc_id: str | None) -> parts.Link:
    return parts.Link(f"{doc} {(doc_id or '')[:8]}".strip(), parts.document_link(view, answer.set, doc))


def _hit(view: View[Any], answer: Answer, hit: Found) -> None:
    with ui.element("article").classes("tc-hit").props(f'aria-label="Hit at {hit.position}"'):
        ui.html(f'{escape(hit.before)}<mark class="m">{escape(hit.text)}</mark>{escape(hit.after)}', sanitize=False).classes(
            "tc-context"
        )
        with ui.row().classes("tc-line"):
            link = _document(view, answer, hit.doc, hit.doc_id)
            ui.link(f"document {link.text}", link.to)
            ui.label(f"{hit.source or ''}  tokens [{hit.start:,}, {hit.stop:,})").classes("tc-dim")
            parts.steps(view, answer.run, answer.set, hit.doc, hit.seen, hit.sightings)


def _following(view: View[Any], answer: Answer) -> None:
    parts.heading("What follows")
    rows = [f for f in answer.following if f.share > 0][::-1]
    names = [parts.visible(f.text if f.text is not None else str(f.id)) for f in rows]
    chart = {
        "grid": {"left": 100, "right": 20, "top": 5, "bottom": 25},
        "xAxis": {"type": "value", "axisLabel": {"formatter": "{value}%"}},
        "yAxis": {"type": "category", "data": names, "axisLabel": {"width": 90, "overflow": "truncate"}},
        "series": [{"type": "bar", "data": [round(100 * f.share, 3) for f in rows]}],
        "tooltip": {"renderMode": "richText"},
    }
    best = ", ".join(f"{parts.visible(f.text or str(f.id))} {f.share:.1%}" for f in answer.following[:5])
    parts.picture(chart, label=f"Tokens that follow: {best}", height=f"{max(9, 1.2 * len(rows) + 3):g}rem")
    told = [(parts.visible(f.text or ""), f.id if f.id >= 0 else "", f.count, f"{f.share:.2%}") for f in answer.following]
    with ui.expansion("As a table"):
        parts.table(("token", "id", "count", "share"), told, numbers={1, 2, 3}, caption="Tokens that follow")


KEYS = parts.PAGING
