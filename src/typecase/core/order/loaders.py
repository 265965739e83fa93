"""Loaders: which training indices the samplers of the frameworks deal to which rank, and back.

    Sequential   single (Megatron, NeMo, Bridge), full validation    0 1 | 2 3 || 4 5 | 6 7     ranks | micro-batches ||
    Cyclic       a new torch permutation every epoch, sharded by rank or dealt out sample by sample
    Batched      Bridge's batch loader: global batches of a permutation, dealt to the ranks like cards
    Neox         sequential, then round and round what was seen since the last start

A loader answers over a `Leg`, a stretch of steps of one size and one layout. `at` and `where` are inverse. Sequential and NeoX
answer by arithmetic. Permuted loaders draw the permutation of every epoch they are asked about, 10 to 100 ns a sample, and keep
the last two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from typecase.core.order.legs import Leg
from typecase.core.order.randperm import randperm
from typecase.errors import BadQuery

Ints: TypeAlias = npt.NDArray[np.int64]


class Dealt(NamedTuple):
    """Where indices are dealt, as columns: row of the index as asked, micro-batch since the start of the leg, rank, slot."""

    rows: Ints
    turns: Ints
    ranks: Ints
    slots: Ints

    @classmethod
    def joined(cls, parts: list[Dealt]) -> Dealt:
        none = np.zeros(0, np.int64)
        return cls(*(np.concatenate(column) for column in zip(*parts))) if parts else cls(none, none, none, none)

    def within(self, turns: int) -> Dealt:
        """Those in the first `turns` micro-batches of the leg."""
        keep = (self.turns >= 0) & (self.turns < turns)
        return Dealt(*(column[keep] for column in self))


class Loader(Protocol):
    """The sampler of a framework. `cycles`: it never ends, as long as the data set fills one step."""

    @property
    def cycles(self) -> bool: ...

    def check(self, leg: Leg) -> None:
        """Raises BadQuery where the framework's sampler would not start on this leg."""
        ...

    def steps(self, leg: Leg, num_samples: int) -> int | None:
        """How many steps from the start of the leg the data set serves, whatever the length of the leg; None: all."""
        ...

    def at(self, leg: Leg, step: int, num_samples: int) -> Ints:
        """The training indices of `step`, (micro-batches, ranks, slots); negative where there is none."""
        ...

    def where(self, leg: Leg, indices: Ints, num_samples: int, steps: int) -> Dealt:
        """Every place in the first `steps` steps of the leg that reads one of `indices` (rising, each once)."""
        ...


