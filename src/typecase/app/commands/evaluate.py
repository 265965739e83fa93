"""Commands that evaluate models: perplexity, items, tasks, harness, winrate, compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from typecase.app.evaluate import evaluating
from typecase.app.evaluate.printing import answered_lines, compared_lines, harness_lines, measured_lines, winrate_lines
from typecase.app.options import answer, json_option

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)


def model_options(command: F) -> F:
    """--tokenizer and --device of a model."""
    command = click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")(command)
    return click.option("--tokenizer", help="Where the model's own tokenizer is not found.")(command)


def out_option(command: F) -> F:
    return click.option("-o", "--out", type=PATH, help="Folder for the table and the JSON.")(command)


@click.group(name="evaluate")
def evaluate_command() -> None:
    """What a model is worth: MODEL is a run or checkpoint of `typecase train`, or a Hugging Face folder."""


@evaluate_command.command(name="perplexity")
@click.argument("model", type=PATH)
@click.argument("data")
@click.option("--ratings", type=PATH, help="Folder of ratings, for domains.")
@click.option("--stride", default=0, help="Tokens that a window moves on [default: half the context]")
@click.option("--documents", default=0, help="The first so many [default: all]")
@model_options
@out_option
@json_option
def perplexity_command(
    model: Path, data: str, ratings: Path | None, stride: int, documents: int, tokenizer: str | None, device: str,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Perplexity of DATA, a token set or documents, by source and domain, in every way that is in use."""
    told = evaluating.evaluate_perplexity(
        model, data, out=out, ratings=ratings, tokenizer=tokenizer, stride=stride, documents=documents, device=device
    )
    answer(told, measured_lines(told), as_json)


@evaluate_command.command(name="items")
@click.argument("data")
@click.option("--tokenizer", required=True, help="Reads DATA where it is a token set.")
@click.option("--cloze", default=0, help="Last words of sentences, at most one a document.")
@click.option("--copy", default=0, help="Words that came before.")
@click.option("--seed", default=0, show_default=True)
@click.option("-o", "--out", required=True, type=PATH, help="JSON lines.")
@json_option
def items_command(data: str, tokenizer: str, cloze: int, copy: int, seed: int, out: Path, as_json: bool) -> None:
    """Make tasks for tiny models out of held-out DATA, a token set or documents."""
    told = evaluating.make_items(data, out, tokenizer=tokenizer, cloze=cloze, copy=copy, seed=seed)
    answer(told, [f"{out}: " + ", ".join(f"{n} {task}" for task, n in told.items())], as_json)


@evaluate_command.command(name="tasks")
@click.argument("model", type=PATH)
@click.argument("items", type=PATH)
@model_options
@out_option
@json_option
def tasks_command(model: Path, items: Path, tokenizer: str | None, device: str, out: Path | None, as_json: bool) -> None:
    """Which choice of every item of ITEMS the model finds likeliest, plain and by byte."""
    told = evaluating.evaluate_tasks(model, items, out=out, tokenizer=tokenizer, device=device)
    answer(told, answered_lines(told), as_json)


@evaluate_command.command(name="harness")
@click.argument("model", type=PATH)
@click.argument("folder", type=PATH)
@click.option("--task", "tasks", multiple=True, help="A task of FOLDER; again for more [default: all]")
@click.option("--limit", type=int, help="Items of each task.")
@click.option("--fewshot", type=int, help="Examples before each item [default: as the task says]")
@model_options
@json_option
def harness_command(
    model: Path, folder: Path, tasks: tuple[str, ...], limit: int | None, fewshot: int | None, tokenizer: str | None,
    device: str, as_json: bool,
) -> None:  # fmt: skip
    """Run EleutherAI's lm-evaluation-harness on the task files of FOLDER; nothing is fetched."""
    told = evaluating.evaluate_harness(model, folder, tasks, limit=limit, fewshot=fewshot, tokenizer=tokenizer, device=device)
    answer(told, harness_lines(told), as_json)


@evaluate_command.command(name="winrate")
@click.argument("first")
@click.argument("second")
@click.argument("instructions", type=PATH)
@click.option("--judge", required=True, help="A model: http://host/v1#name, a folder, a hub id that lies here.")
@click.option("--max-tokens", default=256, show_default=True, help="Of a reply.")
@click.option("--form", default="{instruction}", show_default=True, help="What a model is given.")
@click.option("--margin", type=float, help="Within this of even it is a tie [default: 0.1]")
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def winrate_command(
    first: str, second: str, instructions: Path, judge: str, max_tokens: int, form: str, margin: float | None, seed: int,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """How often replies of FIRST are judged better than those of SECOND; both orders are asked.

    INSTRUCTIONS are JSON lines with `instruction` or `prompt`, or text with one a line.
    """
    told = evaluating.evaluate_winrate(
        first, second, judge, instructions, out=out, max_tokens=max_tokens, form=form, margin=margin, seed=seed
    )
    answer(told, winrate_lines(told), as_json)


@evaluate_command.command(name="compare")
@click.option("-a", "first", multiple=True, required=True, type=PATH, help="An evaluation of the first model; again for seeds.")
@click.option("-b", "second", multiple=True, required=True, type=PATH, help="Of the second, with the same seeds in order.")
@click.option("--task", default="", help="Compares the share of right items of this task [default: bits per byte]")
@click.option("--by", default="doc_id", show_default=True, type=click.Choice(["doc_id", "source", "domain"]))
@click.option("--resamples", default=1000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@json_option
def compare_command(
    first: tuple[Path, ...], second: tuple[Path, ...], task: str, by: str, resamples: int, seed: int, as_json: bool
) -> None:
    """Is one model better than another? A paired bootstrap over seeds and documents of evaluations made with -o."""
    told = evaluating.evaluate_compare(first, second, task=task, by=by, resamples=resamples, seed=seed)
    answer(told, compared_lines(told), as_json)
