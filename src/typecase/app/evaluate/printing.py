"""What evaluations look like on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from typecase.app.mix.printing import numeric_table
from typecase.core.learn.bootstrap import Interval
from typecase.core.perplexity import Perplexity

if TYPE_CHECKING:
    from typecase.app.evaluate.evaluating import Answered, Compared, Measured
    from typecase.train.evaluation.winning import WinRate

_MOST = 40


def measured_lines(told: Measured) -> list[str]:
    """Perplexity of all, then by source and by domain where there are several."""
    lines = [
        f"{told.model} on {told.data}",
        f"  window {told.window} tokens, moved on by {told.stride}; first token {told.first_token}",
    ]
    odd = {status: n for status, n in told.whole.statuses.items() if status != "ok"}
    rows = [
        ("", "documents", "tokens", "token-weighted", "geometric", "median", "published mean", "bits/byte"),
        _row("all", told.whole),
    ]
    for table in (told.by_source, told.by_domain):
        named = {name: one for name, one in table.items() if name}
        if len(named) > 1 or (named and "" in table):
            rows += [_row(name, one) for name, one in list(named.items())[:_MOST]]
    lines += [f"  {line}" for line in numeric_table(rows)]
    lines += [f"  {n:,} documents {status}" for status, n in odd.items()]
    return [*lines, "  compare bits/byte across tokenizers, never perplexities"]


def _row(name: str, one: Perplexity) -> tuple[str, ...]:
    figures = (one.token_weighted, one.geometric, one.median, one.published)
    cells = ["-" if value is None else f"{value:,.2f}" for value in figures]
    bits = "-" if one.bits_per_byte is None else f"{one.bits_per_byte:.4f}"
    return (name, f"{one.documents:,}", f"{one.tokens:,}", *cells, bits)


def answered_lines(told: Answered) -> list[str]:
    """A row for each task."""
    rows = [("", "items", "chance", "right", "right by byte", "bits/byte of the right ones")]
    for task in told.tasks.values():
        rows.append(
            (
                task.task,
                f"{task.items:,}",
                f"{task.chance:.3f}",
                span(task.accuracy),
                span(task.accuracy_by_byte),
                f"{task.bits_per_byte:.3f}",
            )
        )
    return [told.model, *(f"  {line}" for line in numeric_table(rows))]


def harness_lines(told: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A line for each metric of each task."""
    return [f"{task}: " + ", ".join(f"{name} {value:.4g}" for name, value in metrics.items()) for task, metrics in told.items()]


def winrate_lines(told: WinRate) -> list[str]:
    """The rate, what it is made of, and what is missing."""
    lines = [
        f"{told.first} against {told.second}, judged by {told.judge}",
        f"  win rate {span(told.rate)}  (win less lose {2 * told.rate.value - 1:+.3f})",
        f"  {told.wins:,} wins, {told.ties:,} ties, {told.losses:,} losses of {told.judged:,} judged in both orders",
    ]
    lines += [f"  {n:,} missing: {reason}" for reason, n in told.missing.items()]
    if not math.isnan(told.second_bias):
        lines.append(f"  the judge leans to what stands second by {told.second_bias:+.3f} (0 is even); both orders cancel it")
    return lines


def compared_lines(told: Compared) -> list[str]:
    """Both figures, their difference, and Student's interval."""
    d = told.difference
    lines = [
        f"{told.figure}, {told.seeds} seeds, {told.rows:,} rows",
        f"  first   {span(told.first, 4)}",
        f"  second  {span(told.second, 4)}",
        f"  first less second  {d.value:+.4f} [{d.low:+.4f} {d.high:+.4f}]  paired, over seeds and documents",
    ]
    if told.seeds > 1:
        lines.append(f"  over seeds alone   [{d.seed_low:+.4f} {d.seed_high:+.4f}]  Student's, of {told.seeds} differences")
    else:
        lines.append("  ! one seed: how much another seed would move it is not known")
    return lines


def span(interval: Interval, digits: int = 3) -> str:
    """A figure with its interval."""
    return f"{interval.value:.{digits}f} [{interval.low:.{digits}f} {interval.high:.{digits}f}]"
