"""Manifest: what an artifact is, what it was made from, and by what.

    manifest.json
      kind         docs | ratings | tokens | …
      stage        the verb that made it, its version and its parameters
      fingerprint  names the making: stage, version, parameters, contents of the parents
      content      names the bytes: hash over the (name, hash) of every file; a moved folder keeps it
      parents      role, kind, path relative to this folder, content
      decision     what `decide` found, so that "why was this dropped" has an answer
      balance      in = kept + removed + quarantined
      files        name, bytes, xxh3-128, rows

No clock, host, user or worker count is recorded: the same making gives the same manifest, byte for byte.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import xxhash

from typecase.core.balance import Balance
from typecase.errors import CorruptStore, NotFound, SchemaMismatch
from typecase.store import atomic

NAME = "manifest.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of an artifact; `name` is relative to its folder. `rows` is 0 where a file has none."""

    name: str
    size_bytes: int
    hash: str
    rows: int = 0

    @classmethod
    def of(cls, folder: Path, name: str, *, rows: int = 0) -> FileEntry:
        path = folder / name
        return cls(name, path.stat().st_size, atomic.content_hash(path), rows)


@dataclass(frozen=True, slots=True)
class Parent:
    """What an artifact was made from. `path` is relative to the artifact's folder."""

    role: str
    kind: str
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The identity of an artifact; see the module docstring for the fields."""

    kind: str
    stage: str
    version: int
    params: Mapping[str, Any]
    parents: tuple[Parent, ...]
    files: tuple[FileEntry, ...]
    balance: Balance | None = None
    decision: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, Any] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """Hash of the artifact's bytes, independent of where it lies."""
        return digest([[f.name, f.hash] for f in self.files])

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.stage, self.version, self.params, {p.role: p.content for p in self.parents})

    def parent(self, role: str) -> Parent | None:
        return next((p for p in self.parents if p.role == role), None)

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": self.kind,
            "stage": self.stage,
            "version": self.version,
            "params": dict(self.params),
            "fingerprint": self.fingerprint,
            "content": self.content,
            "parents": [{"role": p.role, "kind": p.kind, "path": p.path, "content": p.content} for p in self.parents],
            "balance": self.balance.as_dict() if self.balance else None,
            "decision": dict(self.decision),
            "counts": dict(self.counts),
            "libraries": dict(self.libraries),
            "files": [{"name": f.name, "bytes": f.size_bytes, "xxh3_128": f.hash, "rows": f.rows} for f in self.files],
        }


def digest(value: object) -> str:
    """xxh3-128 of a JSON value, keys sorted: 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def fingerprint(stage: str, version: int, params: Mapping[str, Any], parents: Mapping[str, str]) -> str:
    """Names a making before it runs: the same stage, parameters and parent contents give the same fingerprint."""
    return digest({"stage": stage, "version": version, "params": dict(params), "parents": dict(parents)})


def library_versions(*names: str) -> dict[str, str]:
    """Installed versions of typecase and of the distributions `names`."""
    return {name: importlib.metadata.version(name) for name in ("typecase", *names)}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    atomic.write_json(folder / NAME, manifest.as_dict())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the artifact in `folder`.

    Raises NotFound when there is none, CorruptStore when it cannot be read, SchemaMismatch for a newer format.
    """
    path = folder / NAME
    try:
        raw = orjson.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{folder} holds no {NAME}: it is not an artifact of typecase, or its stage never finished") from None
    except orjson.JSONDecodeError as error:
        raise CorruptStore(f"{path} is not JSON ({error}); run the stage that made this folder again") from None
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        found = raw.get("format") if isinstance(raw, dict) else type(raw).__name__
        raise SchemaMismatch(f"{path} has format {found!r}, this typecase reads {FORMAT}: upgrade, or run the stage again")
    try:
        return _from_dict(raw)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"{path} lacks or garbles a field ({error!r}); run the stage that made this folder again") from None


def _from_dict(raw: Mapping[str, Any]) -> Manifest:
    balance = raw["balance"]
    return Manifest(
        kind=raw["kind"],
        stage=raw["stage"],
        version=raw["version"],
        params=raw["params"],
        parents=tuple(Parent(p["role"], p["kind"], p["path"], p["content"]) for p in raw["parents"]),
        files=tuple(FileEntry(f["name"], f["bytes"], f["xxh3_128"], f["rows"]) for f in raw["files"]),
        balance=Balance(balance["in"], balance["kept"], balance["removed"], balance["quarantined"]) if balance else None,
        decision=raw["decision"],
        counts=raw["counts"],
        libraries=raw["libraries"],
    )


def parent_of(role: str, folder: Path, *, child: Path) -> Parent:
    """Names the artifact in `folder` as a parent of the artifact that will lie in `child`."""
    manifest = read_manifest(folder)
    return Parent(role, manifest.kind, relative(folder, child), manifest.content)


def relative(folder: Path, start: Path) -> str:
    """The way from the folder `start` to `folder`, with forward slashes: it holds when both are moved together."""
    return os.path.relpath(folder.resolve(), start.resolve()).replace(os.sep, "/")


def first_damage(folder: Path, manifest: Manifest) -> str | None:
    """The first file that is missing or has other bytes than the manifest says, as a sentence; None when all is well."""
    for entry in manifest.files:
        path = folder / entry.name
        if not path.is_file():
            return f"{path} is missing"
        if path.stat().st_size != entry.size_bytes:
            return f"{path} has {path.stat().st_size} bytes, its manifest says {entry.size_bytes}"
        if atomic.content_hash(path) != entry.hash:
            return f"{path} has other bytes than when it was written (xxh3-128 differs)"
    return None
