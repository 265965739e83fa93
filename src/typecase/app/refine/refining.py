"""refine, and how to look at what it did: open a run, and show one document of it as it was edited.

    run = open_run(folder)                  the run, the documents that it refined, the guards it ran under
    show_edited(run, doc_id)                the original's lines, kept, removed, changed or held back; who asked
    ids_of(run, 5, ("edited",))             the first documents by id: ids are hashes, so this is a sample

Nothing is stored twice: a stored program is run again on the parent's text, under the guards of the run, and gives the edits
that were made. A run is refused when its parent is gone or has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import orjson
import pyarrow.compute as pc

from typecase.app.engines import Workers, engine_of
from typecase.app.refine.progress import LiveReporter
from typecase.core.display import box, changed, facts, plain
from typecase.core.lines import line_table
from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import Program, show_statement
from typecase.core.program.parse import parse
from typecase.core.program.run import Outcome
from typecase.core.program.run import run as run_program
from typecase.errors import CorruptStore, FingerprintMismatch, NotFound, SchemaMismatch
from typecase.recipe.progress import Reporter
from typecase.recipe.refine import Refine, policy_for
from typecase.recipe.refine_propose import signed
from typecase.recipe.run import Artifact, prepare, run_prepared
from typecase.store import shards
from typecase.store.documents import DocumentStore, open_documents, row_of

STATUSES = ("edited", "dropped", "guarded", "refused", "kept")
_MOST_STATEMENTS = 2000


def refine(
    stage: Refine,
    docs: Path,
    out: Path,
    *,
    workers: Workers = 0,
    reporter: Reporter | None = None,
    stream: TextIO | None = None,
) -> Artifact:
    """Runs `stage` into `out`; with `stream` it says there how fast it is and what it keeps, document by document."""
    engine = engine_of(workers)
    prepared = prepare(stage, {"docs": docs}, engine)
    if stream is not None:
        reporter = LiveReporter(stream, out, prepared.fingerprint, open_documents(docs).num_documents)
    return run_prepared(prepared, out, engine=engine, reporter=reporter)


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run, the documents it refined, and its guards."""

    store: DocumentStore
    parent: DocumentStore
    policy: GuardPolicy

    @property
    def programs(self) -> tuple[Path, ...]:
        """The parts that hold a row for every document."""
        return self.store.side_parts("programs")


def open_run(folder: Path | str) -> Run:
    """Opens what `refine` made. Raises NotFound, SchemaMismatch when it is something else, FingerprintMismatch when the
    documents that it refined have changed."""
    store = open_documents(folder)
    manifest = store.manifest
    if manifest.stage != "refine":
        raise SchemaMismatch(f"{folder} was made by {manifest.stage}, not by refine: give the folder of a refined set")
    if manifest.version < Refine.version:
        raise SchemaMismatch(
            f"{folder} was made by an older typecase that kept less of its programs: refine again to look at it"
        )
    parent = manifest.parent("docs")
    assert parent is not None
    where = (store.folder / parent.path).resolve()
    if not where.is_dir():
        raise NotFound(f"{folder} was made from {where}, which is not there: the original texts are needed to show edits")
    documents = open_documents(where)
    if documents.manifest.content != parent.content:
        raise FingerprintMismatch(f"{where} has changed since {folder} was made from it: refine it again")
    params = dict(manifest.params)
    limits: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in params["guards"].items()}
    guards = GuardPolicy(**limits)
    return Run(
        store, documents, policy_for(params["rules"], params["refiner"] is not None, guards, tidy=params.get("tidy", False))
    )


def rerun(run: Run, text: str, row: dict[str, Any]) -> tuple[Program, Outcome]:
    """The program of a row, signed, and what it does to `text`, as it did in the run.

    Raises CorruptStore when the stored program cannot be read or now does something else.
    """
    program = parse(row["program"], text_hash=row["text_hash"])
    if not isinstance(program, Program):
        raise CorruptStore(f"{run.store.folder}: the program of {row['doc_id']} cannot be read ({program.message})")
    program = signed(program, orjson.loads(row["provenance"]))
    outcome = run_program(program, text, run.policy)
    if outcome.status != row["status"] and not (row["status"] == "refused" and outcome.text == text):
        raise CorruptStore(f"{run.store.folder}: {row['doc_id']} was {row['status']}, its program now gives {outcome.status}")
    return program, outcome


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a line: kept, removed, replaced by `target`, or held: a guard kept what a statement would have removed."""

    kind: str
    text: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class EditedLine:
    """A line of the original, in pieces; `kind` is kept, removed, changed or held."""

    number: int
    kind: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """One statement: who proposed it, how sure they were, and the verdict."""

    statement: str
    by: str
    version: str
    confidence: float
    verdict: str
    about: str


@dataclass(frozen=True, slots=True)
class EditedDocument:
    """A document as a run edited it. `refusals` are [chunk, code, message] of the refiner's answers, chunk -1 the document."""

    doc_id: str
    source: str
    status: str
    reason: str
    detail: str
    bytes_before: int
    bytes_after: int
    lines: tuple[EditedLine, ...]
    program: str
    statements: tuple[Said, ...]
    decision: str | None
    scores: dict[str, Any]
    calls: int | None
    rejected: int | None
    refusals: tuple[tuple[Any, ...], ...]
    text_hash: str

    def _repr_html_(self) -> str:
        """How a notebook shows it: removed and replaced pieces struck through, the program below."""
        known = {"source": self.source, "status": self.status, "reason": self.reason, "bytes left": self.bytes_after}
        lines = ("".join(map(_piece_html, line.pieces)) + "\n" for line in self.lines[:500])
        return facts(f"document {self.doc_id}", known) + box(*lines) + box(plain(self.program))


