"""Kneser-Ney: discounts from counts of counts, and what they leave for shorter contexts.

    P(w | h) = max(c(h w) - D(c(h w)), 0) / c(h)  +  left(h) * P(w | h without its first token)

    c    at the highest order how often h w occurs; below, how many distinct tokens stand before h w
    D    D1, D2, D3+ for counts of 1, 2, and 3 or more, one set an order
    left what the discounts took, so that all P(. | h) add up to 1

After Chen and Goodman (1999), modified, interpolated; below order 1 stands the uniform distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.tables import any_end, ends_of, positions_of, text_of
from typecase.core.suffix.walk import START, begin, take_group
from typecase.core.suffix.walk import before as tokens_before

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

COUNTED = 4
_MOST_SEEN = 1 << 22


@dataclass(frozen=True, slots=True)
class Discounts:
    """What is taken off a count of 1, of 2, and of 3 or more."""

    one: float
    two: float
    more: float

    def of(self, counts: npt.NDArray[Any]) -> F64:
        taken: F64 = np.array([0.0, self.one, self.two, self.more])[np.minimum(counts, 3)]
        return taken


def fitted(counts_of_counts: I64) -> Discounts:
    """Discounts from how many n-grams have a count of 0, 1, 2, 3, 4 (5 or more entries).

    Where a set is too small or too regular to determine them, they are 1/2, 1 and 3/2.
    """
    n1, n2, n3, n4 = (float(n) for n in counts_of_counts[1:5])
    if min(n1, n2, n3, n4) > 0:
        plain = n1 / (n1 + 2 * n2)
        found = Discounts(1 - 2 * plain * n2 / n1, 2 - 3 * plain * n3 / n2, 3 - 4 * plain * n4 / n3)
        if 0 <= found.one <= 1 and 0 <= found.two <= 2 and 0 <= found.more <= 3:
            return found
    return Discounts(0.5, 1.0, 1.5)


def discounted(counts: I64, discounts: Discounts) -> tuple[F64, float]:
    """The share of each successor after its discount, and what is left over; counts (k,) of one context, none 0."""
    total = counts.sum()
    taken = discounts.of(counts)
    return (counts - taken) / total, float(taken.sum() / total)


@njit(cache=True, nogil=True)
def _num_distinct(values: Any, num: int, seen: Any, mark: int) -> int:
    """Distinct values among the first `num`; `seen` holds the last mark of each value above START, or is empty."""
    if num == 1:
        return 1
    distinct = 0
    if len(seen):
        for i in range(num):
            if seen[np.uint64(values[i] + 1)] != mark:
                seen[np.uint64(values[i] + 1)] = mark
                distinct += 1
        return distinct
    ordered = np.sort(values[:num])
    for i in range(num):
        distinct += i == 0 or ordered[i] != ordered[i - 1]
    return distinct


@njit(cache=True, nogil=True)
def left_counts(kind: Any, rows: Any, size: int, max_id: int, num_counted: int) -> tuple[Any, Any, Any]:
    """How many distinct tokens stand before each n-gram of `size`, the start of a document being one of them.

    Returns how many n-grams have 0, 1, … of them, the last entry the rest, (num_counted + 1,); and, for size 1 only, the ids
    (distinct,) and their counts.
    """
    cursor = begin(rows, size)
    low, high = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    held, out = np.empty(64, np.int64), np.zeros(num_counted + 1, np.int64)
    seen = np.zeros(max_id + 2 if max_id < _MOST_SEEN else 0, np.int64)
    ids, counts, mark = np.empty(64, np.int64), np.empty(64, np.int64), 0
    while True:
        count = take_group(kind, rows, cursor, low, high, size)
        if count == 0:
            return out, ids[: mark if size == 1 else 0], counts[: mark if size == 1 else 0]
        if count > len(held):
            held = np.empty(2 * count, np.int64)
        num, token = 0, np.int64(0)
        for k in range(len(rows)):
            tokens_before(kind, rows[k], low[k], high[k], held[num : num + high[k] - low[k]])
            if high[k] > low[k]:
                token = np.int64(text_of(kind, rows[k])[np.uint64(positions_of(rows[k])[np.uint64(low[k])])])
            num += high[k] - low[k]
        distinct = _num_distinct(held, num, seen, mark + 1)
        out[min(distinct, num_counted)] += 1
        if size == 1:
            if mark == len(ids):
                more, most = np.empty(2 * mark, np.int64), np.empty(2 * mark, np.int64)
                more[:mark], most[:mark] = ids, counts
                ids, counts = more, most
            ids[mark], counts[mark] = token, distinct
        mark += 1


@njit(cache=True, nogil=True)
def neighbours(kind: Any, row: Any, low: int, high: int, size: int, before: Any, after: Any) -> None:
    """The tokens before and behind the first `size` tokens of the suffixes [low, high), all of them longer."""
    text, positions, ends = text_of(kind, row), positions_of(row), ends_of(row)
    for rank in range(low, high):
        pos = np.uint64(positions[np.uint64(rank)])
        first = pos == 0 or any_end(ends, pos - np.uint64(1), pos)
        before[rank - low] = START if first else np.int64(text[pos - np.uint64(1)])
        after[rank - low] = text[pos + np.uint64(size)]
