"""What an ablation leaves behind: JSON and CSV of everything, the table for `mix fit`, and a page with its figures.

The same findings give the same bytes; no clock takes part. Numbers are rounded to nine digits.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from typecase.app.options import plain
from typecase.core.learn.bootstrap import Interval
from typecase.errors import NeedsExtra
from typecase.store.atomic import write_bytes

if TYPE_CHECKING:
    from typecase.train.ablation.findings import ArmFinding, Findings
    from typecase.train.ablation.running import RunResult

FINDINGS, ARMS, CURVES, CORRELATIONS, PROXIES = "findings.json", "arms.csv", "curves.csv", "correlations.csv", "proxies.csv"


def write_all(
    out: Path, found: Findings, results: Sequence[RunResult], shares: Mapping[str, Mapping[str, float]]
) -> Path | None:
    """Writes every file into `out`; returns the page, None where charts cannot be drawn."""
    write_bytes(out / FINDINGS, orjson.dumps(rounded(plain(found)), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
    write_bytes(out / ARMS, as_csv(arm_rows(found)))
    write_bytes(out / CURVES, as_csv(curve_rows(results)))
    write_bytes(out / CORRELATIONS, as_csv(correlation_rows(found)))
    if shares:
        write_bytes(out / PROXIES, as_csv(proxy_rows(found, results, shares)))
    try:
        from typecase.app.ablate.page import write_page

        return write_page(out, found)
    except NeedsExtra:
        return None


def arm_rows(found: Findings) -> list[dict[str, Any]]:
    """A row for each arm."""
    return [_arm_row(arm) for arm in found.arms]


def _arm_row(arm: ArmFinding) -> dict[str, Any]:
    row: dict[str, Any] = {
        "arm": arm.arm,
        "tokens": arm.tokens,
        "flops": arm.flops,
        "unique_tokens": arm.unique_tokens,
        "epochs": arm.epochs,
        **_named("bits_per_byte", arm.bits_per_byte),
        "rank_low": arm.rank[0],
        "rank_high": arm.rank[1],
    }
    a = arm.against
    for name, value in (
        ("less_base", a and a.value), ("less_base_low", a and a.low), ("less_base_high", a and a.high),
        ("less_base_seed_low", a and a.seed_low), ("less_base_seed_high", a and a.seed_high),
        ("less_base_together_low", arm.together and arm.together[0]),
        ("less_base_together_high", arm.together and arm.together[1]),
    ):  # fmt: skip
        row[name] = value
    row |= {f"perplexity_{kind}": value for kind, value in arm.perplexity.items() if kind != "bits_per_byte"}
    for kind, table in (("source", arm.by_source), ("domain", arm.by_domain), ("held", arm.by_held)):
        row |= {f"bits_per_byte.{kind}.{name}": value for name, value in table.items()}
    row |= {"reached_tokens": arm.reached, "reached_flops": arm.flops_reached, "compute_factor": arm.compute_factor}
    for task in arm.tasks:
        row |= _named(f"{task.task}.accuracy", task.accuracy)
        row |= _named(f"{task.task}.accuracy_by_byte", task.accuracy_by_byte)
    return row


def curve_rows(results: Sequence[RunResult]) -> list[dict[str, Any]]:
    """A row for each look of each run: tokens, FLOPs, loss on the held-out samples in nats a token."""
    return [
        {"arm": one.arm, "seed": one.seed, "tokens": tokens, "flops": one.flops * tokens // one.tokens, "loss": loss}
        for one in results
        for tokens, loss in zip(one.looked, one.losses, strict=True)
    ]


def correlation_rows(found: Findings) -> list[dict[str, Any]]:
    """A row for each task, kind and sample (runs, arms)."""
    return [
        {"over": over, "task": task, **plain(one)}
        for over, table in (("runs", found.over_runs), ("arms", found.over_arms))
        for task, kinds in table.items()
        for one in kinds
    ]


def proxy_rows(
    found: Findings, results: Sequence[RunResult], shares: Mapping[str, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """A row for each run as `typecase mix fit` reads it: run, w.DOMAIN, loss.TARGET in bits per byte.

    Targets are the held sets, and the sources of the first of them where it has several.
    """
    from typecase.train.evaluation.documents import summaries_by, summary_of

    rows = []
    for one in results:
        if one.arm not in shares:
            continue
        row: dict[str, Any] = {"run": f"{one.arm}/{one.seed}"}
        row |= {f"w.{name}": share for name, share in shares[one.arm].items()}
        row |= {f"loss.{name}": summary_of(table).bits_per_byte for name, table in one.measured.items()}
        sources = summaries_by(one.measured[found.held], "source")
        if len(sources) > 1:
            row |= {f"loss.{found.held}/{name}": summary.bits_per_byte for name, summary in sources.items() if name}
        rows.append(row)
    return rows


def as_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as CSV, columns in the order in which they come; what is undefined is empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    for row in rows:
        table.writerow([_cell(row.get(name)) for name in columns])
    return text.getvalue().encode()


def rounded(value: Any) -> Any:
    """Plain values with numbers of nine digits; what is no number is None."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _named(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
