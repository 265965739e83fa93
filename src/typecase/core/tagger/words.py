"""Words of lines: hashed n-grams of every line, and one weight for each bucket.

    "  • Next page »"    ->   words next, page; pair next page; whole line; first and last word; ends of longer words

Words are in ASCII small letters, digits are all the same digit, a CJK character is a word. N-grams fall into 2^BITS
buckets with one weight each (int8 times a scale); the score of a line is their mean.

Price: 7 ns a byte.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

BITS: Final = 15
MAX_WORDS: Final = 24
"""Words of a line that are read: its first ones, for a menu is short and a sentence says enough by then."""

_PRIME: Final = np.uint64(0x100000001B3)
_BASIS: Final = np.uint64(0xCBF29CE484222325)
_VIEWS: Final = 5
_ROOM: Final = _VIEWS * MAX_WORDS + 4


class WordRows(NamedTuple):
    """The buckets of line i are buckets[ends[i]:ends[i + 1]], int32; a bucket may stand there twice."""

    ends: I64
    buckets: I32


@njit(cache=True, nogil=True)
def _mixed(key, salt):  # type: ignore[no-untyped-def]
    key = (key ^ np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(29))


@njit(cache=True, nogil=True)
def line_buckets(values: U8, start: int, stop: int, out: I32) -> int:
    """Writes the buckets of the line values[start:stop] to `out` int32 (_ROOM,); returns how many."""
    shift = np.uint64(64 - BITS)
    num = words = 0
    before = np.uint64(0)
    whole = _BASIS
    pos = start
    while pos < stop and words < MAX_WORDS:
        byte = values[pos]
        if not (48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte >= 128):
            if byte != 32 and byte != 9:
                whole = (whole ^ np.uint64(byte)) * _PRIME
            pos += 1
            continue
        key, head, at = _BASIS, np.uint64(0), 0
        ideograph = 0xE3 <= byte < 0xEA
        symbol = byte == 0xE2 or byte == 0xC2
        while pos < stop:
            byte = values[pos]
            if 48 <= byte <= 57:
                byte = np.uint8(48)
            elif 65 <= byte <= 90:
                byte = np.uint8(byte + 32)
            elif not (97 <= byte <= 122 or byte >= 128):
                break
            key = (key ^ np.uint64(byte)) * _PRIME
            at += 1
            pos += 1
            if at == 4:
                head = key
            if (ideograph or symbol) and at == (3 if ideograph or values[pos - at] == 0xE2 else 2):
                break
        whole = (whole ^ key) * _PRIME
        out[num] = np.int32(_mixed(key, 1) >> shift)
        num += 1
        if words == 0:
            out[num] = np.int32(_mixed(key, 5) >> shift)
        else:
            out[num] = np.int32(_mixed(before ^ (key * _PRIME), 2) >> shift)
        num += 1
        if at > 5:
            out[num] = np.int32(_mixed(head, 3) >> shift)
            num += 1
        before = key
        words += 1
    if words:
        out[num] = np.int32(_mixed(before, 6) >> shift)
        num += 1
        if words < 12:
            out[num] = np.int32(_mixed(whole, 4) >> shift)
            num += 1
    return num


@njit(cache=True, nogil=True)
def word_rows(values: U8, starts: I64, stops: I64) -> WordRows:
    """The buckets of every line values[starts[i]:stops[i]]."""
    ends = np.zeros(len(starts) + 1, np.int64)
    out = np.zeros(_ROOM, np.int32)
    for row in range(len(starts)):
        ends[row + 1] = ends[row] + line_buckets(values, starts[row], stops[row], out)
    buckets = np.zeros(ends[-1], np.int32)
    for row in range(len(starts)):
        num = line_buckets(values, starts[row], stops[row], out)
        buckets[ends[row] : ends[row] + num] = out[:num]
    return WordRows(ends, buckets)


@njit(cache=True, nogil=True)
def word_scores(values: U8, starts: I64, stops: I64, weights: I8, scale: float) -> F32:
    """The mean weight of the known n-grams of every line, float32 (lines,); 0 for a line without any."""
    scores = np.zeros(len(starts), np.float32)
    out = np.zeros(_ROOM, np.int32)
    for row in range(len(starts)):
        num = line_buckets(values, starts[row], stops[row], out)
        total = known = 0
        for entry in range(num):
            weight = weights[out[entry]]
            total += weight
            known += weight != 0
        scores[row] = np.float32(total * scale / (known + 1))
    return scores


@njit(cache=True, nogil=True)
def learn_words(rows: WordRows, targets: F64, weight: F64, known: npt.NDArray[np.bool_], epochs: int, rate: float) -> F64:
    """Weights float64 (2^BITS,) by stochastic gradients of the logistic loss, rows in the order given (AdaGrad, 2011).

    `targets` are -1 or 1; the score of a line is the mean over its known n-grams, as in `word_scores`.
    """
    out = np.zeros(1 << BITS)
    square = np.full(1 << BITS, 1e-3)
    ends, buckets = rows.ends, rows.buckets
    for _ in range(epochs):
        for row in range(len(targets)):
            total, num = 0.0, 1
            for entry in range(ends[row], ends[row + 1]):
                if known[buckets[entry]]:
                    total += out[buckets[entry]]
                    num += 1
            if num == 1:
                continue
            slope = -targets[row] * weight[row] / (1 + np.exp(targets[row] * total / num)) / num
            for entry in range(ends[row], ends[row + 1]):
                bucket = buckets[entry]
                if known[bucket]:
                    step = slope + 1e-4 * weight[row] * out[bucket] / num
                    square[bucket] += step * step
                    out[bucket] -= rate * step / np.sqrt(square[bucket])
    return out
