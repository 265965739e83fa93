"""Charts of an audit: every token a point, coloured by what was decided.

    charts_of_audit(table, sections) -> [Chart("plane", …), Chart("indicators", …), Chart("prompts", …)]

Tokens that are fine are too many for points: they are cells, the darker the more tokens. The others are points, each decision
with a shape of its own; where there are more than a few thousand, every n-th by id, which the caption says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from typecase.app.charts.parts import bare, panels
from typecase.app.charts.ratings import Chart
from typecase.app.charts.style import BLUE, INK, OCHRE, RULE, SOFT, new_figure
from typecase.core.glitch.copies import LIMIT
from typecase.core.glitch.decision import FINE, SUSPECT, UNDER_TRAINED, UNREACHABLE

F64 = npt.NDArray[np.float64]

MOST_POINTS, _MOST_IN_A_PANEL = 1500, 400
_CELLS = (90, 46)
_TIERS = (0.16, 0.3, 0.46, 0.64, 0.85)
_LOOKS: Mapping[str, tuple[str, str, str]] = {
    UNREACHABLE: ("#8a8f98", "x", "unreachable"),
    SUSPECT: (OCHRE, "^", "suspect"),
    UNDER_TRAINED: ("#b3243c", "o", "under-trained"),
}
_OTHERS = ("e_out_l2", "density", "e_in_norm", "p_marginal", "e_out_norm")
_NAMES = {
    "e_out_cosine": "1 − cosine with the references (output matrix)",
    "e_out_l2": "distance to the references",
    "e_out_norm": "length of the output row",
    "e_in_norm": "length of the input row",
    "density": "distance to 8 neighbours",
    "p_marginal": "mean chance in texts",
    "main_indicator": "indicator",
}


@dataclass(frozen=True, slots=True)
class Axis:
    """Values of every token, NaN where there is none, and how they are written. `logarithmic` values are log10 of them.

    `one_more`: of 1 + the value, as counts are, which begin at 0.
    """

    values: F64
    label: str
    logarithmic: bool = False
    one_more: bool = False


def charts_of_audit(table: pa.Table, main: str = "main_indicator") -> list[Chart]:
    """The charts that the columns of a verdict allow; `main` names the indicator that ranks."""
    decisions = np.array(table.column("decision").to_pylist())
    sample = f"all {table.num_rows:,} tokens"
    charts = []
    indicator = _axis(table, "main_indicator", _NAMES.get(main, main))
    counts = _counts(table)
    ids = Axis(table.column("i").to_numpy(zero_copy_only=False).astype(np.float64), "id")
    if indicator is not None or counts is not None:
        x, y = (counts or ids, indicator) if indicator is not None else (ids, counts)
        assert x is not None and y is not None
        title = "Indicator and count" if counts and indicator else "Every token by its id"
        about = "Each token" if indicator is None else "Each token by the indicator that ranks it: low means never trained"
        charts.append(_chart("plane", title, about, sample, x, y, decisions))
    others = _others(table)
    if indicator is not None and others:
        caption = "The same tokens by the other indicators. Tokens that only one of them accuses deserve a second look."
        draw = partial(_draw_panels, indicator, others[:4], decisions)
        charts.append(
            Chart(
                "indicators",
                "Indicators",
                "Do indicators agree?",
                caption + _thinned(decisions, _MOST_IN_A_PANEL),
                sample,
                "tokens",
                draw,
            )
        )
    asked = _axis(table, "max_prob", "largest chance of being repeated", floor=1e-9)
    if indicator is not None and asked is not None and np.isfinite(asked.values).any():
        number = int(np.isfinite(asked.values).sum())
        caption = f"Tokens that the model was asked to repeat; below the line, at {LIMIT:g}, it cannot."
        draw = partial(_draw_asked, indicator, asked, decisions)
        charts.append(
            Chart("prompts", "Prompts", "What the model can repeat", caption, f"{number:,} tokens asked", "tokens", draw)
        )
    return charts


def _chart(name: str, title: str, about: str, sample: str, x: Axis, y: Axis, decisions: npt.NDArray[np.str_]) -> Chart:
    caption = f"{about}. Fine tokens are cells, the darker the more of them." + _thinned(decisions)
    if missing := int(np.count_nonzero(~(np.isfinite(x.values) & np.isfinite(y.values)))):
        caption += f" {missing:,} tokens have no value (rows of zeros) and are not drawn."
    return Chart(name, "Indicators", title, caption, sample, "tokens", partial(_draw_plane, x, y, decisions))


def _others(table: pa.Table) -> list[Axis]:
    """The indicators that do not rank; in a tied model lengths of input and output rows are the same, and one is enough."""
    found: list[Axis] = []
    for name in _OTHERS:
        axis = _axis(table, name, _NAMES[name])
        if axis is not None and not any(np.array_equal(axis.values, other.values, equal_nan=True) for other in found):
            found.append(axis)
    return found


def _thinned(decisions: npt.NDArray[np.str_], most: int = MOST_POINTS) -> str:
    many = [(_LOOKS[d][2], n) for d in _LOOKS if (n := int(np.count_nonzero(decisions == d))) > most]
    return "".join(f" Of {n:,} {name} tokens one in {-(-n // most)} is drawn." for name, n in many)


def _counts(table: pa.Table) -> Axis | None:
    if "count" not in table.column_names:
        return None
    return Axis(np.log10(1 + _floats(table, "count")), "times in the corpus", True, True)


def _axis(table: pa.Table, name: str, label: str, floor: float = 0.0) -> Axis | None:
    """The axis of a column; logarithmic where its values span more than three powers of ten, or a floor is given."""
    if name not in table.column_names:
        return None
    values = _floats(table, name)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    positive = finite[finite > 0]
    if len(positive) and finite.min() >= 0 and (floor or np.percentile(positive, 99) > 1e3 * np.percentile(positive, 1)):
        with np.errstate(invalid="ignore"):
            return Axis(np.log10(np.maximum(values, floor or float(positive.min()))), label, True)
    return Axis(values, label)


def _floats(table: pa.Table, name: str) -> F64:
    found: F64 = table.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def _draw_plane(x: Axis, y: Axis, decisions: npt.NDArray[np.str_]) -> Any:
    figure = new_figure(4.1)
    axes = figure.subplots()
    _plot(axes, x, y, decisions, _CELLS, 11.0)
    _ticks(axes, x, y, 7)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=7, handletextpad=0.3, labelcolor=SOFT
    )
    return figure


def _draw_panels(x: Axis, others: Sequence[Axis], decisions: npt.NDArray[np.str_]) -> Any:
    figure, cells = panels(len(others), 2.0)
    for axes, y in zip(cells, others, strict=True):
        _plot(axes, x, y, decisions, (40, 36), 4.0, _MOST_IN_A_PANEL)
        _ticks(axes, x, y, 4)
        axes.set_title(y.label, loc="left", pad=4)
        axes.set_ylabel("")
        axes.set_xlabel("the one that ranks")
    return figure


def _draw_asked(x: Axis, y: Axis, decisions: npt.NDArray[np.str_]) -> Any:
    figure = new_figure(3.4)
    axes = figure.subplots()
    asked = np.isfinite(y.values)
    _plot(axes, Axis(np.where(asked, x.values, np.nan), x.label, x.logarithmic), y, decisions, _CELLS, 11.0)
    axes.axhline(np.log10(LIMIT), color=INK, linewidth=0.8)
    _ticks(axes, x, y, 7)
    return figure


def _plot(
    axes: Any, x: Axis, y: Axis, decisions: npt.NDArray[np.str_], cells: tuple[int, int], size: float, most: int = MOST_POINTS
) -> None:
    there = np.isfinite(x.values) & np.isfinite(y.values)
    if not there.any():
        return
    spans = [_span(axis.values[there]) for axis in (x, y)]
    fine = there & (decisions == FINE)
    _draw_cells(axes, x.values[fine], y.values[fine], spans, cells)
    for decision, (colour, marker, name) in _LOOKS.items():
        own = np.flatnonzero(there & (decisions == decision))
        own = own[:: max(1, -(-len(own) // most))]
        if len(own):
            axes.scatter(x.values[own], y.values[own], s=size, c=colour, marker=marker, linewidths=0.7, label=name, alpha=0.8)
    axes.set_xlim(*spans[0])
    axes.set_ylim(*spans[1])


def _draw_cells(axes: Any, x: F64, y: F64, spans: Sequence[tuple[float, float]], cells: tuple[int, int]) -> None:
    """Counts of points in a grid, in five shades; the cells of a shade are one path, so that a page stays small."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    counts, x_edges, y_edges = np.histogram2d(x, y, bins=cells, range=spans)
    if not counts.any():
        return
    shades = np.ceil(np.log1p(counts) / np.log1p(counts.max()) * len(_TIERS)).astype(np.int64)
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)], np.float64)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    for shade, alpha in enumerate(_TIERS, 1):
        columns, rows = np.nonzero(shades == shade)
        if not len(columns):
            continue
        low = np.stack([x_edges[columns], y_edges[rows]], axis=1)
        step = np.array([x_edges[1] - x_edges[0], y_edges[1] - y_edges[0]])
        vertices = (low[:, None] + corners * step).reshape(-1, 2)
        name = "fine" if shade == len(_TIERS) else None
        axes.add_patch(PathPatch(Path(vertices, codes * len(columns)), facecolor=BLUE, alpha=alpha, linewidth=0, label=name))


