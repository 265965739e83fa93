"""Refine: documents in, edited documents out; every edit is a program that says who asked for it.

    survey   part k -> how many documents have each line                       (only with the rules "frequent")
    decide   the lines that many documents have
    work     part k -> part-0000k.parquet            the same rows with new text; id, source, place, meta as they were
                       removed/part-0000k.parquet    documents that a rule drops: doc_id, reason, detail
                       programs/part-0000k.parquet   a row for every document: its program, outcome and provenance
    finish   lines/part-00000.parquet                the frequent lines: hash and number of documents

The parent keeps every text as it was, so a program and its parent re-make the result, and any edit can be looked up:
`provenance` names for each statement the rule, its version, the verdict and the span. A document is dropped by a named
rule only; a program that would empty one, or take too much of it, is guarded and the document stays.

Nothing depends on how documents are divided into parts, nor on workers. Price: about 0.3 ms a document of 1.4 KB and core
for the default rules, 0.4 ms more with Gopher's repetition rules; one row group of text in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa

from typecase.core.balance import Balance
from typecase.core.lines import U64, line_table
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.language import Program, show, text_hash
from typecase.core.program.run import Outcome, run
from typecase.core.rules.groups import DEFAULT, GROUPS, Rules
from typecase.core.words import UNICODE
from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe
from typecase.recipe import refine_lines as lines
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import atomic, shards
from typecase.store.documents import DOC_SCHEMA, REMOVED_SCHEMA, open_documents

PROGRAMS_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("program", pa.large_string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("num_statements", pa.int32()),
        ("removed_bytes", pa.int64()),
        ("removed_lines", pa.int64()),
        ("provenance", pa.large_string()),
        ("text_hash", pa.string()),
    ]
)
"""`program` is canonical text, bound to the parent's text by `text_hash`; `status` is kept, edited, dropped, guarded or
refused, `reason` the rule or code behind the last three. `removed_bytes` and `removed_lines` are what the text lost.
`provenance` is a JSON list with, for each statement, [kind, name, version, verdict, start, stop]: characters of the
parent's text."""

LINES_SCHEMA = pa.schema([("hash", pa.uint64()), ("documents", pa.uint32())])
"""Frequent lines by the hash of their folded form (core.lines), and how many documents have them."""


