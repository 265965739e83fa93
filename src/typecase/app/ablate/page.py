"""The page of an ablation: its table, its curves and its figures in one file that needs no other.

report.html     figures/curves.svg .png     figures/arms.svg .png
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typecase.app.ablate.printing import arm_rows, correlation_rows, doubts, task_rows
from typecase.app.charts.parts import bare
from typecase.app.charts.style import BLUE, INK, RULE, SETS, SOFT, drawn, need_matplotlib, new_figure, short, style
from typecase.store.atomic import write_bytes
from typecase.store.audit.files import visible

if TYPE_CHECKING:
    from typecase.train.ablation.findings import Findings

PAGE = "report.html"
_LOOK = """
body { font: 15px/1.5 system-ui, sans-serif; color: #20242c; background: #fdfdfc }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; font-size: 13px }
td, th { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid #dfe2e6; text-align: right; white-space: nowrap }
td:first-child, th:first-child { text-align: left }
div { overflow-x: auto } svg { max-width: 100%; height: auto } p.note { color: #68707d }
"""


def write_page(out: Path, found: Findings) -> Path:
    """Draws the figures and writes the page. Raises NeedsExtra without matplotlib."""
    need_matplotlib()
    with style():
        charts = {"curves": drawn(draw_curves(found), "curves"), "arms": drawn(draw_arms(found), "arms")}
    for name, (svg, png) in charts.items():
        (out / "figures").mkdir(parents=True, exist_ok=True)
        write_bytes(out / "figures" / f"{name}.svg", svg)
        write_bytes(out / "figures" / f"{name}.png", png)
    title = _safe(f"ablation {found.name}")
    first = found.arms[0]
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_LOOK}</style><h1>{title}</h1>',
        f"<p>{len(found.arms)} arms, {len(found.seeds)} seeds, {found.parameters:,} weights, {first.tokens:,} tokens a run,"
        f" {first.flops:.3g} FLOPs. Bits per byte of {_safe(found.held)}, lower is better; 95 % intervals over seeds and"
        " documents.</p>",
        _table(arm_rows(found)),
        *(f'<p class="note">{_safe(one)}</p>' for one in doubts(found)),
        "<h2>Held-out loss</h2>",
        _inline(charts["curves"][0]),
        "<h2>Bits per byte</h2>",
        _inline(charts["arms"][0]),
    ]
    if any(arm.tasks for arm in found.arms):
        parts += ["<h2>Tasks</h2>", _table([("arm", "task", "right", "right by byte", "less base"), *task_rows(found)])]
    if found.over_runs:
        rows = [("task", "over", "", "", ""), *correlation_rows(found)]
        parts += ["<h2>Perplexity against task score</h2>", _table(rows)]
    write_bytes(out / PAGE, "\n".join([*parts, "</html>", ""]).encode())
    return out / PAGE


def draw_curves(found: Findings) -> Any:
    """Loss on the held-out samples over tokens: a line for each arm, the base's last loss as a rule."""
    figure = new_figure(3.0)
    axes = figure.subplots()
    for k, arm in enumerate(found.arms):
        axes.plot(arm.curve.tokens, arm.curve.losses, color=SETS[k % len(SETS)], lw=1.4, label=short(arm.arm))
        axes.plot(arm.curve.tokens[-1], arm.curve.losses[-1], "o", color=SETS[k % len(SETS)], ms=3.5)
    goal = next(arm for arm in found.arms if arm.arm == found.base).curve.losses[-1]
    axes.axhline(goal, color=SOFT, lw=0.7, ls=(0, (4, 3)))
    axes.legend(frameon=False, fontsize=7, labelcolor=INK)
    axes.set_xlabel("tokens")
    axes.set_ylabel("nats a token")
    axes.xaxis.set_major_formatter(lambda v, _: f"{v / 1e6:g}M")
    axes.grid(color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    bare(axes, "left", "bottom")
    return figure


def draw_arms(found: Findings) -> Any:
    """Bits per byte with its interval, the best on top."""
    order = sorted(found.arms, key=lambda arm: (arm.bits_per_byte.value, arm.arm))
    figure = new_figure(0.6 + 0.24 * len(order))
    axes = figure.subplots()
    for y, arm in enumerate(order):
        bits = arm.bits_per_byte
        axes.plot([bits.low, bits.high], [y, y], color=BLUE, lw=2, alpha=0.35)
        axes.plot(bits.value, y, "o", color=BLUE, ms=4.5)
    axes.set_yticks(range(len(order)), [short(arm.arm) for arm in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(axis="x", color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    bare(axes, "bottom")
    return figure


def _table(rows: Any) -> str:
    head, *body = rows
    lines = ["<div><table><tr>" + "".join(f"<th>{_safe(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in body]
    return "\n".join([*lines, "</table></div>"])


def _inline(svg: bytes) -> str:
    text = svg.decode()
    return text[text.index("<svg") :]


def _safe(text: str) -> str:
    return html.escape(visible(text))
