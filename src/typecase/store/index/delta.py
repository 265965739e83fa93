"""Delta: what an index finds, less what the old pieces around edits hold, plus what the new ones do.

    count        rows of the index and of the new pieces, less rows of the old
    followers    ids 3 7 9 …  +  7 8  -  3 9      merged by rising id; what is left none of is dropped

Each is one call, since handing arrays to a kernel costs as much as the search. Price: the searches; 2 ns a follower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from typecase.core.suffix.find import first_outside, rank_range


@njit(cache=True, nogil=True)
def count_over(kind: Any, rows: Any, gone: Any, query: Any, most: int) -> int:
    """How often `query` occurs in `rows`, less how often in `gone`; -1 for an id below 0 or above `most`."""
    if first_outside(query, most) >= 0:
        return -1
    total = 0
    for k in range(len(rows)):
        low, high = rank_range(kind, rows[k], query, np.uint64(0), len(query))
        total += high - low
    for k in range(len(gone)):
        low, high = rank_range(kind, gone[k], query, np.uint64(0), len(query))
        total -= high - low
    return total


@njit(cache=True, nogil=True)
def followers_over(ids: Any, counts: Any, come: Any, more: Any, gone: Any, less: Any) -> tuple[Any, Any]:
    """Counts by id, plus `more` of those in `come`, less `less` of those in `gone`; every list of ids rises."""
    size = len(ids) + len(come)
    out, sums = np.empty(size, np.int64), np.empty(size, np.int64)
    num = i = j = k = 0
    while i < len(ids) or j < len(come):
        if j == len(come) or (i < len(ids) and ids[i] <= come[j]):
            token = ids[i]
        else:
            token = come[j]
        total = 0
        if i < len(ids) and ids[i] == token:
            total += counts[i]
            i += 1
        if j < len(come) and come[j] == token:
            total += more[j]
            j += 1
        if k < len(gone) and gone[k] == token:  # what goes was there: no id of `gone` is passed over
            total -= less[k]
            k += 1
        if total > 0:
            out[num], sums[num] = token, total
            num += 1
    return out[:num], sums[:num]
