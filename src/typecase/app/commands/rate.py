"""The command that rates documents, or says first what that would use."""

from __future__ import annotations

from pathlib import Path

import click

from typecase.app import verbs
from typecase.app.engines import Workers
from typecase.app.options import answer, out_option, reporter, work_options
from typecase.app.printing import artifact_lines, size
from typecase.errors import FixInput
from typecase.recipe.forecast import Forecast, forecast
from typecase.recipe.rate import Rate


@click.command(name="rate")
@click.argument("docs", type=click.Path(path_type=Path))
@out_option
@click.option(
    "--rater",
    default="starter",
    show_default=True,
    help="starter, weights (.npz), a folder or rater.toml, lm:MODEL of this machine, or http://host/v1#model.",
)
@click.option("--rubric", help="What to rate on, for a rater that can be asked about any: a name, or a TOML file.")
@click.option("--cache", type=click.Path(path_type=Path), help="File of answers: what was answered once is not asked again.")
@click.option("--limit", type=int, help="Rate the first so many documents by id, a sample as good as any.")
@click.option("--sample", help="Rate this share of the documents, such as 1%.")
@click.option("--dry-run", is_flag=True, help="Only say what it would use: documents, prompts, tokens, cost.")
@work_options
def rate_command(
    docs: Path,
    out: Path,
    rater: str,
    rubric: str | None,
    cache: Path | None,
    limit: int | None,
    sample: str | None,
    dry_run: bool,
    workers: Workers,
    quiet: bool,
    as_json: bool,
) -> None:
    """Score every document of DOCS: the rater's criteria, a domain, a confidence. The text is not touched.

    A language model takes the cores or the card of this machine for itself: leave --workers at 0. Killed, the same command
    goes on where it was.
    """
    stage = Rate(
        rater=rater,
        rubric=rubric,
        cache=str(cache.absolute()) if cache is not None else None,
        limit=limit,
        sample=_share(sample) if sample is not None else 1.0,
    )
    if dry_run:
        found = forecast(stage, docs)
        answer(found, forecast_lines(found), as_json)
        return
    made = verbs.make(stage, {"docs": docs}, out, workers=workers, reporter=reporter(quiet, as_json))
    codes = {k.removeprefix("code:"): n for k, n in made.manifest.counts.items() if k.startswith(("code:", "status:"))}
    answer(made, [*artifact_lines(made), *(f"  {number:>9,}  {code}" for code, number in codes.items())], as_json)


def forecast_lines(found: Forecast) -> list[str]:
    """A forecast for a person."""
    lines = [f"rate with {found.rater}: {found.documents:,} documents, {size(found.text_bytes)}; nothing was asked"]
    if found.prompt_tokens is None:
        return [*lines, "  this rater asks no language model"]
    lines.append(
        f"  {found.requests:,} prompts, {found.prompt_tokens:,} tokens, by {found.probed:,} documents that were counted"
    )
    if found.most_cost:
        lines.append(f"  costs {found.least_cost:,.4f} to {found.most_cost:,.4f} {found.currency} at the price in [model]")
    return lines


def _share(text: str) -> float:
    """`1%` or `0.01` as a share."""
    try:
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise FixInput(f"--sample is a share such as 1% or 0.01, got {text!r}") from None
