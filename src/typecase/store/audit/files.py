"""Token tables as files, and the rows of one that are wanted: filtered and sorted by SQL.

.jsonl   a first line {"header": …}, then a row a line         .csv   lists as JSON
.parquet the header in the metadata                            .md    a table that hostile text cannot break
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from typecase.errors import BadQuery
from typecase.store.atomic import atomic_path

SUFFIXES = (".jsonl", ".parquet", ".csv", ".md")
_KEY = b"typecase.audit"
_HOSTILE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ue000-\uf8ff]")
_MARKS = re.compile(r"([\\`|*_<>\[\]#~])")


def select_rows(table: pa.Table, *, where: str | None = None, sort: str | None = None, top: int | None = None) -> pa.Table:
    """Rows for which the SQL condition `where` holds, sorted by the SQL list `sort` and then by id, at most `top`.

    Raises BadQuery for a condition or order that DuckDB does not take.
    """
    if where is None and sort is None:
        return table if top is None else table.slice(0, top)
    order = f"{sort}, i" if sort else "i"
    limit = "" if top is None else f" limit {int(top)}"
    with duckdb.connect(":memory:") as connection:
        connection.execute("set enable_external_access = false")
        connection.register("tokens", table)
        try:
            query = f"select * from tokens where {where or 'true'} order by {order}{limit}"
            found: pa.Table = connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            columns = ", ".join(table.column_names)
            raise BadQuery(f"--where or --sort is no SQL over the table ({error}); its columns are {columns}") from None
    return found


def write_table(path: Path, table: pa.Table, header: Mapping[str, Any]) -> int:
    """Writes the table in the format of its name; the number of rows. Raises BadQuery for another name."""
    if path.suffix not in SUFFIXES:
        raise BadQuery(f"{path} has no known format: a token table is written as {', '.join(SUFFIXES)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pq.write_table(table.replace_schema_metadata({_KEY: orjson.dumps(header)}), temporary, compression="zstd")
        elif path.suffix == ".csv":
            pyarrow.csv.write_csv(_flat(table), temporary)
        else:
            lines = _json_lines(table, header) if path.suffix == ".jsonl" else _markdown(table, header)
            with open(temporary, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(line + "\n" for line in lines)
    return int(table.num_rows)


def read_table(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """A Parquet table and its header, as `write_table` wrote them. Raises BadQuery for another file."""
    try:
        table = pq.read_table(path)
        header: dict[str, Any] = orjson.loads((table.schema.metadata or {})[_KEY])
    except (pa.ArrowInvalid, OSError, KeyError) as error:
        raise BadQuery(f"{path} is no token table in Parquet ({error!r}): write one with -o NAME.parquet") from None
    return table, header


def _flat(table: pa.Table) -> pa.Table:
    for index, name in enumerate(table.column_names):
        if pa.types.is_list(table.column(name).type):
            values = [None if v is None else orjson.dumps(v).decode() for v in table.column(name).to_pylist()]
            table = table.set_column(index, name, pa.array(values, pa.string()))
    return table


def _json_lines(table: pa.Table, header: Mapping[str, Any]) -> Iterator[str]:
    yield orjson.dumps({"header": dict(header)}).decode()
    for batch in table.to_batches(max_chunksize=8192):
        for row in batch.to_pylist():
            yield orjson.dumps(row).decode()


def _markdown(table: pa.Table, header: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Token audit: {escaped(str(header.get('tokenizer', '')))}"
    yield ""
    for key, value in header.items():
        if isinstance(value, Mapping):
            yield f"* {key}: " + ", ".join(f"{escaped(str(k))} {v}" for k, v in value.items())
        elif value is not None:
            yield f"* {key}: {escaped(str(value))}"
    yield ""
    yield from markdown_rows(table.column_names, table.to_pylist())


def markdown_rows(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A Markdown table of `rows`."""
    yield "| " + " | ".join(escaped(name) for name in names) + " |"
    yield "|" + " --- |" * len(names)
    for row in rows:
        yield "| " + " | ".join(_cell(row[name]) for name in names) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return escaped(", ".join(map(str, value)))
    return escaped(str(value))


def escaped(text: str) -> str:
    """`text` as one Markdown cell: control, bidirectional, private and zero-width characters shown, marks escaped."""
    return _MARKS.sub(r"\\\1", visible(text))


def visible(text: str) -> str:
    """`text` on one line, with characters that cannot be seen, or that turn a line around, written as escapes."""
    return _HOSTILE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
