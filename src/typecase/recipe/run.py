"""Running a stage: resumable, retried, balanced, complete or absent.

    out/                              appears by one rename when everything is done
    .out.<fingerprint>.partial/       until then
       part-00000.parquet …           finished files
       .scratch/survey-00000.json     a finished survey: its summary
       .scratch/work-00000.json       a finished task: its files with their hashes, its balance
       .scratch/lock                  held by the process that works here

Resuming is listing a folder: a record whose files have the recorded hashes is not worked again. A killed worker
leaves temporary names at most, and they are swept at the next start.
"""

from __future__ import annotations

import fcntl
import functools
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from typecase.core.balance import EMPTY, Balance
from typecase.engine.local import Local
from typecase.engine.protocol import Engine
from typecase.errors import AlreadyExists, BadRecipe, Conflict, FixInput, NotFound, WorkerLost
from typecase.recipe.progress import Phase, Quiet, Reporter
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import atomic
from typecase.store import manifest as manifests
from typecase.store.manifest import FileEntry, Manifest, Parent

_TRIES = 3
_SCRATCH = ".scratch"


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a stage made: its folder and manifest. `reused` when it was there already, made the same way."""

    folder: Path
    manifest: Manifest
    reused: bool = False


def run_stage(
    stage: Stage, given: Given, out: Path, *, engine: Engine | None = None, reporter: Reporter | None = None
) -> Artifact:
    """Runs `stage` into the folder `out`, or finds it done.

    Raises BadRecipe when a role is missing, AlreadyExists when `out` was made another way, Conflict when another
    process works on it, WorkerLost when workers keep dying; whatever is finished by then stays for the next run.
    """
    engine = engine or Local(0)
    return run_prepared(prepare(stage, given, engine), Path(out), engine=engine, reporter=reporter)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A stage, what it is given, and the fingerprint of the artifact that it will make."""

    stage: Stage
    given: Given
    params: Mapping[str, Any]
    fingerprint: str


def prepare(stage: Stage, given: Given, engine: Engine) -> Prepared:
    """Names what `stage` would make of `given`; nothing is written."""
    given = _roles(stage, given)
    params = stage.identity(engine)
    contents = {role: _parent(stage, role, folder, child=folder).content for role, folder in given.items()}
    return Prepared(stage, given, params, manifests.fingerprint(stage.verb, stage.version, params, contents))


def run_prepared(prepared: Prepared, out: Path, *, engine: Engine | None = None, reporter: Reporter | None = None) -> Artifact:
    """`run_stage` for a stage whose fingerprint is known."""
    engine = engine or Local(0)
    reporter = reporter or Quiet()
    stage, given, name = prepared.stage, prepared.given, prepared.fingerprint
    parents = tuple(_parent(stage, role, folder, child=out) for role, folder in sorted(given.items()))
    if (done := _already(out, name)) is not None:
        return Artifact(out, done, reused=True)
    stage.check(given)
    partial = out.parent / f".{out.name}.{name[:12]}.partial"
    scratch = partial / _SCRATCH
    scratch.mkdir(parents=True, exist_ok=True)
    with _locked(scratch / "lock", partial):
        _sweep(partial)
        decision, report, files = _beats(stage, given, partial, scratch, engine, reporter)
        made = _manifest(stage, prepared.params, parents, decision, report, files)
        shutil.rmtree(scratch)
        _sweep(partial)
        manifests.write_manifest(partial, made)
        partial.replace(out)
        atomic.sync_folder(out.parent)
    return Artifact(out, made)


def _roles(stage: Stage, given: Given) -> Given:
    missing = [role for role in stage.needs if role not in given]
    if missing:
        raise BadRecipe(
            f"{stage.verb} needs {' and '.join(missing)}, but nothing gives it; have: {', '.join(given) or 'nothing'}"
        )
    return {role: Path(given[role]) for role in (*stage.needs, *stage.wants) if role in given}


def _parent(stage: Stage, role: str, folder: Path, *, child: Path) -> Parent:
    """Names what plays `role`: by its manifest, or, where there is none, by what the stage finds there."""
    try:
        return manifests.parent_of(role, folder, child=child)
    except NotFound:
        content = stage.content_of(role, folder)
        if content is None:
            raise
        return Parent(role, role, manifests.relative(folder, child), content)


