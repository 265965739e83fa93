"""Statistics: counts of n-grams, repeated stretches, and texts that stand in the set already.

Counts are added up over the shards. Price: a pass over the index, 20–60 ns a token; `contamination` 1 us an n-gram.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from typecase.core.suffix.walk import frequent, histogram, mark_repeats
from typecase.errors import BadQuery
from typecase.store.index.answers import Ngrams, Repeated
from typecase.store.index.queries import Query, as_ids, refuse

if TYPE_CHECKING:
    from typecase.store.index.index import Index

_MOST_COUNTED = 1 << 16
_AT_ONCE = 1 << 20


def ngrams(index: Index, n: int, *, at_least: int | None, top: int | None) -> Ngrams:
    """N-grams that occur `at_least` so often, by rising ids; or the `top` most frequent, by falling count, then ids."""
    if n < 1 or (at_least is None) == (top is None) or (at_least or top or 0) < 1:
        raise BadQuery(f"n-grams need n of 1 or more and either `at_least` or `top`, 1 or more: got {n}, {at_least}, {top}")
    kind, rows = index.tables.kind, index.tables.rows
    least = at_least or 1
    if top is not None:
        tail = np.cumsum(histogram(kind, rows, n, _MOST_COUNTED)[::-1])[::-1]
        least = max(1, int(np.searchsorted(-tail[1:], -top, side="right")))
    places, counts = frequent(kind, rows, n, least)
    if top is not None:
        order = np.argsort(-counts, kind="stable")[:top]
        places, counts = places[order], counts[order]
    return Ngrams(index.text[places[:, None] + np.arange(n)], counts, places)


def duplicates(index: Index, min_tokens: int) -> Repeated:
    """Stretches covered by overlapping runs of `min_tokens` tokens that each occur twice or oftener; a byte a token."""
    if min_tokens < 1:
        raise BadQuery(f"a repeat has 1 token or more, got {min_tokens}")
    marks = np.zeros(index.num_tokens, np.uint8)
    mark_repeats(index.tables.kind, index.tables.rows, min_tokens, marks)
    begins = np.flatnonzero(marks)
    apart = np.append(True, np.diff(begins) >= min_tokens)[: len(begins)]
    starts = begins[apart]
    lasts = begins[np.append(np.flatnonzero(apart)[1:] - 1, len(begins) - 1)] if len(begins) else begins
    return Repeated(starts, lasts + min_tokens, index.places(starts).docs)


def contamination(index: Index, texts: Sequence[Query], n: int) -> npt.NDArray[np.float64]:
    """Of each text the share of its n-grams that occur in the set; NaN for one that has none."""
    if n < 1:
        raise BadQuery(f"n-grams need n of 1 or more, got {n}")
    out = np.full(len(texts), np.nan)
    for k, text in enumerate(texts):
        ids = as_ids(text)
        refuse(ids, index.max_id, index.dtype)
        if len(ids) < n:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(ids, n)
        blocks = [windows[b : b + _AT_ONCE] for b in range(0, len(windows), _AT_ONCE)]
        out[k] = sum(int(np.count_nonzero(index.count_batch(block))) for block in blocks) / len(windows)
    return out
