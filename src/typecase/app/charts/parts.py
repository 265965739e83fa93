"""Parts of charts: stacked levels, heat maps with their numbers, the triangle of correlations, grids of small panels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from typecase.app.analyse.analysing import CriterionFacts, GroupFacts, SetFacts
from typecase.app.charts.style import INK, RULE, SOFT, depth_colour, level_colours, new_figure, short, sign_colour, text_colour

_LEAST_LABEL = 0.065
GRID_COLUMNS = 4


def bare(axes: Any, *keep: str) -> None:
    """Hides the frame but for the sides to keep."""
    for side in ("top", "left", "right", "bottom"):
        axes.spines[side].set_visible(side in keep)


def draw_levels(rows: Sequence[tuple[str, Sequence[int], str]], levels: range, heading: str) -> Any:
    """A bar a row: its name, the shares of the levels, and what stands at the right under `heading`."""
    figure = new_figure(0.62 + 0.235 * len(rows))
    axes = figure.subplots()
    stacked(axes, rows, levels)
    for y, (_, _, said) in enumerate(rows):
        axes.text(1.015, y, said, va="center", ha="left", color=INK)
    axes.text(1.015, -0.78, heading, va="center", ha="left", color=SOFT, fontsize=6.5)
    key(axes, levels)
    return figure


def stacked(axes: Any, rows: Sequence[tuple[str, Sequence[int], str]], levels: range) -> None:
    """Stacked shares with their per cent where there is room for it; the first row on top."""
    colours = level_colours(len(levels))
    for y, (_, counts, _) in enumerate(rows):
        total, left = sum(counts), 0.0
        for colour, n in zip(colours, counts, strict=True):
            share = n / total if total else 0.0
            axes.barh(y, share, left=left, color=colour, height=0.78, linewidth=0)
            if share >= _LEAST_LABEL:
                axes.text(
                    left + share / 2, y, f"{share:.0%}", ha="center", va="center", fontsize=6.3, color=text_colour(colour)
                )
            left += share
    axes.set_yticks(range(len(rows)), [short(name) for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    bare(axes)


def key(axes: Any, levels: range) -> None:
    """The colours of the levels, in a line above the bars."""
    for k, (level, colour) in enumerate(zip(levels, level_colours(len(levels)), strict=True)):
        x = k * min(0.06, 0.9 / len(levels))
        axes.scatter([x + 0.008], [-0.78], marker="s", s=26, color=colour, clip_on=False, linewidths=0)
        axes.text(x + 0.022, -0.78, str(level), va="center", fontsize=6.5, color=SOFT)


def draw_heat(
    axes: Any,
    row_names: Sequence[str],
    column_names: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    signed: bool,
    form: Callable[[float], str],
) -> None:
    """Cells with their numbers. Values lie in [0, 1], or in [-1, 1] when signed; NaN is a dot without a colour."""
    from matplotlib.patches import Rectangle

    size = 6.4 if len(column_names) <= 16 else 5.2
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            if math.isnan(value):
                axes.text(x, y, "·", ha="center", va="center", color=SOFT)
                continue
            colour = sign_colour(value) if signed else depth_colour(value)
            axes.add_patch(Rectangle((x - 0.48, y - 0.47), 0.96, 0.94, facecolor=colour, linewidth=0))
            axes.text(x, y, form(value), ha="center", va="center", fontsize=size, color=text_colour(colour))
    axes.set_xlim(-0.5, max(1, len(column_names)) - 0.5)
    axes.set_ylim(len(row_names) - 0.5, -0.5)
    turn = {"rotation": 40, "ha": "left", "rotation_mode": "anchor"} if len(column_names) > 4 else {}
    axes.set_xticks(range(len(column_names)), column_names, color=INK, fontsize=6.6, **turn)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(row_names)), row_names, fontsize=7)
    bare(axes)


def draw_triangle(names: Sequence[str], correlation: Sequence[Sequence[float]]) -> Any:
    """The lower half of a correlation matrix: each pair once, with its number."""
    from matplotlib.patches import Rectangle

    count = len(names)
    figure = new_figure(0.9 + 0.27 * count)
    axes = figure.subplots()
    for y in range(1, count):
        for x in range(y):
            value = correlation[y][x]
            if math.isnan(value):
                axes.text(x, y, "·", ha="center", va="center", color=SOFT)
                continue
            colour = sign_colour(value)
            axes.add_patch(Rectangle((x - 0.48, y - 0.47), 0.96, 0.94, facecolor=colour, linewidth=0))
            said = f"{value:.2f}".replace("0.", ".").replace("-.", "−.") if abs(value) < 0.995 else f"{value:.0f}"
            axes.text(x, y, said, ha="center", va="center", fontsize=6.5 if count <= 16 else 4.2, color=text_colour(colour))
    axes.set_xlim(-0.5, count - 1.5)
    axes.set_ylim(count - 0.5, 0.5)
    axes.set_yticks(range(1, count), names[1:])
    axes.set_xticks(range(count - 1), [])
    for x in range(count - 1):
        axes.text(x - 0.38, x + 0.36, names[x], rotation=32, ha="left", va="bottom", fontsize=6.6, rotation_mode="anchor")
    bare(axes)
    return figure


def panels(count: int, height: float, top: float = 0.3) -> tuple[Any, list[Any]]:
    """A figure of `count` small panels in rows of four; the rest of the last row stays empty."""
    columns = min(GRID_COLUMNS, count)
    rows = -(-count // columns)
    figure = new_figure(top + rows * height)
    grid = figure.subplots(rows, columns, squeeze=False)
    cells = [axes for row in grid for axes in row]
    for axes in cells[count:]:
        axes.set_axis_off()
    return figure, cells[:count]


def draw_level_grid(s: SetFacts, groups: Sequence[GroupFacts]) -> Any:
    """A panel a criterion: the levels of each source as stacked bars, sources named at the left edge only."""
    figure, cells = panels(len(s.criteria), 0.3 + 0.15 * len(groups))
    colours = level_colours(s.rubric.high - s.rubric.low + 1)
    for k, (axes, criterion) in enumerate(zip(cells, s.criteria, strict=True)):
        for y, group in enumerate(groups):
            total, left = sum(group.levels[k]), 0.0
            for colour, n in zip(colours, group.levels[k], strict=True):
                share = n / total if total else 0.0
                axes.barh(y, share, left=left, color=colour, height=0.8, linewidth=0)
                left += share
        axes.set_title(criterion.name, loc="left", pad=3)
        axes.set_xlim(0, 1)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xticks([])
        shown = [short(g.name, 18) for g in groups] if k % GRID_COLUMNS == 0 else []
        axes.set_yticks(range(len(groups)) if shown else [], shown, fontsize=6)
        bare(axes)
    for level, colour in zip(range(s.rubric.low, s.rubric.high + 1), colours, strict=True):
        cells[0].bar(0, 0, color=colour, label=str(level))
    figure.legend(loc="outside upper left", ncols=10, frameon=False, fontsize=6.5, handlelength=0.8, labelcolor=SOFT)
    return figure


def draw_histogram(s: SetFacts, summary: CriterionFacts) -> Any:
    """Rows by score, each bar in the colour of the level that it rounds to."""
    low, high, count = s.rubric.low, s.rubric.high, len(s.histogram)
    width, colours = (high - low) / count, level_colours(high - low + 1)
    figure = new_figure(1.9)
    axes = figure.subplots()
    for k, n in enumerate(s.histogram):
        middle = low + width * (k + 0.5)
        axes.bar(middle, n, width=width * 0.88, color=colours[math.floor(middle + 0.5) - low], linewidth=0)
    axes.axvline(summary.mean, color=INK, linewidth=1)
    top = max(s.histogram)
    axes.text(summary.mean, top * 1.1, f" {summary.mean:.2f}", va="top", ha="left")
    axes.set_xlim(low, high)
    axes.set_ylim(0, top * 1.12)
    axes.set_xticks(range(low, high + 1))
    axes.locator_params(axis="y", nbins=4, integer=True)
    axes.yaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
    axes.tick_params(axis="y", labelsize=6.5, labelcolor=SOFT)
    axes.grid(axis="y", color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    bare(axes, "bottom")
    return figure


def rule(axes: Any, x: float) -> None:
    """A thin upright line."""
    axes.axvline(x, color=RULE, linewidth=0.8, zorder=0)
