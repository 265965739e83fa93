"""One token from all sides: what each audit says of it, its relatives in the vocabulary, and where it stands in a corpus.

Places are looked up in a served token set with as many ids as the audit: through its index, else in the documents that the
audit names, where each is shown only if the token is really there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from typecase.app import verbs
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.kin import indexes_of
from typecase.app.web.verdicts import (
    Known,
    Row,
    Standing,
    decisions_elsewhere,
    merged_into,
    rows_of_ids,
    standing,
    whole_row,
)
from typecase.errors import TypecaseError
from typecase.store.journal.provenance import provenance_of
from typecase.store.tokens.store import TokenStore

PLACES, RELATIVES, CONTEXT = 5, 20, 12
_SIDES: Mapping[str, tuple[str, ...]] = {
    "tokenizer": (
        *("category", "kind", "hex", "bytes", "utf8", "script", "reach", "witness", "reason", "failing", "pieces"),
        *("parents", "contained_in", "scaffold", "scaffold_family", "origin", "suggestion"),
    ),
    "corpus": (
        *("count", "documents", "sources", "rate", "ios", "same_documents", "first_documents"),
        *("prediction", "sightings", "at_most", "p_never", "wanted"),
    ),
    "weights": (
        *("row", "in_row", "same_row_as", "rank", "percentile", "candidate", "main_indicator", "e_out_cosine", "e_out_l2"),
        *("density", "e_out_norm", "e_in_norm", "bias", "p_marginal", "mean_logit"),
    ),
    "prompts": ("max_prob", "verified", "borderline", "first_step", "magikarp"),
}
_ELSEWHERE = (
    *("i", "decoded", "raw_vocab", "decision", "reasons", "advice", "examples", "merged_of", "absorbed_by"),
    *("duplicate_of", "reencoded_ids"),
)


@dataclass(frozen=True, slots=True)
class Named:
    """Another token: its id, its bytes as a visible line, and its decision."""

    i: int
    token: str
    decision: str


@dataclass(frozen=True, slots=True)
class Relatives:
    """Tokens that are something to this one, the first of `total`."""

    role: str
    tokens: tuple[Named, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Place:
    """A place of the token in the set: `at` is which token of document `doc` it is."""

    doc: int
    doc_id: str | None
    source: str | None
    at: int
    before: str
    text: str
    after: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where a token stands in `set`, the first of `count` places by `index`; without an index the count is not known."""

    set: str
    index: str
    count: int | None
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A token from all sides. `sides` are what each audit says of it by column, nothing that is null.

    `noted` are the lines that the report kept of its places, `elsewhere` what other served audits decide of it.
    """

    row: Row
    text: str | None
    sides: Mapping[str, Mapping[str, Any]]
    standing: tuple[Standing, ...]
    relatives: tuple[Relatives, ...]
    places: Places | None
    noted: tuple[str, ...]
    elsewhere: Mapping[str, str]


def token_of(desk: Desk, item: Item, known: Known, token: int, *, indicator: str, tokens: str) -> Token:
    """The token with this id; its places are looked up in the served set `tokens`. Raises BadQuery, NotFound."""
    whole = whole_row(desk, known, token)
    return Token(
        rows_of_ids(desk, known, [token], indicator)[token],
        whole.get("decoded"),
        _sides(whole),
        standing(desk, known, token),
        tuple(_relatives(desk, known, whole)),
        _places(desk, known, whole, tokens),
        tuple(whole.get("examples") or ()),
        dict(decisions_elsewhere(desk, item, whole)),
    )


def _sides(whole: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What each audit says; columns that no audit of ours has are under `more`."""
    there = {k: v for k, v in whole.items() if v is not None and v != [] and k not in _ELSEWHERE}
    found = {side: {name: there.pop(name) for name in names if name in there} for side, names in _SIDES.items()}
    found["corpus"] |= {name: there.pop(name) for name in list(there) if name.startswith("count:")}
    return {side: values for side, values in {**found, "more": there}.items() if values}


def _relatives(desk: Desk, known: Known, whole: Mapping[str, Any]) -> Iterable[Relatives]:
    token = int(whole["i"])
    children, many = merged_into(desk, known, token, RELATIVES)
    absorbers = list(whole.get("absorbed_by") or ())
    again = list(whole.get("reencoded_ids") or ())
    roles: dict[str, tuple[Sequence[int], int]] = {
        "merged of": (list(whole.get("merged_of") or ()), 2),
        "merged into": (children, many),
        "held by": (absorbers, int(whole.get("contained_in") or len(absorbers))),
        "the same bytes as": ([whole["duplicate_of"]] if whole.get("duplicate_of") is not None else [], 1),
        "the same row as": ([whole["same_row_as"]] if whole.get("same_row_as") is not None else [], 1),
        "its text becomes": (again[:RELATIVES] if again != [token] else [], len(again)),
    }
    rows = rows_of_ids(desk, known, sorted({int(i) for ids, _ in roles.values() for i in ids}))
    for role, (ids, total) in roles.items():
        named = tuple(Named(i, rows[i].token, rows[i].decision) for i in ids if i in rows)
        if named:
            yield Relatives(role, named, total)


def sets_of(desk: Desk, known: Known) -> list[Item]:
    """The served token sets whose tokenizer has as many ids as the audit."""
    return [i for i in desk.catalogue.of_kind("tokens") if _num_ids(desk, i) == known.all]


def _num_ids(desk: Desk, item: Item) -> int | None:
    def count() -> int | None:
        try:
            reader = verbs.tokenizer_for(item.pair.bin.parent, None)
        except TypecaseError:
            return None
        return reader.num_ids if reader is not None else None

    return desk.remember(("num_ids", item.path), stamp_of(item), count)


def _places(desk: Desk, known: Known, whole: Mapping[str, Any], tokens: str) -> Places | None:
    if tokens == "-":
        return None
    item = desk.catalogue.get(tokens, "tokens") if tokens else next(iter(sets_of(desk, known)), None)
    if item is None:
        return None
    token = int(whole["i"])
    for index in indexes_of(desk, item):
        with desk.search(index) as search:
            if token > np.iinfo(search.index.text.dtype).max:
                continue
            found = search.hits([token], limit=PLACES, context=CONTEXT)
        hits = found.hits
        places = (Place(h.document.doc, h.document.doc_id, h.document.source, h.start, h.before, h.text, h.after) for h in hits)
        return Places(item.name, index.name, found.count, tuple(places))
    with desk.tokens(item) as store:
        named = [d for d in whole.get("first_documents") or () if 0 <= d < store.num_documents]
        return Places(item.name, "", None, tuple(_in_documents(store, named[:PLACES], token)))


def _in_documents(store: TokenStore, docs: Sequence[int], token: int) -> Iterable[Place]:
    """The first place of a token in each of some documents, where it is there."""
    reader, provenance = verbs.tokenizer_for(store.pair.bin.parent, None), provenance_of(store)

    def said(ids: Any) -> str:
        return reader.decode(ids) if reader is not None else " ".join(map(str, ids.tolist()))

    for doc in docs:
        ids = store.read(doc)
        found = np.flatnonzero(ids == token)
        if len(found):
            at = int(found[0])
            row = provenance.rows(np.array([doc])).to_pylist()[0] if provenance is not None else {}
            before, text, after = said(ids[max(0, at - CONTEXT) : at]), said(ids[at : at + 1]), said(ids[at + 1 :][:CONTEXT])
            yield Place(doc, row.get("doc_id"), row.get("source"), at, before, text, after)
