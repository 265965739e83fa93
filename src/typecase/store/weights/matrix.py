"""Matrix: a tensor of a weights file, mapped; its rows become float32 only where they are read.

    file  [ header … | row 0 | row 1 | row 2 | … ]       rows(1, 3) -> float32 (2, d)       gather([2, 0]) -> float32 (2, d)

Memory: what is asked for. The file is mapped read-only, so pages that were read may be dropped again by the system.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from typecase.errors import CorruptStore
from typecase.store.weights.storage import F32, STORAGES, U8

_BLOCK_BYTES = 8 << 20
"""Float32 bytes of a block: small enough for the caches, large enough to cost nothing to start."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a tensor lies: `start` bytes into `file`, row-major, outermost dimension first in `shape`."""

    name: str
    file: Path
    storage: str
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A mapped tensor of two dimensions (rows, width); one of one dimension counts as a single row."""

    entry: Entry
    num_rows: int
    width: int
    data: U8

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def storage(self) -> str:
        return self.entry.storage

    @property
    def row_bytes(self) -> int:
        return len(self.data) // max(1, self.num_rows)

    def rows(self, start: int, stop: int) -> F32:
        """Rows [start, stop), float32 (stop - start, width)."""
        size = self.row_bytes
        return STORAGES[self.storage].rows(self.data[start * size : stop * size], self.width)

    def gather(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> F32:
        """The rows of `ids`, float32 (len(ids), width)."""
        wanted = np.asarray(ids, np.int64)
        picked = self.data.reshape(self.num_rows, -1)[wanted]
        return STORAGES[self.storage].rows(picked.reshape(-1), self.width)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """[start, stop) of runs of rows whose float32 copy takes some megabytes."""
        size = max(1, _BLOCK_BYTES // (4 * max(1, self.width)))
        for start in range(0, self.num_rows, size):
            yield start, min(start + size, self.num_rows)


def open_matrix(entry: Entry) -> Matrix:
    """Maps a tensor. Raises CorruptStore where its kind is not known or the file is too short for it."""
    storage = STORAGES.get(entry.storage)
    if storage is None:
        known = ", ".join(STORAGES)
        raise CorruptStore(f"{entry.name} in {entry.file} is stored as {entry.storage}, which cannot be read here ({known})")
    if len(entry.shape) not in (1, 2):
        raise CorruptStore(f"{entry.name} in {entry.file} has the shape {entry.shape}, where a matrix is expected")
    num_rows, width = (1, entry.shape[0]) if len(entry.shape) == 1 else entry.shape
    try:
        size = num_rows * storage.row_bytes(width)
    except ValueError as error:
        raise CorruptStore(f"{entry.name} in {entry.file}: {error}") from None
    have = entry.file.stat().st_size - entry.start
    if size == 0 or have < size:
        raise CorruptStore(
            f"{entry.file} has {max(0, have):,} bytes left for {entry.name}, which takes {size:,}: it is cut short"
        )
    return Matrix(entry, num_rows, width, np.memmap(entry.file, np.uint8, "r", entry.start, (size,)))


def same_bytes(a: Matrix, b: Matrix) -> bool:
    """Whether two matrices hold the same bytes."""
    if (a.num_rows, a.width, a.storage) != (b.num_rows, b.width, b.storage):
        return False
    if a.entry.file == b.entry.file and a.entry.start == b.entry.start:
        return True
    size = a.row_bytes
    return all(np.array_equal(a.data[i * size : j * size], b.data[i * size : j * size]) for i, j in a.blocks())
