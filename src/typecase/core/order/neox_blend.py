"""NeoxBlend: the order of GPT-NeoX over lists of data paths, a token set each.

    weights 3 : 1, 1000 samples  ->  sets are asked for 754 and 252, half a percent more than their shares
                                 ->  each is an order of its own over its whole file, from the same seed
                                 ->  `blending.choose` deals as many indices as the sets offer in sum

The framework builds it wherever `train_data_paths` stands in the configuration, for a single path too. It keeps no file of it.
Price: that of the orders, and 9 bytes and a nanosecond a set for every index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.order.blend import BlendTables
from typecase.core.order.blending import choose
from typecase.core.order.neox import NeoxOrder, NeoxParameters
from typecase.core.order.order import Lengths
from typecase.core.order.splits import numpy_weights, python_sum
from typecase.errors import BadQuery

_MOST_SETS = 254
_SURPLUS = 1.005


@dataclass(frozen=True, slots=True, kw_only=True)
class NeoxBlend(NeoxParameters):
    """The order over several token sets.

    `weights` None weighs all alike. With `weight_by_num_documents` they are overridden by the numbers of sequences,
    and `weighted_sampler_alpha` below 1 lifts small sets. `num_epochs` (training with `train_epochs`) walks every set so often.
    """

    weights: tuple[float, ...] | None = None
    weight_by_num_documents: bool = False
    weighted_sampler_alpha: float = 1.0

    def __post_init__(self) -> None:
        super(NeoxBlend, self).__post_init__()  # slots make a new class, which super() without arguments does not know
        if self.weights is not None:
            self._check_weights(self.weights)
        if self.num_epochs is not None:
            self._check_epochs()

    def _check_weights(self, weights: tuple[float, ...]) -> None:
        if not all(0 <= weight < math.inf for weight in weights) or not sum(weights) > 0:
            raise BadQuery(f"the weights {weights} of the blend cannot be shares: give numbers from 0 on, not all 0")

    def _check_epochs(self) -> None:
        if self.num_samples is not None:
            raise BadQuery("num_samples and num_epochs are given: GPT-NeoX takes epochs (train_epochs) or iterations")
        if self.weight_by_num_documents or any(weight != 1.0 for weight in self.weights or ()):
            raise BadQuery("with num_epochs (train_epochs) GPT-NeoX takes every set whole: leave out the weights")

    def shares(self, sequences: Sequence[int]) -> list[float]:
        """The shares of sets with these numbers of sequences."""
        if self.weights is not None and len(self.weights) != len(sequences):
            raise BadQuery(f"the blend has {len(self.weights)} weights and {len(sequences)} token sets: give one for each")
        if not 1 <= len(sequences) <= _MOST_SETS:
            raise BadQuery(f"a blend of {len(sequences)} token sets: GPT-NeoX takes 1 to {_MOST_SETS}")
        if self.weight_by_num_documents:
            return self._shares(self._by_num_documents(sequences))
        return self._shares(self.weights or [1.0] * len(sequences))

    def requests(self, shares: Sequence[float]) -> list[int | None]:
        """How many samples each set is asked for; None with `num_epochs`."""
        asked = self.num_samples
        return [None if asked is None else math.ceil(asked * share * _SURPLUS) for share in shares]

    def lay(
        self,
        lengths: Sequence[Lengths],
        *,
        masked_prefix: Sequence[npt.NDArray[Any]] | None = None,
        rejected_lengths: Sequence[Lengths] | None = None,
        rejected_masked_prefix: Sequence[npt.NDArray[Any]] | None = None,
    ) -> BlendTables:
        """As `BlendingOrder.lay`; labels and rejected texts as in `NeoxOrder.lay`, one array a set."""
        shares = self.shares([len(held) for held in lengths])
        members = []
        for i, asked in enumerate(self.requests(shares)):
            order = NeoxOrder(split=None, **(self._common() | {"num_samples": asked}))
            parallel = {
                "masked_prefix": masked_prefix,
                "rejected_lengths": rejected_lengths,
                "rejected_masked_prefix": rejected_masked_prefix,
            }
            members.append(order.lay(lengths[i], **{name: sets[i] for name, sets in parallel.items() if sets is not None}))
        size = sum(member.num_samples for member in members)
        owners, samples = choose(numpy_weights(shares), size)
        return BlendTables(tuple(members), owners.astype(np.uint8), samples, size, wraps=not self.exposes_last_sample)

    def _common(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(NeoxParameters)}

    def _shares(self, values: Sequence[float]) -> list[float]:
        total = python_sum(values, compensated=self.compensated_sum)
        if not total > 0:
            raise BadQuery(f"the weights {list(values)} of the blend add up to {total}, and GPT-NeoX stops: give others")
        return [value / total for value in values]

    def _by_num_documents(self, sequences: Sequence[int]) -> list[float]:
        if len(sequences) == 1:
            return [1.0]
        if not sum(sequences):
            raise BadQuery("none of the sets of the blend holds a sequence: give others")
        plain = [count / sum(sequences) for count in sequences]
        lifted = self._shares([part**self.weighted_sampler_alpha for part in plain])
        return self._shares([lift * (1 - part) for lift, part in zip(lifted, plain)])
