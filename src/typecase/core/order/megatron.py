"""MegatronOrder and MegatronBlend: the sample order of Megatron-Core, Megatron-LM before Core, NeMo and Megatron-Bridge.

    tokens an epoch, samples asked -> EpochPlan
    sequences   | epochs 1 ... E-1, shuffled together        | epoch E, shuffled |     or all E shuffled together
    rows        | 0 ...                             n0 - 1   | n0 ...      N - 1 |
    shuffle     | 0 ... n0 - 1, shuffled                     | n0 ... N - 1      |     or all N shuffled together

The last epoch stands apart where fewer than 80 % of its samples are asked for. One stream of random numbers feeds the sequences
first and then the samples; every split and every member of a blend starts it anew from the same seed. A blend asks of every
member its share and a little more, and serves them by `blending.choose`.

Price: 4 bytes a sequence and epoch, 12 (or 20) a sample, and a shuffle of each; nothing else is held while they are made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from typecase.core.order.blend import BlendTables
from typecase.core.order.blending import choose, choose_all, normalised
from typecase.core.order.epochs import PROFILES, EpochPlan, Profile, ProfileName, plan_epochs
from typecase.core.order.mersenne import Mersenne
from typecase.core.order.order import Lengths, Split
from typecase.core.order.rows import sample_rows
from typecase.core.order.splits import core_04_bounds, megatron_bounds, neox_bounds, python_sum
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery

_INT32_MAX = (1 << 31) - 1
_SPLITS = ("train", "valid", "test")
_OLD_SURPLUS = 1.005


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameters:
    """What an order and a blend have in common, named as in GPTDatasetConfig. `split` None: the files hold one split each.
    `rows_dtype` overrides the type of the rows that the profile gives."""

    sequence_length: int
    random_seed: int = 1234
    split: str | None = "969,30,1"
    index_split: Split = "train"
    add_extra_token_to_sequence: bool = True
    drop_last_partial_validation_sequence: bool = True
    profile: ProfileName = "core"
    rows_dtype: Literal["int32", "int64"] | None = None

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise BadQuery(f"there is no profile {self.profile!r}: choose one of {', '.join(PROFILES)}")
        if self.index_split not in _SPLITS:
            raise BadQuery(f"there is no split {self.index_split!r}: choose one of {', '.join(_SPLITS)}")
        if self.rows_dtype not in (None, "int32", "int64"):
            raise BadQuery(f"rows are int32 or int64, got {self.rows_dtype!r}")
        if not 1 <= self.sequence_length < _INT32_MAX:
            raise BadQuery(f"the sequence length {self.sequence_length} is outside of 1 to {_INT32_MAX - 1}")
        if not 0 <= self.random_seed < 1 << 32:
            raise BadQuery(f"the random seed {self.random_seed} is outside of 0 to 2^32 - 1")
        switched = not (self.add_extra_token_to_sequence and self.drop_last_partial_validation_sequence)
        if switched and not self._profile.has_options:
            raise BadQuery(
                f"profile {self.profile!r} always adds the extra token and drops partial sequences: both options came with"
                " Megatron-Core 0.7"
            )
        if self.split is not None:
            self._bounds_of(self.split, 1)

    @property
    def extra(self) -> int:
        """Tokens of a full sample beyond its inputs."""
        return int(self.add_extra_token_to_sequence)

    @property
    def _keeps_partial(self) -> bool:
        return self.index_split == "valid" and not self.drop_last_partial_validation_sequence

    @property
    def _profile(self) -> Profile:
        return PROFILES[self.profile]

    def _bounds_of(self, split: str, num_sequences: int) -> tuple[tuple[int, int] | None, ...]:
        if self._profile.bounds == "core":
            return megatron_bounds(split, num_sequences)
        rule = core_04_bounds if self._profile.bounds == "core-0.4" else neox_bounds
        borders = rule(split, num_sequences).tolist()
        return tuple((low, high) if 0 <= low < high else None for low, high in pairwise(borders))

    def sequence_range(self, num_sequences: int) -> tuple[int, int]:
        """The sequences [begin, end) of the split. Raises BadQuery where the framework makes no data set of it."""
        if self.split is None:
            return 0, num_sequences
        found = self._bounds_of(self.split, num_sequences)[_SPLITS.index(self.index_split)]
        if found is None:
            raise BadQuery(
                f"split {self.split!r} gives {self.index_split} none of {num_sequences} sequences, and the framework makes no"
                " data set of it: give it a larger part"
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronOrder(_Parameters):
    """The order over one token set, `num_samples` asked of it; None: one epoch."""

    num_samples: int | None = None

    def __post_init__(self) -> None:
        super(MegatronOrder, self).__post_init__()  # slots make a new class, which super() without arguments does not know
        _check_size("num_samples", self.num_samples)

    def plan(self, lengths: Lengths) -> EpochPlan:
        """The epochs over sequences of these lengths."""
        begin, end = self.sequence_range(len(lengths))
        return plan_epochs(
            int(lengths[begin:end].sum(dtype=np.int64)),
            num_samples=self.num_samples,
            sequence_length=self.sequence_length,
            extra=self.extra,
            partial=self._keeps_partial,
            profile=self._profile,
        )

    def lay(self, lengths: Lengths) -> Tables:
        """As `Order.lay`."""
        tables = self.lay_member(lengths)
        if self.num_samples is not None and 0 < tables.num_samples < self.num_samples and not self._profile.old_blend:
            raise BadQuery(
                f"the framework counts {tables.num_samples} samples in float32 where {self.num_samples} are asked, and its"
                " builder stops: drop the partial validation sequence, or ask for fewer"
            )
        return tables

    def lay_member(self, lengths: Lengths) -> Tables:
        """As `lay`, for a member of a blend, of which the framework does not check that it holds what was asked."""
        plan = self.plan(lengths)
        begin, end = self.sequence_range(len(lengths))
        rows_dtype = self._rows_dtype((end - begin) * plan.num_epochs, lengths)
        random = Mersenne(self.random_seed)
        sequences = _shuffled_epochs(random, begin, end, plan)
        rows = sample_rows(
            sequences,
            lengths,
            seq_length=self.sequence_length,
            extra=self.extra,
            num_samples=plan.num_samples,
            partial=self._keeps_partial,
            dtype=rows_dtype,
        )
        return Tables(
            sequences=sequences,
            rows=rows,
            shuffle=_shuffled_samples(random, plan),
            lengths=lengths,
            seq_length=self.sequence_length,
            extra=self.extra,
            num_samples=plan.num_samples,
        )

    def _rows_dtype(self, places: int, lengths: Lengths) -> str:
        dtype = self.rows_dtype or self._profile.rows or rows_dtype(places, int(lengths.max()) if len(lengths) else 0)
        if dtype == "int32" and places > _INT32_MAX:
            raise BadQuery(
                f"the order walks {places} sequences, and rows of int32, as {self.profile!r} makes them, cannot count so many:"
                " ask for fewer epochs"
            )
        return dtype


def rows_dtype(places: int, longest: int) -> str:
    """The type of rows over `places` sequences, the longest of the file of `longest` tokens."""
    return "int32" if max(places, longest) <= _INT32_MAX else "int64"


def _shuffled_epochs(random: Mersenne, begin: int, end: int, plan: EpochPlan) -> npt.NDArray[np.int32]:
    epochs = np.empty((plan.num_epochs, end - begin), np.int32)
    epochs[:] = np.arange(begin, end, dtype=np.int32)
    together = plan.num_epochs - 1 if plan.separate_last_epoch else plan.num_epochs
    random.shuffle(epochs[:together].reshape(-1))
    if plan.separate_last_epoch:
        random.shuffle(epochs[-1])
    return epochs.reshape(-1)


def _shuffled_samples(random: Mersenne, plan: EpochPlan) -> npt.NDArray[Any]:
    samples = np.arange(plan.num_samples, dtype=np.int64 if plan.num_samples >= (1 << 32) - 2 else np.uint32)
    random.shuffle(samples[: plan.samples_before_last_epoch])
    if plan.separate_last_epoch:
        random.shuffle(samples[plan.samples_before_last_epoch :])
    return samples


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronBlend(_Parameters):
    """The order over several token sets.

    `size` samples are asked of the blend, None for all there are. `weights` are as given, None to take every member as it is.
    `surplus` is `mid_level_dataset_surplus`; `renormalize_blend_weights` was an option of Megatron-Core 0.9 and 0.10.
    """

    weights: tuple[float, ...] | None = None
    size: int | None = None
    surplus: float = 0.005
    renormalize_blend_weights: bool = False

    def __post_init__(self) -> None:
        super(MegatronBlend, self).__post_init__()
        _check_size("size", self.size)
        if self.weights is not None and self.size is None:
            raise BadQuery(
                "a blend with weights needs the number of samples asked of it: give a size, or leave the weights out"
            )
        if self.weights is not None and not all(0 < weight < math.inf for weight in self.weights):
            raise BadQuery(f"the weights of a blend must be finite and above 0, got {', '.join(map(str, self.weights))}")
        if self.weights is None and self._profile.needs_weights:
            raise BadQuery(f"profile {self.profile!r} has no blends without weights: they came with Megatron-Core 0.7")
        if not 0 <= self.surplus < math.inf:
            raise BadQuery(f"mid_level_dataset_surplus must be at least 0, got {self.surplus}")
        if self._profile.old_blend and self.surplus != 0.005:
            raise BadQuery(f"profile {self.profile!r} has a fixed surplus of 0.005: it can be set since Megatron-Core 0.13")
        if self.renormalize_blend_weights and self.profile != "core-0.10":
            raise BadQuery(f"profile {self.profile!r} has no renormalize_blend_weights: Megatron-Core 0.9 and 0.10 had it")

    def lay(self, lengths: Sequence[Lengths]) -> BlendTables | Tables:
        """As `BlendingOrder.lay`; plain Tables where the framework makes no blend: one token set that has no weight or is a
        split of its own."""
        self._check_members(len(lengths))
        if len(lengths) == 1 and (self.weights is None or self.split is None):
            return self.order(self.size).lay(lengths[0])
        asked = self.samples_asked(len(lengths))
        members = tuple(self._member(k, asked[k], lengths[k]) for k in range(len(lengths)))
        owners, samples = self._choice(members)
        self._check_supply(members, owners)
        return BlendTables(members, owners.astype(self._profile.member_dtype, copy=False), samples, len(owners))

    def order(self, num_samples: int | None) -> MegatronOrder:
        """The order of a member that is asked for `num_samples`."""
        common = {field.name: getattr(self, field.name) for field in fields(_Parameters)}
        return MegatronOrder(**common, num_samples=num_samples)

    def samples_asked(self, count: int) -> list[int | None]:
        """The samples asked of each of `count` members; None: one epoch."""
        if self.weights is None or self.size is None:
            return [None] * count
        planned = self._planned(self._shares(self.weights), self.size)
        return list(planned) if self._profile.old_blend else [math.ceil(number * (1 + self.surplus)) for number in planned]

    def _planned(self, shares: list[float], size: int) -> list[int]:
        """The samples that the blend is meant to take of each member."""
        if self._profile.old_blend:
            return [math.ceil(size * share * _OLD_SURPLUS) for share in shares]
        return [math.ceil(size * share) for share in shares]

    def _shares(self, weights: tuple[float, ...]) -> list[float]:
        if not self._profile.plain_sum:
            return normalised(weights)
        total = python_sum(weights)
        return [weight / total for weight in weights]

    def _choice(self, members: tuple[Tables, ...]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        if self.weights is not None and self.size is not None:
            shares = self._shares(self.weights)
            planned = self._planned(shares, self.size)
            if self.renormalize_blend_weights:
                shares = [number / sum(planned) for number in planned]
            return choose(normalised(shares), sum(planned))
        sizes = [member.num_samples for member in members]
        if min(sizes) < 1:
            raise BadQuery(
                f"token set {sizes.index(0)} of the blend has tokens for no sample of {self.sequence_length}, and the framework"
                " takes no set of weight 0: leave it out"
            )
        if self.size is None:
            return choose_all(sizes)
        return choose(normalised(sizes), min(self.size, sum(sizes)))

    def _member(self, number: int, asked: int | None, lengths: Lengths) -> Tables:
        try:
            return self.order(asked).lay_member(lengths)
        except BadQuery as err:
            raise BadQuery(f"token set {number} of the blend: {err}") from err

    def _check_members(self, count: int) -> None:
        if not 1 <= count <= self._profile.most_members:
            raise BadQuery(f"a blend of {count} token sets: it takes 1 to {self._profile.most_members}")
        if self.weights is not None and len(self.weights) != count:
            raise BadQuery(f"the blend has {count} token sets and {len(self.weights)} weights: give every set one")

    def _check_supply(self, members: tuple[Tables, ...], owners: npt.NDArray[Any]) -> None:
        if self._profile.old_blend:
            return  # these generations look only when they get there
        for number, taken in enumerate(np.bincount(owners, minlength=len(members)).tolist()):
            if taken > members[number].num_samples:
                raise BadQuery(
                    f"the blend takes {taken} samples of token set {number}, which gives {members[number].num_samples}, and the"
                    f" framework stops: raise mid_level_dataset_surplus, now {self.surplus}, two- or tenfold"
                )


def _check_size(name: str, size: int | None) -> None:
    if size is not None and size < 0:
        raise BadQuery(f"{name} is {size}: ask for none or more, or for None, which takes all there are")
