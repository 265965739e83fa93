"""The command that analyses ratings: tables for a person, JSON for a machine, a report in a folder."""

from __future__ import annotations

from pathlib import Path

import click

from typecase.app.analyse.analysing import Analysis, SetFacts, analyse
from typecase.app.analyse.findings import findings_of
from typecase.app.analyse.page import Report, as_dict, check_report, write_report
from typecase.app.analyse.tables import sample_of
from typecase.app.options import answer, json_option, reporter
from typecase.app.printing import shown_path, table
from typecase.store.audit.files import visible

PATH = click.Path(path_type=Path)
_SHOWN_GROUPS = 10
_BLOCKS = "·▁▂▃▄▅▆▇█"


@click.command(name="analyse")
@click.argument("ratings", nargs=-1, required=True, type=PATH)
@click.option("--docs", type=PATH, help="The documents that the ratings are of; by default those they were made from.")
@click.option("--perplexity", type=PATH, help="A side table with doc_id, nll and tokens.")
@click.option("--language", help="Of names and questions: en or zh for the built-in rubrics.")
@click.option("--selection", type=PATH, help="A folder that select made: what it kept is compared with what there was.")
@click.option("--rubric", help="A built-in rubric or the path of one; by default the one that has these columns.")
@click.option(
    "--good", "good_from", type=float, help="The least level that counts as good; the middle of the scale if not given."
)
@click.option("--examples", default=2, show_default=True, help="Documents shown of each criterion, source and level.")
@click.option("--seed", default=0, show_default=True, help="Chooses the examples.")
@click.option("-o", "--out", type=PATH, help="Folder of a report: report.html, figures, data.")
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
def analyse_command(
    ratings: tuple[Path, ...],
    docs: Path | None,
    perplexity: Path | None,
    selection: Path | None,
    rubric: str | None,
    language: str | None,
    good_from: float | None,
    examples: int,
    seed: int,
    out: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """What ratings say of a corpus, and what the ratings are worth: distributions, correlations, sources, examples.

    RATINGS are folders that rate made, or JSON-lines files of ratings; the first is analysed in full, others beside it.
    """
    if out is not None:
        check_report(out)
    found = analyse(
        ratings,
        docs=docs,
        perplexity=perplexity,
        selection=selection,
        rubric=rubric,
        language=language,
        num_examples=examples,
        seed=seed,
        good_from=good_from,
        reporter=reporter(quiet, as_json),
    )
    made = write_report(found, out) if out is not None else None
    answer(as_dict(found) if as_json else None, analysis_lines(found, made), as_json)


def analysis_lines(found: Analysis, made: Report | None) -> list[str]:
    """The analysis on one screen."""
    first = found.sets[0]
    lines = [f"{visible(first.name)}: {sample_of(first)}, rubric {visible(first.rubric.id)} {first.rubric.version}", ""]
    lines += [f"  {line}" for line in _criteria(first)]
    for what, groups in (("source", first.sources), ("domain", first.domains)):
        if len(groups) > 1:
            rows = [(what, "documents", "good", "mean")]
            k = first.rubric.columns.index(first.rubric.summary) if first.rubric.summary is not None else 0
            for g in groups[:_SHOWN_GROUPS]:
                good = f"{g.good / g.judged:.0%}" if g.judged else ""
                rows.append((visible(g.name)[:40], f"{g.rows:,}", good, f"{g.means[k]:.2f}"))
            lines += ["", *(f"  {line}" for line in table(rows))]
            if len(groups) > _SHOWN_GROUPS:
                lines.append(f"  … and {len(groups) - _SHOWN_GROUPS:,} more: --json or -o")
    if len(found.sets) > 1:
        lines += ["", *(f"  {line}" for line in _beside(found))]
    lines += ["", *(f"  - {visible(finding)}" for finding in findings_of(first))]
    if made is not None:
        lines += ["", f"report -> {shown_path(made.page)}  ({len(made.figures)} figures, {len(made.tables)} tables)"]
    return lines


def _criteria(s: SetFacts) -> list[str]:
    rows = [("criterion", f"{s.rubric.low}..{s.rubric.high}", "mean", "dev.", "missing", "rho")]
    for c in s.criteria:
        name = f"{c.id} ({c.alias})" if c.alias else c.id
        top = max(c.levels, default=0) or 1
        bars = "".join(_BLOCKS[-(-n * 8 // top)] for n in c.levels)
        rho = c.spearman_with_summary.rho
        said = "constant" if c.constant else "" if rho != rho or c.id == s.rubric.summary else f"{rho:+.2f}"
        rows.append((visible(name), bars, f"{c.mean:.2f}", f"{c.variance**0.5:.2f}", f"{c.missing + c.outside:,}", said))
    return table(rows)


def _beside(found: Analysis) -> list[str]:
    rows = [("mean", *(visible(s.name) for s in found.sets))]
    for c in found.sets[0].criteria:
        means = [next((o.mean for o in s.criteria if o.id == c.id), None) for s in found.sets]
        rows.append((c.id, *("" if m is None else f"{m:.2f}" for m in means)))
    return table(rows)
