"""What a person reads on a terminal: balances, summaries, trees. Plain text, aligned; JSON is made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from typecase.core.balance import Balance
from typecase.recipe.run import Artifact


def balance_lines(balance: Balance) -> list[str]:
    """The balance as one sum and a line for each reason."""
    lines = [
        f"in {balance.entered:,} = kept {balance.kept:,} + removed {balance.num_removed:,}"
        f" + quarantined {balance.num_quarantined:,}"
    ]
    for name, reasons in (("removed", balance.removed), ("quarantined", balance.quarantined)):
        for reason, number in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
            lines.append(f"  {name:<12}{number:>9,}  {reason}")
    return lines


def artifact_lines(artifact: Artifact) -> list[str]:
    """A stage's result: where it lies, its balance and its counts."""
    manifest = artifact.manifest
    state = "  (was there already)" if artifact.reused else ""
    lines = [f"{manifest.stage} -> {shown_path(artifact.folder)}{state}"]
    if manifest.balance is not None:
        lines += [f"  {line}" for line in balance_lines(manifest.balance)]
    if counts := counts_line(manifest.counts):
        lines.append(f"  {counts}")
    return lines


def counts_line(counts: Mapping[str, int]) -> str:
    """Documents, bytes of text and tokens, whichever are known."""
    parts = []
    if counts.get("text_bytes"):
        parts.append(f"text {size(counts['text_bytes'])}")
    if counts.get("tokens"):
        parts.append(f"{counts['tokens']:,} tokens")
    return ", ".join(parts)


def summary_lines(name: str, artifacts: Sequence[Artifact]) -> list[str]:
    """A finished recipe on one screen: a row for each stage, then where the results lie."""
    lines = [f"recipe {name}", "", f"  {'stage':<8}{'in':>9}{'kept':>9}{'removed':>9}{'quarant.':>9}{'text':>10}{'tokens':>11}"]
    for artifact in artifacts:
        b, counts = artifact.manifest.balance, artifact.manifest.counts
        if b is None:
            continue
        text = size(counts["text_bytes"]) if counts.get("text_bytes") else ""
        tokens = f"{counts['tokens']:,}" if counts.get("tokens") else ""
        numbers = "".join(f"{n:>9,}" for n in (b.entered, b.kept, b.num_removed, b.num_quarantined))
        lines.append(f"  {artifact.manifest.stage:<8}{numbers}{text:>10}{tokens:>11}")
    lines += ["", *reason_lines(artifacts), "", "results"]
    lines += [f"  {a.manifest.stage:<8}{shown_path(a.folder)}" for a in artifacts]
    return lines


def reason_lines(artifacts: Sequence[Artifact]) -> list[str]:
    """Why documents left, over all stages."""
    lines = ["why documents left"]
    for artifact in artifacts:
        balance = artifact.manifest.balance
        if balance is None:
            continue
        reasons = [(r, n, "") for r, n in balance.removed.items()] + [
            (r, n, " (quarantined)") for r, n in balance.quarantined.items()
        ]
        for reason, number, note in sorted(reasons, key=lambda item: (-item[1], item[0])):
            lines.append(f"  {artifact.manifest.stage:<8}{number:>6,}  {reason}{note}")
    return lines if len(lines) > 1 else ["no document left"]


def size(size_bytes: int) -> str:
    """Bytes in decimal units."""
    value = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def shown_path(path: Path) -> str:
    """A path as short as it can be said from here."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns aligned to the left, two blanks apart."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
