"""What a person reads of a plan: a line a stage, the whole, disk, notes."""

from __future__ import annotations

from typecase.app.plan.planning import Planned
from typecase.app.printing import table

_UNITS = (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3))
_BYTES = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def plan_lines(found: Planned) -> list[str]:
    """A plan on one screen."""
    m, plan = found.machines, found.plan
    wish = f"{size(found.wish.amount)} {found.wish.unit}"
    lines = [f"{wish} at the end, on {m.machines:,} machines of {m.cores:,} cores, {m.efficiency:.0%} busy", ""]
    rows = [("stage", "documents in", "95 %", "out", "text in", "tokens out", "time", "core-hours", "model FLOPs")]
    for one in plan.stages:
        rows.append(
            (
                one.stage, size(one.documents_in), f"{size(one.low)} to {size(one.high)}", size(one.documents_out),
                size_bytes(one.bytes_in), size(one.tokens_out) if one.tokens_out is not None else "", span(one.seconds),
                f"{one.core_hours:,.1f}", f"{one.flops:.1e}" if one.flops else "",
            )
        )  # fmt: skip
    lines += table(rows)
    cost = f", cost {plan.cost:,.2f}" if m.price else ""
    lines += ["", f"in all {span(plan.seconds)}, {plan.core_hours:,.1f} core-hours{cost}; the most takes {plan.bottleneck}"]
    lines += [f"disk: {name} {size_bytes(amount)}" for name, amount in found.disk.items()]
    if found.training_flops is not None and found.parameters is not None:
        lines.append(f"to train {size(found.parameters)} weights on it once: {found.training_flops:.2e} FLOPs (6 N D)")
    sample = found.samples[0]
    lines += ["", f"measured on {sample.documents_in:,} documents, {size_bytes(sample.bytes_in)} of text"]
    return [*lines, *(f"  - {note}" for note in found.notes)]


def size(number: float) -> str:
    """1234567 as 1.23M."""
    for letter, scale in _UNITS:
        if number >= scale:
            return f"{number / scale:.3g}{letter}"
    return f"{number:,.0f}"


def size_bytes(number: float) -> str:
    """1234567 as 1.23 MB."""
    for letters, scale in _BYTES:
        if number >= scale:
            return f"{number / scale:.3g} {letters}"
    return f"{number:,.0f} B"


def span(seconds: float) -> str:
    """Seconds as days, hours, minutes or seconds."""
    for name, scale in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * scale:
            return f"{seconds / scale:,.1f} {name}"
    return f"{seconds:.1f} s"
