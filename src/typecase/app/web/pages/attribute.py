"""Attribute, drawn: the text with its spans in colour, the places of one, a table of all, and which sources hold how much."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.attribute import Answer, Origin, Span
from typecase.app.web.shell import Key, View

_LEVELS = {
    "rarity": ((1, "once"), (10, "up to 10 times"), (100, "up to 100 times"), (None, "more often")),
    "length": ((40, "40 tokens and more"), (20, "20 and more"), (10, "10 and more"), (None, "shorter")),
}
_BEGINS = 120


def controls(view: View[Any]) -> None:
    said = "Paste what a model wrote; Enter asks, Shift+Enter begins a line"
    parts.field(view, "text", "Text", width="100%", area=True, placeholder=said, clears=("span",))
    parts.field(view, "least", "Tokens from", width="7rem", to=lambda text: int(text or 1), clears=("span",))
    parts.field(view, "most", "At most times", width="8rem", to=parts.whole, clears=("span",))
    parts.tick(view, "words", "Whole words")
    parts.choice(view, "by", "Colour by", {"rarity": "how rare", "length": "how long"}, width="9rem")
    known = view.names("index")
    parts.choice(view, "index", "Index", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}})
    runs = view.names("run")
    parts.choice(view, "run", "Steps of", {"": "the first run over it", "-": "no run", **{n: n for n in runs}})


def result(view: View[Any], answer: Answer) -> None:
    if not answer.tokens:
        ui.label(
            f"Paste a text: what of it stands word for word among the {answer.set_tokens:,} tokens of {answer.set} is coloured,"
            " with the documents, sources and training steps that it comes from."
        )
        return
    share = answer.covered / answer.tokens
    parts.heading(f"{answer.covered:,} of {answer.tokens:,} tokens ({share:.0%}) stand in {answer.set}")
    if not answer.spans:
        ui.label(f"No span of {view.query.least} tokens or more stands there: ask for shorter ones.")
        return
    shown = chosen(view, answer)
    _legend(view)
    with ui.element("div").classes("tc-two tc-wide-left"):
        with ui.element("div"):
            _text(view, answer, shown)
        with ui.element("div"):
            _origins(view, answer, shown)
    parts.heading(f"{len(answer.spans):,} spans")
    _table(view, answer)
    if answer.sources:
        parts.heading("Sources")
        rows = [(name, held, f"{held / answer.tokens:.1%}") for name, held in answer.sources.items()]
        with ui.element("div").classes("tc-narrow"):
            parts.table(("source", "tokens of the text", "share"), rows, numbers={1, 2}, caption="Sources of the text")
        ui.label(f"Counted over the first {view.query.documents} places of each span.").classes("tc-dim")


def chosen(view: View[Any], answer: Answer) -> Span:
    """The span that is shown: the one of the state, else the one least likely by chance."""
    number: int | None = view.query.span
    if number is not None and number <= len(answer.spans):
        return answer.spans[number - 1]
    return max(answer.spans, key=lambda s: s.bits)


def level(span: Span, by: str) -> int:
    """Of the levels of a legend the one of a span: 0 the strongest."""
    for k, (bound, _) in enumerate(_LEVELS[by]):
        if bound is None or (span.count <= bound if by == "rarity" else span.stop - span.start >= bound):
            return k
    return len(_LEVELS[by]) - 1


def _legend(view: View[Any]) -> None:
    by = view.query.by
    what = "stands in the set" if by == "rarity" else "tokens"
    marks = "".join(f'<span class="q{k}">{escape(words)}</span>' for k, (_, words) in enumerate(_LEVELS[by]))
    ui.html(f"<span>{what}</span>{marks}", sanitize=False).classes("tc-legend tc-dim")


def _text(view: View[Any], answer: Answer, shown: Span) -> None:
    html = []
    for segment in answer.segments:
        if not segment.spans:
            html.append(escape(segment.text))
            continue
        own = [answer.spans[n - 1] for n in segment.spans]
        best = shown if shown in own else max(own, key=lambda s: s.bits)
        asked = " tc-chosen" if best is shown else ""
        said = f"span {best.number}: {best.stop - best.start} tokens, {best.count:,} times"
        html.append(
            f'<a class="q{level(best, view.query.by)}{asked}" href="{escape(view.here(span=best.number))}"'
            f' title="{said}">{escape(segment.text)}</a>'
        )
    parts.text_block("".join(html), label="The text with its spans")


def _origins(view: View[Any], answer: Answer, span: Span) -> None:
    with ui.element("article").props(f'aria-label="Span {span.number}"'):
        times = "once" if span.count == 1 else f"{span.count:,} times"
        parts.heading(f"Span {span.number}: {span.stop - span.start} tokens, {times}")
        with ui.row().classes("tc-line"):
            index = view.query.index
            ui.link("All its places", view.link("search", index=index, q=span.text, run=view.query.run))
            ui.label(f"{span.bits:.0f} bits by the frequencies of its tokens").classes("tc-dim")
        for one in span.origins:
            _origin(view, answer, one)
        if span.count > len(span.origins):
            ui.label(f"and {span.count - len(span.origins):,} more places").classes("tc-dim")


def _origin(view: View[Any], answer: Answer, one: Origin) -> None:
    with ui.element("div").classes("tc-hit"):
        with ui.row().classes("tc-line"):
            ui.link(f"document {one.doc} {(one.doc_id or '')[:8]}".strip(), parts.document_link(view, answer.set, one.doc))
            ui.label("  ".join(s for s in (one.source, one.place) if s)).classes("tc-dim")
        html = f'{escape(one.before)}<mark class="m">{escape(one.text)}</mark>{escape(one.after)}'
        ui.html(html, sanitize=False).classes("tc-context")
        parts.steps(view, answer.run, answer.set, one.doc, one.seen, one.sightings)


def _table(view: View[Any], answer: Answer) -> None:
    rows = []
    for s in answer.spans:
        text = (s.text if len(s.text) <= _BEGINS else s.text[:_BEGINS] + "…").replace("\n", " ⏎ ")
        sources = ", ".join(dict.fromkeys(o.source or "" for o in s.origins))
        docs = ", ".join(str(d) for d in dict.fromkeys(o.doc for o in s.origins))
        rows.append(
            (parts.Link(str(s.number), view.here(span=s.number)), s.stop - s.start, s.count, s.bits, sources, docs, text)
        )
    heads = ("span", "tokens", "times", "bits", "sources", "documents", "text")
    parts.table(heads, rows, numbers={1, 2, 3}, tight={0}, caption="Spans")


async def step(view: View[Any], by: int) -> None:
    """The span before or after the shown one."""
    answer: Answer | None = view.answered
    if answer is not None and answer.spans:
        to = chosen(view, answer).number + by
        if 1 <= to <= len(answer.spans):
            await view.go(span=to)


KEYS = (
    Key("j", "next span", lambda view: step(view, 1)),
    Key("k", "previous span", lambda view: step(view, -1)),
)
