"""Refine: documents in, edited documents out; every edit is a program that says who asked for it.

    survey   part k -> how many documents have each line and paragraph          (only with the rules "frequent")
    decide   the lines and paragraphs that many documents have
    work     part k -> part-0000k.parquet            the same rows with new text; id, source, place, meta as they were
                       removed/part-0000k.parquet    documents that a rule or the refiner drops: doc_id, reason, detail
                       programs/part-0000k.parquet   a row for every document: its program, outcome and provenance
    finish   lines/part-00000.parquet                what is frequent: hash and number of documents

Programs come from rules, from a refiner (the line tagger, a language model …), or from both: first the decision about the
document, then its edits, all in one plan. The parent keeps every text as it was, so a program and its parent re-make the
result, and any edit can be looked up: `provenance` names for each statement who proposed it, the verdict and the span. A
document is dropped by a named rule or refiner only; a program that would empty one, or take too much of it, is guarded and the
document stays.

What a refiner proposed is kept in the scratch folder batch by batch, and a run that was killed goes on with the batch it died
in. A refiner may name its `batch_docs`, None where it is so quick that nothing need be kept; else it is BATCH_DOCS. Batches are
cut by the part alone, so a run that was killed gives the bytes of one that was not, on any number of workers; and proposals
depend on the text alone (those of a language model up to rounding), so how documents are divided into parts does not matter.

Price: about 0.3 ms a document of 1.4 KB and core for the default rules, 0.4 ms more with Gopher's repetition rules, and the
refiner's own; one row group of text in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from typecase.core.balance import Balance
from typecase.core.lines import U64
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.proposal import Proposal
from typecase.core.rules.groups import DEFAULT, GROUPS, Rules
from typecase.core.rules.groups import Proposal as ByRules
from typecase.core.words import UNICODE, units_of_buffers
from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe
from typecase.lm.refine.refiner import Refiner
from typecase.recipe import refine_lines as lines
from typecase.recipe.refine_batches import Batches, Pulse
from typecase.recipe.refine_propose import Only, drops, settled, tidy
from typecase.recipe.refine_table import PROGRAMS_SCHEMA, Notes, Tally
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import atomic, shards
from typecase.store.documents import DOC_SCHEMA, REMOVED_SCHEMA, open_documents

BATCH_DOCS = 32
"""Documents that a refiner is asked about at a time, and that a kill may cost, where it does not say."""

LINES_SCHEMA = pa.schema([("hash", pa.uint64()), ("documents", pa.uint32())])
"""Frequent lines and paragraphs by the hash of their folded form (core.lines), and how many documents have them."""


@dataclass(frozen=True, kw_only=True)
class Refine(Stage):
    """Edits documents by rules, by a refiner, or by both.

    rules               names of groups of rules, see core.rules
    refiner             a refiner's name, file or folder, see lm.refiners; None asks none
    only                "document" drops documents and edits none, "chunk" edits and drops none; None does both
    guards              what a program may do at most, see core.program.guards
    tidy                blanks and lines that an edit leaves blank go, too, each named in the program; see core.program.tidy
    blank_lines         of blank lines in a row where lines were removed, how many may stay; None leaves them
    frequent_documents  a line is frequent when so many documents have it …
    frequent_share      … and this share of all documents
    """

    verb: ClassVar[str] = "refine"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    gives: ClassVar[str] = "docs"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow", "numpy")

    rules: tuple[str, ...] = DEFAULT
    refiner: str | None = None
    only: Only | None = None
    guards: GuardPolicy = STRICT
    tidy: bool = False
    blank_lines: int | None = None
    frequent_documents: int = 5
    frequent_share: float = 0.0002

    def __post_init__(self) -> None:
        if self.only not in (None, "document", "chunk"):
            raise BadRecipe(f"refine: only is 'document' or 'chunk', or left out for both; got {self.only!r}")
        if self.blank_lines is not None and (self.blank_lines < 0 or not self.tidy):
            raise BadRecipe(f"refine: blank_lines is a number of lines and goes with tidy=True; got {self.blank_lines}")

    def identity(self, engine: Engine) -> dict[str, Any]:
        Rules(rules_for(self.rules, self.only))
        Rules(self.rules)
        if self.frequent_documents < 2 or not 0 <= self.frequent_share <= 1:
            raise BadRecipe(
                f"a frequent line needs 2 documents or more and a share of 0 to 1, got {self.frequent_documents}"
                f" and {self.frequent_share:g}"
            )
        versions = {rule.id: rule.version for name in self.rules for rule in GROUPS[name]}
        found = {**super().identity(engine), "rule_versions": versions, "unicode": UNICODE}
        if self.refiner is not None:
            found["refiner"] = described(self.opened(self.refiner))
            if not engine.here:
                forget()  # each worker holds the model; this process does not work
        return found

    @property
    def holds_model(self) -> bool:
        return self.refiner is not None

    def opened(self, spec: str) -> Refiner:
        """The refiner `spec`, loaded once a process."""
        key = (open_refiner, spec, _stamp(spec))
        if key not in _loaded:
            forget()
            _loaded[key] = open_refiner(spec)
        return _loaded[key]

    @property
    def policy(self) -> GuardPolicy:
        """The guards of a run: programs that name one of several like strings (C4's marks, joined chunks) may do so."""
        return policy_for(self.rules, self.refiner is not None, self.guards, tidy=self.tidy)

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
        refiner = self.opened(self.refiner) if self.refiner is not None else None
        size: int | None = None if refiner is None else getattr(refiner, "batch_docs", BATCH_DOCS)
        desk = _Desk(self, refiner, frequent, Batches(scratch, index, size))
        refined = (desk.refined(table) for table in shards.read_groups(Path(part)))
        rows = shards.write_shard(out / name, refined, DOC_SCHEMA)
        files = {name: rows}
        for folder, tables, schema in (
            ("removed", desk.tally.removed, REMOVED_SCHEMA),
            ("programs", desk.tally.programs, PROGRAMS_SCHEMA),
        ):
            files[f"{folder}/{name}"] = shards.write_shard(out / folder / name, tables, schema)
        counts = desk.tally.counts
        return Report(files, Balance(counts["documents"], rows, dict(desk.tally.reasons)), {**_NO_DOCUMENTS, **counts})

    def finish(self, given: Given, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        if "frequent" not in self.rules:
            return Report()
        hashes = lines.load_frequent(scratch, decision["frequent_hash"])
        table = pa.table({"hash": hashes, "documents": np.load(scratch / "frequent.docs.npy")}, schema=LINES_SCHEMA)
        name = f"lines/{shards.part_name(0)}"
        return Report(files={name: shards.write_shard(out / name, [table], LINES_SCHEMA)})


def policy_for(rules: Sequence[str], refiner: bool, guards: GuardPolicy, *, tidy: bool = False) -> GuardPolicy:
    """`guards`, with `nth` and `of` allowed where rules, a refiner or tidying need them."""
    by_number = refiner or tidy or any(name.startswith("c4") for name in rules)
    return replace(guards, nth=True) if by_number else guards


_NO_DOCUMENTS = {"documents": 0, "text_bytes": 0}

_loaded: dict[Any, Refiner] = {}
"""The refiner of this process: one, for a model may take most of the memory."""


def open_refiner(spec: str) -> Refiner:
    """The refiner that `spec` names; its room is imported when it is wanted."""
    from typecase.lm.refine.refiners import open_refiner as opened

    found: Refiner = opened(spec)
    return found


def forget() -> None:
    """Lets go of the refiner of this process."""
    while _loaded:
        close = getattr(_loaded.popitem()[1], "close", None)
        if close is not None:
            close()


def described(refiner: Refiner) -> dict[str, Any]:
    """What the manifest says of a refiner; `parameters`, and `document_parameters` of a model of its own for documents, are
    what FLOPs are counted from, where it tells them."""
    told: dict[str, Any] = {"name": refiner.name, "version": refiner.version, "fingerprint": refiner.fingerprint}
    sizes = {name: getattr(refiner, name, None) for name in ("parameters", "document_parameters")}
    return told | {name: int(size) for name, size in sizes.items() if size is not None}


@dataclass(slots=True)
class _Row:
    doc_id: str
    source: str
    text: str
    units: int
    by_rules: ByRules | None


class _Desk:
    """Where the documents of one part are refined, in order; `tally` has what became of them."""

    def __init__(self, stage: Refine, refiner: Refiner | None, frequent: U64 | None, batches: Batches) -> None:
        self.stage, self.refiner, self.frequent, self.batches = stage, refiner, frequent, batches
        self.rules = Rules(rules_for(stage.rules, stage.only)) if stage.rules else None
        self.tally, self.pulse = Tally(), Pulse()

    def refined(self, table: pa.Table) -> pa.Table:
        """One row group with its new text, without the dropped rows."""
        texts: list[str] = []
        keep: list[bool] = []
        notes = Notes()
        rows, policy, only = self._rows(table), self.stage.policy, self.stage.only
        size = self.batches.size or max(1, len(rows))
        for at in range(0, len(rows), size):
            some = rows[at : at + size]
            for row, said in zip(some, self._said(some), strict=True):
                done = settled(row.text, row.by_rules, said, policy, only)
                if self.stage.tidy:
                    done = tidy(done, row.text, policy, self.stage.blank_lines)
                keep.append(done.outcome.status != "dropped")
                if keep[-1]:
                    texts.append(done.outcome.text)
                notes.add(row.doc_id, row.source, row.text, row.units, done)
            self._beat(notes)
        self.pulse += _pulse_of(notes)
        self.tally.add(notes)
        column = table.column_names.index("text")
        narrow = table.remove_column(column).filter(pa.array(keep, pa.bool_()))
        return narrow.add_column(column, DOC_SCHEMA.field("text"), pa.array(texts, pa.large_string()))

    def _rows(self, table: pa.Table) -> list[_Row]:
        ids, sources = table.column("doc_id").to_pylist(), table.column("source").to_pylist()
        rows: list[_Row] = []
        for chunk in table.column("text").chunks:
            some = self.frequent is not None and len(self.frequent) > 0
            flags = lines.frequent_flags(chunk, self.frequent) if some and self.frequent is not None else [None] * len(chunk)
            units = units_of_buffers(*shards.buffers_of(chunk)).tolist()
            for text, flag, length in zip(chunk.to_pylist(), flags, units, strict=True):
                at = len(rows)
                by_rules = None if self.rules is None else self.rules.propose(text, frequent=flag)
                rows.append(_Row(ids[at], sources[at], text, length, by_rules))
        return rows

    def _said(self, rows: Sequence[_Row]) -> Iterator[Proposal | None]:
        """What the refiner says of each row; it is not asked about one that a rule drops."""
        if self.refiner is None:
            return iter([None] * len(rows))
        spared = self.stage.only == "chunk"
        wanted = [row.by_rules is None or spared or not drops(row.by_rules.program) for row in rows]
        texts = [row.text for row, ask in zip(rows, wanted, strict=True) if ask]
        proposals = iter(self.batches.proposed(self.refiner, texts))
        return (next(proposals) if ask else None for ask in wanted)

    def _beat(self, notes: Notes) -> None:
        (self.pulse + _pulse_of(notes)).save(self.batches.scratch, self.batches.task)


def _pulse_of(notes: Notes) -> Pulse:
    counts = notes.counts
    return Pulse(counts["documents"], counts["documents"] - counts["dropped"], counts["text_bytes"], counts["bytes_after"])


_DECIDERS = ("document", "gopher_quality", "gopher_quality_scripts", "gopher_repetition", "fineweb", "fineweb_scripts")
"""Groups of rules that do nothing but drop documents; C4's do both."""


def rules_for(names: Sequence[str], only: Only | None) -> tuple[str, ...]:
    """The groups of `names` that have a part in the stage `only`; C4 cannot be asked for its lines alone."""
    if only != "chunk":
        return tuple(names)
    if mixed := [name for name in names if name.startswith("c4")]:
        raise BadRecipe(f"refine: the rules {mixed[0]} edit lines and drop documents; leave them out where only='chunk'")
    return tuple(name for name in names if name not in _DECIDERS)


def _stamp(spec: str) -> tuple[Any, ...]:
    """Changes when the files of a refiner change."""
    path = Path(spec)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file())
