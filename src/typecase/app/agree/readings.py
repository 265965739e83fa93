"""Readings: what one rater, or several people, said of documents; and the documents' sources, lengths and groups.

    work/docs/ratings            an artifact of ratings
    people.jsonl[.zst]           a row a reading: id or doc_id, domain, a number a criterion; perhaps rater, rater_kind
    people.jsonl#anna            the rows of one rater of such a file

Several readings of one document in one set are averaged and counted; a row that cannot be used is counted with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from typecase.core.rating import Rubric
from typecase.errors import BadQuery, NotFound, SchemaMismatch
from typecase.lm.rate.annotations import read_json_lines
from typecase.store import shards
from typecase.store.documents import open_documents
from typecase.store.manifest import NAME, Manifest, read_manifest

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_PEOPLE = frozenset(("person", "people", "human"))


@dataclass(frozen=True, slots=True)
class Readings:
    """One set of ratings, a row a document in rising order of id.

    kind                "people", "model" or "unstated": what is known of who rated
    columns             criteria of the rubric that the set has
    scores              float64 (docs, columns); NaN where missing
    domain              id of the rubric's domain, None where there is none
    confidence, domain_confidence   float64 (docs,); NaN where the set has none
    repeated            readings beyond the first of a document, averaged into it
    unusable            rows that were left out, by reason
    """

    name: str
    kind: str
    ids: tuple[str, ...]
    columns: tuple[str, ...]
    scores: F64
    domain: tuple[str | None, ...]
    confidence: F64
    domain_confidence: F64
    repeated: int = 0
    unusable: Mapping[str, int] = field(default_factory=dict)
    docs: Path | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, criterion: str) -> F64:
        """Scores of one criterion, float64 (docs,)."""
        return self.scores[:, self.columns.index(criterion)]


def open_readings(spec: str | Path, rubric: Rubric, *, people: bool = False) -> Readings:
    """Reads a set of ratings. Raises NotFound without it, BadQuery when it has no criterion of the rubric."""
    name = str(spec)
    path, _, rater = name.partition("#") if not Path(name).exists() else (name, "", "")
    where = Path(path)
    if where.is_dir():
        return _of_artifact(name, where, rubric, people)
    rows, bad = _lines(where, rater)
    return _readings(name, "people" if people else _kind(rows), rows, rubric, bad)


def open_repeated(spec: str | Path, rubric: Rubric, *, people: bool = False) -> list[Readings]:
    """The first, second, … readings, by name of the rater, of the documents that one file has several readings of."""
    rows, _ = _lines(Path(spec), "")
    by_doc: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if (doc_id := row.get("doc_id", row.get("id"))) is not None:
            by_doc.setdefault(str(doc_id), []).append(row)
    often = [sorted(own, key=lambda row: str(row.get("rater", ""))) for own in by_doc.values() if len(own) > 1]
    if not often:
        raise BadQuery(f"{spec} has one reading a document: give a second set of ratings")
    kind = "people" if people else _kind(rows)
    numbered = [[own[k] for own in often if len(own) > k] for k in range(max(map(len, often)))]
    return [_readings(f"{spec} reading {k + 1}", kind, own, rubric, 0) for k, own in enumerate(numbered)]


def _lines(path: Path, rater: str) -> tuple[list[dict[str, Any]], int]:
    """The rows of a JSON-lines file, of one rater if one is named, and how many lines are no object."""
    if not path.is_file():
        raise NotFound(f"no ratings at {path}: give a folder that `typecase rate` made, or JSON lines, or FILE#RATER")
    lines = list(read_json_lines(path))
    rows = [row for row in lines if row is not None and (not rater or str(row.get("rater")) == rater)]
    if rater and not rows:
        known = sorted({str(row["rater"]) for row in lines if row is not None and "rater" in row})
        raise NotFound(f"{path} has no rater '{rater}'; it has {', '.join(known[:12]) or 'rows without a rater'}")
    return rows, sum(row is None for row in lines)


def _kind(rows: Sequence[Mapping[str, Any]]) -> str:
    said = {str(row.get("rater_kind", "")).lower() for row in rows}
    return "people" if said and said <= _PEOPLE else "model" if said == {"model"} else "unstated"


def _of_artifact(name: str, folder: Path, rubric: Rubric, people: bool) -> Readings:
    """An artifact by columns: it may have millions of rows, each document once."""
    manifest = read_manifest(folder)
    if manifest.kind != "ratings":
        raise SchemaMismatch(f"{folder} holds {manifest.kind}, not ratings; give the folder that `typecase rate` made")
    parts = [entry.name for entry in manifest.files if "/" not in entry.name and entry.name.startswith("part-")]
    table = pa.concat_tables([shards.read_columns(folder / part) for part in parts]).sort_by("doc_id")
    columns = _columns(name, rubric, set(table.column_names))
    unusable: Counter[str] = Counter()
    scores = np.column_stack([_floats(table, keys[0]) for keys in columns.values()])
    outside = (scores < rubric.low) | (scores > rubric.high)
    if outside.any():
        unusable[f"a score outside {rubric.low}..{rubric.high}"] += int(outside.sum())
        scores[outside] = np.nan
    rated = ~np.isnan(scores).all(axis=1)
    status = table.column("status").to_pylist() if "status" in table.column_names else [None] * table.num_rows
    for row in np.flatnonzero(~rated):
        unusable[f"status {status[row]}" if status[row] not in (None, "ok") else "no score"] += 1
    ids, labels = table.column("doc_id").to_pylist(), _domains(table, rubric, unusable)
    kept = np.flatnonzero(rated).tolist()
    return Readings(
        name,
        "people" if people else "model",
        tuple(ids[row] for row in kept),
        tuple(columns),
        scores[rated],
        tuple(labels[row] for row in kept),
        _floats(table, "confidence")[rated],
        _floats(table, "domain_confidence")[rated],
        0,
        dict(sorted(unusable.items())),
        _parent_docs(folder, manifest),
    )


def _floats(table: pa.Table, name: str) -> F64:
    """A column as float64, NaN where it is null or there is none."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    values: F64 = table.column(name).cast(pa.float64()).to_numpy()
    return values.copy()


