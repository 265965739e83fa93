"""Commands over raters: fit one to an annotation set, print a card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from typecase.app.fit import fitting
from typecase.app.fit.watching import watching
from typecase.app.options import answer, json_option
from typecase.app.printing import shown_path, table
from typecase.errors import BadQuery

if TYPE_CHECKING:
    pass

PATH = click.Path(path_type=Path)
_LM_OPTIONS = {
    "model": "base",
    "lora": "rank",
    "alpha": "alpha",
    "form": "form",
    "system": "system",
    "window": "window",
    "long": "long",
    "epochs": "epochs",
    "batch": "batch",
    "rate": "rate",
    "sampling": "rule",
    "cap": "cap",
    "blank": "blank",
    "random": "random",
    "drawn": "drawn",
    "split_by": "split_by",
    "held_out": "held_out",
    "measured": "measured",
    "every": "every",
    "patience": "patience",
    "batch_tokens": "batch_tokens",
    "precision": "precision",
    "device": "device",
}
"""The options of a language model, and the settings that they are."""
_HEAD_OPTIONS = {"model": "encoder"}


@click.group(name="rater")
def rater_command() -> None:
    """Train a rater; print its model card."""


@rater_command.command(name="card")
@click.argument("rater", required=False, type=PATH)
@json_option
def card_command(rater: Path | None, as_json: bool) -> None:
    """Print the card of the starter rater, or of RATER, a folder: what it was taught, and how well it does."""
    card = fitting.rater_card(rater)
    answer({"card": card.text, "figures": card.figures}, card.text.splitlines(), as_json)


@rater_command.command(name="fit")
@click.argument("annotations", type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="New folder for the rater and its card.")
@click.option("--kind", type=click.Choice(list(fitting.KINDS)), default="starter", show_default=True, help="What is fitted.")
@click.option("--docs", type=PATH, help="The documents, where the annotations do not lead to them.")
@click.option("--source-key", help="Field of a document's meta that says what belongs together; else its source.")
@click.option("--rubric", default="dataman", show_default=True, help="Name of a built-in rubric, or the path of a TOML file.")
@click.option("--language", help="Of the rubric's wording in a prompt.")
@click.option(
    "--model", help="lm: a checkpoint; tiny or small, made on the spot [small]. head: minilm, none, a checkpoint [minilm]"
)
@click.option("--lora", type=int, help="Rank of an update; without it every weight is trained.")
@click.option("--alpha", type=float, help="Scale of the update [default: twice the rank]")
@click.option("--form", help="student, rubric_first, score_only or domain_only [default: student]")
@click.option("--system", help="The system's turn before each prompt, for a chat model.")
@click.option("--window", type=int, help="Tokens of a text that are shown at once [default: 1024]")
@click.option("--long", type=click.Choice(["window", "ends"]), help="Of a longer text: a window an epoch, or head and tail.")
@click.option("--epochs", type=float, help="Times that the documents are shown [default: 3]")
@click.option("--batch", type=int, help="Documents a step [default: 16]")
@click.option("--rate", type=float, help="Highest learning rate [default: by the way of training]")
@click.option("--sampling", type=click.Choice(["even", "plain", "dataman"]), help="How documents are drawn [default: even]")
@click.option("--cap", type=float, help="Of even sampling: the most that a document weighs, in least weights [default: 5]")
@click.option("--blank", type=float, help="Share of rows whose earlier answers are hidden; 1 is read in one pass.")
@click.option("--random", type=float, help="Share of rows whose earlier answers are random.")
@click.option("--drawn", is_flag=True, default=None, help="Levels between two are drawn anew each epoch.")
@click.option("--split-by", type=click.Choice(["source", "document"]), help="What is never divided [default: source]")
@click.option("--held-out", type=int, help="Documents that choose the weights, at most [default: 500]")
@click.option("--measured", type=int, help="Documents of the figures, at most [default: 5000]")
@click.option("--every", type=int, help="Steps between two scorings, each with a checkpoint [default: 50]")
@click.option("--patience", type=int, help="Scorings without a better one that end the training; 0 never [default: 5]")
@click.option("--batch-tokens", type=int, help="Padded tokens that are computed at once [default: 8192]")
@click.option("--precision", type=click.Choice(["auto", "float32", "bfloat16"]), help="Of the arithmetic [default: auto]")
@click.option("--device", help="auto, cpu, cuda [default: auto]")
@click.option("--seed", default=1, show_default=True, help="Equal seeds give equal bytes on one machine.")
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
def fit_command(
    annotations: Path,
    out: Path,
    kind: fitting.Kind,
    docs: Path | None,
    source_key: str | None,
    rubric: str,
    language: str | None,
    seed: int,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit a rater to ANNOTATIONS and measure it on documents and sources that it was not taught.

    ANNOTATIONS: a folder with ratings.jsonl and documents.jsonl, a folder of ratings that `typecase rate` made, or JSON
    lines with an id, a domain and a number for each criterion. Interrupt the training of a language model at will: the
    same command takes it up.
    """
    given = {name: value for name, value in options.items() if value is not None}
    known = {"lm": _LM_OPTIONS, "head": _HEAD_OPTIONS, "starter": {}}[kind]
    if foreign := next((name for name in given if name not in known), None):
        option = "--" + foreign.replace("_", "-")
        raise BadQuery(f"{option} belongs to --kind lm, a {kind} has no such setting: leave it out, or choose --kind lm")
    settings = {known[name]: value for name, value in given.items()}
    with watching("rater fit", kind == "lm" and not quiet and not as_json) as watch:
        made = fitting.rater_fit(
            annotations,
            out,
            kind=kind,
            rubric=rubric,
            language=language,
            docs=docs,
            source_key=source_key,
            seed=seed,
            lm=settings if kind == "lm" else None,
            head=settings if kind == "head" else None,
            watch=watch,
        )
    answer(made, _lines(annotations, made), as_json)


def _lines(annotations: Path, made: fitting.FittedRater) -> list[str]:
    """What was made, and the figures that say most."""
    lines = [f"{made.kind} rater -> {shown_path(made.folder)}", f"  fingerprint {made.fingerprint}"]
    lines += [f"  {shown_path(path)}" for path in made.files if path.parent == made.folder]
    if made.kind == "lm" and made.figures["criteria"]:
        figures = made.figures
        lines += ["", f"on {figures['documents']:,} documents of {figures['sources']:,} sources that it was not taught"]
        rows = [["", "accuracy", "majority", "rho"]]
        for name, row in figures["criteria"].items():
            rows.append([name, *(f"{row[key]:.2f}" for key in ("accuracy", "majority_accuracy", "rho"))])
        if (domain := figures["domain"]) is not None:
            rows.append(["domain", f"{domain['accuracy']:.2f}", f"{domain['majority_accuracy']:.2f}", ""])
        lines += [f"  {line}" for line in table(rows)]
    return [*lines, "", f"the whole card: typecase rater card {shown_path(made.folder)}"]
