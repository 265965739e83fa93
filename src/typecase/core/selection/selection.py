"""Selection: which documents are kept for a budget, and why every other one is not.

    pool      the documents that may be chosen: narrow columns, no text
    policy    what is better (score), how much chance (key), how the budget is divided (strata, quota)
    cuts      where every stratum was cut: one key, one document
    selection kept or not, and a reason, for every row

    stratum web/law    quota 7          key   9.1  8.7  8.7  5.0 | 4.2  0.3
                                        tokens  2    1    3    2 |   1    4      the first documents that reach the quota

A stratum's order is total: by key, then by a hash of the document, then by its id. A row is kept if it stands at or
before the cut, so the cuts alone answer "why", and nothing depends on the order of rows, on shards or on workers.

Price: the budget is met to one document per stratum, not to one token: a document is never split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from typecase.core.selection.keys import Digest
from typecase.core.selection.named import NAMES, named_policy
from typecase.core.selection.policy import Budget, Policy
from typecase.core.selection.quota import Label

if TYPE_CHECKING:
    from typecase.core.selection.ranks import Ranks

__all__ = ["NAMES", "REASONS", "Budget", "Cuts", "Policy", "Pool", "Selection", "named_policy"]

REASONS = (
    "kept",
    "below cut",
    "missing rating",
    "score out of range",
    "invalid score",
    "stratum not asked for",
    "duplicate",
    "not drawn",
)
"""What a reason code says. Codes are stable: new ones are added at the end."""

KEPT, BELOW_CUT, MISSING, OUT_OF_RANGE, INVALID, NOT_ASKED, DUPLICATE, NOT_DRAWN = range(len(REASONS))


@dataclass(frozen=True, slots=True)
class Pool:
    """Documents that may be chosen, as narrow columns in any order.

    ids        uint8 (docs, 16)   raw document ids
    amount     int64 (docs,)      tokens, bytes or 1: the unit of the budget
    stratum    int32 (docs,)      row in the list of strata
    score      float64 (docs,)    NaN where there is no rating
    duplicate  bool (docs,)       rows that the caller knows to be copies of another row
    """

    ids: NDArray[np.uint8]
    amount: NDArray[np.int64]
    stratum: NDArray[np.int32]
    score: NDArray[np.float64]
    duplicate: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        rows = len(self.ids)
        assert self.ids.shape == (rows, 16) and self.ids.dtype == np.uint8, (self.ids.shape, self.ids.dtype)
        for name, dtype in (("amount", np.int64), ("stratum", np.int32), ("score", np.float64)):
            column = getattr(self, name)
            assert column.shape == (rows,) and column.dtype == dtype, (name, column.shape, column.dtype)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Selection:
    """What became of every row of a pool, in its order.

    kept     bool (docs,)
    reason   uint8 (docs,)     a code of REASONS
    stratum  int32 (docs,)     row of `cuts`
    score    float64 (docs,)   as used: combined and filled in, not normalised; NaN where there is none
    key      float64 (docs,)   what ordered it; NaN where it was not in the running
    copies   int32 (docs,)     how often it counts; 0 where it is not kept
    """

    kept: NDArray[np.bool_]
    reason: NDArray[np.uint8]
    stratum: NDArray[np.int32]
    score: NDArray[np.float64]
    key: NDArray[np.float64]
    copies: NDArray[np.int32]
    cuts: Cuts
    digest: Digest

    def counts(self) -> dict[str, int]:
        """Rows by reason; they add up to the rows of the pool."""
        numbers = np.bincount(self.reason, minlength=len(REASONS))
        return {REASONS[code]: int(n) for code, n in enumerate(numbers) if n}


NOTHING, BY_CUT, ALL = range(3)
"""How a stratum is taken."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """One row a stratum: what there was, what was asked, what was met, and where the cut lies.

    All arrays are (strata,); amounts are in the unit of the budget.

    documents, amount              the corpus
    rated                          documents with a score
    pool_documents, pool_amount    what the filters left
    asked, quota                   the quota before and after the spill
    kept, met                      documents kept, and their amount with all copies
    extra                          whole copies of the pool, besides what the cut takes
    take                           NOTHING, BY_CUT or ALL of the pool
    key, cut_id, inclusive         the document at which the quota is reached, and whether it is kept itself
    fill, mean, std                the score of a document without one; how scores are normalised
    ranks                          where the policy goes by them; not in `as_rows`
    """

    labels: tuple[Label, ...]
    documents: NDArray[np.int64]
    amount: NDArray[np.int64]
    rated: NDArray[np.int64]
    pool_documents: NDArray[np.int64]
    pool_amount: NDArray[np.int64]
    asked: NDArray[np.int64]
    quota: NDArray[np.int64]
    kept: NDArray[np.int64]
    met: NDArray[np.int64]
    extra: NDArray[np.int64]
    take: NDArray[np.uint8]
    key: NDArray[np.float64]
    cut_id: NDArray[np.uint8]
    inclusive: NDArray[np.bool_]
    fill: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    moved: Mapping[str, int]
    short: int
    ranks: Ranks | None = None

    def as_rows(self) -> list[dict[str, Any]]:
        """The table as JSON objects; an infinite key is the string "inf" or "-inf"."""
        rows = []
        for s, label in enumerate(self.labels):
            row: dict[str, Any] = {"stratum": list(label), "take": ("nothing", "cut", "all")[self.take[s]]}
            row |= {name: int(getattr(self, name)[s]) for name in _COUNTS}
            row |= {name: number(getattr(self, name)[s]) for name in _SCALE}
            if self.take[s] == BY_CUT:
                row["cut"] = {
                    "key": number(self.key[s]),
                    "doc_id": self.cut_id[s].tobytes().hex(),
                    "kept": bool(self.inclusive[s]),
                }
            rows.append(row)
        return rows

    @classmethod
    def from_rows(
        cls, rows: Sequence[Mapping[str, Any]], *, moved: Mapping[str, int], short: int, ranks: Ranks | None = None
    ) -> Cuts:
        """The inverse of `as_rows`."""
        cut = [row.get("cut") or {"key": None, "doc_id": "00" * 16, "kept": False} for row in rows]
        columns: dict[str, Any] = {name: np.array([row[name] for row in rows], np.int64) for name in _COUNTS}
        columns |= {name: np.array([_float(row[name]) for row in rows], np.float64) for name in _SCALE}
        return cls(
            labels=tuple(tuple(row["stratum"]) for row in rows),
            take=np.array([("nothing", "cut", "all").index(row["take"]) for row in rows], np.uint8),
            key=np.array([_float(c["key"]) for c in cut], np.float64),
            cut_id=np.frombuffer(bytes.fromhex("".join(c["doc_id"] for c in cut)), np.uint8).reshape(-1, 16),
            inclusive=np.array([c["kept"] for c in cut], np.bool_),
            moved=dict(moved),
            short=short,
            ranks=ranks,
            **columns,
        )


_COUNTS = ("documents", "amount", "rated", "pool_documents", "pool_amount", "asked", "quota", "kept", "met", "extra")
_SCALE = ("fill", "mean", "std")


def number(value: float) -> float | str | None:
    """A float as JSON: NaN becomes null, infinities strings."""
    value = float(value)
    if value != value:
        return None
    return value if abs(value) != float("inf") else str(value)


def _float(value: float | str | None) -> float:
    return float("nan") if value is None else float(value)
