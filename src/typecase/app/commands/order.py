"""Commands over the order files of a framework: list, check, write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from typecase.app.commands.trace import PATH, run_options
from typecase.app.options import answer, json_option
from typecase.app.printing import table
from typecase.app.trace import tracing
from typecase.store.timeline.settings import FRAMEWORKS

_SHOWN = ("num_samples", "size", "seq_length", "sequence_length", "seed", "random_seed", "split", "packing_impl")


@click.group(name="order")
def order_command() -> None:
    """The index files of a training run: find them, check them against a token set, write them for a framework."""


@order_command.command(name="list")
@click.argument("path", type=PATH)
@json_option
def list_command(path: Path, as_json: bool) -> None:
    """The index files in a folder, a cache, or beside a token set."""
    found = tracing.order_list(path)
    rows = []
    for one in found:
        said = "  ".join(f"{k}={v}" for k, v in one.settings.items() if k in _SHOWN)
        rows.append((one.framework, one.name, said + (f"  missing: {', '.join(one.missing)}" if one.missing else "")))
    answer(found, table(rows) if rows else [f"no index files in {path}"], as_json)


@order_command.command(name="check")
@run_options
@click.option("--indexes", type=PATH, help="Their folder; by default where the framework keeps them.")
def check_command(run: Path, changes: tuple[str, ...], split: Any, indexes: Path | None, as_json: bool) -> None:
    """Compare a run's index files with its token sets and settings, number by number. Exits with 3 when they differ."""
    found = tracing.order_check(run, indexes=indexes, split=split, changes=changes)
    lines = []
    for name, differences in found.differences.items():
        lines.append(f"{name}: " + ("the files are of this set and these settings" if not differences else "the files differ"))
        lines += [f"  {one.code}: {one}" for one in differences]
    answer(found, lines, as_json)
    if not found.agree:
        sys.exit(3)


@order_command.command(name="write")
@run_options
@click.option("--to", "folder", type=PATH, required=True, help="Folder: beside the data for GPT-NeoX, its cache for Megatron.")
@click.option("--as", "framework", type=click.Choice(FRAMEWORKS[:-1]), help="The framework that is to follow a keyed order.")
@click.option("--tokenizer-of", type=PATH, help="A description.txt of a Megatron run with the same tokenizer.")
@click.option("--path", "paths", multiple=True, help="The data path as Megatron will be given it; once for each token set.")
def write_command(
    run: Path, changes: tuple[str, ...], split: Any, folder: Path, framework: str | None, tokenizer_of: Path | None,
    paths: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Write the order of a run as index files that its framework starts from."""
    made = tracing.order_write(
        run, folder, framework=framework, tokenizer=tokenizer_of, paths=paths, split=split, changes=changes
    )
    answer({"files": made}, [str(path) for path in made], as_json)
