"""One document from all sides: its text, its tokens, its scores, its program, and what became of it at every stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from typecase.app import verbs
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.kin import documents_of, ratings_of, refined_of, tokens_of
from typecase.app.web.selections import Label, all_labels
from typecase.errors import BadQuery, NotFound, TypecaseError
from typecase.store.documents import open_documents, row_of
from typecase.store.journal.provenance import provenance_of
from typecase.store.picks import picked
from typecase.store.provenance import Provenance
from typecase.store.timeline.documents import rating_parts
from typecase.store.tokenizer.tokenizer import Tokenizer
from typecase.store.tokens.store import TokenStore

TEXT_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class Tokens:
    """The first tokens of a document: `pieces[i]` is the text of `ids[i]`; `boundaries` are where sequences begin.

    `special` and `poor` are ids among them: never made from text, and under-trained by the audit `judged_by`.
    """

    set: str
    doc: int
    num_tokens: int
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    boundaries: tuple[int, ...]
    special: tuple[int, ...]
    poor: tuple[int, ...]
    judged_by: str


@dataclass(frozen=True, slots=True)
class Happened:
    """What one stage did with a document."""

    stage: str
    outcome: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Detail:
    """A document: `text` of its store, cut at TEXT_CHARS, and its tokens where a token set holds it.

    `labels` are what every selection says of it.
    """

    doc: str
    doc_id: str | None
    source: str | None
    place: str | None
    meta: Mapping[str, Any]
    text: str | None
    text_chars: int
    tokens: Tokens | None
    scores: Mapping[str, Any]
    program: str
    program_status: str
    program_reason: str
    fate: tuple[Happened, ...] = field(default=())
    labels: tuple[Label, ...] = field(default=())


def detail_of(desk: Desk, item: Item, doc: str, *, limit: int) -> Detail:
    """The document `doc` of a set of documents (its id) or tokens (its number or id). Raises NotFound, BadQuery."""
    if item.kind == "docs":
        return _of_documents(desk, item, doc, limit)
    with desk.tokens(item) as store:
        provenance = provenance_of(store)
        numbers = picked(doc, store.num_documents, provenance)
        if "," in doc or ":" in doc:
            raise BadQuery(f"{doc!r} names {len(numbers)} documents: name one, by its number or the first digits of its id")
        number = int(numbers[0])
        shown = tokens_of_document(desk, item, store, number, limit)
        row = provenance.rows(np.array([number])).to_pylist()[0] if provenance is not None else {}
    doc_id = row.get("doc_id")
    parent = documents_of(desk, item)
    place = f"{row['file']}:{row['row']}" if row.get("file") else None
    text, meta = None, {}
    if parent is not None and doc_id is not None:
        try:
            own = open_documents(parent.path).get(doc_id)
            text, meta = own.text, dict(own.meta)
        except NotFound:
            pass
    return _whole(
        desk, item, doc=str(number), doc_id=doc_id, source=row.get("source"), place=place, meta=meta, text=text, tokens=shown
    )


def _of_documents(desk: Desk, item: Item, doc: str, limit: int) -> Detail:
    own = open_documents(item.path).get(doc)
    tokens = tokens_of(desk, item)
    shown = None
    if tokens is not None:
        with desk.tokens(tokens) as store:
            provenance = provenance_of(store)
            number = _number_of(provenance, own.id)
            shown = tokens_of_document(desk, tokens, store, number, limit) if number is not None else None
    place = str(own.place)
    return _whole(
        desk, item, doc=own.id, doc_id=own.id, source=own.source, place=place, meta=dict(own.meta), text=own.text, tokens=shown
    )


def _number_of(provenance: Provenance | None, doc_id: str) -> int | None:
    """The number of a document in a token set, of its first copy; None where the set does not have it."""
    if provenance is None:
        return None
    try:
        return int(np.min(provenance.find(doc_id)))
    except NotFound:
        return None


def _whole(
    desk: Desk,
    item: Item,
    *,
    doc: str,
    doc_id: str | None,
    source: str | None,
    place: str | None,
    meta: Mapping[str, Any],
    text: str | None,
    tokens: Tokens | None,
) -> Detail:
    ratings, refined = ratings_of(desk, item), refined_of(desk, item)
    scores: dict[str, Any] = {}
    program: dict[str, Any] = {}
    if doc_id is not None and ratings is not None:
        scores = _plain(row_of(rating_parts(ratings.path), doc_id) or {})
    if doc_id is not None and refined is not None:
        program = row_of(open_documents(refined.path).side_parts("programs"), doc_id) or {}
    return Detail(
        doc,
        doc_id,
        source,
        place,
        _plain(meta),
        text[:TEXT_CHARS] if text is not None else None,
        len(text) if text is not None else 0,
        tokens,
        {k: v for k, v in scores.items() if k != "doc_id"},
        program.get("program") or "",
        program.get("status") or "",
        program.get("reason") or "",
        _fate(item, doc_id),
        all_labels(desk, item, doc_id) if doc_id is not None else (),
    )


def _fate(item: Item, doc_id: str | None) -> tuple[Happened, ...]:
    if doc_id is None or not item.has_manifest:
        return ()
    try:
        told = verbs.fate(item.path, doc_id)
    except TypecaseError:
        return ()
    return tuple(Happened(f.stage, f.outcome, f.reason, _said(f.detail)) for f in told)


def _said(detail: Mapping[str, Any]) -> str:
    shown = [f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in detail.items() if v not in (None, "", [], {})]
    text = ", ".join(shown)
    return text if len(text) <= 400 else text[:397] + "…"


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = orjson.loads(orjson.dumps(dict(values), default=str))
    return plain


def tokens_of_document(desk: Desk, item: Item, store: TokenStore, doc: int, limit: int) -> Tokens:
    """The first `limit` tokens of document `doc` of an open set, with what is known of each id."""
    index = np.asarray(store.document_index)[doc : doc + 2].tolist()
    sizes = np.asarray(store.lengths)[index[0] : index[1]].astype(np.int64)
    ends = np.cumsum(sizes)
    own = np.arange(index[0], index[1])[: int(np.searchsorted(ends, limit)) + 1]
    ids, _ = store.read_spans(own, np.zeros(len(own), np.int64), np.asarray(store.lengths)[own].astype(np.int64))
    shown = tuple(int(t) for t in np.asarray(ids)[:limit])
    reader = verbs.tokenizer_for(store.pair.bin.parent, None)
    special, poor, judged = marks_of(desk, item, reader)
    pieces = tuple(reader.token_text(t) if t <= reader.max_id else f"<{t}>" for t in shown) if reader is not None else ()
    there = set(shown)
    return Tokens(
        item.name,
        doc,
        int(sizes.sum()),
        shown,
        pieces or tuple(f"{t} " for t in shown),
        tuple(int(e) for e in ends[:-1] if e < limit),
        tuple(sorted(special & there)),
        tuple(sorted(poor & there)),
        judged,
    )


def marks_of(desk: Desk, item: Item, reader: Tokenizer | None) -> tuple[frozenset[int], frozenset[int], str]:
    """The special ids of a tokenizer, those that a served audit of its vocabulary found under-trained, and that audit."""
    if reader is None:
        return frozenset(), frozenset(), ""
    special = frozenset(reader.special_tokens.values())
    for audit in desk.catalogue.of_kind("audit"):
        poor = desk.remember(("audit", audit.path), stamp_of(audit), lambda audit=audit: _under_trained(audit))  # type: ignore[misc]
        if poor is not None and poor[0] == reader.num_ids:
            return special, poor[1], audit.name
    return special, frozenset(), ""


def _under_trained(audit: Item) -> tuple[int, frozenset[int]] | None:
    import pyarrow.parquet as pq

    try:
        lists = orjson.loads((audit.path / "ids.json").read_bytes())
        return pq.read_metadata(audit.path / "tokens.parquet").num_rows, frozenset(int(i) for i in lists["mask"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
