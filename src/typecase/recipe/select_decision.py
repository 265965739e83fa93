"""The decision of a selection: quotas, cuts and digest, and what they do to every source and domain.

    shares of domain       before  after  by one threshold
      medicine             0.40    0.40   0.71                a score that favours one domain shows here
      code                 0.30    0.30   0.02

The last column is what the best of the whole corpus by the same score would be: the selection that a single threshold
makes. Price: it costs a second set of passes over the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typecase.core.selection.decide import apply, decide
from typecase.core.selection.keys import Digest
from typecase.core.selection.mixed import MixedCuts, apply_mixed, decide_mixed
from typecase.core.selection.moments import Moments, association
from typecase.core.selection.quota import Label
from typecase.core.selection.ranks import Ranks
from typecase.core.selection.scores import allowed_strata
from typecase.core.selection.selection import Budget, Cuts, Policy, Selection
from typecase.recipe.columns import map_columns, write_columns
from typecase.recipe.select_scores import Part, Pools, merge_criteria


def strata_of_cells(
    cells: Sequence[Label], columns: Sequence[str], strata: Sequence[Label], policy: Policy
) -> dict[Label, int]:
    """Which stratum each cell belongs to: the cell's labels at the strata columns."""
    at = [list(columns).index(name) for name in policy.strata]
    number = {label: s for s, label in enumerate(strata)}
    return {cell: number[tuple(cell[i] for i in at)] for cell in cells}


@dataclass(frozen=True)
class Deciding:
    """The decision and its tables: quotas and cuts by stratum, shares before and after by label. Ranks lie in `scratch`."""

    parts: Sequence[Part]
    cells: Sequence[Label]
    columns: Sequence[str]
    policy: Policy
    budget: Budget
    seed: int | None
    scratch: Path

    def decision(self) -> dict[str, Any]:
        policy = self.policy
        at = [list(self.columns).index(name) for name in policy.strata]
        labels = sorted({tuple(cell[i] for i in at) for cell in self.cells})
        stratum_of = strata_of_cells(self.cells, self.columns, labels, policy)
        if policy.quadmix is not None:
            merge_criteria(self.parts, stratum_of, labels, policy)
        by_cell = Moments.of(Pools(self.parts, {cell: c for c, cell in enumerate(self.cells)}), len(self.cells))
        draws: tuple[Cuts, ...] = ()
        if policy.each:
            mixed = self._mixed(labels, stratum_of)
            cuts, draws = mixed.rest, mixed.draws
            kept, digest = self._tally(lambda index: self._made_mixed(mixed, index, stratum_of))
        else:
            cuts = self._cuts(by_cell, labels, stratum_of)
            kept, digest = self._tally(lambda index: self._made(cuts, policy, index, stratum_of))
        whole = self._one_threshold(by_cell, labels, stratum_of)
        return {
            "policy": _plain(policy),
            "unit": self.budget.unit,
            "budget": self.budget.amount,
            "met": int(cuts.met.sum()),
            "short": cuts.short,
            "moved": dict(cuts.moved),
            "digest": str(digest),
            "copies": int(kept[:, 2].sum()),
            "copied_amount": int(kept[:, 3].sum()),
            "columns": list(policy.strata),
            "cell_columns": list(self.columns),
            "strata": cuts.as_rows(),
            "draws": [
                {"score": score, "strata": one.as_rows(), "moved": dict(one.moved), "short": one.short}
                for score, one in zip(policy.each, draws, strict=True)
            ],
            "association": {
                name: association(by_cell, [cell[i] for cell in self.cells])
                for i, name in enumerate(self.columns)
                if policy.needs_score and not policy.each
            },
            "shares": {name: self._shares(i, by_cell, kept, whole) for i, name in enumerate(self.columns)},
        }

    def _cuts(self, by_cell: Moments, labels: Sequence[Label], stratum_of: Mapping[Label, int]) -> Cuts:
        moments = by_cell.grouped([stratum_of[cell] for cell in self.cells], len(labels))
        pools = Pools(self.parts, stratum_of)
        cuts = decide(pools, labels, budget=self.budget, policy=self.policy, seed=self.seed, moments=moments)
        write_ranks(self.scratch, 0, cuts)
        return cuts

    def _mixed(self, labels: Sequence[Label], stratum_of: Mapping[Label, int]) -> MixedCuts:
        assert self.seed is not None, "a policy of several draws needs a seed"
        mixed = decide_mixed(
            lambda k: Pools(self.parts, stratum_of, k), labels, budget=self.budget, policy=self.policy, seed=self.seed
        )
        for k, cuts in enumerate(mixed.draws):
            write_ranks(self.scratch, k, cuts)
        return mixed

    def _made(
        self, cuts: Cuts, policy: Policy, index: int, stratum_of: Mapping[Label, int], skipped: frozenset[Label] = frozenset()
    ) -> Selection:
        (pool,) = Pools(self.parts[index : index + 1], stratum_of, skipped=skipped)
        return apply(cuts, pool, policy=policy, seed=self.seed)

    def _made_mixed(self, mixed: MixedCuts, index: int, stratum_of: Mapping[Label, int]) -> Selection:
        assert self.seed is not None
        pools = [self.parts[index].pool(stratum_of, k) for k in range(len(mixed.draws))]
        return apply_mixed(mixed, pools, policy=self.policy, seed=self.seed)

    def _tally(self, made_of: Callable[[int], Selection]) -> tuple[NDArray[np.int64], Digest]:
        """(documents and amount kept in every cell, copies and amount of all copies, int64 (cells, 4); digest of the kept)."""
        kept, digest = np.zeros((len(self.cells), 4), np.int64), Digest()
        cell_of = {cell: c for c, cell in enumerate(self.cells)}
        for index, celled in enumerate(Pools(self.parts, cell_of)):
            made = made_of(index)
            digest += made.digest
            rows = celled.stratum[made.kept]
            amount, copies = celled.amount[made.kept], made.copies[made.kept].astype(np.int64)
            for column, values in enumerate((np.ones_like(amount), amount, copies, amount * copies)):
                np.add.at(kept[:, column], rows, values)
        return kept, digest

    def _one_threshold(
        self, by_cell: Moments, labels: Sequence[Label], stratum_of: Mapping[Label, int]
    ) -> NDArray[np.int64] | None:
        """What the best of the whole corpus by the same score would keep, int64 (cells, 2); None where no score counts."""
        policy = self.policy
        banded = policy.between is not None or policy.key == "middle"
        if not policy.needs_score or len(labels) < 2 or banded or policy.each or policy.quadmix is not None:
            return None
        allowed = allowed_strata(labels, policy)
        skipped = frozenset(cell for cell in self.cells if not allowed[stratum_of[cell]])
        inverted = policy.inverted and not policy.filters
        flat = Policy(
            score=policy.terms, strata=(), inverted=inverted, at_least=policy.at_least, at_most=policy.at_most,
            missing=policy.missing, cut=policy.cut, spill="none",
        )  # fmt: skip
        if policy.inverted and policy.filters:
            flat = replace(flat, at_least=None, at_most=None)
        one = dict.fromkeys(self.cells, 0)
        moments = by_cell.grouped([0] * len(self.cells), 1)
        cuts = decide(Pools(self.parts, one, skipped=skipped), [()], budget=self.budget, policy=flat, moments=moments)
        return self._tally(lambda index: self._made(cuts, flat, index, one, skipped))[0]

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