def _domains(table: pa.Table, rubric: Rubric, unusable: Counter[str]) -> list[str | None]:
    if "domain" not in table.column_names:
        return [None] * table.num_rows
    said = table.column("domain").to_pylist()
    known = {value: _domain(value, rubric, Counter()) for value in set(said)}
    strange = sum(known[value] is None for value in said if value is not None)
    if strange and rubric.domains:
        unusable["a domain that the rubric does not know"] += strange
    return [known[value] for value in said]


def _columns(name: str, rubric: Rubric, known: set[str]) -> dict[str, list[str]]:
    """The names under which a set has the rubric's criteria. Raises BadQuery when it has none."""
    found = {c.id: [key for key in (c.id, *c.aliases) if key in known] for c in rubric.criteria}
    found = {criterion: keys for criterion, keys in found.items() if keys}
    if not found:
        raise BadQuery(f"{name} has no criterion of rubric '{rubric.id}' ({', '.join(rubric.columns[:4])} …); give --rubric")
    return found


def _parent_docs(folder: Path, manifest: Manifest) -> Path | None:
    parent = manifest.parent("docs")
    if parent is None:
        return None
    path = (folder / parent.path).resolve()
    return path if (path / NAME).is_file() else None


def _readings(name: str, kind: str, rows: Sequence[Mapping[str, Any]], rubric: Rubric, bad: int) -> Readings:
    keys = _columns(name, rubric, {key for row in rows for key in row})
    columns = tuple(keys)
    unusable: Counter[str] = Counter({"no JSON object": bad} if bad else {})
    sums: dict[str, list[Any]] = {}
    for row in rows:
        doc_id = row.get("doc_id", row.get("id"))
        if doc_id is None:
            unusable["no id"] += 1
            continue
        values = [_score(row, keys[c], rubric, unusable) for c in columns]
        if all(np.isnan(values)):
            unusable[f"status {row['status']}" if row.get("status") not in (None, "ok") else "no score"] += 1
            continue
        own = sums.setdefault(str(doc_id), [[], Counter(), [], []])
        own[0].append(values)
        if (label := _domain(row.get("domain"), rubric, unusable)) is not None:
            own[1][label] += 1
        own[2].append(_number(row.get("confidence")))
        own[3].append(_number(row.get("domain_confidence")))
    ids = tuple(sorted(sums))
    readings = [sums[doc_id] for doc_id in ids]
    return Readings(
        name,
        kind,
        ids,
        columns,
        np.array([_mean(np.array(r[0])) for r in readings]).reshape(len(ids), len(columns)),
        tuple(min(r[1], key=lambda label: (-r[1][label], label)) if r[1] else None for r in readings),
        np.array([r[2][0] if len(r[2]) == 1 else np.nan for r in readings], np.float64),
        np.array([r[3][0] if len(r[3]) == 1 else np.nan for r in readings], np.float64),
        sum(len(r[0]) - 1 for r in readings),
        dict(sorted(unusable.items())),
    )


