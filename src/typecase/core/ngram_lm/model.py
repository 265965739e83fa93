"""An n-gram model: modified Kneser-Ney, interpolated, in two hash tables that can lie in a mapped file.

    fit(counts, spelling, unit)  ->  NgramModel        model.score(values, offsets)  ->  nats of each text

    p(w | context) = (a(context w) - D) / a(context)  +  g(context) * p(w | context without its oldest symbol)

a is the number of times for the longest n-grams and for those that begin a text, else the number of distinct symbols before the
n-gram; D has three values an order, fitted by counts of counts (Chen and Goodman 1998, section 3). Below the single symbols
stands the spelling of the word, or 1/256 for a byte. Over bytes the chances behind any context sum to 1; over words
they sum to a little less, because what the spelling gives to known words is not used: a text is never called likelier than
it is. The end of a text is not predicted; its first symbol is, behind start symbols.

A slot of a table is 8 bytes: 31 bits of the key and a float32. An absent n-gram is taken for a present one with a chance of
about 1 in 10^9. Price: 8 to 16 bytes for each n-gram and each context; see benchmarks/bench_perplexity.py for the speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.ngram_lm.counts import Counts, extended, keys_of, reduced_groups
from typecase.core.ngram_lm.symbols import START, Spelling, Unit, cut, spelled
from typecase.core.suffix.kneser_ney import Discounts, fitted

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

LONGEST = 8
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_LEAST_SLOTS = 16


@dataclass(frozen=True, slots=True, eq=False)
class NgramModel:
    """A fitted model. `grams` and `contexts` are hash tables, uint64 (slots,), slots a power of two, 0 where empty.

    floor       ln of what is left for symbols that were never seen, -inf if nothing is
    spelling    ln of the chance of a byte behind another, float32 (257, 257)
    discounts   of each order, from 1
    """

    unit: Unit
    order: int
    grams: U64
    contexts: U64
    floor: float
    spelling: F32
    discounts: tuple[Discounts, ...]

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over the tables."""
        digest = blake2b(f"{self.unit} {self.order} {self.floor!r}".encode(), digest_size=16)
        for array in (self.grams, self.contexts, self.spelling):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def score(self, values: U8, offsets: I64) -> tuple[F64, I64]:
        """Nats of each text values[offsets[i]:offsets[i + 1]], float64 (texts,), and its symbols, int64 (texts,)."""
        symbols = cut(values, offsets, self.unit)
        nats = np.zeros(len(symbols.ends))
        by_spelling = self.unit == "words"
        tables = (self.grams, self.contexts, self.spelling)
        _score(values, symbols.keys, symbols.starts, symbols.ends, *tables, self.order, self.floor, by_spelling, nats)
        return nats, np.diff(symbols.ends, prepend=0)


