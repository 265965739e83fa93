"""Proposer: the best mix under a law, kept near a prior, within what there is.

    minimise   sum_j a_j exp(t_j . w)  +  beta * KL(w || prior)          over  low <= w <= high,  sum w = 1

Convex, so there is one best value. Newton steps on a log barrier that shrinks tenfold a round (Boyd and Vandenberghe 2004,
ch. 11): every mix on the way is strictly allowed. The answer carries its certificate, computed from the answer alone: the
gap max over allowed v of grad . (w - v) bounds how much any allowed mix could be better.

The constants c_j of a law change no mix. The weights a_j say how much each target's loss counts.
Price: domains cubed a step, some 60 steps; 20 domains and 13 targets take 10 ms, 200 domains 0.3 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.mixing.simplex import linear_best, middle
from typecase.errors import FixInput

F64 = npt.NDArray[np.float64]

_TIGHT = 1e-12
_ROUNDS = 16
_STEPS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """`slope` (targets, domains) and `importance` a_j >= 0 (targets,) of the law's losses; `nearness` beta >= 0 of the
    divergence from `prior` (domains,), whose entries are 0 or more and need not sum to 1."""

    slope: F64
    importance: F64
    nearness: float
    prior: F64

    def value(self, mix: F64) -> float:
        pull = float(self.importance @ np.exp(self.slope @ mix))
        if not self.nearness:
            return pull
        some = mix > 0
        return pull + self.nearness * float((mix[some] * np.log(mix[some] / self.prior[some])).sum())

    def gradient(self, mix: F64) -> F64:
        found: F64 = (self.importance * np.exp(self.slope @ mix)) @ self.slope
        if self.nearness:
            found = found + self.nearness * (np.log(np.maximum(mix, 1e-300) / self.prior) + 1)
        return found

    def curvature(self, mix: F64) -> F64:
        found: F64 = (self.slope.T * (self.importance * np.exp(self.slope @ mix))) @ self.slope
        if self.nearness:
            found = found + np.diag(self.nearness / np.maximum(mix, 1e-300))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """The `mix` (domains,), its objective, and the certificate: no allowed mix is better by more than `gap`."""

    mix: F64
    value: float
    gap: float
    steps: int


def objective(
    slope: npt.ArrayLike,
    *,
    importance: npt.ArrayLike | None = None,
    nearness: float = 0.0,
    prior: npt.ArrayLike | None = None,
) -> Objective:
    """An Objective, checked. Every target counts 1 where `importance` is left out. Raises FixInput."""
    t = np.atleast_2d(np.asarray(slope, np.float64))
    a = np.ones(len(t)) if importance is None else np.asarray(importance, np.float64)
    p = np.full(t.shape[1], 1 / t.shape[1]) if prior is None else np.asarray(prior, np.float64)
    if a.shape != (len(t),) or not (np.isfinite(a).all() and (a >= 0).all()):
        raise FixInput(f"importance is a number of 0 or more for each of {len(t)} targets, got {a.tolist()}")
    if not 0 <= nearness < np.inf:
        raise FixInput(f"the weight of the divergence from the prior is 0 or more, got {nearness}")
    if p.shape != (t.shape[1],) or not (np.isfinite(p).all() and (p >= 0).all() and p.sum() > 0):
        raise FixInput(f"a prior is a number of 0 or more for each of {t.shape[1]} domains, got {p.tolist()}")
    return Objective(t, a, float(nearness), p)


def propose(goal: Objective, low: npt.ArrayLike, high: npt.ArrayLike) -> Proposal:
    """The best allowed mix. The bounds must admit one: see `simplex.bounds_of`.

    Where the divergence counts, a domain that the prior leaves out gets nothing; raises FixInput when its floor asks for some,
    or when the others cannot fill the mix.
    """
    least, most = (np.asarray(side, np.float64).copy() for side in (low, high))
    if goal.nearness:
        most[goal.prior <= 0] = 0.0
        if (least > most).any() or most.sum() < 1 - _TIGHT:
            raise FixInput("the prior leaves out a domain that the mix needs; give it a share, or weigh the divergence with 0")
    mix = middle(least, most)
    free = most - least > _TIGHT
    if not free.any() or mix[free].sum() <= least[free].sum() or mix[free].sum() >= most[free].sum():
        return _certified(goal, mix, least, most, 0)
    inner = _Inner(goal, mix, free, least, most)
    return _certified(goal, inner.solve(), least, most, inner.steps)


def _certified(goal: Objective, mix: F64, low: F64, high: F64, steps: int) -> Proposal:
    mix = np.clip(mix, low, high)
    # domains that may take nothing have a gradient of minus infinity where the divergence counts; they cannot move
    slope = np.where(high > low, goal.gradient(mix) if (high > low).any() else 0.0, 0.0)
    slope = np.where(np.isfinite(slope), slope, 0.0)
    gap = float(slope @ (mix - linear_best(slope, low, high)))
    return Proposal(mix, goal.value(mix), max(gap, 0.0), steps)


class _Inner:
    """The barrier method over the free domains; the others stay where they are."""

    def __init__(self, goal: Objective, mix: F64, free: npt.NDArray[np.bool_], low: F64, high: F64) -> None:
        fixed = goal.slope[:, ~free] @ mix[~free]
        weight = goal.importance * np.exp(fixed)
        self._goal = Objective(goal.slope[:, free], weight, goal.nearness, goal.prior[free])
        self._mix, self._free, self._low, self._high = mix.copy(), free, low[free], high[free]
        self.steps = 0

    def solve(self) -> F64:
        w = self._mix[self._free]
        scale = max(abs(self._goal.value(w)), float(np.abs(self._goal.gradient(w)).max()), 1e-12)
        weight = scale
        for _ in range(_ROUNDS):
            w = self._centre(w, weight)
            weight /= 10
            if weight < 1e-13 * scale:
                break
        self._mix[self._free] = w
        return self._mix

    def _barred(self, w: F64, weight: float) -> float:
        return self._goal.value(w) - weight * float(np.log(w - self._low).sum() + np.log(self._high - w).sum())

    def _centre(self, w: F64, weight: float) -> F64:
        """Newton's method on objective plus barrier with the sum held."""
        for _ in range(_STEPS):
            below, above = w - self._low, self._high - w
            slope = self._goal.gradient(w) + weight * (1 / above - 1 / below)
            curve = self._goal.curvature(w) + np.diag(weight * (1 / below**2 + 1 / above**2))
            size = 1 / np.sqrt(np.diag(curve))  # scaled, since entries of the barrier differ by many powers of ten
            scaled = curve * size[:, None] * size
            one, goal = np.linalg.solve(scaled, np.column_stack([size, size * slope])).T
            step = -size * (goal - one * (size @ goal) / (size @ one))
            step -= step.sum() * below * above / (below * above).sum()
            decrease = -float(slope @ step)
            if decrease <= 1e-9 * weight:
                break
            reach = _reach(step, below, above)
            now = self._barred(w, weight)
            while reach > 1e-14 and not self._barred(w + reach * step, weight) <= now - 1e-4 * reach * decrease:
                reach /= 2
            self.steps += 1
            if reach <= 1e-14:
                break
            w = w + reach * step
        return w


def _reach(step: F64, below: F64, above: F64) -> float:
    """The longest part of a step, at most all of it, that stays strictly inside."""
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(step < 0, -below / step, np.where(step > 0, above / step, np.inf))
    return min(1.0, 0.99 * float(room.min()))
