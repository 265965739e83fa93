"""The command train."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from typecase.app.options import answer, json_option, out_option
from typecase.app.train import training
from typecase.app.train.printing import Watched, trained_lines
from typecase.errors import BadQuery
from typecase.train.config import PRESETS

PATH = click.Path(path_type=Path)
_INTERRUPTED = 130
_SIZES = ("layers", "heads", "kv_heads", "width", "hidden", "vocab", "context", "rope_base")


@click.command(name="train")
@click.argument("run", type=PATH)
@out_option
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="A setting of the order, over those of RUN.")
@click.option("--order", type=PATH, help="A run file whose order is used over RUN, a token set.")
@click.option("--preset", "size", type=click.Choice(list(PRESETS)), help="Sizes of the model by its weights [default: 1m]")
@click.option("--layers", type=int)
@click.option("--heads", type=int)
@click.option("--kv-heads", type=int, help="Heads of keys and values [default: as the preset; --heads when that is given]")
@click.option("--width", type=int)
@click.option("--hidden", type=int, help="Of the feed-forward [default: as the preset; 8/3 of --width when that is given]")
@click.option("--vocab", type=int, help="[default: the ids of the set's tokenizer]")
@click.option("--context", type=int, help="Tokens a sample feeds [default: as the order has it; 256 without one]")
@click.option("--rope-base", type=float)
@click.option("--untied", is_flag=True, help="The output layer has weights of its own.")
@click.option("--steps", type=int, help="[default: as the order has it]")
@click.option("--batch", type=int, help="Samples a step [default: as the order has it; 16 without one]")
@click.option("--micro-batch", type=int, help="Samples at once; changes memory, not the step [default: all]")
@click.option("--lr", "learning_rate", type=float, help="The highest [default: 0.001]")
@click.option("--min-lr", "min_learning_rate", type=float, help="The last [default: a tenth of the highest]")
@click.option("--warmup", type=int, help="Steps of a rising rate [default: a tenth of the run, 200 at most]")
@click.option("--weight-decay", type=float, help="Of matrices [default: 0.1]")
@click.option("--beta1", type=float)
@click.option("--beta2", type=float)
@click.option("--clip", type=float, help="Longest gradient; 0 for any [default: 1]")
@click.option("--seed", type=int, help="Of the first weights, and of the order where none is given [default: 1234]")
@click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), help="Of the arithmetic [default: auto]")
@click.option("--compile", "compile_", is_flag=True, help="Make kernels of the model first.")
@click.option("--save-every", type=int, help="Steps between checkpoints [default: 500]")
@click.option("--keep", type=int, help="Newest checkpoints kept; 0 for all [default: 2]")
@click.option("--log-every", type=int, help="Steps between lines where there is no terminal [default: 10]")
@click.option("--validation", type=str, help="A token set, or valid or test: a split of the order.")
@click.option("--eval-every", type=int, help="Steps between looks at it [default: once, at the end]")
@click.option("--eval-samples", type=int, help="Samples of it [default: 128]")
@click.option("--from", "start", type=PATH, help="Begin with the weights of a run, or of a Hugging Face folder (Llama).")
@click.option("--resume", is_flag=True, help="Go on from the newest checkpoint in --out.")
@click.option("--export", type=click.Choice(training.EXPORTS), help="Write a Hugging Face model to OUT/hf at the end.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda")
@click.option("--threads", default=0, help="Of a CPU; the last bits depend on it [default: torch's own]")
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
def train_command(
    run: Path, out: Path, changes: tuple[str, ...], order: Path | None, size: str | None, untied: bool, compile_: bool,
    validation: str | None, start: Path | None, resume: bool, export: str | None, device: str, threads: int, quiet: bool,
    as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Train a small Llama-like model on RUN, along the path that `typecase trace` shows.

    RUN is a run file (.toml or .json) with the settings of a framework, or a token set: then --set gives an order, --order
    names one, and without either it is typecase's own. `set@` is a token set as its journal says.
    """
    sizes = {name: given.pop(name) for name in _SIZES} | ({"tied": False} if untied else {})
    plan = {**given, "compile": compile_}
    watched = None if quiet or as_json or not training.speaks() else Watched()
    try:
        made = training.train(
            _with_order(run, order), out, changes=_settings(run, order, changes), size=size or "", sizes=sizes, plan=plan,
            start=start, validation=validation, resume=resume, export=export, device=device, threads=threads,
            progress=watched.stepped if watched else None, begun=watched.begun if watched else None,
        )  # fmt: skip
    except KeyboardInterrupt as stopped:
        if not stopped.args:  # nothing is saved: told as every command tells it
            raise
        click.echo(str(stopped), err=True)
        sys.exit(_INTERRUPTED)
    finally:
        if watched:
            watched.ended()
    if training.speaks():
        answer(made, trained_lines(made), as_json)


def _with_order(run: Path, order: Path | None) -> Path:
    """The run file that says the order, else what was given."""
    if order is not None and run.suffix in (".toml", ".json"):
        raise BadQuery(f"{run} is a run file and has an order of its own: give a token set with --order, or no --order")
    return order or run


def _settings(run: Path, order: Path | None, changes: tuple[str, ...]) -> tuple[str, ...]:
    """The settings over the run file: with --order the data are those of RUN."""
    return changes if order is None else (*changes, f"data_path={run.resolve()}")
