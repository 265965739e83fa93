"""Floors and caps: quotas that keep their proportions as far as bounds allow, to the last unit.

    budget 100    proportional   web 70  books 20  code 10
    caps web 0.5  floors code 0.2        50        30        20       what web may not take goes to the others by mass

A bound belongs to a stratum or to all strata that begin so; bounds nest. All of them hold, or they are refused with the
names of those that conflict. Shares are read as decimals, floors rounded down and caps up to a unit, so that bounds which
can hold for shares can hold for units.
Price: a few passes over the strata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from typecase.core.selection.quota import Label, Weight, apportion
from typecase.errors import FixInput


@dataclass(frozen=True, slots=True)
class Bounds:
    """Units of the budget: {stratum or its beginning: at least}, {stratum or its beginning: at most}."""

    floors: Mapping[Label, int]
    caps: Mapping[Label, int]

    @classmethod
    def of(cls, floors: Mapping[Label, float], caps: Mapping[Label, float], labels: Sequence[Label], total: int) -> Bounds:
        """Bounds of a budget. Raises FixInput for a key that no stratum begins with, unless there are no strata."""
        for key in sorted({*floors, *caps}):
            if labels and not any(label[: len(key)] == key for label in labels):
                known = ", ".join("/".join(label) for label in labels[:8])
                raise FixInput(f"floors or caps name {_name(key)}, but no stratum begins so; strata begin: {known}")
        least = {key: int(Fraction(repr(share)) * total // 1) for key, share in floors.items()}
        return cls(least, {key: -int(-Fraction(repr(share)) * total // 1) for key, share in caps.items()})

    def __bool__(self) -> bool:
        return bool(self.floors or self.caps)


def bounded(quotas: Sequence[int], weights: Sequence[Weight], labels: Sequence[Label], bounds: Bounds) -> list[int]:
    """Quotas of the same sum within `bounds`; `quotas` themselves where they keep them, or where there is nothing to divide.

    Raises FixInput naming the bounds that cannot hold together.
    """
    total = sum(quotas)
    if not total:
        return list(quotas)
    tree = _tree(labels, bounds)
    _set_limits(tree, total)
    if _kept(tree, quotas):
        return list(quotas)
    given = [0] * len(labels)
    _pour_down(tree, total, weights, given)
    return given


@dataclass(slots=True)
class _Node:
    """All strata that begin with `key`: bounded groups inside it, and strata that no such group holds."""

    key: Label
    floor: int | None
    cap: int | None
    groups: list[_Node] = field(default_factory=list)
    strata: list[int] = field(default_factory=list)
    low: int = 0
    high: int = 0

    def members(self) -> list[int]:
        return [*self.strata, *(s for group in self.groups for s in group.members())]


def _tree(labels: Sequence[Label], bounds: Bounds) -> _Node:
    keys = sorted({*bounds.floors, *bounds.caps, ()}, key=lambda key: (len(key), key))
    nodes = {key: _Node(key, bounds.floors.get(key), bounds.caps.get(key)) for key in keys}
    for key in keys[1:]:
        nodes[_above(key[:-1], nodes)].groups.append(nodes[key])
    for s, label in enumerate(labels):
        nodes[_above(label, nodes)].strata.append(s)
    return nodes[()]


def _above(label: Label, nodes: Mapping[Label, _Node]) -> Label:
    return next(label[:n] for n in range(len(label), -1, -1) if label[:n] in nodes)


def _set_limits(node: _Node, total: int) -> None:
    """The least and the most of every node, from the leaves up."""
    for group in node.groups:
        _set_limits(group, total)
    low, high = sum(g.low for g in node.groups), total if node.strata else sum(g.high for g in node.groups)
    if node.key == () and low > total:
        raise _conflict(f"the floors of {_names(node.groups, 'low')} come to {low:,}", f"the budget is {total:,}")
    if node.key == () and high < total:
        raise _conflict(f"the caps of {_names(node.groups, 'high')} come to {high:,}", f"the budget is {total:,}")
    floor, cap = node.floor or 0, total if node.cap is None else node.cap
    if floor > cap:
        raise _conflict(f"the floor of {_name(node.key)} is {floor:,}", f"its cap is {cap:,}")
    if low > cap:
        raise _conflict(
            f"the floors of {_names(node.groups, 'low')} come to {low:,}", f"{_name(node.key)} has a cap of {cap:,}"
        )
    if high < floor:
        raise _conflict(
            f"the caps of {_names(node.groups, 'high')} come to {high:,}", f"{_name(node.key)} has a floor of {floor:,}"
        )
    node.low, node.high = max(low, floor), min(high, cap)
    if node.key == () and node.high < total:
        raise _conflict(f"the cap of the whole is {node.high:,}", f"the budget is {total:,}")


def _conflict(one: str, other: str) -> FixInput:
    return FixInput(f"floors and caps cannot hold together: {one} units of the budget, but {other}; change one of them")


def _kept(node: _Node, quotas: Sequence[int]) -> bool:
    got = sum(quotas[s] for s in node.members())
    return node.low <= got <= node.high and all(_kept(group, quotas) for group in node.groups)


def _pour_down(node: _Node, total: int, weights: Sequence[Weight], given: list[int]) -> None:
    """Divides the node's total over its groups and strata, and each group's over its own."""
    masses: list[Weight] = [sum((Fraction(weights[s]) for s in g.members()), Fraction(0)) for g in node.groups]
    masses += [weights[s] for s in node.strata]
    lows = [g.low for g in node.groups] + [0] * len(node.strata)
    highs = [g.high for g in node.groups] + [total] * len(node.strata)
    shares = share_within(masses, lows, highs, total)
    for group, share in zip(node.groups, shares, strict=False):
        _pour_down(group, share, weights, given)
    for s, share in zip(node.strata, shares[len(node.groups) :], strict=True):
        given[s] = share


def share_within(weights: Sequence[Weight], lows: Sequence[int], highs: Sequence[int], total: int) -> list[int]:
    """Whole numbers with sum `total`, each in [low, high], otherwise in proportion to the weights.

    Needs sum(lows) <= total <= sum(highs). The side that is violated more is fixed first, round after round, so the
    result is the proportional one clipped at a common level.
    """
    given: list[int | None] = [None] * len(weights)
    while True:
        free = [i for i, got in enumerate(given) if got is None]
        left = total - sum(got for got in given if got is not None)
        inner = [weights[i] for i in free]
        trial = dict(zip(free, apportion(inner if any(inner) else [1] * len(free), left), strict=True))
        over = {i: n - highs[i] for i, n in trial.items() if n > highs[i]}
        under = {i: lows[i] - n for i, n in trial.items() if n < lows[i]}
        if not over and not under:
            return [trial[i] if got is None else got for i, got in enumerate(given)]
        if sum(over.values()) >= sum(under.values()):
            for i in over:
                given[i] = highs[i]
        else:
            for i in under:
                given[i] = lows[i]


def _name(key: Label) -> str:
    return "/".join(key) or "the whole"


def _names(nodes: Sequence[_Node], limit: str) -> str:
    return ", ".join(f"{_name(n.key)} ({getattr(n, limit):,})" for n in nodes if limit == "high" or n.low)
