"""Quota: a budget divided over strata, to the last unit.

    weights        5.0  3.0  2.0      budget 7
    exact shares   3.5  2.1  1.4
    rounded down   3    2    1        one unit is left: it goes to the largest remainder
    quotas         4    2    1        sum = budget, always

What a stratum cannot fill is poured out to its siblings: those that share its first label (the source), then its second
(the domain), then all. Arithmetic is on whole numbers and fractions, so no platform rounds another way. Ties go to the
stratum that comes first, so callers give strata sorted by label.

Largest remainder is not monotone: a stratum may lose one unit when the budget grows (the Alabama paradox).
Price: a few microseconds a stratum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from typecase.errors import FixInput

Label = tuple[str, ...]
"""The labels of a stratum, one for each column that defines strata: ("web", "medicine")."""

Weight = int | Fraction

_EXACT = Context(prec=32)


def apportion(weights: Sequence[Weight], total: int) -> list[int]:
    """Whole numbers in proportion to `weights` (>= 0) with sum `total`: largest remainder, the earlier wins a tie.

    All zeros when no weight is positive. A weight of zero gets zero.
    """
    scale = math.lcm(*(weight.denominator for weight in weights))
    whole = [weight.numerator * (scale // weight.denominator) for weight in weights]
    mass = sum(whole)
    if not mass:
        return [0] * len(weights)
    quotas, rests = zip(*(divmod(weight * total, mass) for weight in whole), strict=True)
    given = list(quotas)
    for i in sorted(range(len(rests)), key=lambda i: (-rests[i], i))[: total - sum(given)]:
        given[i] += 1
    return given


def tempered(masses: Sequence[int], alpha: float) -> list[Weight]:
    """masses ** alpha in units of 1e-20: 1 keeps proportions, 0 makes them equal. Decimal, so that every platform agrees."""
    power = Decimal(repr(alpha))
    return [int(_EXACT.power(Decimal(mass), power).scaleb(20, _EXACT)) if mass else 0 for mass in masses]


def quotas_of_table(
    table: Mapping[Label, float], labels: Sequence[Label], masses: Sequence[int], total: int
) -> tuple[list[int], list[Weight]]:
    """Quotas by an explicit table of weights, and the weight of every stratum.

    A key of the table is the full label of a stratum or its beginning; inside a beginning the quota follows `masses`.
    A stratum that no key covers gets nothing. Raises FixInput for a key that no stratum begins with.
    """
    members: dict[Label, list[int]] = {key: [] for key in sorted(table)}
    for stratum, label in enumerate(labels):
        for length in range(len(label), -1, -1):
            if label[:length] in members:
                members[label[:length]].append(stratum)
                break
    keys = [key for key in members if table[key] > 0]
    for key in keys:
        if not members[key]:
            known = ", ".join("/".join(label) for label in labels[:8])
            raise FixInput(f"the quota table names {'/'.join(key)!r}, but no document is there; strata begin: {known}")
    quotas, weights = [0] * len(labels), [Fraction(0)] * len(labels)
    for key, share in zip(keys, apportion([Fraction(table[key]) for key in keys], total), strict=True):
        inner: list[Weight] = [masses[s] for s in members[key]]
        if not any(inner):
            inner = [1] * len(inner)
        for s, mass, quota in zip(members[key], inner, apportion(inner, share), strict=True):
            quotas[s], weights[s] = quota, Fraction(table[key]) * mass / Fraction(sum(inner))
    return quotas, list(weights)


@dataclass(frozen=True, slots=True)
class Spill:
    """`quotas` after the spill, none above its capacity; `moved` units by level; `short` units found no room."""

    quotas: list[int]
    moved: dict[str, int]
    short: int


def spill(
    quotas: Sequence[int],
    capacities: Sequence[int],
    weights: Sequence[Weight],
    labels: Sequence[Label],
    columns: Sequence[str],
    caps: Mapping[Label, int] | None = None,
) -> Spill:
    """Pours what exceeds a stratum's capacity out to siblings with room, by their weights; weight zero takes nothing.

    `columns` names the label's parts and so the levels: first those of the same columns[0], then of the same
    columns[1], …, then "all". `caps` are the most that a stratum, or all strata that begin so, may come to.
    """
    capped = [(cap, [s for s, label in enumerate(labels) if label[: len(key)] == key]) for key, cap in (caps or {}).items()]
    filled = [min(quota, room) for quota, room in zip(quotas, capacities, strict=True)]
    excess = [quota - got for quota, got in zip(quotas, filled, strict=True)]
    moved: dict[str, int] = {}
    for level in range(len(columns) + 1):
        groups: dict[str, list[int]] = defaultdict(list)
        for s, label in enumerate(labels):
            groups[label[level] if level < len(columns) else ""].append(s)
        before = sum(excess)
        for _, members in sorted(groups.items()):
            over = [excess[s] for s in members]
            if any(over):
                left = _pour(sum(over), members, filled, capacities, weights, capped)
                for s, rest in zip(members, apportion(over, left), strict=True):
                    excess[s] = rest
        moved[columns[level] if level < len(columns) else "all"] = before - sum(excess)
    return Spill(filled, moved, sum(excess))


Capped = Sequence[tuple[int, Sequence[int]]]
"""The most that some strata may come to together."""


def _pour(
    amount: int, members: Sequence[int], filled: list[int], room: Sequence[int], weights: Sequence[Weight], capped: Capped
) -> int:
    """Adds up to `amount` to the members with room; returns what is left. A round that leaves some fills a stratum or a cap."""
    while amount:
        left = [cap - sum(filled[s] for s in inside) for cap, inside in capped]
        caps_of: dict[int, list[int]] = defaultdict(list)
        for c, (_, inside) in enumerate(capped):
            for s in inside:
                caps_of[s].append(c)
        takers = [s for s in members if filled[s] < room[s] and weights[s] > 0 and all(left[c] > 0 for c in caps_of.get(s, ()))]
        if not takers:
            break
        for s, share in zip(takers, apportion([weights[s] for s in takers], amount), strict=True):
            taken = min([share, room[s] - filled[s], *(left[c] for c in caps_of.get(s, ()))])
            filled[s] += taken
            amount -= taken
            for c in caps_of.get(s, ()):
                left[c] -= taken
    return amount
