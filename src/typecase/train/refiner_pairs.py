"""Refiner pairs: texts with the programs that they deserve, from five kinds of evidence, as one set to learn from.

    twins    pages with the lines that are no content (store/twins): a file, or a      -> remove_lines
             folder's train.jsonl.zst; its held-out pages are never taught
    texts    JSON lines {noisy, clean, source?}, aligned (core/program/deletions)      -> remove_lines, remove_str
    log      JSON lines {text, injected: [[start, stop], …], source?}, in characters   -> the same, of what was injected
    rules    a folder of documents; what the rules of the base install would do        -> removals, keep or drop
    run      a folder that `refine` made; what its refiner said, a teacher's too       -> removals, keep or drop

    out/ pairs.jsonl.zst   {id, source, kind, text, program, decision}     manifest.json   in = kept + removed + quarantined

`program` is null where only the document was judged, `decision` (keep, drop) where only its lines were. Only removals are
taught: statements that mend characters are left out, and so is a program that the guards would refuse. A pair without a
program is counted with its reason; the same text twice counts once. Equal inputs give equal bytes. Price: one pass over the
evidence; about 1 ms a page that is aligned.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import orjson
import pyarrow as pa

from typecase.core.balance import Balance
from typecase.core.program.deletions import NoDeletion, deletions
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.language import Program, keep_all, remove_lines, show, text_hash
from typecase.core.program.parse import parse
from typecase.core.program.run import run
from typecase.core.twins.marks import ranges_of
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound
from typecase.store import atomic
from typecase.store.documents import documents_of, open_documents
from typecase.store.lineage import artifact_at, parents_of
from typecase.store.manifest import NAME as MANIFEST
from typecase.store.manifest import FileEntry, Manifest, digest, library_versions, read_manifest, write_manifest
from typecase.store.shards import read_groups
from typecase.store.twins import TRAIN, read_twins

Kind = Literal["twins", "texts", "log", "rules", "run"]
Decision = Literal["keep", "drop"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
PAIRS: Final = "pairs.jsonl.zst"
STAGE, VERSION = "refiner pairs", 2
_REMOVALS = ("remove_lines", "remove_str")
_BATCH = 64
_POLICY: Final[GuardPolicy] = replace(STRICT, nth=True, protected=())
"""Evidence needs no confidence of its own to remove a protected line."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and what is to be done with it; `source` is what a split keeps together."""

    id: str
    source: str
    kind: str
    text: str
    program: str | None
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class PairSet:
    """Pairs that were read, with the fingerprint of their bytes."""

    pairs: tuple[Pair, ...]
    fingerprint: str
    balance: Balance


Found = Pair | str
"""A pair, or the reason why there is none."""


