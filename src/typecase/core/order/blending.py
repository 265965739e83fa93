"""Blending: which token set of a blend serves each training index, and the numbers that decide it.

    weights 5 : 3 : 2
    index    0 1 2 3 4 5 6 7 8 9
    set      0 1 2 0 1 0 2 0 1 0      always the set that is farthest behind its share; the first of equals
    sample   0 0 0 1 1 2 1 3 2 4      counted within the set

One rule of GPT-NeoX, NeMo and Megatron: at index s the greatest w * max(s, 1) - count, first the product and then the
difference, each rounded to a double; a fused operation would change ties. Price: 1 ns an index and set; 10 bytes an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.errors import BadQuery

Choice: TypeAlias = tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]
"""The set of every index of a blend, and the sample within the set."""

MOST_MEMBERS = 32_766


def pairwise_sum(values: Sequence[float] | npt.NDArray[Any]) -> float:
    """The sum in the order of numpy: eight lanes, and halves from 129 values on. Python's own differs in the last bit."""
    return float(np.sum(np.ascontiguousarray(values, np.float64)))


def normalised(values: Sequence[float] | npt.NDArray[Any]) -> list[float]:
    """`values` as shares of their sum, as Megatron makes them. Raises BadQuery for a sum that is not positive."""
    total = pairwise_sum(values)
    if not 0 < total < float("inf"):
        raise BadQuery(f"weights that add up to {total} cannot be shares: give positive numbers")
    shares: list[float] = (np.asarray(values, np.float64) / total).tolist()
    return shares


def choose(weights: npt.ArrayLike, size: int) -> Choice:
    """The first `size` choices by `weights` (sets,), which are used as they are: normalise them before."""
    shares = np.ascontiguousarray(weights, np.float64)
    _check_members(len(shares))
    if size < 0:
        raise BadQuery(f"a blend of {size} samples: ask for none or more")
    return _choose(shares, size)


def choose_all(sizes: npt.ArrayLike) -> Choice:
    """Choices until every set has given all of its `sizes` (sets,) samples; sizes are the weights, spent sets stand aside."""
    counts = np.ascontiguousarray(sizes, np.int64)
    _check_members(len(counts))
    if counts.min() < 1:
        raise BadQuery(f"token set {int(counts.argmin())} of the blend has {counts.min()} samples: leave it out")
    return _choose_all(counts)


def parse_paths(items: Sequence[str]) -> tuple[list[str], list[float] | None]:
    """A list of data paths as Megatron reads it: prefixes, and weights where every other item, from the first, is a number."""
    if not items:
        raise BadQuery("the list of data paths is empty: give prefixes, or weights and prefixes in turn")
    weights = [_number(item) for item in items[::2]] if len(items) % 2 == 0 else [None]
    numbers = [weight for weight in weights if weight is not None]
    if not numbers:
        return [item.strip() for item in items], None
    if len(numbers) < len(weights):
        odd = items[2 * weights.index(None)]
        raise BadQuery(f"{odd!r} stands where a weight is expected, others are numbers: give every prefix a weight, or none")
    return [item.strip() for item in items[1::2]], numbers


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _check_members(count: int) -> None:
    if not 1 <= count <= MOST_MEMBERS:
        raise BadQuery(f"a blend of {count} token sets: it takes 1 to {MOST_MEMBERS}")


@njit(cache=True, nogil=True)
def _choose(weights: npt.NDArray[np.float64], size: int) -> Choice:
    members, samples = np.empty(size, np.int16), np.empty(size, np.int64)
    counts = np.zeros(len(weights), np.float64)
    for s in range(size):
        x = max(np.float64(s), 1.0)
        best, most = 0, weights[0] * x - counts[0]
        for i in range(1, len(weights)):
            behind = weights[i] * x - counts[i]
            if behind > most:
                best, most = i, behind
        members[s] = best
        samples[s] = np.int64(counts[best])
        counts[best] += 1.0
    return members, samples


@njit(cache=True, nogil=True)
def _choose_all(sizes: npt.NDArray[np.int64]) -> Choice:
    total = sizes.sum()
    weights = sizes / np.float64(total)
    members, samples = np.empty(total, np.int16), np.empty(total, np.int64)
    counts = np.zeros(len(sizes), np.float64)
    left = np.arange(len(sizes))
    for s in range(total):
        x = max(np.float64(s), 1.0)
        place, most = 0, -np.inf
        for k in range(len(left)):
            behind = weights[left[k]] * x - counts[left[k]]
            if behind > most:
                place, most = k, behind
        best = left[place]
        members[s] = best
        samples[s] = np.int64(counts[best])
        counts[best] += 1.0
        if counts[best] == sizes[best]:
            left = np.concatenate((left[:place], left[place + 1 :]))
    return members, samples