def _score(row: Mapping[str, Any], keys: Sequence[str], rubric: Rubric, unusable: Counter[str]) -> float:
    value = next((row[key] for key in keys if row.get(key) is not None), None)
    number = _number(value)
    if not np.isnan(number) and not rubric.low <= number <= rubric.high:
        unusable[f"a score outside {rubric.low}..{rubric.high}"] += 1
        return float("nan")
    return number


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")


def _domain(value: object, rubric: Rubric, unusable: Counter[str]) -> str | None:
    if value is None or not rubric.domains:
        return None
    try:
        return rubric.domain(str(value)).id
    except BadQuery:
        unusable["a domain that the rubric does not know"] += 1
        return None


def _mean(values: F64) -> F64:
    """Means of the columns, over the readings that have them."""
    has = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: F64 = np.where(has, values, 0).sum(axis=0) / has.sum(axis=0)
    return mean


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a document beside its ratings. `origin` is the document that it is a changed copy of, or its own id."""

    source: str
    text_bytes: int
    origin: str
    text: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


def facts_of(docs: Path, *, wanted: set[str] | None = None, texts: bool = False) -> dict[str, Facts]:
    """Facts by id, of a folder of documents or a JSON-lines file with id or doc_id, text, source (variant_of)."""
    found: dict[str, Facts] = {}
    if docs.is_file():
        for row in read_json_lines(docs):
            if row is None or (doc_id := row.get("doc_id", row.get("id"))) is None:
                continue
            if wanted is None or str(doc_id) in wanted:
                text = str(row.get("text") or "")
                more = {key: value for key, value in row.items() if key not in ("text", "id", "doc_id")}
                found[str(doc_id)] = Facts(
                    str(row.get("source") or ""),
                    len(text.encode("utf-8", "replace")),
                    str(row.get("variant_of") or doc_id),
                    text if texts else "",
                    more,
                )
        return found
    store = open_documents(docs)
    for table in store.tables(["doc_id", "text", "source", "file", "meta"]):
        sizes = shards.lengths_of(table.column("text")).tolist()
        columns = [table.column(name).to_pylist() for name in ("doc_id", "source", "file", "meta")]
        for place, (doc_id, source, file, meta) in enumerate(zip(*columns, strict=True)):
            if wanted is None or doc_id in wanted:
                text = table.column("text")[place].as_py() if texts else ""
                more = {"file": file, **orjson.loads(meta or "{}")}
                found[doc_id] = Facts(source or "", sizes[place], doc_id, text, more)
    return found


def criteria_of(folder: Path, rubric: Rubric) -> tuple[str, ...]:
    """The criteria of the rubric that a folder of ratings has; only its schema is read. Raises BadQuery for none."""
    parts = sorted(folder.glob("part-*.parquet"))
    known = set(pq.read_schema(parts[0]).names) if parts else set[str]()
    return tuple(_columns(str(folder), rubric, known))


def sources_of(docs: Path) -> dict[str, str]:
    """The source of every document by id, "" where it has none; no text is read of a folder of documents."""
    if docs.is_file():
        return {doc_id: own.source for doc_id, own in facts_of(docs).items()}
    found: dict[str, str] = {}
    for table in open_documents(docs).tables(["doc_id", "source"]):
        ids, sources = table.column("doc_id").to_pylist(), table.column("source").to_pylist()
        found.update((doc_id, source or "") for doc_id, source in zip(ids, sources, strict=True))
    return found


def value_of(facts: Facts | None, key: str) -> str:
    """One property of a document as text: source, document, or a key of its own; "" where unknown."""
    if facts is None:
        return ""
    if key == "source":
        return facts.source
    if key == "document":
        return facts.origin
    return str(facts.more.get(key, ""))
