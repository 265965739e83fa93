"""Charts of an analysis: each is drawn from the same tables that the data files hold.

    charts_of(analysis) -> [Chart("levels", title, caption, sample, table, draw), …]

A chart is data until `draw()` is called. What is too much for one picture (sources beyond the largest dozen) is named in the
caption and is whole in the data file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from typecase.app.analyse.analysing import Analysis, GroupFacts, SetFacts
from typecase.app.analyse.tables import sample_of
from typecase.app.charts.compare import draw_chosen, draw_curves, draw_ranks, draw_set_levels, draw_sets
from typecase.app.charts.parts import draw_heat, draw_histogram, draw_level_grid, draw_levels, draw_triangle
from typecase.app.charts.style import depth_colour, new_figure, short

MOST_GROUPS = 12
_GRID_GROUPS = 5


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure to be: what it shows, of which rows, and the table that holds its numbers. `section` groups them on a page."""

    name: str
    section: str
    title: str
    caption: str
    sample: str
    table: str
    draw: Callable[[], Any]


def charts_of(found: Analysis) -> list[Chart]:
    """The charts of the first set, then those that compare all sets; none where no document has a score."""
    s = found.sets[0]
    if not any(c.rows for c in s.criteria):
        return []
    charts = [*_score_charts(s), *_agreement_charts(s), *_group_charts(s), *_curve_charts(s)]
    if s.chosen is not None:
        sample = f"{s.chosen.after:,} documents kept of all {s.chosen.before:,} of {s.name}"
        caption = "Share of documents before the selection (open) and after it (full)."
        charts.append(
            Chart("selection", "Selection", "Before and after", caption, sample, "selection", partial(draw_chosen, s.chosen))
        )
    return charts + (_set_charts(found) if len(found.sets) > 1 else [])


def _score_charts(s: SetFacts) -> list[Chart]:
    order = sorted((c for c in s.criteria if c.rows), key=lambda c: (-c.mean, c.id))
    rows = [(c.name, c.levels, f"{c.mean:.2f}") for c in order]
    levels = range(s.rubric.low, s.rubric.high + 1)
    caption = "Share of documents at each rounded level, and the mean score at the right, highest first."
    if constant := [c.name for c in s.criteria if c.constant]:
        caption += f" Constant, so left out of every correlation: {', '.join(constant)}."
    title, draw = "How each criterion uses its scale", partial(draw_levels, rows, levels, "mean")
    charts = [Chart("levels", "Scores", title, caption, sample_of(s), "criteria", draw)] if rows else []
    if s.summary is not None and s.summary.rows:
        caption = f"Documents by {s.summary.name} before rounding; the line is the mean."
        draw = partial(draw_histogram, s, s.summary)
        charts.append(Chart("histogram", "Scores", f"{s.summary.name} as a whole", caption, sample_of(s), "histogram", draw))
    return charts


def _agreement_charts(s: SetFacts) -> list[Chart]:
    names = [c.name for c in s.criteria]
    charts = []
    if len(s.axes.columns) > 1:
        caption = "Pearson correlation of the scores of two criteria; a dot stands for a criterion that never varies."
        if s.removed_pairs:
            caption += f" Up to {s.removed_pairs:,} rows lack one of a pair and are left out of it."
        draw = partial(draw_triangle, names, s.correlation)
        charts.append(
            Chart("correlation", "Redundancy", "Do criteria say different things?", caption, sample_of(s), "correlation", draw)
        )
    if len(s.axes.columns) > 2:
        caption = (
            f"Principal axes of the correlation. {len(s.axes.columns)} criteria vary as much as {s.axes.effective:.1f}"
            " independent ones would. Below: how far each criterion goes with the first axes."
        )
        charts.append(
            Chart("axes", "Redundancy", "How many there really are", caption, sample_of(s), "axes", partial(_draw_axes, s))
        )
    if s.summary is not None and len(s.axes.columns) > 2:
        rest = [c for c in s.criteria if c.id != s.summary.id and not c.constant]
        rows = [(c.name, c.spearman_with_summary, c.pearson_with_summary) for c in rest]
        caption = f"Spearman (full, with its 95 % interval) and Pearson (open) of a criterion with {s.summary.name}."
        draw = partial(draw_ranks, rows)
        charts.append(Chart("summary", "Redundancy", f"What {s.summary.name} goes by", caption, sample_of(s), "criteria", draw))
    return charts


