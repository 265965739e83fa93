"""Cut: in each stratum, the document at which the running amount reaches the quota, without sorting the stratum.

A document's place is a word of 128 bits, its key turned so that better comes first, then its hash:

    place   [ key, 64 bits, falling ][ hash, 64 bits ]      then the id

    pass 1   amounts by the first bits of the place       |12|40|31| 7|      quota 60: the crossing lies in bin 2
    pass 2   amounts by the next bits, inside that bin         |5|9|0|17|    … until few rows are left
    last     those rows are gathered and sorted                  x           the crossing, to the document

Every pass streams over the pools, so the cut is the same in memory and on disk. Memory is strata x bins, never rows.
Price: 20 ns a document and pass; two passes for keys with noise, more where many keys are equal and hashes decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from typecase.core.selection.keys import derive_seed, hash_words, rank_of
from typecase.core.selection.policy import CutMode
from typecase.core.selection.scores import Keyed
from typecase.core.selection.selection import ALL, BELOW_CUT, BY_CUT, KEPT, NOTHING, Cuts

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

BUFFER_ROWS = 1 << 21
"""At most this many rows are gathered and sorted; 64 bytes each."""

_CELLS = 1 << 21
_PLACE_BITS = 128
_TIE_SEED = np.uint64(derive_seed(0, "select tie"))

Source = Callable[[], Iterable[Keyed]]


@dataclass(frozen=True, slots=True)
class Bins:
    """The first pass over the pool: int64 (strata, bins) amounts and documents by the first `bits` of the place."""

    amounts: I64
    documents: I64
    bits: int


def first_bins(source: Source, num_strata: int) -> Bins:
    """Amounts and documents in the running, by stratum and beginning of the place."""
    bits = min(16, max(4, int(math.log2(_CELLS / max(1, num_strata)))))
    none = np.zeros(num_strata, np.uint64)
    return _bins(source, np.ones(num_strata, np.bool_), none, none, 0, bits)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where each stratum is cut; all (strata,). See `Cuts` for the fields."""

    take: U8
    key: F64
    cut_id: U8
    inclusive: NDArray[np.bool_]
    kept: I64
    met: I64


