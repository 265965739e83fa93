"""Commands over refiners: fit one, print a card."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from typecase.app.fit import tagger_fitting
from typecase.app.options import answer, json_option
from typecase.app.printing import shown_path, table

PATH = click.Path(path_type=Path)


@click.group(name="refiner")
def refiner_command() -> None:
    """Train a refiner; print its card."""


@refiner_command.command(name="card")
@click.argument("refiner", required=False, type=PATH)
@json_option
def card_command(refiner: Path | None, as_json: bool) -> None:
    """Print the card of the shipped line tagger, or of REFINER, a folder: what it was taught, and how well it does."""
    card = tagger_fitting.refiner_card(refiner)
    answer({"card": card.text, "figures": card.figures}, card.text.splitlines(), as_json)


@refiner_command.command(name="fit")
@click.argument("seeds", type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="New folder for the refiner and its card.")
@click.option(
    "--kind",
    type=click.Choice(list(tagger_fitting.REFINER_KINDS)),
    default="tagger",
    show_default=True,
    help="What is fitted: a tagger needs no torch and minutes on one core.",
)
@click.option("--seed", default=1, show_default=True, help="Equal seeds give equal bytes.")
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
def fit_command(seeds: Path, out: Path, kind: tagger_fitting.RefinerKind, seed: int, quiet: bool, as_json: bool) -> None:
    """Fit a refiner to the twins in SEEDS and measure it on generators that it was not taught.

    SEEDS: a folder with train.jsonl.zst and, for the figures, held.jsonl.zst: pages with the lines that are boilerplate.
    """
    told = (lambda _: None) if quiet or as_json else (lambda line: print(line, file=sys.stderr, flush=True))
    made = tagger_fitting.fit_refiner(seeds, out, kind=kind, seed=seed, report=told)
    answer(made, _lines(made), as_json)


def _lines(made: tagger_fitting.FittedRefiner) -> list[str]:
    lines = [f"{made.kind} -> {shown_path(made.folder)}", f"  fingerprint {made.fingerprint}"]
    lines += [f"  {shown_path(path)}" for path in made.files]
    if row := made.figures["all"]:
        held = made.figures["held"]
        lines += ["", f"on {held['pages']:,} pages of {len(held['generators'])} generators that it was not taught"]
        rows = [["precision", "recall", "F1", "over-deletion", "untouched"]]
        shares = [f"{row[key]:.3f}" for key in ("precision", "recall", "f1")]
        rows.append([*shares, f"{100 * row['over_deletion']:.2f} %", f"{100 * row['untouched']:.1f} %"])
        lines += [f"  {line}" for line in table(rows)]
    return [*lines, "", f"the whole card: typecase refiner card {shown_path(made.folder)}"]
