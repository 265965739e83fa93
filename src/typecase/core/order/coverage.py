"""Coverage: what a run has trained on, sequence by sequence: how many tokens, which copies, and where repeating begins.

    index 0    s4 [0, 300)          seen[4] = 300
    index 1    s4 [300, 512) s9 …   seen[4] = 512, seen[9] = …
    index 870  s4 [0, 90)           another copy of s4: 90 tokens are repeated, the first repeat of its group is at 870

A token is repeated when another *copy* of its sequence was read before; the label that two neighbours share is not. Price:
12 bytes a sequence and 10 ns a piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.order.order import Ints, Reads


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Counts over the sequences of one token set and over groups of them (sources, say).

    `groups` (sequences,) gives the group of each sequence. Filled by `add`, in the order of training. `seen` (sequences,)
    tokens read, `copy` (sequences,) the copy read first, -1 for none; `tokens`, `repeated` (groups,) tokens read and those read
    again; `first_index`, `first_step` (groups,) the training index and step of the first repeat, -1 for none.
    """

    groups: npt.NDArray[np.int32]
    seen: Ints
    copy: Ints
    tokens: Ints
    repeated: Ints
    first_index: Ints
    first_step: Ints

    @classmethod
    def empty(cls, groups: npt.NDArray[np.int32], num_groups: int) -> Coverage:
        n = len(groups)
        zeros, nowhere = np.zeros(num_groups, np.int64), np.full(num_groups, -1, np.int64)
        return cls(groups, np.zeros(n, np.int64), np.full(n, -1, np.int64), zeros, zeros.copy(), nowhere, nowhere.copy())

    def add(self, reads: Reads, steps: Ints, visits: Ints, member: int) -> None:
        """Counts the pieces of `reads` that are of token set `member`.

        `steps` (reads,) train them; `visits` (reads,) tell how often each training index was read before: a loader that cycles
        reads the same copy again.
        """
        packing = reads.packing
        owner = np.repeat(np.arange(len(steps)), np.diff(packing.bounds))
        _count(
            owner, reads.members == member, reads.indices, steps, packing.docs, packing.stops - packing.starts,
            reads.copies + visits[owner] * _VISIT, self.groups, self.seen, self.copy, self.tokens, self.repeated,
            self.first_index, self.first_step,
        )  # fmt: skip


_VISIT = 1 << 48
"""Above any number of places in an order, so that each visit makes another copy."""


@njit(cache=True, nogil=True)
def _count(
    owner: Ints,
    own: npt.NDArray[np.bool_],
    indices: Ints,
    steps: Ints,
    docs: Ints,
    sizes: Ints,
    copies: Ints,
    groups: npt.NDArray[np.int32],
    seen: Ints,
    copy: Ints,
    tokens: Ints,
    repeated: Ints,
    first_index: Ints,
    first_step: Ints,
) -> None:
    for k in range(len(docs)):
        if not own[owner[k]]:
            continue
        doc, group = docs[k], groups[docs[k]]
        seen[doc] += sizes[k]
        tokens[group] += sizes[k]
        if copy[doc] < 0:
            copy[doc] = copies[k]
        elif copy[doc] != copies[k]:
            repeated[group] += sizes[k]
            if first_index[group] < 0:
                first_index[group], first_step[group] = indices[owner[k]], steps[owner[k]]
