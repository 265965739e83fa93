"""Words as hashes, for any script: what near-equality and overlap are measured in.

    "Don't panic, 中文!"  ->  don  t  panic  中  文

Runs of letters, digits and marks are words; in scripts without blanks (Han, Kana, Thai, Lao, Khmer, Myanmar) every
character is one. Case, punctuation and white space are nothing. Classes are those of `core.words`. Two words are taken
for one when their 64-bit hashes are equal: for 10 million different words the chance of any such pair is 3e-6.

Price: 3 ns a byte.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.selection.keys import mix
from typecase.core.utf8 import code_at
from typecase.core.words import classes

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_FOLDED = 0x3000
_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)


@functools.cache
def lower_table() -> U32:
    """The lower-case form of every character below U+3000 that has one of one character, else itself; uint32."""
    table = np.arange(_FOLDED, dtype=np.uint32)
    for code in range(_FOLDED):
        lower = chr(code).lower()
        if len(lower) == 1:
            table[code] = ord(lower)
    return table


def words_of(text: str) -> tuple[U64, I64, I64]:
    """Hash of every word of `text`, and the bytes [start, stop) of its UTF-8 that it stands in."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    hashes, starts, stops = np.empty(len(data), np.uint64), np.empty(len(data), np.int64), np.empty(len(data), np.int64)
    num = hash_words(data, 0, len(data), classes(), lower_table(), hashes, starts, stops)
    return hashes[:num], starts[:num], stops[:num]


@njit(cache=True, nogil=True)
def hash_words(values: Any, start: int, stop: int, table: Any, lower: Any, hashes: Any, starts: Any, stops: Any) -> int:
    """Hashes the words of `values[start:stop]` into `hashes`, places counted from `start`; returns their number.

    The three outputs hold stop - start entries; `starts` and `stops` may be empty: then places are not told.
    """
    num = 0
    placed = len(starts) > 0
    inside = False
    word = np.uint64(0)
    i = start
    while i < stop:
        at = i
        lead = values[i]
        if lead < 128:
            code = np.int64(lead)
            i += 1
        else:
            code, size = code_at(values, i, stop)
            i += size
        kind = table[code] if code < 0x40000 else np.uint8(5 if 0xE0100 <= code <= 0xE01EF else 0)
        if code < 0x3000:
            code = np.int64(lower[code])
        if inside and kind != 1 and kind != 5:
            hashes[num] = mix(word)
            if placed:
                stops[num] = at - start
            num += 1
            inside = False
        if kind == 1 or (kind == 5 and inside):
            if not inside:
                inside = True
                word = _BASIS
                if placed:
                    starts[num] = at - start
            word = (word ^ np.uint64(code)) * _PRIME
        elif kind == 2 or kind == 3:
            hashes[num] = mix((_BASIS ^ np.uint64(code)) * _PRIME)
            if placed:
                starts[num] = at - start
                stops[num] = i - start
            num += 1
    if inside:
        hashes[num] = mix(word)
        if placed:
            stops[num] = stop - start
        num += 1
    return num
