"""Token audit, drawn: what was decided, an indicator against a count, the table, and one token from all sides."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.audit import INDICATORS, Answer, Sides
from typecase.app.web.shell import Key, View

_COLOURS = {"under_trained": "#c0392b", "suspect": "#d68910", "unreachable": "#7d3c98", "fine": "#7f8c8d"}
_CHOSEN = ("decision", "advice", "category", "origin")
_TURNS = ("token",)


def controls(view: View[Any]) -> None:
    known = view.names("audit")
    parts.choice(view, "audit", "Audit", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}}, fresh=True)
    lists = {name: parts.suggested(view, name, name.capitalize(), clears=_TURNS) for name in _CHOSEN}
    parts.field(view, "text", "Text", width="9rem", clears=_TURNS)
    parts.field(view, "low", "Count from", width="7rem", to=parts.whole)
    parts.field(view, "high", "to", width="7rem", to=parts.whole)
    parts.field(view, "where", "Where", width="17rem", placeholder="parents = 0 and bytes > 8")
    sort = parts.suggested(view, "sort", "Sort by")
    parts.tick(view, "down", "Large first")
    across, up = parts.suggested(view, "across", "Plot along"), parts.suggested(view, "up", "Plot up")

    def follow(answer: Answer) -> None:
        for name, box in lists.items():
            parts.offer(box, {v: f"{v} ({n:,})" for v, n in answer.groups.get(name, {}).items()}, "all")
        parts.offer(sort, {c: c for c in answer.columns if c not in ("reasons", "examples")}, "the most suspicious")
        numbers = {c: c for c in (*INDICATORS, "count", "documents", "ios", "bytes") if c in answer.columns}
        parts.offer(across, numbers, answer.across)
        parts.offer(up, numbers, answer.up)

    view.on_answer(follow)


def result(view: View[Any], answer: Answer) -> None:
    told = answer.groups.get("decision", {})
    parts.heading(f"{answer.total:,} of {answer.all:,} tokens")
    ui.label("   ".join(f"{name} {number:,}" for name, number in told.items())).classes("tc-dim")
    with ui.element("div").classes("tc-two tc-wide-left") if answer.token else ui.element("div"):
        with ui.element("div"):
            _plot(view, answer)
        if answer.token:
            with ui.element("div"):
                _sides(view, answer.token)
    _table(view, answer)


def _plot(view: View[Any], answer: Answer) -> None:
    if not answer.points:
        ui.label("There is no pair of numbers to plot: join an audit of the corpus, of the weights or of the prompts.")
        return
    counted = answer.across in ("count", "documents")
    series = []
    for decision, colour in _COLOURS.items():
        own = [p for p in answer.points if p.decision == decision]
        points = [{"value": [p.across + counted, p.up], "name": f"{p.i} {parts.visible(p.decoded or '')}"} for p in own]
        series.append({"type": "scatter", "name": decision, "data": points, "symbolSize": 5, "itemStyle": {"color": colour}})
    along = f"{answer.across} + 1" if counted else answer.across
    chart = {
        "grid": {"left": 60, "right": 20, "top": 30, "bottom": 45},
        "legend": {"top": 0, "textStyle": {"color": "inherit"}},
        "xAxis": {"type": "log" if counted else "value", "name": along, "nameLocation": "middle", "nameGap": 28, "scale": True},
        "yAxis": {"type": "value", "name": answer.up, "scale": True},
        "series": [s for s in series if s["data"]],
        "tooltip": {"renderMode": "richText"},
    }
    parts.picture(chart, label=f"{answer.up} against {answer.across}, by decision", height="22rem").on_point_click(
        lambda event: view.go(token=int(str(event.name).split(" ")[0]))
    )
    if answer.plotted > len(answer.points):
        ui.label(
            f"{len(answer.points):,} of {answer.plotted:,} tokens are drawn: all that are not fine, and some that are."
        ).classes("tc-dim")


def _sides(view: View[Any], token: Sides) -> None:
    with ui.element("article").props(f'aria-label="Token {token.i}"'):
        parts.heading(f"Token {token.i}: {parts.visible(token.decoded or '')}")
        for reason in token.reasons:
            ui.label(reason)
        with ui.row().classes("tc-line"):
            if view.names("index"):
                ui.link("Where it stands", view.link("search", ids=str(token.i)))
            ui.link("Close", view.here(token=None))
        facts = [(name, parts.visible(_said(value))) for name, value in token.facts.items()]
        parts.table(("column", "value"), facts, caption=f"What the audits say of token {token.i}")
        if token.related:
            rows = [
                (n.role.replace("_", " "), parts.Link(str(n.i), view.here(token=n.i)), parts.visible(n.decoded or ""))
                for n in token.related
            ]
            parts.table(("is", "token", "text"), rows, caption="Tokens that it is tied to")
        if token.examples:
            parts.plain_block("\n".join(token.examples), label="Where it stands")
        if token.first_documents:
            told = ", ".join(f"{n:,}" for n in token.first_documents)
            ui.label(f"First documents of the counted set that hold it: {told}").classes("tc-dim")


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return parts.number(value)


def _table(view: View[Any], answer: Answer) -> None:
    if not answer.rows:
        ui.label("No token fits." if not answer.total else "There are no more tokens: go back a page.")
        return
    rows = [
        (
            parts.Link(str(t.i), view.here(token=t.i)), parts.visible(t.decoded or ""), t.decision, t.advice, t.category,
            t.origin, t.count, t.documents, t.main_indicator, t.rank, t.max_prob, "; ".join(t.reasons),
        )
        for t in answer.rows
    ]  # fmt: skip
    heads = (
        "id", "text", "decision", "advice", "category", "origin", "count", "documents", "indicator", "rank", "max p", "why",
    )  # fmt: skip
    used = [k for k in range(len(heads)) if k in (0, 11) or any(row[k] not in (None, "") for row in rows)]
    numbers = {k for k, name in enumerate(used) if heads[name] in ("count", "documents", "indicator", "rank", "max p")}
    parts.table(
        [heads[k] for k in used],
        [[row[k] for k in used] for row in rows],
        numbers=numbers,
        tight=set(range(len(used) - 1)),
        caption="Tokens",
    )
    parts.pager(view, total=answer.total, page=answer.page, size=answer.size)


async def step(view: View[Any], by: int) -> None:
    """The token before or after the shown one, of those on the page."""
    answer: Answer | None = view.answered
    if answer is not None and answer.rows:
        ids = [t.i for t in answer.rows]
        at = ids.index(view.query.token) + by if view.query.token in ids else 0
        if 0 <= at < len(ids):
            await view.go(token=ids[at])


KEYS = (
    *parts.PAGING,
    Key("j", "next token", lambda view: step(view, 1)),
    Key("k", "previous token", lambda view: step(view, -1)),
)
