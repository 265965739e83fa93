"""Made annotation sets for the tests of analysing: a docs artifact, ratings of it in any number of parts, side tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.conftest import make_docs_artifact
from typecase.core.balance import Balance
from typecase.core.document import Document, Place, id_from_key
from typecase.lm.rate.rubric import load_rubric
from typecase.store.manifest import FileEntry, Manifest, parent_of, write_manifest
from typecase.store.shards import part_name, write_shard

COLUMNS = load_rubric("dataman").columns


def made_documents(num: int, sources: Sequence[str] = ("wiki", "web", "code")) -> list[Document]:
    """Documents of growing length with sources in turn."""
    return [
        Document(id_from_key(str(i)), f"Text {i} " * (i % 40 + 1), sources[i % len(sources)], Place("made.jsonl", i, 0), {})
        for i in range(num)
    ]


def made_rows(documents: Sequence[Document], seed: int = 1, columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    """A row a document in rising order of id: scores on 1..5 with holes, a domain, a status, bytes read."""
    rng = np.random.default_rng(seed)
    rows = []
    for doc in sorted(documents, key=lambda d: d.id):
        quality = rng.normal(3.2, 0.9)
        scores = {name: float(np.float32(np.clip(quality + rng.normal(0, 0.6), 1, 5))) for name in columns}
        if rng.random() < 0.05:
            scores = dict.fromkeys(columns)
        elif rng.random() < 0.1:
            scores[columns[0]] = None
        status = "rater_failed" if scores[columns[-1]] is None else "ok"
        domain = ["Law", "Coding", None][int(rng.integers(0, 3))]
        rows.append({"doc_id": doc.id, **scores, "domain": domain, "status": status, "rated_bytes": len(doc.text.encode())})
    return rows


def ratings_artifact(
    folder: Path, docs: Path, rows: Sequence[Mapping[str, Any]], num_parts: int = 1, columns: Sequence[str] = COLUMNS
) -> Path:
    """A committed ratings artifact of `rows`, a child of `docs`."""
    schema = pa.schema(
        [
            ("doc_id", pa.string()),
            *((name, pa.float32()) for name in columns),
            ("domain", pa.string()),
            ("confidence", pa.float32()),
            ("status", pa.string()),
            ("rated_bytes", pa.int64()),
        ]
    )
    files = write_parts(folder, pa.Table.from_pylist([{"confidence": 0.5, **row} for row in rows], schema=schema), num_parts)
    parents = (parent_of("docs", docs, child=folder),)
    write_manifest(folder, Manifest("ratings", "rate", 1, {}, parents, tuple(files), Balance(len(rows), len(rows))))
    return folder


def write_parts(folder: Path, table: pa.Table, num_parts: int) -> list[FileEntry]:
    """The table cut into parts."""
    cuts = [table.num_rows * k // num_parts for k in range(num_parts + 1)]
    files = []
    for k in range(num_parts):
        part = table.slice(cuts[k], cuts[k + 1] - cuts[k])
        write_shard(folder / part_name(k), [part], table.schema)
        files.append(FileEntry.of(folder, part_name(k), rows=part.num_rows))
    return files


def corpus(
    tmp_path: Path, num: int = 300, sources: Sequence[str] = ("wiki", "web", "code"), columns: Sequence[str] = COLUMNS
) -> tuple[Path, Path, list[dict[str, Any]]]:
    """(docs, ratings, rows) of `num` documents."""
    documents = made_documents(num, sources)
    docs = make_docs_artifact(tmp_path / "docs", documents, num_parts=3)
    rows = made_rows(documents, columns=columns)
    return docs, ratings_artifact(tmp_path / "ratings", docs, rows, num_parts=2, columns=columns), rows