def collect_pairs(evidence: Sequence[tuple[Kind, Path]], out: Path) -> Manifest:
    """Reads all evidence and writes the new folder `out`. Raises AlreadyExists, NotFound, CorruptStore naming a line."""
    if out.exists():
        raise AlreadyExists(f"{out} exists: choose another folder, or remove it first")
    if not evidence:
        raise BadQuery("there is no evidence to make pairs of: name one of " + ", ".join(f"--{kind}" for kind in KINDS))
    kept: dict[str, Pair] = {}
    lost: Counter[str] = Counter()
    for kind, path in evidence:
        for found in _READERS[kind](path):
            if isinstance(found, str):
                lost[found] += 1
            elif kept.setdefault(found.id, found) is not found:
                lost["the same text twice"] += 1
    rows = b"".join(orjson.dumps(asdict(pair)) + b"\n" for pair in kept.values())
    entered = len(kept) + sum(lost.values())
    counts = {"pairs": len(kept), "programs": sum(pair.program is not None for pair in kept.values())}
    counts |= {kind: sum(pair.kind == kind for pair in kept.values()) for kind in KINDS}
    folder = out.with_name(f".{out.name}.new")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        atomic.write_bytes(folder / PAIRS, pa.Codec("zstd", compression_level=9).compress(rows, asbytes=True))
        manifest = Manifest(
            kind="pairs",
            stage=STAGE,
            version=VERSION,
            params={"evidence": [kind for kind, _ in evidence]},
            parents=(),
            files=(FileEntry.of(folder, PAIRS),),
            balance=Balance(entered, len(kept), dict(sorted(lost.items()))),
            counts=counts,
            libraries=library_versions("pyarrow"),
        )
        write_manifest(folder, manifest)
        folder.replace(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return manifest


def read_pairs(folder: Path) -> PairSet:
    """The pairs of a folder that `collect_pairs` wrote. Raises NotFound, CorruptStore."""
    if not (folder / MANIFEST).is_file() or not (folder / PAIRS).is_file():
        raise NotFound(f"no pairs in {folder}: make them with `typecase refiner pairs … -o FOLDER`")
    manifest = read_manifest(folder)
    pairs = tuple(Pair(**row) for row in _rows(folder / PAIRS))
    return PairSet(pairs, digest([manifest.content]), manifest.balance or Balance(len(pairs), len(pairs)))


def pair_of(source: str, kind: str, text: str, program: Program | None, decision: Decision | None) -> Pair:
    """A pair; its id is a hash of the text, so that a text is taught once."""
    return Pair(text_hash(text), source, kind, text, None if program is None else show(program), decision)


def _from_twins(path: Path) -> Iterator[Found]:
    """Pages of a file; of a folder those that are taught, so that a family held out stays unseen."""
    file = path / TRAIN if path.is_dir() else path
    if not file.is_file():
        raise NotFound(f"no twins in {path}: give a .jsonl.zst file of twins, or a folder with {TRAIN}")
    for twin in read_twins(file):
        ranges = tuple(remove_lines(first, last) for first, last in ranges_of(twin.gone))
        program = Program(ranges or (keep_all(),))
        yield _guarded(program, twin.text) or pair_of(twin.generator, "twins", twin.text, program, None)


def _from_texts(path: Path) -> Iterator[Found]:
    for row in _rows(path, ("noisy", "clean")):
        yield _aligned(row["noisy"], row["clean"], str(row.get("source", path.stem)), "texts")


def _from_log(path: Path) -> Iterator[Found]:
    for row in _rows(path, ("text", "injected")):
        text, kept, at = row["text"], [], 0
        for start, stop in sorted(map(tuple, row["injected"])):
            if not at <= start <= stop <= len(text):
                raise CorruptStore(f"{path}: injected [{start}, {stop}) does not lie in its text, or lies in another span")
            kept.append(text[at:start])
            at = stop
        yield _aligned(text, "".join([*kept, text[at:]]), str(row.get("source", path.stem)), "log")


def _aligned(noisy: str, clean: str, source: str, kind: Kind) -> Found:
    if not clean.strip():
        return pair_of(source, kind, noisy, None, "drop")
    program = deletions(noisy, clean)
    if isinstance(program, NoDeletion):
        return {"adds": "adds text, which no deletion can", "guarded": f"guarded: {program.detail}"}.get(
            program.reason, "differs"
        )
    return pair_of(source, kind, noisy, program, "keep")


def _from_rules(path: Path) -> Iterator[Found]:
    from typecase.lm.refine.refiners import RulesRefiner

    rules = RulesRefiner()
    for table in open_documents(path).tables():
        documents = list(documents_of(table))
        for at in range(0, len(documents), _BATCH):
            batch = documents[at : at + _BATCH]
            for document, proposal in zip(batch, rules.propose([one.text for one in batch]), strict=True):
                drop = getattr(proposal.decision, "name", None) == "drop_doc"
                program = None if drop else _removals(proposal.program)
                refused = None if program is None else _guarded(program, document.text)
                yield refused or pair_of(document.source, "rules", document.text, program, "drop" if drop else "keep")


def _from_run(path: Path) -> Iterator[Found]:
    made = artifact_at(path)
    parts = [path / f.name for f in made.manifest.files if f.name.startswith("programs/")] if made.manifest else []
    if not parts:
        raise NotFound(f"{path} holds no programs: give a folder that `typecase refine` made")
    docs = next((one for one in parents_of(made) if one.role == "docs" and one.manifest is not None), None)
    if docs is None:
        raise NotFound(f"the documents that {path} was refined from are no longer where they were: programs need their texts")
    said = {row["doc_id"]: row for part in parts for table in read_groups(part) for row in table.to_pylist()}
    for table in open_documents(docs.folder).tables():
        for document in documents_of(table):
            row = said.get(document.id)
            yield _said(document.source, document.text, row) if row is not None else "not asked about"


def _said(source: str, text: str, row: Mapping[str, Any]) -> Found:
    if row["status"] == "dropped":
        return pair_of(source, "run", text, None, "drop")
    if row["status"] not in ("kept", "edited"):
        return f"{row['status']}: {row['reason']}"
    program = parse(row["program"] or "")
    if not isinstance(program, Program) or program.faults:
        return "a program that cannot be read"
    return pair_of(source, "run", text, _removals(program), "keep" if row["decision"] == "keep" else None)


def _guarded(program: Program, text: str) -> str | None:
    """Why a guard refuses the program or a statement of it; None where it runs as it stands."""
    outcome = run(program, text, _POLICY)
    if outcome.status not in ("edited", "kept"):
        return f"guarded: {outcome.reason}"
    refused = next((verdict.code for verdict in outcome.verdicts if verdict.code.startswith(("E_", "G_"))), None)
    return None if refused is None else f"guarded: {refused}"


def _removals(program: Program) -> Program:
    """The program's removals; keep_all() where there are none."""
    own = tuple(s for s in program.statements if s.name in _REMOVALS)
    return Program(own or (keep_all(),))


_READERS: Final[Mapping[Kind, Callable[[Path], Iterator[Found]]]] = {
    "twins": _from_twins, "texts": _from_texts, "log": _from_log, "rules": _from_rules, "run": _from_run,
}  # fmt: skip


def _rows(path: Path, needs: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file, plain or compressed. Raises NotFound, CorruptStore naming the line."""
    if not path.is_file():
        raise NotFound(f"no file {path}: give JSON lines with {', '.join(needs)}")
    with pa.input_stream(str(path)) as stream:
        data = stream.read()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise CorruptStore(f"{path}, line {number} is no JSON: {error}") from None
        if not isinstance(row, dict) or (missing := [name for name in needs if name not in row]):
            what = f"has no {', '.join(missing)}" if isinstance(row, dict) else "is no object"
            raise CorruptStore(f"{path}, line {number} {what}: it needs {', '.join(needs)}")
        yield row
