"""Annotation sets for analysis: ratings of any maker as blocks of rows, with what lies beside them joined by doc_id.

    ratings artifact, or JSON lines      doc_id, criteria …, domain, status, rated_bytes
    + docs                               source, and the length of the text where the ratings do not say it
    + perplexity                         nll, tokens
    + selection                          kept

Every table is sorted by doc_id, so they are walked side by side: memory is a few blocks whatever the number of rows.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.document import id_from_key
from typecase.core.rating import Criterion, Rubric
from typecase.errors import BadQuery, CorruptStore, NotFound, SchemaMismatch
from typecase.lm.rate.rubric import builtin_rubrics, load_rubric
from typecase.recipe.values import check_ratings
from typecase.store import shards
from typecase.store.atomic import content_hash
from typecase.store.documents import open_documents
from typecase.store.lineage import artifact_at, parents_of
from typecase.store.manifest import NAME, read_manifest

BLOCK_ROWS = 1 << 16
UNKNOWN = "(unknown)"
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class RatingSet:
    """One annotation set: Parquet parts sorted by doc_id, or the rows of a JSON-lines file as a table.

    `content` names its bytes; `readings` is how many readings of documents there were before their mean was taken.
    """

    name: str
    path: Path
    content: str
    rubric: Rubric
    found_scale: bool
    parts: tuple[Path, ...]
    rows: pa.Table | None
    docs: Path | None
    readings: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Everything but the criteria that this set has, of what the analyses use."""
        have = self.rows.column_names if self.rows is not None else shards.open_shard(self.parts[0]).schema_arrow.names
        return tuple(name for name in ("domain", "status", "rated_bytes", "codes") if name in have)

    def blocks(self) -> Iterator[pa.Table]:
        """All rows in rising order of doc_id, BLOCK_ROWS at a time."""
        wanted = ["doc_id", *self.rubric.columns, *self.columns]
        tables = iter([self.rows.select(wanted)]) if self.rows is not None else _groups(self.parts, wanted)
        last = ""
        for block in shards.regrouped(tables, BLOCK_ROWS):
            ids = block.column("doc_id").combine_chunks()
            if last > ids[0].as_py() or pc.any(pc.greater(ids[:-1], ids[1:])).as_py():
                raise CorruptStore(f"{self.path}: the rows do not rise by doc_id; run the stage that made it again")
            last = ids[-1].as_py()
            yield block


class Beside:
    """A table sorted by doc_id, walked alongside another: `at(ids)` gives its rows for rising ids, null where it has none."""

    def __init__(self, parts: Sequence[Path], columns: Sequence[str]) -> None:
        self._columns = list(columns)
        schema = shards.open_shard(parts[0]).schema_arrow if parts else pa.schema([])
        if missing := [name for name in ("doc_id", *columns) if name not in schema.names]:
            raise SchemaMismatch(f"{parts[0].parent if parts else 'a table without parts'} has no column '{missing[0]}'")
        self._groups = _groups(parts, ["doc_id", *columns])
        self._reached = ""
        self._held: pa.Table = pa.schema([schema.field(name) for name in ("doc_id", *columns)]).empty_table()

    def at(self, ids: pa.Array) -> pa.Table:
        while self._reached < ids[-1].as_py() and (group := next(self._groups, None)) is not None:
            self._reached = group.column("doc_id")[-1].as_py()
            if "text" in self._columns or self._held.num_rows > 4 * BLOCK_ROWS:
                group = _needed(group, ids)
            self._held = pa.concat_tables([self._held, group])
        known = self._held.column("doc_id").combine_chunks()
        found = self._held.select(self._columns).take(pc.index_in(ids, value_set=known))
        done = int(pc.sum(pc.less_equal(known, ids[-1])).as_py() or 0)
        self._held = self._held.slice(done)
        return found


