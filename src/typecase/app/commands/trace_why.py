"""Command `trace why`: the spike doctor."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from typecase.app.options import answer, json_option
from typecase.core.spikes.curve import LEAST, WINDOW
from typecase.errors import BadQuery

PATH = click.Path(path_type=Path)


@click.command(name="why")
@click.argument("run", type=PATH)
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="A setting, over those of RUN.")
@click.option("--losses", type=PATH, help="A run of `typecase train`, a .csv, .jsonl or .parquet of losses, or a training log.")
@click.option("--step", type=int, help="The step to look into; without it the highest spike of --losses.")
@click.option("--before", default=1, show_default=True, help="Steps before it that are looked at too.")
@click.option("--window", default=WINDOW, show_default=True, help="Steps that say what is usual.")
@click.option("--least", default=LEAST, show_default=True, help="Deviations that make a spike.")
@click.option("--step-column", help="The column of steps in --losses.")
@click.option("--loss-column", help="The column of losses in --losses.")
@click.option("--counts", type=PATH, help="A census of the corpus (audit corpus), to tell rare tokens.")
@click.option("--audit", type=PATH, help="A verdict in Parquet (audit report), to tell under-trained tokens.")
@click.option("--tokenizer", help="Needed for text where the set has none of its own.")
@click.option("--top", default=10, show_default=True, help="Suspects shown.")
@click.option("--seed", default=0, show_default=True, help="Of the ordinary samples that are compared with.")
@click.option("--drop", type=int, metavar="N", help="Take the first N suspects out of their token set.")
@click.option("--mask", type=int, metavar="N", help="Blot the first N suspects out; lengths and order stay.")
@click.option("--fill", type=int, help="The id that --mask fills with.")
@click.option("--member", type=int, help="Treat suspects of this token set of a blend alone.")
@click.option("--preview", is_flag=True, help="Show what --drop or --mask would touch; write nothing.")
@click.option("--allow", multiple=True, help="A danger that is wanted, by the code that is shown.")
@click.option("-o", "--out", type=PATH, help="Write the treated set as a new one, too.")
@json_option
def why_command(
    run: Path, changes: tuple[str, ...], losses: Path | None, step: int | None, top: int, drop: int | None, mask: int | None,
    fill: int | None, member: int | None, preview: bool, allow: tuple[str, ...], out: Path | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Which documents may have made the loss of a step jump: ranked, with the evidence; drop or mask them as a new version."""
    from typecase.app.spikes.doctor import Look, diagnose, with_text
    from typecase.app.spikes.printing import diagnosis_lines, treated_lines
    from typecase.app.spikes.treatment import How, treat
    from typecase.store.timeline.timeline import open_timeline

    if drop is not None and mask is not None:
        raise BadQuery("--drop and --mask are two ways: choose one")
    count = drop if drop is not None else mask
    if count is None and (out is not None or preview):
        raise BadQuery("--out and --preview go with --drop N or --mask N")
    if count is not None and count < 1:
        raise BadQuery(f"the first {count} suspects are none: give 1 or more")
    look = Look(**given)
    with open_timeline(run, changes=changes) as timeline:
        found = diagnose(timeline, losses, step=step, look=look)
        shown = with_text(timeline, found, top, look.tokenizer)
        lines = [] if as_json else diagnosis_lines(found, shown)
        value: dict[str, Any] = {**asdict(found), "suspects": [asdict(one) for one in shown]} if as_json else {}
        if count is not None:
            own = [one for one in found.suspects if member is None or one.document.member == member]
            how: How = "drop" if drop is not None else "mask"
            is_file = run.suffix in (".toml", ".json")
            done = treat(
                timeline, own[:count], how, fill=fill, run=run if is_file else None, out=out, preview=preview, allow=allow
            )
            lines += [] if as_json else treated_lines(done, how)
            value["treated"] = {
                "how": how, "radius": dict(done.planned.radius.as_dict()), "entry": done.entry and dict(done.entry.as_dict()),
                "written": done.written and asdict(done.written),
            }  # fmt: skip
    answer(value, lines, as_json)
