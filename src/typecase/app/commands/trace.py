"""Commands over a training run: trace (at, when, plan) and sample."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
import orjson

from typecase.app.commands.trace_why import why_command
from typecase.app.options import answer, json_option, plain
from typecase.app.trace import tracing
from typecase.app.trace.printing import comparison_lines, plan_lines, sample_lines, sighting_lines
from typecase.errors import BadQuery
from typecase.store.picks import numbers
from typecase.store.timeline.timeline import open_timeline

F = TypeVar("F", bound=Any)
PATH = click.Path(path_type=Path)
SPLITS = click.Choice(["train", "valid", "test"])


def run_options(command: F) -> F:
    """RUN, --set, --split and --json of every command over a run."""
    command = click.argument("run", type=PATH)(command)
    command = click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="A setting, over those of RUN.")(
        command
    )
    command = click.option("--split", type=SPLITS, default="train", show_default=True)(command)
    return json_option(command)


@click.group(name="trace")
def trace_command() -> None:
    """Ask a training run: what a step saw, when something was seen, what it will see.

    RUN is a run file (.toml or .json) with the settings of the framework by their own names, or a token set with --set.
    """


@trace_command.command(name="at")
@run_options
@click.option("--step", type=int, required=True, help="Counted from 0: step 0 is iteration 1.")
@click.option("--rank", type=int, help="One data-parallel rank alone.")
@click.option("--tokenizer", help="Needed for text where the set has none of its own.")
@click.option("--tokens", "limit", default=60, show_default=True, help="Tokens shown of each sample.")
@click.option("--ids", is_flag=True, help="Show the token ids too.")
def at_command(
    run: Path, changes: tuple[str, ...], split: Any, step: int, rank: int | None, tokenizer: str | None, limit: int, ids: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Every sample of a step: its documents and token spans, source places, and text with borders marked."""
    most = None if as_json else limit
    shown = tracing.trace_at(run, step, rank=rank, split=split, changes=changes, tokenizer=tokenizer, limit=most)
    value = [one.sample.as_dict(one.text) for one in shown] if as_json else None
    answer(value, [] if as_json else sample_lines(shown, limit=limit, ids=ids), as_json)


@trace_command.command(name="when")
@run_options
@click.option("--doc", help="A document, as in `typecase show`.")
@click.option("--text", help="A text, as it stands in the documents.")
@click.option("--tokens", help="Token ids, with commas.")
@click.option("--member", default=0, show_default=True, help="The token set of --doc, in a blend.")
@click.option("--index", type=PATH, help="A search index: the text is found there instead of by reading the sets.")
@click.option("--tokenizer", help="Needed for text where the set has none of its own.")
def when_command(
    run: Path, changes: tuple[str, ...], split: Any, doc: str | None, text: str | None, tokens: str | None, member: int,
    index: Path | None, tokenizer: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Every step, sample, position and epoch that sees a document, a text, or a run of token ids."""
    ids = numbers(tokens) if tokens is not None else None
    found = tracing.trace_when(
        run, doc=doc, text=text, tokens=ids, member=member, index=index, split=split, changes=changes, tokenizer=tokenizer
    )
    answer(asdict(found) if as_json else None, [] if as_json else sighting_lines(found), as_json)


@trace_command.command(name="plan")
@run_options
@click.option("--by", multiple=True, default=("source", "domain"), show_default=True, help="Columns to group documents by.")
@click.option("--against", type=PATH, help="The run that was followed so far; needs --from.")
@click.option("--from", "step", type=int, help="The step at which RUN takes over from --against.")
@click.option("--changed-order", is_flag=True, help="Compare even though samples already trained differ.")
def plan_command(
    run: Path, changes: tuple[str, ...], split: Any, by: tuple[str, ...], against: Path | None, step: int | None,
    changed_order: bool, as_json: bool,
) -> None:  # fmt: skip
    """What a run trains on, before it does: epochs, repeats, waste, shares by source and domain.

    With --against, what RUN repeats and leaves out after another run was followed up to a step; it is an error when samples
    that were already trained are not the same.
    """
    if (against is None) != (step is None):
        raise BadQuery("--against and --from go together: the run that was followed, and up to which step")
    if against is not None and step is not None:
        compared = tracing.trace_compare(
            against, run, step=step, split=split, allow_changed_order=changed_order, changes=changes
        )
        answer(compared, comparison_lines(compared), as_json)
        return
    found = tracing.trace_plan(run, split=split, changes=changes, by=by)
    answer(found, plan_lines(found), as_json)


trace_command.add_command(why_command)


@click.command(name="sample")
@run_options
@click.option("--ids", "picks", help="Training indices: 7, 10:20, several with commas.")
@click.option("--steps", help="Steps, written likewise.")
@click.option(
    "--policy", help="random:100, every:1000, longest:10, top:10:overall_score, where:source=wiki, stratified:5:source …"
)
@click.option("--seed", default=0, show_default=True)
@click.option("-o", "--out", type=PATH, help="Write them to a file, in the format of its name.")
@click.option("--what", type=click.Choice(["text", "tokens", "both"]), default="both", show_default=True)
@click.option("--tokenizer", help="Needed for text where the set has none of its own.")
@click.option("--tokens", "limit", default=60, show_default=True, help="Tokens shown of each sample.")
def sample_command(
    run: Path, changes: tuple[str, ...], split: Any, picks: str | None, steps: str | None, policy: str | None, seed: int,
    out: Path | None, what: Any, tokenizer: str | None, limit: int, as_json: bool,
) -> None:  # fmt: skip
    """Training samples by index, step or policy: shown, or written with their ids, steps, documents and offsets."""
    with open_timeline(run, changes=changes, split=split) as timeline:
        total = timeline.num_samples
        chosen = tracing.batches(
            timeline,
            indices=np.array(numbers(picks, total)) if picks else None,
            steps=np.array(numbers(steps, timeline.num_steps)) if steps else None,
            policy=policy,
            seed=seed,
        )
        if out is not None:
            made = tracing.export_samples(timeline, chosen, out, what=what, tokenizer=tokenizer)
            answer(made, [f"{made.documents:,} samples, {made.tokens:,} tokens -> {', '.join(map(str, made.files))}"], as_json)
            return
        for batch in chosen:
            shown = list(tracing.shown(timeline, batch, tokenizer, limit=None if as_json else limit))
            if as_json:  # one line a sample, so that any number can be piped on
                for one in shown:
                    click.echo(orjson.dumps(plain(dict(one.sample.as_dict(one.text)))).decode())
            else:
                answer(None, sample_lines(shown, limit=limit, ids=False), as_json=False)
