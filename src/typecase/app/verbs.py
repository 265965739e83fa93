"""One function a verb: what the command line and, later, the web call.

Stages of a recipe are verbs too: `make` runs one into a folder. The others look at what lies on disk and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from typecase.app.engines import Workers, engine_of
from typecase.app.places import artifact_folder, what_is_at
from typecase.app.views import ArtifactInfo, ShownDocument, ShownTokens, TokenSetInfo
from typecase.errors import BadQuery, FixInput, SchemaMismatch
from typecase.recipe.build import TOKENIZER, open_recorded_tokenizer
from typecase.recipe.progress import Reporter
from typecase.recipe.recipe import Recipe, load_recipe
from typecase.recipe.run import Artifact, run_stage
from typecase.recipe.stage import Stage
from typecase.recipe.why import Fate, Node, tree
from typecase.recipe.why import fate as why_of_document
from typecase.store import exports
from typecase.store import manifest as manifests
from typecase.store.documents import DocumentStore, open_documents
from typecase.store.exports import Exported, What
from typecase.store.journal.opening import open_set
from typecase.store.journal.provenance import provenance_of
from typecase.store.picks import picked
from typecase.store.provenance import Provenance
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer
from typecase.store.tokens.store import TokenStore

SHOWN_TOKENS = 400


def make(
    stage: Stage, given: dict[str, Path], out: Path | str, *, workers: Workers = 0, reporter: Reporter | None = None
) -> Artifact:
    """Runs one stage into the folder `out`; see `run_stage` for errors."""
    return run_stage(stage, given, Path(out), engine=engine_of(workers), reporter=reporter)


def run(
    recipe: Recipe | Path | str,
    work: Path | str,
    *,
    sample: float = 1.0,
    workers: Workers = 0,
    reporter: Reporter | None = None,
    finished: Callable[[Artifact], None] | None = None,
) -> list[Artifact]:
    """Runs a recipe, or the recipe of a file, over the share `sample` of its documents; `finished` hears of every stage."""
    chosen = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    chosen = chosen if sample == 1.0 else chosen.sampled(sample)
    artifacts = []
    for artifact in chosen.iterate(work, engine=engine_of(workers), reporter=reporter):
        artifacts.append(artifact)
        if finished is not None:
            finished(artifact)
    return artifacts


def open(path: Path | str) -> TokenStore | DocumentStore:
    """Opens what lies at `path`, read-only: a token set of any maker, or a folder of documents. `set@` is a token set as its
    journal says, `set@branch` or `set@17` at a branch or entry.

    Raises NotFound, CorruptStore or SchemaMismatch.
    """
    at = what_is_at(path)
    if at.kind == "docs":
        return open_documents(at.path)
    if at.kind == "tokens":
        return open_set(path)
    raise SchemaMismatch(f"{path} holds {at.kind}, a side table: read its part-*.parquet with any Parquet reader, or by SQL")


def info(path: Path | str) -> TokenSetInfo | ArtifactInfo:
    """Says what lies at `path`."""
    at = what_is_at(path)
    if at.kind == "tokens":
        with open_set(path) as store:
            return _token_info(store)
    assert at.manifest is not None
    m = at.manifest
    main = [f for f in m.files if "/" not in f.name]
    sources = {}
    if at.kind == "docs" and main:
        table = open_documents(at.path).sql(
            "select source, count(*) as n from docs group by source order by n desc, source limit 20"
        )
        sources = dict(zip(table.column("source").to_pylist(), table.column("n").to_pylist(), strict=True))
    balance = m.balance.as_dict() if m.balance else None
    rows = sum(f.rows for f in main)
    return ArtifactInfo(str(path), m.kind, m.stage, rows, len(main), m.fingerprint, m.content, balance, dict(m.counts), sources)


def _token_info(store: TokenStore) -> TokenSetInfo:
    lengths = np.asarray(store.document_lengths())
    folder = store.pair.bin.parent
    notes = []
    if store.modes is not None:
        notes.append("multimodal: a mode byte per sequence")
    if store.num_sequences and len(store.document_index) == 1:
        notes.append("no document index (a merge by GPT-NeoX): every sequence is taken as a document")
    recorded = open_recorded_tokenizer(folder)
    return TokenSetInfo(
        path=str(store.pair.prefix),
        format=store.layout.header.format,
        dtype=store.dtype.name,
        sequences=store.num_sequences,
        documents=store.num_documents,
        tokens=store.num_tokens,
        bin_bytes=store.pair.bin.stat().st_size,
        shortest=int(lengths.min()) if lengths.size else 0,
        median=int(np.median(lengths)) if lengths.size else 0,
        longest=int(lengths.max()) if lengths.size else 0,
        provenance=provenance_of(store) is not None,
        tokenizer=f"{recorded.fingerprint} ({recorded.num_ids:,} ids)" if recorded is not None else None,
        notes=tuple(notes),
    )


def show(
    path: Path | str, picks: str, *, tokenizer: str | None = None, limit_tokens: int = SHOWN_TOKENS
) -> list[ShownTokens] | list[ShownDocument]:
    """Documents of a token set (by number, range or id) or of a document store (by id), as text and tokens."""
    store = open(path)
    if isinstance(store, DocumentStore):
        return [_shown_document(store, pick.strip()) for pick in picks.split(",") if pick.strip()]
    with store:
        folder = store.pair.bin.parent
        provenance = provenance_of(store)
        reader = tokenizer_for(folder, tokenizer)
        docs = picked(picks, store.num_documents, provenance)
        return [_shown_tokens(store, int(doc), reader, provenance, limit_tokens) for doc in docs]


def _shown_document(store: DocumentStore, doc_id: str) -> ShownDocument:
    d = store.get(doc_id)
    return ShownDocument(d.id, d.source, str(d.place), d.meta, d.text, len(d.text.encode()))


def _shown_tokens(
    store: TokenStore, doc: int, tokenizer: Tokenizer | None, provenance: Provenance | None, limit: int
) -> ShownTokens:
    tokens = store.read(doc)
    shown = tuple(int(t) for t in tokens[:limit])
    index = np.asarray(store.document_index)
    first, last = (doc, doc + 1) if len(index) == 1 else (int(index[doc]), int(index[doc + 1]))
    bounds = np.cumsum(np.asarray(store.lengths)[first:last], dtype=np.int64)[:-1]
    row = provenance.rows(np.array([doc])).to_pylist()[0] if provenance is not None else {}
    return ShownTokens(
        doc=doc,
        doc_id=row.get("doc_id"),
        source=row.get("source"),
        place=f"{row['file']}:{row['row']}" if row else None,
        num_tokens=len(tokens),
        tokens=shown,
        pieces=tuple(tokenizer.token_text(t) for t in shown) if tokenizer is not None else None,
        text=tokenizer.decode(list(shown)) if tokenizer is not None else None,
        boundaries=tuple(int(b) for b in bounds if b < limit),
    )


def tokenizer_for(folder: Path, named: str | None) -> Tokenizer | None:
    """The tokenizer that is named, else the one that the set was built with, else none.

    Those of sets stay open, a few, for opening one takes half a second; one whose files have changed is opened anew.
    """
    return open_tokenizer(named) if named is not None else _recorded(folder, _stamp(folder))


@lru_cache(maxsize=4)
def _recorded(folder: Path, stamp: tuple[tuple[str, int, int], ...]) -> Tokenizer | None:
    return open_recorded_tokenizer(folder)


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, times and sizes of the files that say what the tokenizer of a set is."""
    files = sorted(p for p in (folder / manifests.NAME, *(folder / TOKENIZER).glob("*")) if p.is_file())
    return tuple((p.name, p.stat().st_mtime_ns, p.stat().st_size) for p in files)


