"""What a derivation reports: how its criteria go together, where they come from, what the tails hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from typecase.core.causes import component_shares, correlations
from typecase.errors import BadRecipe, NotFound
from typecase.lm.derive.deriving import Candidate, Cause, Suspect, incidence
from typecase.lm.derive.names import Named
from typecase.store.manifest import NAME as MANIFEST
from typecase.store.manifest import read_manifest
from typecase.store.shards import read_columns


@dataclass(frozen=True, slots=True)
class Trial:
    """Trial ratings: a float64 column (documents,) for each criterion that was rated."""

    columns: Mapping[str, np.ndarray]
    rows: int


def read_trial(path: Path, named: Sequence[Named]) -> Trial:
    """Ratings by an earlier version of the rubric, an artifact or a JSON-lines file; documents with every score count."""
    if (path / MANIFEST).is_file():
        parts = [path / file.name for file in read_manifest(path).files if file.name.startswith("part-")]
        table = pa.concat_tables([read_columns(part) for part in parts])
        values = {name: table.column(name).to_pylist() for name in table.column_names}
    elif path.is_file():
        rows = [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
        values = {one.id: [row.get(one.id) for row in rows] for one in named}
    else:
        raise NotFound(f"no ratings at {path}: give a ratings artifact or a JSON-lines file")
    rated = [one.id for one in named if any(value is not None for value in values.get(one.id, ()))]
    known = {name: np.array(values[name], np.float64) for name in rated}
    if not known:
        raise BadRecipe(f"{path} rates none of {', '.join(one.id for one in named)}: rate with this rubric first")
    whole = np.all([np.isfinite(column) for column in known.values()], axis=0)
    return Trial({name: column[whole] for name, column in known.items()}, int(whole.sum()))


def redundancy(
    suspects: Sequence[Suspect], by_id: Mapping[str, Candidate], named: Sequence[Named], trial: Trial | None, limit: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """How the criteria go together, and those that go (id -> the one that says the same), the smaller of two.

    Of trial ratings where there are any; else of which document has which cause, from which nothing is dropped.
    """
    if trial is not None:
        ids = [one.id for one in named if one.id in trial.columns]
        columns, basis = np.column_stack([trial.columns[name] for name in ids]), "trial ratings"
    else:
        ids, basis = [one.id for one in named], "causes of documents"
        columns = incidence(suspects, [by_id[one.cluster] for one in named if one.cluster in by_id])
        ids = [one.id for one in named if one.cluster in by_id]
    matrix = correlations(columns)
    dropped: dict[str, str] = {}
    for later in range(len(ids)) if trial is not None else ():
        for earlier in range(later):
            if ids[earlier] not in dropped and abs(matrix[later, earlier]) >= limit:
                dropped[ids[later]] = ids[earlier]
                break
    told = [[None if np.isnan(value) else round(float(value), 4) for value in row] for row in matrix]
    shares = [round(float(share), 4) for share in component_shares(matrix)]
    return {"basis": basis, "criteria": ids, "correlation": told, "component_shares": shares}, dropped


def provenance(named: Sequence[Named], by_id: Mapping[str, Candidate], causes: Sequence[Cause]) -> dict[str, Any]:
    out = {}
    for one in named:
        candidate = by_id.get(one.cluster)
        own = set(candidate.phrases) if candidate else set()
        shown = [cause for cause in causes if cause.used and cause.cause in own]
        out[one.id] = {
            "cluster": one.cluster,
            "named_by": one.by,
            "support": dict(candidate.support) if candidate else {},
            "sources": dict(candidate.sources) if candidate else {},
            "documents": list(candidate.documents) if candidate else [],
            "evidence": [
                {"doc_id": c.doc_id, "cause": c.cause, "text": c.evidence, "start": c.start, "stop": c.stop} for c in shown
            ],
        }
    return out


def count_tails(suspects: Sequence[Suspect]) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for suspect in suspects:
        row = out.setdefault(suspect.source, {"low": 0, "high": 0})
        row[suspect.end] = row.get(suspect.end, 0) + 1
    return dict(sorted(out.items()))
