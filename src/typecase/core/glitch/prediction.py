"""Prediction: which tokens a run will leave under-trained, from counts alone, before any training.

    lambda = count x planned tokens / counted tokens x epochs        expected sightings in the planned run

    never      no text can make it, or it was counted 0 times: with `counted` tokens its rate is below 3 / counted (95 %)
    at_risk    lambda at most k
    expected   else

P(never seen) = exp(-lambda), for a run that samples; a run that reads the counted set itself, whole, sees what it holds.
A count of 0 in a sample is an upper bound and not a zero: `at_most` says how large lambda may still be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

AT_RISK = 10.0
"""Sightings at or below which a token is taken to stay under-trained: the cautious end of what is proposed, 3 to 10."""

NEVER, RISK, EXPECTED = "never", "at_risk", "expected"
_RULE_OF_THREE = 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned run: its tokens over all epochs (None: exactly what was counted, `epochs` times) and the limit k."""

    tokens: int | None = None
    epochs: float = 1.0
    at_risk: float = AT_RISK

    def __post_init__(self) -> None:
        if (self.tokens is not None and self.tokens < 1) or not self.epochs > 0 or self.at_risk < 0:
            raise ValueError(f"a plan needs tokens and epochs above 0 and a limit of 0 or more, got {self}")

    def exposure(self, counted: int) -> float:
        """How many times each counted token will be seen."""
        if self.tokens is None:
            return self.epochs
        return self.tokens * self.epochs / max(1, counted)


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """By id: class, expected sightings, their bound for tokens not counted, chance of none, and how many more are wanted."""

    kinds: npt.NDArray[np.str_]
    sightings: npt.NDArray[np.float64]
    at_most: npt.NDArray[np.float64]
    never_seen: npt.NDArray[np.float64]
    wanted: npt.NDArray[np.float64]

    @property
    def under_trained(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.kinds != EXPECTED)


def predict(counts: npt.NDArray[np.int64], plan: Plan, *, reachable: npt.NDArray[np.bool_] | None = None) -> Prediction:
    """What `plan` will see of tokens with these `counts`; `reachable` False marks those that no text can make.

    A token that was counted is reachable, whatever was said of it.
    """
    counted = int(counts.sum())
    exposure = plan.exposure(counted)
    sightings = counts.astype(np.float64) * exposure
    at_most = np.where(counts == 0, _RULE_OF_THREE * exposure, sightings)
    dead = np.zeros(len(counts), np.bool_) if reachable is None else ~reachable & (counts == 0)
    at_most = np.where(dead, 0.0, at_most)
    kinds = np.where(counts == 0, NEVER, np.where(sightings <= plan.at_risk, RISK, EXPECTED))
    wanted = np.where(dead, np.inf, np.maximum(0.0, np.floor(plan.at_risk) + 1 - sightings))
    return Prediction(kinds, sightings, at_most, np.exp(-sightings), wanted)
