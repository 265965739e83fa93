"""Judges of comparisons: who of them agrees with the scores, who guesses, who says the opposite.

    judge   slope            answers of a judge against the scores:  logit P(second wins) = slope x (score₂ - score₁ + bias)
    a        1.1             1 is as the others, 0 is guessing, below 0 is the opposite
    b        0.05
    c       -0.9

`fit_judged` fits scores, reads off the slopes, counts each answer by its judge's slope (none below 0, none above 1), and
fits again until the slopes rest: a judge against whom the majority speaks loses his say. With most judges adverse the
majority is wrong, and nothing in the answers tells so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.pairwise import Comparisons, Scores, fit_scores

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_ROUNDS = 8
_PRECISION = 1.0


def judge_slopes(comparisons: Comparisons, judge: I64, found: Scores, *, num_judges: int) -> F64:
    """The slope of each judge, float64 (judges,), with a prior of 1 worth little; a judge without answers gets 1."""
    gap = found.scores[comparisons.second] - found.scores[comparisons.first] + found.bias
    valid = ~np.isnan(comparisons.chance)
    gap, who = gap[valid], judge[valid]
    chance, weight = comparisons.chance[valid], comparisons.weight[valid]
    slopes = np.ones(num_judges)
    for _ in range(25):
        won = 1 / (1 + np.exp(-np.clip(slopes[who] * gap, -30, 30)))
        pull = np.bincount(who, weight * (chance - won) * gap, num_judges) - _PRECISION * (slopes - 1)
        curve = np.bincount(who, weight * won * (1 - won) * gap**2, num_judges) + _PRECISION
        move = np.clip(pull / curve, -1, 1)
        slopes = slopes + move
        if np.abs(move).max(initial=0.0) < 1e-9:
            break
    return slopes


def fit_judged(comparisons: Comparisons, judge: I64, num_items: int, **options: Any) -> tuple[Scores, F64]:
    """Scores with each answer weighed by its judge, and the slopes; `options` are those of `fit_scores`."""
    num_judges = int(judge.max()) + 1 if len(judge) else 0
    say = np.ones(num_judges)
    quick = {**options, "errors": False}
    for _ in range(_ROUNDS):
        found = fit_scores(replace(comparisons, weight=comparisons.weight * say[judge]), num_items, **quick)
        slopes = judge_slopes(comparisons, judge, found, num_judges=num_judges)
        scale = max(float(np.median(slopes[slopes > 0])) if (slopes > 0).any() else 1.0, 1e-6)
        new = np.clip(slopes / scale, 0, 1)
        if np.abs(new - say).max(initial=0.0) < 1e-3:
            break
        say = new
    return fit_scores(replace(comparisons, weight=comparisons.weight * say[judge]), num_items, **options), slopes