def _grid(leg: Leg) -> tuple[Ints, Ints, Ints]:
    a, r, b = np.ogrid[: leg.micro_batches, : leg.data_parallel_size, : leg.micro_batch_size]
    return a.astype(np.int64), r.astype(np.int64), b.astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """One pass in the order of training indices. Without `drop_last` the last step has gaps, with `pads` NeMo's -1, -2, …"""

    drop_last: bool = True
    pads: bool = False
    cycles: bool = False

    def check(self, leg: Leg) -> None:
        return None

    def steps(self, leg: Leg, num_samples: int) -> int | None:
        left = max(num_samples - leg.consumed, 0)
        return left // leg.size if self.drop_last else -(-left // leg.size)

    def at(self, leg: Leg, step: int, num_samples: int) -> Ints:
        a, r, b = _grid(leg)
        index = leg.consumed + (step - leg.first) * leg.size + a * leg.share + r * leg.micro_batch_size + b
        return np.where(index < num_samples, index, num_samples - 1 - index if self.pads else -1)

    def where(self, leg: Leg, indices: Ints, num_samples: int, steps: int) -> Dealt:
        turn, rest = np.divmod(indices - leg.consumed, leg.share)
        rank, slot = np.divmod(rest, leg.micro_batch_size)
        return Dealt(np.arange(len(indices)), turn, rank, slot).within(steps * leg.micro_batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neox:
    """GPT-NeoX: sequential; past the end round and round the batches seen since the (re)start."""

    cycles: bool = True

    def check(self, leg: Leg) -> None:
        if leg.declared and leg.consumed % leg.share:
            raise BadQuery(
                f"the run resumes at step {leg.first} with {leg.consumed} samples consumed, which are no whole batches of"
                f" {leg.share}: GPT-NeoX counts in those"
            )

    def steps(self, leg: Leg, num_samples: int) -> int | None:
        return None if num_samples >= leg.share else 0

    def _start(self, leg: Leg, num_samples: int) -> tuple[int, int]:
        """The loader's position when the process began, and how many batches a pass from there to the end has."""
        length = num_samples // leg.share
        begun = leg.origin_consumed // leg.share if leg.declared else leg.origin * leg.micro_batches
        return begun % length, length - begun % length

    def at(self, leg: Leg, step: int, num_samples: int) -> Ints:
        a, r, b = _grid(leg)
        start, seen = self._start(leg, num_samples)
        position = start + ((step - leg.origin) * leg.micro_batches + a) % seen
        return position * leg.share + r * leg.micro_batch_size + b

    def where(self, leg: Leg, indices: Ints, num_samples: int, steps: int) -> Dealt:
        start, seen = self._start(leg, num_samples)
        position, rest = np.divmod(indices, leg.share)
        rank, slot = np.divmod(rest, leg.micro_batch_size)
        skipped = (leg.first - leg.origin) * leg.micro_batches
        first = (position - start - skipped) % seen
        inside = (position >= start) & (position < start + seen)
        laps = np.where(inside, np.maximum(-((first - steps * leg.micro_batches) // seen), 0), 0)
        row = np.repeat(np.arange(len(indices)), laps)
        lap = np.arange(len(row)) - np.repeat(np.cumsum(laps) - laps, laps)
        return Dealt(row, first[row] + lap * seen, rank[row], slot[row])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cyclic:
    """Megatron's random sampler. `data_sharding`: every rank shuffles a range of its own, by the same permutation.

    Without it one permutation is dealt out sample by sample: of all whole micro-batches, or in Bridge of all samples. Megatron
    then has a quirk: where more than whole batches fit (`surplus`), the first ranks get one micro-batch more an epoch than the
    others, and from then on start every epoch one micro-batch late, so that they end and begin it with their neighbours.
    """

    data_sharding: bool = True
    bridge: bool = False
    cycles: bool = True

    def check(self, leg: Leg) -> None:
        if leg.origin_consumed % leg.share:
            raise BadQuery(
                f"the run (re)starts at step {leg.origin} with {leg.origin_consumed} samples consumed: the cyclic loader needs"
                f" a multiple of micro_batch_size * data_parallel_size = {leg.micro_batch_size} * {leg.data_parallel_size}"
                f" = {leg.share}"
            )

    def steps(self, leg: Leg, num_samples: int) -> int | None:
        return None if num_samples >= leg.share else 0

    def _pool(self, leg: Leg, num_samples: int) -> int:
        """How many numbers the permutation of an epoch has."""
        if self.data_sharding:
            return num_samples // leg.share * leg.micro_batch_size
        return num_samples if self.bridge else num_samples // leg.micro_batch_size * leg.micro_batch_size

    def _shifted(self, leg: Leg, num_samples: int) -> npt.NDArray[np.bool_]:
        """The ranks (ranks,) that get one micro-batch more in an epoch."""
        ranks = np.arange(leg.data_parallel_size)
        if self.data_sharding or self.bridge:
            return np.zeros(len(ranks), np.bool_)
        last = (num_samples // leg.share + 1) * leg.share - leg.data_parallel_size + ranks
        return last < self._pool(leg, num_samples)

    def at(self, leg: Leg, step: int, num_samples: int) -> Ints:
        a, r, b = _grid(leg)
        length = num_samples // leg.share
        turn = (leg.consumed + (step - leg.first) * leg.size) // leg.share + a
        late = self._shifted(leg, num_samples)[r] & ~_opens(leg, turn, length)
        epoch = (turn - late) // length
        position = (turn - late) % length + late
        spread = (position * leg.micro_batch_size + b) + 0 * r
        place = spread if self.data_sharding else spread * leg.data_parallel_size + r
        index = np.empty(leg.shape, np.int64)
        epoch = np.broadcast_to(epoch, leg.shape)
        for e in np.unique(epoch):
            mine = epoch == e
            index[mine] = _permutation(self._pool(leg, num_samples), int(e))[place[mine]]
        return index + r * self._pool(leg, num_samples) if self.data_sharding else index

    def where(self, leg: Leg, indices: Ints, num_samples: int, steps: int) -> Dealt:
        length, pool = num_samples // leg.share, self._pool(leg, num_samples)
        begin, turns = leg.consumed // leg.share, steps * leg.micro_batches
        dealt = []
        for epoch in range(max(begin // length - 1, 0), (begin + turns - 1) // length + 1):
            rows, ranks, spread = self._places(leg, indices, pool, epoch)
            position, slot = np.divmod(spread, leg.micro_batch_size)
            turn = epoch * length + position
            late = self._shifted(leg, num_samples)[ranks] & ~_opens(leg, turn, length)
            keep = (position >= late) & (position < length + late)
            dealt.append(Dealt(rows[keep], turn[keep] - begin, ranks[keep], slot[keep]).within(turns))
        return Dealt.joined(dealt)

    def _places(self, leg: Leg, indices: Ints, pool: int, epoch: int) -> tuple[Ints, Ints, Ints]:
        """For the indices that an epoch may read: row, rank, and which of the rank's samples of the epoch it is."""
        if self.data_sharding:
            ranks, inner = np.divmod(indices, pool)
            order = np.argsort(inner, kind="stable")
            place, nth = _found(_permutation(pool, epoch), inner[order])
            rows = order[nth]
            mine = ranks[rows] < leg.data_parallel_size
            return rows[mine], ranks[rows[mine]], place[mine]
        place, rows = _found(_permutation(pool, epoch), indices)
        spread, ranks = np.divmod(place, leg.data_parallel_size)
        return rows, ranks, spread


def _opens(leg: Leg, turn: Ints, length: int) -> npt.NDArray[np.bool_]:
    """Whether a rank that runs late reads the first micro-batch of an epoch of `length` at `turn`: it does so only where the
    process starts; with epochs of one micro-batch it reads two at a time and leaves out every other epoch."""
    start = leg.origin_consumed // leg.share
    opens: npt.NDArray[np.bool_] = (turn - start) % 2 == 0 if length == 1 else (turn == start) & (turn % length == 0)
    return opens


@dataclass(frozen=True, slots=True, kw_only=True)
class Batched:
    """Bridge's batch loader: global batches of a permutation of all samples, sample j to rank j mod ranks."""

    seed: int
    shuffle: bool = True
    drop_last: bool = True
    cycles: bool = True

    def check(self, leg: Leg) -> None:
        if leg.origin_consumed % leg.size:
            raise BadQuery(
                f"the run (re)starts at step {leg.origin} with {leg.origin_consumed} samples consumed: the batch loader needs a"
                f" multiple of the global batch size {leg.size}, or it ends up in an epoch without batches"
            )

    def steps(self, leg: Leg, num_samples: int) -> int | None:
        return None if self._length(leg, num_samples) else 0

    def _length(self, leg: Leg, num_samples: int) -> int:
        """Steps of an epoch."""
        return num_samples // leg.size if self.drop_last else -(-num_samples // leg.size)

    def _order(self, num_samples: int, epoch: int) -> Ints:
        return _permutation(num_samples, self.seed + epoch) if self.shuffle else np.arange(num_samples)

    def at(self, leg: Leg, step: int, num_samples: int) -> Ints:
        a, r, b = _grid(leg)
        epoch, nth = divmod(leg.consumed // leg.size + step - leg.first, self._length(leg, num_samples))
        place = nth * leg.size + (a * leg.micro_batch_size + b) * leg.data_parallel_size + r
        order = self._order(num_samples, epoch)
        return np.where(place < num_samples, order[np.minimum(place, num_samples - 1)], -1)

    def where(self, leg: Leg, indices: Ints, num_samples: int, steps: int) -> Dealt:
        length, begin = self._length(leg, num_samples), leg.consumed // leg.size
        dealt = []
        for epoch in range(begin // length, (begin + steps - 1) // length + 1):
            place, rows = _found(self._order(num_samples, epoch), indices)
            nth, card = np.divmod(place, leg.size)
            spread, rank = np.divmod(card, leg.data_parallel_size)
            a, slot = np.divmod(spread, leg.micro_batch_size)
            turn = (epoch * length + nth - begin) * leg.micro_batches + a
            # A dropped last batch would count as the first of the next epoch.
            keep = nth < length
            dealt.append(Dealt(rows[keep], turn[keep], rank[keep], slot[keep]).within(steps * leg.micro_batches))
        return Dealt.joined(dealt)


@lru_cache(maxsize=2)
def _permutation(n: int, seed: int) -> Ints:
    order = randperm(n, seed)
    order.flags.writeable = False
    return order


_CHUNK = 1 << 20


def _found(order: Ints, rising: Ints) -> tuple[Ints, Ints]:
    """Every (place, row) with order[place] == rising[row]."""
    places = np.concatenate([np.zeros(0, np.int64), *_hits(order, rising)])
    values = order[places]
    low, high = np.searchsorted(rising, values, "left"), np.searchsorted(rising, values, "right")
    counts = high - low
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(places, counts), np.repeat(low, counts) + nth


def _hits(order: Ints, rising: Ints) -> Iterator[Ints]:
    if not len(rising):
        return
    for first in range(0, len(order), _CHUNK):
        chunk = order[first : first + _CHUNK]
        yield first + np.flatnonzero(chunk == rising[0] if len(rising) == 1 else np.isin(chunk, rising))
