"""Verify a blend: does it take the samples of each member one after the other, and no more than there are?

    dataset          0 1 0 0 1 …        beside the blend built anew: the first index that another member serves
    sample           0 0 1 2 1 …        per member 0 1 2 …

Its members are verified by `verify`, each over its own lengths. Price: 1 ns an index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.order.blend import BlendTables
from typecase.core.order.order import Ints
from typecase.store.orders.verify import Difference
from typecase.store.orders.walk import CHUNK, first_unlike

_DAMAGE = "the file was changed after the framework wrote it: copy it again, or build the blend again"


def blend_differences(blend: BlendTables, *, rebuilt: BlendTables | None = None) -> tuple[Difference, ...]:
    """What in `blend` does not fit its members, nor the blend `rebuilt`; none if all does.

    Codes: `blend-dtype`, `blend-member`, `blend-sample`, `blend-oversampled`, `blend-order`, `blend-samples`.
    """
    counts, wrong = _counted(blend)
    found = [*_dtypes(blend, rebuilt)]
    if wrong >= 0:
        found.append(_wrong(blend, counts, wrong))
    elif not blend.wraps:
        found += _oversampled(blend, counts)
    if rebuilt is not None:
        found += _beside(blend, rebuilt)
    return tuple(found)


def _counted(blend: BlendTables) -> tuple[Ints, int]:
    """Samples taken of each member before the first index that is wrong, and that index, or -1."""
    counts = np.zeros(len(blend.members), np.int64)
    for first in range(0, len(blend.dataset_index), CHUNK):
        owners, samples = (a[first : first + CHUNK].astype(np.int64) for a in (blend.dataset_index, blend.dataset_sample_index))
        wrong = int(_count(owners, samples, counts))
        if wrong >= 0:
            return counts, first + wrong
    return counts, -1


@njit(cache=True, nogil=True)
def _count(owners: Ints, samples: Ints, counts: Ints) -> int:
    for k in range(len(owners)):
        if not 0 <= owners[k] < len(counts) or samples[k] != counts[owners[k]]:
            return k
        counts[owners[k]] += 1
    return -1


def _wrong(blend: BlendTables, counts: Ints, index: int) -> Difference:
    owner, sample = int(blend.dataset_index[index]), int(blend.dataset_sample_index[index])
    if not 0 <= owner < len(counts):
        sentence = f"index {index} is served by member {owner}, the blend has {len(counts)}"
        return Difference(
            "blend-member", sentence, "the blend is of more members, or changed: give its members, or build it again"
        )
    sentence = f"index {index} takes sample {sample} of member {owner}, its turn is sample {counts[owner]}"
    return Difference("blend-sample", sentence, _DAMAGE)


def _oversampled(blend: BlendTables, counts: Ints) -> Iterator[Difference]:
    for number, (member, taken) in enumerate(zip(blend.members, counts.tolist(), strict=True)):
        if taken > member.num_samples:
            yield Difference(
                "blend-oversampled",
                f"the blend takes {taken} samples of member {number}, which has {member.num_samples}",
                "the member is another order, or Megatron would refuse the blend: ask for more with mid_level_dataset_surplus",
            )


def _dtypes(blend: BlendTables, rebuilt: BlendTables | None) -> Iterator[Difference]:
    owners = ("uint8", "int16") if rebuilt is None else (str(rebuilt.dataset_index.dtype),)
    for name, array, allowed in (("dataset", blend.dataset_index, owners), ("sample", blend.dataset_sample_index, ("int64",))):
        if str(array.dtype) not in allowed:
            sentence = f"the {name} index is {array.dtype}, the framework makes {' or '.join(allowed)}"
            yield Difference("blend-dtype", sentence, "another release or program wrote it; the numbers may still be right")


def _beside(blend: BlendTables, rebuilt: BlendTables) -> Iterator[Difference]:
    pairs: list[tuple[str, npt.NDArray[Any], npt.NDArray[Any]]] = [
        ("member", blend.dataset_index, rebuilt.dataset_index),
        ("sample", blend.dataset_sample_index, rebuilt.dataset_sample_index),
    ]
    for what, mine, theirs in pairs:
        index = first_unlike(mine, theirs)
        if index >= 0:
            sentence = f"index {index} is served by {what} {int(mine[index])}, built anew {int(theirs[index])}"
            yield Difference(
                "blend-order", sentence, "compare the weights, their order and the sizes with the run's configuration"
            )
            break
    if blend.num_samples != rebuilt.num_samples or len(blend.dataset_index) != len(rebuilt.dataset_index):
        sentence = f"the blend has {blend.num_samples} samples, built anew {rebuilt.num_samples}"
        yield Difference(
            "blend-samples", sentence, "another number of samples asked, or another rule for the length of a blend"
        )