def _already(out: Path, fingerprint: str) -> Manifest | None:
    if not out.exists():
        return None
    if (out / manifests.NAME).is_file():
        found = manifests.read_manifest(out)
        if found.fingerprint == fingerprint:
            return found
        how = f"made by {found.stage} with other parameters or inputs ({found.fingerprint[:12]}, wanted {fingerprint[:12]})"
    elif not any(out.iterdir()):
        out.rmdir()
        return None
    else:
        how = "not an artifact of typecase"
    raise AlreadyExists(f"{out} exists and was {how}: choose another output, or remove it first")


@contextmanager
def _locked(path: Path, folder: Path) -> Iterator[None]:
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(f"another process is working on {folder}: wait for it, or stop it and run this again") from None
        yield


def _sweep(partial: Path) -> None:
    for leftover in partial.rglob(".*.tmp"):
        leftover.unlink()


Files = dict[str, FileEntry]


def _beats(
    stage: Stage, given: Given, partial: Path, scratch: Path, engine: Engine, reporter: Reporter
) -> tuple[dict[str, Any], Report, Files]:
    shards = stage.shards(given)
    summaries: list[Summary] = []
    if stage.surveys:
        survey = functools.partial(_survey_one, stage, given, partial, scratch)
        records = _phase(survey, shards, scratch, "survey", partial, engine, reporter, stage.verb)
        summaries = [record["summary"] for record in records]
    decision = stage.decide(given, summaries, scratch)
    tasks = stage.tasks(given, shards, decision)
    work = functools.partial(_work_one, stage, given, partial, scratch, decision)
    records = _phase(work, tasks, scratch, "work", partial, engine, reporter, stage.verb, models=stage.holds_model)
    last = stage.finish(given, decision, partial, scratch)
    records.append(_record(partial, last))
    return decision, *_joined(records)


def _phase(
    fn: Callable[[tuple[int, Any]], dict[str, Any]],
    tasks: Sequence[Any],
    scratch: Path,
    beat: str,
    partial: Path,
    engine: Engine,
    reporter: Reporter,
    verb: str,
    *,
    models: bool = False,
) -> list[dict[str, Any]]:
    records = {i: record for i in range(len(tasks)) if (record := _finished(scratch / f"{beat}-{i:05d}.json", partial))}
    with reporter.phase(f"{verb} {beat}", total=len(tasks), done=len(records)) as phase:
        for attempt in range(1, _TRIES + 1):
            missing = [(i, task) for i, task in enumerate(tasks) if i not in records]
            lost = _round(fn, missing, records, engine, phase, models)
            if lost is None:
                break
            if attempt == _TRIES:
                raise lost
            for i, _ in missing:
                if i not in records and (record := _finished(scratch / f"{beat}-{i:05d}.json", partial)):
                    records[i] = record
                    phase.advance(*_progress_of(record))
    return [records[i] for i in range(len(tasks))]


def _round(
    fn: Callable[[tuple[int, Any]], dict[str, Any]],
    missing: Sequence[tuple[int, Any]],
    records: dict[int, dict[str, Any]],
    engine: Engine,
    phase: Phase,
    models: bool,
) -> WorkerLost | None:
    """Tries every missing task once, as far as the engine goes on after a lost worker; returns the last loss."""
    lost: WorkerLost | None = None
    answers = engine.map(fn, missing, models=True) if models else engine.map(fn, missing)
    try:
        for i, _ in missing:
            try:
                records[i] = record = next(answers)
            except WorkerLost as error:
                lost = error
            except StopIteration:
                if lost is None:
                    raise RuntimeError(f"{engine} gave fewer answers than there were tasks") from None
                break
            else:
                phase.advance(*_progress_of(record))
        # Only a map that has been heard to its end keeps its workers for the next one.
        if next(answers, None) is not None:
            raise RuntimeError(f"{engine} gave more answers than there were tasks")
    finally:
        if (close := getattr(answers, "close", None)) is not None:
            close()
    return lost


