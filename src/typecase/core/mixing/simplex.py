"""The mixes that are allowed: sum 1, each share between its floor and its cap; and what a budget can be, token by token.

    0 <= low_k <= w_k <= high_k,  sum w = 1          high_k = min(cap_k, repeats * available_k / budget)

`conflicts` says in words why no mix is allowed. `linear_best` is the exact minimum of a linear cost over them (dearest last),
from which a gap follows that bounds how far any mix is from the best one (Frank and Wolfe 1956). `whole_tokens` rounds a mix
to tokens that sum to the budget and stay within bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from typecase.errors import FixInput

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Tokens that a mix of `budget` tokens may take of every domain: whole numbers (domains,)."""

    names: tuple[str, ...]
    budget: int
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def shares(self) -> tuple[F64, F64]:
        """(low, high) as shares of the budget, float64 (domains,)."""
        return np.array(self.low) / self.budget, np.array(self.high) / self.budget


def bounds_of(
    names: Sequence[str],
    budget: int,
    *,
    available: Mapping[str, int] | None = None,
    repeats: Fraction | float = 4,
    floors: Mapping[str, Fraction | float] | None = None,
    caps: Mapping[str, Fraction | float] | None = None,
) -> Bounds:
    """Bounds from shares and supply, rounded inwards to whole tokens.

    `available` tokens by domain; one that it does not name is unlimited. `floors`, `caps` shares of the mix by domain.
    Raises FixInput for a name that is no domain, and when no mix satisfies them all: the message names what is in conflict.
    """
    floors, caps = dict(floors or {}), dict(caps or {})
    if not 0 < budget < 1 << 62:
        raise FixInput(f"a budget is 1 to 2**62 tokens, got {budget}")
    if not 0 < repeats < math.inf:
        raise FixInput(f"repeats are epochs above 0, got {repeats}")
    for what, table in (("available", available or {}), ("floor", floors), ("cap", caps)):
        unknown = sorted(set(table) - set(names))
        if unknown:
            raise FixInput(f"{what} names {unknown[0]!r}, which is no domain; there are {', '.join(names)}")
    supply = {name: int(Fraction(repeats) * count) for name, count in (available or {}).items()}
    low = [math.ceil(Fraction(floors.get(name, 0)) * budget) for name in names]
    high = [min(budget, int(Fraction(caps.get(name, 1)) * budget), supply.get(name, budget)) for name in names]
    said = conflicts(names, budget, low, high, supply)
    if said:
        raise FixInput("no mix is possible: " + "; ".join(said))
    return Bounds(tuple(names), budget, tuple(low), tuple(high))


def conflicts(
    names: Sequence[str], budget: int, low: Sequence[int], high: Sequence[int], supply: Mapping[str, int]
) -> list[str]:
    """The constraints that exclude each other, a sentence each; empty when there is a mix."""
    found = []
    for name, least, most in zip(names, low, high, strict=True):
        if least > most:
            why = f"{supply[name]:,} tokens with its repeats" if supply.get(name) == most else f"a cap of {most:,} tokens"
            found.append(f"the floor of {name} asks for {least:,} tokens, but there is {why}")
        if least < 0:
            found.append(f"the floor of {name} is negative")
    if found:
        return found
    if sum(low) > budget:
        held = ", ".join(f"{n} {least / budget:.4g}" for n, least in zip(names, low, strict=True) if least)
        found.append(f"the floors sum to {sum(low) / budget:.6g} of the budget, above 1 ({held})")
    if sum(high) < budget:
        held = ", ".join(f"{n} {most:,}" for n, most in zip(names, high, strict=True) if most < budget)
        found.append(
            f"caps and supply give {sum(high):,} of {budget:,} tokens ({held}): lower the budget to {sum(high):,},"
            " allow more repeats, or raise a cap"
        )
    return found


def linear_best(cost: F64, low: F64, high: F64) -> F64:
    """The allowed mix (domains,) of least `cost . w`: floors first, then the cheapest domains to their caps."""
    mix, rest = low.copy(), 1.0 - float(low.sum())
    for k in np.argsort(cost, kind="stable"):
        step = min(rest, float(high[k] - low[k]))
        mix[k] += step
        rest -= step
    return mix


def middle(low: F64, high: F64) -> F64:
    """An allowed mix as far inside the bounds as it is from both ends, in the same proportion for every domain."""
    room = float((high - low).sum())
    return low + (1.0 - float(low.sum())) / room * (high - low) if room > 0 else low.copy()


def nearest_shape(shape: F64, low: F64, high: F64) -> F64:
    """The allowed mix clip(s * shape, low, high): `shape` >= 0 kept in proportion wherever no bound holds (bisection on s)."""
    if not (shape > 0).any():
        return middle(low, high)
    bottom, top = 0.0, 1.0
    filled = np.where(shape > 0, high, low).sum()
    if filled < 1:  # the shape alone cannot fill the mix: the rest goes to the others
        base = np.where(shape > 0, high, low)
        return middle(base, high)
    while np.clip(top * shape, low, high).sum() < 1 and top < 1e300:
        top *= 4
    for _ in range(200):
        half = (bottom + top) / 2
        if np.clip(half * shape, low, high).sum() < 1:
            bottom = half
        else:
            top = half
    return np.clip(top * shape, low, high)


def whole_tokens(mix: F64, bounds: Bounds) -> list[int]:
    """`mix` in tokens that sum to the budget exactly, each within its bounds: rounded down, then by largest remainder."""
    exact = [Fraction(float(share)) * bounds.budget for share in mix]
    edges = list(zip(bounds.low, bounds.high, strict=True))
    given = [min(max(int(x), least), most) for x, (least, most) in zip(exact, edges, strict=True)]
    rest = bounds.budget - sum(given)
    sign = 1 if rest >= 0 else -1
    order = sorted(range(len(given)), key=lambda k: (-sign * (exact[k] - given[k]), k))
    for most in (1, abs(rest)):  # one token each by largest remainder; then, for a mix outside its bounds, wherever room is
        for k in order:
            room = edges[k][1] - given[k] if sign > 0 else given[k] - edges[k][0]
            step = min(abs(rest), most, room)
            given[k] += sign * step
            rest -= sign * step
    return given
