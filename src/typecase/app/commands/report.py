"""Command `report`: what became of the documents on the way to an artifact."""

from __future__ import annotations

from pathlib import Path

import click

from typecase.app.funnel.facts import SAMPLE, Funnel, Variety, funnel_of
from typecase.app.funnel.page import as_dict, check_funnel, write_funnel
from typecase.app.options import answer, json_option
from typecase.app.printing import shown_path, table
from typecase.store.audit.files import visible

PATH = click.Path(path_type=Path)
_SHOWN = 8


@click.command(name="report")
@click.argument("path", type=PATH)
@click.option("-o", "--out", type=PATH, help="Folder of a page with figures: report.html, funnel.json.")
@click.option("--sample", default=SAMPLE, show_default=True, help="Documents of each side that are measured for variety.")
@json_option
def report_command(path: Path, out: Path | None, sample: int, as_json: bool) -> None:
    """What became of the documents on the way to PATH: funnel, shares, distributions, variety, warnings.

    PATH is a folder that a stage over documents, or build, made.
    """
    if out is not None:
        check_funnel(out)
    found = funnel_of(path, sample=sample)
    page = write_funnel(found, out) if out is not None else None
    answer(as_dict(found) if as_json else None, [] if as_json else funnel_lines(found, page), as_json)


def funnel_lines(found: Funnel, page: Path | None) -> list[str]:
    """The funnel on one screen."""
    rows = [("stage", "in", "kept", "removed", "quarantined")]
    for step in found.steps:
        b = step.balance
        rows.append((step.stage, f"{b.entered:,}", f"{b.kept:,}", f"{b.num_removed:,}", f"{b.num_quarantined:,}"))
    lines = table(rows)
    for column, shifts in found.shifts.items():
        rows = [(column, "documents", "kept", "before", "after")]
        for one in shifts[:_SHOWN]:
            counts = f"{one.documents:,}", f"{one.kept:,}"
            rows.append((visible(one.name)[:40], *counts, f"{one.before:.1%}", f"{one.after:.1%}"))
        lines += ["", *table(rows)]
        if len(shifts) > _SHOWN:
            lines.append(f"… and {len(shifts) - _SHOWN:,} more: --json or -o")
    lines += ["", *_variety_lines(found.before, found.after)]
    lines += [f"  - {visible(warning)}" for warning in found.warnings]
    return [*lines, "", f"report -> {shown_path(page)}"] if page is not None else lines


def _variety_lines(before: Variety, after: Variety) -> list[str]:
    said = f"effective sources {before.sources:.1f} -> {after.sources:.1f}"
    if before.domains is not None and after.domains is not None:
        said += f", effective domains {before.domains:.1f} -> {after.domains:.1f}"
    bits = f"bits a run of two words {before.gram_bits:.2f} -> {after.gram_bits:.2f}"
    return [f"{bits}, near duplicates {before.near:.1%} -> {after.near:.1%}", said]
