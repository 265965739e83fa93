"""Calibration: what a rater's numbers mean to the reference, fitted on rows that the figures are not taken from.

    isotonic      score -> expected score of the reference, never falling       (pool adjacent violators)
    temperature   chances -> chances ** (1 / T), divided by their sum            (Guo et al. 2017); order is kept
    logistic      score -> chance of yes, 1 / (1 + exp(-(a + b score)))          (Platt 1999)

`held_out` fits on all groups but some and applies to those, in turn, so that a figure of calibrated values is honest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Fit = Callable[[I64], Callable[[I64], F64]]


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A function that never falls, linear between (knots, heights) and constant outside."""

    knots: F64
    heights: F64

    def __call__(self, values: F64) -> F64:
        heights: F64 = np.interp(values, self.knots, self.heights)
        return heights


@dataclass(frozen=True, slots=True)
class Logistic:
    """1 / (1 + exp(-(start + slope x)))."""

    start: float
    slope: float

    def __call__(self, values: F64) -> F64:
        chances: F64 = 1 / (1 + np.exp(-np.clip(self.start + self.slope * values, -35, 35)))
        return chances


def fit_isotonic(values: F64, targets: F64, weight: F64 | None = None) -> Isotonic:
    """The never-falling function nearest to the targets by weighted squares (pool adjacent violators, Ayer et al. 1955).

    It is flat from the first to the last value of a pooled block and linear across the gap to the next: a sharp border in
    the answers stays sharp, unlike a line between the blocks' middles.
    """
    knots, place = np.unique(values, return_inverse=True)
    mass = np.bincount(place, weight)
    height = np.bincount(place, targets if weight is None else weight * targets) / mass
    tops: list[float] = []
    sizes: list[float] = []
    firsts: list[int] = []
    for at, (top, size) in enumerate(zip(height.tolist(), mass.tolist(), strict=True)):
        first = at
        while tops and tops[-1] >= top:
            total = sizes[-1] + size
            top, size, first = (tops.pop() * sizes[-1] + top * size) / total, total, firsts.pop()
            sizes.pop()
        tops.append(top)
        sizes.append(size)
        firsts.append(first)
    lasts = [*(first - 1 for first in firsts[1:]), len(knots) - 1]
    ends = np.column_stack([knots[firsts], knots[lasts]]).ravel()
    return Isotonic(ends, np.repeat(np.array(tops), 2))


def fit_logistic(values: F64, yes: F64, weight: F64 | None = None, *, damping: float = 1e-2) -> Logistic:
    """The likeliest curve (Newton), its slope held by a weak normal prior so that separable answers stay finite."""
    share = np.ones(len(values)) if weight is None else weight * (len(values) / weight.sum())
    middle, spread = float(values.mean()), max(float(values.std()), 1e-9)
    rows = np.column_stack([np.ones(len(values)), (values - middle) / spread])
    keep = np.array([1e-4, damping])
    place = np.zeros(2)
    for _ in range(60):
        won = 1 / (1 + np.exp(-np.clip(rows @ place, -35, 35)))
        slope = rows.T @ (share * (yes - won)) - keep * place
        move = np.linalg.solve((rows * (share * won * (1 - won))[:, None]).T @ rows + np.diag(keep), slope)
        place = place + np.clip(move, -4, 4)
        if np.abs(move).max() < 1e-9:
            break
    return Logistic(float(place[0] - place[1] * middle / spread), float(place[1] / spread))


def fit_temperature(logprobs: F64, truth: I64) -> float:
    """The T > 0 under which log-probabilities (rows, classes), divided by T, make `truth` (rows,) likeliest.

    The loss is convex in 1 / T: a golden search over T in [0.05, 20].
    """
    finite = np.maximum(logprobs, -1e3)

    def loss(log_heat: float) -> float:
        scaled = finite / np.exp(log_heat)
        top = scaled.max(axis=1)
        total = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
        return float((total - scaled[np.arange(len(truth)), truth]).mean())

    low, high = np.log(0.05), np.log(20.0)
    cut = (np.sqrt(5.0) - 1) / 2
    left, right = high - cut * (high - low), low + cut * (high - low)
    for _ in range(60):
        if loss(left) <= loss(right):
            high, right = right, left
            left = high - cut * (high - low)
        else:
            low, left = left, right
            right = low + cut * (high - low)
    return float(np.exp((low + high) / 2))


def tempered(logprobs: F64, heat: float) -> F64:
    """Chances (rows, classes) of log-probabilities at temperature `heat`; rows sum to 1."""
    scaled = np.maximum(logprobs, -1e3) / heat
    raised: F64 = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    chances: F64 = raised / raised.sum(axis=1, keepdims=True)
    return chances


def held_out(group: I64, fit: Fit, *, folds: int, seed: int, width: int = 0) -> F64:
    """Values for all rows, each made by a fit on the other folds; whole groups stay on one side.

    `fit(rows)` returns a function from rows to their values, (rows,) or, with `width`, (rows, width).
    """
    num_groups = int(group.max()) + 1 if len(group) else 0
    if num_groups < 2:
        raise ValueError(f"held-out values need two groups or more, got {num_groups}")
    fold = np.random.default_rng(seed).permutation(num_groups)[group] % min(folds, num_groups)
    out = np.zeros((len(group), width) if width else len(group))
    for part in range(min(folds, num_groups)):
        asked = np.flatnonzero(fold == part)
        out[asked] = fit(np.flatnonzero(fold != part))(asked)
    return out
