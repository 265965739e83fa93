"""The command `audit spectra`: how heavy the tails of a model's matrices are, layer by layer."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa

from typecase.app.audit.rows import finish, row_options
from typecase.app.audit.spectra import HEAVY, LEAST, WELL, SpectraAudit, audit_spectra
from typecase.app.options import json_option
from typecase.store.audit.files import select_rows

_COLUMNS = ("matrix", "rows", "width", "alpha", "error", "tail", "distance", "stable_rank", "verdict")


@click.command(name="spectra")
@click.argument("model")
@click.option("--least", default=LEAST, show_default=True, help="Leave out matrices with fewer rows or columns.")
@click.option("--quiet", is_flag=True, help="No progress.")
@row_options
@json_option
def spectra_command(
    model: str, least: int, quiet: bool, out_table: Path | None, where: str | None, sort: str | None, top: int | None,
    as_json: bool,
) -> None:  # fmt: skip
    """The power-law exponents of MODEL's matrices, read from its files: which layers training hardly shaped."""
    found = audit_spectra(model, least=least, progress=None if quiet or as_json else _tell)
    numbered = found.table.append_column("i", pa.array(range(found.table.num_rows), pa.int64()))
    rows = select_rows(numbered, where=where, sort=sort or "alpha desc", top=top).drop_columns(["i"])
    finish(found.header(), spectra_lines(found), found.table, rows, out_table, where, as_json, _COLUMNS)


def _tell(done: int, total: int) -> None:
    click.echo(f"\r  {done:,} of {total:,} matrices", nl=done >= total, err=True)


def spectra_lines(found: SpectraAudit) -> list[str]:
    """The spectra on one screen."""
    mean = "none" if found.mean_alpha is None else f"{found.mean_alpha:.3f}"
    told = "   ".join(f"{name} {number:,}" for name, number in found.verdicts.items())
    return [
        f"{found.model}: {found.matrices:,} matrices, {found.small:,} too small; mean exponent {mean}",
        f"  {told}   (well: {HEAVY:g} to {WELL:g}; heavy below, weak above)",
    ]
