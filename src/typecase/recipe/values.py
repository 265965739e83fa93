"""Values: columns of a part by name, wherever they lie, in the order of its documents.

    source, file           the documents themselves
    meta.quality.score     a field of the source row, by its path
    overall_score, domain  the ratings, joined on doc_id wherever their parts are cut

Nothing is guessed: a name that is nowhere is refused with the names there are, before anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from typecase.errors import CorruptStore, FingerprintMismatch, FixInput, SchemaMismatch
from typecase.store import shards
from typecase.store.documents import join_side
from typecase.store.lineage import related
from typecase.store.manifest import read_manifest

NO_LABEL = "(none)"
"""The label of a document whose column is empty."""

_OF_DOCUMENTS = ("source", "file")
_META = "meta."


def rating_parts(folder: Path | None) -> tuple[Path, ...]:
    """The parts of a ratings artifact in rising order of doc_id."""
    if folder is None:
        return ()
    names = [f.name for f in read_manifest(folder).files if "/" not in f.name and f.name.startswith("part-")]
    return tuple(folder / name for name in names)


def check_ratings(docs: Path, ratings: Path) -> None:
    """Raises when `ratings` holds no ratings, or ratings of other documents than those that `docs` descends from."""
    kind = read_manifest(ratings).kind
    if kind != "ratings":
        raise SchemaMismatch(f"{ratings} holds {kind}, not ratings; give the folder that rate made")
    if not related(docs, ratings):
        raise FingerprintMismatch(
            f"the ratings in {ratings} were made for other documents than those in {docs}: they share no ancestor."
            f" Rate {docs}, or an artifact that it was made from, and give those ratings"
        )


def check_columns(scores: Sequence[str], labels: Sequence[str], ratings: Path | None) -> None:
    """Raises FixInput when a column is in neither documents nor ratings, or of a type that cannot serve."""
    parts = rating_parts(ratings)
    if ratings is not None and not parts:
        return
    schema = _schema(parts[0]) if parts else pa.schema([])
    numeric = [f.name for f in schema if _is_number(f.type)]
    labelling = [f.name for f in schema if f.name != "doc_id" and not pa.types.is_floating(f.type)]
    for kind, names, fit in (
        ("score", scores, numeric),
        ("strata", labels, [*_OF_DOCUMENTS, *labelling]),
    ):
        for name in names:
            if name not in fit and not name.startswith(_META):
                where = f"in {ratings}" if ratings is not None else "without ratings"
                raise FixInput(
                    f"no {kind} column {name!r} {where}: there are {', '.join(fit) or 'none'}, and meta.FIELD for a field of"
                    " the source rows"
                )


def has_column(name: str, ratings: Path | None) -> bool:
    """Whether the ratings have a column of that name."""
    return any(name in _schema(part).names for part in rating_parts(ratings)[:1])


def read_values(part: Path, names: Sequence[str], ratings: Path | None) -> tuple[pa.ChunkedArray, Values]:
    """The ids of the documents of a part, and the columns `names` beside them."""
    of_documents = [name for name in _OF_DOCUMENTS if name in names]
    if any(name.startswith(_META) for name in names):
        of_documents.append("meta")
    narrow = shards.read_columns(part, ["doc_id", *of_documents])
    of_ratings = [name for name in names if name not in _OF_DOCUMENTS and not name.startswith(_META)]
    doc_ids = narrow.column("doc_id")
    side = join_side(doc_ids, rating_parts(ratings), of_ratings) if of_ratings and ratings is not None else pa.table({})
    return doc_ids, Values(narrow, side)


@dataclass(frozen=True, slots=True)
class Values:
    """Columns of one part by name, from the documents, their meta fields and the ratings."""

    narrow: pa.Table
    side: pa.Table

    def numbers(self, name: str) -> NDArray[np.float64]:
        """float64 (docs,); NaN where there is no number."""
        if name.startswith(_META):
            return np.array([_as_number(value) for value in self._meta(name)], np.float64)
        if name not in self.side.column_names:
            return np.full(self.narrow.num_rows, np.nan)
        found: NDArray[np.float64] = pc.fill_null(self.side.column(name).cast(pa.float64()), math.nan).to_numpy()
        return found

    def labels(self, name: str) -> pa.Array:
        """string (docs,) without nulls."""
        if name.startswith(_META):
            found: Any = pa.array([_as_label(value) for value in self._meta(name)], pa.string())
        elif name in _OF_DOCUMENTS:
            found = self.narrow.column(name)
        elif name in self.side.column_names:
            found = self.side.column(name)
        else:
            found = pa.nulls(self.narrow.num_rows, pa.string())
        text = pc.fill_null(found.cast(pa.string()), NO_LABEL)
        return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text

    def _meta(self, name: str) -> list[object]:
        path = name.removeprefix(_META).split(".")
        return [_at(orjson.loads(text), path) for text in self.narrow.column("meta").to_pylist()]


def _at(value: object, path: Sequence[str]) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _as_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _as_label(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) else None


def raw_ids_of(doc_ids: pa.ChunkedArray) -> NDArray[np.uint8]:
    """A column of document ids as raw bytes, uint8 (docs, 16). Raises CorruptStore when one is no id."""
    values, offsets = shards.buffers_of(doc_ids.combine_chunks())
    if (np.diff(offsets) == 32).all():
        try:
            raw = bytes.fromhex(values[offsets[0] : offsets[-1]].tobytes().decode("ascii"))
            return np.frombuffer(raw, np.uint8).reshape(-1, 16)
        except ValueError:
            pass
    raise CorruptStore("a doc_id is not 32 hexadecimal digits: the documents were not written by typecase, ingest them again")


def _schema(part: Path) -> pa.Schema:
    file = shards.open_shard(part)
    try:
        return file.schema_arrow
    finally:
        file.close()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
