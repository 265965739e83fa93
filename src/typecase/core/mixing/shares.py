"""Shares: weights in a stated unit become tokens, epochs and repeats, before anything is made.

                       tokens   documents      weights, unit tokens   budget 120       epochs
    web                   400         100      7                            84          0.21
    books                  20          10      3                            36          1.8    repeated
                                               unit documents: 7 of 10 documents come from web
                                               unit epochs:    web is seen 7 times as often as books is 3 times

Laws: what is taken sums to the budget, to the token; a change of unit is exact, both ways (whole numbers and fractions,
never floats); a group with weight zero gets nothing; a group above its cap of epochs keeps its cap and pours the rest out
to groups with room, or is refused, or is named, as asked.

Errors: FixInput for weights that name no group, that are all zero or negative; for a budget that no group can give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from typecase.core.selection.quota import Label, apportion, spill
from typecase.errors import BadQuery, FixInput

Unit = Literal["tokens", "documents", "epochs"]
Over = Literal["warn", "spill", "refuse"]
UNITS: tuple[Unit, ...] = ("tokens", "documents", "epochs")
OVERS: tuple[Over, ...] = ("warn", "spill", "refuse")
REST = "*"
"""The name of all groups that no other weight covers."""

REPEATS = Fraction(4)
"""Epochs after which a warning is given: repeats up to four are close to fresh data (Muennighoff et al. 2023, 2305.16264)."""


@dataclass(frozen=True, slots=True)
class Group:
    """What there is under one label: `tokens` in `documents`."""

    label: Label
    tokens: int
    documents: int

    @property
    def name(self) -> str:
        return "/".join(self.label)


@dataclass(frozen=True, slots=True)
class Taken:
    """One group of a plan. `share` is of the tokens of the mix; `cap` in epochs, None for none."""

    group: Group
    share: Fraction
    taken: int
    cap: Fraction | None

    @property
    def epochs(self) -> Fraction:
        return Fraction(self.taken, self.group.tokens) if self.group.tokens else Fraction(0)

    @property
    def fresh(self) -> int:
        """Tokens taken for the first time."""
        return min(self.taken, self.group.tokens)

    @property
    def repeated(self) -> int:
        """Tokens taken a second time or later."""
        return self.taken - self.fresh

    @property
    def left(self) -> int:
        """Tokens never taken."""
        return self.group.tokens - self.fresh


@dataclass(frozen=True, slots=True)
class MixPlan:
    """A mix of `budget` tokens. `short` tokens found no group with room; `moved` were poured out by groups at their cap."""

    unit: Unit
    budget: int
    rows: tuple[Taken, ...]
    moved: int
    short: int
    warnings: tuple[str, ...]

    @property
    def taken(self) -> int:
        return sum(row.taken for row in self.rows)

    @property
    def largest(self) -> int | None:
        """The largest budget with these shares that keeps every group within its cap; None where none is capped."""
        limits = [row.cap * row.group.tokens / row.share for row in self.rows if row.cap is not None and row.share]
        return int(min(limits)) if limits else None


def parse_number(text: str) -> Fraction:
    """An exact number >= 0 as people write it: 0.7, 70%, 2/3, 1e-3. Raises BadQuery."""
    text = text.strip()
    try:
        number = Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise BadQuery(f"{text!r} is no number; write 0.7, 70% or 2/3") from None
    if number < 0:
        raise BadQuery(f"a weight is 0 or more, got {text}")
    return number


def parse_weights(given: Sequence[str]) -> dict[Label, Fraction]:
    """{label: number} of "NAME=NUMBER" texts; "*" stands for all other groups. Raises BadQuery."""
    found: dict[Label, Fraction] = {}
    for text in given:
        for piece in (part for part in re.split(r"[,\n]", text) if part.strip()):
            name, sign, number = piece.rpartition("=")
            if not sign or not name.strip():
                raise BadQuery(f"{piece.strip()!r} is no NAME=NUMBER, for example web=0.7")
            label = label_of(name)
            if label in found:
                raise BadQuery(f"{name.strip()!r} has two weights, {found[label]} and {number.strip()}; give one")
            found[label] = parse_number(number)
    return found


def label_of(name: str) -> Label:
    """The label that a name spells: "web/law" is ("web", "law"), "*" is ()."""
    return () if name.strip() == REST else tuple(name.strip().split("/"))


def spread(weights: Mapping[Label, Fraction], groups: Sequence[Group], unit: Unit) -> list[Fraction]:
    """The weight of every group in `unit`, in their order.

    A key is a group's label or its beginning; a beginning stands for all groups under it that no longer key covers: they
    share its weight in proportion to their tokens (documents), or all get its epochs. Raises FixInput for a key that no
    group begins with.
    """
    members: dict[Label, list[int]] = {key: [] for key in weights}
    for g, group in enumerate(groups):
        for length in range(len(group.label), -1, -1):
            if group.label[:length] in members:
                members[group.label[:length]].append(g)
                break
    found = [Fraction(0)] * len(groups)
    for key, inside in members.items():
        if not inside and weights[key] and key:
            known = ", ".join(group.name for group in groups[:12])
            raise FixInput(f"no group {'/'.join(key)!r} to give the weight {weights[key]} to; there are {known}")
        masses = [1 if unit == "epochs" else getattr(groups[g], unit) for g in inside]
        whole = 1 if unit == "epochs" else sum(masses) or 1
        for g, mass in zip(inside, masses, strict=True):
            found[g] = weights[key] * mass / whole
    return found


def token_weights(weights: Sequence[Fraction], groups: Sequence[Group], unit: Unit) -> list[Fraction]:
    """Relative amounts of tokens (groups,) of weights in `unit`.

    A document of a group counts its mean length, an epoch of it all its tokens; so weights in epochs give tokens as they are.
    A group without documents gives nothing.
    """
    if unit == "tokens":
        return [weight if group.tokens else Fraction(0) for weight, group in zip(weights, groups, strict=True)]
    if unit == "epochs":
        return [weight * group.tokens for weight, group in zip(weights, groups, strict=True)]
    return [
        weight * group.tokens / group.documents if group.documents else Fraction(0)
        for weight, group in zip(weights, groups, strict=True)
    ]


def weights_in(tokens: Sequence[Fraction | int], groups: Sequence[Group], unit: Unit) -> list[Fraction]:
    """What amounts of tokens (groups,) are in `unit`: the tokens, their documents at mean length, or epochs."""
    if unit == "tokens":
        return [Fraction(amount) for amount in tokens]
    pairs = zip(tokens, groups, strict=True)
    if unit == "epochs":
        return [Fraction(amount) / group.tokens if group.tokens else Fraction(0) for amount, group in pairs]
    return [Fraction(amount) * group.documents / group.tokens if group.tokens else Fraction(0) for amount, group in pairs]


def convert(weights: Sequence[Fraction], groups: Sequence[Group], before: Unit, after: Unit) -> list[Fraction]:
    """Weights in unit `before` as shares in unit `after` of the same mix; shares sum to 1 (epochs: of all epochs)."""
    found = weights_in(token_weights(weights, groups, before), groups, after)
    total = sum(found)
    return [weight / total for weight in found] if total else found


def plan_mix(
    groups: Sequence[Group],
    weights: Mapping[Label, Fraction],
    *,
    unit: Unit,
    budget: int | None = None,
    caps: Mapping[Label, Fraction] | None = None,
    over: Over = "warn",
) -> MixPlan:
    """What the weights take of every group for `budget` tokens.

    Without a budget weights in epochs are taken as they stand: 2 is two epochs. `caps` {label or its beginning: epochs}.
    Raises FixInput where nothing can be taken, and, with over="refuse", where a group would be above its cap.
    """
    if len({group.label for group in groups}) < len(groups):
        raise FixInput("two groups have the same name; give each its own, as NAME=PATH")
    amounts = token_weights(spread(weights, groups, unit), groups, unit)
    mass = sum(amounts)
    if not mass:
        raise FixInput("the weights take nothing: every weight is zero, or its group holds no token")
    if budget is None and unit != "epochs":
        raise FixInput(f"weights in {unit} say shares only: give a budget in tokens, or weights in epochs")
    total = int(mass) if budget is None else budget
    if total < 0:
        raise FixInput(f"a budget is 0 tokens or more, got {total}")
    limits = caps_of(caps or {}, groups)
    shares = [amount / mass for amount in amounts]
    asked = apportion(amounts, total)
    taken, moved, short = _within(asked, groups, amounts, limits, over)
    rows = tuple(Taken(*row) for row in zip(groups, shares, taken, limits, strict=True))
    return MixPlan(unit, total, rows, moved, short, tuple(_warnings(rows, asked, short)))


def caps_of(caps: Mapping[Label, Fraction], groups: Sequence[Group]) -> list[Fraction | None]:
    """The cap of every group in epochs: that of the longest key which begins its label. Raises FixInput for an unknown key."""
    for key in caps:
        if key and not any(group.label[: len(key)] == key for group in groups):
            raise FixInput(f"a cap names {'/'.join(key)!r}; there are {', '.join(group.name for group in groups[:12])}")
    found = []
    for group in groups:
        keys = [group.label[:length] for length in range(len(group.label), -1, -1)]
        found.append(next((Fraction(caps[key]) for key in keys if key in caps), None))
    return found


def _within(
    asked: Sequence[int],
    groups: Sequence[Group],
    amounts: Sequence[Fraction],
    caps: Sequence[Fraction | None],
    over: Over,
) -> tuple[list[int], int, int]:
    """(tokens taken, tokens moved, tokens short) under the caps, in the way `over` says."""
    total = sum(asked)
    rooms = [total if cap is None else int(cap * group.tokens) for cap, group in zip(caps, groups, strict=True)]
    above = [g for g, (want, room) in enumerate(zip(asked, rooms, strict=True)) if want > room]
    if not above or over == "warn":
        return list(asked), 0, 0
    if over == "refuse":
        raise FixInput("above the cap of repeats: " + "; ".join(_above(groups[g], asked[g], caps[g]) for g in above))
    poured = spill(asked, rooms, amounts, [group.label for group in groups], ())
    return poured.quotas, sum(poured.moved.values()), poured.short


def _above(group: Group, want: int, cap: Fraction | None) -> str:
    times = f"{want / group.tokens:.3g} times" if group.tokens else "though it is empty"
    return f"{group.name} would be seen {times} ({want:,} of {group.tokens:,} tokens), cap {float(cap or 0):g}"


def _warnings(rows: Sequence[Taken], asked: Sequence[int], short: int) -> list[str]:
    found = []
    for row, want in zip(rows, asked, strict=True):
        cap = row.cap
        if cap is not None and row.taken > cap * row.group.tokens:
            found.append(f"repeats: {_above(row.group, row.taken, cap)}")
        elif row.taken < want:
            found.append(f"capped: {row.group.name} gives {row.taken:,} of the {want:,} tokens that its weight asks for")
        if row.group.tokens and row.share and not row.taken:
            found.append(f"starved: {row.group.name} has a weight, but the budget leaves it no token")
        elif row.group.tokens and not row.share:
            found.append(f"unused: {row.group.name} has no weight; its {row.group.tokens:,} tokens are left")
    if short:
        found.append(f"budget not met: {short:,} tokens short; every group with a weight is at its cap")
    return found
