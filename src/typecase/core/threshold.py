"""Where to cut: people say keep or drop for a drawn sample, and a threshold on a score is proposed from their answers.

    pool     scores of all documents  ──►  strata: score bin x source  ──►  sample, each with its chance of being drawn
    labels   keep, drop               ──►  chance of "keep" at a score (isotonic or logistic)
                                      ──►  threshold │ keep rate  precision  recall, each with an interval
                                              3.2    │   41 %       0.88      0.79

Labels are weighed by documents of their stratum over labels in it, so that drawing rare strata more often does not bend the
figures. keep rate is the share of the pool at or above the threshold, a count and no estimate. precision is the mean chance
of "keep" there, recall their share of all that people would keep. Intervals resample the labels within their strata; that of
the precision is never narrower than the labels above the threshold allow on their own (Wilson), for one label that was kept
proves nothing.

Price: a sort of the pool; 500 small fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import numpy as np
import numpy.typing as npt

from typecase.core.learn.agreement import mean_ranks
from typecase.core.learn.calibration import Isotonic, Logistic, fit_isotonic, fit_logistic
from typecase.errors import BadQuery

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Shape = Literal["isotonic", "logistic"]

FEW_LABELS = 50
FEW_OF_A_KIND = 10
_GRID = 200
_RESAMPLES = 500
_WIDE = 0.2


@dataclass(frozen=True, slots=True)
class Drawn:
    """A stratified sample of a pool, in the order of asking.

    rows        int64 (drawn,)     rows of the pool
    inclusion   float64 (drawn,)   chance of each to be drawn
    stratum     the stratum of each, as "bin|source"
    pool        documents of each stratum
    """

    rows: I64
    inclusion: F64
    stratum: tuple[str, ...]
    pool: Mapping[str, int]


def draw_sample(ids: Sequence[str], scores: F64, sources: Sequence[str], *, size: int, bins: int, seed: int) -> Drawn:
    """Draws `size` documents, more of large strata but not in proportion (`_shares`); the order of asking is random too.

    A stratum is a bin of scores (equally many documents each) within a source. Within a stratum every document has the same
    chance; who is drawn depends on (seed, id) alone. A score that is NaN takes no part.
    """
    able = np.flatnonzero(~np.isnan(scores))
    if size < 1 or bins < 1 or not len(able):
        raise BadQuery(f"a sample needs a size, bins and documents with a score, got {size}, {bins}, {len(able)}")
    place = np.minimum((mean_ranks(scores[able]) * bins / len(able)).astype(np.int64), bins - 1)
    strata: dict[str, list[int]] = {}
    for row, bin_ in zip(able.tolist(), place.tolist(), strict=True):
        strata.setdefault(f"{bin_}|{sources[row]}", []).append(row)
    names = sorted(strata)
    share = _shares([len(strata[name]) for name in names], size)
    rows, inclusion, stratum = [], [], []
    for name, number in zip(names, share, strict=True):
        mine = sorted(strata[name], key=lambda row: (_dice(seed, "draw", ids[row]), ids[row]))[:number]
        rows += mine
        inclusion += [number / len(strata[name])] * len(mine)
        stratum += [name] * len(mine)
    order = sorted(range(len(rows)), key=lambda k: (_dice(seed, "order", ids[rows[k]]), ids[rows[k]]))
    return Drawn(
        np.array([rows[k] for k in order], np.int64),
        np.array([inclusion[k] for k in order]),
        tuple(stratum[k] for k in order),
        {name: len(strata[name]) for name in names},
    )


def _dice(seed: int, purpose: str, doc_id: str) -> bytes:
    return blake2b(f"{seed}\0{purpose}\0{doc_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _shares(room: Sequence[int], size: int) -> list[int]:
    """Shares of `size` as the square roots of `room`, none above it: large strata lead, small ones are not drowned.

    (Power allocation, Bankier 1988.) Fractions are settled by largest remainder, the first of equals.
    """
    left = min(size, sum(room))
    weight = np.sqrt(np.array(room, np.float64))
    share = np.zeros(len(room))
    open_ = weight > 0
    while left > share.sum() + 1e-9 and open_.any():
        share = np.where(open_, (left - share[~open_].sum()) * weight / weight[open_].sum(), share)
        full = open_ & (share >= np.array(room))
        if not full.any():
            break
        share, open_ = np.where(full, room, share), open_ & ~full
    whole = np.floor(share + 1e-9).astype(np.int64)
    order = np.argsort(-(share - whole), kind="stable")
    for k in [k for k in order.tolist() if whole[k] < room[k]][: left - int(whole.sum())]:
        whole[k] += 1
    return [int(number) for number in whole]


@dataclass(frozen=True, slots=True)
class Labels:
    """Answers of people, a row each: the document's score, keep 1 or drop 0, its stratum; and the pool of each stratum."""

    scores: F64
    keep: F64
    stratum: tuple[str, ...]
    pool: Mapping[str, int]

    def weights(self) -> F64:
        """Documents that each label stands for, float64 (labels,)."""
        number: dict[str, int] = {}
        for name in self.stratum:
            number[name] = number.get(name, 0) + 1
        return np.array([self.pool.get(name, number[name]) / number[name] for name in self.stratum])


