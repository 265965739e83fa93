"""Codes: the text as small dense numbers in which the ends of documents are written.

    tokens     7  9  7 | 9 | 7  7        three documents
    codes      2  4  1 | 3 | 2  1        1 = "7, then the end", 2 = 7, 3 = "9, then the end", 4 = 9

A token that ends a document gets a code of its own, just below the code of the same token elsewhere. So the order of
codes is the order of (token, shorter first), no two documents share a comparison, and nothing is inserted into the text:
position p of the tokens is entry p + 1 of `text`. Entry 0 and the entries behind the text hold 0, which counts as an end.

Codes that do not occur are left out. Up to 65,535 of them, `text` takes 2 bytes a token, otherwise 4. Windows of
`per_key` codes of `bits` bits each fit into a 64-bit key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.crew import Unsigned, share, spans
from typecase.core.suffix.ids import number_ids

PADDING = 64
"""Zeros behind the text: a window that starts at the last token is read without a check."""

_TABLE_IDS = 1 << 18
"""Up to here, or up to an eighth of the tokens, an id is looked up in a table by id; above, ids are renumbered first."""


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """`text` (tokens + 1 + PADDING,); `counts` (codes,) says how often a code occurs, `is_end` (codes,) is 1 for an end."""

    text: Unsigned
    counts: npt.NDArray[np.int64]
    is_end: npt.NDArray[np.uint8]

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return max(1, (len(self.counts) - 1).bit_length())

    @property
    def per_key(self) -> int:
        """Codes in a 64-bit key."""
        return 8 if self.bits <= 8 else 64 // self.bits


@njit(cache=True, nogil=True)
def _count_ids(tokens: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> None:
    for token in tokens:
        counts[token] += 1


@njit(cache=True, nogil=True)
def _translate(tokens: npt.NDArray[Any], table: npt.NDArray[Any], out: Unsigned) -> None:
    for i in range(len(tokens)):
        out[i] = table[tokens[i]]


def encode(tokens: npt.NDArray[np.integer], lasts: npt.NDArray[np.int64], threads: int) -> Codes:
    """The codes of `tokens` (at least one); `lasts` are the positions of the last tokens of documents."""
    tokens, num_ids = _dense_ids(tokens, threads)
    found = spans(len(tokens), threads)
    held = np.zeros((len(found), num_ids), np.int64)
    share(threads, lambda k: _count_ids(tokens[found[k][0] : found[k][1]], held[k]), range(len(found)))

    counts = np.zeros((num_ids, 2), np.int64)  # (id, 0) ends, (id, 1) elsewhere
    counts[:, 0] = np.bincount(tokens[lasts], minlength=num_ids)
    counts[:, 1] = held.sum(axis=0) - counts[:, 0]
    occurs = counts > 0
    number = np.cumsum(occurs.ravel()).reshape(-1, 2)
    num_codes = int(number[-1, 1]) + 1
    dtype: type[np.unsignedinteger[Any]] = np.uint16 if num_codes <= 1 << 16 else np.uint32

    text = np.zeros(len(tokens) + 1 + PADDING, dtype)
    table = number[:, 1].astype(dtype)
    share(threads, lambda s: _translate(tokens[s[0] : s[1]], table, text[1 + s[0] : 1 + s[1]]), found)
    text[1 + lasts] = number[tokens[lasts], 0]
    is_end = np.zeros(num_codes, np.uint8)
    is_end[0] = 1
    is_end[number[occurs[:, 0], 0]] = 1
    return Codes(text, np.concatenate((np.zeros(1, np.int64), counts[occurs])), is_end)


def _dense_ids(tokens: npt.NDArray[np.integer], threads: int) -> tuple[Unsigned, int]:
    """The ids as uint16 or uint32 (few kernels to compile), renumbered where a table would be too large; their bound."""
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0:
        raise ValueError(f"a token id is at least 0, found {low} at position {int(tokens.argmin())}")
    if high >= 1 << 63:
        raise ValueError(f"a token id is below 2^63, found {high}")
    if high < max(_TABLE_IDS, len(tokens) >> 3):
        dtype = np.uint16 if tokens.dtype.itemsize <= 2 else np.uint32
        if tokens.dtype.itemsize == 4:
            return tokens.view(np.uint32), high + 1
        return tokens.astype(dtype, copy=False), high + 1
    return number_ids(tokens, threads)