def _progress_of(record: Mapping[str, Any]) -> tuple[int, int]:
    counts = record.get("counts") or record.get("summary") or {}
    entered = record["balance"]["in"] if "balance" in record else counts.get("documents", 0)
    return int(entered), int(counts.get("text_bytes", 0))


def _finished(path: Path, partial: Path) -> dict[str, Any] | None:
    """The record of an earlier run, if it and every file and range of bytes that it names are whole."""
    try:
        record: dict[str, Any] = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    for name, (_, size_bytes, digest) in record.get("files", {}).items():
        file = partial / name
        if not file.is_file() or file.stat().st_size != size_bytes or atomic.content_hash(file) != digest:
            return None
    for name, (start, stop, digest) in record.get("ranges", {}).items():
        file = partial / name
        if not file.is_file() or file.stat().st_size < stop or atomic.content_hash(file, start, stop) != digest:
            return None
    return record


def _survey_one(stage: Stage, given: Given, partial: Path, scratch: Path, numbered: tuple[int, Any]) -> dict[str, Any]:
    _look_for(scratch)
    index, shard = numbered
    summary = dict(stage.survey(given, shard, scratch) or {})
    files = {}
    for name in summary.get("files", ()):
        entry = FileEntry.of(scratch, name)
        files[f"{_SCRATCH}/{name}"] = (0, entry.size_bytes, entry.hash)
    record = {"summary": summary, "files": files}
    atomic.write_json(scratch / f"survey-{index:05d}.json", record, sync=False)
    return record


def _work_one(
    stage: Stage, given: Given, partial: Path, scratch: Path, decision: Mapping[str, Any], numbered: tuple[int, Any]
) -> dict[str, Any]:
    _look_for(scratch)
    index, task = numbered
    record = _record(partial, stage.work(given, task, decision, partial, scratch))
    atomic.write_json(scratch / f"work-{index:05d}.json", record, sync=False)
    return record


def _look_for(scratch: Path) -> None:
    """A worker on another machine may not see the folder, and would write where nobody finds it."""
    if not scratch.is_dir():
        raise FixInput(
            f"{platform.node()} does not see {scratch}: work in a folder that every machine sees under the same name (on NFS,"
            " mount it with lookupcache=positive)"
        )


def _record(partial: Path, report: Report) -> dict[str, Any]:
    files = {}
    for name, rows in report.files.items():
        entry = FileEntry.of(partial, name)
        files[name] = (rows, entry.size_bytes, entry.hash)
    ranges = {
        name: (start, stop, atomic.content_hash(partial / name, start, stop)) for name, (start, stop) in report.ranges.items()
    }
    return {"files": files, "ranges": ranges, "balance": report.balance.as_dict(), "counts": dict(report.counts)}


def _joined(records: Sequence[Mapping[str, Any]]) -> tuple[Report, Files]:
    balance, counts, files = EMPTY, dict[str, int](), Files()
    for record in records:
        b = record["balance"]
        balance = balance + Balance(b["in"], b["kept"], b["removed"], b["quarantined"])
        for key, number in record["counts"].items():
            counts[key] = counts.get(key, 0) + number
        for name, (rows, size_bytes, digest) in record["files"].items():
            files[name] = FileEntry(name, size_bytes, digest, rows)
    return Report(balance=balance, counts=dict(sorted(counts.items()))), dict(sorted(files.items()))


def _manifest(
    stage: Stage,
    params: Mapping[str, Any],
    parents: tuple[Parent, ...],
    decision: Mapping[str, Any],
    report: Report,
    files: Files,
) -> Manifest:
    return Manifest(
        kind=stage.gives,
        stage=stage.verb,
        version=stage.version,
        params=params,
        parents=parents,
        files=tuple(files.values()),
        balance=report.balance,
        decision={k: v for k, v in decision.items() if not k.startswith("_")},
        counts=report.counts,
        libraries=manifests.library_versions(*stage.libraries),
    )


def partial_folders(folder: Path) -> list[Path]:
    """Unfinished outputs in `folder`: what an interrupted run left to resume."""
    return sorted(p for p in folder.glob(".*.partial") if p.is_dir() and os.access(p, os.R_OK))
