"""Curve: what a curve over quality does to a mix, before any document is chosen.

    quality of a domain's documents            tokens by rank, 0 the best            copies S(r)        tokens taken
    4.9 4.2 4.2 3.1 …           ->             |##|####|######|####|        x        2 2 1 0   ->       sum over the bins

The curve is QuaDMix's (`core/selection/quadmix.py`), and so is the merged quality. A histogram of ranks holds all that is
needed, so a what-if costs nothing, however many documents there are. Two things are added, since the published search cannot
set the shares of domains: a weight of a domain's own, by which its whole curve is lifted or lowered to meet its share, and a
cap on copies.

Expected tokens over documents are exact when every document is its own bin; a bin counts the mean of S over its ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.selection.quadmix import Curve, expected_copies
from typecase.core.selection.quota import Label
from typecase.errors import FixInput

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_EDGES = (0.0, 2.0, 8.0, 40.0)
"""Where a bin is cut: the curve bends within these many 1/lambda of its depth."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """One domain: bins [edges[i], edges[i + 1]] of rank, best first, and the tokens in each."""

    label: Label
    edges: F64
    tokens: F64

    @property
    def available(self) -> float:
        return float(self.tokens.sum())


@dataclass(frozen=True, slots=True)
class Curved:
    """What a curve takes of one domain: expected `taken` tokens, `share` of the mix, mean `epochs`, `lift` of the curve."""

    label: Label
    available: float
    taken: float
    share: float
    epochs: float
    lift: float


def merged_quality(scores: npt.ArrayLike, tokens: npt.ArrayLike, weights: npt.ArrayLike) -> F64:
    """q = sum_n weights_n * (1 - rank_n), float64 (docs,), of `scores` (docs, criteria) on any scales, higher better."""
    table, mass = np.asarray(scores, np.float64), np.asarray(tokens, np.float64)
    return sum(
        (weight * (1 - rank_of(table[:, n], mass)) for n, weight in enumerate(np.asarray(weights, np.float64))),
        start=np.zeros(len(table)),
    )


def rank_of(quality: F64, tokens: F64) -> F64:
    """Token-weighted percentile rank float64 (docs,), 0 the best: the share of tokens that are better and half the equal."""
    order = np.argsort(-quality, kind="stable")
    _, first = np.unique(-quality[order], return_index=True)
    below = np.concatenate([[0.0], np.cumsum(tokens[order])])
    ends = np.append(first[1:], len(order))
    middles = (below[first] + below[ends]) / 2 / (below[-1] or 1.0)
    ranks = np.empty(len(order))
    ranks[order] = np.repeat(middles, ends - first)
    return ranks


def ranked(label: Label, quality: npt.ArrayLike, tokens: npt.ArrayLike, *, bins: int = 256) -> Ranked:
    """The histogram of a domain: the best documents first, cut into at most `bins` runs of equal tokens; ties stay together."""
    worth, mass = np.asarray(quality, np.float64), np.asarray(tokens, np.float64)
    if len(worth) != len(mass) or not np.isfinite(worth).all() or (mass < 0).any():
        raise FixInput(f"{'/'.join(label)}: quality and tokens are one finite number and one count for each document")
    ranks = rank_of(worth, mass)
    distinct, place = np.unique(ranks, return_inverse=True)
    weight = np.bincount(place.reshape(-1), mass, len(distinct))
    total = weight.sum() or 1.0
    run = np.minimum((distinct * bins).astype(np.int64), bins - 1) if len(distinct) > bins else np.arange(len(distinct))
    _, run = np.unique(run, return_inverse=True)
    held = np.bincount(run.reshape(-1), weight).astype(np.float64)
    return Ranked(label, np.concatenate([[0.0], np.cumsum(held) / total]), held)


def mean_copies(domain: Ranked, curve: Curve, *, cap: float = np.inf, lift: float = 1.0) -> F64:
    """The mean of min(lift * S(r), cap) over every bin, float64 (bins,): Gauss-Legendre between the bends of the curve."""
    bends = [curve.depth - step / max(curve.steepness, 1e-9) for step in _EDGES]
    cuts = np.unique(np.clip(np.concatenate([domain.edges, bends]), 0.0, 1.0))
    left, right = cuts[:-1], cuts[1:]
    points = (left + right)[:, None] / 2 + (right - left)[:, None] / 2 * _NODES
    row = np.array([[curve.steepness, curve.depth, curve.exponent, curve.floor]])
    copies = lift * expected_copies(points.reshape(-1), np.repeat(row, points.size, axis=0), np.inf)
    part = (right - left) / 2 * (np.minimum(copies, cap).reshape(points.shape) @ _WEIGHTS)
    whole = np.concatenate([[0.0], np.cumsum(part)])
    at = np.interp(np.clip(domain.edges, 0.0, 1.0), cuts, whole)
    width = np.diff(domain.edges)
    found: F64 = np.divide(np.diff(at), width, out=np.zeros(len(width)), where=width > 0)
    return found


def expected_tokens(domain: Ranked, curve: Curve, *, cap: float = np.inf, lift: float = 1.0) -> float:
    """Tokens that the curve takes of a domain, in expectation."""
    return float(domain.tokens @ mean_copies(domain, curve, cap=cap, lift=lift))


def lift_for(domain: Ranked, curve: Curve, goal: float, *, cap: float) -> float:
    """The lift under which the domain gives `goal` tokens, by bisection; the largest that matters where it cannot."""
    low, high = 0.0, 1.0
    while expected_tokens(domain, curve, cap=cap, lift=high) < goal and high < 1e9:
        low, high = high, high * 4
    for _ in range(80):
        half = (low + high) / 2
        low, high = (half, high) if expected_tokens(domain, curve, cap=cap, lift=half) < goal else (low, half)
    return high


def curve_mix(
    domains: Sequence[Ranked],
    curves: Mapping[Label, Curve] | Curve,
    *,
    cap: float = 4.0,
    weights: Mapping[Label, float] | None = None,
    budget: float | None = None,
) -> list[Curved]:
    """What the curves take of every domain.

    Without `weights` the shares of domains are what the curves make them. With `weights` (relative tokens by label) every
    curve is lifted to meet its share of `budget` tokens, or of what the curves would take as they are; a domain at its cap
    gives what it has. Raises FixInput for a cap of 0, or weights that leave nothing.
    """
    if not cap > 0:
        raise FixInput(f"a cap on copies is above 0, got {cap}")
    of = {d.label: curves if isinstance(curves, Curve) else curves.get(d.label, Curve()) for d in domains}
    taken = [expected_tokens(d, of[d.label], cap=cap) for d in domains]
    lifts = [1.0] * len(domains)
    if weights is not None:
        mass = [float(weights.get(d.label, 0.0)) if d.available else 0.0 for d in domains]
        if not sum(mass) > 0 or min(mass) < 0:
            raise FixInput("the weights of domains are 0 or more, and one with tokens is above 0")
        whole = sum(taken) if budget is None else budget
        goals = [whole * m / sum(mass) for m in mass]
        lifts = [lift_for(d, of[d.label], goal, cap=cap) if goal else 0.0 for d, goal in zip(domains, goals, strict=True)]
        taken = [expected_tokens(d, of[d.label], cap=cap, lift=up) for d, up in zip(domains, lifts, strict=True)]
    total = sum(taken) or 1.0
    return [
        Curved(d.label, d.available, got, got / total, got / d.available if d.available else 0.0, up)
        for d, got, up in zip(domains, taken, lifts, strict=True)
    ]
