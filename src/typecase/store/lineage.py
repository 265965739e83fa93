"""Lineage: the artifacts behind an artifact, found through the parents that each manifest names.

    select/ --docs--> dedup/ --docs--> ingest/
            '-ratings-> rate/ --docs--> ingest/      related: both descend from the documents of ingest

A parent is known by its content hash; its path is only where it lay. One that was moved, removed or made anew is still
named, but what stands behind it is then unknown. Price: one small JSON file an ancestor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typecase.errors import CorruptStore, NotFound, SchemaMismatch
from typecase.store.manifest import Manifest, read_manifest


@dataclass(frozen=True, slots=True)
class Ancestor:
    """An artifact in the lineage of another.

    `role` is what it was to its child, "" for the artifact itself; `depth` counts generations. `manifest` is None when
    the artifact is no longer at `folder`: then `missing` says why, and `content` and `kind` are what the child recorded.
    """

    role: str
    kind: str
    content: str
    folder: Path
    depth: int
    manifest: Manifest | None = None
    missing: str = ""


def ancestors(folder: Path | str) -> Iterator[Ancestor]:
    """The artifact in `folder` and everything it was made from, each content once: nearest first, missing ones last.

    Raises NotFound or Damaged when `folder` itself is no artifact; a parent that cannot be read is reported, not raised.
    """
    waiting = deque([artifact_at(folder)])
    seen: set[str] = set()
    lost: dict[str, Ancestor] = {}
    while waiting:
        one = waiting.popleft()
        if one.content in seen:
            continue
        if one.manifest is None:
            lost.setdefault(one.content, one)  # another branch may know where it lies
            continue
        seen.add(one.content)
        yield one
        waiting.extend(parents_of(one))
    yield from (one for content, one in lost.items() if content not in seen)


def artifact_at(folder: Path | str) -> Ancestor:
    """The artifact in `folder` as the root of its own lineage."""
    made = read_manifest(Path(folder))
    return Ancestor("", made.kind, made.content, Path(folder), 0, made)


def parents_of(one: Ancestor) -> Iterator[Ancestor]:
    """The artifacts that `one` was made from, in the order of its manifest; none when it is missing."""
    for parent in one.manifest.parents if one.manifest is not None else ():
        place = Path(one.folder, parent.path).resolve()
        manifest, why = _read(place, parent.content)
        yield Ancestor(parent.role, parent.kind, parent.content, place, one.depth + 1, manifest, why)


def related(a: Path | str, b: Path | str) -> bool:
    """Whether two artifacts descend from the same documents, or one from the other: they share an ancestor of kind docs."""
    return bool(_documents(a) & _documents(b))


def _documents(folder: Path | str) -> set[str]:
    return {one.content for one in ancestors(folder) if one.kind == "docs"}


def _read(folder: Path, content: str) -> tuple[Manifest | None, str]:
    try:
        found = read_manifest(folder)
    except NotFound:
        if folder.is_dir():
            return None, f"{folder} was made elsewhere: no manifest says from what"
        return None, f"missing: nothing at {folder}, moved or removed"
    except (CorruptStore, SchemaMismatch) as error:
        return None, str(error)
    if found.content != content:
        return None, f"{folder} now holds other contents ({found.content[:12]}, not {content[:12]})"
    return found, ""
