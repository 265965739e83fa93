"""Charts that compare: curves over a quantity, correlations with their intervals, before and after, set beside set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from typecase.app.analyse.analysing import Chosen, Curve, SetFacts, Share
from typecase.app.charts.parts import GRID_COLUMNS, bare, draw_levels, panels, rule
from typecase.app.charts.style import BLUE, INK, RULE, SETS, SOFT, new_figure, short
from typecase.core.statistics.joint import Rank

_MOST_SHARES = 10


def draw_curves(s: SetFacts, curves: Sequence[Curve], unit: str) -> Any:
    """A panel a criterion: mean and middle half of the score, the quantity on a logarithmic axis."""
    figure, cells = panels(len(curves), 1.12, 0.35)
    exponent = unit.startswith("perplexity")
    for k, (axes, curve, criterion) in enumerate(zip(cells, curves, s.criteria, strict=True)):
        x = [math.exp(p.x) if exponent else p.x for p in curve.points]
        axes.fill_between(
            x, [p.quarter for p in curve.points], [p.three_quarters for p in curve.points], color=BLUE, alpha=0.17, lw=0
        )
        axes.plot(x, [p.mean for p in curve.points], color=BLUE, lw=1.3, marker="o", ms=1.8)
        said = "" if math.isnan(curve.rank.rho) else f"{curve.rank.rho:+.2f}".replace("-", "−")
        axes.set_title(criterion.name, loc="left", pad=3)
        axes.text(1, 1.03, said, transform=axes.transAxes, ha="right", va="bottom", fontsize=6.5, color=SOFT)
        axes.set_ylim(s.rubric.low - 0.1, s.rubric.high + 0.1)
        levels = range(s.rubric.low, s.rubric.high + 1)
        axes.set_yticks(levels, [str(level) if k % GRID_COLUMNS == 0 else "" for level in levels])
        axes.set_xscale("log", base=10)
        axes.minorticks_off()
        if x:
            axes.set_xticks(*_ticks(min(x), max(x)))
        axes.tick_params(axis="both", labelsize=6)
        axes.grid(axis="y", color=RULE, lw=0.5)
        bare(axes, "bottom")
    figure.supxlabel(f"{unit}; Spearman at the corner of each panel", fontsize=6.8, color=SOFT)
    return figure


def draw_ranks(rows: Sequence[tuple[str, Rank, float | None]]) -> Any:
    """Correlations sorted by their size: a full dot with its interval, an open one for Pearson where it is given."""
    order = sorted(rows, key=lambda row: (-abs(row[1].rho) if not math.isnan(row[1].rho) else 1.0, row[0]))
    figure = new_figure(0.5 + 0.215 * len(order))
    axes = figure.subplots()
    rule(axes, 0.0)
    least = -0.1
    for y, (_, rank, pearson) in enumerate(order):
        if math.isnan(rank.rho):
            axes.text(0.02, y, "constant", va="center", color=SOFT, fontsize=6.5)
            continue
        axes.plot([rank.low, rank.high], [y, y], color=BLUE, lw=2.6, alpha=0.3, solid_capstyle="round")
        if pearson is not None and not math.isnan(pearson):
            axes.plot(pearson, y, "o", mfc="none", mec=SOFT, mew=0.9, ms=4.6)
            least = min(least, pearson - 0.05)
        axes.plot(rank.rho, y, "o", color=BLUE, ms=4.6)
        axes.text(1.03, y, f"{rank.rho:+.2f}".replace("-", "−"), va="center", ha="left")
        least = min(least, rank.low - 0.05)
    axes.set_yticks(range(len(order)), [name for name, _, _ in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlim(max(-1.02, least), 1.02)
    axes.grid(axis="x", color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    bare(axes)
    return figure


def draw_chosen(chosen: Chosen) -> Any:
    """Four panels: shares of sources, domains, levels and lengths before (open) and after (full)."""
    figure = new_figure(4.9)
    grid = figure.subplots(2, 2, height_ratios=[_MOST_SHARES, 7])
    titles = ("source", "domain", "level of the summary", "bytes of text, from")
    for axes, title, shares in zip(
        grid.flat, titles, (chosen.sources, chosen.domains, chosen.levels, chosen.lengths), strict=True
    ):
        _dumbbells(axes, title, shares, chosen)
    return figure


def _dumbbells(axes: Any, title: str, shares: Sequence[Share], chosen: Chosen) -> None:
    shown = shares[:_MOST_SHARES] if title in ("source", "domain") else shares
    for y, one in enumerate(shown):
        before, after = one.before / max(1, chosen.before), one.after / max(1, chosen.after)
        axes.plot([before, after], [y, y], color=BLUE, lw=2, alpha=0.3)
        axes.plot(before, y, "o", mfc="none", mec=SOFT, ms=4.4, mew=0.9, clip_on=False)
        axes.plot(after, y, "o", color=BLUE, ms=4.4, clip_on=False)
    axes.set_yticks(range(len(shown)), [short(one.name, 22) for one in shown], fontsize=6.6)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_title(title, loc="left", color=SOFT)
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(lambda v, _: f"{100 * v:g}%")
    axes.tick_params(axis="x", labelsize=6)
    axes.grid(axis="x", color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    bare(axes)


def draw_sets(sets: Sequence[SetFacts]) -> Any:
    """A row a criterion of the first set, a dot a set, as a share of each set's scale."""
    order = sorted((c for c in sets[0].criteria if c.rows), key=lambda c: (-c.mean, c.id))
    figure = new_figure(0.75 + 0.215 * len(order))
    axes = figure.subplots()
    for y, criterion in enumerate(order):
        seen = []
        for k, s in enumerate(sets):
            mean = next((c.mean for c in s.criteria if c.id == criterion.id and c.rows), None)
            if mean is not None:
                share = (mean - s.rubric.low) / (s.rubric.high - s.rubric.low)
                seen.append((share, SETS[k % len(SETS)]))
        axes.plot([x for x, _ in sorted(seen)], [y] * len(seen), color=RULE, lw=2.4, zorder=0)
        for x, colour in seen:
            axes.plot(x, y, "o", color=colour, ms=5)
    for k, s in enumerate(sets):
        axes.plot([], [], "o", color=SETS[k % len(SETS)], label=short(s.name), ms=5)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=7, labelcolor=INK, handletextpad=0.1)
    axes.set_yticks(range(len(order)), [c.name for c in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlim(-0.02, 1.02)
    low, high = sets[0].rubric.low, sets[0].rubric.high
    levels = range(low, high + 1)
    axes.set_xticks([(level - low) / (high - low) for level in levels], [str(level) for level in levels])
    axes.grid(axis="x", color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    bare(axes)
    return figure


def draw_set_levels(sets: Sequence[SetFacts]) -> Any:
    """The summary of every set that has the scale of the first, as stacked levels."""
    rubric = sets[0].rubric
    same = [s for s in sets if (s.rubric.low, s.rubric.high) == (rubric.low, rubric.high)]
    rows = [(s.name, s.summary.levels, f"{s.summary.mean:.2f}") for s in same if s.summary is not None]
    return draw_levels(rows, range(rubric.low, rubric.high + 1), "mean")


def _ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """At most four round numbers within [low, high]; the two ends where no round number lies between."""
    steps = [m * 10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 3)]
    inside = [v for v in steps if low <= v <= high]
    while len(inside) > 4:
        inside = inside[::2]
    return (inside, [_brief(v) for v in inside]) if len(inside) > 1 else ([low, high], [_brief(low), _brief(high)])


def _brief(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
