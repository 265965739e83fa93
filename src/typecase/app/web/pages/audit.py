"""Token audit, drawn: filters, the plot beside the table, and the token that was clicked from all sides."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from nicegui import ui

from typecase.app.audit.sections import DECISIONS
from typecase.app.web import parts
from typecase.app.web.answers.audit import Answer
from typecase.app.web.shell import Key, View
from typecase.app.web.tokens import Named, Places, Token
from typecase.app.web.verdicts import Dots, Row

COLOURS: Mapping[str, tuple[str, str, float]] = {
    "fine": ("#5b8fc7", "circle", 0.35),
    "unreachable": ("#8a8f98", "diamond", 0.8),
    "suspect": ("#d68910", "triangle", 0.7),
    "under_trained": ("#c62f46", "circle", 0.9),
}
_WORDS = {
    "main_indicator": "indicator that ranks",
    "e_out_cosine": "cosine distance to the references",
    "e_out_l2": "distance to the references",
    "e_out_norm": "length of the output row",
    "e_in_norm": "length of the input row",
    "density": "distance to 8 neighbours",
    "p_marginal": "mean chance in texts",
    "mean_logit": "logit at the mean state",
    "max_prob": "chance of being repeated",
    "count": "times in the corpus",
    "i": "id",
}
_HEADS = {"main_indicator": "indicator"}


def controls(view: View[Any]) -> None:
    known = view.names("audit")
    parts.choice(view, "audit", "Audit", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}}, fresh=True)
    parts.field(view, "q", "Token or id", width="11rem", placeholder="␣the, or 464")
    boxes = {
        name: parts.suggested(view, name, label, width="11rem")
        for name, label in (("decision", "Decision"), ("advice", "Advice"), ("category", "Category"), ("origin", "Origin"))
    }
    parts.field(view, "least", "Count from", width="7rem", to=parts.whole)
    parts.field(view, "most", "Count to", width="7rem", to=parts.whole)
    parts.field(view, "where", "Where", width="18rem", placeholder="percentile < 1 and bytes > 4")
    boxes["sort"] = parts.suggested(view, "sort", "Sort by", width="11rem")
    parts.tick(view, "down", "Large first")
    boxes["indicator"] = parts.suggested(view, "indicator", "Indicator", width="13rem")
    sets = view.names("tokens")
    if sets:
        options = {"": "the first that fits", "-": "none", **{n: n for n in sets}}
        parts.choice(view, "set", "Places in", options, width="13rem")
    view.on_answer(lambda answer: _suggest(boxes, answer))


def _suggest(boxes: dict[str, Any], answer: Answer) -> None:
    offered: dict[str, tuple[Mapping[str, int], str]] = {
        "decision": (answer.decisions, "any"),
        "advice": (answer.advice, "any"),
        "category": (answer.categories, "any"),
        "origin": (answer.origins, "any"),
    }
    for name, (values, none) in offered.items():
        parts.offer(boxes[name], {v: f"{said(v)} ({n:,})" for v, n in values.items()}, none)
    parts.offer(boxes["sort"], {c: c for c in answer.columns}, "worst first")
    first, *others = answer.indicators or ("none",)
    parts.offer(boxes["indicator"], {n: n for n in others}, first)


def said(word: str | None) -> str:
    """A decision or class as people write it."""
    return (word or "").replace("_", "-")


def result(view: View[Any], answer: Answer) -> None:
    fits = f"{answer.total:,} of {answer.all:,}" if answer.total != answer.all else f"{answer.all:,}"
    ui.label(f"{fits} tokens in {answer.audit}, by {', '.join(answer.sides) or 'one table'}")
    if answer.void:
        words = "The prompts are void: the model could not repeat ordinary tokens either, so nothing that they said counts."
        ui.label(words).classes("tc-complaint").props('role="note"')
    _decisions(view, answer)
    if answer.detail is not None:
        _token(view, answer, answer.detail)
    with ui.element("div").classes("tc-two tc-wide-left tc-second-first" if answer.dots else ""):
        with ui.element("div"):
            _rows(view, answer)
        if answer.dots:
            with ui.element("div"):
                _plot(view, answer)


def _decisions(view: View[Any], answer: Answer) -> None:
    """A link a decision that keeps its tokens alone, and one that shows all again."""
    with ui.element("nav").classes("tc-legend").props('aria-label="Decisions"'):
        for decision in [d for d in DECISIONS if d in answer.decisions]:
            chosen = view.query.decision == decision
            link = view.here(decision="" if chosen else decision, page=1)
            colour = COLOURS[decision][0]
            mark = f'<i class="tc-spot" style="background:{colour}"></i>'
            current = ' aria-current="true"' if chosen else ""
            html = f'<a href="{escape(link)}"{current}>{mark}{escape(said(decision))} {answer.decisions[decision]:,}</a>'
            ui.html(html, sanitize=False).classes("tc-chosen" if chosen else "")
        lists = ", ".join(f"{name} {n:,}" for name, n in answer.lists.items() if n)
        ui.label(f"lists of ids: {lists}" if lists else "").classes("tc-dim")


def _rows(view: View[Any], answer: Answer) -> None:
    if not answer.rows:
        ui.label("No token fits." if answer.total == 0 else "There are no more rows: go back a page.")
    else:
        shown = _columns(answer)
        rows = [tuple(_cell(view, r, name) for name in shown) for r in answer.rows]
        heads = [
            {"i": "id", "value": _HEADS.get(answer.indicator, answer.indicator)}.get(n, n.replace("_", " ")) for n in shown
        ]
        numbers = {k for k, name in enumerate(shown) if name in ("i", "count", "value", "max_prob")}
        short = all(len(r.token) <= 20 for r in answer.rows)
        parts.table(heads, rows, numbers=numbers, tight={1, 2} if short else {2}, caption="Tokens")
    parts.pager(view, total=answer.total, page=answer.page, size=answer.size)


def _columns(answer: Answer) -> list[str]:
    """What the table shows: of counts, indicator and prompts those that the audit has; the rest is with the token."""
    there = {"count": "count" in answer.columns, "value": bool(answer.indicator)}
    there["max_prob"] = "max_prob" in answer.indicators and answer.indicator != "max_prob"
    return ["i", "token", "decision", *(name for name, has in there.items() if has), "reasons"]


def _cell(view: View[Any], r: Row, name: str) -> Any:
    if name == "token":
        return parts.Link(r.token or "(no bytes)", view.here(token=r.i))
    if name == "decision":
        return said(r.decision) + (f": {said(r.advice)}" if r.advice != "keep" else "")
    if name == "reasons":
        return "; ".join(r.reasons)
    return str(r.i) if name == "i" else getattr(r, name)


def _plot(view: View[Any], answer: Answer) -> None:
    across, up = (_WORDS.get(a, a) for a in (answer.across, answer.up))
    parts.heading(f"{up[:1].upper()}{up[1:]} and {across}" if answer.across != "i" else f"{up[:1].upper()}{up[1:]} by id")
    if answer.up in answer.correlations:
        ui.label(f"Spearman with the logarithm of the counts {answer.correlations[answer.up]:+.2f}").classes("tc-dim")
    chart = parts.picture(_chart(answer), label=f"{up} of each token against {across}, by decision", height="25rem")
    shown = [i for dots in answer.dots for i in dots.ids]

    async def clicked(event: Any) -> None:
        number = int(event.data["id"]) if isinstance(event.data, dict) and "id" in event.data else None
        if number in shown:
            await view.go(token=number)

    chart.on_point_click(clicked)
    thinned = [f"of {d.of:,} {said(d.decision)} one in {-(-d.of // len(d.ids))}" for d in answer.dots if d.of > len(d.ids) + 1]
    more = f" Drawn are {', '.join(thinned)}." if thinned else ""
    ui.label(f"A click on a point shows the token.{more}").classes("tc-dim")


def _chart(answer: Answer) -> dict[str, Any]:
    """The options of the scatter; counts and what spans many powers of ten are drawn on logarithms."""
    grow = {"x": answer.across == "count", "y": answer.up == "count" or _wide(answer)}
    low = min((y for d in answer.dots for y in d.y if y > 0), default=1.0)

    def point(d: Dots, k: int) -> dict[str, Any]:
        x = d.x[k] + 1 if grow["x"] else d.x[k]
        y = d.y[k] + 1 if answer.up == "count" else max(d.y[k], low) if grow["y"] else d.y[k]
        return {"value": [x, y], "name": f"{d.ids[k]}  {d.tokens[k]}", "id": d.ids[k]}

    series: list[dict[str, Any]] = []
    for d in answer.dots:
        colour, symbol, opacity = COLOURS.get(d.decision, ("#777777", "circle", 0.6))
        data = [point(d, k) for k in range(len(d.ids))]
        style = {"color": colour, "opacity": opacity}
        series.append({"type": "scatter", "name": said(d.decision), "data": data, "symbol": symbol, "symbolSize": 7})
        series[-1]["itemStyle"] = style
        if answer.detail is not None and answer.detail.row.i in d.ids:
            here = data[d.ids.index(answer.detail.row.i)]
            ring = {"color": "transparent", "borderColor": "#1d5fa8", "borderWidth": 3}
            mark = {"type": "scatter", "name": "this token", "data": [here], "symbolSize": 18, "itemStyle": ring, "z": 9}
            series.append({**mark, "symbol": "circle"})
    names = {
        "x": _WORDS.get(answer.across, answer.across) + (" + 1" if grow["x"] else ""),
        "y": _WORDS.get(answer.up, answer.up) + (" + 1" if answer.up == "count" else ""),
    }
    axes = {
        f"{a}Axis": {
            "type": "log" if grow[a] else "value",
            "name": names[a],
            "nameLocation": "middle",
            "nameGap": 28 if a == "x" else 48,
            "scale": True,
        }
        for a in "xy"
    }
    return {
        **axes,
        "grid": {"left": 65, "right": 15, "top": 10, "bottom": 45},
        "series": series,
        "tooltip": {"renderMode": "richText"},
    }


def _wide(answer: Answer) -> bool:
    """Whether the values up span more than three powers of ten, none of them below 0."""
    values = sorted(y for d in answer.dots for y in d.y)
    positive = [v for v in values if v > 0]
    if not positive or values[0] < 0:
        return False
    return positive[int(0.99 * (len(positive) - 1))] > 1e3 * positive[len(positive) // 100]


# One token.


def _token(view: View[Any], answer: Answer, one: Token) -> None:
    r = one.row
    with ui.element("article").classes("tc-card").props('aria-label="Token"'):
        with ui.row().classes("tc-title"):
            parts.heading(f"Token {r.i}")
            ui.html(escape(r.token or "(no bytes)"), sanitize=False, tag="code").classes("tc-token")
            ui.space()
            for by, words in ((-1, "Previous token"), (1, "Next token")):
                icon = "chevron_left" if by < 0 else "chevron_right"
                ui.button(icon=icon, on_click=lambda by=by: step(view, by)).props(f'flat dense aria-label="{words}"')
            ui.button(icon="close", on_click=lambda: view.go(token=None)).props('flat dense aria-label="Close token"')
        why = f": {'; '.join(r.reasons)}" if r.reasons else ""
        ui.label(f"{said(r.decision).capitalize()}{why}. Advice: {said(r.advice)}.")
        if one.elsewhere:
            ui.label("Elsewhere: " + ", ".join(f"{name}: {said(d)}" for name, d in one.elsewhere.items())).classes("tc-dim")
        with ui.element("div").classes("tc-two"):
            with ui.element("div"):
                for side, values in one.sides.items():
                    parts.heading(side.capitalize(), 3)
                    parts.definitions([(name, _value(value)) for name, value in values.items()])
            with ui.element("div"):
                _standing(one)
                _relatives(view, one)
                _places(view, one)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(parts.visible(str(v)) for v in value)
    return parts.visible(value) if isinstance(value, str) else parts.number(value)


def _standing(one: Token) -> None:
    if one.standing:
        parts.heading("Among all tokens", 3)
        rows = [(_WORDS.get(s.indicator, s.indicator), s.value, s.smaller, f"{s.smaller / s.of:.2%}") for s in one.standing]
        heads = ("indicator", "value", "tokens below", "share below")
        parts.table(heads, rows, numbers={1, 2, 3}, caption="Indicators of this token")


def _relatives(view: View[Any], one: Token) -> None:
    if one.relatives:
        parts.heading("Merges and absorbers", 3)
    for group in one.relatives:
        with ui.row().classes("tc-line"):
            ui.label(group.role).classes("tc-dim")
            for named in group.tokens:
                _named(view, named)
            if group.total > len(group.tokens):
                ui.label(f"and {group.total - len(group.tokens):,} more").classes("tc-dim")


def _named(view: View[Any], named: Named) -> None:
    link = ui.link(named.token or f"({named.i})", view.here(token=named.i)).classes("tc-token")
    link.props(f'title="{named.i}, {escape(said(named.decision))}"')


def _places(view: View[Any], one: Token) -> None:
    found = one.places
    if found is None and one.noted:
        parts.heading("In the corpus, as the report noted", 3)
        for line in one.noted:
            parts.plain_block(line, label="Place")
    elif found is None and view.query.set != "-":
        words = "No token set of this tokenizer was served: serve one, with its index, to see where the token stands."
        ui.label(words).classes("tc-dim")
    elif found is not None:
        _served_places(view, one, found)


def _served_places(view: View[Any], one: Token, found: Places) -> None:
    with ui.row().classes("tc-title"):
        many = f"{found.count:,} places in {found.set}" if found.count is not None else f"Some places in {found.set}"
        parts.heading(many, 3)
        ui.space()
        if found.index and found.count and view.has("search"):
            ui.link("Search them all", view.link("search", index=found.index, ids=str(one.row.i)))
    if not found.places:
        ui.label("It stands nowhere there." if found.index else "None of the documents that the audit names holds it there.")
    for place in found.places:
        with ui.element("article").classes("tc-hit").props(f'aria-label="Place in document {place.doc}"'):
            ui.html(
                f'{escape(place.before)}<mark class="m">{escape(place.text) or "∅"}</mark>{escape(place.after)}', sanitize=False
            ).classes("tc-context")
            with ui.row().classes("tc-line"):
                name = f"document {place.doc} {(place.doc_id or '')[:8]}".strip()
                ui.link(name, parts.document_link(view, found.set, place.doc))
                ui.label(f"{place.source or ''}  token {place.at:,} of it").classes("tc-dim")


async def step(view: View[Any], by: int) -> None:
    """The token before or after the shown one, on this page of rows."""
    answer: Answer | None = view.answered
    if answer is None or not answer.rows:
        return
    ids = [r.i for r in answer.rows]
    at = ids.index(view.query.token) + by if view.query.token in ids else (0 if by > 0 else len(ids) - 1)
    if 0 <= at < len(ids):
        await view.go(token=ids[at])


KEYS = (
    *parts.PAGING,
    Key("j", "next token", lambda view: step(view, 1)),
    Key("k", "previous token", lambda view: step(view, -1)),
    Key("x", "close the token", lambda view: view.go(token=None)),
)
