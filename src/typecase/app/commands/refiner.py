"""Commands over refiners: pairs to learn from, a fit, a card."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from typecase.app.fit import refiner_fitting, tagger_fitting
from typecase.app.fit.watching import watching
from typecase.app.options import answer, json_option
from typecase.app.printing import shown_path, table
from typecase.errors import BadQuery
from typecase.train.refiner_pairs import KINDS

PATH = click.Path(path_type=Path)
_LM_ONLY = ("model", "domain", "stages", "form", "budget", "max_tokens", "keeps", "rank", "epochs", "batch", "rate", "every",
            "patience", "held_out", "measured", "batch_tokens", "precision", "device")  # fmt: skip
_SETTINGS = {"model": "base"}


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


@refiner_command.command(name="pairs")
@click.option("-o", "--out", required=True, type=PATH, help="New folder for the pairs.")
@click.option("--twins", multiple=True, type=PATH, help="Pages with the lines that are no content: a file or folder of twins.")
@click.option("--texts", multiple=True, type=PATH, help="JSON lines {noisy, clean, source?}: aligned, deletions alone.")
@click.option("--log", multiple=True, type=PATH, help="JSON lines {text, injected: [[start, stop], …], source?}.")
@click.option("--rules", multiple=True, type=PATH, help="A folder of documents: what the rules of the base install would do.")
@click.option("--run", multiple=True, type=PATH, help="A folder that `refine` made: what its refiner said, a teacher's too.")
@json_option
def pairs_command(out: Path, as_json: bool, **given: tuple[Path, ...]) -> None:
    """Make pairs of text and program to teach a language model with, out of any evidence there is."""
    evidence = [(kind, path) for kind in KINDS for path in given[kind]]
    made = refiner_fitting.make_pairs(evidence, out)
    counts, balance = made.manifest.counts, made.manifest.balance
    assert balance is not None
    lines = [
        f"pairs -> {shown_path(out)}",
        f"  {balance.entered:,} in = {balance.kept:,} kept + {balance.num_removed:,} left out",
    ]
    lines += [f"  {counts[kind]:,} of {kind}" for kind in KINDS if counts[kind]]
    lines += [f"  left out {number:,}  {reason}" for reason, number in balance.removed.items()]
    answer({"folder": str(out), "counts": counts, "balance": balance.as_dict()}, lines, as_json)


@refiner_command.command(name="fit")
@click.argument("evidence", type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="New folder for the refiner and its card.")
@click.option(
    "--kind",
    type=click.Choice([*tagger_fitting.REFINER_KINDS, "lm"]),
    default="tagger",
    show_default=True,
    help="A tagger needs no torch and minutes on one core; a language model learns from pairs.",
)
@click.option("--model", help="lm: a checkpoint; tiny or small, made on the spot [small]")
@click.option("--domain", help="lm: web, maths, code or general, for its name and card [general]")
@click.option("--stage", "stages", multiple=True, type=click.Choice(["document", "chunk"]), help="lm: what is taught [chunk]")
@click.option("--form", help="lm: the prompt's form [student]")
@click.option("--budget", type=int, help="lm: tokens of numbered rows in a chunk [700]")
@click.option("--max-tokens", type=int, help="lm: tokens of an answer [128]")
@click.option("--keeps", type=float, help="lm: examples with nothing to do, for each with something [1]")
@click.option("--lora", "rank", type=int, help="lm: rank of an update; without it every weight is trained.")
@click.option("--epochs", type=float, help="lm: times that the examples are shown [3]")
@click.option("--batch", type=int, help="lm: examples a step [16]")
@click.option("--rate", type=float, help="lm: highest learning rate [by the way of training]")
@click.option("--every", type=int, help="lm: steps between two scorings, each with a checkpoint [50]")
@click.option("--patience", type=int, help="lm: scorings without a better one that end the training; 0 never [5]")
@click.option("--held-out", type=int, help="lm: examples that choose the weights, at most [200]")
@click.option("--measured", type=int, help="lm: texts of the figures, at most [100]")
@click.option("--batch-tokens", type=int, help="lm: padded tokens that are computed at once [8192]")
@click.option("--precision", type=click.Choice(["auto", "float32", "bfloat16"]), help="lm: of the arithmetic [auto]")
@click.option("--device", help="lm: auto, cpu, cuda [auto]")
@click.option("--seed", default=1, show_default=True, help="Equal seeds give equal bytes.")
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
def fit_command(evidence: Path, out: Path, kind: str, seed: int, quiet: bool, as_json: bool, **given: Any) -> None:
    """Fit a refiner and measure it on generators or sources that it was not taught.

    EVIDENCE is for a tagger a folder with train.jsonl.zst and, for the figures, held.jsonl.zst: pages with the lines that are
    boilerplate; for a language model (--kind lm) a folder that `refiner pairs` wrote.
    """
    settings = {_SETTINGS.get(name, name): value for name, value in given.items() if value not in (None, ())}
    if kind == "lm":
        with watching("refiner fit", not quiet and not as_json) as watch:
            done = refiner_fitting.fit_lm(evidence, out, settings, seed=seed, watch=watch)
        answer(done, _lm_lines(done), as_json)
        return
    if foreign := [name for name in _LM_ONLY if _SETTINGS.get(name, name) in settings]:
        raise BadQuery(f"--{foreign[0].replace('_', '-')} is of a language model: give --kind lm with it")
    told = (lambda _: None) if quiet or as_json else (lambda line: print(line, file=sys.stderr, flush=True))
    made = tagger_fitting.fit_refiner(evidence, out, kind="tagger", seed=seed, report=told)
    answer(made, _lines(made), as_json)


def _lines(made: tagger_fitting.FittedRefiner) -> list[str]:
    lines = [f"{made.kind} -> {shown_path(made.folder)}", f"  fingerprint {made.fingerprint}"]
    lines += [f"  {shown_path(path)}" for path in made.files]
    if row := made.figures["all"]:
        held = made.figures["held"]
        lines += ["", f"on {held['pages']:,} pages of {len(held['generators'])} generators that it was not taught"]
        lines += [f"  {line}" for line in _row(row)]
    return [*lines, "", f"the whole card: typecase refiner card {shown_path(made.folder)}"]


def _lm_lines(made: refiner_fitting.FittedLMRefiner) -> list[str]:
    lines = [f"lm -> {shown_path(made.folder)}", f"  fingerprint {made.fingerprint}"]
    lines += [f"  best after step {made.best_step:,} of {made.steps:,}"]
    figures = made.figures
    lines += ["", f"on {figures['texts']:,} texts of {len(figures['sources'])} sources that it was not taught"]
    if row := figures.get("lines"):
        lines += [f"  {line}" for line in _row(row)]
        free = "" if figures["valid_free"] is None else f", asked freely {100 * figures['valid_free']:.1f} %"
        lines += [f"  programs {100 * (figures['valid'] or 0):.1f} % constrained{free}; exact {100 * figures['exact']:.1f} %"]
    if (row := figures.get("decisions")) and row["accuracy"] is not None:
        lines += [f"  keep or drop {100 * row['accuracy']:.1f} % right, always the most frequent {100 * row['majority']:.1f} %"]
    return [*lines, "", f"the whole card: typecase refiner card {shown_path(made.folder)}"]


def _row(row: Any) -> list[str]:
    shares = [f"{row[key]:.3f}" for key in ("precision", "recall", "f1")]
    shares += [f"{100 * row['over_deletion']:.2f} %", f"{100 * row['untouched']:.1f} %"]
    return table([["precision", "recall", "F1", "over-deletion", "untouched"], shares])