def export(
    path: Path | str, out: Path | str, *, picks: str | None = None, what: What = "both", tokenizer: str | None = None
) -> Exported:
    """Writes documents to a new file in the format of its name; `picks` chooses some. See `store.exports`."""
    out = Path(out)
    kind = exports.format_of(out)
    store = open(path)
    if isinstance(store, DocumentStore):
        if kind == ".bin":
            raise FixInput(f"{path} holds documents, not tokens: build them first, or export to .jsonl, .csv or .parquet")
        where = {store.get(p.strip()).id for p in picks.split(",")} if picks else None
        return Exported((out,), exports.export_rows(exports.document_rows(store, where=where), out), 0)
    with store:
        folder = store.pair.bin.parent
        provenance = provenance_of(store)
        docs = picked(picks, store.num_documents, provenance) if picks else np.arange(store.num_documents)
        if kind == ".bin":
            return exports.export_subset(store, docs, out)
        reader = tokenizer_for(folder, tokenizer) if what != "tokens" else None
        if what == "both" and reader is None:
            raise BadQuery("text needs a tokenizer, and this set has none recorded: name one, or export tokens alone")
        decode = reader.decode if reader is not None else None
        rows = exports.export_rows(exports.token_rows(store, docs, what=what, decode=decode, provenance=provenance), out)
        tokens = int(np.asarray(store.document_lengths())[docs].sum()) if what != "text" else 0
        return Exported((out,), rows, tokens)


def why(path: Path | str) -> Node:
    """The artifact that `path` is, or lies in, with everything that it was made from."""
    return tree(artifact_folder(path))


def fate(path: Path | str, doc_id: str) -> list[Fate]:
    """What became of the document `doc_id` (32 digits) at every stage behind `path`."""
    return why_of_document(artifact_folder(path), doc_id)
