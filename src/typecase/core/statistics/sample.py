"""Sample: of every cell the few rows with the smallest hash; the same rows whatever the order or the shards.

    cell = (criterion, source, level)     hash = mix of (seed, document id)

After the first block hardly any row passes the bar of its cell, so most rows cost a comparison. Price: 40 bytes a kept row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]

_TOP = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows by rising cell and hash: cell, hash, the document id as two words, and a value to carry along."""

    cell: I64
    hash: U64
    hi: U64
    lo: U64
    value: F64

    @classmethod
    def none(cls) -> Kept:
        empty = np.zeros(0, np.uint64)
        return cls(np.zeros(0, np.int64), empty, empty, empty, np.zeros(0))

    def with_rows(self, more: Kept, num: int) -> Kept:
        """The first `num` rows of each cell of both."""
        cell, hashes, hi, lo, value = (np.concatenate(pair) for pair in zip(self._columns(), more._columns(), strict=True))
        order = np.lexsort((lo, hi, hashes, cell))
        cell = cell[order]
        first = np.ones(len(cell), bool)
        first[1:] = cell[1:] != cell[:-1]
        place = np.arange(len(cell))
        rank = place - np.maximum.accumulate(np.where(first, place, 0))
        keep = order[rank < num]
        return Kept(cell[rank < num], hashes[keep], hi[keep], lo[keep], value[keep])

    def bars(self, num: int, num_cells: int) -> U64:
        """The largest hash that each cell may still take, uint64 (num_cells,): a row above it need not be offered."""
        bars = np.full(num_cells, _TOP)
        if len(self.cell):
            last = np.flatnonzero(np.append(self.cell[1:] != self.cell[:-1], True))
            full = last[np.diff(np.concatenate(([-1], last))) >= num]
            bars[self.cell[full]] = self.hash[full]
        return bars

    def _columns(self) -> tuple[I64, U64, U64, U64, F64]:
        return self.cell, self.hash, self.hi, self.lo, self.value
