"""Export: documents of a token set or a document store, as rows that other tools read.

    token set      doc, doc_id, source, file, row, tokens, text      ids and places where the set has provenance
    document store doc_id, text, source, file, row, offset, meta

    .jsonl .csv .parquet     by the name of the output; .jsonl and .csv also .gz and .zst
    .bin / .idx              a token set of the chosen documents, see `export_subset`

Rows keep the numbers and ids that they have where they come from. Streaming: memory is one table of a few megabytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from typecase.errors import AlreadyExists, BadQuery
from typecase.store import shards
from typecase.store.atomic import atomic_path
from typecase.store.documents import DocumentStore
from typecase.store.journal.provenance import provenance_of
from typecase.store.provenance import Provenance
from typecase.store.tokens.store import TokenStore
from typecase.store.tokens.writer import TokenSetWriter

What = Literal["text", "tokens", "both"]
Decode = Callable[[Sequence[int]], str]

_BATCH_TOKENS = 1 << 20
_BATCH_ROWS = 1 << 13
_CODECS = {".gz": "gzip", ".zst": "zstd"}
FORMATS = (".jsonl", ".csv", ".parquet", ".bin")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: files, documents, tokens (0 when none were asked for)."""

    files: tuple[Path, ...]
    documents: int
    tokens: int


def format_of(out: Path) -> str:
    """The format that the name of `out` asks for. Raises BadQuery for a name that asks for none."""
    suffixes = [s for s in out.suffixes if s not in _CODECS]
    suffix = suffixes[-1] if suffixes else ""
    suffix = ".bin" if suffix == ".idx" else suffix
    if suffix not in FORMATS or (suffix in (".parquet", ".bin") and out.suffix in _CODECS):
        raise BadQuery(
            f"cannot tell the format of {out.name!r}: end it in {', '.join(FORMATS)}, the first two also with .gz or .zst"
        )
    return suffix


def token_rows(
    store: TokenStore, docs: npt.NDArray[np.int64], *, what: What, decode: Decode | None, provenance: Provenance | None
) -> Iterator[pa.Table]:
    """Tables of the documents `docs` of `store`, in that order.

    `decode` turns ids into text and is needed unless `what` is "tokens".
    """
    if what != "tokens" and decode is None:
        raise BadQuery("text needs a tokenizer: name one, or export tokens alone")
    for chosen in _batches(store, docs):
        tokens, offsets = store.read_many(chosen)
        columns: dict[str, Any] = {"doc": pa.array(chosen)}
        if provenance is not None:
            rows = provenance.rows(chosen)
            columns |= {name: rows.column(name) for name in ("doc_id", "source", "file", "row")}
        if what != "text":
            columns["tokens"] = pa.LargeListArray.from_arrays(
                pa.array(offsets), pa.array(tokens.astype(_wide(store.dtype), copy=False))
            )
        if what != "tokens" and decode is not None:
            ids = [tokens[a:b].tolist() for a, b in pairwise(offsets)]
            columns["text"] = pa.array([decode(i) for i in ids], pa.large_string())
        yield pa.table(columns)


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """uint16 and the other narrow integers as int32, which every reader of Parquet knows; wider ones and floats as they are."""
    return np.dtype(np.int32) if dtype.kind in "iu" and dtype.itemsize < 4 else dtype


