"""Commands over recipes and what they made: run, why."""

from __future__ import annotations

from pathlib import Path

import click

from typecase.app import verbs
from typecase.app.engines import Workers
from typecase.app.options import answer, json_option, reporter, work_options
from typecase.app.printing import artifact_lines, fate_lines, summary_lines
from typecase.errors import BadQuery
from typecase.recipe.recipe import load_recipe
from typecase.recipe.why import tree_lines


class Share(click.ParamType[float]):
    """A share of the documents: 1% or 0.01."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            self.fail(f"{text!r} is not a share; write 1% or 0.01", param, ctx)


@click.command(name="run")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--work", default="work", show_default=True, type=click.Path(path_type=Path), help="Folder of all results.")
@click.option("--sample", type=Share(), default="100%", show_default=True, help="Share of the documents, chosen by their ids.")
@work_options
def run_command(recipe: Path, work: Path, sample: float, workers: Workers, quiet: bool, as_json: bool) -> None:
    """Run the recipe of a Python file end to end.

    What was finished before is kept; what changed is made anew. Interrupt it at will and run it again.
    """
    chosen = load_recipe(recipe)
    artifacts = verbs.run(
        chosen,
        work,
        sample=sample,
        workers=workers,
        reporter=reporter(quiet, as_json),
        finished=None if as_json or quiet else lambda a: click.echo("\n".join(artifact_lines(a)), err=True),
    )
    answer(artifacts, summary_lines(chosen.name, artifacts), as_json)


@click.command(name="why")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--doc", "doc_id", help="A doc_id: what became of it at every stage.")
@json_option
def why_command(path: Path, doc_id: str | None, as_json: bool) -> None:
    """Print the tree of parents of an artifact, or the fate of one document."""
    if doc_id is None:
        node = verbs.why(path)
        answer(node, tree_lines(node), as_json)
    else:
        if len(doc_id) != 32:
            raise BadQuery(f"{doc_id!r} has {len(doc_id)} digits; a doc_id has 32")
        told = verbs.fate(path, doc_id.lower())
        answer(told, fate_lines(doc_id, told), as_json)
