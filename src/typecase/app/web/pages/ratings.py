"""Ratings, drawn: findings, levels by group, the heat map of correlations, the scatter, curves, sources by domain, examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.ratings import Answer, Bend
from typecase.app.web.shell import Key, View

_LEVEL_COLOURS = ("#b2182b", "#ef8a62", "#d9b38c", "#92c5de", "#2166ac", "#053061")
_MOST_EXAMPLES = 24


def controls(view: View[Any]) -> None:
    known = view.names("ratings")
    parts.choice(view, "ratings", "Ratings", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}}, fresh=True)
    main = parts.suggested(view, "criterion", "Score", width="15rem", clears=("against", "level"))
    parts.choice(view, "by", "Grouped by", {"source": "source", "domain": "domain"}, width="9rem")
    other = parts.suggested(view, "against", "Against", width="15rem")
    source, level = (
        parts.suggested(view, "group", "Examples of"),
        parts.field(view, "level", "Level", width="5rem", to=parts.whole),
    )
    level.props("type=number")

    def follow(answer: Answer) -> None:
        names = {s.id: s.name for s in answer.scores}
        parts.offer(main, names, f"{names[answer.criterion]} (the summary)" if not view.query.criterion else "the summary")
        parts.offer(other, names, "the one that goes most with it")
        parts.offer(source, {s: s for s in answer.sources}, "every source")

    view.on_answer(follow)


def result(view: View[Any], answer: Answer) -> None:
    shown = next(s for s in answer.scores if s.id == answer.criterion)
    parts.heading(f"{shown.name} of {answer.rows:,} documents")
    ui.label("   ".join(f"{name} {number:,}" for name, number in answer.statuses.items())).classes("tc-dim")
    for finding in answer.findings:
        ui.label(finding)
    with ui.element("div").classes("tc-two"):
        with ui.element("div"):
            _levels(view, answer)
        with ui.element("div"):
            _scatter(view, answer)
    with ui.element("div").classes("tc-two"):
        with ui.element("div"):
            _heat(view, answer)
        with ui.element("div"):
            _curve("Length of the text", "bytes", answer.length, log=True)
            _curve("Perplexity", "nats a token", answer.perplexity, log=False)
    _scores(view, answer)
    _crossed(answer)
    _examples(view, answer)


def _levels(view: View[Any], answer: Answer) -> None:
    parts.heading(f"Levels by {view.query.by}")
    names = [parts.visible(g.name) for g in answer.groups][::-1]
    series = [
        {
            "type": "bar", "stack": "levels", "name": str(level),
            "itemStyle": {"color": _LEVEL_COLOURS[k % len(_LEVEL_COLOURS)]},
            "data": [round(100 * g.levels[k] / max(sum(g.levels), 1), 2) for g in answer.groups][::-1],
        }
        for k, level in enumerate(answer.levels)
    ]  # fmt: skip
    chart = {
        "grid": {"left": 120, "right": 20, "top": 30, "bottom": 25}, "legend": {"top": 0, "textStyle": {"color": "inherit"}},
        "xAxis": {"type": "value", "max": 100, "axisLabel": {"formatter": "{value}%"}},
        "yAxis": {"type": "category", "data": names, "axisLabel": {"width": 110, "overflow": "truncate"}},
        "series": series, "tooltip": {"renderMode": "richText"},
    }  # fmt: skip
    height = f"{max(10, 1.6 * len(names) + 5):g}rem"
    parts.picture(chart, label=f"Levels of {answer.criterion} by {view.query.by}", height=height)
    rows = [(g.name, g.rows, g.mean, *g.levels) for g in answer.groups]
    heads = (view.query.by, "documents", "mean", *(f"level {n}" for n in answer.levels))
    with ui.expansion("As a table"):
        parts.table(heads, rows, numbers=set(range(1, len(heads))), caption=f"Levels by {view.query.by}")
    if answer.num_groups > len(answer.groups):
        ui.label(f"The largest {len(answer.groups)} of {answer.num_groups:,}.").classes("tc-dim")


def _scatter(view: View[Any], answer: Answer) -> None:
    told = "" if answer.correlation is None else f", correlation {answer.correlation:.2f}"
    parts.heading(f"Against {answer.against}{told}")
    points = [{"value": [d.x, d.y], "name": d.doc_id} for d in answer.scatter]
    chart = {
        "grid": {"left": 45, "right": 20, "top": 15, "bottom": 40},
        "xAxis": {"type": "value", "name": answer.against, "nameLocation": "middle", "nameGap": 26, "scale": True},
        "yAxis": {"type": "value", "name": answer.criterion, "scale": True},
        "series": [{"type": "scatter", "data": points, "symbolSize": 4, "itemStyle": {"color": "#1d5fa8", "opacity": 0.5}}],
        "tooltip": {"renderMode": "richText"},
    }
    picture = parts.picture(chart, label=f"{answer.criterion} against {answer.against}", height="20rem")
    if answer.docs:
        picture.on_point_click(lambda event: ui.navigate.to(view.link("documents", set=answer.docs, doc=str(event.name))))
    some = f"{len(answer.scatter):,} of {answer.rows:,} documents" if len(answer.scatter) < answer.rows else "every document"
    ui.label(f"{some}; a click opens one" if answer.docs else some).classes("tc-dim")


def _heat(view: View[Any], answer: Answer) -> None:
    parts.heading("Correlations")
    names = [s.id for s in answer.scores]
    cells = [
        [x, y, None if v is None else round(v, 3)]
        for y, row in enumerate(answer.matrix)
        for x, v in enumerate(row)
        if v is not None
    ]
    chart = {
        "grid": {"left": 150, "right": 10, "top": 10, "bottom": 130},
        "xAxis": {"type": "category", "data": names, "axisLabel": {"rotate": 60, "interval": 0}},
        "yAxis": {"type": "category", "data": names, "axisLabel": {"interval": 0}},
        "visualMap": {"min": -1, "max": 1, "show": False, "inRange": {"color": ["#b2182b", "#f7f7f7", "#2166ac"]}},
        "series": [{"type": "heatmap", "data": cells}],
        "tooltip": {"renderMode": "richText"},
    }
    picture = parts.picture(chart, label="Correlations of all scores", height="28rem")

    async def clicked(event: Any) -> None:
        x, y = (int(v) for v in event.data[:2])
        await view.go(criterion=names[y], against=names[x])

    picture.on_point_click(clicked)


def _curve(title: str, unit: str, bends: Sequence[Bend], *, log: bool) -> None:
    if not bends:
        return
    parts.heading(title)
    line = {"type": "line", "data": [[b.x, round(b.mean, 3)] for b in bends], "name": "mean", "itemStyle": {"color": "#1d5fa8"}}
    edges = [
        {"type": "line", "data": [[b.x, round(v, 3)] for b, v in zip(bends, values, strict=True)], "name": name,
         "lineStyle": {"type": "dashed", "color": "#7f8c8d"}, "symbol": "none"}
        for name, values in (("lower quarter", [b.low for b in bends]), ("upper quarter", [b.high for b in bends]))
    ]  # fmt: skip
    chart = {
        "grid": {"left": 45, "right": 20, "top": 15, "bottom": 40},
        "xAxis": {"type": "log" if log else "value", "name": unit, "nameLocation": "middle", "nameGap": 26, "scale": True},
        "yAxis": {"type": "value", "scale": True},
        "series": [line, *edges],
        "tooltip": {"renderMode": "richText"},
    }
    parts.picture(chart, label=f"The score by {title.lower()}", height="13rem")


def _scores(view: View[Any], answer: Answer) -> None:
    parts.heading("All scores")
    rows = [
        (parts.Link(s.name, view.here(criterion=s.id, against="")), s.rows, s.missing, s.mean, s.deviation, *s.levels)
        for s in answer.scores
    ]
    heads = ("score", "documents", "missing", "mean", "deviation", *(f"level {n}" for n in answer.levels))
    parts.table(heads, rows, numbers=set(range(1, len(heads))), caption="All scores")


def _crossed(answer: Answer) -> None:
    if len(answer.domains) < 2 or not answer.crossed:
        return
    parts.heading("Sources and domains")
    rows = [(name, *own) for name, own in zip(answer.sources, answer.crossed, strict=True)]
    parts.table(
        ("source", *answer.domains), rows, numbers=set(range(1, 1 + len(answer.domains))), caption="Sources and domains"
    )


def _examples(view: View[Any], answer: Answer) -> None:
    parts.heading("Examples")
    if not answer.examples:
        ui.label("No example has this source and level.")
    for e in answer.examples[:_MOST_EXAMPLES]:
        with ui.element("article").classes("tc-hit").props(f'aria-label="Example {e.doc_id[:8]}"'):
            with ui.row().classes("tc-line"):
                if answer.docs:
                    ui.link(f"document {e.doc_id[:8]}", view.link("documents", set=answer.docs, doc=e.doc_id))
                else:
                    ui.label(f"document {e.doc_id[:8]}")
                ui.label(f"{e.source}  level {e.level}  score {e.score:.2f}").classes("tc-dim")
            ui.label(e.excerpt).classes("tc-context")
    if len(answer.examples) > _MOST_EXAMPLES:
        ui.label(f"{_MOST_EXAMPLES} of {len(answer.examples):,}: choose a source or a level for others.").classes("tc-dim")


async def step(view: View[Any], by: int) -> None:
    """The score before or after the shown one."""
    answer: Answer | None = view.answered
    if answer is not None:
        names = [s.id for s in answer.scores]
        await view.go(criterion=names[(names.index(answer.criterion) + by) % len(names)], against="")


KEYS = (
    Key("j", "next score", lambda view: step(view, 1)),
    Key("k", "previous score", lambda view: step(view, -1)),
)
