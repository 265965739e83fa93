"""What lies at a path: a token set, an artifact, or nothing that typecase knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from typecase.errors import NotFound
from typecase.store import manifest as manifests
from typecase.store.journal.opening import split_edited
from typecase.store.manifest import Manifest
from typecase.store.tokens.pair import find_pair

Kind = Literal["tokens", "docs", "ratings"]


@dataclass(frozen=True, slots=True)
class At:
    """A path, the kind of thing there, and its manifest when typecase made it."""

    path: Path
    kind: str
    manifest: Manifest | None


def what_is_at(path: Path | str) -> At:
    """Recognises token sets (prefix, .bin, .idx or folder) and artifacts (folder, or a file within one).

    Raises NotFound when there is nothing, or nothing of ours.
    """
    path, edited = split_edited(path)
    folder = path if path.is_dir() else path.parent
    has_manifest = (folder / manifests.NAME).is_file()
    if path.is_dir() and has_manifest:
        found = manifests.read_manifest(path)
        if edited is not None and found.kind != "tokens":
            raise NotFound(f"{path} holds {found.kind}: only token sets have a journal, so @ means nothing here")
        return At(path, found.kind, found)
    if not path.is_dir() or _holds_pair(path):
        pair = find_pair(path)
        return At(path, "tokens", manifests.read_manifest(pair.bin.parent) if has_manifest else None)
    raise NotFound(
        f"{path} holds neither a {manifests.NAME} nor a .bin/.idx pair; give a folder that typecase made or a token set"
    )


def artifact_folder(path: Path | str) -> Path:
    """The artifact that `path` is, or lies in."""
    path = Path(path)
    for folder in (path, *path.parents):
        if (folder / manifests.NAME).is_file():
            return folder
    raise NotFound(f"{path} is not part of an artifact: no {manifests.NAME} in it or above it")


def _holds_pair(folder: Path) -> bool:
    return any(folder.glob("*.idx")) or any(folder.glob("*.bin"))
