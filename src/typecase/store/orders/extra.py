"""Extra: whether the samples of a Megatron cache hold one token more than inputs, told from the arrays alone.

    extra = 1    a sample that ends with a sequence needs the token behind it:  row (j + 1, 0)
    extra = 0    it does not:                                                   row (j, length of j)
    at the end   what the stream holds behind the last row, and where a cut last sample ends

The option `add_extra_token_to_sequence` is in no cache name, so a run with it and one without take each other's files.
Price: one pass over rows and sequences, 5 ns each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.order.order import Lengths

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Extra:
    """`extra` is 0 or 1; `certain` is False where the arrays fit both, or neither; `reason` says what decided."""

    extra: int
    certain: bool
    reason: str


def extra_of(sequences: npt.NDArray[Any], rows: npt.NDArray[Any], lengths: Lengths, *, seq_length: int) -> Extra:
    """What `rows` say of the extra token of samples of `seq_length` inputs; 1, uncertain, where they say nothing."""
    return _by_borders(sequences, rows, lengths) or _by_end(sequences, rows, lengths, seq_length)


def _by_borders(sequences: npt.NDArray[Any], rows: npt.NDArray[Any], lengths: Lengths) -> Extra | None:
    """By the first row that falls on the border of two sequences."""
    for first in range(1, len(rows), _CHUNK):
        chunk = rows[first : first + _CHUNK].astype(np.int64)
        if chunk.min() < 0 or chunk[:, 0].max() >= len(sequences):
            return Extra(1, False, "the rows leave the sequences")
        at = sequences[chunk[:, 0]].astype(np.int64)
        if at.min() < 0 or at.max() >= len(lengths):
            return Extra(1, False, "the sequences leave the token set")
        begins, ends = np.flatnonzero(chunk[:, 1] == 0), np.flatnonzero(chunk[:, 1] == lengths[at])
        begin, end = (int(hits[0]) if len(hits) else len(chunk) for hits in (begins, ends))
        if begin < end:
            return Extra(1, True, f"row {first + begin} begins a sequence")
        if end < begin:
            return Extra(0, True, f"row {first + end} stands behind the last token of a sequence")
        if begin < len(chunk):
            # Only a cut last sample can end so, at the end of a last sequence without tokens; with the extra token it would
            # end before it, and Megatron refuses to build that.
            last = first + begin == len(rows) - 1
            return Extra(int(not last), last, f"row {first + begin} stands on a sequence of no token")
    return None


def _by_end(sequences: npt.NDArray[Any], rows: npt.NDArray[Any], lengths: Lengths, seq_length: int) -> Extra:
    """By the tokens behind the last row, none of the rows being on a border."""
    unknown = Extra(1, False, "no sample ends with a sequence, and both readings of the rows are the same")
    if len(rows) < 2 or not len(sequences):
        return unknown
    place, offset = int(rows[-1, 0]), int(rows[-1, 1])
    left = _tokens(sequences, lengths, place) - offset
    reached = _tokens(sequences, lengths, 0) - left
    if reached == (len(rows) - 1) * seq_length:
        if left == seq_length:
            return Extra(1, True, f"{seq_length} tokens are left, a sample without a last label")
        return unknown
    if left in (0, 1) and reached < (len(rows) - 1) * seq_length:
        return Extra(left, True, "the last sample is cut by the end of the stream")
    return Extra(1, False, f"the rows reach token {reached}, not {(len(rows) - 1) * seq_length}: they are of other lengths")


def _tokens(sequences: npt.NDArray[Any], lengths: Lengths, first: int) -> int:
    """Tokens of `sequences` from place `first` on."""
    return sum(int(lengths[sequences[k : k + _CHUNK]].sum(dtype=np.int64)) for k in range(first, len(sequences), _CHUNK))
