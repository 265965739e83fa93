"""Which files are read, under which names, in which format.

    inputs     a file, a folder (all of it, at any depth), a glob, a URL of one of these, or "-" for standard input
    name       the path below the folder or below the fixed part of the glob; the bare name of a named file
    order      by the bytes of the name, whatever order the file system gives
    format     by the extension below .gz or .zst, unless it is given

Two files of the same name get as many of their folders in front as tell them apart. A file reached twice, by two inputs
or through a link, is read once, under the name that was found first.
Names and contents, never places or times, make the identity of an input. Files whose name begins with a dot are left
out of folders. Standard input is copied to a temporary file first, since its identity is its content: to resume, pipe
the same bytes in again. What lies behind a URL is copied likewise; see `store.urls`.
"""

from __future__ import annotations

import atexit
import functools
import glob
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from typecase.engine.protocol import Engine
from typecase.errors import FixInput, NotFound
from typecase.store.atomic import content_hash
from typecase.store.sources.rows import UNKNOWN_FORMAT, UNREADABLE
from typecase.store.sources.streams import SUFFIXES
from typecase.store.urls import fetched, is_url

STDIN = "-"
FORMATS = {
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "text": (".txt", ".text", ".md", ".rst"),
    "html": (".html", ".htm", ".xhtml"),
    "warc": (".warc", ".wet"),
}
"""Format -> the extensions that mean it."""
_BY_EXTENSION = {extension: name for name, extensions in FORMATS.items() for extension in extensions}
_ONE_DOCUMENT = ("text", "html")
_HASH_ALONE_BYTES = 256 << 20
_HASH_BATCH = 256


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read. `problem` is a reason and a detail when it cannot be; then it counts as one row."""

    path: str
    name: str
    format: str
    size_bytes: int = 0
    changed_ns: int = 0
    problem: tuple[str, str] | None = None

    @property
    def source(self) -> str:
        """The corpus that its documents belong to unless something else is said: its name without extensions; for formats
        of one document a file, the folder, or the format where there is none."""
        if self.format in _ONE_DOCUMENT:
            return self.name.rpartition("/")[0] or self.format
        return split_extensions(self.name)[0]


def list_files(inputs: Sequence[str], *, format: str | None = None) -> list[SourceFile]:
    """The files behind `inputs`, sorted by the bytes of their names.

    Raises NotFound for an input that matches nothing, FixInput for a named file whose format nobody knows.
    """
    found: dict[object, _Found] = {}
    for item in inputs:
        num = 0
        for num, match in enumerate(_matches(item), 1):  # noqa: B007  # how many there are
            found.setdefault(match.identity, match)
        if not num:
            where = "holds no file" if Path(item).is_dir() else "matches no file"
            raise NotFound(f"{item!r} {where} (looked in {Path.cwd()})")
    files = [_source_file(match, name, format) for match, name in _named(list(found.values()))]
    return sorted(files, key=lambda file: file.name.encode())


def split_extensions(name: str) -> tuple[str, str]:
    """A name without its known extensions, and its format (`""` when unknown)."""
    stem, suffix = _split_suffix(name)
    if suffix in SUFFIXES:
        stem, suffix = _split_suffix(stem)
    form = _BY_EXTENSION.get(suffix, "")
    if not form:
        return name, ""
    if suffix == ".wet" and stem.lower().endswith(".warc"):
        stem = stem[: -len(".warc")]
    return stem, form


def _split_suffix(name: str) -> tuple[str, str]:
    """A name and its last extension in lower case, if it has one."""
    dot = name.rfind(".")
    return (name[:dot], name[dot:].lower()) if dot > name.rfind("/") + 1 else (name, "")


def hash_files(files: Sequence[SourceFile], engine: Engine) -> list[str]:
    """xxh3-128 of the content of every file, `""` for one that cannot be read; large inputs are hashed on the engine."""
    if sum(file.size_bytes for file in files) < _HASH_ALONE_BYTES:
        return _hashes(files)
    batches, size = [list[SourceFile]()], 0
    for file in files:
        if batches[-1] and (size + file.size_bytes > _HASH_ALONE_BYTES or len(batches[-1]) == _HASH_BATCH):
            batches.append([])
            size = 0
        batches[-1].append(file)
        size += file.size_bytes
    return [digest for digests in engine.map(_hashes, batches) for digest in digests]


def _hashes(files: Sequence[SourceFile]) -> list[str]:
    digests = []
    for file in files:
        try:
            readable = file.problem is None or file.problem[0] != UNREADABLE
            digests.append(content_hash(Path(file.path)) if readable else "")
        except OSError:
            digests.append("")
    return digests


@dataclass(frozen=True, slots=True)
class _Found:
    """A file below the folder that was read, `name` from there on; `explicit` when the user wrote it out."""

    path: str
    name: str
    status: os.stat_result | OSError
    explicit: bool = False

    @classmethod
    def of(cls, path: str, name: str, *, explicit: bool = False) -> _Found:
        try:
            return cls(path, name, os.stat(path), explicit)  # noqa: PTH116  # a Path costs ten times the call
        except OSError as error:
            return cls(path, name, error, explicit)

    @property
    def identity(self) -> object:
        """What two ways to one file have in common; hard links are two files, as they would be in a copy of the folder."""
        if isinstance(self.status, OSError):
            return self.path
        return (self.status.st_dev, self.status.st_ino) if self.status.st_nlink == 1 else os.path.realpath(self.path)

    def shown(self, more: int) -> str:
        """Its name, with `more` folders in front."""
        name = self.name
        if more and self.path.endswith(name):
            parts = self.path.split("/")[1:]
            name = "/".join(parts[-(name.count("/") + 1 + more) :])
        return os.fsencode(name).decode("utf-8", "backslashreplace")


def _matches(item: str) -> Iterator[_Found]:
    path = _absolute(item)
    if item == STDIN:
        yield _Found.of(_spooled_stdin(), "stdin", explicit=True)
    elif is_url(item):
        for copy, name in fetched(item):
            yield _Found.of(str(copy), name, explicit=item.endswith(f"/{name}"))
    elif path.is_dir():
        yield from _walk(str(path), "", ())
    elif os.path.lexists(path):
        yield _Found.of(str(path), path.name, explicit=True)
    elif glob.has_magic(item):
        root = _absolute(_fixed_part(item))
        for match in map(_absolute, glob.glob(item, recursive=True)):  # noqa: PTH207  # it passes over dot files
            name = "/".join(match.parts[len(root.parts) :])
            if match.is_dir():
                yield from _walk(str(match), f"{name}/" if name else "", ())
            else:
                yield _Found.of(str(match), name)


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  # links keep their names


def _fixed_part(pattern: str) -> str:
    """The folder above the first wildcard."""
    parts = Path(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return str(Path(*parts[:fixed]))


def _walk(folder: str, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[_Found]:
    """Every file below `folder`, `prefix` before its name; a link back to a folder above is not followed."""
    try:
        status = os.stat(folder)  # noqa: PTH116
        with os.scandir(folder) as entries:
            inside = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise FixInput(f"cannot list {folder} ({error.strerror}): allow it, or name the files to read") from None
    here = (status.st_dev, status.st_ino)
    if here in above:
        return
    for entry in inside:
        if entry.is_dir():
            yield from _walk(entry.path, f"{prefix}{entry.name}/", (*above, here))
        else:
            yield _Found.of(entry.path, prefix + entry.name)


def _named(found: Sequence[_Found]) -> list[tuple[_Found, str]]:
    """Every file with a name that no other has."""
    more = [0] * len(found)
    while True:
        names = [match.shown(folders) for match, folders in zip(found, more, strict=True)]
        times = Counter(names)
        if len(times) == len(names):
            return list(zip(found, names, strict=True))
        for i, name in enumerate(names):
            if times[name] > 1:
                more[i] += 1
                if more[i] > found[i].path.count("/"):
                    raise FixInput(f"two files have the name {name!r}: rename one, or read them into different outputs")


def _source_file(match: _Found, name: str, format: str | None) -> SourceFile:
    form = format or split_extensions(name)[1]
    if not form and match.explicit:
        known = " ".join(sorted(_BY_EXTENSION))
        raise FixInput(f"cannot tell the format of {name!r} from its name (known: {known}): give format={'|'.join(FORMATS)}")
    file, status = SourceFile(match.path, name, form), match.status
    if isinstance(status, OSError):
        return replace(file, problem=(UNREADABLE, status.strerror or "it cannot be read"))
    if not stat.S_ISREG(status.st_mode):
        if match.explicit:
            raise FixInput(f"{match.path} is no regular file: pipe it in and read it as '-'")
        return replace(file, problem=(UNREADABLE, "no regular file"))
    problem = None if form else (UNKNOWN_FORMAT, f"no format has the extension {PurePosixPath(name).suffix!r}")
    return SourceFile(match.path, name, form, status.st_size, status.st_mtime_ns, problem)


@functools.cache
def _spooled_stdin() -> str:
    """Standard input as a temporary file, which goes when the process ends."""
    handle, path = tempfile.mkstemp(prefix="typecase-stdin-")
    atexit.register(functools.partial(Path(path).unlink, missing_ok=True))
    with open(handle, "wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy, 1 << 20)
    return path
