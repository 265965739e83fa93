"""What refining leaves beside the texts: a row for every document, the dropped ones with their reason, and counts that add up.

    programs/   doc_id 0a… edited   remove_lines(line_start=0, line_end=1)    by rule line.nav 1, lines of the parent's text
    removed/    doc_id 7f… reason   doc.links

The rows of a document depend on that document alone, so they are the same however the corpus is divided into parts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pyarrow as pa

from typecase.core.lines import line_table
from typecase.core.program.language import show, text_hash
from typecase.core.program.proposal import Proposal
from typecase.core.program.resolve import APPLIED, VOID
from typecase.core.words import UNIT, units_of
from typecase.recipe.refine_propose import Settled
from typecase.store.documents import REMOVED_SCHEMA

PROGRAMS_SCHEMA: Final = pa.schema(
    [
        ("doc_id", pa.string()),
        ("source", pa.string()),
        ("program", pa.large_string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("num_statements", pa.int32()),
        ("removed_bytes", pa.int64()),
        ("removed_lines", pa.int64()),
        ("bytes_before", pa.int64()),
        ("bytes_after", pa.int64()),
        ("units_before", pa.int64()),
        ("units_after", pa.int64()),
        ("codes", pa.list_(pa.string())),
        ("provenance", pa.large_string()),
        ("text_hash", pa.string()),
        ("decision", pa.string()),
        ("scores", pa.string()),
        ("calls", pa.int32()),
        ("rejected", pa.int32()),
        ("refusals", pa.large_string()),
        ("answers", pa.large_string()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
    ]
)
"""`program` is canonical text, bound to the parent's text by `text_hash`; `status` is kept, edited, dropped, guarded or
refused, `reason` the rule or code behind the last three. `removed_bytes` and `removed_lines` are what the text lost;
`units_…` are length units (core.words), rounded down; a dropped document has 0 after. `codes` has the code of every
statement that was not run. `provenance` is a JSON list with, for each statement, [kind, name, version, verdict, start, stop,
confidence]: characters of the parent's text; it is empty where nobody signed the program.

