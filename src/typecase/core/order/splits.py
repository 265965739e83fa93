"""Splits: from "969,30,1" and the number of sequences to the ranges of train, valid and test, as each framework rounds them.

                          n = 49        n = 500         n = 1000
    GPT-NeoX              0 48 49 49    0 485 500 500   0 969 999 1000     each part is rounded, all borders shift together
    Megatron-Core         0 47 49 49    0 484 500 500   0 969 999 1000     each border is rounded

Border k is the first sequence of range k; range k ends before border k + 1. They disagree for 37 % of all sizes, and
one sequence of difference changes the whole order. Price: a microsecond.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import accumulate, pairwise

import numpy as np

from typecase.core.order.order import Ints
from typecase.errors import BadQuery

_PARTS = 3


def neox_bounds(split: str, n: int, *, compensated: bool = False) -> Ints:
    """The four borders (4,) of GPT-NeoX, NeMo 1 and Megatron-LM before Core; range k is empty unless border k + 1 is above k.

    A first part of nearly nothing can make the second border -1: the framework would then count from the end of the file.
    `compensated` is how `sum` adds since Python 3.12; it matters in rare ties.
    """
    values = _neox_values(split)
    total = python_sum(values, compensated=compensated)
    if not 0 < total < math.inf:
        raise BadQuery(f"the split {split!r} sums up to {total}: its parts must have a finite sum above 0, as in '969,30,1'")
    return _rounded_parts([value / total for value in values], n)


def core_04_bounds(split: str, n: int) -> Ints:
    """The four borders (4,) of Megatron-Core 0.4: parsed and normalised as in later releases, rounded as before."""
    return _rounded_parts(_megatron_weights(split), n)


def megatron_bounds(split: str, n: int) -> tuple[tuple[int, int] | None, ...]:
    """The ranges [begin, end) of train, valid and test in Megatron-Core 0.5 and later, None for a part of 0."""
    size = float(_checked(n))
    return tuple(None if part is None else (round(part[0] * size), round(part[1] * size)) for part in megatron_matrix(split))


def megatron_matrix(split: str) -> list[list[float] | None]:
    """The three fractions [begin, end], None for a part of 0, as a cache description shows them: the first begin is the
    integer 0."""
    borders = list(accumulate(_megatron_weights(split), initial=0))
    return [[begin, end] if end > begin else None for begin, end in pairwise(borders)]


def python_sum(values: Iterable[float], *, compensated: bool = False) -> float:
    """The sum as Python's `sum` adds: one after the other, or with the lost digits carried along, as since Python 3.12."""
    total, lost = 0.0, 0.0
    for value in values:
        following = total + value
        if compensated:
            lost += (total - following) + value if abs(total) >= abs(value) else (value - following) + total
        total = following
    return total + lost if lost and math.isfinite(lost) else total


def numpy_weights(values: Iterable[float]) -> list[float]:
    """Each value by the sum of all, added in the order of NumPy."""
    weights = np.array(list(values), np.float64)
    normal: list[float] = (weights / weights.sum()).tolist()
    return normal


def _neox_values(split: str) -> list[float]:
    values = _floats(split, split.split("," if "," in split else "/"))
    return (values + [0.0] * _PARTS)[:_PARTS]


def _megatron_weights(split: str) -> list[float]:
    values = _floats(split, re.findall(r"[.0-9]+", split))
    if len(values) > _PARTS:
        raise BadQuery(
            f"the split {split!r} has {len(values)} numbers for train, valid and test: Megatron-Core reads every run of digits"
            " and dots as a number, and knows no signs or exponents"
        )
    if not 0 < sum(values) < math.inf:
        raise BadQuery(f"the split {split!r} sums up to {sum(values)}: give up to three numbers of finite sum above 0")
    return numpy_weights((values + [0.0] * _PARTS)[:_PARTS])


def _rounded_parts(weights: list[float], n: int) -> Ints:
    size = float(_checked(n))
    borders = np.array([0, *accumulate(round(weight * size) for weight in weights)], np.int64)
    borders[1:] -= borders[-1] - n
    return borders


def _floats(split: str, parts: list[str]) -> list[float]:
    values = []
    for part in parts:
        try:
            values.append(float(part))
        except ValueError as err:
            raise BadQuery(f"the split {split!r} holds {part!r}: give numbers with commas, as in '969,30,1'") from err
    return values


def _checked(n: int) -> int:
    if n < 0:
        raise BadQuery(f"cannot split {n} sequences: give the number of sequences of the token set")
    return n
