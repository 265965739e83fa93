"""Real text that every machine has: sources and documentation of Python itself and of the installed packages."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_SUFFIXES = {".py", ".rst", ".md", ".txt", ".pyi", ".h"}


def texts(size_bytes: int) -> list[str]:
    """Whole files of 200 bytes to 200 kB, in a fixed order, about `size_bytes` in all; repeats only when there are too few."""
    found = list(_files())
    chosen: list[str] = []
    held = 0
    while held < size_bytes:
        for text in found:
            chosen.append(text)
            held += len(text)
            if held >= size_bytes:
                break
    return chosen


def _files() -> Iterator[str]:
    folders = [Path(sysconfig.get_paths()["stdlib"]), *(Path(p) for p in sys.path if p.endswith("site-packages"))]
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file() and 200 <= path.stat().st_size <= 200_000:
                try:
                    yield path.read_bytes().decode()
                except UnicodeDecodeError:
                    continue
