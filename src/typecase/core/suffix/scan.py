"""Scan: looking at every token of short stretches of text, where an index cannot help.

    document ends      a b | c d          matches that cross a border, for queries that ask for them
    windows            .. [x a b y] ..    whether a phrase stands within so many tokens of a hit
    edited text        replacement tokens with what stands around them

Price: 1 ns a token and a query, and as much again for every token that matches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def matches_at(text: Any, pos: int, query: Any) -> bool:
    """Whether `query` stands at `pos`; what is asked for must lie within the text."""
    i = 0
    while i < len(query) and np.int64(text[np.uint64(pos + i)]) == query[np.uint64(i)]:
        i += 1
    return i == len(query)


@njit(cache=True, nogil=True)
def crossings(text: Any, ends: Any, query: Any) -> Any:
    """Positions, rising, where `query` stands in `text` (n,) across one of the document ends; `ends` rise, the last is n."""
    found, num = np.empty(16, np.int64), 0
    size, before = len(query), 0
    for end in ends:
        for pos in range(max(before, end - size + 1), end):
            if pos + size <= len(text) and matches_at(text, pos, query):
                if num == len(found):
                    grown = np.empty(2 * num, np.int64)
                    grown[:num] = found
                    found = grown
                found[num] = pos
                num += 1
        before = max(before, end)
    return found[:num]


@njit(cache=True, nogil=True)
def any_within(text: Any, starts: Any, stops: Any, query: Any) -> Any:
    """For every window [starts[k], stops[k]) whether `query` stands wholly within it."""
    out = np.zeros(len(starts), np.bool_)
    size = len(query)
    for k in range(len(starts)):
        for pos in range(starts[k], stops[k] - size + 1):
            if matches_at(text, pos, query):
                out[k] = True
                break
    return out


@njit(cache=True, nogil=True)
def find_within(text: Any, offsets: Any, query: Any) -> Any:
    """Positions in `text` where `query` stands within one of the pieces text[offsets[k] : offsets[k + 1]], rising."""
    size = len(query)
    found, num = np.empty(max(0, len(text) - size + 1), np.int64), 0
    for k in range(len(offsets) - 1):
        for pos in range(offsets[k], offsets[k + 1] - size + 1):
            if matches_at(text, pos, query):
                found[num] = pos
                num += 1
    return found[:num].copy()
