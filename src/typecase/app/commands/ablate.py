"""The command ablate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from typecase.app.ablate import ablating
from typecase.app.ablate.printing import ablated_lines, run_line
from typecase.app.options import answer, out_option, reporter, work_options

if TYPE_CHECKING:
    from typecase.train.ablation.running import RunResult


@click.command(name="ablate")
@click.argument("ablation", type=click.Path(path_type=Path))
@out_option
@work_options
def ablate_command(ablation: Path, out: Path, workers: int, quiet: bool, as_json: bool) -> None:
    """Train one small model on several data recipes, with several seeds, at equal tokens; compare with intervals.

    ABLATION is a TOML file: [arms], [held], seeds, token_budget. Run again, it goes on where it ended. OUT/proxies.csv is what
    `typecase mix fit` reads.
    """

    def finished(one: RunResult) -> None:
        if not quiet and not as_json:
            click.echo(run_line(one), err=True)

    made = ablating.ablate(ablation, out, workers=workers, reporter=reporter(quiet, as_json), finished=finished)
    answer(made.findings, ablated_lines(made), as_json)