@dataclass(frozen=True, slots=True)
class Cut:
    """What a threshold does. Intervals are the middle 95 % of the resampled labels."""

    threshold: float
    keep_rate: float
    precision: float
    precision_low: float
    precision_high: float
    recall: float
    recall_low: float
    recall_high: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """The curve and what was chosen from it.

    base_rate    share of the pool that people would keep
    separation   chance that a kept document has the higher score than a dropped one
    cut          None where no threshold fulfils the wish
    sure         the cut whose lower bound of precision fulfils it too (wished precision only)
    """

    labels: int
    kept: int
    base_rate: float
    separation: float
    cut: Cut | None
    sure: Cut | None
    curve: tuple[Cut, ...]
    warnings: tuple[str, ...]


def propose(
    labels: Labels, pool_scores: F64, *, precision: float | None = None, keep_rate: float | None = None,
    shape: Shape = "isotonic", seed: int = 0,
) -> Proposal:  # fmt: skip
    """The lowest threshold of at least this precision, or the one that keeps at most this share of the pool.

    `pool_scores` (documents,) are all documents with a score. Raises BadQuery unless exactly one wish is given, in (0, 1].
    """
    wish = precision if precision is not None else keep_rate
    if (precision is None) == (keep_rate is None) or wish is None or not 0 < wish <= 1:
        raise BadQuery(f"wish for a precision or a keep rate, one of them, above 0 and up to 1; got {precision}, {keep_rate}")
    if not len(labels.keep) or len(set(labels.keep.tolist())) < 2:
        raise BadQuery(f"{len(labels.keep)} labels, all alike: a threshold needs some kept and some dropped")
    pool = np.sort(pool_scores[~np.isnan(pool_scores)])
    curve = _curve(labels, pool, shape, seed)
    separation = separation_of(labels)
    cut = sure = None
    if precision is not None:
        cut = next((row for row in curve if row.precision >= precision), None)
        sure = next((row for row in curve if row.precision_low >= precision), None)
    else:
        cut = next((row for row in curve if row.keep_rate <= wish), None)
    return Proposal(
        len(labels.keep),
        int(labels.keep.sum()),
        curve[0].precision,
        separation,
        cut,
        sure,
        curve,
        _warnings(labels, cut, separation),
    )


def separation_of(labels: Labels) -> float:
    """The chance that a kept document has the higher score than a dropped one (area under the ROC curve), weighed."""
    weight = labels.weights()
    order = np.argsort(labels.scores, kind="stable")
    score, keep, w = labels.scores[order], labels.keep[order], weight[order]
    _, place = np.unique(score, return_inverse=True)
    good, bad = np.bincount(place, w * keep), np.bincount(place, w * (1 - keep))
    below = np.cumsum(bad) - bad
    return float((good * (below + bad / 2)).sum() / (good.sum() * bad.sum()))


def _grid(pool: F64) -> F64:
    """Thresholds to look at: the values themselves where they are few, else values at equal shares of the pool."""
    distinct = np.unique(pool)
    if len(distinct) <= _GRID:
        return distinct
    return np.unique(pool[np.linspace(0, len(pool) - 1, _GRID).astype(np.int64)])


