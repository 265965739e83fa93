"""Charts of a funnel: the stages, shares before and after, distributions before and after."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from typecase.app.charts.parts import bare
from typecase.app.charts.ratings import Chart
from typecase.app.charts.style import BLUE, OCHRE, RULE, SOFT, new_figure, short
from typecase.app.funnel.facts import Funnel, Shift, Spread, Step

_MOST = 16


def charts_of(found: Funnel) -> list[Chart]:
    """The charts, in the order of the page."""
    name = found.name
    entered = found.steps[0].balance.entered
    caption = "Kept (full), removed (pale) and quarantined (ochre) at each stage."
    charts = [
        Chart(
            "funnel", "Funnel", "What became of the documents", caption,
            f"all {entered:,} documents that entered", "funnel", partial(draw_funnel, found.steps),
        )
    ]  # fmt: skip
    for column, rows in found.shifts.items():
        more = f" The {_MOST} largest of {len(rows):,}." if len(rows) > _MOST else ""
        caption = f"Share before (open) and after (full).{more}"
        draw = partial(draw_shifts, rows)
        charts.append(Chart(f"{column}s", "Shares", f"Shares by {column}", caption, name, f"{column}s", draw))
    for spread in found.spreads:
        caption = f"Documents by {spread.unit}: before (line) and after (bars), each as a share."
        draw = partial(draw_spread, spread)
        charts.append(Chart(spread.name, "Distributions", f"{spread.name.capitalize()}s", caption, name, spread.name, draw))
    return charts


def draw_funnel(steps: Sequence[Step]) -> Any:
    """A bar a stage."""
    figure = new_figure(0.7 + 0.34 * len(steps))
    axes = figure.subplots()
    most = max(step.balance.entered for step in steps) or 1
    for y, step in enumerate(steps):
        b = step.balance
        axes.barh(y, b.kept, color=BLUE, height=0.6)
        axes.barh(y, b.num_removed, left=b.kept, color=RULE, height=0.6)
        axes.barh(y, b.num_quarantined, left=b.kept + b.num_removed, color=OCHRE, height=0.6)
        axes.text(most * 1.01, y, f"{b.kept:,} of {b.entered:,}", va="center", color=SOFT, fontsize=7)
    axes.set_yticks(range(len(steps)), [step.stage for step in steps])
    axes.set_ylim(len(steps) - 0.5, -0.5)
    axes.set_xlim(0, most * 1.16)
    axes.set_xticks([])
    bare(axes)
    return figure


def draw_shifts(rows: Sequence[Shift]) -> Any:
    """Before and after of the largest groups."""
    shown = rows[:_MOST]
    figure = new_figure(0.6 + 0.24 * len(shown))
    axes = figure.subplots()
    for y, one in enumerate(shown):
        axes.plot([one.before, one.after], [y, y], color=BLUE, lw=2, alpha=0.3)
        axes.plot(one.before, y, "o", mfc="none", mec=SOFT, ms=4.4, mew=0.9, clip_on=False)
        axes.plot(one.after, y, "o", color=BLUE, ms=4.4, clip_on=False)
    axes.set_yticks(range(len(shown)), [short(one.name) for one in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda v, _: f"{100 * v:g}%")
    axes.grid(axis="x", color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    bare(axes)
    return figure


def draw_spread(spread: Spread) -> Any:
    """Two histograms over the same bins."""
    figure = new_figure(2.1)
    axes = figure.subplots()
    widths = [b - a for a, b in zip(spread.edges, spread.edges[1:])]
    after = [n / max(1, sum(spread.after)) for n in spread.after]
    before = [n / max(1, sum(spread.before)) for n in spread.before]
    axes.bar(spread.edges[:-1], after, widths, align="edge", color=BLUE, alpha=0.75)
    axes.stairs(before, spread.edges, color=SOFT, lw=1.2)
    axes.yaxis.set_major_formatter(lambda v, _: f"{100 * v:g}%")
    axes.set_xlabel(spread.unit)
    bare(axes)
    return figure
