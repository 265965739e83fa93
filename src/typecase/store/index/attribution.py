"""Attribution: which stretches of a text, say of a model's output, stand verbatim in the set, and where.

    text      Once upon a time there lived a zebra in .
    longest   '----------------------'                     from every token on: `longest_match`
                   '-----------------'                     ends no later than one before: left out
                                         '-------'         too short, or too frequent: left out

`attribute` keeps of every start the longest stretch, cut at the first delimiter, which may only be its last token. With
`word_begins` a stretch begins where a word does, and ends where the next one begins or the text ends. Price: 3 us a token,
and the positions of what is kept.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from typecase.core.suffix.longest import longest_matches
from typecase.errors import BadQuery
from typecase.store.index.answers import Stretch
from typecase.store.index.queries import I64, Query, as_ids, refuse

if TYPE_CHECKING:
    from typecase.store.index.index import Index


def longest_match(index: Index, text: Query) -> I64:
    """For every token of `text` the exclusive end of the longest stretch from there that occurs; itself when none does."""
    ids = as_ids(text)
    refuse(ids, index.max_id, index.dtype)
    lengths = np.zeros(len(ids), np.int64)
    longest_matches(index.tables.kind, index.tables.rows, ids, lengths)
    return np.arange(len(ids)) + lengths


def attribute(
    index: Index,
    text: Query,
    *,
    min_len: int = 1,
    max_count: int | None = None,
    delimiters: Collection[int] = (),
    word_begins: npt.NDArray[np.bool_] | None = None,
    limit: int | None = None,
) -> list[Stretch]:
    """The maximal stretches of `text`, from left to right; `limit` bounds the positions of each.

    `word_begins` says of every id (ids,) whether it begins a word; ids beyond it do not.
    """
    ids = as_ids(text)
    stops = longest_match(index, ids)
    stops = np.minimum(stops, _after_delimiter(ids, delimiters))
    if word_begins is not None:
        stops = _at_words(ids, stops, np.asarray(word_begins, np.bool_))
    if min_len < 1:
        raise BadQuery(f"the shortest stretch has 1 token or more, got {min_len}")
    starts = np.flatnonzero(stops - np.arange(len(ids)) >= min_len)
    kept, reached = [], 0
    for start in starts.tolist():
        stop = int(stops[start])
        if stop <= reached:
            continue
        count = index.count(ids[start:stop])
        if max_count is not None and count > max_count:
            continue
        kept.append((start, stop, count))
        reached = stop
    return [_stretch(index, ids, *one, limit) for one in kept]


def _stretch(index: Index, ids: I64, start: int, stop: int, count: int, limit: int | None) -> Stretch:
    own = ids[start:stop]
    log_prob = float(np.log(index.count_batch(own[:, None]) / index.num_tokens).sum())
    positions = index.positions(own, limit=limit)
    return Stretch(start, stop, count, log_prob, positions, index.places(positions).docs)


def _after_delimiter(ids: I64, delimiters: Collection[int]) -> I64:
    """For every token the end of the first delimiter from there on."""
    places = np.append(np.flatnonzero(np.isin(ids, list(delimiters))), len(ids))
    return places[np.searchsorted(places, np.arange(len(ids)))] + 1


def _at_words(ids: I64, stops: I64, word_begins: npt.NDArray[np.bool_]) -> I64:
    """`stops` moved back to where a word begins, as the text itself does; no stretch from within a word."""
    known = ids < len(word_begins)
    begins = np.zeros(len(ids) + 1, np.bool_)
    begins[:-1][known] = word_begins[ids[known]]
    begins[0] = begins[-1] = True
    last = np.maximum.accumulate(np.where(begins, np.arange(len(ids) + 1), -1))
    starts = np.arange(len(ids))
    return np.where(begins[:-1], np.maximum(last[np.minimum(stops, len(ids))], starts), starts)
