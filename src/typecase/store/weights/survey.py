"""Survey: one pass over a matrix gives what its rows are; another their inner products with some directions.

    survey   norms, largest numbers, digests, the mean row, and a sketch: the rows times a random matrix (d, 64), which keeps
             angles to some 10 % (Johnson & Lindenstrauss); rows of up to 256 numbers are their own sketch
    project  inner products with directions, double precision

Blocks of some megabytes are read, decoded and measured in threads; results do not depend on their number.
Price: a matrix of 256,000 x 8,192 in BF16 (4.3 GB) takes some 10 s a pass on two cores once it is in the page cache; memory
is the blocks in work, and 64 numbers a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from typecase.core.glitch.rows import RowFacts, column_weights, dot_rows, measure_rows
from typecase.store.weights.matrix import Matrix
from typecase.store.weights.storage import F32

F64 = npt.NDArray[np.float64]
T = TypeVar("T")

_SKETCH_WIDTH = 64
_OWN_SKETCH = 256
_SAMPLE_BYTES = 512 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """`mean` float64 (d,) over finite rows; `sketch` float32 (V, k), None where it was not wanted."""

    facts: RowFacts
    mean: F64
    sketch: F32 | None


def survey(matrix: Matrix, *, sketch: bool, seed: int = 0, threads: int = 2) -> Survey:
    """One pass; see the module docstring."""
    weights = column_weights(matrix.width)
    mixing = _mixing(matrix.width, seed) if sketch else None

    def measure(block: F32) -> tuple[F64, F64, npt.NDArray[np.uint64], F64, F32 | None]:
        squares, largest, digests = measure_rows(block, weights)
        finite = np.isfinite(squares)
        sums = block.sum(axis=0, dtype=np.float64) if finite.all() else block[finite].sum(axis=0, dtype=np.float64)
        made = None if not sketch else block.copy() if mixing is None else block @ mixing
        return np.sqrt(squares), largest, digests, sums, made

    norms, largest, digests, sums, parts = zip(*_each_block(matrix, measure, threads))
    facts = RowFacts(np.concatenate(norms), np.concatenate(largest), np.concatenate(digests))
    mean = np.sum(sums, axis=0) / max(1, int(np.isfinite(facts.norms).sum()))
    return Survey(facts, mean, np.concatenate(parts) if sketch else None)


def project(matrix: Matrix, directions: F64, *, threads: int = 2) -> F64:
    """Inner products of every row with `directions` (k, d), float64 (V, k)."""
    return np.concatenate(list(_each_block(matrix, lambda block: dot_rows(block, directions), threads)))


def sample_rows(matrix: Matrix, *, seed: int = 0) -> F32:
    """All rows of a small matrix, of a larger one as many as take 512 MB, drawn without replacement, in order."""
    most = max(1, _SAMPLE_BYTES // (4 * matrix.width))
    if matrix.num_rows <= most:
        return matrix.rows(0, matrix.num_rows)
    drawn = np.random.default_rng(seed).choice(matrix.num_rows, most, replace=False)
    return matrix.gather(np.sort(drawn))


def _mixing(width: int, seed: int) -> F32 | None:
    if width <= _OWN_SKETCH:
        return None
    return np.random.default_rng(seed).standard_normal((width, _SKETCH_WIDTH), np.float32) / np.float32(_SKETCH_WIDTH**0.5)


def _each_block(matrix: Matrix, work: Callable[[F32], T], threads: int) -> Iterator[T]:
    """`work(rows)` of every block in order, a few blocks at once."""
    with ThreadPoolExecutor(max(1, threads)) as pool:
        waiting = []
        for start, stop in matrix.blocks():
            waiting.append(pool.submit(lambda a, b: work(matrix.rows(a, b)), start, stop))
            if len(waiting) > 2 * threads:
                yield waiting.pop(0).result()
        for one in waiting:
            yield one.result()
