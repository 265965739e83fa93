"""Reuse: a mix is known, some domains change; the ratios inside the others are kept as one virtual domain.

    old mix    web 0.5  books 0.3  code 0.2        code changes
    tied       (web 5/8, books 3/8)   (code)       two variables instead of three

Exactly: every loss exp(t . w) is a function of the variables; bounds on kept domains bound the virtual one; and
KL(w || prior) over the kept domains is v log(v / p) with p = exp(-KL(ratios || prior of the kept)). What is solved is the
same convex problem in fewer variables, and only as many proxies are needed as it has (Olmix 2026 calls this reuse).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from typecase.core.mixing.proposer import Objective, Proposal, propose
from typecase.core.mixing.simplex import linear_best
from typecase.errors import FixInput

F64 = npt.NDArray[np.float64]


def tie(names: Sequence[str], mix: npt.ArrayLike, changed: Collection[str]) -> F64:
    """The variables (variables, domains): first the kept domains in their ratios of `mix`, then each changed domain alone.

    A kept domain with share 0 stays out. Raises FixInput for a changed name that is no domain, or when nothing is kept.
    """
    unknown = sorted(set(changed) - set(names))
    if unknown:
        raise FixInput(f"changed names {unknown[0]!r}, which is no domain; there are {', '.join(names)}")
    shares = np.array([0.0 if name in changed else share for name, share in zip(names, np.asarray(mix, float), strict=True)])
    if not shares.sum() > 0:
        raise FixInput("every domain with a share has changed: there is nothing to keep; propose without --keep")
    singles = [np.eye(len(names))[k] for k, name in enumerate(names) if name in changed]
    return np.array([shares / shares.sum(), *singles])


def propose_tied(goal: Objective, low: npt.ArrayLike, high: npt.ArrayLike, tied: F64) -> Proposal:
    """The best allowed mix whose kept ratios hold. The gap is among such mixes. Raises FixInput when the ratios allow none."""
    least, most = np.asarray(low, np.float64), np.asarray(high, np.float64)
    ratios = tied[0]
    inside = ratios > 0
    outside = ~inside & (tied[1:].sum(axis=0) == 0)
    floor = float((least[inside] / ratios[inside]).max())
    ceiling = min(1.0, float((most[inside] / ratios[inside]).min()))
    singles = [int(row.argmax()) for row in tied[1:]]
    new_low = np.array([floor, *least[singles]])
    new_high = np.array([ceiling, *most[singles]])
    if (new_low > new_high).any() or new_low.sum() > 1 or new_high.sum() < 1 or (least[outside] > 0).any():
        raise FixInput(
            f"the kept ratios allow no mix: together the kept domains may have {floor:.4g} to {ceiling:.4g} of it, the changed"
            f" ones {float(least[singles].sum()):.4g} to {float(most[singles].sum()):.4g}; change more domains, or the budget"
        )
    made = propose(_tied_goal(goal, tied), new_low, new_high)
    mix = np.clip(made.mix @ tied, least, most)
    return Proposal(mix, goal.value(mix), made.gap, made.steps)


def _tied_goal(goal: Objective, tied: F64) -> Objective:
    prior = np.where(tied > 0, goal.prior, 0.0).sum(axis=1)
    if goal.nearness:
        some = tied[0] > 0
        with np.errstate(divide="ignore"):
            prior[0] = float(np.exp(-(tied[0][some] * np.log(tied[0][some] / goal.prior[some])).sum()))
    return Objective(goal.slope @ tied.T, goal.importance, goal.nearness, prior)


def whole_gap(goal: Objective, mix: F64, low: npt.ArrayLike, high: npt.ArrayLike) -> float:
    """How much better an allowed mix could be that keeps no ratio: the price of reuse is at most this."""
    slope = goal.gradient(mix)
    gap = slope @ (mix - linear_best(slope, np.asarray(low, np.float64), np.asarray(high, np.float64)))
    return max(0.0, float(gap))
