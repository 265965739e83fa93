"""What programs did to a corpus, as numbers: lengths before and after, and how far two refiners agree on lines.

    lengths      mean, quantiles, the share below 200 units                    whether short documents went and long ones stayed
    agreement    removed by both, by one alone -> precision, recall, F1         of A, with B as the reference

Lines are those of the original, by number; only lines with something written in them count, because blank lines go with
their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from typecase.core.lines import line_table
from typecase.core.program.plan import Change

QUANTILES: Final = (5, 25, 50, 75, 95)
"""Percentages of documents."""

BUCKETS: Final = (0, 50, 200, 500, 1000, 2000, 5000)
"""Where buckets of length begin, in units; the last has no end."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of documents, in units. `quantiles` go with QUANTILES; `short` is the share with fewer than 200 units."""

    documents: int
    units: int
    mean: float
    quantiles: tuple[int, ...]
    short: float


def lengths_of(units: npt.NDArray[np.int64], *, short_units: int = 200) -> Lengths:
    """The lengths of documents with these units, int64 (documents,); a quantile is the length of a document that is there."""
    if not len(units):
        return Lengths(0, 0, 0.0, (0,) * len(QUANTILES), 0.0)
    ordered = np.sort(units)
    at = [max(0, -(-len(ordered) * percent // 100) - 1) for percent in QUANTILES]
    total = int(ordered.sum())
    short = int(np.searchsorted(ordered, short_units)) / len(ordered)
    return Lengths(len(ordered), total, total / len(ordered), tuple(int(ordered[i]) for i in at), short)


def bucket_names() -> tuple[str, ...]:
    """Names of the BUCKETS: `0–49`, …, `5000+`."""
    closed = [f"{low}–{high - 1}" for low, high in pairwise(BUCKETS)]
    return (*closed, f"{BUCKETS[-1]}+")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Lines, or documents, that both remove, and that one alone removes; the second is the reference."""

    both: int = 0
    only_first: int = 0
    only_second: int = 0

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(self.both + other.both, self.only_first + other.only_first, self.only_second + other.only_second)

    @property
    def precision(self) -> float | None:
        """Of what the first removes, the share that the second removes too; None where it removes nothing."""
        return _share(self.both, self.both + self.only_first)

    @property
    def recall(self) -> float | None:
        """Of what the second removes, the share that the first removes too; None where it removes nothing."""
        return _share(self.both, self.both + self.only_second)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of the two; None where neither removes anything."""
        return _share(2 * self.both, 2 * self.both + self.only_first + self.only_second)

    def as_dict(self) -> dict[str, float | int | None]:
        """Counts and shares, for JSON."""
        counts = {"both": self.both, "only_first": self.only_first, "only_second": self.only_second}
        return {**counts, "precision": self.precision, "recall": self.recall, "f1": self.f1}


def agreement(first: Iterable[int], second: Iterable[int]) -> Agreement:
    """How far two sets of removed lines are the same."""
    a, b = set(first), set(second)
    return Agreement(len(a & b), len(a - b), len(b - a))


def removed_lines(text: str, changes: Sequence[Change]) -> set[int]:
    """Numbers of the lines of `text` of which nothing is left but blanks, and in which something was written."""
    starts, stops = line_table(text)
    gone: set[int] = set()
    deletions = [(c.start, c.stop) for c in changes if not c.target]
    at = 0
    for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        while at < len(deletions) and deletions[at][1] <= start:
            at += 1
        if at == len(deletions):
            break
        if deletions[at][0] < stop and text[start:stop].strip() and not _left(text, start, stop, deletions, at).strip():
            gone.add(number)
    return gone


def _left(text: str, start: int, stop: int, deletions: Sequence[tuple[int, int]], at: int) -> str:
    """What the deletions from number `at` on leave of characters [start, stop)."""
    parts: list[str] = []
    while start < stop:
        low, high = deletions[at] if at < len(deletions) else (stop, stop)
        parts.append(text[start : min(low, stop)])
        start, at = max(start, high), at + 1
    return "".join(parts)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