def _span(values: F64) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = 0.02 * (high - low) or 0.5
    return low - room, high + room


def _ticks(axes: Any, x: Axis, y: Axis, most: int) -> None:
    for axis, which, limits in ((x, axes.xaxis, axes.get_xlim()), (y, axes.yaxis, axes.get_ylim())):
        which.set_label_text(axis.label, fontsize=7, color=SOFT)
        which.set_tick_params(labelsize=6.5, labelcolor=SOFT)
        if axis.logarithmic:
            powers = range(int(np.floor(limits[0])), int(np.ceil(limits[1])) + 1)
            step = max(1, -(-len(powers) // most))
            values = [10.0**p for p in powers[::step]]
            if axis.one_more:
                values = [0.0, *(v for v in values if v >= 1)]
            places = [(np.log10(1 + v) if axis.one_more else np.log10(v), _said(v)) for v in values]
            places = [(at, said) for at, said in places if limits[0] <= at <= limits[1]]
            which.set_ticks([at for at, _ in places], [said for _, said in places])
        elif max(abs(v) for v in limits) >= 10_000:
            which.set_major_formatter(lambda v, _: f"{v:,.0f}")
    axes.grid(color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    bare(axes, "left", "bottom")


def _said(value: float) -> str:
    return f"{value:,.0f}" if value == 0 or 1 <= value < 1e7 else f"{value:g}"
