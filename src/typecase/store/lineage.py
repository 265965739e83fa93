"""Lineage: the artifacts behind an artifact, found through the parents that each manifest names.

    select/ --docs--> dedup/ --docs--> ingest/
            '-ratings-> rate/ --docs--> ingest/      related: both descend from the documents of ingest

A parent is known by its content hash; its path is only where it lay. One that was moved, removed or made anew is still
named, but what stands behind it is then unknown. Price: one small JSON file an ancestor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
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


@dataclass(frozen=True, slots=True)
class Relative:
    """An artifact of a family: `parents` are (role, content) in the order of its manifest, `copies` other folders of it.

    `manifest` and `missing` as in `Ancestor`; `generation` is 0 for one without known parents, else one more than the last of
    theirs.
    """

    content: str
    kind: str
    folder: Path
    manifest: Manifest | None
    missing: str
    parents: tuple[tuple[str, str], ...]
    generation: int
    copies: tuple[Path, ...] = ()


def family(folders: Iterable[Path | str]) -> dict[str, Relative]:
    """The artifacts in `folders` and all behind them, by content, parents before children.

    A parent that is no longer where it lay is known by its content among `folders`. Raises as `ancestors` does.
    """
    roots = [artifact_at(folder) for folder in folders]
    known: dict[str, Ancestor] = {}
    copies: dict[str, list[Path]] = {}
    for root in roots:
        if root.content in known:
            copies.setdefault(root.content, []).append(root.folder)
        known.setdefault(root.content, root)
    waiting = deque(roots)
    while waiting:
        for parent in parents_of(waiting.popleft()):
            old = known.get(parent.content)
            if old is None or (old.manifest is None and parent.manifest is not None):
                known[parent.content] = parent
                waiting.append(parent)
    return _in_order(known, copies)


def _in_order(known: dict[str, Ancestor], copies: dict[str, list[Path]]) -> dict[str, Relative]:
    links = {c: [(p.role, p.content) for p in (a.manifest.parents if a.manifest else ())] for c, a in known.items()}
    found: dict[str, Relative] = {}
    left = dict(known)
    while left:
        ready = [c for c in left if all(p in found for _, p in links[c])]
        for content in ready or list(left):  # a ring of parents, which no stage makes, is taken as it comes
            one = left.pop(content)
            before = [found[p].generation for _, p in links[content] if p in found]
            found[content] = Relative(
                content,
                one.kind,
                one.folder,
                one.manifest,
                one.missing,
                tuple(links[content]),
                1 + max(before, default=-1),
                tuple(copies.get(content, ())),
            )
    return found


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