def _batches(store: TokenStore, docs: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, len(docs), _BATCH_ROWS):
        chunk = docs[start : start + _BATCH_ROWS]
        group = (np.cumsum(store.document_lengths(chunk)) // _BATCH_TOKENS).astype(np.int64)
        yield from np.split(chunk, np.flatnonzero(np.diff(group)) + 1)


def document_rows(store: DocumentStore, *, where: set[str] | None = None) -> Iterator[pa.Table]:
    """Tables of the documents of `store`, all or those with the ids `where`, in rising order of id."""
    for table in store.tables():
        if where is None:
            yield table
        else:
            keep = [doc_id in where for doc_id in table.column("doc_id").to_pylist()]
            if any(keep):
                yield table.filter(pa.array(keep))


def export_rows(tables: Iterable[pa.Table], out: Path) -> int:
    """Writes `tables` to the new file `out` in the format of its name, all or nothing; returns the number of rows.

    Raises AlreadyExists when `out` is there.
    """
    if out.exists():
        raise AlreadyExists(f"{out} exists: choose another name, or remove it first")
    kind = format_of(out)
    if kind == ".parquet":
        return _write_parquet(tables, out)
    rows = 0
    with _compressed(out) as file:
        write = _csv_writer(file) if kind == ".csv" else _jsonl_writer(file)
        for table in tables:
            write(table)
            rows += table.num_rows
    return rows


def _write_parquet(tables: Iterable[pa.Table], out: Path) -> int:
    stream = iter(tables)
    first = next(stream, None)
    if first is None:
        first = pa.table({"doc": pa.array([], pa.int64())})

    def again() -> Iterator[pa.Table]:
        yield first
        yield from stream

    return shards.write_shard(out, again(), first.schema)


@contextmanager
def _compressed(out: Path) -> Iterator[Any]:
    codec = _CODECS.get(out.suffix)
    with atomic_path(out) as temporary:
        if codec is None:
            with temporary.open("wb") as file:
                yield file
        else:
            with pa.CompressedOutputStream(str(temporary), codec) as file:
                yield file


def _jsonl_writer(file: Any) -> Callable[[pa.Table], None]:
    def write(table: pa.Table) -> None:
        names = table.column_names
        columns = [table.column(name).to_pylist() for name in names]
        if "meta" in names:
            at = names.index("meta")
            columns[at] = [orjson.Fragment(value) for value in columns[at]]
        lines = [orjson.dumps(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
        if lines:
            file.write(b"\n".join(lines) + b"\n")

    return write


def _csv_writer(file: Any) -> Callable[[pa.Table], None]:
    begun = False

    def write(table: pa.Table) -> None:
        nonlocal begun
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        if not begun:
            writer.writerow(table.column_names)
            begun = True
        columns = [table.column(name).to_pylist() for name in table.column_names]
        writer.writerows(
            [orjson.dumps(v).decode() if isinstance(v, list) else v for v in row] for row in zip(*columns, strict=True)
        )
        file.write(text.getvalue().encode())

    return write


def export_subset(store: TokenStore, docs: npt.NDArray[np.int64], out: Path) -> Exported:
    """Writes the documents `docs` of `store` as a new token set at the prefix `out`, with their provenance if there is one.

    Sequences, dtype and documents without sequences are kept. Raises AlreadyExists when the set is there.
    """
    prefix = out.with_suffix("") if out.suffix in (".bin", ".idx") else out
    found = provenance_of(store)
    index = np.asarray(store.document_index, np.int64)
    with TokenSetWriter(prefix, store.dtype, multimodal=store.modes is not None) as writer:
        for chosen in _batches(store, docs):
            counts = index[chosen + 1] - index[chosen]
            sequences = np.repeat(index[chosen] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
            lengths = np.asarray(store.lengths)[sequences].astype(np.int64)
            tokens, _ = store.read_spans(sequences, np.zeros_like(lengths), lengths)
            modes = np.asarray(store.modes)[sequences] if store.modes is not None else None
            writer.append(tokens, lengths, per_document=counts, modes=modes)
    files = [prefix.with_name(prefix.name + ".bin"), prefix.with_name(prefix.name + ".idx")]
    if found is not None:
        files.append(prefix.parent / found.path.name)
        shards.write_shard(files[-1], _renumbered(found, docs), shards.open_shard(found.path).schema_arrow)
    return Exported(tuple(files), len(docs), writer.num_tokens)


def _renumbered(found: Provenance, docs: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
    for start in range(0, len(docs), _BATCH_ROWS):
        rows = found.rows(docs[start : start + _BATCH_ROWS])
        yield rows.set_column(0, "doc", pa.array(np.arange(start, start + rows.num_rows, dtype=np.int64)))