def find_crossings(source: Source, bins: Bins, quota: I64, mode: CutMode, *, buffer_rows: int = BUFFER_ROWS) -> Crossing:
    """The cut of every stratum for its quota; `bins` is the first pass over the same source."""
    amount, documents = bins.amounts.sum(1), bins.documents.sum(1)
    take = np.where(quota <= 0, NOTHING, np.where(amount <= quota, ALL, BY_CUT)).astype(np.uint8)
    cut = take == BY_CUT
    n = len(quota)
    high, low, base, before = np.zeros(n, np.uint64), np.zeros(n, np.uint64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    depth, step = 0, bins
    while True:
        rows = _descend(step, quota, cut, high, low, base, before, depth)
        depth += step.bits
        if rows <= buffer_rows or depth >= _PLACE_BITS:
            break
        step = _bins(source, cut, high, low, depth, min(bins.bits, _PLACE_BITS - depth))
    found = Crossing(
        take,
        np.zeros(n),
        np.zeros((n, 16), np.uint8),
        np.zeros(n, np.bool_),
        np.where(take == ALL, documents, 0),
        np.where(take == ALL, amount, 0),
    )
    if cut.any():
        _resolve(_gather(source, cut, high, low, depth, rows), found, quota, base, before, mode)
    return found


def mark_kept(made: Keyed, cuts: Crossing | Cuts) -> None:
    """Turns the reason of every document that stands at or before the cut of its stratum to KEPT."""
    ids = np.ascontiguousarray(cuts.cut_id).view(">u8").astype(np.uint64).reshape(-1, 2)
    _mark(
        made.hi,
        made.lo,
        made.key,
        made.pool.stratum,
        made.reason,
        cuts.take,
        cuts.key,
        np.ascontiguousarray(ids[:, 0]),
        np.ascontiguousarray(ids[:, 1]),
        cuts.inclusive,
        _TIE_SEED,
    )


def _bins(source: Source, cut: NDArray[np.bool_], high: U64, low: U64, depth: int, bits: int) -> Bins:
    made = Bins(np.zeros((len(cut), 1 << bits), np.int64), np.zeros((len(cut), 1 << bits), np.int64), bits)
    for part in source():
        p = part.pool
        _fill_bins(
            part.hi, part.lo, part.key, p.stratum, p.amount, part.reason, cut, high, low, depth, bits, made.amounts,
            made.documents, _TIE_SEED,
        )  # fmt: skip
    return made


def _descend(step: Bins, quota: I64, cut: NDArray[np.bool_], high: U64, low: U64, base: I64, before: I64, depth: int) -> int:
    """Moves every stratum into its crossing bin; returns the rows in these bins."""
    strata = np.flatnonzero(cut)
    running = base[strata, None] + np.cumsum(step.amounts[strata], axis=1)
    at = np.argmax(running >= quota[strata, None], axis=1)
    rows = step.documents[strata, at]
    base[strata] = running[np.arange(len(strata)), at] - step.amounts[strata, at]
    before[strata] += np.cumsum(step.documents[strata], axis=1)[np.arange(len(strata)), at] - rows
    for s, digit in zip(strata, at, strict=True):
        placed = int(digit) << (_PLACE_BITS - depth - step.bits)
        high[s] |= np.uint64(placed >> 64)
        low[s] |= np.uint64(placed & (1 << 64) - 1)
    return int(rows.sum())


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the crossing bins, sorted by stratum and place; all (rows,)."""

    stratum: NDArray[np.int32]
    key: F64
    amount: I64
    hi: U64
    lo: U64


def _gather(source: Source, cut: NDArray[np.bool_], high: U64, low: U64, depth: int, rows: int) -> _Rows:
    found: list[tuple[NDArray[Any], ...]] = []
    for part in source():
        p = part.pool
        here = _inside(part.hi, part.lo, part.key, p.stratum, part.reason, cut, high, low, depth, _TIE_SEED)
        hi, lo = part.hi[here], part.lo[here]
        found.append((p.stratum[here], part.key[here], p.amount[here], hi, lo, _ties(hi, lo, _TIE_SEED)))
    stratum, key, amount, hi, lo, tie = (np.concatenate(column) for column in zip(*found, strict=True))
    assert len(stratum) == rows, "the pools changed between two passes"
    rank = _ranks(key)
    order = np.lexsort((tie, rank, stratum))
    same = (tie[order[1:]] == tie[order[:-1]]) & (rank[order[1:]] == rank[order[:-1]])
    if same.any():  # equal hashes: next to never, but then the id decides
        order = np.lexsort((lo, hi, tie, rank, stratum))
    return _Rows(stratum[order], key[order], amount[order], hi[order], lo[order])


def _resolve(rows: _Rows, found: Crossing, quota: I64, base: I64, before: I64, mode: CutMode) -> None:
    """Finds the crossing document in the sorted rows of each stratum and writes it into `found`."""
    strata = np.flatnonzero(found.take == BY_CUT)
    starts = np.searchsorted(rows.stratum, strata)
    stops = np.searchsorted(rows.stratum, strata, side="right")
    for s, start, stop in zip(strata, starts, stops, strict=True):
        running = base[s] + np.cumsum(rows.amount[start:stop])
        at = int(np.argmax(running >= quota[s]))
        reached = int(running[at])
        without = reached - int(rows.amount[start + at])
        wanted = int(quota[s])
        inclusive = mode == "over" or reached == wanted or (mode == "nearest" and reached - wanted < wanted - without)
        found.key[s] = rows.key[start + at]
        found.cut_id[s] = np.array([rows.hi[start + at], rows.lo[start + at]]).astype(">u8").view(np.uint8)
        found.inclusive[s] = inclusive
        found.kept[s] = before[s] + at + inclusive
        found.met[s] = reached if inclusive else without


@njit(cache=True, nogil=True, inline="always")
def _starts_with(a: np.uint64, b: np.uint64, high: np.uint64, low: np.uint64, depth: int) -> bool:
    """Whether the first `depth` bits of the place (a, b) are those of (high, low)."""
    if depth == 0:
        return True
    if depth <= 64:
        return bool((a ^ high) >> np.uint64(64 - depth) == np.uint64(0))
    return bool(a == high and (depth == 64 or (b ^ low) >> np.uint64(128 - depth) == np.uint64(0)))


@njit(cache=True, nogil=True, inline="always")
def _digit(a: np.uint64, b: np.uint64, depth: int, bits: int) -> np.int64:
    """Bits [depth, depth + bits) of the place (a, b)."""
    mask = np.uint64((1 << bits) - 1)
    stop = depth + bits
    if stop <= 64:
        return np.int64((a >> np.uint64(64 - stop)) & mask)
    tail = b >> np.uint64(128 - stop)
    if depth >= 64:
        return np.int64(tail & mask)
    return np.int64(((a << np.uint64(stop - 64)) | tail) & mask)


@njit(cache=True, nogil=True)
def _fill_bins(
    hi: U64,
    lo: U64,
    key: F64,
    stratum: NDArray[np.int32],
    amount: I64,
    reason: U8,
    cut: NDArray[np.bool_],
    high: U64,
    low: U64,
    depth: int,
    bits: int,
    amounts: I64,
    documents: I64,
    tie_seed: np.uint64,
) -> None:
    b = np.uint64(0)
    for i in range(hi.size):
        s = stratum[i]
        if reason[i] != BELOW_CUT or not cut[s]:
            continue
        a = rank_of(key[i])
        if depth + bits > 64:
            b = hash_words(hi[i], lo[i], tie_seed)
        if _starts_with(a, b, high[s], low[s], depth):
            digit = _digit(a, b, depth, bits)
            amounts[s, digit] += amount[i]
            documents[s, digit] += 1


@njit(cache=True, nogil=True)
def _inside(
    hi: U64,
    lo: U64,
    key: F64,
    stratum: NDArray[np.int32],
    reason: U8,
    cut: NDArray[np.bool_],
    high: U64,
    low: U64,
    depth: int,
    tie_seed: np.uint64,
) -> NDArray[np.bool_]:
    here = np.zeros(hi.size, np.bool_)
    b = np.uint64(0)
    for i in range(hi.size):
        s = stratum[i]
        if reason[i] == BELOW_CUT and cut[s]:
            if depth > 64:
                b = hash_words(hi[i], lo[i], tie_seed)
            here[i] = _starts_with(rank_of(key[i]), b, high[s], low[s], depth)
    return here


@njit(cache=True, nogil=True)
def _ties(hi: U64, lo: U64, tie_seed: np.uint64) -> U64:
    out = np.empty(hi.size, np.uint64)
    for i in range(hi.size):
        out[i] = hash_words(hi[i], lo[i], tie_seed)
    return out


@njit(cache=True, nogil=True)
def _ranks(key: F64) -> U64:
    out = np.empty(key.size, np.uint64)
    for i in range(key.size):
        out[i] = rank_of(key[i])
    return out


@njit(cache=True, nogil=True)
def _mark(
    hi: U64,
    lo: U64,
    key: F64,
    stratum: NDArray[np.int32],
    reason: U8,
    take: U8,
    cut_key: F64,
    cut_hi: U64,
    cut_lo: U64,
    inclusive: NDArray[np.bool_],
    tie_seed: np.uint64,
) -> None:
    for i in range(hi.size):
        s = stratum[i]
        if reason[i] != BELOW_CUT or take[s] == NOTHING:
            continue
        if take[s] == ALL:
            reason[i] = KEPT
            continue
        if key[i] != cut_key[s]:
            if key[i] > cut_key[s]:
                reason[i] = KEPT
            continue
        mine, cuts = hash_words(hi[i], lo[i], tie_seed), hash_words(cut_hi[s], cut_lo[s], tie_seed)
        if mine != cuts:
            kept = mine < cuts
        elif hi[i] != cut_hi[s]:
            kept = hi[i] < cut_hi[s]
        elif lo[i] != cut_lo[s]:
            kept = lo[i] < cut_lo[s]
        else:
            kept = inclusive[s]
        if kept:
            reason[i] = KEPT
