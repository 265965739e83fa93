"""Rows of a token table on the command line: the options that choose them, and how they are shown and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import pyarrow as pa

from typecase.app.options import answer, plain
from typecase.app.printing import table
from typecase.store.audit.files import select_rows, visible, write_table

PATH = click.Path(path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 10
_COLUMNS = (
    "i", "decoded", "kind", "reach", "reason", "count", "documents", "prediction", "row", "main_indicator", "percentile",
    "rank", "p_marginal", "max_prob", "magikarp", "origin", "suggestion", "decision", "advice", "reasons",
)  # fmt: skip


def row_options(command: F) -> F:
    """--where, --sort, --top and --table of every command that ends in a row for each token."""
    command = click.option("--top", type=int, help="At most so many rows.")(command)
    command = click.option("--sort", help="SQL to sort by: 'count desc, i'. By id when not given.")(command)
    command = click.option("--where", help="SQL condition on the rows: \"reach = 'unreachable' and bytes > 4\".")(command)
    return click.option("--table", "out_table", type=PATH, help="Write the rows: .jsonl, .parquet, .csv or .md.")(command)


def chosen_rows(found: pa.Table, where: str | None, sort: str | None, top: int | None, default: str) -> pa.Table:
    """The rows that were asked for; without a condition those of `default`."""
    return select_rows(found, where=where or default, sort=sort, top=top)


def finish(
    header: Mapping[str, Any], lines: list[str], whole: pa.Table, rows: pa.Table, out_table: Path | None,
    where: str | None, as_json: bool, columns: Sequence[str] = _COLUMNS,
) -> None:  # fmt: skip
    """Writes the table (all rows, or those that were asked for), then answers with the summary and the first rows, of which
    people see `columns`."""
    if out_table is not None:
        written = write_table(out_table, whole if where is None else rows, plain(dict(header)))
        lines = [*lines, f"{written:,} rows -> {out_table}"]
    if as_json:
        answer({**header, "rows": rows.to_pylist() if where is not None else []}, [], True)
        return
    shown = rows.slice(0, _SHOWN if where is None else rows.num_rows)
    columns = [name for name in columns if name in shown.column_names] or shown.column_names
    body = [[_cell(row[name]) for name in columns] for row in shown.select(columns).to_pylist()]
    more = rows.num_rows - len(body)
    tail = [f"  … and {more:,} more: --where, --sort, --table"] if more > 0 else []
    answer(None, [*lines, *(["", *table([columns, *body]), *tail] if body else [])], False)


def pairs(values: Mapping[str, int]) -> str:
    """Names and numbers on one line."""
    return "   ".join(f"{name} {number:,}" for name, number in values.items())


def tell_prompts(done: int, total: int) -> None:
    """Progress of prompts on one line of the terminal."""
    click.echo(f"\r  {done:,} of at most {total:,} prompts", nl=done >= total, err=True)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return visible("; ".join(map(str, value)))[:60]
    return "" if value is None else visible(f"{value:,}" if isinstance(value, int) else str(value))[:40]


def ids_of(text: str | None, option: str = "--wanted") -> frozenset[int]:
    """Ids written with commas."""
    try:
        return frozenset(int(part) for part in (text or "").split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of ids", param_hint=option) from None
