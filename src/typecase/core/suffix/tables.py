"""Tables: what the search kernels read of every shard, as one small array of addresses.

    shard    TEXT ──> tokens (n,)                 the ids themselves
             RANKS ─> positions (n,) uint32       the suffix array: positions in suffix order
             ENDS ──> words (n/64,) uint64        bit p: token p ends its document
             KEYS ──> keys (n/32,) uint64         the first tokens of every 32nd suffix, packed
    MARKS ─> words (n/64,) uint64        bit r: the suffix at rank r begins with another two tokens than the one before it
             FIRST ─> ranks (distinct + 1,)       where the suffixes that begin with each id begin
             IDS ───> ids (distinct,)             the ids that occur; absent where FIRST is dense

A kernel takes one row of `rows` and an empty array of the text's dtype, the *kind*, which chooses its specialisation. Handing
over six arrays a shard one by one costs a call more than the search it makes; so does a read-only array. The price is that
nothing checks an address: rows are only made here, and the object keeps what they point to alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

TEXT, SIZE, RANKS, ENDS, KEYS, MARKS, FIRST, IDS, NUM_IDS, LOW, HIGH, BITS, PER_KEY, BASE, MODE, NUM_FIELDS = range(16)
SPARSE, DENSE, NO_TABLE = range(3)
STRIDE = 32
"""A key for every so many suffixes: 1/4 byte a token."""

MOST_DENSE = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class Suffixes:
    """The arrays of one shard; `ids` and `first` are None where nearly every token is another."""

    text: npt.NDArray[Any]  # (n,)
    positions: npt.NDArray[np.uint32]  # (n,)
    ends: U64  # (ceil(n / 64),)
    keys: U64  # (ceil(n / STRIDE),)
    marks: U64  # (ceil(n / 64),)
    ids: I64 | None  # (distinct,)
    first: I64 | None  # (distinct + 1,)


class Tables:
    """The rows of all shards, and the arrays behind them. `bases[k]` is the position of the first token of shard k."""

    __slots__ = ("_held", "bases", "kind", "rows", "shards")

    def __init__(self, dtype: np.dtype[Any], shards: Sequence[Suffixes]) -> None:
        self.kind = np.zeros(0, dtype)
        self.shards = tuple(shards)
        self._held: list[object] = []
        sizes = [len(s.text) for s in shards]
        self.bases = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
        self.rows = np.zeros((len(shards), NUM_FIELDS), np.int64)
        for k, shard in enumerate(shards):
            self._fill(self.rows[k], shard, int(self.bases[k]))

    def _fill(self, row: I64, shard: Suffixes, base: int) -> None:
        low, high = int(shard.text[shard.positions[0]]), int(shard.text[shard.positions[-1]])
        bits = digit_bits(low, high)
        row[[SIZE, LOW, HIGH, BITS, PER_KEY, BASE]] = len(shard.text), low, high, bits, 64 // bits, base
        row[TEXT], row[RANKS] = self._address(shard.text), self._address(shard.positions)
        row[ENDS], row[KEYS] = self._address(shard.ends), self._address(shard.keys)
        row[MARKS] = self._address(shard.marks)
        row[MODE] = NO_TABLE
        if shard.ids is None or shard.first is None:
            return
        first, row[MODE], row[NUM_IDS] = shard.first, SPARSE, len(shard.ids)
        if high - low < MOST_DENSE:
            counts = np.zeros(high - low + 2, np.int64)
            counts[shard.ids - low + 1] = np.diff(shard.first)
            first, row[MODE] = np.cumsum(counts), DENSE
        row[FIRST], row[IDS] = self._address(np.ascontiguousarray(first)), self._address(np.ascontiguousarray(shard.ids))

    def _address(self, array: npt.NDArray[Any]) -> int:
        self._held.append(array)
        return int(array.ctypes.data) if array.size else 0


def digit_bits(low: int, high: int) -> int:
    """Bits of one token in a key, when ids lie in [low, high]: as many tokens as fit, 8 at most."""
    return max(8, (high - low).bit_length())


def _as_pointer(typingctx: Any, address: Any) -> Any:
    """An integer as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


_pointer: Any = intrinsic(_as_pointer)


