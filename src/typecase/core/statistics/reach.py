"""Reach: after how many tokens a run is as good as another, read off its curve of losses.

    loss
     |\\
     | \\ \\__ noisy ______ its last loss
     |  \\__________ refined
     +----|--------------- tokens          refined is there after a quarter of the tokens: 4 x

The curve is read as its running minimum, linear between two looks; a run that never gets there has no such number, and none is
made up. FLOPs are those of training alone: what it costs to refine or to rate is added by who knows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from typecase.errors import BadQuery


@dataclass(frozen=True, slots=True)
class Curve:
    """Losses on one held-out set after so many tokens; both of one length, tokens rising."""

    tokens: tuple[int, ...]
    losses: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.losses) or any(a >= b for a, b in zip(self.tokens, self.tokens[1:], strict=False)):
            raise BadQuery("a curve has a loss for every count of tokens, and these rise")


def tokens_to_reach(curve: Curve, loss: float) -> float | None:
    """Tokens after which the curve is first at `loss` or below; None where it never is."""
    if not curve.losses:
        return None
    best = np.minimum.accumulate(np.array(curve.losses))
    at = int(np.searchsorted(-best, -loss, side="left"))
    if at == len(best):
        return None
    if at == 0:
        return float(curve.tokens[0])
    above, below = float(best[at - 1]), float(best[at])
    part = (above - loss) / (above - below)
    return curve.tokens[at - 1] + part * (curve.tokens[at] - curve.tokens[at - 1])


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """The mean of curves of several seeds, which were looked at after the same tokens. Raises BadQuery where they were not."""
    if len({one.tokens for one in curves}) != 1:
        raise BadQuery("curves of one arm are looked at after the same tokens")
    return Curve(curves[0].tokens, tuple(np.mean([one.losses for one in curves], axis=0).tolist()))