What a refiner said is null where none was asked: `decision` (keep, drop, refused; null where it does not decide), `scores`
(JSON object), `calls` (chunks it was asked about), `rejected` of them that edit nothing, `refusals` (JSON list of [chunk, code,
message]; chunk -1 is the document, and its message the statement), `answers` (JSON list of [rows, truncated, raw])."""

SHORT_UNITS: Final = 200
"""A document with fewer units is short; the published distributions are cut there."""


@dataclass(slots=True)
class Notes:
    """What became of the documents of one row group, by column."""

    programs: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in PROGRAMS_SCHEMA.names})
    removed: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in REMOVED_SCHEMA.names})
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, doc_id: str, source: str, text: str, units: int, settled: Settled) -> None:
        """Takes note of one document; `units` are the twelfths of a unit that `text` has."""
        outcome = settled.outcome
        size, lost_bytes, lost_lines, after = len(text.encode()), 0, 0, units
        if outcome.changes:
            after = units_of(outcome.text)
            lost_bytes = size - len(outcome.text.encode())
            lost_lines = len(line_table(text)[0]) - (len(line_table(outcome.text)[0]) if outcome.status != "dropped" else 0)
        elif outcome.status == "dropped":
            after = 0
        row: dict[str, Any] = {
            "doc_id": doc_id,
            "source": source,
            "program": show(settled.program),
            "status": outcome.status,
            "reason": outcome.reason,
            "num_statements": len(settled.program.statements),
            "removed_bytes": lost_bytes,
            "removed_lines": lost_lines,
            "bytes_before": size,
            "bytes_after": size - lost_bytes,
            "units_before": units // UNIT,
            "units_after": after // UNIT,
            "codes": [v.code for v in outcome.verdicts if v.code not in (APPLIED, VOID)],
            "provenance": _provenance(settled),
            "text_hash": text_hash(text),
            **_said(settled),
        }
        for name, column in self.programs.items():
            column.append(row[name])
        if outcome.status == "dropped":
            for note, value in zip(self.removed.values(), (doc_id, outcome.reason, settled.detail), strict=True):
                note.append(value)
        self._count(settled, row)

    def _count(self, settled: Settled, row: dict[str, Any]) -> None:
        counts, outcome = self.counts, settled.outcome
        status = outcome.status
        counts["documents"] += 1
        counts["text_bytes"] += row["bytes_before"]
        counts[status] += 1
        for name in ("units_before", "units_after"):
            counts[name] += row[name]
        counts["bytes_after"] += row["bytes_after"]
        counts["short_before"] += row["units_before"] < SHORT_UNITS
        if status != "dropped":
            counts["bytes_after_documents"] += row["bytes_before"]
            counts["short_after"] += row["units_after"] < SHORT_UNITS
        if status == "edited":
            counts["removed_bytes"] += row["removed_bytes"]
            counts["removed_lines"] += row["removed_lines"]
        if status in ("edited", "dropped"):
            for statement, verdict in zip(settled.program.statements, outcome.verdicts, strict=True):
                if verdict.code == APPLIED:
                    counts[f"rule:{statement.origin.name}"] += 1
                    counts[f"op:{statement.name}"] += 1
        if status in ("guarded", "refused"):
            counts[f"{status}:{outcome.reason}"] += 1
        for code in row["codes"]:
            counts[f"code:{code}"] += 1
        if settled.said is not None:
            self._count_said(settled, settled.said, row)

    def _count_said(self, settled: Settled, said: Proposal, row: dict[str, Any]) -> None:
        self.counts["asked"] += 1
        for name in ("calls", "rejected", "tokens_in", "tokens_out"):
            self.counts[name] += row[name]
        if said.decided_in or said.decided_out:
            self.counts["decided_in"] += said.decided_in
            self.counts["decided_out"] += said.decided_out
        self.counts["truncated"] += sum(answer.truncated for answer in said.answers)
        if row["decision"]:
            self.counts[f"decision:{row['decision']}"] += 1
        for _, code, _ in settled.refusals:
            self.counts[f"refusal:{code}"] += 1


def _said(settled: Settled) -> dict[str, Any]:
    """The columns of what the refiner said; all null where it was not asked."""
    said = settled.said
    if said is None:
        return dict.fromkeys(
            ("decision", "scores", "calls", "rejected", "refusals", "answers", "tokens_in", "tokens_out"), None
        )
    return {
        "decision": decision_of(said),
        "scores": orjson.dumps(dict(said.scores)).decode(),
        "calls": len(said.answers),
        "rejected": said.rejected,
        "refusals": orjson.dumps(settled.refusals).decode(),
        "answers": orjson.dumps([[a.rows, a.truncated, a.raw] for a in said.answers]).decode(),
        "tokens_in": said.decided_in + sum(a.tokens_in for a in said.answers),
        "tokens_out": said.decided_out + sum(a.tokens_out for a in said.answers),
    }


def decision_of(said: Proposal) -> str | None:
    """keep, drop, refused where it should have decided and could not, None where it does not decide."""
    if said.decision is None:
        return None
    return ("drop" if said.drops else "keep") if hasattr(said.decision, "name") else "refused"


def _provenance(settled: Settled) -> str:
    statements = settled.program.statements
    if not any(s.origin.name for s in statements):
        return "[]"
    entries = [
        [s.origin.kind, s.origin.name, s.origin.version, v.code, v.start, v.stop, s.origin.confidence]
        for s, v in zip(statements, settled.outcome.verdicts, strict=False)
    ]
    return orjson.dumps(entries).decode()


@dataclass(slots=True)
class Tally:
    """What became of the documents of one part: narrow tables and counts."""

    programs: list[pa.Table] = field(default_factory=list)
    removed: list[pa.Table] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, notes: Notes) -> None:
        """Takes over the notes of a row group."""
        self.programs.append(pa.table(notes.programs, schema=PROGRAMS_SCHEMA))
        if notes.removed["doc_id"]:
            self.removed.append(pa.table(notes.removed, schema=REMOVED_SCHEMA))
        self.reasons.update(notes.removed["reason"])
        self.counts.update(notes.counts)
