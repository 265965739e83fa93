"""Keyed: typecase's own order, a permutation that needs a seed and no tables.

    stream     s0 s1 s2 … sn | s0 s1 s2 … sn | s0 …       the sequences in file order, again and again
    samples    |  0  |  1  |  2  | … | M-1 | …            sample k is tokens [k L, k L + L + extra) of it
    blocks     └──── block 0 ─────────┘└── block 1 …      M = tokens of an epoch // L samples, just within an epoch
    training   index i reads sample  b M + p(i mod M),    b = i // M, p a permutation of [0, M) keyed by (seed, b)

Every block is shuffled by a key of its own, so what an index reads never depends on how long the run is: a run that is
extended keeps its prefix, and one that resumes needs the seed and the index. Both ways are arithmetic: a read or a sighting
costs the same in a set of a thousand sequences and of a billion. `tables` writes the order down for GPT-NeoX and Megatron.

The permutation is a Feistel network on a rectangle a x b that just holds M: a number is (l, r), and sixteen rounds add a hash
of one half to the other, modulo its side; fewer leave a bias in blocks of a few samples. What lands beyond M, about one in
sqrt(M), is sent through once more, which keeps it a bijection (cycle walking).

Price: about 0.2 µs an index either way; 8 bytes a sequence for the token starts, none if they are given (a `.idx` has them).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.bisect import last_not_above
from typecase.core.order.order import Ints, Lengths, Reads, Sightings
from typecase.core.order.tables import Tables
from typecase.core.packing import Packing
from typecase.errors import BadQuery

_ROUNDS = 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedOrder:
    """The parameters of a keyed order.

    `split` are the bounds [start, stop) of the sequences that are read, None for all of a set. `extra` is 1 where samples bring
    the label of their last input, and then neighbours in the stream share one token.
    """

    seq_length: int
    seed: int = 1234
    split: tuple[int, int] | None = None
    extra: int = 1

    def __post_init__(self) -> None:
        if self.seq_length < 1:
            raise BadQuery(f"seq_length is {self.seq_length}: a sample needs at least one token")
        if not 0 <= self.seed < 2**64:
            raise BadQuery(f"seed is {self.seed}: give one from 0 to 2^64 - 1")
        if self.extra not in (0, 1):
            raise BadQuery(f"extra is {self.extra}: a sample has one token more than inputs, or none")
        if self.split is not None and not 0 <= self.split[0] < self.split[1]:
            raise BadQuery(f"the split {self.split} holds no sequence: give bounds start < stop, from 0")

    def lay(self, lengths: Lengths, *, starts: npt.NDArray[Any] | None = None, num_samples: int | None = None) -> KeyedLaid:
        """The order over sequences of these lengths.

        `starts` (sequences,) are the places of their first tokens in the token file, one sequence behind the other; made from
        the lengths if left out. `num_samples` training indices exist, as many as one wants; one block if left out.
        """
        first, stop = self.split or (0, len(lengths))
        if stop > len(lengths) or first == stop:
            raise BadQuery(f"the split [{first}, {stop}) asks for more than the {len(lengths)} sequences of the set")
        own = lengths[first:stop]
        if starts is None:
            ends = np.cumsum(own, dtype=np.int64)
            firsts: npt.NDArray[Any] = ends - own
        else:
            _check_starts(lengths, starts)
            firsts = starts[first:stop]
        tokens = int(firsts[-1]) + int(own[-1]) - int(firsts[0])
        if tokens < 1:
            raise BadQuery(f"the sequences [{first}, {stop}) hold no token: there is nothing to read")
        block = max(1, tokens // self.seq_length)
        wanted = block if num_samples is None else num_samples
        if wanted < 1 or (wanted + block) * self.seq_length + tokens >= 2**62:
            raise BadQuery(f"num_samples is {wanted}: give at least 1, and so few that their tokens can be counted (2^62)")
        return KeyedLaid(self, lengths, firsts, first, stop - first, tokens, block, wanted)


@dataclass(frozen=True, slots=True, eq=False)
class KeyedLaid:
    """A keyed order over a token set; `firsts` (sequences of the split,) are token starts, an epoch of the split holds
    `epoch_tokens` and a block `block` samples."""

    order: KeyedOrder
    lengths: Lengths = field(repr=False)
    firsts: npt.NDArray[Any] = field(repr=False)
    first_sequence: int
    num_sequences: int
    epoch_tokens: int
    block: int
    num_samples: int

    @property
    def sample_tokens(self) -> int:
        return self.order.seq_length + self.order.extra

    def samples_of(self, indices: npt.ArrayLike) -> Ints:
        """The sample of the stream that each training index reads, same shape."""
        asked = np.asarray(indices, np.int64)
        self._check(asked)
        return permuted(asked, self.block, self.order.seed)

    def indices_of(self, samples: npt.ArrayLike) -> Ints:
        """The training index that reads each sample of the stream, same shape; it may lie beyond `num_samples`."""
        return unpermuted(np.asarray(samples, np.int64), self.block, self.order.seed)

    def _check(self, asked: Ints) -> None:
        if asked.size and not 0 <= asked.min() <= asked.max() < self.num_samples:
            wrong = asked.min() if asked.min() < 0 else asked.max()
            raise BadQuery(f"there is no training index {wrong}: the order was laid for {self.num_samples}; lay it for more")

    def reads(self, indices: npt.ArrayLike) -> Reads:
        asked = np.asarray(indices, np.int64).reshape(-1)
        samples = self.samples_of(asked)
        return Reads(asked, np.zeros(len(asked), np.int64), samples, *self._tiled(samples))

    def packing(self, samples: Ints) -> Packing:
        """The pieces of `samples`, by number."""
        return self._tiled(samples)[0]

    def _tiled(self, samples: Ints) -> tuple[Packing, Ints]:
        """The pieces of `samples`, and the place of each in the endless order of sequences."""
        begin = samples * self.order.seq_length
        end = begin + self.sample_tokens
        first, last = self._places(begin), self._places(end - 1)
        owner, nth = _ranges(last - first + 1)
        place = first[owner] + nth
        copy, inner = np.divmod(place, self.num_sequences)
        at = self._at(copy, inner)
        docs = inner + self.first_sequence
        start = np.maximum(begin[owner] - at, 0)
        stop = np.minimum(end[owner] - at, self.lengths[docs])
        keep = start < stop
        counts = np.bincount(owner[keep], minlength=len(samples))
        packing = Packing(
            docs=docs[keep],
            starts=start[keep],
            stops=stop[keep],
            bounds=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            sample_tokens=np.full(len(samples), self.sample_tokens, np.int64),
        )
        return packing, place[keep]

    def _places(self, tokens: Ints) -> Ints:
        """The place in the endless order of sequences that holds each token of the stream."""
        copy, inner = np.divmod(tokens, self.epoch_tokens)
        return copy * self.num_sequences + last_not_above(self.firsts, inner + int(self.firsts[0]))

    def _at(self, copy: Ints, inner: Ints) -> Ints:
        """The token of the stream where a sequence of the split begins in a copy of the epoch."""
        # The starts may be unsigned, and then numpy would go over to doubles.
        return copy * self.epoch_tokens + np.asarray(self.firsts[inner], np.int64) - int(self.firsts[0])

    def sightings(self, sequences: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, *, member: int = 0) -> Sightings:
        if member != 0:
            raise BadQuery(f"there is no member {member}: the order reads one token set")
        asked, low, high = (np.asarray(a, np.int64).reshape(-1) for a in (sequences, starts, stops))
        inner = asked - self.first_sequence
        run = np.flatnonzero((inner >= 0) & (inner < self.num_sequences))
        run, copy = (a.reshape(-1) for a in np.meshgrid(run, np.arange(self._copies()), indexing="ij"))
        at = self._at(copy, inner[run])
        begin, end = at + np.maximum(low[run], 0), at + np.minimum(high[run], self.lengths[asked[run]])
        length = self.order.seq_length
        first = np.maximum(-((self.sample_tokens - 1 - begin) // length), 0)
        last = (end - 1) // length
        owner, nth = _ranges(np.where(begin < end, np.maximum(last - first + 1, 0), 0))
        sample = first[owner] + nth
        start = np.maximum(begin[owner], sample * length)
        stop = np.minimum(end[owner], sample * length + self.sample_tokens)
        index = self.indices_of(sample)
        keep = np.flatnonzero((start < stop) & (index < self.num_samples))
        keep = keep[np.lexsort((run[owner[keep]], start[keep] - sample[keep] * length, index[keep]))]
        owner, sample, start, stop = owner[keep], sample[keep], start[keep], stop[keep]
        return Sightings(
            runs=run[owner],
            indices=index[keep],
            samples=sample,
            at=start - sample * length,
            starts=start - at[owner],
            stops=stop - at[owner],
            copies=copy[owner] * self.num_sequences + inner[run[owner]],
        )

    def _blocks(self) -> int:
        return -(-self.num_samples // self.block)

    def _copies(self) -> int:
        """How many copies of an epoch the samples of the blocks touch."""
        return -(-(self._blocks() * self.block * self.order.seq_length + self.order.extra) // self.epoch_tokens)

    def tables(self) -> Tables:
        """The order as the three arrays of GPT-NeoX and Megatron, in the types that they keep.

        The arrays hold whole blocks, which may be more than `num_samples`. GPT-NeoX offers one sample less than its arrays
        hold, so lay the order for one more than its run reads.
        """
        samples, copies, own = self._blocks() * self.block, self._copies(), self.num_sequences
        boundary = np.arange(1, samples + 1) * self.order.seq_length
        place = self._places(boundary + self.order.extra - 1)
        copy, inner = np.divmod(place, own)
        offset = boundary - self._at(copy, inner)
        longest = max(copies * own, int(self.lengths.max()))
        rows = np.zeros((samples + 1, 2), np.int32 if longest < 2**31 else np.int64)
        rows[1:, 0], rows[1:, 1] = place, offset
        return Tables(
            sequences=np.tile(np.arange(self.first_sequence, self.first_sequence + own, dtype=np.int32), copies),
            rows=rows,
            shuffle=permuted(np.arange(samples), self.block, self.order.seed).astype(
                np.uint32 if samples < 2**32 - 2 else np.int64
            ),
            lengths=self.lengths,
            seq_length=self.order.seq_length,
            extra=self.order.extra,
            num_samples=self.num_samples,
        )


def permuted(indices: Ints, block: int, seed: int) -> Ints:
    """Every index sent to its place within its block of `block`; indices in [0, 2^62), any shape."""
    return _walked(indices, block, seed, True)


def unpermuted(places: Ints, block: int, seed: int) -> Ints:
    """The inverse of `permuted`."""
    return _walked(places, block, seed, False)


def _walked(numbers: Ints, block: int, seed: int, forward: bool) -> Ints:
    wide = isqrt(block - 1) + 1
    # On odd sides every round is an even permutation, and then so is the whole: half of all shuffles would never come.
    wide += wide % 2
    walked = _walk(numbers.reshape(-1), np.uint64(block), np.uint64(wide), np.uint64(seed), forward)
    return np.asarray(walked, np.int64).reshape(numbers.shape)


def _check_starts(lengths: Lengths, starts: npt.NDArray[Any]) -> None:
    """A spot check, so that laying stays free: bytes given for tokens, or gaps between sequences, show everywhere."""
    if len(starts) != len(lengths):
        raise BadQuery(f"there are {len(starts)} starts for {len(lengths)} sequences: give one each")
    spots = np.unique(np.linspace(0, max(len(starts) - 2, 0), 256).astype(np.int64))[: max(len(starts) - 1, 0)]
    behind = np.asarray(starts[spots], np.int64) + lengths[spots]
    wrong = spots[behind != np.asarray(starts[spots + 1], np.int64)] if len(spots) else spots
    if wrong.size:
        raise BadQuery(
            f"sequence {wrong[0]} starts at token {starts[wrong[0]]} and holds {lengths[wrong[0]]}, but the next one starts at"
            f" {starts[wrong[0] + 1]}: give starts in tokens, of sequences that lie one behind the other, or leave them out"
        )


def _ranges(counts: Ints) -> tuple[Ints, Ints]:
    """For every range of `counts` items: the range each item belongs to, and its number within."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


