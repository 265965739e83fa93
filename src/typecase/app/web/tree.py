"""Tree: boxes in columns by generation, joined by lines, drawn as links over one picture of the lines.

place([Box("a", 0, ()), Box("b", 1, ("a",))])  ->  {"a": (0, 0), "b": (1, 0)}      column and row, rows may be fractions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, ACROSS, DOWN = 190, 62, 250, 76
"""Of a box, and from one to the next, in pixels."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a tree: `column` from 0, `parents` by key; `lines` of text, `to` where it leads, `look` a class of style."""

    key: str
    column: int
    parents: tuple[str, ...]
    lines: tuple[str, ...] = ()
    to: str = ""
    look: str = ""


def place(boxes: Sequence[Box]) -> dict[str, tuple[int, float]]:
    """Column and row of every box: near the middle of its parents, and none upon another."""
    found: dict[str, tuple[int, float]] = {}
    for column in sorted({b.column for b in boxes}):
        own = [b for b in boxes if b.column == column]
        wanted = {b.key: _middle(b, found) for b in own}
        free = 0.0
        for box in sorted(own, key=lambda b: wanted[b.key]):
            row = max(free, wanted[box.key])
            found[box.key] = (column, row)
            free = row + 1
    return found


def _middle(box: Box, found: Mapping[str, tuple[int, float]]) -> float:
    rows = [found[p][1] for p in box.parents if p in found]
    return sum(rows) / len(rows) if rows else 0.0


def tree_html(boxes: Sequence[Box]) -> str:
    """The boxes and their lines as HTML; every text escaped."""
    at = place(boxes)
    wide = (max((c for c, _ in at.values()), default=0)) * ACROSS + WIDTH + 4
    high = int(max((r for _, r in at.values()), default=0) * DOWN) + HEIGHT + 4
    lines = [_line(at[p], at[b.key]) for b in boxes for p in b.parents if p in at]
    svg = f'<svg width="{wide}" height="{high}" aria-hidden="true">{"".join(lines)}</svg>'
    return (
        f'<div class="tc-tree" style="width:{wide}px;height:{high}px">{svg}{"".join(_box(b, at[b.key]) for b in boxes)}</div>'
    )


def _line(start: tuple[int, float], stop: tuple[int, float]) -> str:
    x0, y0 = start[0] * ACROSS + WIDTH, start[1] * DOWN + HEIGHT / 2
    x1, y1 = stop[0] * ACROSS, stop[1] * DOWN + HEIGHT / 2
    bend = max((x1 - x0) / 2, 30)
    return f'<path d="M{x0:g} {y0:g} C{x0 + bend:g} {y0:g} {x1 - bend:g} {y1:g} {x1:g} {y1:g}"/>'


def _box(box: Box, at: tuple[int, float]) -> str:
    title, *more = (*box.lines, "")
    inner = f"<b>{escape(title)}</b>" + "".join(f"<span>{escape(line)}</span>" for line in more if line)
    where = f"left:{at[0] * ACROSS}px;top:{at[1] * DOWN:g}px;width:{WIDTH}px;height:{HEIGHT}px"
    said = escape(", ".join(line for line in box.lines if line))
    return f'<a class="tc-node {box.look}" href="{escape(box.to)}" style="{where}" title="{said}">{inner}</a>'