@njit(cache=True, nogil=True)
def text_of(kind: Any, row: Any) -> Any:
    return carray(_pointer(row[TEXT]), row[SIZE], kind.dtype)


@njit(cache=True, nogil=True)
def positions_of(row: Any) -> Any:
    return carray(_pointer(row[RANKS]), row[SIZE], np.uint32)


@njit(cache=True, nogil=True)
def ends_of(row: Any) -> Any:
    return carray(_pointer(row[ENDS]), (row[SIZE] + 63) // 64, np.uint64)


@njit(cache=True, nogil=True)
def keys_of(row: Any) -> Any:
    return carray(_pointer(row[KEYS]), (row[SIZE] + STRIDE - 1) // STRIDE, np.uint64)


@njit(cache=True, nogil=True)
def marks_of(row: Any) -> Any:
    return carray(_pointer(row[MARKS]), (row[SIZE] + 63) // 64, np.uint64)


@njit(cache=True, nogil=True)
def first_of(row: Any) -> Any:
    size = row[HIGH] - row[LOW] + 2 if row[MODE] == DENSE else row[NUM_IDS] + 1
    return carray(_pointer(row[FIRST]), size, np.int64)


@njit(cache=True, nogil=True)
def ids_of(row: Any) -> Any:
    return carray(_pointer(row[IDS]), row[NUM_IDS], np.int64)


@njit(cache=True, nogil=True)
def any_end(ends: Any, start: Any, stop: Any) -> bool:
    """Whether a document ends at one of the tokens [start, stop); both uint64."""
    if stop <= start:
        return False
    six, mask, one = np.uint64(6), np.uint64(63), np.uint64(1)
    first, last = start >> six, (stop - one) >> six
    head = ends[first] >> (start & mask)
    if first == last:
        count = stop - start
        return bool(head != 0 if count == np.uint64(64) else (head & ((one << count) - one)) != 0)
    if head != 0:
        return True
    for word in range(first + one, last):
        if ends[np.uint64(word)] != 0:
            return True
    return bool(ends[last] << (mask - ((stop - one) & mask)) != 0)


@njit(cache=True, nogil=True)
def end_bits(ends: Any, size: int) -> Any:
    """Bits of the tokens that end a document: `ends` int64, exclusive document ends, repeated for empty documents."""
    words = np.zeros((size + 63) // 64, np.uint64)
    for end in ends:
        if end > 0:
            words[(end - 1) >> 6] |= np.uint64(1) << np.uint64((end - 1) & 63)
    return words


@njit(cache=True, nogil=True)
def sample_keys(text: Any, positions: Any, ends: Any, low: int, bits: int, per_key: int) -> Any:
    """The first `per_key` tokens of every STRIDE-th suffix, as digits of `bits` bits; 0 behind the end of its document."""
    keys = np.zeros((len(positions) + STRIDE - 1) // STRIDE, np.uint64)
    for k in range(len(keys)):
        pos = np.uint64(positions[k * STRIDE])
        key, live = np.uint64(0), True
        for i in range(per_key):
            at = pos + np.uint64(i)
            digit = np.uint64(0)
            if live:
                digit = np.uint64(text[at]) - np.uint64(low)
                live = not any_end(ends, at, at + np.uint64(1))
            key = digit if bits == 64 else (key << np.uint64(bits)) | digit
        keys[k] = key
    return keys


@njit(cache=True, nogil=True)
def first_tokens(text: Any, positions: Any, most: int) -> Any:
    """The distinct ids in rising order and where their suffixes begin; empty arrays when there are more than `most`."""
    ids, first = np.empty(most, np.int64), np.empty(most + 1, np.int64)
    size, num, rank = len(positions), 0, 0
    while rank < size:
        if num == most:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        token = text[np.uint64(positions[rank])]
        ids[num], first[num] = token, rank
        num += 1
        step, low = 1, rank + 1
        while low + step <= size and text[np.uint64(positions[low + step - 1])] == token:
            low += step
            step *= 2
        high = min(size, low + step - 1)
        while low < high:
            middle = (low + high) >> 1
            if text[np.uint64(positions[middle])] == token:
                low = middle + 1
            else:
                high = middle
        rank = low
    first[num] = size
    return ids[:num].copy(), first[: num + 1].copy()
