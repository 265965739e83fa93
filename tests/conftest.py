"""Fixtures shared by all rooms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from typecase.core.balance import Balance
from typecase.core.document import Document, Place, id_from_key
from typecase.store.documents import DOC_SCHEMA, table_of
from typecase.store.manifest import FileEntry, Manifest, write_manifest
from typecase.store.shards import part_name, write_shard

# The first call of a numba kernel compiles it; no law is about time.
settings.register_profile("typecase", deadline=None)
settings.load_profile("typecase")


def make_documents(texts: Sequence[str], source: str = "test", meta: dict[str, object] | None = None) -> list[Document]:
    """Documents with the keys "0", "1", … in the order of `texts`."""
    return [
        Document(id_from_key(str(i)), text, source, Place("made.jsonl", i, i * 100), meta or {}) for i, text in enumerate(texts)
    ]


def make_docs_artifact(folder: Path, documents: Sequence[Document], num_parts: int = 1) -> Path:
    """A committed docs artifact: `documents` sorted by id, cut into `num_parts` parts of rising id ranges."""
    ordered = sorted(documents, key=lambda d: d.id)
    cuts = [len(ordered) * k // num_parts for k in range(num_parts + 1)]
    files = []
    for k in range(num_parts):
        chunk = ordered[cuts[k] : cuts[k + 1]]
        write_shard(folder / part_name(k), [table_of(chunk)], DOC_SCHEMA)
        files.append(FileEntry.of(folder, part_name(k), rows=len(chunk)))
    manifest = Manifest("docs", "ingest", 1, {}, (), tuple(files), Balance(len(ordered), len(ordered)))
    write_manifest(folder, manifest)
    return folder


@pytest.fixture
def docs_artifact(tmp_path: Path) -> Callable[..., Path]:
    """`docs_artifact(documents, num_parts=1, name="docs")` writes a docs artifact and returns its folder."""

    def build(documents: Sequence[Document], num_parts: int = 1, name: str = "docs") -> Path:
        return make_docs_artifact(tmp_path / name, documents, num_parts)

    return build
