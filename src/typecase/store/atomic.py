"""Complete or absent: temporary name, sync, rename."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import xxhash

_BLOCK_BYTES = 1 << 22


@contextmanager
def atomic_path(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """Yields a temporary path beside `path`; it takes the name `path` when the block ends well, else it is removed.

    Without `sync` the file may be lost or hollow after a power cut: for scratch whose hash is checked before it is used.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if sync:
            sync_file(temporary)
        temporary.replace(path)
        if sync:
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Writes `data` to `path`, all or nothing."""
    with atomic_path(path, sync=sync) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: object, *, sync: bool = True) -> None:
    """Writes `value` as indented JSON with sorted keys, all or nothing."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    write_bytes(path, orjson.dumps(value, option=option), sync=sync)


def sync_file(path: Path) -> None:
    """Forces the bytes of `path` to disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: Path) -> None:
    """Forces the names in the folder `path` to disk."""
    sync_file(path)


def content_hash(path: Path, start: int = 0, stop: int | None = None) -> str:
    """xxh3-128 of the bytes [start, stop) of `path` (all of them by default), 32 hexadecimal digits."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        left = (stop if stop is not None else path.stat().st_size) - start
        while left > 0 and (block := file.read(min(_BLOCK_BYTES, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()
