"""What lies behind a URL: sources to read once, artifacts to carry to an object store and back.

    fetched("s3://bucket/crawl/*.jsonl.zst")        copies of the files, and their names below the bucket's folder
    put(folder, "s3://bucket/docs/web")             every file, the manifest last: complete or absent
    get("s3://bucket/docs/web", folder)             the same artifact: hashes are checked before the folder appears

fsspec reads and writes; each scheme has its own library (s3fs, gcsfs, adlfs …). Stages work on files that can be mapped, so
sources are copied to a temporary folder first, which goes when the process ends: TMPDIR says where, and on a cluster it must be
a folder that every machine sees. An interrupted `put` or `get` goes on with the file it died in.

Errors: NeedsExtra without fsspec, FixInput for a scheme without its library or a store that refuses, NotFound, AlreadyExists
when other bytes lie there, CorruptStore. Price: one copy of the bytes over the network, and their hashes.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typecase.errors import AlreadyExists, CorruptStore, FixInput, NeedsExtra, NotFound
from typecase.store import atomic
from typecase.store import manifest as manifests
from typecase.store.manifest import FileEntry, Manifest

_URL = re.compile(r"[a-z][a-z0-9+]+(::[a-z][a-z0-9+]+)*://")
_MAGIC = re.compile(r"[*?\[]")


def is_url(text: str) -> bool:
    """Whether `text` is scheme://…; a Windows drive is not."""
    return _URL.match(text) is not None


@functools.cache
def fetched(url: str) -> tuple[tuple[Path, str], ...]:
    """Copies of the files behind a URL of a file, of a folder (all below it) or with wildcards, and their names below the
    folder or the fixed part; sorted by name, once a process. Names that begin with a dot are left out of folders."""
    system, path = _opened(url)
    place = Path(tempfile.mkdtemp(prefix="typecase-fetched-"))
    atexit.register(functools.partial(shutil.rmtree, place, ignore_errors=True))
    with _told(url):
        found = _files(system, path)
        if not found:
            raise NotFound(f"{url!r} holds or matches no file")
        for name, remote in found.items():
            local = copy_place(place, remote, name)
            local.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(remote, str(local))
    return tuple((copy_place(place, remote, name), name) for name, remote in found.items())


def copy_place(place: Path, remote: str, name: str) -> Path:
    """Where the copy of `remote` lies below `place`: under the folders that it has there, which tell like names apart."""
    parts = remote.partition("://")[2].split("/") if "://" in remote else remote.split("/")
    if ".." in parts:
        raise FixInput(f"{name!r} is no name of a file that can be copied: rename it in its store")
    return place.joinpath(*(part for part in parts if part))


def _files(system: Any, path: str) -> dict[str, str]:
    """Name -> path of every file behind `path`, sorted by name."""
    if _MAGIC.search(path):
        fixed = path[: _MAGIC.search(path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        matches = [match for match in system.glob(path) if system.isfile(match)]
    elif system.isfile(path):
        return {path.rstrip("/").rpartition("/")[2]: path}
    else:
        fixed = path.rstrip("/")
        matches = system.find(path) if system.exists(path) else []
    named = {match[len(fixed) :].lstrip("/"): match for match in matches}
    shown = {name: match for name, match in named.items() if not any(part.startswith(".") for part in name.split("/"))}
    return dict(sorted(shown.items(), key=lambda item: item[0].encode()))


def put(folder: Path, url: str) -> Manifest:
    """Copies the artifact in `folder` to `url`; finds it done when the same bytes lie there."""
    manifest = manifests.read_manifest(folder)
    if damage := manifests.first_damage(folder, manifest):
        raise CorruptStore(f"{damage}; run the stage that made {folder} again")
    system, path = _opened(url)
    with _told(url):
        there = _manifest_at(system, path)
        if there is not None and there.content != manifest.content:
            raise AlreadyExists(f"{url} holds an artifact of other contents ({there.content[:12]}): choose another place")
        if there is None:
            for entry in manifest.files:
                _put(system, folder, path, entry)
            # The manifest comes last: who finds it finds everything that it names.
            system.put_file(str(folder / manifests.NAME), f"{path}/{manifests.NAME}")
    return manifest


def _put(system: Any, folder: Path, path: str, entry: FileEntry) -> None:
    remote = f"{path}/{entry.name}"
    system.makedirs(remote.rpartition("/")[0], exist_ok=True)
    system.put_file(str(folder / entry.name), remote)
    if (size := system.info(remote)["size"]) != entry.size_bytes:
        raise CorruptStore(f"{remote} arrived with {size} bytes of {entry.size_bytes}: run this again")


def get(url: str, folder: Path) -> Manifest:
    """Copies the artifact at `url` to the new folder `folder`; finds it done when the same bytes lie there."""
    system, path = _opened(url)
    with _told(url):
        manifest = _manifest_at(system, path)
        if manifest is None:
            raise NotFound(f"{url} holds no {manifests.NAME}: it is not an artifact of typecase, or was never put there whole")
        if folder.exists():
            return _same(folder, manifest)
        partial = folder.parent / f".{folder.name}.{manifest.content[:12]}.partial"
        for entry in manifest.files:
            _get(system, f"{path}/{entry.name}", partial, entry)
        partial.mkdir(parents=True, exist_ok=True)
        manifests.write_manifest(partial, manifest)
        partial.replace(folder)
        atomic.sync_folder(folder.parent)
    return manifest


def _get(system: Any, remote: str, folder: Path, entry: FileEntry) -> None:
    local = folder / entry.name
    if local.is_file() and atomic.content_hash(local) == entry.hash:
        return
    with atomic.atomic_path(local) as temporary:
        system.get_file(remote, str(temporary))
        if atomic.content_hash(temporary) != entry.hash:
            raise CorruptStore(f"{remote} has other bytes than its manifest says: put the artifact there again")


def _same(folder: Path, manifest: Manifest) -> Manifest:
    if manifests.read_manifest(folder).content != manifest.content:
        raise AlreadyExists(f"{folder} holds an artifact of other contents: choose another folder, or remove it first")
    return manifest


def _manifest_at(system: Any, path: str) -> Manifest | None:
    if not system.exists(f"{path}/{manifests.NAME}"):
        return None
    with tempfile.TemporaryDirectory(prefix="typecase-manifest-") as place:
        system.get_file(f"{path}/{manifests.NAME}", str(Path(place, manifests.NAME)))
        return manifests.read_manifest(Path(place))


def _opened(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it."""
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise NeedsExtra(f"reading and writing {url.partition('://')[0]}://", "cloud") from None
    try:
        system, path = core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise FixInput(f"cannot open {url}: {error}") from None
    return system, str(path).rstrip("/")


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Errors of a store in words that name the URL."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{url}: {error.args[-1] if error.args else 'not found'} is not there") from None
    except (OSError, TimeoutError) as error:
        raise FixInput(
            f"{url} cannot be read or written ({error}): check the address and your rights, and run this again"
        ) from None
