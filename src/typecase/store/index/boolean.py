"""Boolean: several phrases in one document, or near each other.

    clauses   [a b]   [c | d]   [e]          a clause holds where one of its phrases does; all clauses must hold
    rarest    [e]     12 hits                each hit is kept when every other clause has a hit in its document, or one that
                                             begins at most `within` tokens before or behind it, in the same document

What is counted are hits of the rarest clause: of clauses with equally many the first. The others are checked from the rarer
to the more frequent, by their sorted positions or by a look at the text around the hits that are left, whichever is less
work; the result is exact. With `estimate` hits of the rarest clause are drawn uniformly instead, checked alike, and scaled
up, with a standard error. Price: 20 ns a hit that is listed, 1 ns a token that is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from typecase.core.suffix.scan import any_within, matches_at
from typecase.errors import BadQuery
from typecase.store.index.answers import Matches, Ranked
from typecase.store.index.queries import I64, Query, as_ids, refuse

if TYPE_CHECKING:
    from typecase.store.index.index import Clauses, Index

_LISTED_NS, _SCANNED_NS = 20, 1


@dataclass(frozen=True, slots=True, eq=False)
class _Clause:
    phrases: list[I64]
    counts: list[int]

    @property
    def total(self) -> int:
        return sum(self.counts)


def matching(index: Index, clauses: Clauses, *, within: int | None, estimate: int | None, seed: int) -> Matches:
    """See the module docstring. Raises BadQuery for no clause, an empty phrase, or a window that is negative."""
    parsed = _parsed(index, clauses)
    if within is not None and within < 0:
        raise BadQuery(f"`within` is a number of tokens, 0 or more, got {within}")
    if estimate is not None and estimate < 2:
        raise BadQuery(f"`estimate` is a number of hits to look at, 2 or more, got {estimate}")
    parsed.sort(key=lambda clause: clause.total)
    rarest, total = parsed[0], parsed[0].total
    exact = estimate is None or estimate >= total
    hits = _positions(index, rarest) if exact else _drawn(index, rarest, estimate or 0, seed)
    looked_at = len(hits) if exact else estimate or 0
    for clause in parsed[1:]:
        hits = hits[_holds(index, clause, hits, within)]
    docs = index.places(hits).docs
    if exact:
        return Matches(len(hits), 0.0, True, looked_at, looked_at, hits, docs)
    share = len(hits) / looked_at
    spread = share * (1 - share) / (looked_at - 1) * (1 - looked_at / total)
    return Matches(total * share, total * math.sqrt(spread), False, total, looked_at, hits, docs)


def ranked(index: Index, clauses: Clauses, *, limit: int) -> Ranked:
    """The `limit` documents that hold the most clauses, then the most hits; documents without any are left out."""
    docs, clause_of, hits = list[I64](), list[I64](), list[I64]()
    for clause in _parsed(index, clauses):
        own, counts = np.unique(index.places(_positions(index, clause)).docs, return_counts=True)
        docs.append(own)
        clause_of.append(np.ones(len(own), np.int64))
        hits.append(counts)
    every, where = np.unique(np.concatenate(docs), return_inverse=True)
    held, total = np.zeros((2, len(every)), np.int64)
    np.add.at(held, where, np.concatenate(clause_of))
    np.add.at(total, where, np.concatenate(hits))
    order = np.lexsort((every, -total, -held))[:limit]
    return Ranked(every[order], held[order], total[order])


def _parsed(index: Index, clauses: Clauses) -> list[_Clause]:
    if not len(clauses):
        raise BadQuery("no clause was given: name one phrase at least")
    out = []
    for clause in clauses:
        phrases = [as_ids(phrase) for phrase in _phrases(clause)]
        for phrase in phrases:
            refuse(phrase, index.max_id, index.dtype)
        if not phrases or not all(len(phrase) for phrase in phrases):
            raise BadQuery("a clause without tokens holds everywhere: leave it out")
        unique = {tuple(phrase.tolist()): phrase for phrase in phrases}
        out.append(_Clause(list(unique.values()), [index.count(phrase) for phrase in unique.values()]))
    return out


def _phrases(clause: Query | Sequence[Query]) -> Sequence[Query]:
    single = isinstance(clause, np.ndarray) and clause.ndim == 1
    if single or (len(clause) and isinstance(clause[0], int | np.integer)):
        return [clause]  # type: ignore[list-item]
    return clause  # type: ignore[return-value]


def _positions(index: Index, clause: _Clause) -> I64:
    """Where a phrase of the clause begins, rising, each position once."""
    found = [index.positions(phrase) for phrase in clause.phrases]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


def _drawn(index: Index, clause: _Clause, num: int, seed: int) -> I64:
    """`num` of the clause's hits drawn uniformly, less those at a position where an earlier phrase of it stands too."""
    rng = np.random.default_rng(seed)
    shares = rng.multivariate_hypergeometric(clause.counts, num, method="marginals")
    out = []
    for k, phrase in enumerate(clause.phrases):
        hits = index.positions(phrase, sample=int(shares[k]), seed=int(rng.integers(1 << 62)))
        for earlier in clause.phrases[:k]:
            hits = hits[~_stands_at(index, earlier, hits)]
        out.append(hits)
    return np.sort(np.concatenate(out))


def _stands_at(index: Index, phrase: I64, positions: I64) -> np.ndarray:
    docs = index.places(positions).docs
    room = index.starts[docs + 1] - positions >= len(phrase)
    return np.array([bool(r) and matches_at(index.text, p, phrase) for p, r in zip(positions, room, strict=True)], np.bool_)


def _holds(index: Index, clause: _Clause, hits: I64, within: int | None) -> np.ndarray:
    """For every hit whether the clause has one in its document, or beginning within so many tokens."""
    docs = index.places(hits).docs
    first, stop = index.starts[docs], index.starts[docs + 1]
    if within is None:
        _, one, back = np.unique(docs, return_index=True, return_inverse=True)
        return _in_windows(index, clause, first[one], stop[one], stop[one])[back]
    return _in_windows(index, clause, np.maximum(first, hits - within), np.minimum(stop, hits + within + 1), stop)


def _in_windows(index: Index, clause: _Clause, lows: I64, highs: I64, stops: I64) -> np.ndarray:
    """Whether a phrase begins in each [lows[k], highs[k]), all of it before stops[k], where its document ends."""
    looked_at = int((highs - lows).sum()) * len(clause.phrases)
    if looked_at * _SCANNED_NS < clause.total * _LISTED_NS:
        out = np.zeros(len(lows), np.bool_)
        for phrase in clause.phrases:
            ends = np.minimum(stops, highs + len(phrase) - 1)
            out[~out] = any_within(index.text, lows[~out], ends[~out], phrase)
        return out
    positions = np.append(_positions(index, clause), np.iinfo(np.int64).max)
    return positions[np.searchsorted(positions, lows)] < highs
