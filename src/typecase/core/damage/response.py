"""Response: what a rater says of texts as the dose of a known damage grows.

    dose       0     0.05   0.1    0.2    0.4    0.8
    overall    4.1   4.0    3.9    3.7    3.2    2.4      rho -0.97, no rise: it falls

A rater *falls* with a kind of damage if
  1. rho, the mean over documents of Spearman's correlation of dose and summary score, lies below FALL with its whole
     interval (95 %, bootstrap over sources), and
  2. no step from a dose to the next rises in the mean with its whole interval above 0.
A document whose rating never moves has rho 0.

Specificity is the mean fall of the criterion that a damage is aimed at, from dose 0 to the highest, over the largest fall
of any other criterion, the summary aside: above 1 the rater tells what is wrong. Faults have side effects (what is out of
order also reads badly), so 1 is no natural bound; it is measured and not assumed.

Price: a bootstrap of some hundred draws a kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.damage.planting import Damage
from typecase.core.learn.agreement import spearman
from typecase.core.learn.bootstrap import drawn_interval, group_draws

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

FALL = -0.2
"""A rater falls with a damage only if the whole interval of its rho lies below this."""
_BOOTSTRAPS = 400


@dataclass(frozen=True, slots=True)
class Response:
    """What a rater says of one kind of damage. Intervals are 95 %, over sources.

    means         float64 (doses + 1,)  mean summary score, the undamaged first
    rho           mean Spearman of dose and summary within a document
    own_rho       the same of the criterion that the damage is aimed at
    violations    share of steps from a dose to the next at which that criterion rises
    own_effect    its mean change from no damage to the highest dose, in levels
    specificity   own fall / largest fall of another criterion, NaN where nothing else falls
    effects       float64 (criteria,)    mean change of every criterion at the highest dose
    """

    damage: Damage
    means: F64
    rho: float
    rho_interval: tuple[float, float]
    own_rho: float
    own_interval: tuple[float, float]
    violations: float
    own_effect: float
    specificity: float
    effects: F64
    rises: int  # steps that rise beyond noise

    @property
    def falls(self) -> bool:
        """Whether the summary falls with the dose, as the module defines it."""
        return self.rho_interval[1] < FALL and self.rises == 0


def response_of(
    damage: Damage, scores: F64, doses: Sequence[float], sources: Sequence[str], columns: Sequence[str], summary: str
) -> Response:
    """The response of `scores` float64 (docs, 1 + doses, criteria), the first of each document undamaged.

    Raises ValueError where the damage is aimed at a criterion that `columns` lacks.
    """
    own, overall = columns.index(damage.criterion), columns.index(summary)
    levels = np.array([0.0, *doses])
    draws = list(group_draws(sources, _BOOTSTRAPS))
    rho = np.array([spearman(levels, row) for row in scores[:, :, overall]])
    own_rho = np.array([spearman(levels, row) for row in scores[:, :, own]])
    effects = (scores[:, -1] - scores[:, 0]).mean(axis=0)
    foreign = [-effects[column] for column in range(len(columns)) if column not in (own, overall)]
    largest = max(foreign, default=0.0)
    steps = np.diff(scores[:, :, overall], axis=1)
    return Response(
        damage,
        scores[:, :, overall].mean(axis=0),
        float(rho.mean()),
        _interval(rho, draws),
        float(own_rho.mean()),
        _interval(own_rho, draws),
        float((np.diff(scores[:, :, own], axis=1) > 0).mean()),
        float(effects[own]),
        float(-effects[own] / largest) if largest > 0 else float("nan"),
        effects,
        sum(_interval(steps[:, step], draws)[0] > 0 for step in range(len(doses))),
    )


def _interval(values: F64, draws: list[I64]) -> tuple[float, float]:
    return drawn_interval(lambda rows: float(values[rows].mean()), draws)
