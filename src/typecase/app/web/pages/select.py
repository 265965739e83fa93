"""Select, drawn: sliders of a choice and what it would keep, the funnel of a selection, and a document's fate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from typecase.app.funnel.facts import Shift, Spread
from typecase.app.funnel.preview import Preview
from typecase.app.web import parts
from typecase.app.web.answers.select import Answer, Story
from typecase.app.web.shell import View

_STRATA = {"source": "source", "domain": "domain", "both": "source and domain", "none": "nothing"}
_POLICIES = {
    "top": "the best first", "sampled:0.5": "drawn, temperature 0.5", "sampled:1": "drawn, temperature 1",
    "sampled:2": "drawn, temperature 2", "threshold:3": "drawn from a score of 3 on", "uniform": "drawn evenly",
}  # fmt: skip


def controls(view: View[Any]) -> None:
    made = [i.name for i in view.desk.catalogue.of_kind("docs", "tokens") if i.has_manifest]
    parts.choice(view, "selection", "Selection", {"": "the newest", "-": "none", **{n: n for n in made}}, clears=("doc",))
    parts.field(view, "doc", "Why is this document in it", width="17rem", placeholder="doc_id")
    known = view.names("ratings")
    parts.choice(view, "ratings", "What if, by", {"": known[0] if known else "(none)", **{n: n for n in known[1:]}})
    score = parts.suggested(view, "score", "Score", width="13rem")
    parts.choice(view, "policy", "Policy", _POLICIES, width="15rem")
    parts.choice(view, "strata", "Divided by", _STRATA, width="11rem")
    parts.choice(view, "unit", "Counted in", {"documents": "documents", "bytes": "bytes"}, width="9rem")
    parts.tick(view, "inverse", "The worst first")
    slider = parts.Slider(min=0, max=100, step=0.5, value=view.query.percent)
    slider.props('label aria-label="Percent kept" color=primary').classes("tc-slider")
    asked = {"percent": -1.0}

    async def moved(event: Any) -> None:
        asked["percent"] = float(event.args)
        await view.go(percent=asked["percent"])

    def follow(query: Any) -> None:
        if query.percent != asked["percent"]:  # else the hand on it may be further on
            slider.set_value(query.percent)

    slider.on("change", moved, throttle=0.2, leading_events=False)
    view.on_state(follow)
    view.on_answer(lambda answer: parts.offer(score, {s: s for s in answer.scores}, "the summary"))


def result(view: View[Any], answer: Answer) -> None:
    if answer.what_if is not None:
        _what_if(view, answer, answer.what_if)
    else:
        ui.label("Nothing that was served is rated: make ratings with `typecase rate`, and a choice can be tried here.")
    if answer.fates:
        parts.heading(f"What became of {view.query.doc}")
        rows = [(t.stage, t.outcome, t.reason, ", ".join(f"{k} {_said(v)}" for k, v in t.detail.items())) for t in answer.fates]
        parts.table(("stage", "outcome", "why", "more"), rows, tight={0, 1}, caption="What became of the document")
    if answer.story is not None:
        _story(answer.story)
    else:
        ui.label("No selection was served: `typecase select` makes one, and its funnel is shown here.").classes("tc-dim")


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _what_if(view: View[Any], answer: Answer, made: Preview) -> None:
    parts.heading(f"{made.kept:,} of {made.documents:,} documents would be kept")
    parts.definitions(
        [
            (f"{made.unit} met", f"{made.met:,} of {made.budget:,} asked"),
            (f"mean {answer.score}", f"{_mean(made.mean_before)} before, {_mean(made.mean_after)} after"),
            ("short", f"{made.short:,}"),
            ("strata", f"{len(made.strata):,}"),
        ]
    )
    rows = [
        (
            s.name,
            s.documents,
            s.kept,
            _share(s.kept, s.documents),
            _share(s.amount, made.amount),
            _share(s.met, made.met),
            s.cut,
        )
        for s in sorted(made.strata, key=lambda s: -s.amount)[:100]
    ]
    heads = ("stratum", "documents", "kept", "of them", "share before", "share after", "cut at key")
    parts.table(heads, rows, numbers=set(range(1, 7)), caption="Strata of the choice")
    empty = [s.name for s in made.strata if s.quota and not s.kept]
    if empty:
        ui.label(f"Nothing would be kept of {', '.join(empty[:8])}.")


def _mean(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _story(story: Story) -> None:
    parts.heading(f"How {story.name} came about")
    for warning in story.warnings:
        with ui.row().classes("tc-line"):
            ui.icon("warning", color="orange").props('aria-hidden="true"')
            ui.label(warning)
    rows = [
        (
            s.stage, s.name, s.entered, s.kept, _share(s.kept, s.entered),
            ", ".join(f"{n:,} {r}" for r, n in {**s.removed, **s.quarantined}.items()), s.tokens,
        )
        for s in story.stages
    ]  # fmt: skip
    parts.table(
        ("stage", "of", "in", "kept", "share", "removed or quarantined", "tokens"), rows, numbers={2, 3, 4, 6}, caption="Funnel"
    )
    with ui.element("div").classes("tc-two"):
        for name, shifts in story.shifts.items():
            with ui.element("div"):
                _shifts(name, shifts)
        for spread in story.spreads:
            with ui.element("div"):
                _spread(spread)
    before, after = story.before, story.after
    told = [
        ("documents looked at", before.documents, after.documents), ("effective sources", before.sources, after.sources),
        ("effective domains", before.domains, after.domains), ("bits of two words", before.gram_bits, after.gram_bits),
        ("near duplicates", f"{before.near:.2%}", f"{after.near:.2%}"),
    ]  # fmt: skip
    parts.heading("Variety")
    parts.table(("", "before", "after"), told, numbers={1, 2}, caption="Variety before and after")


def _shifts(name: str, shifts: Sequence[Shift]) -> None:
    parts.heading(f"Shares by {name}", 3)
    some = sorted(shifts, key=lambda s: -s.before)[:15][::-1]
    series = [
        {"type": "bar", "name": side, "data": [round(100 * getattr(s, side), 2) for s in some], "itemStyle": {"color": colour}}
        for side, colour in (("before", "#9aa5b1"), ("after", "#1d5fa8"))
    ]
    chart = {
        "grid": {"left": 130, "right": 20, "top": 30, "bottom": 25}, "legend": {"top": 0, "textStyle": {"color": "inherit"}},
        "xAxis": {"type": "value", "axisLabel": {"formatter": "{value}%"}},
        "yAxis": {
            "type": "category", "data": [parts.visible(s.name) for s in some],
            "axisLabel": {"width": 120, "overflow": "truncate"},
        },
        "series": series, "tooltip": {"renderMode": "richText"},
    }  # fmt: skip
    parts.picture(chart, label=f"Shares by {name} before and after", height=f"{max(9, 2 * len(some) + 4)}rem")


def _spread(spread: Spread) -> None:
    parts.heading(f"{spread.name}, mean {spread.mean_before:,.3g} before and {spread.mean_after:,.3g} after", 3)
    names = [f"{a:,.3g}" for a in spread.edges[:-1]]
    series = [
        {
            "type": "bar",
            "name": side,
            "data": [round(100 * v / max(sum(values), 1), 2) for v in values],
            "itemStyle": {"color": c},
        }
        for side, values, c in (("before", spread.before, "#9aa5b1"), ("after", spread.after, "#1d5fa8"))
    ]
    chart = {
        "grid": {"left": 45, "right": 20, "top": 30, "bottom": 40}, "legend": {"top": 0, "textStyle": {"color": "inherit"}},
        "xAxis": {"type": "category", "data": names, "name": spread.unit, "nameLocation": "middle", "nameGap": 26},
        "yAxis": {"type": "value", "axisLabel": {"formatter": "{value}%"}},
        "series": series, "tooltip": {"renderMode": "richText"},
    }  # fmt: skip
    parts.picture(chart, label=f"{spread.name} before and after", height="14rem")
