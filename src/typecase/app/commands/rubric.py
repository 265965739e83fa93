"""Commands about what documents are rated on, and how likely a model finds them: rubric list, show, derive; perplexity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from typecase.app import verbs
from typecase.app.derive import deriving
from typecase.app.engines import Workers
from typecase.app.options import answer, json_option, out_option, reporter, work_options
from typecase.app.printing import artifact_lines, size, table
from typecase.core.perplexity import Perplexity as Summary
from typecase.core.rating import Rubric
from typecase.core.tails import CONTROLS, Control
from typecase.lm.derive.deriving import Pruning
from typecase.lm.rate.rubric import builtin_rubrics, load_rubric, rubric_languages
from typecase.recipe.perplexity import NGRAM, Perplexity, read_perplexity, summaries_by_source, summary_of

PATH = click.Path(path_type=Path)
_PRUNING = Pruning()


@click.group(name="rubric")
def rubric_command() -> None:
    """What documents are rated on: the built-in rubrics, one of yours, or one derived from your documents."""


@rubric_command.command(name="list")
@json_option
def list_command(as_json: bool) -> None:
    """The rubrics that come with the package."""
    found = [load_rubric(name) for name in builtin_rubrics()]
    rows = [["name", "version", "scale", "criteria", "domains", "summary", "languages"]]
    for name, rubric in zip(builtin_rubrics(), found):
        numbers, spoken = [str(len(rubric.criteria)), str(len(rubric.domains))], " ".join(rubric_languages(name))
        rows.append([name, str(rubric.version), f"{rubric.low}..{rubric.high}", *numbers, rubric.summary or "", spoken])
    answer([_rubric_json(rubric) for rubric in found], table(rows), as_json)


@rubric_command.command(name="show")
@click.argument("rubric")
@click.option("--language", help="Worded in this language; by default in the rubric's own.")
@click.option("--anchors", is_flag=True, help="Also what each level means.")
@json_option
def show_command(rubric: str, language: str | None, anchors: bool, as_json: bool) -> None:
    """Show RUBRIC: the name of a built-in one or the path of a TOML file."""
    found = load_rubric(rubric, language)
    answer(_rubric_json(found), rubric_lines(found, anchors=anchors), as_json)


@rubric_command.command(name="derive")
@click.argument("docs", type=PATH)
@out_option
@click.option("--teacher", required=True, help="A language model (folder, .gguf, http://HOST/v1#MODEL), or post:FOLDER.")
@click.option("--perplexity", default=NGRAM, show_default=True, help="A perplexity artifact, ngram, or a language model.")
@click.option("--quantile", default=0.02, show_default=True, help="Share of each source in each tail.")
@click.option("--per", type=click.Choice(["byte", "token"]), default="byte", show_default=True, help="Nats by what.")
@click.option("--control", type=click.Choice(CONTROLS), default="bins", show_default=True, help="How length is held still.")
@click.option("--rounds", default=1, show_default=True, help="Documents without a kept cause are asked about again.")
@click.option("--step", type=click.Choice(deriving.STEPS), default="rubric", show_default=True, help="The last step to run.")
@click.option("--closeness", default=_PRUNING.closeness, show_default=True, help="Mean cosine that joins two clusters.")
@click.option("--support", default=_PRUNING.support, show_default=True, help="Fewest documents of a criterion.")
@click.option("--most", default=_PRUNING.most, show_default=True, help="Most criteria.")
@click.option("--ratings", type=PATH, help="Trial ratings by this rubric: of two criteria that correlate too well one goes.")
@click.option("--redundant", default=0.95, show_default=True, help="Correlation of trial ratings that is too good.")
@click.option("--id", "rubric_id", default="derived", show_default=True, help="Id of the rubric.")
@click.option("--rubric-version", default=1, show_default=True, help="Version of the rubric; raise it when criteria change.")
@click.option("--seed", default=0, show_default=True, help="Of the teacher's draws.")
@click.option("--keep-edits", is_flag=True, help="Keep files that were edited by hand although their ground has changed.")
@work_options
def derive_command(
    docs: Path, out: Path, teacher: str, perplexity: str, quantile: float, per: Any, control: Control, rounds: int,
    step: deriving.Step, closeness: float, support: int, most: int, ratings: Path | None, redundant: float, rubric_id: str,
    rubric_version: int, seed: int, keep_edits: bool, workers: Workers, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Derive a rubric from DOCS: which documents a model finds odd, why, and what that makes criteria of."""
    plan = deriving.Derivation(
        teacher=teacher,
        perplexity=perplexity,
        quantile=quantile,
        per=per,
        control=control,
        rounds=rounds,
        pruning=Pruning(closeness=closeness, support=support, most=most),
        redundant=redundant,
        rubric_id=rubric_id,
        version=rubric_version,
        seed=seed,
    )
    made = deriving.derive(
        docs, out, plan,
        until=step, ratings=ratings, keep_edits=keep_edits, workers=workers, reporter=reporter(quiet, as_json),
    )  # fmt: skip
    answer(made, derived_lines(made), as_json)


