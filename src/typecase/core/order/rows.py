"""Rows: where every sample begins, found in one walk along the sequences.

    stream    |--- S[0] ---|- S[1] -|------------ S[2] ------------| ...
    row k     0 ^           k = 1 ^       k = 2 ^       k = 3 ^            k * L tokens into the stream

    row 0 = (0, 0)
    row k = (j, k * L - begin of S[j])      j: the first sequence with at least k * L + e tokens up to its end
    the last row, of a sample cut short by the end of the stream: (last j, its length - e)

With e = 1 a sample needs the token after its inputs, the label of the last, so a row that would fall on the end of a sequence
is token 0 of the next one that has tokens; with e = 0 it stays behind the last token of the sequence.

The lengths are fetched a block ahead of the walk, so that many of them are on their way from memory at once; the cumulative sum
is one number. Price: about 2 ns a sequence and a sample, no memory beside the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.errors import BadQuery

_BLOCK = 1024


def sample_rows(
    sequences: npt.NDArray[Any],
    lengths: npt.NDArray[Any],
    *,
    seq_length: int,
    extra: int,
    num_samples: int,
    partial: bool = False,
    dtype: npt.DTypeLike = np.int64,
) -> npt.NDArray[Any]:
    """The rows (num_samples + 1, 2), of `dtype`, of samples of `seq_length` inputs along `sequences` (places,).

    `lengths` (sequences of the set,) may be a view of any alignment; `extra` is 1 where a sample holds one token more than
    inputs. With `partial` the stream may end within the last sample. Raises BadQuery where it ends before.
    """
    rows = np.zeros((num_samples + 1, 2), dtype)
    found = int(_walk(sequences, lengths, seq_length, extra, rows))
    if found == num_samples:
        return rows
    if not partial or found < num_samples - 1:
        raise BadQuery(
            f"the order has tokens for {found} samples of {seq_length} and {num_samples} are asked: the lengths are not those"
            " that the number of samples was counted from"
        )
    held = int(lengths[sequences[-1]]) if len(sequences) else 0
    if held < extra:
        raise BadQuery(
            "the order ends with a sequence of no token, behind which the framework puts the end of the cut last sample: it"
            " stops there; drop the partial sample, or take another seed"
        )
    rows[-1] = len(sequences) - 1, held - extra
    return rows


@njit(cache=True, nogil=True)
def _walk(sequences: Any, lengths: Any, seq_length: int, extra: int, rows: Any) -> int:
    """Fills `rows` from the second on; how many of them the stream reaches."""
    held = np.empty(_BLOCK, np.int64)
    last = len(rows) - 1
    k, begin, goal = 1, np.int64(0), np.int64(seq_length)
    for first in range(0, len(sequences), _BLOCK):
        if k > last:
            break
        size = min(_BLOCK, len(sequences) - first)
        for i in range(size):
            held[i] = lengths[sequences[first + i]]
        for i in range(size):
            end = begin + held[i]
            while k <= last:
                # Written in any case and kept if it is one: whether a sequence holds a boundary cannot be predicted.
                rows[k, 0] = first + i
                rows[k, 1] = goal - begin
                is_row = goal + extra <= end
                goal += seq_length * is_row
                k += is_row
                if goal + extra > end:
                    break
            begin = end
    return k - 1
