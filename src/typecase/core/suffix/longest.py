"""Longest: for every place of a given text, the longest stretch from there on that stands in the corpus.

    given     the quick brown zebra
    lengths   3         2     1    1

One bisection by the whole rest of the text finds where it would stand in the order of suffixes; one of the two neighbours
there shares the most tokens with it. What is known of both bounds is not compared again, so a long match costs its length
once or twice and not at every step. Price: 2–4 us a token of the text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from typecase.core.suffix.find import first_range
from typecase.core.suffix.tables import any_end, ends_of, positions_of, text_of


@njit(cache=True, nogil=True)
def _shared(text: Any, ends: Any, pos: Any, given: Any, start: Any, size: int, known: int) -> tuple[int, bool]:
    """How many tokens the suffix at `pos` shares with the rest of `given`, `known` at least; whether it stands before it."""
    depth = known
    while depth < size:
        at = pos + np.uint64(depth)
        if depth and any_end(ends, at - np.uint64(1), at):
            return depth, True
        token, wanted = np.int64(text[at]), given[start + np.uint64(depth)]
        if token != wanted:
            return depth, token < wanted
        depth += 1
    return depth, False


@njit(cache=True, nogil=True)
def longest_from(kind: Any, row: Any, given: Any, start: int) -> int:
    """Tokens of the longest stretch of `given` from `start` on that stands in the shard."""
    low, high = first_range(row, given[np.uint64(start)])
    text, positions, ends = text_of(kind, row), positions_of(row), ends_of(row)
    size, best = len(given) - start, 0
    left = right = 0
    while low < high:
        middle = (low + high) >> 1
        pos = np.uint64(positions[np.uint64(middle)])
        depth, before = _shared(text, ends, pos, given, np.uint64(start), size, min(left, right))
        best = max(best, depth)
        if before:
            low, left = middle + 1, depth
        else:
            high, right = middle, depth
        if depth == size:
            break
    return best


@njit(cache=True, nogil=True)
def longest_matches(kind: Any, rows: Any, given: Any, out: Any) -> None:
    """`out` int64 (m,): the longest match from every place of `given` int64 (m,), in any shard."""
    for start in range(len(given)):
        out[start] = 0
        for k in range(len(rows)):
            out[start] = max(out[start], longest_from(kind, rows[k], given, start))
