"""A rated corpus for tests: documents of two sources and three domains, whose score leans on the domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.conftest import make_docs_artifact, make_documents
from typecase.core.document import Document
from typecase.store.manifest import FileEntry, Manifest, parent_of, write_manifest
from typecase.store.shards import part_name, write_shard

SOURCES = ("books", "web")
DOMAINS = ("code", "law", "math")
RATINGS_SCHEMA = pa.schema(
    [("doc_id", pa.string()), ("overall_score", pa.float32()), ("accuracy", pa.float32()), ("domain", pa.string())]
)


def corpus(num: int, *, seed: int = 0) -> list[Document]:
    """`num` documents of 1 to 60 words; document i is of source i % 2, and its meta says which domain it is."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(["word", "汉字", "é"][j % 3] for j in range(rng.integers(1, 61))) for _ in range(num)]
    return [
        replace(d, source=SOURCES[i % 2], meta={"lang": {"code": ["en", "de"][i % 2]}, "quality": i % 7})
        for i, d in enumerate(make_documents(texts))
    ]


def ratings_of(documents: Sequence[Document], *, seed: int = 0, unrated: int = 0) -> dict[str, dict[str, Any]]:
    """doc_id -> ratings; the first `unrated` documents by id have none. Code scores one lower than the rest."""
    rng = np.random.default_rng(seed)
    rows = {}
    for document in sorted(documents, key=lambda d: d.id):
        domain = DOMAINS[int(rng.integers(3))]
        score = float(rng.integers(2, 6)) - (domain == "code")
        rows[document.id] = {"overall_score": score, "accuracy": float(rng.integers(1, 6)), "domain": domain}
    for doc_id in sorted(rows)[:unrated]:
        del rows[doc_id]
    return rows


def write_ratings(
    folder: Path, docs: Path, rows: Mapping[str, Mapping[str, Any]], *, num_parts: int = 1, schema: pa.Schema = RATINGS_SCHEMA
) -> Path:
    """A ratings artifact of `docs` whose parts are cut where it likes."""
    ids = sorted(rows)
    cuts = [len(ids) * k // num_parts for k in range(num_parts + 1)]
    files = []
    for k in range(num_parts):
        chunk = ids[cuts[k] : cuts[k + 1]]
        columns = {name: [rows[i].get(name) for i in chunk] for name in schema.names if name != "doc_id"}
        write_shard(folder / part_name(k), [pa.table({"doc_id": chunk, **columns}, schema=schema)], schema)
        files.append(FileEntry.of(folder, part_name(k), rows=len(chunk)))
    write_manifest(folder, Manifest("ratings", "rate", 1, {}, (parent_of("docs", docs, child=folder),), tuple(files)))
    return folder


def rated(tmp_path: Path, num: int, *, num_parts: int = 3, rating_parts: int = 2, unrated: int = 0) -> dict[str, Path]:
    """The artifacts {docs, ratings} of `num` documents."""
    documents = corpus(num)
    docs = make_docs_artifact(tmp_path / f"docs-{num_parts}", documents, num_parts)
    rows = ratings_of(documents, unrated=unrated)
    ratings = write_ratings(tmp_path / f"ratings-{num_parts}-{rating_parts}", docs, rows, num_parts=rating_parts)
    return {"docs": docs, "ratings": ratings}


def byte_tokenizer(folder: Path) -> str:
    """A tokenizer.json with one token a byte: a document has as many tokens as bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")
