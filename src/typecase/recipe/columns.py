"""Columns: arrays of one length in a scratch file, written once and memory-mapped as often as they are walked.

An Arrow file of a single batch, so that opening one copies nothing. Arrays are one-dimensional, or uint8 (rows, 16) for
raw document ids. Price: what the arrays weigh, on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from typecase.store.atomic import atomic_path

Arrays = dict[str, NDArray[Any]]


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]], note: object = None) -> None:
    """Writes arrays (rows,) or uint8 (rows, 16) under their names, all or nothing; `note` is any JSON value."""
    table = pa.table({name: _arrow(array) for name, array in columns.items()})
    table = table.replace_schema_metadata({"note": orjson.dumps(note)})
    rows = max(1, table.num_rows)
    with atomic_path(path) as temporary, pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def map_columns(path: Path) -> tuple[Arrays, Any]:
    """The arrays of a file, read-only views of its bytes, and its note."""
    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    note = orjson.loads(table.schema.metadata[b"note"])
    return {name: _numpy(table.column(name)) for name in table.column_names}, note


def _arrow(array: NDArray[Any]) -> pa.Array:
    if array.ndim == 2:
        flat = np.ascontiguousarray(array)
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(flat), [None, pa.py_buffer(flat)])
    return pa.array(array.view(np.uint8) if array.dtype == np.bool_ else array)


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    raw = pa.types.is_fixed_size_binary(column.type)
    if not len(column):
        return np.zeros((0, 16), np.uint8) if raw else np.zeros(0, column.type.to_pandas_dtype())
    chunk = column.chunk(0)
    if raw:
        return np.frombuffer(chunk.buffers()[1], np.uint8)[: len(chunk) * 16].reshape(-1, 16)
    found: NDArray[Any] = chunk.to_numpy(zero_copy_only=True)
    return found
