"""What a person reads of edits: before and after, all that they touch, the journal."""

from __future__ import annotations

from collections.abc import Sequence

from typecase.app.edit.editing import Changed, PlannedEdits
from typecase.app.printing import table
from typecase.store.journal.blast import BlastRadius
from typecase.store.journal.ledger import Entry

_SHOWN, _TOKENS = 8, 40


def planned_lines(planned: PlannedEdits) -> list[str]:
    """Before and after, then the blast radius."""
    lines = [f"{len(planned.edits):,} edits"]
    for change in planned.changes[:_SHOWN]:
        lines += [f"  {change.where}  ({change.asked})", *_sides(change)]
    if len(planned.changes) > _SHOWN:
        lines.append(f"  … and {len(planned.changes) - _SHOWN:,} more; --json gives all")
    return [*lines, *radius_lines(planned.radius), *(f"  no longer valid: {file}" for file in planned.stale)]


def _sides(change: Changed) -> list[str]:
    return [
        f"    {sign} {_shown(text, ids)}"
        for sign, text, ids in (("-", change.old_text, change.old), ("+", change.new_text, change.new))
        if ids
    ]


def _shown(text: str | None, ids: Sequence[int]) -> str:
    if text is not None:
        return repr(text if len(text) <= 160 else text[:157] + "…")
    return " ".join(map(str, ids[:_TOKENS])) + (" …" if len(ids) > _TOKENS else "")


def radius_lines(radius: BlastRadius) -> list[str]:
    """Everything that the edits touch, and the dangers that must be allowed."""
    lines = [f"touches {_some('document', radius.documents)}"]
    if radius.sightings is not None:
        lines.append(
            f"  in training: {_some('sample', radius.indices)}, {_some('step', radius.steps)},"
            f" {_some('rank', radius.ranks)}, {len(radius.epochs):,} epochs"
        )
        for shared in radius.shared[:_SHOWN]:
            samples = ", ".join(map(str, shared.indices))
            lines.append(f"  token {shared.token} of sequence {shared.sequence} is shared by samples {samples}")
    lines += [f"  no longer valid: {what}" for what in radius.invalid]
    lines += [f"  danger {d.code}: {d.text}" for d in radius.dangers]
    if radius.dangers:
        lines.append(f"  to go on: {' '.join(f'--allow {d.code}' for d in radius.dangers)}")
    return lines


def _some(what: str, numbers: Sequence[int]) -> str:
    shown = ", ".join(f"{n}" for n in numbers[:6]) + (" …" if len(numbers) > 6 else "")
    return f"{len(numbers):,} {what}s" + (f" ({shown})" if numbers else "")


def entry_lines(entries: Sequence[Entry], branch: str, applied: int) -> list[str]:
    """The journal, newest last."""
    rows = []
    for e in entries:
        about = f"{e.kind} of {', '.join(map(str, e.targets))}" if e.targets else e.kind
        mark = "in the .bin" if e.id == applied else ""
        length = "" if e.same_length else "other length"
        rows.append((str(e.id), e.time[:19], e.author, about, f"{e.num_edits:,} edits", length, e.reason, mark))
    head = f"branch {branch}" + ("" if entries else ": no edit yet")
    return [head, *(f"  {line}" for line in table(rows))]
