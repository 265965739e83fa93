"""The packings of GPT-NeoX that keep documents whole: lists of documents, a sample each.

    pack_until_overflow    order    3 0 2 1   shuffled, shuffled again after every pass
                           sample   | 3 0 | 2 | 1 3 | ...     the next document that would not fit opens the next sample
    unpacked               sample   | 0 | 1 | 2 | 3 | 0 | ... in the order of the file, one each

Documents are skipped that may not be cut (`allow_chopped` off), or whose labels are all masked as far as a sample sees them.
The framework takes the place of a document in the split for its sequence number, so every split is made of the first sequences
of the file; and it stops at the end of a pass whose last document is to be skipped. Both are kept.

Price: 8 bytes a document read, 24 a sample; about 5 ns a document while they are made, of which the shuffle is most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.order.mersenne import Mersenne, State, shuffle
from typecase.core.order.order import Ints, Lengths
from typecase.errors import BadQuery

Arrays: TypeAlias = tuple[Ints, Ints, Ints]
"""sequences, rows and shuffle of `Tables`."""

_BLOCK = 1024
_SKIPPED = -1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Documents:
    """The documents that are packed: tokens of each, and how many masked labels it begins with, if there are labels.

    The lists hold one array, or two for pairs of a chosen and a rejected text; (documents,) each.
    """

    lengths: list[npt.NDArray[Any]]
    masked: list[npt.NDArray[Any]]

    @classmethod
    def first(
        cls,
        count: int,
        *,
        lengths: Lengths,
        masked_prefix: npt.NDArray[Any] | None,
        rejected_lengths: Lengths | None,
        rejected_masked_prefix: npt.NDArray[Any] | None,
        pairwise: bool,
    ) -> Documents:
        """The first `count` documents of sets of these lengths, checked."""
        sizes = [lengths] if rejected_lengths is None else [lengths, rejected_lengths]
        masked = [prefix for prefix in (masked_prefix, rejected_masked_prefix) if prefix is not None]
        if len(sizes) != 1 + pairwise:
            raise BadQuery(
                "a pairwise order needs the lengths of the rejected texts"
                if pairwise
                else "lengths of rejected texts are for pairwise orders"
            )
        if len(masked) not in (0, len(sizes)):
            raise BadQuery(f"{len(masked)} sets of labels for {len(sizes)} sets of texts: GPT-NeoX takes all or none")
        for array in (*sizes, *masked):
            if len(array) != len(lengths):
                raise BadQuery(f"the sets have {len(lengths)} and {len(array)} documents: labels and pairs must be parallel")
        return cls(lengths=[a[:count] for a in sizes], masked=[a[:count] for a in masked])

    def __len__(self) -> int:
        return len(self.lengths[0])

    def all_masked(self, tokens: int) -> npt.NDArray[np.bool_]:
        """Which documents have no label to learn among their first `tokens`; one without tokens has none."""
        found = np.zeros(len(self), np.bool_)
        for size, prefix in zip(self.lengths, self.masked):
            found |= prefix >= np.minimum(size, tokens)
        return found

    def any_longer(self, tokens: int) -> npt.NDArray[np.bool_]:
        """Which documents have a text of more than `tokens`."""
        found = np.zeros(len(self), np.bool_)
        for size in self.lengths:
            found |= size > tokens
        return found

    def any_shorter(self, tokens: int) -> npt.NDArray[np.bool_]:
        """Which documents have a text of fewer than `tokens`."""
        found = np.zeros(len(self), np.bool_)
        for size in self.lengths:
            found |= size < tokens
        return found


def lay_lists(
    documents: Documents, random: Mersenne, *, seq_length: int, num_samples: int, allow_chopped: bool, unpacked: bool
) -> Arrays:
    """The arrays of `num_samples` samples, at least one."""
    samples = np.arange(num_samples)
    if not unpacked:
        random.shuffle(samples)
        return *_until_overflow(documents, random, seq_length, num_samples, allow_chopped), samples
    if len(documents.lengths) > 1:
        samples %= len(documents)
    random.shuffle(samples)
    return *_one_each(documents, seq_length, num_samples, allow_chopped), samples


def _one_each(documents: Documents, seq_length: int, num_samples: int, allow_chopped: bool) -> tuple[Ints, Ints]:
    if not documents.masked:
        raise BadQuery("packing 'unpacked' asks the label set of every document and there is none: give masked_prefix")
    skipped = documents.all_masked(seq_length)
    if not allow_chopped:
        skipped |= documents.any_longer(seq_length + 1)
    kept = np.flatnonzero(~skipped)
    if not len(kept):
        raise BadQuery(
            f"all {len(skipped)} documents are skipped, too long or with all of {seq_length} labels masked: GPT-NeoX would"
            " search without end; allow chopped documents, or mend the labels"
        )
    rows = np.zeros((num_samples + 1, 2), np.int64)
    rows[:, 0] = np.arange(num_samples + 1)
    return np.resize(kept, num_samples + 1), rows


def _until_overflow(
    documents: Documents, random: Mersenne, seq_length: int, num_samples: int, allow_chopped: bool
) -> tuple[Ints, Ints]:
    order = np.arange(len(documents), dtype=np.int32)
    sequences, rows, stopped = _fill(random.state, order, _sizes(documents, seq_length, allow_chopped), seq_length, num_samples)
    if stopped >= 0:
        raise BadQuery(
            f"document {order[-1]} is to be skipped (by allow_chopped, or because all its labels are masked) and stands last in"
            f" the shuffled order, where an IndexError stops GPT-NeoX after {stopped} of {num_samples} samples: remove such"
            " documents, allow chopped ones, or take another seed"
        )
    return sequences, rows


def _sizes(documents: Documents, seq_length: int, allow_chopped: bool) -> npt.NDArray[np.int32]:
    """The tokens that each document takes of a sample, -1 for those that are skipped."""
    sizes = np.maximum.reduce(documents.lengths) if len(documents.lengths) > 1 else documents.lengths[0]
    if not allow_chopped or documents.masked:
        skipped = documents.all_masked(seq_length + 1)
        if not allow_chopped:
            # The framework asks pairs the other way round, and drops the short ones.
            pairs = len(documents.lengths) > 1
            skipped |= documents.any_shorter(seq_length + 1) if pairs else documents.any_longer(seq_length + 1)
        sizes = np.where(skipped, _SKIPPED, sizes)
    return np.require(sizes, np.int32, ["C", "A"])


@njit(cache=True, nogil=True)
def _fill(
    state: State, order: npt.NDArray[np.int32], sizes: npt.NDArray[np.int32], seq_length: int, num_samples: int
) -> tuple[Ints, Ints, int]:
    """The documents and the rows; and -1, or how many rows there were when the framework stops, with `order` as it was then."""
    documents = np.empty(max(len(order), _BLOCK), np.int64)
    rows = np.zeros((num_samples + 1, 2), np.int64)
    held = np.empty(_BLOCK, np.int64)
    found, taken, run = 0, 0, 0
    places = order.view(np.uint32)
    while True:
        shuffle(state, places)
        for first in range(0, len(order), _BLOCK):
            size = min(_BLOCK, len(order) - first)
            if taken + size > len(documents):
                grown = np.empty(2 * len(documents), np.int64)
                grown[:taken] = documents[:taken]
                documents = grown
            # A block ahead, so that many sizes are on their way from memory at once.
            for i in range(size):
                held[i] = sizes[order[first + i]]
            for i in range(size):
                if found == num_samples:
                    rows[found, 0] = taken
                    return documents[:taken].copy(), rows, -1
                if held[i] < 0:
                    continue
                if run == 0 or run + held[i] > seq_length + 1:
                    rows[found, 0] = taken
                    found += 1
                    run = 0
                run += held[i]
                documents[taken] = order[first + i]
                taken += 1
        if found < num_samples and sizes[order[-1]] < 0:
            return documents[:taken].copy(), rows, found
