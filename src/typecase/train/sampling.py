"""Sampling: which rated documents an epoch shows, and how often.

    plain      each document once
    even       rare levels of every criterion and rare domains are shown more often: a document's weight is the mean, over the
               criteria and the domain, of (1 / values seen) / (share of its own value), at most `cap` times the least weight
    dataman    to each source, minority documents are added with replacement: k · min(⌊|high − low| / Q⌋, minority), where high
               is a summary in the upper half of the scale (released code of DataMan, arXiv 2502.19363: Q = 5, k = 4 or 3)

An even epoch has as many rows as there are documents. It is drawn by systematic sampling: a document of weight w, where the
mean weight is 1, is shown ⌊w⌋ or ⌈w⌉ times, and on the mean of epochs w times.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from typecase.core.selection.keys import derive_seed
from typecase.errors import BadQuery
from typecase.lm.rate.seeds import F64, I64, Seeds
from typecase.lm.starter.train import summary_of

Rule = Literal["even", "plain", "dataman"]
RULES: tuple[Rule, ...] = ("even", "plain", "dataman")


def even_weights(values: I64, *, cap: float) -> F64:
    """Weights of mean 1, float64 (docs,), of documents with the values (docs, aspects): one column a criterion or domain.

    Raises BadQuery for a cap below 1.
    """
    if cap < 1:
        raise BadQuery(f"the cap of the weights is 1 or more, got {cap}")
    weights = np.zeros(len(values))
    for column in values.T:
        _, place, count = np.unique(column, return_inverse=True, return_counts=True)
        weights += len(column) / (len(count) * count[place])
    capped: F64 = np.minimum(weights, cap * weights.min())
    capped /= capped.mean()
    return capped


def systematic(weights: F64, *, seed: int) -> I64:
    """As many rows as there are weights (of mean 1), each ⌊w⌋ or ⌈w⌉ times, in a drawn order, int64 (weights,)."""
    dice = np.random.default_rng(seed)
    order = dice.permutation(len(weights))
    ends = np.floor(np.cumsum(weights[order]) + dice.random()).astype(np.int64)
    ends[-1] = len(weights)  # the sum is whole but for rounding
    picked = np.repeat(order, np.diff(ends, prepend=0).clip(min=0))
    return dice.permutation(picked[: len(weights)])


def dataman_rows(summary: F64, sources: npt.ArrayLike, *, middle: float, quotient: int, factor: int, seed: int) -> I64:
    """Every row once, and the added minority rows of each source; see the module docstring."""
    names, high = np.asarray(sources), summary >= middle
    rows = [np.arange(len(summary))]
    for source in np.unique(names):
        own = np.flatnonzero(names == source)
        upper, lower = own[high[own]], own[~high[own]]
        minority = min(upper, lower, key=len)
        more = factor * min(abs(len(upper) - len(lower)) // quotient, len(minority))
        if more:
            rows.append(np.random.default_rng(derive_seed(seed, str(source))).choice(minority, more))
    return np.concatenate(rows).astype(np.int64)


def epoch_rows(seeds: Seeds, rule: Rule, *, epoch: int, seed: int, cap: float, quotient: int, factor: int) -> I64:
    """The documents of one epoch, in the order in which they are shown; a function of the seed and the epoch."""
    dice_seed = derive_seed(seed, f"epoch {epoch}")
    if rule == "even":
        return systematic(even_weights(aspects_of(seeds), cap=cap), seed=dice_seed)
    if rule == "plain":
        return np.random.default_rng(dice_seed).permutation(len(seeds)).astype(np.int64)
    middle = (seeds.rubric.low + seeds.rubric.high) / 2
    rows = dataman_rows(
        summary_of(seeds.scores, seeds.rubric), seeds.sources, middle=middle, quotient=quotient, factor=factor, seed=seed
    )
    return np.random.default_rng(dice_seed).permutation(rows)


def aspects_of(seeds: Seeds) -> I64:
    """The nearest level of each criterion (halves upwards) and the likeliest domain, int64 (docs, criteria + domains?)."""
    levels = nearest_levels(seeds.scores)
    if not seeds.rubric.domains:
        return levels
    return np.column_stack([levels, seeds.votes.argmax(1)]).astype(np.int64)


def nearest_levels(scores: F64) -> I64:
    """Whole levels, halves upwards."""
    levels: I64 = np.floor(scores + 0.5).astype(np.int64)
    return levels
