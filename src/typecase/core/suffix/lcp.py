"""LCP: how many tokens a suffix shares with the one before it in the suffix array, documents fenced.

    array    2   5  4  0      3        of  7 9 7 | 9 | 7 7
    suffix   7·  7· 7 7·  7 9 7·  9·
    lcp      0   1  1  1      0

Computed in the order of the text: if the suffix at p shares h tokens with its neighbour, the one at p + 1 shares at least
h - 1 with its own, so the comparison goes on from there and is linear in all. A comparison stops where either document
ends. With a `cap` it stops there too, and entries are as small as the cap: the sharing of 13 tokens needs one byte.

Price: 4 bytes a token while it runs, and the result: 1, 2 or 4 bytes a token.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.ahead import DISTANCE, prefetch
from typecase.core.suffix.build import last_tokens
from typecase.core.suffix.crew import Unsigned, share, spans


@njit(cache=True, nogil=True)
def _mark_lasts(lasts: npt.NDArray[np.int64], bits: npt.NDArray[np.uint8]) -> None:
    for last in lasts:
        bits[last >> 3] |= np.uint8(1 << (last & 7))


@njit(cache=True, nogil=True)
def _link(array: Unsigned, begin: int, end: int, before: Unsigned) -> None:
    """before[p] = the suffix ahead of p in the order, for rows [begin, end)."""
    for row in range(max(begin, 1), end):
        before[array[row]] = array[row - 1]


@njit(cache=True, nogil=True)
def _compare(
    tokens: npt.NDArray[Any], bits: npt.NDArray[np.uint8], begin: int, end: int, first: int, cap: int, before: Unsigned
) -> None:
    """Replaces before[p] by the number of tokens that p shares with it, for positions [begin, end)."""
    shared = 0
    for p in range(begin, end):
        if p == first:
            before[p] = 0
            shared = 0
            continue
        prefetch(tokens, np.int64(before[min(p + DISTANCE, end - 1)]))
        q = np.int64(before[p])
        while shared < cap:
            if shared:
                i, j = p + shared - 1, q + shared - 1
                if ((bits[i >> 3] >> (i & 7)) | (bits[j >> 3] >> (j & 7))) & 1:
                    break
            if tokens[p + shared] != tokens[q + shared]:
                break
            shared += 1
        before[p] = shared
        shared = max(shared - 1, 0)


@njit(cache=True, nogil=True)
def _collect(array: Unsigned, begin: int, end: int, shared: Unsigned, out: Unsigned) -> None:
    for row in range(begin, end):
        prefetch(shared, np.int64(array[min(row + DISTANCE, end - 1)]))
        out[row] = shared[array[row]]


def lcp_array(
    tokens: npt.NDArray[np.integer],
    array: Unsigned,
    ends: npt.NDArray[np.int64] | None = None,
    *,
    cap: int | None = None,
    threads: int = 1,
) -> Unsigned:
    """Entry k (n,): the tokens that suffixes array[k - 1] and array[k] share, at most `cap`; entry 0 is 0.

    `tokens` and `ends` are those that `array` was built from. The dtype is uint8, uint16, uint32 or uint64, the smallest
    that holds the cap (without a cap: the number of tokens). Raises ValueError for a cap below 1.
    """
    if cap is not None and cap < 1:
        raise ValueError(f"a cap is at least 1, found {cap}")
    total = len(array)
    cap = total if cap is None else min(cap, total)
    out: Unsigned = np.zeros(total, np.min_scalar_type(cap))
    if not total:
        return out
    bits = np.zeros(total // 8 + 1, np.uint8)
    _mark_lasts(last_tokens(total, ends), bits)
    before: Unsigned = np.zeros(total, array.dtype)
    parts = spans(total, threads)
    plain = tokens.view(f"u{tokens.dtype.itemsize}")  # only compared for equality
    share(threads, lambda s: _link(array, *s, before), parts)
    share(threads, lambda s: _compare(plain, bits, *s, int(array[0]), cap, before), parts)
    share(threads, lambda s: _collect(array, *s, before, out), parts)
    return out
