"""QuaDMix: how often a document is seen, by its rank in its domain (Liu et al. 2025, "QuaDMix", equations 1 to 3).

    merged quality   q = sum over criteria n of alpha(n, m) * rank(q_n)       weights of domain m
    rank r           token-weighted, inside the domain, 0 is the best
    copies S(r)      (2 / (1 + exp(-lambda * (omega - r)))) ** eta + epsilon    for r <= omega, else epsilon

    S  2 |*****.
         |      *
       1 |       *                 lambda: how steep    omega: how deep    eta: how flat    epsilon: what the rest gets
         |________*______________
         0      omega         1  r

The whole part of S is taken for sure, the rest by a hash of (seed, document), and S never exceeds the cap on epochs.
Price: two exponentials a document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from typecase.core.selection.keys import U64
from typecase.core.selection.quota import Label
from typecase.errors import FixInput

F64 = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Curve:
    """S(r): steepness lambda > 0, depth omega 0–1, exponent eta >= 0, floor epsilon >= 0."""

    steepness: float = 100.0
    depth: float = 0.5
    exponent: float = 1.0
    floor: float = 0.001

    def __post_init__(self) -> None:
        fit = 0 <= self.steepness <= 1e6 and 0 <= self.depth <= 1 and 0 <= self.exponent <= 10 and 0 <= self.floor <= 1000
        if not fit:
            raise FixInput(
                "quadmix: lambda is 0 to 1e6, omega 0 to 1, eta 0 to 10, epsilon 0 to 1000;"
                f" got {self.steepness}, {self.depth}, {self.exponent}, {self.floor}"
            )


@dataclass(frozen=True, slots=True)
class QuadMix:
    """The curve and the criteria weights of every domain.

    curve     of a stratum that `curves` does not name
    curves    {stratum or its beginning: Curve}
    alphas    {stratum or its beginning: weights, one for each term of the policy's score}; elsewhere the term's own
    """

    curve: Curve = Curve()
    curves: Mapping[str | Label, Curve] | tuple[tuple[Label, Curve], ...] = ()
    alphas: Mapping[str | Label, Sequence[float]] | tuple[tuple[Label, tuple[float, ...]], ...] = ()

    def __post_init__(self) -> None:
        curves = self.curves.items() if isinstance(self.curves, Mapping) else self.curves
        alphas = self.alphas.items() if isinstance(self.alphas, Mapping) else self.alphas
        by_label = sorted(((_label(key), curve) for key, curve in curves), key=lambda row: row[0])
        object.__setattr__(self, "curves", tuple(by_label))
        object.__setattr__(self, "alphas", tuple(sorted((_label(k), tuple(map(float, weights))) for k, weights in alphas)))

    def curves_of(self, labels: Sequence[Label]) -> F64:
        """float64 (strata, 4): lambda, omega, eta, epsilon."""
        curves = {_label(key): curve for key, curve in dict(self.curves).items()}
        found = [_nearest(curves, label) or self.curve for label in labels]
        return np.array([(c.steepness, c.depth, c.exponent, c.floor) for c in found], np.float64).reshape(-1, 4)

    def alphas_of(self, labels: Sequence[Label], own: Sequence[float]) -> F64:
        """float64 (strata, terms). Raises FixInput where a domain has another number of weights than there are terms."""
        alphas = {_label(key): tuple(weights) for key, weights in dict(self.alphas).items()}
        found = [_nearest(alphas, label) or tuple(own) for label in labels]
        for label, weights in zip(labels, found, strict=True):
            if len(weights) != len(own):
                raise FixInput(f"quadmix: {'/'.join(label)!r} has {len(weights)} weights for {len(own)} criteria")
        return np.array(found, np.float64).reshape(-1, len(own))


def expected_copies(rank: F64, curves: F64, most: float) -> F64:
    """S(r), at most `most`, float64 (docs,), of rank (docs,), 0 the best, under curves (docs, 4)."""
    steepness, depth, exponent, floor = curves.T
    inside = rank <= depth
    bump = (2.0 / (1.0 + np.exp(-steepness * np.where(inside, depth - rank, 0.0)))) ** exponent
    copies: F64 = np.minimum(np.where(inside, bump, 0.0) + floor, most)
    return copies


def drawn_copies(expected: F64, words: U64) -> NDArray[np.int32]:
    """Whole copies, int32 (docs,): the fraction is decided by `words`, uniform 64-bit hashes of the documents."""
    whole = np.floor(expected)
    chance = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    copies: NDArray[np.int32] = (whole + (chance < expected - whole)).astype(np.int32)
    return copies


def _label(key: str | Label) -> Label:
    return tuple(key.split("/")) if isinstance(key, str) else tuple(key)


def _nearest(table: Mapping[Label, T], label: Label) -> T | None:
    """The entry of the longest beginning of `label`."""
    return next((table[label[:n]] for n in range(len(label), -1, -1) if label[:n] in table), None)
