"""Examples: the beginning of a few documents for each criterion, source and level, chosen by hash and never by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from typecase.app.analyse.scan import Scan, parts_of_cell
from typecase.store.documents import groups_within, open_documents

EXCERPT_CHARACTERS = 320


@dataclass(frozen=True, slots=True)
class Example:
    """A document of one cell. `excerpt` is its beginning, empty where the documents are not at hand."""

    criterion: str
    source: str
    level: int
    score: float
    doc_id: str
    excerpt: str
    text_characters: int


def examples_of(found: Scan, docs: Path | None) -> tuple[Example, ...]:
    """The kept rows of a scan with their texts, by criterion, source and falling level."""
    kept, rubric = found.examples, found.set.rubric
    ids = [f"{int(hi):016x}{int(lo):016x}" for hi, lo in zip(kept.hi, kept.lo, strict=True)]
    texts = _texts(docs, sorted(set(ids))) if docs is not None else {}
    sources = list(found.sources.names)
    made = []
    for cell, value, doc_id in zip(kept.cell, kept.value, ids, strict=True):
        criterion, source, level = parts_of_cell(int(cell), found.sources.num_levels)
        text = texts.get(doc_id, ("", 0))
        named = (rubric.columns[criterion], sources[source], rubric.low + level)
        made.append((criterion, source, Example(*named, float(value), doc_id, *text)))
    size = {i: -int(rows) for i, rows in enumerate(found.sources.rows)}
    order = sorted(made, key=lambda m: (m[0], size[m[1]], m[2].source, -m[2].level))  # stable: hashes rise within a cell
    return tuple(example for _, _, example in order)


def _texts(docs: Path, ids: list[str]) -> dict[str, tuple[str, int]]:
    """Beginning and length in characters of the documents `ids`, which rise; only the row groups that hold them are read."""
    found: dict[str, tuple[str, int]] = {}
    if not ids:
        return found
    wanted = pa.array(ids, pa.string())
    for part in open_documents(docs).parts:
        for table in groups_within(part, ids[0], ids[-1] + " ", ["doc_id", "text"]):
            rows = table.filter(pc.is_in(table.column("doc_id"), value_set=wanted))
            starts = pc.utf8_slice_codeunits(rows.column("text"), 0, EXCERPT_CHARACTERS)
            lengths = pc.utf8_length(rows.column("text"))
            for doc_id, start, length in zip(
                rows.column("doc_id").to_pylist(), starts.to_pylist(), lengths.to_pylist(), strict=True
            ):
                found[doc_id] = (start, length)
    return found