_RANKS = ("first", "last", "below", "count")


def write_ranks(scratch: Path, draw: int, cuts: Cuts) -> None:
    """Keeps the ranks of a draw for those who work through the parts; nothing where it goes by none."""
    if cuts.ranks is not None:
        write_columns(scratch / f"ranks-{draw}.arrow", {name: getattr(cuts.ranks, name) for name in _RANKS})
        groups = {"total": cuts.ranks.total, "start": cuts.ranks.offsets[:-1]}
        write_columns(scratch / f"ranks-{draw}-groups.arrow", groups)


def read_ranks(scratch: Path, draw: int) -> Ranks | None:
    """What `write_ranks` kept."""
    if not (scratch / f"ranks-{draw}.arrow").exists():
        return None
    leaves, groups = (map_columns(scratch / f"ranks-{draw}{end}.arrow")[0] for end in ("", "-groups"))
    offsets = np.append(groups["start"], len(leaves["first"]))
    return Ranks(offsets=offsets, total=groups["total"], **leaves)


def cuts_of(decision: Mapping[str, Any], scratch: Path) -> Cuts:
    """The cuts that a decision holds; of the random rest where several scores drew."""
    ranks = None if decision["draws"] else read_ranks(scratch, 0)
    return Cuts.from_rows(decision["strata"], moved=decision["moved"], short=decision["short"], ranks=ranks)


def mixed_of(decision: Mapping[str, Any], scratch: Path) -> MixedCuts:
    """The cuts of all draws that a decision holds."""
    draws = [
        Cuts.from_rows(one["strata"], moved=one["moved"], short=one["short"], ranks=read_ranks(scratch, k))
        for k, one in enumerate(decision["draws"])
    ]
    return MixedCuts(tuple(draws), cuts_of(decision, scratch))


def _summed(values: NDArray[np.int64], group: NDArray[np.int64], num: int) -> NDArray[np.int64]:
    out = np.zeros((num, values.shape[1]), np.int64)
    np.add.at(out, group, values)
    return out


def _share(amount: np.int64, table: NDArray[np.int64]) -> float:
    return round(int(amount) / max(1, int(table[:, 1].sum())), 6)


def _plain(policy: Policy) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in Policy.__dataclass_fields__}
