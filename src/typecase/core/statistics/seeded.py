"""Seeded: figures of arms that were trained with several seeds and measured on the same documents, with paired intervals.

                 documents
    arm A   s1   n n n n n n         figure = mean over seeds of  sum of n over documents / sum of their sizes
            s2   n n n n n n
    arm B   s1   n n n n n n         one resample draws seeds and groups of documents, the same for every arm
            s2   n n n n n n

Because a resample is the same for all arms, the difference of two arms within it is free of what they share: the paired
bootstrap (Efron and Tibshirani 1993, section 8). Seeds and documents are drawn together, so both count as chance. With few
seeds a bootstrap is too narrow (with 3 it draws from 10 sets of seeds), so beside it stands Student's interval of the
differences of equal seeds, which knows how few they are and holds for these documents. Neither is the whole truth: reports
show both.

Price: a matrix product for each block of resamples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.learn.bootstrap import LEVEL, RESAMPLES, Interval, row_weights
from typecase.errors import BadQuery

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_T975 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
_NORMAL_975 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one figure lies above another.

    low, high            the middle of the resamples of seeds and documents
    seed_low, seed_high  Student's interval over the differences of equal seeds; NaN with one seed
    by_seed              those differences
    """

    value: float
    low: float
    high: float
    seed_low: float
    seed_high: float
    by_seed: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SeededFigures:
    """Figures of arms under the same resamples; made by `figures_of`.

    points   float64 (arms,)           by_seed  float64 (arms, seeds)           drawn  float64 (arms, resamples)
    """

    names: tuple[str, ...]
    points: F64
    by_seed: F64
    drawn: F64

    def interval(self, name: str) -> Interval:
        """The figure of an arm; how far it would move with other seeds and other documents."""
        k = self._at(name)
        return Interval(float(self.points[k]), *_middle(self.drawn[k], LEVEL))

    def difference(self, name: str, base: str, *, level: float = LEVEL) -> Difference:
        """Arm `name` less arm `base`; `level` is the share of resamples within the interval."""
        a, b = self._at(name), self._at(base)
        low, high = _middle(self.drawn[a] - self.drawn[b], level)
        by_seed = self.by_seed[a] - self.by_seed[b]
        return Difference(
            float(self.points[a] - self.points[b]), low, high, *student_interval(by_seed), tuple(by_seed.tolist())
        )

    def recovered(self, name: str, *, clean: str, noisy: str) -> Interval:
        """The share of the gap between `noisy` and `clean` that arm `name` closes: 1 is as good as clean, 0 as bad as noisy.

        NaN where there is no gap: where the interval of the gap itself holds 0, a share of it means nothing.
        """
        a, c, n = self._at(name), self._at(clean), self._at(noisy)
        gap = self.difference(noisy, clean)
        if gap.low <= 0 <= gap.high:
            return Interval(math.nan, math.nan, math.nan, 0.0)
        share = float((self.points[n] - self.points[a]) / (self.points[n] - self.points[c]))
        return Interval(share, *_middle((self.drawn[n] - self.drawn[a]) / (self.drawn[n] - self.drawn[c]), LEVEL))

    def ranks(self) -> dict[str, tuple[float, float]]:
        """For every arm the ranks, 1 the lowest figure, between which the middle of the resamples lies."""
        order = self.drawn.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") + 1.0
        return {name: _middle(order[k], LEVEL) for k, name in enumerate(self.names)}

    def _at(self, name: str) -> int:
        if name not in self.names:
            raise BadQuery(f"there is no arm {name!r}: there are {', '.join(self.names)}")
        return self.names.index(name)


def figures_of(sums: Mapping[str, F64], sizes: F64, group: I64, *, resamples: int = RESAMPLES, seed: int = 0) -> SeededFigures:
    """The figures of arms. `sums` holds for each arm what its seeds reached on every document, float64 (seeds, documents),
    in one order of seeds and documents; `sizes` (documents,) is what it is divided by; `group` (documents,) says which
    documents are drawn together, numbered from 0.

    Raises BadQuery where arms differ in seeds or documents, or nothing has a size.
    """
    shapes = {np.shape(one) for one in sums.values()}
    if len(shapes) != 1 or next(iter(shapes))[1:] != np.shape(sizes) or not next(iter(shapes))[0]:
        raise BadQuery(f"arms are compared on the same seeds and documents, got {sorted(shapes)} and sizes {np.shape(sizes)}")
    if not sizes.sum() > 0:
        raise BadQuery("nothing to compare: the documents have no size")
    table = np.stack([np.asarray(one, np.float64) for one in sums.values()])
    arms, seeds, _ = table.shape
    by_seed = table.sum(axis=2) / sizes.sum()
    dice = np.random.default_rng((seed, 1))
    blocks = []
    for weights in row_weights(group, resamples=resamples, seed=seed):
        drawn_seeds = dice.multinomial(seeds, np.full(seeds, 1 / seeds), len(weights)) / seeds
        each = (weights @ table.reshape(arms * seeds, -1).T).reshape(-1, arms, seeds)
        blocks.append(np.einsum("bas,bs->ab", each, drawn_seeds) / (weights @ sizes))
    return SeededFigures(tuple(sums), by_seed.mean(axis=1), by_seed, np.concatenate(blocks, axis=1))


def student_interval(values: Sequence[float] | F64) -> tuple[float, float]:
    """The 95 % interval of the mean of a few normal values (Student 1908); NaN for one value."""
    n = len(values)
    if n < 2:
        return math.nan, math.nan
    array = np.asarray(values, np.float64)
    half = student_975(n - 1) * float(array.std(ddof=1)) / math.sqrt(n)
    return float(array.mean()) - half, float(array.mean()) + half


def student_975(freedom: int) -> float:
    """The 97.5 % point of Student's distribution; beyond 10 degrees by the expansion of Fisher, within 0.0001."""
    if freedom <= len(_T975):
        return _T975[freedom - 1]
    z, n = _NORMAL_975, freedom
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + math.fsum(term / n ** (k + 1) for k, term in enumerate(terms))


def _middle(drawn: F64, level: float) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
