"""What an ablation looks like on a terminal: a row for each arm, then tasks, correlations and warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from typecase.app.mix.printing import numeric_table
from typecase.app.printing import shown_path, table
from typecase.core.learn.bootstrap import Interval

if TYPE_CHECKING:
    from typecase.app.ablate.ablating import Ablated
    from typecase.core.statistics.correlations import Correlation
    from typecase.train.ablation.findings import ArmFinding, Findings
    from typecase.train.ablation.running import RunResult

_FEW_SEEDS = 5


def run_line(one: RunResult) -> str:
    """A finished run."""
    last = f"held-out loss {one.losses[-1]:.4f}" if one.losses else "not looked at"
    return f"{one.arm}, seed {one.seed}: {one.tokens:,} tokens, {last} nats a token"


def ablated_lines(made: Ablated) -> list[str]:
    """The whole ablation on a screen or two."""
    found = made.findings
    first = found.arms[0]
    lines = [
        f"ablation {found.name} -> {shown_path(made.out)}",
        f"  {len(found.arms)} arms x {len(found.seeds)} seeds, {found.parameters:,} weights, {first.tokens:,} tokens a run"
        f" ({first.flops:.3g} FLOPs); bits per byte of {found.held}, 95 % intervals over seeds and documents",
        "",
        *(f"  {line}" for line in numeric_table(arm_rows(found))),
    ]
    if any(arm.tasks for arm in found.arms):
        lines += ["", "  share of items answered right (plain; by byte), and less base"]
        lines += [f"  {line}" for line in table(task_rows(found))]
    if found.over_runs:
        lines += ["", "  bits per byte against the share of right items (a good model is low in one and high in the other)"]
        lines += [f"  {line}" for line in table(correlation_rows(found))]
    lines += ["", *(f"  ! {one}" for one in doubts(found))]
    if made.page is not None:
        lines.append(f"  {shown_path(made.page)}")
    return lines


def doubts(found: Findings) -> list[str]:
    """What a reader must know before believing the table."""
    said = []
    if len(found.seeds) < _FEW_SEEDS:
        said.append(
            f"{len(found.seeds)} seeds: intervals over seeds and documents are too narrow; Student's knows how few there are"
        )
    repeated = [arm.arm for arm in found.arms if arm.epochs > 1]
    if repeated and len({round(arm.epochs, 1) for arm in found.arms}) > 1:
        said.append(f"epochs differ: {', '.join(f'{arm.arm} {arm.epochs:.2f}' for arm in found.arms)}; repetition takes part")
    if len(found.arms) > 2:
        said.append(
            f"{len(found.arms) - 1} arms against one base: `together` is the interval that all hold at once (Bonferroni)"
        )
    return said


def arm_rows(found: Findings) -> list[Sequence[str]]:
    head = ("", "bits/byte", "rank", f"less {found.base}", "together", "Student", "epochs", "at its last loss", "compute")
    rows: list[Sequence[str]] = [head]
    for arm in found.arms:
        a = arm.against
        rows.append(
            (
                arm.arm,
                span(arm.bits_per_byte),
                f"{arm.rank[0]:.0f}-{arm.rank[1]:.0f}",
                "" if a is None else f"{a.value:+.4f} [{a.low:+.4f} {a.high:+.4f}]",
                "" if arm.together is None else f"[{arm.together[0]:+.4f} {arm.together[1]:+.4f}]",
                "" if a is None or math.isnan(a.seed_low) else f"[{a.seed_low:+.4f} {a.seed_high:+.4f}]",
                f"{arm.epochs:.2f}",
                _reached(arm),
                "" if arm.compute_factor is None else f"{arm.compute_factor:.2f} x",
            )
        )
    return rows


def _reached(arm: ArmFinding) -> str:
    return "never" if arm.reached is None else f"{arm.reached:,.0f} tokens, {arm.flops_reached:.2g} FLOPs"


def task_rows(found: Findings) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for arm in found.arms:
        for task in arm.tasks:
            a = task.against
            rows.append(
                (
                    arm.arm,
                    f"{task.task} ({task.items}, chance {task.chance:.2f})",
                    span(task.accuracy, 3),
                    span(task.accuracy_by_byte, 3),
                    "" if a is None else f"{a.value:+.3f} [{a.low:+.3f} {a.high:+.3f}]",
                )
            )
    return rows


def correlation_rows(found: Findings) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for over, tables in (("runs", found.over_runs), ("arms", found.over_arms)):
        for task, kinds in tables.items():
            rows.append((task, f"{kinds[0].rows} {over}", *(_correlation(one) for one in kinds)))
    return rows


def _correlation(one: Correlation) -> str:
    if math.isnan(one.value):
        return f"{one.kind} -"
    return f"{one.kind} {one.value:+.2f} [{one.low:+.2f} {one.high:+.2f}] p {one.chance:.3f}"


def span(interval: Interval, digits: int = 4) -> str:
    """A figure with its interval."""
    return f"{interval.value:.{digits}f} [{interval.low:.{digits}f} {interval.high:.{digits}f}]"
