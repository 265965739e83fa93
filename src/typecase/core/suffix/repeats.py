"""Repeats: what occurs again, read off the suffix array and its LCP in one pass each.

    lcp >= n    0 1 1 1 0 1 0 0        a run of r ones, with the row ahead of it, is one n-gram
    rows        [-----]  [-]           that occurs r + 1 times: its positions are those rows of the array

    spans       every position where n tokens start that occur elsewhere, and the n tokens from there, as a union

All of it is fenced like the array. An LCP with a cap serves for every n up to its cap: that a sharing goes on does not
matter, and a span that is longer than the cap comes out whole, since each of its positions starts a shorter one.

Price: one pass over the LCP for n-grams, nothing held but the result; one byte a token for spans.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.build import last_tokens
from typecase.core.suffix.crew import Unsigned, share, spans

Rows = npt.NDArray[np.int64]

_BLOCK = 1 << 14


@njit(cache=True, nogil=True)
def _next_grams(lcp: Unsigned, n: int, threshold: int, row: int, rows: Rows, counts: Rows) -> tuple[int, int]:
    """Fills `rows` and `counts` with the frequent n-grams from `row` on; how many, and the row to go on from."""
    found = 0
    while row < len(lcp) and found < len(rows):
        stop = row + 1
        while stop < len(lcp) and lcp[stop] >= n:
            stop += 1
        if stop - row >= threshold:
            rows[found], counts[found] = row, stop - row
            found += 1
        row = stop
    return found, row


def frequent_ngrams(lcp: Unsigned, n: int, threshold: int) -> Iterator[tuple[Rows, Rows]]:
    """Blocks (rows, counts) of all n-grams of `n` tokens that occur at least `threshold` times, in rising order.

    An n-gram's positions are rows [row, row + count) of the suffix array. `lcp` has no cap below n. Raises ValueError for
    n below 1 and for a threshold below 2: what occurs once leaves no trace in the LCP.
    """
    if n < 1 or threshold < 2:
        raise ValueError(f"frequent n-grams need n >= 1 and a threshold >= 2, found {n} and {threshold}")
    row = 0
    while row < len(lcp):
        rows, counts = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
        found, row = _next_grams(lcp, n, threshold, row, rows, counts)
        if found:
            yield rows[:found], counts[:found]


def top_ngrams(lcp: Unsigned, n: int, k: int) -> tuple[Rows, Rows]:
    """(rows, counts) of the `k` most frequent n-grams that occur more than once, the most frequent first.

    Equal counts are in rising order of the n-grams. Raises ValueError for n or k below 1.
    """
    if k < 1 or n < 1:
        raise ValueError(f"the most frequent n-grams need n >= 1 and k >= 1, found {n} and {k}")
    best_rows, best_counts = np.empty(0, np.int64), np.empty(0, np.int64)
    row, threshold = 0, 2
    rows, counts = np.empty(max(_BLOCK, k), np.int64), np.empty(max(_BLOCK, k), np.int64)
    while row < len(lcp):
        found, row = _next_grams(lcp, n, threshold, row, rows, counts)
        best_rows, best_counts = np.append(best_rows, rows[:found]), np.append(best_counts, counts[:found])
        best = np.argsort(-best_counts, kind="stable")[:k]  # stable: of equal counts the earlier rows stay
        best_rows, best_counts = best_rows[best], best_counts[best]
        if len(best) == k:
            threshold = int(best_counts[-1]) + 1  # a later n-gram of the same count would lose
    return best_rows, best_counts


@njit(cache=True, nogil=True)
def _mark_repeats(array: Unsigned, lcp: Unsigned, length: int, begin: int, end: int, repeats: npt.NDArray[np.uint8]) -> None:
    for row in range(begin, end):
        again = lcp[row] >= length or (row + 1 < len(lcp) and lcp[row + 1] >= length)
        repeats[array[row]] = again


@njit(cache=True, nogil=True)
def _unite(repeats: npt.NDArray[np.uint8], length: int, lasts: Rows, out: npt.NDArray[np.int64]) -> int:
    """Writes the united spans to `out` while it has room; how many there are."""
    found, stop, begin = 0, -1, 0
    for last in lasts:
        stop = -1  # a span never reaches into the next document
        for p in range(begin, last + 1):
            if repeats[p]:
                if p > stop:
                    found += 1
                    if found <= len(out):
                        out[found - 1, 0] = p
                stop = p + length
                if found <= len(out):
                    out[found - 1, 1] = stop
        begin = last + 1
    return found


def duplicated_spans(
    array: Unsigned, lcp: Unsigned, length: int, ends: npt.NDArray[np.int64] | None = None, *, threads: int = 1
) -> npt.NDArray[np.int64]:
    """Spans (found, 2), [start, stop) and rising: every token that lies in `length` tokens in a row that occur elsewhere too.

    Spans that overlap or touch are one span; none crosses the end of a document. `lcp` has no cap below `length`. An
    occurrence may overlap the other: in "a a a" every pair is a repeat. Raises ValueError for a length below 1.
    """
    if length < 1:
        raise ValueError(f"a repeat has at least one token, found a length of {length}")
    repeats = np.zeros(len(array), np.uint8)
    share(threads, lambda s: _mark_repeats(array, lcp, length, *s, repeats), spans(len(array), threads))
    lasts = last_tokens(len(array), ends)
    found = np.empty((_unite(repeats, length, lasts, np.empty((0, 2), np.int64)), 2), np.int64)
    _unite(repeats, length, lasts, found)
    return found
