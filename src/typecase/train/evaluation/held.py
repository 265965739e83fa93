"""Held: documents that a model is measured on: a token set, or a folder of documents that is encoded on the way.

    token set    ids as they lie, the end token of a document left out; bytes from the provenance, else from decoding
    documents    text encoded by the model's own tokenizer; bytes of the text in UTF-8

Each has its id, source and domain where they are known: sources from provenance, domains from ratings, those in the lineage of
a token set or the folder that is named. Price: all documents in memory, 8 bytes a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.errors import FingerprintMismatch, NotFound
from typecase.store.documents import open_documents
from typecase.store.journal.opening import open_set
from typecase.store.manifest import digest, read_manifest
from typecase.store.shards import read_columns
from typecase.store.timeline.documents import Library, rating_parts
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Documents, a row each: `ids` without end token, `num_bytes` of their text; `domains` is "" where none is known.

    `content` names what was read: the same documents, the same 32 digits.
    """

    doc_ids: tuple[str, ...]
    sources: tuple[str, ...]
    domains: tuple[str, ...]
    ids: tuple[Ints, ...]
    num_bytes: Ints
    content: str

    def __len__(self) -> int:
        return len(self.doc_ids)

    def texts(self, tokenizer: Tokenizer) -> list[str]:
        """The text of each document, decoded."""
        return [tokenizer.decode(row) for row in self.ids]

    def first(self, num: int) -> Held:
        """The first `num` documents."""
        if not num or num >= len(self):
            return self
        content = digest([self.content, num])
        return Held(self.doc_ids[:num], self.sources[:num], self.domains[:num], self.ids[:num], self.num_bytes[:num], content)


def open_held(path: Path | str, tokenizer: Tokenizer, *, ratings: Path | None = None) -> Held:
    """The documents at `path`, in its order. Raises NotFound, and FingerprintMismatch for a set of another tokenizer."""
    folder = Path(path)
    is_documents = (folder / "manifest.json").is_file() and read_manifest(folder).kind == "docs"
    return _documents(folder, tokenizer, ratings) if is_documents else _token_set(path, tokenizer, ratings)


def _documents(folder: Path, tokenizer: Tokenizer, ratings: Path | None) -> Held:
    store = open_documents(folder)
    doc_ids: list[str] = []
    sources: list[str] = []
    texts: list[str] = []
    for table in store.tables(["doc_id", "source", "text"]):
        doc_ids += table.column("doc_id").to_pylist()
        sources += [name or "" for name in table.column("source").to_pylist()]
        texts += table.column("text").to_pylist()
    ids = tuple(np.asarray(tokenizer.encode(text), np.int64) for text in texts)
    sizes = np.array([len(text.encode("utf-8", "surrogatepass")) for text in texts], np.int64)
    domains = _domains(doc_ids, rating_parts(ratings) if ratings is not None else [])
    content = digest(["docs", read_manifest(folder).content, tokenizer.fingerprint, domains])
    return Held(tuple(doc_ids), tuple(sources), domains, ids, sizes, content)


def _token_set(path: Path | str, tokenizer: Tokenizer, ratings: Path | None) -> Held:
    with open_set(path) as store:
        own = store.pair.bin.parent / "tokenizer"
        if own.is_dir() and (theirs := open_tokenizer(str(own))) != tokenizer:
            raise FingerprintMismatch(
                f"{path} was built with another tokenizer ({theirs.spec}) than the model's: give the documents instead, bits"
                " per byte can be compared across tokenizers"
            )
        num = store.num_documents
        tokens, offsets = store.read_many(np.arange(num))
        library = Library(0, store, ratings)
        content = store.fingerprint()
        known = library.provenance is not None
        facts = library.columns(["doc_id", "source", "start", "stop"]) if known else None
        try:
            domains = tuple(_text(library.columns(["domain"]).column("domain"))) if known else ("",) * num
        except NotFound:
            domains = ("",) * num
    rows = [np.asarray(tokens[a:b], np.int64) for a, b in pairwise(offsets.tolist())]
    ids = tuple(row[:-1] if len(row) and row[-1] == tokenizer.eod_id else row for row in rows)
    if facts is None:
        names = tuple(str(k) for k in range(num))
        sizes = np.array([len(tokenizer.decode_bytes(row)) for row in ids], np.int64)
        return Held(names, ("",) * num, domains, ids, sizes, content)
    sizes = facts.column("stop").to_numpy() - facts.column("start").to_numpy()
    return Held(tuple(facts.column("doc_id").to_pylist()), tuple(_text(facts.column("source"))), domains, ids, sizes, content)


def _domains(doc_ids: list[str], parts: list[Path]) -> tuple[str, ...]:
    if not parts:
        return ("",) * len(doc_ids)
    table = pa.concat_tables([read_columns(part, ["doc_id", "domain"]) for part in parts])
    rows = pc.index_in(pa.array(doc_ids, pa.string()), value_set=pc.cast(table.column("doc_id"), pa.string()))
    return tuple(_text(table.column("domain").take(rows)))


def _text(column: pa.ChunkedArray) -> list[str]:
    return [value or "" for value in pc.cast(column, pa.string()).to_pylist()]
