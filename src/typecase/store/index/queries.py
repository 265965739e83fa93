"""Queries: ids as kernels want them; an id that no set of the dtype can hold is an error, never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.suffix.find import first_outside
from typecase.errors import BadQuery

I64 = npt.NDArray[np.int64]
Query = Sequence[int] | npt.NDArray[np.integer]
_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Queries end to end: query k is `ids[offsets[k]:offsets[k + 1]]`."""

    ids: I64
    offsets: I64

    @property
    def sizes(self) -> I64:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1


Queries = Batch | Sequence[Query] | npt.NDArray[np.integer]


def as_ids(query: Query) -> I64:
    """`query` as int64 (m,), contiguous; ranges are not looked at. Raises BadQuery for what is no flat list of integers."""
    array = np.asarray(query)
    if array.dtype is _INT64 and array.ndim == 1 and array.flags.carray:
        return array
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise BadQuery(f"a query is a flat list of token ids, got {array.dtype} of shape {array.shape}")
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise BadQuery(f"{int(array.max())} is no token id: ids are below 2^63")
    return np.array(array, np.int64)


def as_batch(queries: Queries) -> Batch:
    """A list of lists, a matrix (queries, m) or a Batch as a Batch; errors as `as_ids`."""
    if isinstance(queries, Batch):
        return Batch(as_ids(queries.ids), as_ids(queries.offsets))
    if isinstance(queries, np.ndarray) and queries.ndim == 2:
        num, width = queries.shape
        return Batch(as_ids(queries.reshape(-1)), np.arange(num + 1) * width)
    sizes = [len(query) for query in queries]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
    if any(isinstance(query, np.ndarray) for query in queries):
        parts = [as_ids(query) for query in queries]
        return Batch(np.concatenate(parts) if parts else np.zeros(0, np.int64), offsets)
    return Batch(as_ids(np.array(list(chain.from_iterable(queries)))), offsets)


def refuse(ids: I64, most: int, dtype: np.dtype[Any]) -> None:
    """Raises BadQuery when an id is negative or above `most`, naming it."""
    index = first_outside(ids, most)
    if index >= 0:
        raise BadQuery(f"id {ids[index]} (token {index} of the query) cannot be in a set of {dtype}: ids lie in [0, {most}]")
