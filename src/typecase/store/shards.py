"""Shard: one Parquet part of an artifact, complete or absent.

    part-00000.parquet  doc_id 000… – 3ff…     rows sorted by doc_id, parts hold rising ranges
    part-00001.parquet  doc_id 400… – 7fe…     so a document is found by two binary searches

Row groups are cut by bytes of text, so that reading one document decompresses a few megabytes and never a part.
Price: small groups cost about 2 % of file size against groups of 128 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from typecase.errors import CorruptStore, SchemaMismatch
from typecase.store.atomic import atomic_path

GROUP_BYTES = 4 << 20
GROUP_ROWS = 1 << 13
_ZSTD_LEVEL = 1
_LONG = ("text", "meta", "raw", "program")
_DICTIONARY = ("source", "file", "reason", "stage", "domain", "status", "stratum")


def part_name(index: int) -> str:
    return f"part-{index:05d}.parquet"


def write_shard(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> int:
    """Writes the rows of `tables` as one Parquet file, all or nothing; returns their number.

    The bytes depend on the rows and their order alone, not on how they were divided into tables, as long as each table
    but the last closes a row group; a caller that streams cuts its tables with `cut_groups`.
    """
    dictionary = [name for name in schema.names if name in _DICTIONARY]
    rows = 0
    with (
        atomic_path(path) as temporary,
        pq.ParquetWriter(
            temporary, schema, compression="zstd", compression_level=_ZSTD_LEVEL, use_dictionary=dictionary, version="2.6"
        ) as writer,
    ):
        for table in tables:
            for group in cut_groups(table):
                writer.write_table(group, row_group_size=max(1, group.num_rows))
                rows += group.num_rows
    return rows


def cut_groups(table: pa.Table) -> Iterator[pa.Table]:
    """Slices of `table` of at most GROUP_BYTES of text and GROUP_ROWS rows; a longer document stands alone."""
    sizes = np.zeros(table.num_rows, np.int64)
    for name in _LONG:
        if name in table.column_names:
            sizes += lengths_of(table.column(name))
    for start, stop in group_bounds(sizes):
        yield table.slice(start, stop - start)


def group_bounds(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where `cut_groups` cuts rows whose wide columns have these bytes, int64 (rows,): intervals [start, stop)."""
    ends = np.cumsum(sizes + 1)
    start = 0
    while start < len(sizes):
        base = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, base + GROUP_BYTES, side="right"))
        stop = min(max(stop, start + 1), start + GROUP_ROWS, len(sizes))
        yield start, stop
        start = stop


def regrouped(tables: Iterable[pa.Table], num_rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `num_rows` rows, the last one shorter; memory is one such table and one of `tables`."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        while count >= num_rows:
            whole = pa.concat_tables(held)
            yield whole.slice(0, num_rows)
            held, count = [whole.slice(num_rows)], count - num_rows
    if count:
        yield pa.concat_tables(held)


def lengths_of(column: pa.ChunkedArray) -> np.ndarray:
    """Bytes of every string or binary value of `column`, int64 (rows,); a null has none."""
    if not column.num_chunks:
        return np.zeros(0, np.int64)
    return np.concatenate([np.diff(buffers_of(chunk)[1]) for chunk in column.chunks])


def buffers_of(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a (large_)string or binary array without a copy: values uint8 (bytes,) and offsets int64 (rows + 1,).

    Value i is `values[offsets[i]:offsets[i + 1]]`. The views live as long as `array`.
    """
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, values = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(values, np.uint8) if values is not None else np.zeros(0, np.uint8)
    return data, ends.astype(np.int64, copy=False)


def open_shard(path: Path, schema: pa.Schema | None = None) -> pq.ParquetFile:
    """Opens a part; with `schema`, its columns must be there with the promised types.

    Raises CorruptStore when the file is not Parquet, SchemaMismatch when a column is missing or of another type.
    """
    try:
        file = pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptStore(f"{path} cannot be read as Parquet ({error}); run the stage that made it again") from None
    if schema is not None:
        for field in schema:
            found = file.schema_arrow.field(field.name) if field.name in file.schema_arrow.names else None
            if found is None or found.type != field.type:
                have = "is missing" if found is None else f"is {found.type}"
                raise SchemaMismatch(f"{path}: column {field.name!r} {have}, expected {field.type}")
    return file


def read_groups(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The row groups of a part, one after the other, only the named columns."""
    file = open_shard(path)
    try:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=list(columns) if columns is not None else None)
    finally:
        file.close()


def rows_before(path: Path, group: int) -> int:
    """Rows in the row groups before `group`."""
    file = open_shard(path)
    try:
        return sum(file.metadata.row_group(g).num_rows for g in range(group))
    finally:
        file.close()


def read_columns(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The named columns of a whole part; meant for narrow ones."""
    file = open_shard(path)
    try:
        return file.read(columns=list(columns) if columns is not None else None)
    finally:
        file.close()
