"""Document store: a folder of parts sorted by doc_id, its manifest, and the side tables beside it.

    docs/raw/ part-00000.parquet …   manifest.json   quarantine/part-00000.parquet …
                                                     removed/part-00000.parquet …   (stages that remove)

Text is read only where text is asked for; SQL runs over the narrow columns alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.document import Document, Place
from typecase.errors import BadQuery, NotFound, SchemaMismatch
from typecase.store import shards
from typecase.store.manifest import Manifest, read_manifest

DOC_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("text", pa.large_string()),
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("offset", pa.int64()),
        ("meta", pa.large_string()),
    ]
)
"""`source` is the corpus the document belongs to; `file`, `row`, `offset` are its Place; `meta` is a JSON object."""

QUARANTINE_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("row", pa.int64()),
        ("offset", pa.int64()),
        ("doc_id", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("raw_bytes", pa.int64()),
        ("raw", pa.large_binary()),
    ]
)
"""A row that could not become a document: where it stands, why, how long it is, and its first bytes. `doc_id` is null
where none could be given."""

REMOVED_SCHEMA = pa.schema([("doc_id", pa.string()), ("reason", pa.string()), ("detail", pa.string())])
"""A document that a stage took out; its text stays in the parent."""

NARROW = tuple(name for name in DOC_SCHEMA.names if name != "text")


@dataclass(frozen=True, slots=True)
class DocumentStore:
    """An opened folder of documents; opening reads the manifest alone."""

    folder: Path
    manifest: Manifest

    @property
    def parts(self) -> tuple[Path, ...]:
        """The document parts in rising order of doc_id."""
        return tuple(self.folder / f.name for f in self.manifest.files if "/" not in f.name and f.name.startswith("part-"))

    def side_parts(self, name: str) -> tuple[Path, ...]:
        """The parts of the side table `name` of this artifact (quarantine, removed, programs …); empty when there is none."""
        return tuple(self.folder / f.name for f in self.manifest.files if f.name.startswith(f"{name}/"))

    @property
    def num_documents(self) -> int:
        return sum(f.rows for f in self.manifest.files if "/" not in f.name)

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All documents as tables of a few megabytes, in rising order of doc_id."""
        for part in self.parts:
            yield from shards.read_groups(part, columns)

    def __iter__(self) -> Iterator[Document]:
        for table in self.tables():
            yield from documents_of(table)

    def __len__(self) -> int:
        return self.num_documents

    def get(self, doc_id: str) -> Document:
        """The document `doc_id`, or the only one whose id begins with it.

        Raises NotFound when there is none, BadQuery when a prefix fits several.
        """
        low, high = doc_id.lower(), doc_id.lower() + "g"
        found: list[Document] = []
        for part in self.parts:
            found += [d for table in groups_within(part, low, high) for d in documents_of(table)]
            if len(found) > 1:
                names = ", ".join(d.id for d in found[:3])
                raise BadQuery(f"{doc_id!r} fits {len(found)} or more documents ({names} …); give more digits")
        if not found:
            raise NotFound(f"no document {doc_id!r} in {self.folder} ({self.num_documents} documents)")
        return found[0]

    def sql(self, query: str, **tables: Path) -> pa.Table:
        """Runs SQL over the narrow columns: view `docs` (all but text), and a view for each folder of parts in `tables`.

            store.sql("select source, count(*) as n from docs group by source order by n desc")

        `offset` is a word of SQL's own: quote it. Raises BadQuery with DuckDB's words when the query is at fault.
        """
        with duckdb.connect(config={"python_enable_replacements": False}) as connection:
            views = {"docs": (self.parts, ", ".join(f'"{name}"' for name in NARROW))}
            for name, folder in tables.items():
                views[name] = (tuple(sorted(Path(folder).glob("part-*.parquet"))), "*")
            for name, (parts, columns) in views.items():
                if parts:
                    connection.execute(f"create view {name} as select {columns} from read_parquet({[str(p) for p in parts]!r})")
            try:
                return connection.sql(query).to_arrow_table()
            except duckdb.Error as error:
                raise BadQuery(f"the query cannot run: {error}") from None


def open_documents(folder: Path | str) -> DocumentStore:
    """Opens a folder of documents. Raises NotFound when it is none, SchemaMismatch when it is another kind of artifact."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    if manifest.kind != "docs":
        raise SchemaMismatch(
            f"{folder} holds {manifest.kind}, not docs; give the folder that ingest, refine, dedup or select made"
        )
    return DocumentStore(folder, manifest)


def row_of(parts: Sequence[Path], doc_id: str) -> dict[str, Any] | None:
    """The row of `doc_id` in the parts of a table keyed by doc_id, None when it has none."""
    for part in parts:
        for table in groups_within(part, doc_id, doc_id + " "):
            row: dict[str, Any] = table.slice(0, 1).to_pylist()[0]
            return row
    return None


def documents_of(table: pa.Table) -> Iterator[Document]:
    """The rows of a table of DOC_SCHEMA as documents."""
    columns = [table.column(name).to_pylist() for name in DOC_SCHEMA.names]
    for doc_id, text, source, file, row, offset, meta in zip(*columns, strict=True):
        yield Document(doc_id, text, source, Place(file, row, offset), orjson.loads(meta))


def table_of(documents: Sequence[Document]) -> pa.Table:
    """Documents as a table of DOC_SCHEMA, in the given order."""
    rows: dict[str, list[Any]] = {
        "doc_id": [d.id for d in documents],
        "text": [d.text for d in documents],
        "source": [d.source for d in documents],
        "file": [d.place.file for d in documents],
        "row": [d.place.row for d in documents],
        "offset": [d.place.offset for d in documents],
        "meta": [orjson.dumps(dict(d.meta)).decode() for d in documents],
    }
    return pa.table(rows, schema=DOC_SCHEMA)


def join_side(doc_ids: pa.ChunkedArray | pa.Array, parts: Sequence[Path], columns: Sequence[str]) -> pa.Table:
    """The `columns` of a side table for every id of `doc_ids`, in their order; null where the table has no such id.

    doc_ids must rise. Only the parts and row groups whose range of ids overlaps are read.
    """
    ids = doc_ids.combine_chunks() if isinstance(doc_ids, pa.ChunkedArray) else doc_ids
    if len(ids) == 0:
        low = high = ""
    else:
        low, high = ids[0].as_py(), ids[-1].as_py() + " "
    names = ["doc_id", *columns]
    found = [table for part in parts for table in groups_within(part, low, high, names)]
    if not found:
        schema = shards.open_shard(parts[0]).schema_arrow if parts else pa.schema([("doc_id", pa.string())])
        return pa.table({name: pa.nulls(len(ids), schema.field(name).type) for name in columns if name in schema.names})
    side = pa.concat_tables(found)
    return side.select(list(columns)).take(pc.index_in(ids, value_set=side.column("doc_id")))


def groups_within(part: Path, low: str, high: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows of a part with low <= doc_id < high, a table for each row group that has any."""
    file = shards.open_shard(part)
    try:
        position = file.schema_arrow.names.index("doc_id")
        for group in range(file.num_row_groups):
            stats = file.metadata.row_group(group).column(position).statistics
            if stats is not None and stats.has_min_max and (stats.max < low or stats.min >= high):
                continue
            table = file.read_row_group(group, columns=list(columns) if columns is not None else None)
            ids = table.column("doc_id").combine_chunks()
            keep = pc.and_(pc.greater_equal(ids, low), pc.less(ids, high))
            if pc.any(keep).as_py():
                yield table.filter(keep)
    finally:
        file.close()
