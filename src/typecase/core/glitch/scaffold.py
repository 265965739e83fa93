"""Scaffolds: tokens that merging makes only to merge them away, and the tokens that absorb them.

    reportprint -> embedreportprint -> cloneembedreportprint          one family, three of four entries hardly ever seen

Two views. *Containment*: which larger ids hold the token's bytes; the first few are named, all are counted. *The forest* (with
counts): the share of a token's appearances that later merges took, see `merging`.

Price of containment: every substring of every token is looked up once, some 30 a token: 3 s for 256,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NAMED = 5
_LONGEST = 64
"""Longer substrings are not looked up: runs of spaces and rules, whose containment says nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Absorbers:
    """`first` int32 (V, NAMED): the first larger ids that hold the token, -1 beyond; `number` (V,): how many there are."""

    first: npt.NDArray[np.int32]
    number: npt.NDArray[np.int32]


def absorbers(data: Sequence[bytes | None]) -> Absorbers:
    """For every token the larger ids whose bytes contain its own; None is contained in nothing and contains nothing."""
    ids = {token: index for index, token in reversed(list(enumerate(data))) if token}
    first = np.full((len(data), NAMED), -1, np.int32)
    number = [0] * len(data)
    for index, token in enumerate(data):
        if not token:
            continue
        size = len(token)
        held = {
            small
            for width in range(1, min(size, _LONGEST) + 1)
            for start in range(size - width + 1)
            if (small := ids.get(token[start : start + width], index)) < index
        }
        for small in held:
            if number[small] < NAMED:
                first[small, number[small]] = index
            number[small] += 1
    return Absorbers(first, np.array(number, np.int32))


def families(children: npt.NDArray[np.int32], scaffold: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """The family of each token (V,): tokens that merge into one another through scaffolds share the largest id among them.

    A token that is neither a scaffold nor a parent of one is a family of its own.
    """
    family = np.arange(len(children), dtype=np.int32)

    def root(token: int) -> int:
        while family[token] != token:
            family[token] = family[family[token]]
            token = int(family[token])
        return token

    for parent in np.flatnonzero(children[:, 0] >= 0).tolist():
        for child in set(children[parent].tolist()):
            if scaffold[child]:
                a, b = root(parent), root(child)
                family[min(a, b)] = max(a, b)
    return np.array([root(token) for token in range(len(family))], np.int32)
