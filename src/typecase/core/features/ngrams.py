"""N-grams: hashed counts of tokens and of bytes, as sparse rows for training and as one weighted sum for rating.

    tokens   each token; each pair; the first four and the last three bytes of longer words
    bytes    each run of the given widths, blind to words: the classical baseline

Every n-gram falls into one of 2^bits buckets; two that share a bucket share a weight. A bucket weighs
idf * (1 + ln count), and the row of a text is divided by its length, so a long text counts no more than a short one.

Price: 6 ns a byte to count the token views, as much again to weigh them by a table that fits the third-level cache;
8 ns a byte for each width of byte n-grams.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.features.scan import WORD, Lines, Tokens, mixed, new_lines, new_tokens, scan

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_SALT_ONE, _SALT_TWO, _SALT_HEAD, _SALT_TAIL = (np.uint64(n) for n in (0xA11, 0xB22, 0xC33, 0xD44))
_START = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


class Rows(NamedTuple):
    """Sparse rows: the buckets and counts of text i are [ends[i], ends[i + 1]), each bucket once."""

    ends: I64  # (texts + 1,)
    buckets: I32
    counts: I32


class Weights(NamedTuple):
    """What a bucket is worth: its idf in units of 1/8 (0: never seen twice), and its weight for each output."""

    bits: int
    idf: U8  # (2^bits,)
    table: npt.NDArray[np.int8]  # (2^bits, outputs)
    scale: F32  # (outputs,): the worth of one unit of a weight


@njit(cache=True, nogil=True)
def count_token_ngrams(tokens: Tokens, num_tokens: int, bits: int, counts: I32, touched: I32) -> int:
    """Counts the token views into `counts` int32 (2^bits,), all 0 before; returns how many buckets `touched` lists."""
    kinds, lengths, keys, heads, tails = tokens.kind, tokens.length, tokens.key, tokens.head, tokens.tail
    shift = np.uint64(64 - bits)
    num = 0
    before = np.uint64(0)
    for row in range(num_tokens):
        key = keys[row]
        pair = mixed(mixed(before, _SALT_TWO), key)
        before = key
        views = 4 if kinds[row] == WORD and lengths[row] > 4 else 2
        for view in range(views):
            if view == 0:
                ngram = mixed(key, _SALT_ONE)
            elif view == 1:
                ngram = pair
            elif view == 2:
                ngram = mixed(heads[row], _SALT_HEAD)
            else:
                ngram = mixed(tails[row], _SALT_TAIL)
            bucket = np.int64(ngram >> shift)
            if counts[bucket] == 0:
                touched[num] = bucket
                num += 1
            counts[bucket] += 1
    return num


@njit(cache=True, nogil=True)
def count_byte_ngrams(text: U8, low: int, high: int, bits: int, counts: I32, touched: I32) -> int:
    """Counts byte n-grams of widths [low, high) like `count_token_ngrams`."""
    shift = np.uint64(64 - bits)
    num = 0
    for pos in range(len(text)):
        key = _START
        for width in range(1, min(high, len(text) - pos + 1)):
            key = (key ^ np.uint64(text[pos + width - 1])) * _PRIME
            if width >= low:
                bucket = np.int64(mixed(key, np.uint64(width)) >> shift)
                if counts[bucket] == 0:
                    touched[num] = bucket
                    num += 1
                counts[bucket] += 1
    return num


@njit(cache=True, nogil=True)
def weigh_ngrams(counts: I32, touched: I32, num: int, weights: Weights, out: F32) -> None:
    """Sums the weights of the counted buckets into `out` and sets their counts back to 0; 0 without a known n-gram."""
    idf, table, scale = weights.idf, weights.table, weights.scale
    num_outputs = len(out)
    square = np.float32(0)
    out[:] = 0
    for row in range(num):
        bucket = touched[row]
        count = counts[bucket]
        counts[bucket] = 0
        if idf[bucket] == 0:
            continue
        weight = np.float32(idf[bucket])
        if count > 1:
            weight *= np.float32(1 + math.log(count))
        square += weight * weight
        for column in range(num_outputs):
            out[column] += weight * np.float32(table[bucket, column])
    if square > 0:
        for column in range(num_outputs):
            out[column] *= scale[column] / np.float32(math.sqrt(square))


@njit(cache=True, nogil=True)
def _emit(counts: I32, touched: I32, num: int, at: int, buckets: I32, numbers: I32) -> None:
    for row in range(num):
        bucket = touched[row]
        buckets[at + row], numbers[at + row] = bucket, counts[bucket]
        counts[bucket] = 0


@njit(cache=True, nogil=True)
def _byte_rows(
    values: U8, starts: I64, stops: I64, low: int, high: int, bits: int, counts: I32, touched: I32, rows: Rows
) -> None:
    for row in range(len(starts)):
        num = count_byte_ngrams(values[starts[row] : stops[row]], low, high, bits, counts, touched)
        _emit(counts, touched, num, rows.ends[row], rows.buckets, rows.counts)
        rows.ends[row + 1] = rows.ends[row] + num


@njit(cache=True, nogil=True)
def _token_rows(
    values: U8, starts: I64, stops: I64, bits: int, tokens: Tokens, lines: Lines, counts: I32, touched: I32, rows: Rows
) -> None:
    for row in range(len(starts)):
        num_tokens, _ = scan(values[starts[row] : stops[row]], tokens, lines)
        num = count_token_ngrams(tokens, num_tokens, bits, counts, touched)
        _emit(counts, touched, num, rows.ends[row], rows.buckets, rows.counts)
        rows.ends[row + 1] = rows.ends[row] + num


def _new_rows(num_texts: int, room: int) -> Rows:
    return Rows(np.zeros(num_texts + 1, np.int64), np.zeros(room, np.int32), np.zeros(room, np.int32))


def _trimmed(rows: Rows) -> Rows:
    return Rows(rows.ends, rows.buckets[: rows.ends[-1]].copy(), rows.counts[: rows.ends[-1]].copy())


def token_ngrams(values: U8, starts: I64, stops: I64, *, bits: int) -> Rows:
    """The token views of every text, in 2^bits buckets."""
    longest, total = int((stops - starts).max(initial=0)), int((stops - starts).sum())
    rows = _new_rows(len(starts), 4 * (total + len(starts)))
    counts, touched = np.zeros(1 << bits, np.int32), np.zeros(4 * (longest + 1), np.int32)
    _token_rows(values, starts, stops, bits, new_tokens(longest), new_lines(longest), counts, touched, rows)
    return _trimmed(rows)


def byte_ngrams(values: U8, starts: I64, stops: I64, *, low: int, high: int, bits: int) -> Rows:
    """The byte n-grams of widths [low, high) of every text, in 2^bits buckets."""
    longest, total = int((stops - starts).max(initial=0)), int((stops - starts).sum())
    rows = _new_rows(len(starts), (high - low) * total + 1)
    counts, touched = np.zeros(1 << bits, np.int32), np.zeros((high - low) * longest + 1, np.int32)
    _byte_rows(values, starts, stops, low, high, bits, counts, touched, rows)
    return _trimmed(rows)


def inverse_frequency(rows: Rows, *, bits: int) -> U8:
    """The idf of every bucket in units of 1/8, uint8 (2^bits,): 1 + ln(texts / texts with it), 0 if fewer than two have it."""
    having = np.bincount(rows.buckets, minlength=1 << bits)
    idf = 1 + np.log((1 + len(rows.ends) - 1) / np.maximum(1, having))
    return np.where(having >= 2, np.rint(8 * idf), 0).astype(np.uint8)


def row_weights(rows: Rows, idf: U8) -> F64:
    """The weight of every entry of `rows` in its text, float64 (entries,), rows of length 1."""
    weight = idf[rows.buckets].astype(np.float64) * (1 + np.log(rows.counts))
    owner = np.repeat(np.arange(len(rows.ends) - 1), np.diff(rows.ends))
    norm = np.sqrt(np.bincount(owner, weight * weight, minlength=len(rows.ends) - 1))
    scaled: F64 = weight / np.maximum(norm, 1e-12)[owner]
    return scaled


@njit(cache=True, nogil=True)
def _gram(ends: I64, buckets: I32, weight: F64, against: int, dense: F64, out: F64) -> None:
    for row in range(len(ends) - 1):
        for entry in range(ends[row], ends[row + 1]):
            dense[buckets[entry]] = weight[entry]
        for other in range(min(against, row + 1)):
            total = 0.0
            for entry in range(ends[other], ends[other + 1]):
                total += weight[entry] * dense[buckets[entry]]
            out[row, other] = total
            if row < against:
                out[other, row] = total
        for entry in range(ends[row], ends[row + 1]):
            dense[buckets[entry]] = 0


def gram(rows: Rows, weight: F64, *, bits: int, against: int) -> F64:
    """Inner products of all rows with the first `against` rows, float64 (texts, against)."""
    out = np.zeros((len(rows.ends) - 1, against))
    _gram(rows.ends, rows.buckets, weight, against, np.zeros(1 << bits), out)
    return out


@njit(cache=True, nogil=True)
def _primal(ends: I64, buckets: I32, weight: F64, duals: F64, out: F64) -> None:
    for row in range(len(duals)):
        for entry in range(ends[row], ends[row + 1]):
            for column in range(duals.shape[1]):
                out[buckets[entry], column] += weight[entry] * duals[row, column]


def primal_weights(rows: Rows, weight: F64, duals: F64, idf: U8, *, bits: int) -> Weights:
    """The weight of every bucket for every output, from the duals of the first rows, rounded to one byte each."""
    dense = np.zeros((1 << bits, duals.shape[1]))
    _primal(rows.ends, rows.buckets, weight, duals, dense)
    dense[idf == 0] = 0
    scale = np.maximum(np.abs(dense).max(axis=0), 1e-12) / 127
    return Weights(bits, idf, np.rint(dense / scale).astype(np.int8), scale.astype(np.float32))
