"""Bootstrap over groups: how far a figure would move if other sources, projects or clusters had been drawn.

    rows    0 1 2 3 4 5        draw groups with replacement       weight of a row = how often its group was drawn
    group   a a b c c c   ->   a c c                         ->   1 1 0 2 2 2

Rows of one source resemble each other, so drawing rows would promise too much (Efron and Tibshirani 1993, section 8.6). A
figure that takes weights needs no copies of rows: a resample is a row of whole numbers. The interval is the middle 95 % of
the resamples (percentile interval); with fewer than 20 groups it is too narrow, and callers must say so.

Price: `integers` and `bincount` of the groups for each resample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

RESAMPLES = 1000
LEVEL = 0.95
FEW_GROUPS = 20
_CELLS = 1 << 21


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the middle 95 % of its resamples; all NaN where it is undefined. `defined` is the share of resamples
    in which the figure exists (a class may be missing from one)."""

    value: float
    low: float
    high: float
    defined: float = 1.0


def groups_of(names: Sequence[object]) -> I64:
    """The group of each row, int64 (rows,), numbered from 0 in sorted order of the names as text."""
    return np.unique(np.array([str(name) for name in names], object).astype(str), return_inverse=True)[1].astype(np.int64)


def row_weights(group: I64, *, resamples: int, seed: int) -> Iterator[F64]:
    """How often each row is drawn: float64 blocks (some resamples, rows) of whole numbers, `resamples` rows in all.

    A resample draws as many groups as there are, each with the same chance. The same seed gives the same draws however
    the blocks are cut.
    """
    num_groups = int(group.max()) + 1 if len(group) else 0
    dice = np.random.default_rng(seed)
    block = max(1, _CELLS // max(1, len(group)))
    for start in range(0, resamples, block):
        drawn = [
            np.bincount(dice.integers(num_groups, size=num_groups), minlength=num_groups)
            for _ in range(min(block, resamples - start))
        ]
        yield np.array(drawn, np.float64)[:, group]


def intervals(
    figures: Callable[[F64], Mapping[str, F64]], group: I64, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Every figure with its interval. `figures(weights (b, rows))` gives each figure as float64 (b,), NaN where undefined."""
    if len(group) == 0:
        return {}
    points = {name: float(values[0]) for name, values in figures(np.ones((1, len(group)))).items()}
    drawn: dict[str, list[F64]] = {name: [] for name in points}
    for weights in row_weights(group, resamples=resamples, seed=seed):
        for name, values in figures(weights).items():
            drawn[name].append(values)
    return {
        name: interval_of(value, np.concatenate(drawn[name]) if drawn[name] else np.zeros(0)) for name, value in points.items()
    }


def interval_of(value: float, drawn: F64) -> Interval:
    """The middle LEVEL of the resampled values, those that are undefined left out and counted."""
    good = drawn[~np.isnan(drawn)]
    if not len(good) or np.isnan(value):
        return Interval(value, float("nan"), float("nan"), 0.0 if len(drawn) else float("nan"))
    low, high = np.quantile(good, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high), len(good) / len(drawn))


def mean_interval(values: F64, group: I64, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """The mean of `values` (rows,) with its interval over groups."""
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"), 0.0)
    return intervals(lambda w: {"mean": (w @ values) / w.sum(axis=1)}, group, resamples=resamples, seed=seed)["mean"]


def group_draws(names: Sequence[str], resamples: int) -> Iterator[I64]:
    """Rows under samples of whole groups, as many groups as there are; seeded by their number: for figures without weights."""
    groups, place = np.unique(np.array(names), return_inverse=True)
    rows_of = [np.flatnonzero(place == index) for index in range(len(groups))]
    dice = np.random.default_rng(len(groups))
    for _ in range(resamples):
        yield np.concatenate([rows_of[group] for group in dice.integers(len(groups), size=len(groups))])


def drawn_interval(figure: Callable[[I64], float], draws: Iterable[I64]) -> tuple[float, float]:
    """The middle 95 % of a figure of rows over draws of rows."""
    values = [figure(rows) for rows in draws]
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))