@njit(cache=True, nogil=True, inline="always")
def _mixed(x: np.uint64) -> np.uint64:
    """The finalizer of SplitMix64: every bit of the input moves every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def _keys(keys: npt.NDArray[np.uint64], seed: np.uint64, block: np.uint64) -> None:
    # The seed is mixed before the block number comes in, so that block b of seed s is not block b - 1 of seed s + 1.
    key = _mixed(_mixed(seed + _GOLDEN) + (block + np.uint64(1)) * _GOLDEN)
    for i in range(_ROUNDS):
        keys[i] = _mixed(key + np.uint64(i + 1) * _GOLDEN)


@njit(cache=True, nogil=True)
def _walk(numbers: Ints, size: np.uint64, wide: np.uint64, seed: np.uint64, forward: bool) -> Ints:
    """Every number through the permutation of its block, on a rectangle of `wide` columns."""
    out = np.empty(len(numbers), np.int64)
    keys = np.empty(_ROUNDS, np.uint64)
    high = (size + wide - np.uint64(1)) // wide
    held = np.uint64(0)
    for i in range(len(numbers)):
        block = np.uint64(numbers[i]) // size
        if i == 0 or block != held:
            _keys(keys, seed, block)
            held = block
        x = np.uint64(numbers[i]) % size
        while True:
            x = _there(x, keys, wide, high) if forward else _back(x, keys, wide, high)
            if x < size:
                break
        out[i] = np.int64(block * size + x)
    return out


@njit(cache=True, nogil=True, inline="always")
def _drawn(half: np.uint64, key: np.uint64, side: np.uint64) -> np.uint64:
    """A number below `side` < 2^32 for one half: the upper half of the hash, scaled down without a division."""
    return ((_mixed(half + key) >> np.uint64(32)) * side) >> np.uint64(32)


@njit(cache=True, nogil=True)
def _there(x: np.uint64, keys: npt.NDArray[np.uint64], wide: np.uint64, high: np.uint64) -> np.uint64:
    left, right = x % wide, x // wide
    for i in range(0, _ROUNDS, 2):
        left += _drawn(right, keys[i], wide)
        left -= wide if left >= wide else np.uint64(0)
        right += _drawn(left, keys[i + 1], high)
        right -= high if right >= high else np.uint64(0)
    return right * wide + left


@njit(cache=True, nogil=True)
def _back(x: np.uint64, keys: npt.NDArray[np.uint64], wide: np.uint64, high: np.uint64) -> np.uint64:
    left, right = x % wide, x // wide
    for i in range(_ROUNDS - 2, -1, -2):
        right += high - _drawn(left, keys[i + 1], high)
        right -= high if right >= high else np.uint64(0)
        left += wide - _drawn(right, keys[i], wide)
        left -= wide if left >= wide else np.uint64(0)
    return right * wide + left
