"""Options that several commands share, and how their answers are given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import orjson

from typecase.app.engines import engine_named
from typecase.recipe.progress import Quiet, Reporter, reporter_for
from typecase.recipe.run import Artifact

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")(command)


def work_options(command: F) -> F:
    """--workers, --engine, --quiet and --json of every verb that works through shards. The command is given both as `workers`:
    the number, or where another engine is named, that engine."""

    @functools.wraps(command)
    def with_engine(*args: Any, workers: int, engine: str, **given: Any) -> Any:
        return command(*args, workers=workers if engine == "local" else engine_named(engine, workers=workers), **given)

    return _work_options(cast(F, with_engine))


def _work_options(command: F) -> F:
    command = click.option("--workers", default=0, show_default=True, help="Processes; 0 works in this one.")(command)
    command = click.option("--engine", default="local", show_default=True, help="Where: local, ray, ray://…, slurm?…")(command)
    command = click.option("--quiet", is_flag=True, help="No progress.")(command)
    return json_option(command)


def out_option(command: F) -> F:
    return click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder of the result.")(command)


def reporter(quiet: bool, as_json: bool) -> Reporter:
    """Progress goes to standard error, and only where it is wanted."""
    return Quiet() if quiet or as_json else reporter_for()


def answer(value: Any, lines: Sequence[str], as_json: bool) -> None:
    """Prints `value` as JSON, or `lines` for a person."""
    if as_json:
        click.echo(orjson.dumps(plain(value), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode())
    else:
        for line in lines:
            click.echo(line)


def plain(value: Any) -> Any:
    """Dataclasses, paths and tuples as JSON has them."""
    if isinstance(value, Artifact):
        return {"folder": str(value.folder), "reused": value.reused, "manifest": value.manifest.as_dict()}
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value
