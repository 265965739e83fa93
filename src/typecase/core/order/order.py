"""Order: the law by which a framework turns a token set into samples, and both ways to ask it.

    order = MegatronOrder(sequence_length=2048, random_seed=1234, split="969,30,1", num_samples=1_000_000)
    laid = order.lay(lengths)

    laid.reads([41_250])            training index -> the pieces of its sample: sequence, first token, last token
    laid.sightings([7], [0], [64])  tokens [0, 64) of sequence 7 -> every training index and place that reads them

An `Order` is its parameters, named as the framework's own configuration names them. Laid over the lengths of a token set it
answers questions; `reads` and `sightings` are inverse. *Sequence* is what the `.idx` counts: frameworks split and shuffle by
it, and call it document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from typecase.core.packing import Packing

Ints: TypeAlias = npt.NDArray[np.int64]
Lengths: TypeAlias = npt.NDArray[Any]
"""Tokens of every sequence of a token set, (sequences,) int32; may be a view of the mapped `.idx`."""
Split: TypeAlias = Literal["train", "valid", "test"]


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """What training indices read, one row each.

    `indices` (reads,) were asked; `members` (reads,) say which token set of a blend serves each, 0 without a blend; `samples`
    (reads,) number the sample within it. `packing` holds the pieces; its documents are sequence numbers of the member. `copies`
    (pieces,) is the place of each piece's copy of its sequence in the order of sequences: copies of one sequence differ in it.
    """

    indices: Ints
    members: Ints
    samples: Ints
    packing: Packing
    copies: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Sightings:
    """Where runs of tokens are read, one row a place, by rising training index and then by place in the sample.

    `runs` (places,) is the number of the run that was asked for; tokens [starts, stops) of its sequence stand at tokens
    [at, at + stops - starts) of the sample that training index `indices` reads. `copies` (places,) is the place of that copy
    of the sequence in the order of sequences: copies of one sequence differ in it.
    """

    runs: Ints
    indices: Ints
    samples: Ints
    at: Ints
    starts: Ints
    stops: Ints
    copies: Ints


class Laid(Protocol):
    """An order over a given token set, or over the several of a blend.

    `num_samples` is how many training indices the framework offers (its `len(dataset)`); `sample_tokens` how many tokens a
    sample holds when it is full, the label of the last input included.
    """

    @property
    def num_samples(self) -> int: ...

    @property
    def sample_tokens(self) -> int: ...

    def reads(self, indices: npt.ArrayLike) -> Reads:
        """The samples that training `indices` read. Raises BadQuery for an index that the framework would not serve."""
        ...

    def sightings(self, sequences: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, *, member: int = 0) -> Sightings:
        """Every place among the training indices [0, num_samples) that reads tokens [start, stop) of a sequence, or part."""
        ...


class Order(Protocol):
    """The parameters of an order over one token set."""

    def lay(self, lengths: Lengths) -> Laid:
        """The order over sequences of these lengths. Raises BadQuery where the framework would loop, abort or give nothing."""
        ...


class BlendingOrder(Protocol):
    """The parameters of an order over several token sets."""

    def lay(self, lengths: Sequence[Lengths]) -> Laid:
        """As `Order.lay`, with the lengths of every member."""
        ...
