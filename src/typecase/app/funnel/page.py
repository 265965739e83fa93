"""The report of a funnel: one page that holds its own pictures, and its twin as JSON.

    report.html     the page: no script, nothing fetched, printable, dark where the reader's screen is
    funnel.json     everything that the page says, and the tables under its figures
    figures/        each figure as SVG and PNG

The same funnel gives the same bytes; names and reasons of the data are escaped. Needs the `report` extra.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from typecase.app.analyse.page import inline
from typecase.app.audit.page import report_style
from typecase.app.charts.funnel import charts_of
from typecase.app.charts.style import drawn, need_matplotlib, style
from typecase.app.funnel.facts import Funnel, Step, Variety
from typecase.errors import AlreadyExists, NeedsExtra
from typecase.store.atomic import write_bytes
from typecase.store.audit.files import visible

PAGE, TWIN = "report.html", "funnel.json"
Rows = list[tuple[Any, ...]]


def as_dict(found: Funnel) -> dict[str, Any]:
    """The funnel as plain values; folders by their names, so that it can be moved."""
    steps = [
        {"stage": step.stage, "folder": step.folder.name, "balance": step.balance.as_dict(), "tokens": step.tokens}
        for step in found.steps
    ]
    return {
        "name": found.name,
        "steps": steps,
        "shifts": {column: [asdict(one) for one in rows] for column, rows in found.shifts.items()},
        "spreads": [asdict(one) for one in found.spreads],
        "variety": {"before": asdict(found.before), "after": asdict(found.after)},
        "decision": _decided(found),
        "warnings": list(found.warnings),
    }


def check_funnel(out: Path) -> None:
    """Raises NeedsExtra where a report cannot be made, AlreadyExists where something else lies in the folder."""
    need_matplotlib()
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise NeedsExtra("writing a report", "report") from None
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / TWIN).is_file())):
        raise AlreadyExists(f"{out} holds something that is no such report; name another folder, or an empty one")


def write_funnel(found: Funnel, out: Path) -> Path:
    """Writes the folder, the page last; its path. See check_funnel for errors."""
    check_funnel(out)
    pictures = []
    with style():
        for chart in charts_of(found):
            svg, png = drawn(chart.draw(), chart.name)
            write_bytes(out / "figures" / f"{chart.name}.svg", svg)
            write_bytes(out / "figures" / f"{chart.name}.png", png)
            pictures.append((chart, inline(svg.decode(), chart.title)))
    write_bytes(out / TWIN, orjson.dumps(as_dict(found), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    write_bytes(out / PAGE, _page(found, pictures).encode())
    return out / PAGE


def _page(found: Funnel, pictures: list[tuple[Any, str]]) -> str:
    """The page. Everything that comes from data is escaped by the template; only our own pictures and style are not."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"safe_line": visible, "cell": _cell}
    template = environment.from_string((files("typecase.app.funnel") / "page.html.j2").read_text("utf-8"))
    return template.render(
        style=report_style(), found=found, facts=list(_facts(found)), pictures=pictures, tables=list(_tables(found)), twin=TWIN
    )


def _facts(found: Funnel) -> Iterator[tuple[str, str]]:
    first, last = found.steps[0].balance, found.steps[-1].balance
    yield f"{first.entered:,}", "documents entered"
    yield f"{last.kept:,}", f"kept, {last.kept / max(1, first.entered):.0%}"
    if found.decision is not None:
        yield f"{found.decision['met']:,}", f"{found.decision['unit']} of a budget of {found.decision['budget']:,}"
    if found.after.domains is not None and found.before.domains is not None:
        yield f"{found.after.domains:.1f}", f"effective domains, {found.before.domains:.1f} before"
    yield f"{found.after.gram_bits:.1f}", f"bits a run of two words, {found.before.gram_bits:.1f} before"
    yield f"{found.after.near:.1%}", f"near duplicates, {found.before.near:.1%} before"


def _tables(found: Funnel) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
    yield "Stages", ("stage", "in", "kept", "removed", "quarantined", "tokens"), [_row(step) for step in found.steps]
    yield "Reasons", ("stage", "reason", "documents"), [row for step in found.steps for row in _reasons(step)]
    for column, shifts in found.shifts.items():
        header = (column, "documents", "kept", "share before", "share after")
        rows: Rows = [(o.name, o.documents, o.kept, f"{o.before:.2%}", f"{o.after:.2%}") for o in shifts]
        yield f"Shares by {column}", header, rows
    varied = ("sample", "documents", "effective sources", "effective domains", "bits a run of two words", "near duplicates")
    yield "Variety", varied, [_variety("before", found.before), _variety("after", found.after)]
    if found.decision is not None:
        asked = ("stratum", "documents", "kept", "asked", "quota", "met", "copies of all")
        strata: Rows = [
            ("/".join(r["stratum"]) or "all", r["documents"], r["kept"], r["asked"], r["quota"], r["met"], r["extra"])
            for r in found.decision["strata"]
        ]
        yield f"Strata, in {found.decision['unit']}", asked, strata


def _row(step: Step) -> tuple[Any, ...]:
    b = step.balance
    return step.stage, b.entered, b.kept, b.num_removed, b.num_quarantined, step.tokens


def _reasons(step: Step) -> Rows:
    rows = [(step.stage, reason, n) for reason, n in sorted(step.balance.removed.items(), key=lambda one: (-one[1], one[0]))]
    return rows + [(step.stage, f"{reason} (quarantined)", n) for reason, n in sorted(step.balance.quarantined.items())]


def _variety(side: str, v: Variety) -> tuple[Any, ...]:
    return side, v.documents, v.sources, v.domains, v.gram_bits, f"{v.near:.2%}"


def _decided(found: Funnel) -> dict[str, Any] | None:
    if found.decision is None:
        return None
    names = ("unit", "budget", "met", "short", "moved", "copies", "copied_amount", "association", "strata", "policy")
    return {name: found.decision[name] for name in names if name in found.decision}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if isinstance(value, float) else visible(str(value))