def _needed(group: pa.Table, ids: pa.Array) -> pa.Table:
    """The rows that are asked for now or may be later: where few documents are rated, the others are not held."""
    known = group.column("doc_id")
    return group.filter(pc.or_(pc.is_in(known, value_set=ids), pc.greater(known, ids[-1])))


def open_set(path: Path | str, *, docs: Path | None, rubric: str | Path | None, language: str | None = None) -> RatingSet:
    """Opens a ratings artifact or a JSON-lines file of ratings; `docs` says its sources, by default what it was made from.

    Raises NotFound, SchemaMismatch or FingerprintMismatch where it is none, or is of other documents; BadQuery where the rows
    of a file cannot be read.
    """
    path = Path(path)
    if path.is_file():
        return _from_lines(path, docs, rubric, language)
    if not path.exists():
        raise NotFound(f"no ratings at {path}: give a folder that rate made, or a JSON-lines file of ratings")
    manifest = read_manifest(path)
    if manifest.kind != "ratings":
        raise SchemaMismatch(f"{path} holds {manifest.kind}, not ratings; give the folder that rate made")
    if docs is not None:
        check_ratings(docs, path)
    else:
        docs = next((one.folder for one in parents_of(artifact_at(path)) if one.role == "docs" and one.manifest), None)
    parts = tuple(path / f.name for f in manifest.files if "/" not in f.name and f.name.startswith("part-") and f.rows)
    if not parts:
        raise BadQuery(f"{path} holds no rows: there is nothing to analyse")
    criteria = _criteria_of(shards.open_shard(parts[0]).schema_arrow, path)
    known, found = _rubric_of(criteria, rubric, language, lambda: _limits(parts, criteria), manifest.params)
    rows = sum(f.rows for f in manifest.files if "/" not in f.name)
    return RatingSet(path.name or str(path), path, manifest.content, known, found, parts, None, docs, rows)


def selection_parts(folder: Path) -> tuple[Path, ...]:
    """The parts of the table that says which documents `select` kept."""
    parts = open_documents(folder).side_parts("selection")
    if not parts:
        raise SchemaMismatch(f"{folder} has no table of a selection; give the folder that select made")
    return parts


def side_parts(folder: Path) -> tuple[Path, ...]:
    """The parts of a side table in a folder, with or without a manifest."""
    if (folder / NAME).is_file():
        names = [f.name for f in read_manifest(folder).files if "/" not in f.name and f.name.startswith("part-") and f.rows]
        parts = tuple(folder / name for name in names)
    else:
        parts = tuple(sorted(folder.glob("part-*.parquet")))
    if not parts:
        raise NotFound(f"no part-*.parquet in {folder}: it holds no side table")
    return parts


