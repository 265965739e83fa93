"""The token table: one row for each id, everything that is known of it; the verdict of an audit.

    i raw_vocab category decoded reencoded_ids        named as in the published reports, so that files compare
    hex kind reach failing reason witness utf8 …      what the tokenizer alone says
    count documents sources rate ios first_documents  where a corpus was counted
    prediction sightings at_most p_never wanted       where a run is planned
    origin suggestion                                 the verdict

0 is a value everywhere: id 0, byte 0x00 and a count of 0 are never taken for missing; what is missing is null.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from typecase.core.census import NONE
from typecase.core.glitch.merging import absorbed_share, appearances
from typecase.core.glitch.prediction import Plan, Prediction, predict
from typecase.core.glitch.scaffold import Absorbers, absorbers, families
from typecase.core.glitch.verdict import SCAFFOLD_SHARE, Evidence, origin_of, suggestion_of
from typecase.store.audit.census import KeptCensus
from typecase.store.audit.reach import Reached, find_reach
from typecase.store.audit.roundtrip import RoundTrip, round_trip
from typecase.store.audit.vocabulary import Vocabulary

_GAP = 500
"""A parent that comes within 1/500 of the merges so far took nearly all: merges come by falling frequency."""

_NEAR = 4


@dataclass(frozen=True, slots=True, eq=False)
class TokenFacts:
    """What the tokenizer alone says of every id. `parents` counts the tokens merged of it; `scaffold` are the likely ones."""

    vocabulary: Vocabulary
    trip: RoundTrip
    reached: Reached
    absorbers: Absorbers
    children: npt.NDArray[np.int32]
    parents: npt.NDArray[np.int64]
    scaffold: npt.NDArray[np.bool_]
    duplicate_of: tuple[int | None, ...]

    @property
    def reachable(self) -> npt.NDArray[np.bool_]:
        """False only where no text can make the token."""
        return np.array([reach.verdict != "unreachable" for reach in self.reached.reaches])


def examine(vocabulary: Vocabulary) -> TokenFacts:
    """Everything that needs no corpus. Price: 20 s for 256,000 ids."""
    reached = find_reach(vocabulary)
    children = np.array(reached.children, np.int32).reshape(-1, 2)
    parents = np.zeros(vocabulary.num_ids, np.int64)
    merged = np.flatnonzero(children[:, 0] >= 0)
    for k in (0, 1):
        np.add.at(parents, children[merged, k], 1)
    twice = merged[children[merged, 0] == children[merged, 1]]
    np.subtract.at(parents, children[twice, 0], 1)
    first: dict[bytes, int] = {}
    duplicate_of = tuple(
        None if not data or (own := first.setdefault(data, token)) == token else own
        for token, data in enumerate(vocabulary.data)
    )
    return TokenFacts(
        vocabulary,
        round_trip(vocabulary),
        reached,
        absorbers(vocabulary.data),
        children,
        parents,
        _likely_scaffolds(vocabulary, children, parents),
        duplicate_of,
    )


def _likely_scaffolds(
    vocabulary: Vocabulary, children: npt.NDArray[np.int32], parents: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Tokens whose only parent was merged right after them."""
    likely = np.zeros(len(children), np.bool_)
    for parent in np.flatnonzero(children[:, 0] >= 0).tolist():
        for child in set(children[parent].tolist()):
            near = 0 < parent - child <= max(_NEAR, child // _GAP)
            if near and parents[child] == 1 and children[child, 0] >= 0 and vocabulary.kinds[child] == "normal":
                likely[child] = True
    return likely


@dataclass(frozen=True, slots=True, eq=False)
class CorpusFacts:
    """What counting adds: shares taken by later merges (NaN for none), families of documents, and what a run will see."""

    kept: KeptCensus
    share: npt.NDArray[np.float64]
    family_size: npt.NDArray[np.int64]
    prediction: Prediction


def join(facts: TokenFacts, kept: KeptCensus, plan: Plan) -> CorpusFacts:
    """Joins a census to the facts of its tokenizer; ids beyond either count 0."""
    counts = kept.census.total
    stood = appearances(counts, facts.children, _merge_order(facts))
    merged = (facts.children[:, 0] >= 0) | (facts.parents > 0)
    share = np.where(merged, absorbed_share(counts, stood), np.nan)
    documents = kept.census.in_documents
    keys = list(zip(documents.tolist(), kept.census.family.tolist()))
    sizes = Counter(key for key in keys if key[0])
    family_size = np.array([sizes[key] for key in keys], np.int64)
    return CorpusFacts(kept, share, family_size, predict(counts, plan, reachable=facts.reachable))


def _merge_order(facts: TokenFacts) -> npt.NDArray[np.int64]:
    """Merged tokens, children first: a parent is longer than its children."""
    merged = np.flatnonzero(facts.children[:, 0] >= 0)
    lengths = np.array([len(facts.vocabulary.data[t] or b"") for t in merged.tolist()], np.int64)
    return merged[np.argsort(lengths, kind="stable")]


def token_table(facts: TokenFacts, corpus: CorpusFacts | None = None, *, wanted: Collection[int] = ()) -> pa.Table:
    """The table; see the module docstring for its columns."""
    v, reaches = facts.vocabulary, facts.reached.reaches
    ids = range(v.num_ids)
    utf8 = facts.reached.utf8
    family = families(facts.children, facts.scaffold)
    columns: dict[str, Any] = {
        "i": pa.array(ids, pa.int64()),
        "raw_vocab": _strings(v.spellings),
        "category": _strings([c or None for c in facts.trip.categories]),
        "decoded": _strings([None if v.kinds[t] == "gap" else facts.trip.decoded[t] for t in ids]),
        "reencoded_ids": pa.array([list(again) for again in facts.trip.again], pa.list_(pa.int32())),
        "hex": _strings([None if data is None else data.hex() for data in v.data]),
        "kind": _strings(v.kinds),
        "reach": _strings([r.verdict for r in reaches]),
        "failing": pa.array([list(r.failing) for r in reaches], pa.list_(pa.string())),
        "reason": _strings([r.reason or None for r in reaches]),
        "witness": _strings([r.witness for r in reaches]),
        "pieces": pa.array([[p.encode("utf-8", "replace").decode() for p in r.pieces] for r in reaches], pa.list_(pa.string())),
        "utf8": _strings([None if u is None else u.kind for u in utf8]),
        "script": _strings([script_of(v.text_of(t)) for t in ids]),
        "bytes": pa.array([None if data is None else len(data) for data in v.data], pa.int32()),
        "duplicate_of": pa.array(facts.duplicate_of, pa.int32()),
        "merged_of": pa.array([pair if pair[0] >= 0 else [] for pair in facts.children.tolist()], pa.list_(pa.int32())),
        "parents": pa.array(facts.parents),
        "contained_in": pa.array(facts.absorbers.number),
        "absorbed_by": pa.array([[x for x in row if x >= 0] for row in facts.absorbers.first.tolist()], pa.list_(pa.int32())),
        "scaffold": pa.array(facts.scaffold),
        "scaffold_family": pa.array(family),
    }
    if corpus is not None:
        columns |= _corpus_columns(corpus)
    evidence = list(_evidence(facts, corpus, wanted))
    columns["origin"] = _strings([origin_of(e) for e in evidence])
    columns["suggestion"] = _strings([suggestion_of(e) for e in evidence])
    return pa.table(columns)


def _corpus_columns(corpus: CorpusFacts) -> dict[str, Any]:
    census, p = corpus.kept.census, corpus.prediction
    counts = census.total
    columns: dict[str, Any] = {
        "count": pa.array(counts),
        "documents": pa.array(census.in_documents),
        "sources": pa.array(census.in_sources),
        "rate": pa.array(counts / max(1, census.num_tokens)),
        "ios": pa.array(corpus.share, from_pandas=True),
        "same_documents": pa.array(corpus.family_size),
        "first_documents": pa.array([[d for d in row if d != NONE] for row in census.examples.tolist()], pa.list_(pa.int64())),
        "prediction": pa.array(p.kinds.tolist()),
        "sightings": pa.array(p.sightings),
        "at_most": pa.array(p.at_most),
        "p_never": pa.array(p.never_seen),
        "wanted": pa.array(np.where(np.isinf(p.wanted), np.nan, p.wanted), from_pandas=True),
    }
    if len(corpus.kept.sources) > 1:
        columns |= {f"count:{name}": pa.array(census.counts[k]) for k, name in enumerate(corpus.kept.sources)}
    return columns


def _evidence(facts: TokenFacts, corpus: CorpusFacts | None, wanted: Collection[int]) -> Iterator[Evidence]:
    """The evidence on each id, in order."""
    shares = np.where(facts.scaffold, SCAFFOLD_SHARE, np.nan) if corpus is None else corpus.share
    absorbed = [None if np.isnan(share) else share for share in shares.tolist()]
    kinds, leaf = facts.vocabulary.kinds, (facts.parents == 0).tolist()
    fragment = [utf8 is not None and utf8.kind != "whole" for utf8 in facts.reached.utf8]
    reachable = facts.reachable.tolist()
    ids = range(len(kinds))
    if corpus is None:
        for t in ids:
            yield Evidence(kinds[t], reachable[t], fragment[t], leaf[t], absorbed=absorbed[t], wanted=t in wanted)
        return
    census = corpus.kept.census
    columns = (corpus.prediction.under_trained, census.total, census.in_documents, census.in_sources, corpus.family_size)
    under, counts, documents, sources, family = (column.tolist() for column in columns)
    for t in ids:
        yield Evidence(
            kinds[t],
            reachable[t],
            fragment[t],
            leaf[t],
            under[t],
            counts[t],
            documents[t],
            sources[t],
            census.num_sources,
            family[t],
            absorbed[t],
            t in wanted,
        )


def _strings(values: Sequence[str | None]) -> pa.Array:
    """Strings as UTF-8; the lone surrogates that some files hold become ?."""
    return pa.array([None if s is None else s.encode("utf-8", "replace").decode() for s in values], pa.string())


def script_of(text: str | None) -> str | None:
    """The script of the first letter of `text`, else what kind of characters it has; None for parts of characters."""
    if text is None:
        return None
    for char in text:
        if char.isalpha():
            return _script(char)
    if not text.strip():
        return "(space)"
    return "(digits)" if any(char.isdigit() for char in text) else "(signs)"


@lru_cache(maxsize=1 << 17)
def _script(char: str) -> str:
    name = unicodedata.name(char, "(unnamed)")
    return "CJK" if name.startswith("CJK") else name.split(" ")[0].split("-")[0]