def show_edited(run: Run, doc_id: str) -> EditedDocument:
    """The document `doc_id` (or the only one whose id begins so) of the run. Raises NotFound, BadQuery, CorruptStore."""
    document = run.parent.get(doc_id)
    row = row_of(run.programs, document.id)
    if row is None:
        raise CorruptStore(f"{run.store.folder} has no program for {document.id}: `typecase doctor {run.store.folder}`")
    program, outcome = rerun(run, document.text, row)
    removed = row_of(run.store.side_parts("removed"), document.id) or {}
    verdicts = zip(program.statements, outcome.verdicts, strict=False)
    return EditedDocument(
        doc_id=document.id,
        source=document.source,
        status=row["status"],
        reason=row["reason"],
        detail=removed.get("detail", ""),
        bytes_before=row["bytes_before"],
        bytes_after=row["bytes_after"],
        lines=tuple(_lines(document.text, outcome)),
        program=row["program"],
        statements=tuple(
            Said(show_statement(s), s.origin.name, s.origin.version, s.origin.confidence, v.code, v.message)
            for s, v in verdicts
        ),
        decision=row["decision"],
        scores=orjson.loads(row["scores"]) if row["scores"] else {},
        calls=row["calls"],
        rejected=row["rejected"],
        refusals=tuple(tuple(r) for r in orjson.loads(row["refusals"])) if row["refusals"] else (),
        text_hash=row["text_hash"],
    )


def _piece_html(piece: Piece) -> str:
    if piece.kind == "kept":
        return plain(piece.text)
    return f"<u>{plain(piece.text)}</u>" if piece.kind == "held" else changed(piece.text, piece.target)


def ids_of(run: Run, number: int, statuses: Sequence[str] = STATUSES) -> list[str]:
    """The first `number` documents of these statuses, by id."""
    found: list[str] = []
    for part in run.programs:
        for table in shards.read_groups(part, ["doc_id", "status"]):
            mask = pc.is_in(table.column("status"), value_set=_array(statuses))
            found += table.filter(mask).column("doc_id").to_pylist()
            if len(found) >= number:
                return found[:number]
    return found


def _array(values: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.array(list(values), pa.string())


def _lines(text: str, outcome: Outcome) -> Iterator[EditedLine]:
    """The lines of `text`, cut where the edits begin and end."""
    edits = [(c.start, c.stop, "replaced" if c.target else "removed", c.target) for c in outcome.changes]
    if outcome.status == "guarded":
        edits = _held(outcome)
    at = 0
    for number, (start, stop) in enumerate(zip(*line_table(text), strict=True)):
        while at < len(edits) and edits[at][1] <= start and not start == stop == edits[at][1]:
            at += 1
        pieces = _pieces(text, start, stop, edits, at)
        kinds = {piece.kind for piece in pieces if piece.text.strip() or piece.target} or {piece.kind for piece in pieces}
        gone = bool(edits) and at < len(edits) and start == stop and edits[at][0] <= start < edits[at][1]
        if gone:
            kinds = {edits[at][2]}
        kind = kinds.pop() if len(kinds) == 1 else "changed" if kinds else "kept"
        yield EditedLine(number, "changed" if kind == "replaced" else kind, tuple(pieces))


def _pieces(text: str, start: int, stop: int, edits: Sequence[tuple[int, int, str, str]], at: int) -> list[Piece]:
    pieces: list[Piece] = []
    while start < stop:
        low, high, kind, target = edits[at] if at < len(edits) else (stop, stop, "", "")
        if low > start:
            pieces.append(Piece("kept", text[start : min(low, stop)]))
        if low < stop and high > start:
            # A replacement over several lines is told where it begins.
            pieces.append(Piece(kind, text[max(low, start) : min(high, stop)], target if low >= start else ""))
        start, at = max(start, min(low, stop), min(high, stop)), at + 1
    return pieces


def _held(outcome: Outcome) -> list[tuple[int, int, str, str]]:
    """What the statements would have removed had no guard stepped in, united."""
    spans = sorted((v.start, v.stop) for v in outcome.verdicts if 0 <= v.start < v.stop)
    done: list[tuple[int, int, str, str]] = []
    for start, stop in spans:
        if done and start <= done[-1][1]:
            done[-1] = (done[-1][0], max(stop, done[-1][1]), "held", "")
        else:
            done.append((start, stop, "held", ""))
    return done
