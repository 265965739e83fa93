"""Suspicion: how far a document stands out from those of ordinary steps, over all signs together.

    z of a sign = (value - median of ordinary documents) / max(1.4826 · MAD of them, floor of the sign)
    suspicion   = sqrt( Σ min(max(z, 0), 10)² ) · n / (n + 64)             n: tokens that the step saw of the document

One sign that stands out far is enough, several that stand out a little add up, and none counts for more than 10. A few tokens
make any sign extreme and move no loss: they are held back by the last factor. The floor keeps a sign that is nearly always
the same (no repetition, no flagged token) from making every exception infinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.spikes.curve import NORMAL

F64 = npt.NDArray[np.float64]

MOST, HALF_TOKENS = 10.0, 64
FLOORS: Mapping[str, float] = {
    "repeated": 0.05,
    "stretch": 1.0,
    "surprise": 0.5,
    "flagged": 0.01,
    "copied": 0.08,
    "length": 0.5,
    "score": 0.5,
    "loss": 0.1,
}
"""The smallest spread of each sign: shares, log2 tokens, bits, shares, similarity, log2 tokens, levels, nats."""


@dataclass(frozen=True, slots=True)
class Usual:
    """What is usual of a sign: the median of ordinary documents and their spread, floor included."""

    median: float
    spread: float


def usual_of(sign: str, values: F64) -> Usual:
    """What is usual of `sign`, from its values in ordinary documents; nan is left out."""
    known = values[np.isfinite(values)]
    if not len(known):
        return Usual(0.0, FLOORS[sign])
    median = float(np.median(known))
    return Usual(median, max(NORMAL * float(np.median(np.abs(known - median))), FLOORS[sign]))


def deviations(values: F64, usual: Usual) -> F64:
    """z of every value; 0 where it is unknown (nan)."""
    return np.nan_to_num((values - usual.median) / usual.spread, nan=0.0, posinf=MOST, neginf=-MOST)


def suspicion(z: Mapping[str, F64], num_tokens: npt.ArrayLike) -> F64:
    """(documents,) float64, 0 or more: the signs of each document joined; see the module."""
    tokens = np.asarray(num_tokens, np.float64)
    squares = sum((np.clip(one, 0.0, MOST) ** 2 for one in z.values()), np.zeros(len(tokens)))
    return np.sqrt(squares) * tokens / (tokens + HALF_TOKENS)