def fit(counts: Counts, spelling: Spelling, unit: Unit) -> NgramModel:
    """The model of `counts`; equal counts give equal bytes. Of no text at all, every symbol is spelled."""
    levels = _levels(counts)
    grams: list[tuple[U64, F32]] = []
    contexts: list[tuple[U64, F32]] = []
    chance, floor = np.zeros(0), 1.0
    for k, level in enumerate(reversed(levels), start=1):
        taken = level.discounts.of(level.counts)
        _, firsts, group = reduced_groups(level.context_keys)
        totals, left = np.zeros(len(firsts)), np.zeros(len(firsts))
        np.add.at(totals, group, level.counts)
        np.add.at(left, group, taken)
        rest = left / totals
        if k == 1:
            floor = float(rest[0]) if len(rest) else 1.0
            below: F64 = np.full(len(level.keys), floor / 256 if unit == "bytes" else 0.0)
        else:
            below = rest[group] * chance[level.ends]
            heads = np.empty(len(firsts), np.uint64)
            heads[group] = level.context_keys
            contexts.append((heads, _logs(rest)))
        chance = (level.counts - taken) / totals[group] + below
        grams.append((level.keys, _logs(chance)))
    floor = floor / 256 if unit == "bytes" else floor
    return NgramModel(
        unit,
        counts.order,
        _table(grams),
        _table(contexts),
        float(np.log(floor)) if floor > 0 else -np.inf,
        spelling.log_chances(),
        tuple(level.discounts for level in reversed(levels)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """The n-grams of one order with what counts for them; `ends` is the row, one order below, of all but the oldest symbol."""

    keys: U64
    context_keys: U64
    counts: I64
    ends: I64
    discounts: Discounts


def _levels(counts: Counts) -> list[_Level]:
    """All orders, the longest first."""
    grams, keys, times, adjusted = counts.grams, counts.keys, counts.times, counts.times
    found = []
    for size in range(counts.order, 0, -1):
        order, firsts, ends = reduced_groups(keys_of(grams[:, 1:]))
        discounts = fitted(np.bincount(np.minimum(adjusted, 5), minlength=6)[:5].astype(np.int64))
        found.append(_Level(keys, keys_of(grams[:, :-1]), adjusted, ends, discounts))
        if size == 1 or not len(keys):
            continue
        heads = order[firsts]
        times = np.add.reduceat(times[order], firsts)
        distinct = np.diff(np.append(firsts, len(keys)))
        grams, keys = grams[heads, 1:], keys_of(grams[heads, 1:])
        adjusted = np.where(grams[:, 0] == START, times, distinct)
    return found


def _logs(chances: F64) -> F32:
    with np.errstate(divide="ignore"):
        logs: F32 = np.log(chances).astype(np.float32)
    return logs


def _table(entries: list[tuple[U64, F32]]) -> U64:
    num = sum(len(keys) for keys, _ in entries)
    slots = _LEAST_SLOTS
    while slots * 2 < num * 3:
        slots *= 2
    table = np.zeros(slots, np.uint64)
    for keys, values in entries:
        _put(table, keys, values.view(np.uint32))
    return table


@njit(cache=True, nogil=True)
def _put(table: Any, keys: Any, values: Any) -> None:
    mask = np.uint64(len(table) - 1)
    for row in range(len(keys)):
        slot = keys[row] & mask
        tag = (keys[row] >> _HALF) | np.uint64(1)
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = tag << _HALF | np.uint64(values[row])


@njit(cache=True, nogil=True)
def find_slot(table: Any, key: np.uint64) -> np.uint64:
    """The slot of `key`, its tag included; 0 where there is none."""
    mask = np.uint64(len(table) - 1)
    slot = key & mask
    tag = (key >> _HALF) | np.uint64(1)
    while table[slot] != 0:
        if table[slot] >> _HALF == tag:
            return np.uint64(table[slot])
        slot = (slot + np.uint64(1)) & mask
    return np.uint64(0)


@njit(cache=True, nogil=True)
def _score(
    values: Any, keys: Any, starts: Any, ends: Any, grams: Any, contexts: Any, spelling: Any,
    order: int, floor: float, by_spelling: bool, nats: Any,
) -> None:  # fmt: skip
    held = np.empty(1, np.uint32)
    number = held.view(np.float32)
    now, before = np.empty(LONGEST + 1, np.uint64), np.empty(LONGEST + 1, np.uint64)
    begin = 0
    for text in range(len(ends)):
        before[0] = 0
        for k in range(order):
            before[k + 1] = extended(before[k], START)
        total = 0.0
        for at in range(begin, ends[text]):
            now[0] = 0
            for k in range(order):
                now[k + 1] = extended(now[k], keys[at - k] if at - k >= begin else START)
            sum_of_logs = 0.0
            k = order
            while k > 0:
                found = find_slot(grams, now[k])
                if found:
                    held[0] = found & _LOW
                    sum_of_logs += number[0]
                    break
                k -= 1
                if k > 0:
                    found = find_slot(contexts, before[k])
                    if found:
                        held[0] = found & _LOW
                        sum_of_logs += number[0]
            if k == 0:
                sum_of_logs += floor
                if by_spelling:
                    sum_of_logs += spelled(values, starts[at], starts[at + 1], spelling)
            total -= sum_of_logs
            for k in range(order + 1):
                before[k] = now[k]
        nats[text] = total
        begin = ends[text]
