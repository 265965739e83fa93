"""Curve: where a training loss leaves its own recent past, found by median and spread so that one spike hides no other.

    loss  3.1 3.0 3.1 3.0 │ 4.9 4.2 │ 3.1 3.0        z = (loss - median of the window before) / (1.4826 · MAD of it)
                          └─ spike ─┘                a spike is a run of steps with z of `least` or more

The window holds steps that are no spikes themselves. A loss that is no number is a spike of infinite height. Only rises count:
the fall at the beginning of a run is none. MAD is the median absolute deviation; times 1.4826 it is the standard deviation of
a normal distribution (Hampel 1974, JASA 69). Price: a sort of the window for each step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

WINDOW, LEAST, FEWEST = 100, 6.0, 8
NORMAL = 1.4826
_FLOOR = 1e-3  # of the median: a loss that stands still is not infinitely steady


@dataclass(frozen=True, slots=True)
class Spike:
    """Steps [first, stop) whose loss is too high; `peak` is the highest, with `loss` nats a token against `usual` before,
    `height` deviations above it."""

    first: int
    stop: int
    peak: int
    loss: float
    usual: float
    height: float


def find_spikes(steps: I64, losses: F64, *, window: int = WINDOW, least: float = LEAST) -> list[Spike]:
    """The spikes of a curve: `steps` (n,) int64 rising, `losses` (n,) float64 in nats a token. Raises ValueError for others.

    The first FEWEST steps are only looked back at.
    """
    if len(steps) != len(losses) or np.any(np.diff(steps) <= 0):
        raise ValueError("steps rise, and every step has one loss")
    if window < FEWEST or least <= 0:
        raise ValueError(f"a window has {FEWEST} steps or more and the least height is above 0")
    heights, usual = heights_of(losses, window=window, least=least)
    found: list[Spike] = []
    high = np.flatnonzero(heights >= least)
    for run in np.split(high, np.flatnonzero(np.diff(high) > 1) + 1):
        if len(run):
            peak = int(run[np.argmax(heights[run])])
            found.append(
                Spike(
                    int(steps[run[0]]), int(steps[run[-1]]) + 1, int(steps[peak]),
                    float(losses[peak]), float(usual[peak]), float(heights[peak]),
                )
            )  # fmt: skip
    return found


def heights_of(losses: F64, *, window: int = WINDOW, least: float = LEAST) -> tuple[F64, F64]:
    """How many deviations every loss lies above its past, (n,), and what was usual then, (n,); nan where there is no past."""
    heights, usual = np.full(len(losses), np.nan), np.full(len(losses), np.nan)
    past: list[float] = []
    for k, loss in enumerate(losses.tolist()):
        if len(past) >= FEWEST:
            before = np.array(past[-window:])
            usual[k] = np.median(before)
            spread = max(NORMAL * float(np.median(np.abs(before - usual[k]))), _FLOOR * abs(float(usual[k])), 1e-12)
            heights[k] = (loss - usual[k]) / spread if np.isfinite(loss) else np.inf
        if np.isfinite(loss) and not heights[k] >= least:
            past.append(loss)
    return heights, usual
