"""The command that marks documents by the tokens that a model does not know: a side table for search and selection."""

from __future__ import annotations

from pathlib import Path

import click

from typecase.app.audit.rows import PATH
from typecase.app.engines import Workers
from typecase.app.options import answer, out_option, reporter, work_options
from typecase.app.verbs import make
from typecase.recipe.mark import Mark


@click.command(name="mark")
@click.argument("docs", type=PATH)
@out_option
@click.option(
    "--tokens", required=True, type=PATH, help="Verdict of audit report (.parquet), its ids.json, or a JSON list of ids."
)
@click.option("--tokenizer", required=True, help="The tokenizer that they are of.")
@click.option(
    "--decision", "decisions", multiple=True, default=("under_trained",), show_default=True, help="Which of a verdict."
)
@click.option("--ratings", type=PATH, help="Ratings of DOCS: their columns go along, so that one table has both.")
@work_options
def mark_command(
    docs: Path, out: Path, tokens: Path, tokenizer: str, decisions: tuple[str, ...], ratings: Path | None, workers: Workers,
    quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Count the under-trained tokens of each document of DOCS, as a table that search and select take for ratings.

    search INDEX TEXT --ratings OUT --where "under_trained_share < 0.001"; select DOCS --ratings OUT --score trained_share.
    """
    stage = Mark(tokens=str(tokens), tokenizer=tokenizer, decisions=decisions)
    given = {"docs": docs} if ratings is None else {"docs": docs, "ratings": ratings}
    made = make(stage, given, out, workers=workers, reporter=reporter(quiet, as_json))
    counts = made.manifest.counts
    share = counts["under_trained"] / max(1, counts["tokens"])
    lines = [
        f"{counts['documents']:,} documents, {counts['tokens']:,} tokens -> {made.folder}"
        + (" (made before)" if made.reused else ""),
        f"  {counts['under_trained']:,} of them ({share:.4%}) are on the list, in {counts['documents_marked']:,} documents",
    ]
    answer(made, lines, as_json)
