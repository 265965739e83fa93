"""Command `plan`: what a recipe takes for a corpus of a wished size."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from typecase.app.commands.recipe import Share
from typecase.app.options import answer, json_option
from typecase.app.plan.planning import make_plan
from typecase.app.plan.printing import plan_lines
from typecase.core.scaling import Machines
from typecase.core.selection.selection import Budget
from typecase.errors import BadQuery
from typecase.recipe.recipe import load_recipe


@click.command(name="plan")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--to", "wish", required=True, help="What is to come out: '1T tokens', '20B documents' or '5T bytes'.")
@click.option("--sample", type=Share(), default="100%", show_default=True, help="Share of the documents that is measured.")
@click.option("--workers", default=0, show_default=True, help="Processes of the measurement; 0 works in this one.")
@click.option("--machines", default=1, show_default=True, help="Machines that it is to run on.")
@click.option("--cores", default=64, show_default=True, help="Cores of each.")
@click.option("--price", default=0.0, show_default=True, help="Of an hour of one machine.")
@click.option("--busy", default=0.9, show_default=True, help="Share of the time that a core is busy.")
@click.option("--model-flops", type=float, help="FLOPs a second of all machines, for stages that ask a model of known size.")
@click.option("--train", "train", help="Weights of a model to be trained on the result, such as 7B: its FLOPs are told.")
@json_option
def plan_command(
    recipe: Path, wish: str, sample: float, workers: int, machines: int, cores: int, price: float, busy: float,
    model_flops: float | None, train: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Documents, bytes, tokens, time and cost of RECIPE for a wished size, from a measured sample; nothing large is touched."""
    try:
        own = Machines(machines, cores, price, busy, model_flops)
    except ValueError as error:
        raise BadQuery(str(error)) from None
    parameters = Budget.parse(train).amount if train is not None else None
    found = make_plan(load_recipe(recipe), Budget.parse(wish), own, sample=sample, workers=workers, parameters=parameters)
    value = {**asdict(found), "wish": {"amount": found.wish.amount, "unit": found.wish.unit}} if as_json else None
    answer(value, [] if as_json else plan_lines(found), as_json)
