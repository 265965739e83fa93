"""Copies: what the chance that a model repeats a token says of the token, and of the model.

    max_prob = the largest chance over prompts and steps

    > 0.9  strong_rejected     > 0.1  weak_rejected     < 0.001  strong_verified     else  weak_verified
    verified = max_prob < 0.01: the model cannot repeat it        borderline = within a factor of 2 of 0.01

The classes and the limit are those of Land & Bartolo, arXiv 2405.05417. A model that cannot repeat ordinary tokens either
verifies everything: then the verdict is void. Intervals are Wilson's (1927), 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LIMIT = 0.01
CAN_COPY = 0.5
_Z = 1.959963984540054
_STRONG_REJECTED, _WEAK_REJECTED, _STRONG_VERIFIED = 0.9, 0.1, 0.001


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `trials`, and the 95 % interval of the share; 0 to 1 without trials."""

    hits: int
    trials: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.hits / self.trials if self.trials else float("nan")


def share_of(hits: int, trials: int) -> Share:
    """A share with Wilson's score interval."""
    if trials == 0:
        return Share(0, 0, 0.0, 1.0)
    p, z2 = hits / trials, _Z * _Z
    middle = p + z2 / (2 * trials)
    half = _Z * (p * (1 - p) / trials + z2 / (4 * trials * trials)) ** 0.5
    low, high = (middle - half) / (1 + z2 / trials), (middle + half) / (1 + z2 / trials)
    return Share(hits, trials, max(0.0, low), min(1.0, high))


def class_of(max_prob: float | None) -> str:
    """The published class; not_tested for None, which is not 0."""
    if max_prob is None:
        return "not_tested"
    if max_prob > _STRONG_REJECTED:
        return "strong_rejected"
    if max_prob > _WEAK_REJECTED:
        return "weak_rejected"
    return "strong_verified" if max_prob < _STRONG_VERIFIED else "weak_verified"


def is_borderline(max_prob: float, limit: float = LIMIT) -> bool:
    """Whether another precision or batch could turn the verdict."""
    return limit / 2 <= max_prob <= limit * 2


@dataclass(frozen=True, slots=True)
class Controls:
    """What the controls of a run showed.

    can_copy        median chance of frequent ordinary tokens; below 0.5 the run is void
    false_verified  share of randomly drawn ordinary tokens that came out verified
    dead_verified   share of known dead tokens that came out verified
    stable          share of candidates that got the same verdict with other examples in the prompts
    """

    can_copy: float
    false_verified: Share
    dead_verified: Share
    stable: Share

    @property
    def void(self) -> bool:
        return not self.can_copy >= CAN_COPY


def controls_of(
    frequent: Sequence[float], ordinary: Sequence[float], dead: Sequence[float], pairs: Sequence[tuple[float, float]],
    limit: float = LIMIT,
) -> Controls:  # fmt: skip
    """From the chances of each kind of control, and of some candidates in two runs."""
    return Controls(
        median(frequent) if frequent else float("nan"),
        share_of(sum(p < limit for p in ordinary), len(ordinary)),
        share_of(sum(p < limit for p in dead), len(dead)),
        share_of(sum((a < limit) == (b < limit) for a, b in pairs), len(pairs)),
    )