def _groups(parts: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    for part in parts:
        yield from shards.read_groups(part, columns)


def _criteria_of(schema: pa.Schema, path: Path) -> tuple[str, ...]:
    """The criteria of a ratings table: its columns of fractions between doc_id and domain."""
    names = schema.names[: schema.names.index("domain")] if "domain" in schema.names else schema.names
    apart = ("domain_confidence", "confidence")
    criteria = tuple(n for n in names if pa.types.is_floating(schema.field(n).type) and n not in apart)
    if "doc_id" not in schema.names or not criteria:
        raise SchemaMismatch(f"{path} has no doc_id or no column of scores; give the folder that rate made")
    return criteria


def _rubric_of(
    criteria: tuple[str, ...],
    named: str | Path | None,
    language: str | None,
    limits: Callable[[], tuple[int, int]],
    params: Mapping[str, Any],
) -> tuple[Rubric, bool]:
    """The rubric of these columns: the named one, a built-in one of the same columns, or one with the scale that is found."""
    if named is not None:
        rubric = load_rubric(named, language)
        if missing := [name for name in rubric.columns if name not in criteria]:
            raise BadQuery(
                f"the ratings have no column '{missing[0]}' of rubric '{rubric.id}'; they have {', '.join(criteria)}"
            )
        return rubric, False
    for name in builtin_rubrics():
        rubric = load_rubric(name)
        if set(rubric.columns) == set(criteria):
            return load_rubric(name, language), False
    low, high = limits()
    summary = next((name for name in ("overall_score", "overall") if name in criteria), None)
    made = tuple(Criterion(name, name, {}) for name in criteria)
    return Rubric(str(params.get("rubric", "not named")), 0, low, max(high, low + 1), made, (), summary), True


def _limits(parts: Sequence[Path], criteria: Sequence[str]) -> tuple[int, int]:
    """The whole numbers around the smallest and the largest score."""
    lows, highs = [], []
    for table in _groups(parts, criteria):
        for name in criteria:
            seen = pc.min_max(table.column(name).drop_null()).as_py()
            if seen["min"] is not None and np.isfinite([seen["min"], seen["max"]]).all():
                lows.append(seen["min"])
                highs.append(seen["max"])
    if not lows:
        raise BadQuery(f"{parts[0].parent} holds no score: there is nothing to analyse")
    return int(np.floor(min(lows))), int(np.ceil(max(highs)))


def _from_lines(path: Path, docs: Path | None, named: str | Path | None, language: str | None) -> RatingSet:
    """Reads JSON lines: `id` or `doc_id`, `domain`, a number a criterion; several readings of a document are averaged."""
    rows = [_checked(line, number, path) for number, line in _lines(path)]
    if not rows:
        raise BadQuery(f"{path} holds no rows: there is nothing to analyse")
    names = dict.fromkeys(key for row in rows for key, value in row.items() if _is_number(value))
    criteria = tuple(name for name in names if name not in ("confidence", "domain_confidence", "rated_bytes", "row"))
    if not criteria:
        raise BadQuery(f"{path}: no field holds numbers; a row has an id, a domain and a number for each criterion")
    values = [float(row[n]) for row in rows for n in criteria if _is_number(row.get(n))]
    limits = (int(np.floor(min(values))), int(np.ceil(max(values))))
    rubric, found = _rubric_of(criteria, named, language, lambda: limits, {})
    by_id: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_id.setdefault(_doc_id(row), []).append(row)
    ids = sorted(by_id)
    columns: dict[str, Any] = {"doc_id": pa.array(ids, pa.string())}
    columns |= {n: pa.array([_mean(by_id[i], n) for i in ids], pa.float64(), from_pandas=True) for n in rubric.columns}
    if any("domain" in row for row in rows):
        columns["domain"] = pa.array([_most(by_id[i]) for i in ids], pa.string())
    name = path.name.removesuffix(".zst").removesuffix(".jsonl")
    return RatingSet(name, path, content_hash(path), rubric, found, (), pa.table(columns), docs, len(rows))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    if path.suffix == ".zst":
        with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
            data = stream.read()
    else:
        data = path.read_bytes()
    yield from ((n, line) for n, line in enumerate(io.BytesIO(data), 1) if line.strip())


def _checked(line: bytes, number: int, path: Path) -> Mapping[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadQuery(
            f"{path}, line {number} is not JSON ({error}); give JSON lines of ratings, or a folder that rate made"
        ) from None
    if not isinstance(row, dict) or not isinstance(row.get("doc_id", row.get("id")), str):
        raise BadQuery(f"{path}, line {number}: a row needs the text 'id' or 'doc_id' of its document")
    return row


def _doc_id(row: Mapping[str, Any]) -> str:
    """The id of a document: as it is, or made from the key that its source gave it, as ingest does."""
    named = row.get("doc_id", row.get("id"))
    key = str(named)
    return key if len(key) == 32 and set(key) <= _HEX else id_from_key(key)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [float(row[name]) for row in rows if _is_number(row.get(name))]
    return sum(values) / len(values) if values else None


def _most(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """The domain that most readings name; of equals the first by name."""
    votes = Counter(str(row["domain"]) for row in rows if row.get("domain") is not None)
    return min(votes, key=lambda name: (-votes[name], name)) if votes else None