@click.command(name="perplexity")
@click.argument("docs", type=PATH)
@out_option
@click.option(
    "--model", default=NGRAM, show_default=True, help="ngram, or a language model (folder, .gguf, http://HOST/v1#MODEL)."
)
@click.option("--unit", type=click.Choice(["words", "bytes"]), default="words", show_default=True, help="Of the n-gram model.")
@click.option("--order", default=0, show_default=True, help="Of the n-gram model; 0: 3 for words, 6 for bytes.")
@click.option("--fit-bytes", default=Perplexity.fit_bytes, show_default=True, help="Text that the n-gram model is fitted on.")
@click.option("--reference", type=PATH, help="Fit the n-gram model on these documents, not on DOCS.")
@click.option("--window", default=0, show_default=True, help="Tokens a language model sees; 0: what it holds, at most 2048.")
@click.option("--stride", default=0, show_default=True, help="Tokens by which the window moves on; 0: half of it.")
@work_options
def perplexity_command(
    docs: Path, out: Path, model: str, unit: Any, order: int, fit_bytes: int, reference: Path | None, window: int, stride: int,
    workers: Workers, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """How likely a model finds every document of DOCS: nats, tokens and bytes of each, and what they come to."""
    stage = Perplexity(model=model, unit=unit, order=order, fit_bytes=fit_bytes, window=window, stride=stride)
    given = {"docs": docs} | ({"reference": reference} if reference else {})
    made = verbs.make(stage, given, out, workers=workers, reporter=reporter(quiet, as_json))
    whole, by_source = summary_of(read_perplexity(out)), summaries_by_source(out, docs)
    value = {"artifact": made, "perplexity": whole, "sources": by_source}
    answer(value, [*artifact_lines(made), *perplexity_lines(whole, by_source)], as_json)


def rubric_lines(rubric: Rubric, *, anchors: bool) -> list[str]:
    """A rubric as tables, in its language."""
    language = rubric.language
    summary = f", summary {rubric.summary}" if rubric.summary else ""
    lines = [f"{rubric.id} {rubric.version}: {rubric.low}..{rubric.high}{summary}, fingerprint {rubric.fingerprint}", ""]
    if anchors:
        for one in rubric.criteria:
            lines += [f"{one.id}  {one.name(language)}: {one.question}"]
            lines += [f"  {level}  {text}" for level, text in sorted(one.anchors.items())]
    else:
        lines += table([("criterion", "name", "question"), *((c.id, c.name(language), c.question) for c in rubric.criteria)])
    if rubric.domains:
        lines += ["", *table([("domain", "letter", "name"), *((d.id, d.letter, d.name(language)) for d in rubric.domains)])]
    return lines


def perplexity_lines(whole: Summary, by_source: Mapping[str, Summary]) -> list[str]:
    """All aggregates side by side; the headline first."""
    if whole.token_weighted is None:
        return [f"  no document could be scored: {_statuses(whole)}"]
    lines = [f"perplexity {whole.token_weighted:,.2f} (token-weighted)  {whole.bits_per_byte:.3f} bits a byte"]
    rows = [["source", "documents", "text", "token-weighted", "geometric", "median", "arithmetic (published)", "bits/byte"]]
    for name, one in [("all", whole), *(by_source.items() if len(by_source) > 1 else ())]:
        values = (one.token_weighted, one.geometric, one.median, one.published)
        shown = ["-" if value is None else f"{value:,.2f}" for value in values]
        bits = "-" if one.bits_per_byte is None else f"{one.bits_per_byte:.3f}"
        rows.append([name, f"{one.documents:,}", size(one.bytes), *shown, bits])
    lines += [f"  {line}" for line in table(rows)]
    return [*lines, f"  {_statuses(whole)}"] if len(whole.statuses) > 1 else lines


def derived_lines(made: deriving.Derived) -> list[str]:
    """What became of each file, and the report on one screen."""
    lines = [f"derive -> {made.folder}", *(f"  {note}" for note in made.notes)]
    report = made.report
    if not report:
        return [*lines, "  look through the last file, edit it if you like, and run the same command without --step"]
    tails, clusters, redundancy = report["tails"], report["clusters"], report["redundancy"]
    sizes = [f"{name} {one['low']} low {one['high']} high" for name, one in tails.items()]
    lines += [f"  tails: {', '.join(sizes)}"]
    lines += [f"  causes: {', '.join(f'{code} {number}' for code, number in report['codes'].items())}"]
    lines += [f"  clusters: {clusters['found']} found, {clusters['kept']} kept; coverage {report['coverage']:.0%} of the tails"]
    lines += [f"  {one} goes, {other} says the same" for one, other in report["redundant"].items()]
    shares = "  ".join(f"{share:.0%}" for share in redundancy["component_shares"][:6])
    lines += [f"  variance by component ({redundancy['basis']}): {shares}"]
    criteria = ", ".join(report["rubric"]["criteria"])
    return [*lines, f"rubric {report['rubric']['id']} {report['rubric']['version']}: {criteria}"]


def _rubric_json(rubric: Rubric) -> dict[str, Any]:
    fields = {name: getattr(rubric, name) for name in rubric.__dataclass_fields__}
    return {**fields, "fingerprint": rubric.fingerprint}


def _statuses(summary: Summary) -> str:
    return ", ".join(f"{status} {number:,}" for status, number in summary.statuses.items())