@dataclass(frozen=True, kw_only=True)
class Refine(Stage):
    """Edits documents by rules.

    rules               names of groups of rules, see core.rules
    guards              what a program may do at most, see core.program.guards
    frequent_documents  a line is frequent when so many documents have it …
    frequent_share      … and this share of all documents
    """

    verb: ClassVar[str] = "refine"
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    gives: ClassVar[str] = "docs"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow", "numpy")

    rules: tuple[str, ...] = DEFAULT
    guards: GuardPolicy = STRICT
    frequent_documents: int = 5
    frequent_share: float = 0.0002

    def identity(self, engine: Engine) -> dict[str, Any]:
        Rules(self.rules)
        if self.frequent_documents < 2 or not 0 <= self.frequent_share <= 1:
            raise BadRecipe(
                f"a frequent line needs 2 documents or more and a share of 0 to 1, got {self.frequent_documents}"
                f" and {self.frequent_share:g}"
            )
        versions = {rule.id: rule.version for name in self.rules for rule in GROUPS[name]}
        return {**super().identity(engine), "rule_versions": versions, "unicode": UNICODE}

    def check(self, given: Given) -> None:
        open_documents(given["docs"])

    def shards(self, given: Given) -> Sequence[tuple[int, str]]:
        return [(index, str(part)) for index, part in enumerate(open_documents(given["docs"]).parts)]

    def survey(self, given: Given, shard: tuple[int, str], scratch: Path) -> Summary:
        if "frequent" not in self.rules:
            return {}
        index, part = shard
        counts, documents, text_bytes = lines.count_lines(Path(part))
        files = lines.save_counts(counts, scratch, index)
        return {"documents": documents, "text_bytes": text_bytes, "files": files}

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        if "frequent" not in self.rules:
            return {}
        documents = sum(s["documents"] for s in summaries)
        at_least = lines.least_documents(documents, least=self.frequent_documents, share=self.frequent_share)
        files = [s["files"] for s in summaries] if documents >= lines.MIN_CORPUS else []
        hashes, counts = lines.merge_frequent(scratch, files, at_least=at_least)
        lines.save_array(scratch / lines.FREQUENT, hashes)
        lines.save_array(scratch / "frequent.docs.npy", counts)
        digest = atomic.content_hash(scratch / lines.FREQUENT)
        return {"documents": documents, "at_least": at_least, "frequent_lines": len(hashes), "frequent_hash": digest}

    def work(self, given: Given, task: tuple[int, str], decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        index, part = task
        name = shards.part_name(index)
        frequent = lines.load_frequent(scratch, decision["frequent_hash"]) if "frequent" in self.rules else None
        tally = _Tally()
        refined = (self._refined(table, frequent, tally) for table in shards.read_groups(Path(part)))
        rows = shards.write_shard(out / name, refined, DOC_SCHEMA)
        files = {name: rows}
        for folder, tables, schema in (
            ("removed", tally.removed, REMOVED_SCHEMA),
            ("programs", tally.programs, PROGRAMS_SCHEMA),
        ):
            files[f"{folder}/{name}"] = shards.write_shard(out / folder / name, tables, schema)
        counts = {"documents": tally.entered, "text_bytes": tally.text_bytes, **tally.counts}
        return Report(files=files, balance=Balance(tally.entered, rows, dict(tally.reasons)), counts=counts)

    def finish(self, given: Given, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        if "frequent" not in self.rules:
            return Report()
        hashes = lines.load_frequent(scratch, decision["frequent_hash"])
        table = pa.table({"hash": hashes, "documents": np.load(scratch / "frequent.docs.npy")}, schema=LINES_SCHEMA)
        name = f"lines/{shards.part_name(0)}"
        return Report(files={name: shards.write_shard(out / name, [table], LINES_SCHEMA)})

    def _refined(self, table: pa.Table, frequent: U64 | None, tally: _Tally) -> pa.Table:
        """One row group with its new text, without the dropped rows; `tally` takes note."""
        rules, guards = Rules(self.rules), self.guards
        if any(name.startswith("c4") for name in self.rules):
            guards = replace(guards, nth=True)
        texts: list[str] = []
        keep: list[bool] = []
        notes = _Notes()
        for doc_id, text, flags in _rows(table, frequent):
            proposal = rules.propose(text, frequent=flags)
            program = proposal.program
            outcome = run(program, text, guards)
            keep.append(outcome.status != "dropped")
            if keep[-1]:
                texts.append(outcome.text)
            notes.add(doc_id, text, program, outcome, proposal.detail)
        tally.add(notes)
        column = table.column_names.index("text")
        narrow = table.remove_column(column).filter(pa.array(keep, pa.bool_()))
        return narrow.add_column(column, DOC_SCHEMA.field("text"), pa.array(texts, pa.large_string()))


def _rows(table: pa.Table, frequent: U64 | None) -> Iterator[tuple[str, str, list[bool] | None]]:
    """Id, text and flags of frequent lines of every row."""
    at = 0
    for chunk in table.column("text").chunks:
        flags = lines.frequent_flags(chunk, frequent) if frequent is not None and len(frequent) else [None] * len(chunk)
        ids = table.column("doc_id").slice(at, len(chunk)).to_pylist()
        yield from zip(ids, chunk.to_pylist(), flags, strict=True)
        at += len(chunk)


@dataclass(slots=True)
class _Notes:
    """What became of the documents of one row group, by column."""

    programs: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in PROGRAMS_SCHEMA.names})
    removed: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in REMOVED_SCHEMA.names})
    text_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, doc_id: str, text: str, program: Program, outcome: Outcome, detail: str) -> None:
        lost_bytes, lost_lines, size = 0, 0, len(text.encode())
        if outcome.changes:
            lost_bytes = size - len(outcome.text.encode())
            lost_lines = len(line_table(text)[0]) - (len(line_table(outcome.text)[0]) if outcome.status != "dropped" else 0)
        row = (
            doc_id,
            show(program),
            outcome.status,
            outcome.reason,
            len(program.statements),
            lost_bytes,
            lost_lines,
            _provenance(program, outcome),
            text_hash(text),
        )
        for column, value in zip(self.programs.values(), row, strict=True):
            column.append(value)
        if outcome.status == "dropped":
            for note, value in zip(self.removed.values(), (doc_id, outcome.reason, detail), strict=True):
                note.append(value)
        self.text_bytes += size
        self._count(program, outcome, lost_bytes, lost_lines)

    def _count(self, program: Program, outcome: Outcome, lost_bytes: int, lost_lines: int) -> None:
        self.counts[outcome.status] += 1
        if outcome.status == "edited":
            self.counts["removed_bytes"] += lost_bytes
            self.counts["removed_lines"] += lost_lines
        if outcome.status in ("edited", "dropped"):
            for statement, verdict in zip(program.statements, outcome.verdicts, strict=True):
                if verdict.code == "applied":
                    self.counts[f"rule:{statement.origin.name}"] += 1


def _provenance(program: Program, outcome: Outcome) -> str:
    entries = [
        [s.origin.kind, s.origin.name, s.origin.version, v.code, v.start, v.stop]
        for s, v in zip(program.statements, outcome.verdicts, strict=True)
        if s.origin.name
    ]
    return orjson.dumps(entries).decode()


@dataclass(slots=True)
class _Tally:
    """What became of the documents of one part: narrow tables and counts."""

    programs: list[pa.Table] = field(default_factory=list)
    removed: list[pa.Table] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    entered: int = 0
    text_bytes: int = 0

    def add(self, notes: _Notes) -> None:
        self.programs.append(pa.table(notes.programs, schema=PROGRAMS_SCHEMA))
        if notes.removed["doc_id"]:
            self.removed.append(pa.table(notes.removed, schema=REMOVED_SCHEMA))
        self.reasons.update(notes.removed["reason"])
        self.counts.update(notes.counts)
        self.entered += len(notes.programs["doc_id"])
        self.text_bytes += notes.text_bytes