def _group_charts(s: SetFacts) -> list[Chart]:
    charts = []
    for what, groups in (("source", s.sources), ("domain", s.domains)):
        if len(groups) < 2:
            continue
        shown = groups[:MOST_GROUPS] if what == "source" else groups[: MOST_GROUPS + 4]
        rest = len(groups) - len(shown)
        more = f" The {len(shown)} largest of {len(groups):,} {what}s; all are in the data." if rest else ""
        section = f"{what.capitalize()}s"
        if s.summary is not None and any(g.judged for g in shown):
            k = s.rubric.columns.index(s.summary.id)
            rows = [(g.name, g.levels[k], f"{g.good / g.judged:.0%}") for g in shown if g.judged]
            caption = f"Rounded {s.summary.name}; at the right the share that is good, at level {s.good_from:g} or above.{more}"
            draw = partial(draw_levels, rows, range(s.rubric.low, s.rubric.high + 1), "good")
            title = f"{s.summary.name} by {what}"
            charts.append(Chart(f"summary_by_{what}", section, title, caption, sample_of(s), f"levels_by_{what}", draw))
        caption = f"Mean score; the count of documents stands beside the name.{more}"
        draw = partial(_draw_means, s, shown)
        charts.append(Chart(f"means_by_{what}", section, f"Means by {what}", caption, sample_of(s), f"{what}s", draw))
    if len(s.sources) > 1:
        few = s.sources[:_GRID_GROUPS]
        caption = (
            f"Rounded scores of every criterion in the {len(few)} largest sources. A thin bar has few documents of that level."
        )
        draw = partial(draw_level_grid, s, few)
        charts.append(
            Chart("levels_by_source", "Sources", "All scores by source", caption, sample_of(s), "levels_by_source", draw)
        )
    if len(s.domains) > 1 and len(s.sources) > 1:
        sample = f"all {s.rows:,} documents of {s.name}"
        caption = "Share of a source's documents that belong to each domain, in per cent; blank below one half."
        draw = partial(_draw_crossed, s)
        charts.append(
            Chart("domains_by_source", "Domains", "What sources are about", caption, sample, "domains_by_source", draw)
        )
    return charts


def _curve_charts(s: SetFacts) -> list[Chart]:
    charts = []
    names = {c.id: c.name for c in s.criteria}
    for name, unit, curves in (("length", "bytes of text", s.length), ("perplexity", "perplexity a token", s.surprise)):
        known = max((c.rank.rows for c in curves), default=0)
        if known < 2:
            continue
        sample = f"{known:,} of {s.rows:,} documents of {s.name}: those with a score and a {name}"
        caption = f"Mean (line) and middle half (band) of the score in slices of equally many documents, over {unit}."
        draw = partial(draw_curves, s, curves, unit)
        title = f"Scores over {name}"
        charts.append(Chart(name, name.capitalize(), title, caption, sample, name, draw))
        rows = [(names[c.criterion], c.rank, None) for c in curves]
        caption = f"Spearman of each score with {name}, and its 95 % interval; documents are taken for independent."
        draw = partial(draw_ranks, rows)
        charts.append(Chart(f"{name}_rank", name.capitalize(), f"What goes with {name}", caption, sample, name, draw))
    return charts


def _set_charts(found: Analysis) -> list[Chart]:
    sample = "; ".join(sample_of(s) for s in found.sets)
    charts = [
        Chart(
            "sets",
            "Side by side",
            "Means of each set",
            "Mean score of each criterion that the sets share with the first, as a share of its scale.",
            sample,
            "sets",
            partial(draw_sets, found.sets),
        )
    ]
    if all(s.summary is not None for s in found.sets):
        caption = "Rounded summary score of each set; the mean at the right."
        draw = partial(draw_set_levels, found.sets)
        charts.append(Chart("set_levels", "Side by side", "The summary in each set", caption, sample, "sets", draw))
    return charts


def _draw_axes(s: SetFacts) -> Any:
    names = [s.criteria[i].name for i in s.axes.columns]
    shown = min(3, len(names))
    figure = new_figure(1.5 + 0.2 * len(names))
    top, bottom = figure.subplots(2, 1, height_ratios=[1.25, 0.2 * len(names)])
    places = range(len(s.axes.shares))
    colours = [depth_colour(0.85 if k < shown else 0.3) for k in places]
    top.bar(places, s.axes.shares, color=colours, width=0.72)
    for k in places:
        top.text(k, s.axes.shares[k] + 0.012, f"{s.axes.shares[k]:.0%}", ha="center", va="bottom", fontsize=6.5)
    top.set_xticks(list(places), [str(k + 1) for k in places], fontsize=6)
    top.set_yticks([])
    top.set_ylim(0, float(s.axes.shares[0]) * 1.2)
    for side in ("top", "left", "right"):
        top.spines[side].set_visible(False)
    loadings = [[float(v) for v in row[:shown]] for row in s.axes.loadings]
    draw_heat(
        bottom,
        names,
        [f"axis {k + 1}" for k in range(shown)],
        loadings,
        signed=True,
        form=lambda v: f"{v:+.2f}".replace("-", "−"),
    )
    return figure


def _draw_means(s: SetFacts, groups: Sequence[GroupFacts]) -> Any:
    figure = new_figure(1.1 + 0.23 * len(groups))
    low, high = s.rubric.low, s.rubric.high
    values = [[(m - low) / (high - low) for m in g.means] for g in groups]
    names = [f"{short(g.name)}  {g.rows:,}" for g in groups]
    form = lambda share: f"{low + share * (high - low):.1f}"  # noqa: E731
    draw_heat(figure.subplots(), names, [c.name for c in s.criteria], values, signed=False, form=form)
    return figure


def _draw_crossed(s: SetFacts) -> Any:
    groups = s.sources[:MOST_GROUPS]
    shares = [[n / max(1, g.rows) for n in counts] for g, counts in zip(groups, s.crossed, strict=False)]
    figure = new_figure(1.1 + 0.23 * len(groups))
    names = [f"{short(g.name)}  {g.rows:,}" for g in groups]
    form = lambda share: f"{share:.0%}".rstrip("%") if share >= 0.005 else ""  # noqa: E731
    draw_heat(figure.subplots(), names, [short(d.name) for d in s.domains], shares, signed=False, form=form)
    return figure