def _curve(labels: Labels, pool: F64, shape: Shape, seed: int) -> tuple[Cut, ...]:
    grid = _grid(pool)
    start = np.searchsorted(pool, grid)
    num = np.diff(np.append(start, len(pool))).astype(np.float64)
    centre = np.add.reduceat(pool, start) / num
    weight = labels.weights()
    fitted = _figures(_fit(labels.scores, labels.keep, weight, shape), centre, num)
    drawn = []
    rows_of = [np.flatnonzero(np.array(labels.stratum, object) == name) for name in sorted(set(labels.stratum))]
    dice = np.random.default_rng(seed)
    for _ in range(_RESAMPLES):
        rows = np.concatenate([dice.choice(rows, len(rows)) for rows in rows_of])
        drawn.append(_figures(_fit(labels.scores[rows], labels.keep[rows], weight[rows], shape), centre, num))
    low, high = np.quantile(np.array(drawn), [0.025, 0.975], axis=0)
    rate = np.cumsum(num[::-1])[::-1] / len(pool)
    few_low, few_high = _wilson(fitted[0], _labels_above(labels.scores, weight, grid))
    few_low = np.maximum.accumulate(few_low)  # precision never falls along the thresholds, so a bound holds above too
    few_high = np.minimum.accumulate(few_high[::-1])[::-1]
    columns = (grid, rate, fitted[0], np.minimum(low[0], few_low), np.maximum(high[0], few_high), fitted[1], low[1], high[1])
    return tuple(Cut(*map(float, row)) for row in zip(*columns, strict=True))


def _labels_above(scores: F64, weight: F64, grid: F64) -> F64:
    """How many labels of equal weight those at or above each threshold are worth: (sum of weights)² / sum of squares."""
    above = scores[None, :] >= grid[:, None]
    squares = above @ weight**2
    worth: F64 = np.divide((above @ weight) ** 2, squares, out=np.zeros(len(grid)), where=squares > 0)
    return worth


def _wilson(share: F64, number: F64) -> tuple[F64, F64]:
    """Wilson's interval (1927) of a share seen in `number` cases; 0 to 1 where there are none."""
    z = 1.959963984540054
    total = number + z * z
    middle = (number * share + z * z / 2) / total
    half = z * np.sqrt(number * share * (1 - share) + z * z / 4) / total
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


def _fit(scores: F64, keep: F64, weight: F64, shape: Shape) -> Isotonic | Logistic:
    if shape == "isotonic":
        return fit_isotonic(scores, keep, weight)
    curve = fit_logistic(scores, keep, weight)
    if curve.slope >= 0:
        return curve
    share = float(np.clip(weight @ keep / weight.sum(), 1e-6, 1 - 1e-6))  # a curve that falls would promise less for more
    return Logistic(float(np.log(share / (1 - share))), 0.0)


def _figures(chance: Isotonic | Logistic, centre: F64, num: F64) -> F64:
    """(2, thresholds): precision and recall of keeping all from each bin of the pool upwards."""
    good = np.cumsum((chance(centre) * num)[::-1])[::-1]
    return np.array([good / np.cumsum(num[::-1])[::-1], good / max(float(good[0]), 1e-12)])


def _warnings(labels: Labels, cut: Cut | None, separation: float) -> tuple[str, ...]:
    kept, dropped = int(labels.keep.sum()), int((1 - labels.keep).sum())
    said = []
    if kept + dropped < FEW_LABELS or min(kept, dropped) < FEW_OF_A_KIND:
        said.append(
            f"too few labels to trust a threshold: {kept} kept and {dropped} dropped;"
            f" label until there are {FEW_LABELS}, {FEW_OF_A_KIND} of each kind"
        )
    if separation < 0.6:
        said.append(f"the score hardly tells kept from dropped: a pair is ranked right in {separation:.0%}, by chance 50%")
    if cut is not None and cut.precision_high - cut.precision_low > _WIDE:
        said.append(
            f"the precision is known to ±{(cut.precision_high - cut.precision_low) / 2:.2f} only; more labels narrow it"
        )
    missing = sorted(set(labels.pool) - set(labels.stratum))
    if missing:
        share = sum(labels.pool[name] for name in missing) / max(1, sum(labels.pool.values()))
        said.append(f"{len(missing)} strata with {share:.0%} of the documents have no label yet")
    return tuple(said)
