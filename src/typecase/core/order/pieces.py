"""The pieces between two rows of an order: the one rule by which all packings of GPT-NeoX and Megatron read a sample.

    row k = (a, p), row k + 1 = (b, q)
    a = b    tokens [p, q + extra) of sequence S[a]
    a < b    S[a] from p; all of S[a + 1] … S[b - 1]; tokens [0, q + extra) of S[b]

Cut to `limit` tokens; empty pieces are left out. Where S[b] has no token, a framework reads on in the file, into the next
sequence that has some; so does the piece. Price: 10 ns a piece.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.packing import Packing
from typecase.errors import BadQuery

Ints = npt.NDArray[np.int64]

_CHUNK = 1 << 16


def packing_of(
    sequences: npt.NDArray[Any],
    rows: npt.NDArray[Any],
    lengths: npt.NDArray[Any],
    samples: Ints,
    *,
    limit: int,
    extra: int,
) -> tuple[Packing, Ints]:
    """The packing of `samples` (n,), numbers in [0, len(rows) - 1), each of at most `limit` tokens, and the place of every
    piece in `sequences`."""
    begin = rows[samples].astype(np.int64)
    end = rows[samples + 1].astype(np.int64)
    widths = end[:, 0] - begin[:, 0] + 1
    ends = np.cumsum(widths)
    # Only what the samples touch is brought into memory, so the arrays may be files of any size and alignment.
    nth = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - widths, widths)
    touched = np.asarray(sequences[np.repeat(begin[:, 0], widths) + nth], np.int64)
    held = np.asarray(lengths[touched], np.int64)
    for place in (ends - 1)[(held[ends - 1] == 0) & (end[:, 1] + extra > 0)].tolist():
        touched[place] = following = next_with_tokens(lengths, empty := int(touched[place]))
        if following < 0:
            raise BadQuery(
                f"the sample ends with the first token of sequence {empty}, which has none, and the file ends there: the"
                " framework stops; remove sequences of no token"
            )
        held[place] = lengths[following]
    *columns, places = _tiles(touched, held, begin, end, ends - widths, limit, extra)
    return Packing(*columns), places


def next_with_tokens(lengths: npt.NDArray[Any], sequence: int) -> int:
    """The first sequence after `sequence` that has tokens, -1 where the file ends before."""
    for first in range(sequence + 1, len(lengths), _CHUNK):
        found = np.flatnonzero(lengths[first : first + _CHUNK])
        if found.size:
            return first + int(found[0])
    return -1


@njit(cache=True, nogil=True)
def _tiles(
    touched: Ints, held: Ints, begin: Ints, end: Ints, firsts: Ints, limit: int, extra: int
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    docs, places = np.empty(len(touched), np.int64), np.empty(len(touched), np.int64)
    starts, stops = np.empty(len(touched), np.int64), np.empty(len(touched), np.int64)
    bounds, sizes = np.zeros(len(begin) + 1, np.int64), np.zeros(len(begin), np.int64)
    piece = 0
    for k in range(len(begin)):
        width = end[k, 0] - begin[k, 0]
        size = 0
        for j in range(width + 1):
            start = begin[k, 1] if j == 0 else 0
            stop = end[k, 1] + extra if j == width else held[firsts[k] + j]
            stop = min(stop, start + limit - size)
            if stop > start:
                docs[piece], starts[piece], stops[piece] = touched[firsts[k] + j], start, stop
                places[piece] = begin[k, 0] + j
                size += stop - start
                piece += 1
        bounds[k + 1], sizes[k] = piece, size
    return docs[:piece], starts[:piece], stops[:piece], bounds, sizes, places[:piece]
