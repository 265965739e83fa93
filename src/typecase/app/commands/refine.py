"""The command that refines documents, and those that look at what it did: show, stats, diff, judge.

typecase refine DOCS -o OUT            is `typecase refine run DOCS -o OUT`: what is no subcommand is a folder of documents
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from typecase.app.engines import Workers
from typecase.app.options import answer, json_option, out_option, work_options
from typecase.app.printing import artifact_lines
from typecase.app.refine import refining
from typecase.app.refine.diff import difference
from typecase.app.refine.judge import Judging, open_judging
from typecase.app.refine.printing import difference_lines, document_lines, statistics_lines
from typecase.app.refine.stats import LOOK, statistics
from typecase.errors import BadQuery
from typecase.recipe.refine import Refine
from typecase.store.manifest import Manifest

PATH = click.Path(path_type=Path)
_KEYS = {"a": "accept", "r": "reject"}


class _DocumentsFirst(click.Group):
    """A group whose first word is a subcommand, or else an argument of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "DOCS -o OUT [OPTIONS] | COMMAND …")


@click.group(name="refine", cls=_DocumentsFirst)
def refine_command() -> None:
    """Write a refining program for every document and run it; see, compare and judge what was done.

    `typecase refine DOCS -o OUT` refines; its options are those of `typecase refine run --help`.
    """


@refine_command.command(name="run")
@click.argument("docs", type=PATH)
@out_option
@click.option("--rules", help="Rule sets, with commas, '' for none; by default the sound ones for mixed text.")
@click.option("--refiner", help="A refiner beside the rules: its name, file or folder.")
@click.option("--only", type=click.Choice(["document", "chunk"]), help="Drop documents and edit none, or edit and drop none.")
@click.option("--tidy", is_flag=True, help="Also remove what edits leave behind: a second blank, a line left blank.")
@click.option(
    "--blank-lines", type=click.IntRange(min=0), metavar="N", help="Tidy, and keep N blank lines in a row where lines went."
)
@work_options
def run_command(
    docs: Path,
    out: Path,
    rules: str | None,
    refiner: str | None,
    only: str | None,
    tidy: bool,
    blank_lines: int | None,
    workers: Workers,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a refining program for every document of DOCS and run it; programs and reasons are kept beside the texts.

    A language model takes the cores or the card of this machine for itself: leave --workers at 0. Killed, the same command
    goes on where it was.
    """
    stage = Refine(
        refiner=refiner,
        only="document" if only == "document" else "chunk" if only == "chunk" else None,
        tidy=tidy or blank_lines is not None,
        blank_lines=blank_lines,
    )
    if rules is not None:
        stage = replace(stage, rules=tuple(r.strip() for r in rules.split(",") if r.strip()))
    stream = None if quiet or as_json else sys.stderr
    made = refining.refine(stage, docs, out, workers=workers, stream=stream)
    answer(made, [*artifact_lines(made), *kept_lines(made.manifest)], as_json)


def kept_lines(manifest: Manifest) -> list[str]:
    """What is left, and where to look next."""
    counts = manifest.counts
    if not counts.get("documents") or not counts.get("text_bytes"):
        return []
    share = 100 * counts["bytes_after"] / counts["text_bytes"]
    documents = 100 * (counts["documents"] - counts.get("dropped", 0)) / counts["documents"]
    statuses = ", ".join(f"{counts[name]:,} {name}" for name in refining.STATUSES if counts.get(name))
    return [f"  {documents:.1f}% of documents and {share:.1f}% of bytes are left: {statuses}"]


@refine_command.command(name="show")
@click.argument("out", type=PATH)
@click.argument("ids", nargs=-1)
@click.option("--browse", type=int, metavar="N", help="The first N documents by id that were changed or held back: a sample.")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(refining.STATUSES), help="For --browse; may be given again."
)
@json_option
def show_command(out: Path, ids: tuple[str, ...], browse: int | None, statuses: tuple[str, ...], as_json: bool) -> None:
    """Show documents of the refined set OUT with their edits marked, and who proposed what.

    Piped, a removed line begins with "- ", a changed one with "~ ", one that a guard kept with "! ".
    """
    if not ids and browse is None:
        raise BadQuery("give the ids of documents, or --browse N for the first that were changed")
    run = refining.open_run(out)
    chosen = [*ids]
    if browse is not None:
        chosen += refining.ids_of(run, max(0, browse), statuses or ("edited", "dropped", "guarded", "refused"))
    shown = [refining.show_edited(run, one) for one in chosen]
    color = sys.stdout.isatty()
    lines: list[str] = []
    for one in [] if as_json else shown:
        lines += [*([""] if lines else []), *document_lines(one, color=color)]
    answer(shown, lines, as_json)


@refine_command.command(name="stats")
@click.argument("out", type=PATH)
@click.option("--top", default=10, show_default=True, help="Lines, strings and deletions to list.")
@click.option("--look", default=LOOK, show_default=True, help="Documents looked at for the lines and strings.")
@json_option
def stats_command(out: Path, top: int, look: int, as_json: bool) -> None:
    """What refining did to the corpus: kept by stage, source and length, programs, the largest deletions, the cost."""
    found = statistics(out, top=top, look=look)
    answer(found.as_dict(), [] if as_json else statistics_lines(found), as_json)


@refine_command.command(name="diff")
@click.argument("run_a", type=PATH)
@click.argument("run_b", type=PATH)
@click.option("--examples", default=5, show_default=True, help="Documents to show, those that differ most.")
@json_option
def diff_command(run_a: Path, run_b: Path, examples: int, as_json: bool) -> None:
    """Compare two refined sets of the same documents; RUN_B is the reference."""
    found = difference(run_a, run_b, examples=max(0, examples))
    answer(found.as_dict(), [] if as_json else difference_lines(found), as_json)


@refine_command.command(name="judge")
@click.argument("out", type=PATH)
@click.option(
    "-o", "--to", "path", required=True, type=PATH, help="File of verdicts, JSON lines; an existing one is continued."
)
@click.option("--who", default="person", show_default=True, help="Whose verdicts they are.")
@click.option("--documents", default=50, show_default=True, help="The first so many by id that were changed or held back.")
@json_option
def judge_command(out: Path, path: Path, who: str, documents: int, as_json: bool) -> None:
    """Accept or reject the programs of the refined set OUT, one by one; the verdicts are preference data."""
    session = open_judging(refining.open_run(out), path, who=who, documents=documents)
    _ask(session)
    progress = session.progress
    answer(progress, [f"{', '.join(f'{number} {name}' for name, number in progress.items())} -> {path}"], as_json)


def _ask(session: Judging) -> None:
    """One document after the other, a line of input each; the end of input stops as q does."""
    shown = ""
    while (one := session.current) is not None:
        if one.doc_id != shown:
            for line in document_lines(one, color=sys.stderr.isatty()):
                click.echo(line, err=True)
            shown = one.doc_id
        click.echo("a accept  r reject  s skip  u undo  q quit > ", nl=False, err=True)
        given = sys.stdin.readline()
        key = given.strip().lower()[:1]
        if not given or key == "q":
            break
        if key == "u":
            session.undo()
        elif key == "s":
            session.skip()
        elif key in _KEYS:
            session.answer(_KEYS[key])
    click.echo("", err=True)
