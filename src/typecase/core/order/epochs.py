"""EpochPlan: from totals alone, how many epochs Megatron walks, how many samples that gives, and whether the last stands apart.

    asked   R * L + e tokens  ->  E epochs of T tokens
    samples |<------- n0: all of the first E - 1 epochs ------->|<- R - n0 asked of the last, of m that it has ->|
            apart if R - n0 < 80 % of m

L is the sequence length, e the extra token of a sample. A `Profile` says what each generation of the framework does in its own
way. Price: a microsecond, whatever the totals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from typecase.core.order.blending import MOST_MEMBERS
from typecase.errors import BadQuery

ProfileName: TypeAlias = Literal["core", "core-0.10", "core-0.4", "legacy", "nemo1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one generation of the framework does otherwise than the current one."""

    bounds: Literal["core", "core-0.4", "neox"] = "core"
    """The rounding of splits, see `splits`."""
    rows: Literal["int32", "int64"] | None = None
    """The type of the rows; None: int32 while it can hold them."""
    has_options: bool = True
    """Whether the extra token and the partial validation sample can be switched."""
    strict: bool = False
    """Whether a last epoch that gives one sample more than an epoch alone is refused."""
    exact: bool = False
    """Whether a partial validation sample is counted in integers; else in float32."""
    old_blend: bool = True
    """Whether members give ceil(R * w * 1.005) samples and the blend is as long as their sum."""
    plain_sum: bool = False
    """Whether the weights of a blend are first added one after the other."""
    needs_weights: bool = True
    most_members: int = MOST_MEMBERS
    member_dtype: str = "int16"


PROFILES: dict[str, Profile] = {
    "core": Profile(old_blend=False, needs_weights=False),
    "core-0.10": Profile(rows="int64", needs_weights=False),
    "core-0.4": Profile(bounds="core-0.4", rows="int32", has_options=False),
    "legacy": Profile(bounds="neox", rows="int32", has_options=False, plain_sum=True, most_members=254, member_dtype="uint8"),
    "nemo1": Profile(
        bounds="neox", rows="int32", strict=True, exact=True, plain_sum=True, most_members=254, member_dtype="uint8"
    ),
}
"""core: Megatron-Core from 0.11, NeMo 2, Megatron-Bridge. core-0.10: 0.8 to 0.10, and with `rows_dtype="int32"` 0.5 to 0.7.
legacy: Megatron-LM from 2020-12 until 2023. nemo1: the nlp collection of NeMo 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """How often the sequences are walked and how many samples that gives."""

    tokens_per_epoch: int
    num_epochs: int
    separate_last_epoch: bool
    samples_before_last_epoch: int
    """Samples of the epochs before a separate last one: the first training indices read these. `num_samples` if none is."""
    num_samples: int


def plan_epochs(
    tokens_per_epoch: int,
    *,
    num_samples: int | None,
    sequence_length: int,
    extra: int,
    partial: bool = False,
    profile: Profile = PROFILES["core"],
) -> EpochPlan:
    """The plan for `num_samples` samples, None for one epoch, from totals alone.

    `extra` is 1 where a sample holds one token more than inputs; with `partial` a cut last sample counts. Raises BadQuery where
    the framework would search without end or stop.
    """
    epochs = _num_epochs(tokens_per_epoch, num_samples, sequence_length, extra)
    total = epochs * tokens_per_epoch - extra
    if partial:
        found = _count_partial(total, sequence_length, exact=profile.exact)
    else:
        found = total // sequence_length if total >= 0 else -(-total // sequence_length)
    if found < 0:
        raise BadQuery("the split holds no token, and the framework cannot build samples of one input from it: choose another")
    if epochs == 1 or num_samples is None:
        return _plan(tokens_per_epoch, 1, None, found)
    before = ((epochs - 1) * tokens_per_epoch - extra) // sequence_length
    an_epoch = (tokens_per_epoch - extra) // sequence_length
    wanted = num_samples - before
    if wanted > an_epoch + (0 if profile.strict else 1):
        raise BadQuery(
            f"the last of {epochs} epochs would have to give {wanted} samples and one epoch alone gives {an_epoch}: this"
            " framework stops there; ask for one sample less"
        )
    separate = wanted < int(0.80 * an_epoch)
    if found < before:
        raise BadQuery(
            f"the framework counts {found} samples in float32 but {before} before the last epoch, and would read rows that do"
            " not exist: keep dropping the last partial validation sequence"
        )
    return _plan(tokens_per_epoch, epochs, before if separate else None, found)


def _plan(tokens_per_epoch: int, epochs: int, before: int | None, found: int) -> EpochPlan:
    return EpochPlan(
        tokens_per_epoch=tokens_per_epoch,
        num_epochs=epochs,
        separate_last_epoch=before is not None,
        samples_before_last_epoch=found if before is None else before,
        num_samples=found,
    )


def _num_epochs(tokens_per_epoch: int, num_samples: int | None, sequence_length: int, extra: int) -> int:
    needed = 0 if num_samples is None else num_samples * sequence_length + extra
    if needed <= tokens_per_epoch:
        return 1
    if tokens_per_epoch == 0:
        raise BadQuery(
            f"the split holds no token and {num_samples} samples are asked of it: the framework would add epochs without end;"
            " give the split more, or ask for one epoch (no number of samples)"
        )
    return -(-needed // tokens_per_epoch)


def _count_partial(total: int, sequence_length: int, *, exact: bool) -> int:
    """Samples of `total` inputs, a cut one included. The framework divides in float32, and is off from some 10^7 tokens on."""
    true = -(-total // sequence_length)
    if exact:
        return true
    # int64 -> float32 in one rounding, as the helper of the framework does it; by way of a double it would be two.
    counted = math.ceil(np.int64(total).astype(np.float32) / np.int64(sequence_length).astype(np.float32))
    if counted > true >= 0:
        raise BadQuery(
            f"with the last partial validation sequence kept, the framework counts {counted} samples in float32 where the"
            f" tokens give {true}: its assertion stops the build, and a build without assertions pads the surplus;"
            " drop the partial sequence, or change the split"
        )
    return counted
