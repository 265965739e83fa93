"""The decision of a selection: quotas, cuts and digest, and what they do to every source and domain.

    shares of domain       before  after  by one threshold
      medicine             0.40    0.40   0.71                a score that favours one domain shows here
      code                 0.30    0.30   0.02

The last column is what the best of the whole corpus by the same score would be: the selection that a single threshold
makes. Price: it costs a second set of passes over the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typecase.core.selection.decide import apply, decide
from typecase.core.selection.keys import Digest
from typecase.core.selection.moments import Moments, association
from typecase.core.selection.quota import Label
from typecase.core.selection.scores import allowed_strata
from typecase.core.selection.selection import Budget, Cuts, Policy, Pool
from typecase.recipe.candidates import open_candidates


def strata_of_cells(
    cells: Sequence[Label], columns: Sequence[str], strata: Sequence[Label], policy: Policy
) -> dict[Label, int]:
    """Which stratum each cell belongs to: the cell's labels at the strata columns."""
    at = [list(columns).index(name) for name in policy.strata]
    number = {label: s for s, label in enumerate(strata)}
    return {cell: number[tuple(cell[i] for i in at)] for cell in cells}


@dataclass(frozen=True)
class _Pools:
    """The candidates of all parts, opened one after the other, as often as they are walked.

    Cells in `skipped` are out of the running, as duplicates are.
    """

    parts: Sequence[Path]
    stratum_of: Mapping[Label, int]
    skipped: frozenset[Label] = frozenset()

    def __iter__(self) -> Iterator[Pool]:
        for part in self.parts:
            candidates = open_candidates(part)
            pool = candidates.pool(self.stratum_of)
            if self.skipped:
                skip = np.array([cell in self.skipped for cell in candidates.cells], np.bool_)
                pool = replace(pool, duplicate=candidates.duplicate | skip[candidates.cell])
            yield pool


@dataclass(frozen=True)
class Deciding:
    """The decision and its tables: quotas and cuts by stratum, shares before and after by label."""

    parts: Sequence[Path]
    cells: Sequence[Label]
    columns: Sequence[str]
    policy: Policy
    budget: Budget
    seed: int | None

    def decision(self) -> dict[str, Any]:
        policy = self.policy
        at = [list(self.columns).index(name) for name in policy.strata]
        labels = sorted({tuple(cell[i] for i in at) for cell in self.cells})
        stratum_of = strata_of_cells(self.cells, self.columns, labels, policy)
        by_cell = Moments.of(_Pools(self.parts, {cell: c for c, cell in enumerate(self.cells)}), len(self.cells))
        moments = by_cell.grouped([stratum_of[cell] for cell in self.cells], len(labels))
        pools = _Pools(self.parts, stratum_of)
        cuts = decide(pools, labels, budget=self.budget, policy=policy, seed=self.seed, moments=moments)
        kept, digest = self._tally(cuts, policy, stratum_of)
        whole = self._one_threshold(by_cell, labels, stratum_of)
        return {
            "policy": _plain(policy),
            "unit": self.budget.unit,
            "budget": self.budget.amount,
            "met": int(cuts.met.sum()),
            "short": cuts.short,
            "moved": dict(cuts.moved),
            "digest": str(digest),
            "columns": list(policy.strata),
            "cell_columns": list(self.columns),
            "strata": cuts.as_rows(),
            "association": {
                name: association(by_cell, [cell[i] for cell in self.cells])
                for i, name in enumerate(self.columns)
                if policy.needs_score
            },
            "shares": {name: self._shares(i, by_cell, kept, whole) for i, name in enumerate(self.columns)},
        }

    def _tally(
        self, cuts: Cuts, policy: Policy, stratum_of: Mapping[Label, int], skipped: frozenset[Label] = frozenset()
    ) -> tuple[NDArray[np.int64], Digest]:
        """(documents and amount kept in every cell, int64 (cells, 2); digest of the kept)."""
        kept, digest = np.zeros((len(self.cells), 2), np.int64), Digest()
        cell_of = {cell: c for c, cell in enumerate(self.cells)}
        by_stratum = _Pools(self.parts, stratum_of, skipped)
        by_cell = _Pools(self.parts, cell_of)
        for pool, celled in zip(by_stratum, by_cell, strict=True):
            made = apply(cuts, pool, policy=policy, seed=self.seed)
            digest += made.digest
            np.add.at(kept[:, 0], celled.stratum[made.kept], 1)
            np.add.at(kept[:, 1], celled.stratum[made.kept], pool.amount[made.kept])
        return kept, digest

    def _one_threshold(
        self, by_cell: Moments, labels: Sequence[Label], stratum_of: Mapping[Label, int]
    ) -> NDArray[np.int64] | None:
        """What the best of the whole corpus by the same score would keep, int64 (cells, 2); None where no score counts."""
        policy = self.policy
        if not policy.needs_score or len(labels) < 2:
            return None
        allowed = allowed_strata(labels, policy)
        skipped = frozenset(cell for cell in self.cells if not allowed[stratum_of[cell]])
        flat = replace(policy, key="top_k", normalise="none", strata=(), only=(), quota="corpus", table=(), spill="none")
        one = dict.fromkeys(self.cells, 0)
        moments = by_cell.grouped([0] * len(self.cells), 1)
        cuts = decide(_Pools(self.parts, one, skipped), [()], budget=self.budget, policy=flat, moments=moments)
        return self._tally(cuts, flat, one, skipped)[0]

    def _shares(
        self, column: int, by_cell: Moments, kept: NDArray[np.int64], whole: NDArray[np.int64] | None
    ) -> dict[str, dict[str, Any]]:
        """By label of one column: documents and amount before and after, and shares of the amount."""
        names = sorted({cell[column] for cell in self.cells})
        group = np.array([names.index(cell[column]) for cell in self.cells], np.int64)
        before = _summed(np.stack([by_cell.documents, by_cell.amount], 1), group, len(names))
        after = _summed(kept, group, len(names))
        flat = _summed(whole, group, len(names)) if whole is not None else None
        table = {}
        for i, name in enumerate(names):
            table[name] = {
                "documents": int(before[i, 0]),
                "kept_documents": int(after[i, 0]),
                "amount": int(before[i, 1]),
                "kept_amount": int(after[i, 1]),
                "share_before": _share(before[i, 1], before),
                "share_after": _share(after[i, 1], after),
            }
            if flat is not None:
                table[name]["share_by_one_threshold"] = _share(flat[i, 1], flat)
        return table


def _summed(values: NDArray[np.int64], group: NDArray[np.int64], num: int) -> NDArray[np.int64]:
    out = np.zeros((num, values.shape[1]), np.int64)
    np.add.at(out, group, values)
    return out


def _share(amount: np.int64, table: NDArray[np.int64]) -> float:
    return round(int(amount) / max(1, int(table[:, 1].sum())), 6)


def _plain(policy: Policy) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in Policy.__dataclass_fields__}
