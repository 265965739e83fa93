"""doctor and merge: token sets examined, repaired into new ones, joined; artifacts compared with their manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typecase.app.places import what_is_at
from typecase.errors import FixInput
from typecase.recipe.build import open_recorded_tokenizer
from typecase.recipe.run import partial_folders
from typecase.store import manifest as manifests
from typecase.store.lineage import artifact_at, parents_of
from typecase.store.manifest import FileEntry, Manifest, Parent
from typecase.store.provenance import NAME as PROVENANCE
from typecase.store.tokenizer.tokenizer import open_tokenizer
from typecase.store.tokens.damage import Finding, Severity
from typecase.store.tokens.doctor import Examination, examine
from typecase.store.tokens.fingerprint import fingerprint
from typecase.store.tokens.merge import MergeSummary, merge_tokens
from typecase.store.tokens.pair import find_pair
from typecase.store.tokens.repair import RepairSummary
from typecase.store.tokens.repair import repair as repair_tokens
from typecase.store.tokens.roundtrip import guess_tokenizer
from typecase.store.tokens.store import open_tokens


@dataclass(frozen=True, slots=True)
class ArtifactExamination:
    """An artifact against its manifest: every file has its bytes, every parent can be found."""

    path: str
    kind: str
    files: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not any(f.severity is Severity.ERROR for f in self.findings)


def doctor(
    path: Path | str, *, tokenizer: str | None = None, eod: int | None = None, quick: bool = False
) -> Examination | ArtifactExamination:
    """Examines a token set or an artifact; damage is found, not raised. Raises NotFound when nothing is there."""
    at = what_is_at(path)
    if at.kind != "tokens":
        return _examine_artifact(at.path)
    folder = find_pair(at.path).bin.parent
    reader = open_tokenizer(tokenizer) if tokenizer is not None else open_recorded_tokenizer(folder)
    if eod is None and at.manifest is not None:
        eod = at.manifest.params.get("special", {}).get("eod_id")
    return examine(at.path, tokenizer=reader, vocab_size=reader.num_ids if reader else None, eod=eod, full=not quick)


def guess(path: Path | str, tokenizers: Sequence[str]) -> dict[str, float]:
    """How well each of `tokenizers` explains a token set: the share of sampled documents that survive decode and encode.

    Best first. Raises NotFound or BadQuery for a tokenizer that cannot be opened.
    """
    at = what_is_at(path)
    if at.kind != "tokens":
        raise FixInput(f"{path} holds {at.kind}, not tokens: there is no tokenizer to guess")
    with open_tokens(at.path) as store:
        eod = examine(at.path, full=False).eod
        return guess_tokenizer(store, {name: open_tokenizer(name) for name in tokenizers}, eod=eod.eod if eod else None)


def _examine_artifact(folder: Path) -> ArtifactExamination:
    one = artifact_at(folder)
    assert one.manifest is not None
    findings = []
    if (damage := manifests.first_damage(folder, one.manifest)) is not None:
        findings.append(Finding("bytes", Severity.ERROR, f"{damage}: run the stage that made it again"))
    for parent in parents_of(one):
        if parent.missing:
            findings.append(Finding("parent", Severity.WARNING, f"parent {parent.role}: {parent.missing}"))
    for left in partial_folders(folder.parent):
        findings.append(
            Finding("unfinished", Severity.NOTE, f"{left} was left by an interrupted run: run it again, or delete it")
        )
    return ArtifactExamination(str(folder), one.kind, len(one.manifest.files), tuple(findings))


def repair(path: Path | str, out: Path | str) -> RepairSummary:
    """Writes the whole documents of a damaged token set as a new set in the folder `out`."""
    if what_is_at(path).kind != "tokens":
        raise FixInput(f"{path} is no token set: an artifact is repaired by running the stage that made it again")
    made = repair_tokens(path, out)
    _record("repair", Path(out), [Path(path)], {})
    return made


def merge(sources: Sequence[Path | str], out: Path | str, *, promote: bool = False) -> MergeSummary:
    """Joins token sets in the given order into the folder `out`; see `store.tokens.merge`."""
    made = merge_tokens(sources, out, promote=promote)
    _record("merge", Path(out), [Path(s) for s in sources], {"promote": promote})
    return made


def _record(stage: str, out: Path, sources: Sequence[Path], params: dict[str, Any]) -> None:
    """The manifest of a token set that was made outside a recipe; a source without a manifest is named by its bytes."""
    pair = find_pair(out)
    files = [FileEntry.of(out, pair.bin.name), FileEntry.of(out, pair.idx.name)]
    if (out / PROVENANCE).is_file():
        files.append(FileEntry.of(out, PROVENANCE))
    parents = tuple(_parent(f"tokens {n}" if len(sources) > 1 else "tokens", s, out) for n, s in enumerate(sources))
    ordered = tuple(sorted(files, key=lambda f: f.name))
    manifests.write_manifest(
        out, Manifest("tokens", stage, 1, params, parents, ordered, libraries=manifests.library_versions("pyarrow"))
    )


def _parent(role: str, source: Path, out: Path) -> Parent:
    pair = find_pair(source)
    folder = pair.bin.parent
    if (folder / manifests.NAME).is_file():
        return manifests.parent_of(role, folder, child=out)
    return Parent(role, "tokens", manifests.relative(folder, out), fingerprint(pair))
