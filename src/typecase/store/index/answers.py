"""Answers: what a search gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A query's number of occurrences, and its ranks [lo, hi) in every shard, (shards, 2)."""

    count: int
    ranks: I64


@dataclass(frozen=True, slots=True, eq=False)
class NextTokens:
    """The tokens that follow a query, ids rising, each with its count; and how often the document ends there instead."""

    ids: I64
    counts: I64
    ends: int

    @property
    def total(self) -> int:
        """How often the query occurs."""
        return int(self.counts.sum()) + self.ends

    def top(self, num: int) -> list[tuple[int, int]]:
        """The `num` most frequent, as (id, count), by falling count, then rising id."""
        order = np.lexsort((self.ids, -self.counts))[:num]
        return list(zip(self.ids[order].tolist(), self.counts[order].tolist(), strict=True))

    def dense(self, vocab_size: int) -> I64:
        """Counts by id, (vocab_size,); ids beyond are left out."""
        out = np.zeros(vocab_size, np.int64)
        known = self.ids < vocab_size
        out[self.ids[known]] = self.counts[known]
        return out


@dataclass(frozen=True, slots=True)
class Probability:
    """How often a prompt occurs, how often the token follows it, and the quotient; None when the prompt never occurs.

    `suffix_len`: how many of the prompt's last tokens were used.
    """

    prompt_count: int
    count: int
    prob: float | None
    suffix_len: int


@dataclass(frozen=True, slots=True, eq=False)
class LongestNext:
    """What follows the longest end of a prompt that occurs."""

    suffix_len: int
    next: NextTokens


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Positions as documents and tokens within them, (hits,) each."""

    positions: I64
    docs: I64
    offsets: I64


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Where all clauses hold: hits of the rarest clause, or of a sample of it.

    `positions` (rising) and `docs` are the hits that were found, `count` is their number. Of an estimate, `count` is scaled
    up from `looked_at` hits drawn uniformly of `hits`, and `standard_error` says how far off it may be; exact: 0.
    """

    count: float
    standard_error: float
    exact: bool
    hits: int
    looked_at: int
    positions: I64
    docs: I64


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Documents by the number of clauses that they hold, then by the number of hits, then by number; (documents,) each."""

    docs: I64
    clauses: I64
    hits: I64


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Tokens [start, stop) of a given text that stand in the set `count` times: first tokens at `positions`, in `docs`."""

    start: int
    stop: int
    count: int
    log_prob: float
    """The sum of the logarithms of its tokens' frequencies: the lower, the less likely by chance."""
    positions: I64
    docs: I64


@dataclass(frozen=True, slots=True, eq=False)
class Ngrams:
    """N-grams (k, n) with their counts (k,) and a position of each (k,)."""

    ids: npt.NDArray[Any]
    counts: I64
    positions: I64


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """Stretches [start, stop) of the set all of whose n-grams occur elsewhere too, with their documents; (k,) each."""

    starts: I64
    stops: I64
    docs: I64
