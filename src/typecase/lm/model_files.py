"""Model files: where a model lies on this machine, and one hash over what it is made of. Nothing is downloaded."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from pathlib import Path
from typing import Any

import xxhash

from typecase.errors import NotFound

_HASHED = (".safetensors", ".bin", ".gguf", ".json", ".jinja", ".model", ".txt")


def find_model(path: Path | str) -> Path:
    """The folder or file itself, or the folder of a hub id (owner/name) that was downloaded before."""
    found = Path(path)
    if found.exists():
        return found
    if str(path).count("/") == 1 and importlib.util.find_spec("huggingface_hub") is not None:
        hub: Any = importlib.import_module("huggingface_hub")
        with contextlib.suppress(OSError, ValueError):  # not in the cache, or no id at all
            return Path(hub.snapshot_download(str(path), local_files_only=True))
    raise NotFound(
        f"there is no model at {path}: give the folder of a checkpoint, a .gguf file or the hub id of a model that was "
        "downloaded before; none is downloaded here"
    )


def hash_model(path: Path) -> str:
    """One hash over the names and bytes of a model's files."""
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.suffix in _HASHED)
    digest = xxhash.xxh3_128()
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as opened:
            while block := opened.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()
