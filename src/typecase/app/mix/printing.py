"""What a mix looks like on a terminal: plans, laws, proposals, replies of a session. Plain text, aligned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from typecase.app.mix.law import FittedLaw, Proposed
from typecase.app.printing import table
from typecase.core.mixing.judging import Judged
from typecase.core.mixing.session import HELP, Reply
from typecase.core.mixing.shares import MixPlan


def plan_lines(plan: MixPlan) -> list[str]:
    """A plan: what there is, what is taken, epochs and repeats, what is left, and the warnings."""
    rows = [("", "available", "documents", "taken", "share", "epochs", "repeated", "left", "cap")]
    for row in plan.rows:
        g = row.group
        share = row.taken / plan.taken if plan.taken else 0.0
        cap = "" if row.cap is None else f"{float(row.cap):g}"
        numbers = (f"{g.tokens:,}", f"{g.documents:,}", f"{row.taken:,}", f"{share:.2%}", f"{float(row.epochs):.3f}")
        rows.append((g.name, *numbers, f"{row.repeated:,}", f"{row.left:,}", cap))
    total = sum(row.group.tokens for row in plan.rows)
    sums = (f"{total:,}", f"{sum(row.group.documents for row in plan.rows):,}", f"{plan.taken:,}", "", "")
    rows.append(("all", *sums, f"{sum(r.repeated for r in plan.rows):,}", f"{sum(r.left for r in plan.rows):,}", ""))
    lines = [f"mix of {plan.budget:,} tokens; numbers given in {plan.unit}"]
    lines += [f"  {line}" for line in numeric_table(rows)]
    if plan.largest is not None:
        lines.append(f"  with these shares every group stays within its cap up to {plan.largest:,} tokens")
    if plan.moved:
        lines.append(f"  {plan.moved:,} tokens were poured out by groups at their cap")
    return lines + [f"  ! {one}" for one in plan.warnings]


def law_lines(made: FittedLaw, out: str | None) -> list[str]:
    """How well each predictor ranks mixes that it was not fitted on."""
    where = f" -> {out}" if out else ""
    lines = [f"law of {len(made.domains)} domains and {len(made.targets)} targets{where}"]
    lines.append("  rank correlation on held-out proxies, 95 % interval")
    lines += judged_lines(made.judged, made.targets, None if made.ceiling is None else dict(zip(made.targets, made.ceiling)))
    if made.larger:
        lines.append("  rank correlation on the larger runs")
        lines += judged_lines(made.larger, made.targets, None)
    return lines + [f"  ! {one}" for one in made.warnings]


def judged_lines(judged: Sequence[Judged], targets: Sequence[str], ceiling: Mapping[str, float] | None) -> list[str]:
    """A row a target, a column a predictor."""
    names = list(dict.fromkeys(one.predictor for one in judged))
    by = {(one.target, one.predictor): one.rho for one in judged}
    rows = [("", *names, *(["noise ceiling"] if ceiling is not None else []))]
    for target in [*targets, *(["mean"] if ("mean", "law") in by and "mean" not in targets else [])]:
        cells = []
        for name in names:
            rho = by.get((target, name))
            known = rho is not None and not math.isnan(rho.value)
            cells.append(f"{rho.value:.3f} [{rho.low:.3f} {rho.high:.3f}]" if rho is not None and known else "-")
        if ceiling is not None:
            cells.append(f"{ceiling[target]:.3f}" if target in ceiling else "-")
        rows.append((target, *cells))
    return [f"    {line}" for line in table(rows)]


def proposal_lines(made: Proposed, out: str | None) -> list[str]:
    """The proposed mix, what it is predicted to reach beside the prior and the even mix, and its certificate."""
    rows = [("", "share", "tokens", "epochs", "held by")]
    for name, tokens in made.tokens.items():
        there = made.available.get(name)
        epochs = f"{tokens / there:.3f}" if there else "-"
        rows.append((name, f"{tokens / made.budget:.4f}", f"{tokens:,}", epochs, made.held.get(name, "")))
    lines = [f"proposed mix of {made.budget:,} tokens" + (f" -> {out}" if out else "")]
    lines += [f"  {line}" for line in numeric_table(rows)]
    losses = [("predicted loss", "this mix", "prior", "even")]
    for target, value in made.predicted.items():
        losses.append((target, f"{value:.4f}", f"{made.predicted_prior[target]:.4f}", f"{made.predicted_uniform[target]:.4f}"))
    lines += ["", *(f"  {line}" for line in numeric_table(losses)), ""]
    lines.append(f"  objective {made.value:.6f}; no allowed mix is better by more than {max(made.gap, 1e-16):.1e}")
    if made.reuse_gap is not None:
        lines.append(f"  with the kept ratios; without them it could be better by at most {made.reuse_gap:.2g}")
    return lines + [f"  ! {one}" for one in made.warnings]


def reply_lines(reply: Reply) -> list[str]:
    """A session's reply."""
    if reply.act == "refused":
        return [f"  ! {reply.text}"]
    if reply.act == "help":
        return [f"  {line}" for line in HELP]
    lines = plan_lines(reply.plan)
    if reply.predicted:
        lines.append("  predicted loss  " + "  ".join(f"{target} {loss:.4f}" for target, loss in reply.predicted.items()))
    return lines


def numeric_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column and a last one of words to the left, numbers to the right, two blanks apart."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines
