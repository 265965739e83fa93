"""Catalogue: what was served. A request names a thing by its name in here, never by a path, so it cannot leave what was served.

    typecase serve work            docs/web  docs  work/docs/web          found by its manifest.json
                                   web       tokens  work/tokens/web      a .bin/.idx pair of any maker
                                   run.toml  run   work/run.toml          a run file: it names a framework
                                   losses.csv  losses                     by its name; also a training log, steps.parquet
                                   labels.jsonl  labels                   what `calibrate` wrote, by its first line
                                   glitch  audit  work/glitch             what `audit report` wrote

Nothing is loaded: a thing costs its manifest, a pair its name, a run file a look at its first kilobytes. Links that lead out of
what was served are not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from typecase.errors import NotFound, TypecaseError
from typecase.store import manifest as manifests
from typecase.store.journal.opening import journal_path
from typecase.store.manifest import Manifest
from typecase.store.tokens.pair import TokenPair, find_pair

DEEPEST = 8
MOST_FOLDERS = 20_000
_RUN_BYTES = 1 << 20
_RUN = re.compile(rb"^\s*[\"']?framework[\"']?\s*[=:]\s*[\"'](gpt-neox|megatron-core|nemo|megatron-bridge|typecase)[\"']", re.M)
_RUN_JSON = re.compile(rb"[\"']framework[\"']\s*:\s*[\"'](gpt-neox|megatron-core|nemo|megatron-bridge|typecase)[\"']")
_LOSSES = re.compile(r"steps\.parquet|(.*[._-])?(loss|losses)\.(csv|jsonl|parquet)|(.*[._-])?(train|training)\.log", re.I)
_MAKERS = {
    "docs": "`typecase ingest FILES -o work/docs` makes one",
    "tokens": "`typecase build DOCS --tokenizer NAME -o work/tokens` makes one",
    "index": "`typecase index TOKENS -o work/index` makes one",
    "ratings": "`typecase rate DOCS -o work/ratings` makes some",
    "audit": "`typecase audit report TABLES -o work/audit` makes one",
    "labels": "the page Calibrate, or `typecase calibrate DOCS --ratings R -o labels.jsonl`, begins some",
    "run": "a run file says how a framework reads token sets (docs/trace.md)",
}
_LABELS = b'{"typecase":"labels"'
_SKIPPED = frozenset(("journal", "__pycache__", "node_modules"))


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was served: `kind` as its manifest says (docs, tokens, ratings, index …), `run` for a run file.

    `path` is the folder of an artifact, the prefix of a token set of another maker, or the run file. `note` says why it cannot
    be used, where that is so.
    """

    name: str
    kind: str
    path: Path
    stage: str = ""
    content: str = ""
    note: str = ""

    def manifest(self) -> Manifest:
        """Its manifest. Raises NotFound for a thing of another maker, CorruptStore for a broken one."""
        return manifests.read_manifest(self.path)

    @property
    def has_manifest(self) -> bool:
        return (self.path / manifests.NAME).is_file()

    @property
    def pair(self) -> TokenPair:
        """The files of a token set."""
        return find_pair(self.path)

    @property
    def journal(self) -> Path | None:
        """The journal of a token set, where it has one."""
        path = journal_path(self.pair) if self.kind == "tokens" else None
        return path if path is not None and path.is_file() else None


class Catalogue:
    """The things under some paths, by name. `look` finds what has come since."""

    def __init__(self, paths: Iterable[Path | str]) -> None:
        self.roots = tuple(dict.fromkeys(Path(p).resolve() for p in paths))
        for root, given in zip(self.roots, self.roots, strict=True):
            if not root.exists() and not root.with_suffix(".idx").is_file():
                raise NotFound(f"{given} does not exist: give folders, token sets or run files to serve")
        self.items: tuple[Item, ...] = ()
        self.looks = 0
        self.look()

    def look(self) -> None:
        """Looks again at what lies under the roots."""
        found: dict[str, Item] = {}
        for root in self.roots:
            for item in _under(root, self.roots, alone=len(self.roots) == 1):
                name, n = item.name, 2
                while name in found:
                    name, n = f"{item.name} ({n})", n + 1
                found[name] = Item(name, item.kind, item.path, item.stage, item.content, item.note)
        self.looks += 1
        self.items = tuple(sorted(found.values(), key=lambda i: (i.kind, i.name)))

    def of_kind(self, *kinds: str) -> list[Item]:
        """The things of some kinds that can be used, by name."""
        return [i for i in self.items if i.kind in kinds and not i.note]

    def get(self, name: str, *kinds: str) -> Item:
        """The thing called `name`; without a name the first of its kinds. Raises NotFound saying what there is."""
        fitting = self.of_kind(*kinds) if kinds else [i for i in self.items if not i.note]
        what = " or ".join(kinds) or "thing"
        if not name and fitting:
            return fitting[0]
        for item in fitting:
            if item.name == name:
                return item
        if name:
            there = ", ".join(i.name for i in fitting[:12]) or "none"
            raise NotFound(f"no {what} called {name!r} was served: there is {there}")
        hint = next((f": {_MAKERS[k]}, then serve the folder that holds it" for k in kinds if k in _MAKERS), "")
        raise NotFound(f"no {what} was served{hint}")

    def children(self, item: Item, *kinds: str) -> list[Item]:
        """Things of `kinds` that were made from `item`, known by its content."""
        found = []
        for other in self.of_kind(*kinds):
            if other.has_manifest and any(p.content == item.content for p in other.manifest().parents):
                found.append(other)
        return found

    def by_content(self, content: str, *kinds: str) -> Item | None:
        """The thing whose bytes have the hash `content`."""
        return next((i for i in self.of_kind(*kinds) if i.content == content), None)

    def at(self, path: Path) -> Item | None:
        """The thing at `path`, where it was served."""
        return next((i for i in self.items if i.path.resolve() == path.resolve()), None)


def _under(root: Path, roots: tuple[Path, ...], *, alone: bool) -> Iterator[Item]:
    if not root.is_dir():
        item = _file(root, root.name)
        if item is not None:
            yield item
        return
    seen = 0
    for at, folders, files in os.walk(root):
        folder = Path(at)
        depth = len(folder.relative_to(root).parts)
        seen += 1
        folders[:] = sorted(f for f in folders if _may_enter(folder / f, roots)) if depth < DEEPEST else []
        if seen > MOST_FOLDERS:
            return
        below = folder.relative_to(root).as_posix()
        name = below if below != "." else root.name
        name = name if alone or below == "." else f"{root.name}/{below}"
        if manifests.NAME in files:
            yield _artifact(folder, name, roots)
            continue
        outside = {f for f in files if _leads_out(folder / f, roots)}
        files = [f for f in files if f not in outside and Path(f).with_suffix(".bin").name not in outside]
        if "ids.json" in files and "tokens.parquet" in files:
            yield Item(name, "audit", folder, "audit report")
        prefix = f"{name}/" if below != "." or not alone else ""
        for file in sorted(files):
            item = _file(folder / file, prefix + file)
            if item is not None:
                yield item


def _may_enter(folder: Path, roots: tuple[Path, ...]) -> bool:
    return not (folder.name.startswith(".") or folder.name in _SKIPPED or _leads_out(folder, roots))


def _leads_out(path: Path, roots: tuple[Path, ...]) -> bool:
    """Whether a path is a link to what is not under the roots."""
    return path.is_symlink() and not any(path.resolve().is_relative_to(root) for root in roots)


def _links_out(folder: Path, roots: tuple[Path, ...], depth: int = 0) -> Iterator[Path]:
    """The links below a folder that lead out."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                if _leads_out(Path(entry.path), roots):
                    yield Path(entry.path)
            elif depth < DEEPEST and entry.is_dir():
                yield from _links_out(Path(entry.path), roots, depth + 1)


def _artifact(folder: Path, name: str, roots: tuple[Path, ...]) -> Item:
    out = next(_links_out(folder, roots), None)
    if out is not None:
        words = f"{out.relative_to(folder)} is a link that leads out of what was served: serve what it leads to as well"
        return Item(name, "unknown", folder, note=words)
    try:
        made = manifests.read_manifest(folder)
    except TypecaseError as error:
        return Item(name, "unknown", folder, note=str(error))
    return Item(name, made.kind, folder, made.stage, made.content)


def _file(path: Path, name: str) -> Item | None:
    if path.suffix == ".idx" and path.with_suffix(".bin").is_file():
        return Item(name.removesuffix(".idx"), "tokens", path.with_suffix(""))
    if _LOSSES.fullmatch(path.name):
        return Item(name, "losses", path)
    if path.suffix == ".jsonl" and _begins(path, _LABELS):
        return Item(name, "labels", path)
    if path.suffix in (".toml", ".json") and path.is_file() and path.stat().st_size <= _RUN_BYTES:
        data = path.read_bytes()
        if (_RUN if path.suffix == ".toml" else _RUN_JSON).search(data):
            return Item(name, "run", path)
    if path.suffix == "" and path.with_suffix(".idx").is_file():
        return Item(name, "tokens", path)
    return None


def _begins(path: Path, first: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(first)) == first
    except OSError:
        return False
