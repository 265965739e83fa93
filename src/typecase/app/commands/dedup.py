"""Commands that remove what is there twice: dedup (copies, near copies, repeated spans) and decontaminate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from typecase.app import verbs
from typecase.app.engines import Workers
from typecase.app.options import answer, out_option, reporter, work_options
from typecase.app.printing import artifact_lines
from typecase.errors import BadQuery, FixInput
from typecase.recipe.decontaminate import Decontaminate
from typecase.recipe.dedup import Dedup
from typecase.recipe.dedup_spans import DedupSpans
from typecase.recipe.run import Artifact
from typecase.recipe.stage import Stage

PATH = click.Path(path_type=Path)
SHOWN_SOURCES = 10


@click.command(name="dedup")
@click.argument("docs", type=PATH)
@out_option
@click.option("--near", type=float, help="Also near duplicates: similarity of word shingles, 0.8 say.")
@click.option("--normalize", is_flag=True, help="Texts that differ in white space or case alone are equal.")
@click.option("--keep", default="first", show_default=True, help="first, or a rating column: the best by it survives.")
@click.option("--ratings", type=PATH, help="Folder of ratings, for --keep.")
@click.option("--crowd", default=10, show_default=True, help="What so many documents share makes no two of them alike.")
@click.option("--alarm", default=0.5, show_default=True, help="Warn of sources that lose more than this share.")
@click.option("--fail-below", type=float, help="Fail when a source keeps less than this share of its documents.")
@click.option("--spans", type=int, metavar="K", help="Instead: repeated spans of K tokens or more; needs --index.")
@click.option("--index", type=PATH, help="Search index of the token set built from DOCS, for --spans.")
@click.option("--drop", type=float, help="With --spans: drop documents of which this share of tokens is repeated.")
@work_options
def dedup_command(
    docs: Path,
    out: Path,
    near: float | None,
    normalize: bool,
    keep: str,
    ratings: Path | None,
    crowd: int,
    alarm: float,
    fail_below: float | None,
    spans: int | None,
    index: Path | None,
    drop: float | None,
    workers: Workers,
    quiet: bool,
    as_json: bool,
) -> None:
    """Remove from DOCS what is there already: exact copies, near duplicates, or documents of repeated spans."""
    if spans is not None:
        others = {"--near": near, "--normalize": normalize or None, "--ratings": ratings, "--fail-below": fail_below}
        if wrong := [name for name, value in others.items() if value is not None]:
            raise BadQuery(f"--spans works on tokens and takes no {', '.join(wrong)}: run dedup once for each")
        if index is None:
            raise BadQuery("--spans needs the token set's search index: --index, made with `typecase index`")
        made = _made(DedupSpans(min_tokens=spans, drop=drop), {"docs": docs, "index": index}, out, workers, quiet, as_json)
        answer(made, [*artifact_lines(made), *_span_lines(made.manifest.decision or {})], as_json)
        return
    if index is not None or drop is not None:
        raise BadQuery("--index and --drop belong to --spans: say how many tokens a repeated span has")
    given = {"docs": docs} if ratings is None else {"docs": docs, "ratings": ratings}
    stage = Dedup(normalize=normalize, keep=keep, near=near, crowd=crowd, alarm=alarm)
    made = _made(stage, given, out, workers, quiet, as_json)
    decision = made.manifest.decision or {}
    answer(made, [*artifact_lines(made), *_near_lines(decision), *_source_lines(decision["by_source"], "duplicates")], as_json)
    for warning in decision["warnings"]:
        click.echo(click.style("warning: ", fg="yellow", bold=True) + warning, err=True)
    if fail_below is not None:
        _fail_below(decision["by_source"], fail_below, out)


@click.command(name="decontaminate")
@click.argument("docs", type=PATH)
@out_option
@click.option("--against", "against", type=PATH, required=True, multiple=True, help="Evaluation file; repeat for more.")
@click.option("--key", default="text", show_default=True, help="Field of a .jsonl row; several with commas are joined.")
@click.option("-n", default=13, show_default=True, help="Words or tokens of an n-gram.")
@click.option("--by", type=click.Choice(["words", "tokens"]), default="words", show_default=True)
@click.option("--tokenizer", help="For --by tokens.")
@click.option("--count", default=1, show_default=True, help="n-grams of one item that remove a document.")
@click.option("--share", default=0.0, show_default=True, help="And the share of that item's n-grams.")
@click.option("--shortest", default=8, show_default=True, help="Items of fewer units are not looked for.")
@click.option("--report-only", is_flag=True, help="Remove nothing; overlap/ tells what was found.")
@work_options
def decontaminate_command(
    docs: Path,
    out: Path,
    against: tuple[Path, ...],
    key: str,
    n: int,
    by: str,
    tokenizer: str | None,
    count: int,
    share: float,
    shortest: int,
    report_only: bool,
    workers: Workers,
    quiet: bool,
    as_json: bool,
) -> None:
    """Remove from DOCS what shares n-grams with evaluation files: lines of text, or rows of .jsonl."""
    if (by == "tokens") != (tokenizer is not None):
        raise BadQuery("--by tokens and --tokenizer belong together: give both, or neither for words")
    stage = Decontaminate(
        against=tuple(map(str, against)),
        key=key,
        n=n,
        tokenizer=tokenizer,
        count=count,
        share=share,
        shortest=shortest,
        remove=not report_only,
    )
    made = _made(stage, {"docs": docs}, out, workers, quiet, as_json)
    answer(made, [*artifact_lines(made), *_contamination_lines(made.manifest.decision or {})], as_json)


def _made(stage: Stage, given: Mapping[str, Path], out: Path, workers: Workers, quiet: bool, as_json: bool) -> Artifact:
    return verbs.make(stage, dict(given), out, workers=workers, reporter=reporter(quiet, as_json))


def _near_lines(decision: Mapping[str, Any]) -> list[str]:
    near = decision.get("near")
    if near is None:
        return []
    return [
        f"  near {near['similarity']:g}: {near['contents']:,} contents joined another; {near['candidates']:,} candidates,"
        f" {near['compared']:,} comparisons, {near['recall']:.1%} of pairs at the threshold meet"
    ]


def _source_lines(by_source: Mapping[str, Any], what: str) -> list[str]:
    """Sources that lost documents, the greatest share first."""
    lost = sorted((one["share"], name) for name, one in by_source.items() if one[what])[::-1]
    lines = [f"  {name}: {by_source[name][what]:,} of {by_source[name]['documents']:,} ({share:.1%})" for share, name in lost]
    more = len(lines) - SHOWN_SOURCES
    return lines if more <= 0 else [*lines[:SHOWN_SOURCES], f"  … and {more} more sources"]


def _span_lines(decision: Mapping[str, Any]) -> list[str]:
    share = decision["repeated_tokens"] / max(1, decision["tokens"])
    return [
        f"  {decision['repeated_tokens']:,} of {decision['tokens']:,} tokens ({share:.1%}) repeat earlier ones, in"
        f" {decision['stretches']:,} stretches of {decision['documents_with_repeats']:,} documents"
    ]


def _contamination_lines(decision: Mapping[str, Any]) -> list[str]:
    lines = [f"  {decision['contaminated']:,} of {decision['documents']:,} documents share too many {decision['unit']}"]
    for name, one in decision["by_file"].items():
        short = f", {one['too_short']:,} too short to look for" if one["too_short"] else ""
        lines.append(
            f"  {name}: {one['found']:,} of {one['items']:,} items found, {one['touched']:,} touched, in"
            f" {one['documents']:,} documents{short}"
        )
    return [*lines, *_source_lines(decision["by_source"], "contaminated")]


def _fail_below(by_source: Mapping[str, Any], least: float, out: Path) -> None:
    low = [f"{name} ({1 - one['share']:.1%})" for name, one in by_source.items() if 1 - one["share"] < least]
    if low:
        raise FixInput(
            f"fewer than {least:.0%} of their documents are left of {', '.join(low)}; the result lies in {out}: look at its"
            " removed/, and raise --near or lower --fail-below"
        )
