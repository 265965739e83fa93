"""Build: the suffix array of a token text, documents fenced.

    tokens   7 9 7 | 9 | 7 7        suffixes end with their document
    array    2 5 4 0 3 1            7· 7· 7 7· 7 9 7· 9· 9 7·      (· = end of the document)

Two-stage sorting. `codes` writes the document ends into the text; `anchors` finds the third of the suffixes that decides;
`windows` sorts those by their codes and `doubling` by ranks where codes repeat (`reduce`, where all repeats at every scale);
`induce` derives all the others from them.
Each step is linear in the text or nearly so, whatever it repeats.

Price: the array (4 bytes a token), the codes (2, above 65,535 of them 4), the anchors (4 a third of the tokens), and a byte
each; 6 to 7 bytes a token in natural text, 9 where two ids alternate. From 2^31 - 1 tokens on, where the flag bit of an entry
is needed for positions, the work is done on 8-byte entries and the array doubles meanwhile. The last step runs on one thread.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from typecase.core.suffix.anchors import find_anchors
from typecase.core.suffix.codes import Codes, encode
from typecase.core.suffix.crew import Unsigned, share, spans
from typecase.core.suffix.doubling import double, name
from typecase.core.suffix.induce import induce
from typecase.core.suffix.reduce import reduced
from typecase.core.suffix.windows import sort_windows

WIDE_FROM = (1 << 31) - 1
"""From this many tokens on, entries are sorted in 8 bytes."""


def suffix_array(tokens: npt.NDArray[np.integer], ends: npt.NDArray[np.int64] | None = None, *, threads: int = 1) -> Unsigned:
    """Positions (n,) of all suffixes of `tokens` (n,), in rising order: uint32 below 2^32 tokens, otherwise uint64.

    `ends` (documents,) are the exclusive ends of documents: rising, the last is n; an empty document repeats an end.
    None means one document. A suffix ends with its document. Suffixes compare token by token as numbers; one that begins
    another comes before it; equal ones are in the order of their positions.

    The result does not depend on `threads`. Raises ValueError for a negative id, and for ends that do not fit.
    """
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise ValueError(f"tokens are one row of integers, found {tokens.dtype} of shape {tokens.shape}")
    lasts = last_tokens(len(tokens), ends)
    if not len(tokens):
        return np.empty(0, np.uint32)
    codes = encode(tokens, lasts, threads)
    wide = len(tokens) >= WIDE_FROM
    array: Unsigned = np.empty(len(tokens), np.uint64 if wide else np.uint32)
    _sort(codes, lasts, array, threads)
    return array.astype(np.uint32) if wide and len(tokens) < 1 << 32 else array


def _sort(codes: Codes, lasts: npt.NDArray[np.int64], array: Unsigned, threads: int) -> None:
    """Fills `array` with the positions of all suffixes of the coded text."""
    induce(codes, array, _sort_anchors(codes, lasts, array, threads), lasts)


def _sort_anchors(codes: Codes, lasts: npt.NDArray[np.int64], array: Unsigned, threads: int) -> npt.NDArray[np.int64]:
    """Puts the anchors in order at the end of `array`; how many there are of each code."""
    anchors = find_anchors(codes, array, threads)
    order = array[len(array) - len(anchors) :]
    flags, anchors_of = sort_windows(codes, anchors, order, array[: len(anchors)], threads)
    if not double(anchors, order, flags, array[: (len(array) + 1) // 2], threads):
        smaller, numbers = reduced(anchors, order, flags, lasts)
        del flags
        _sort(smaller, numbers, order, threads)
        del smaller
        share(threads, lambda span: name(anchors, order[slice(*span)]), spans(len(anchors), threads))
    return anchors_of


def last_tokens(num_tokens: int, ends: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    """The positions of the last tokens of the documents that are not empty, rising. Raises ValueError for wrong ends."""
    if ends is None:
        return np.array([num_tokens - 1][: min(num_tokens, 1)], np.int64)
    ends = np.asarray(ends, np.int64)
    if ends.ndim != 1 or (ends[-1] if len(ends) else 0) != num_tokens:
        raise ValueError(f"the last document ends at {ends[-1:].tolist()}, the text has {num_tokens} tokens")
    if len(ends) and (ends[0] < 0 or np.any(ends[1:] < ends[:-1])):
        raise ValueError("the ends of documents must rise from 0")
    lengths = np.diff(ends, prepend=0)
    return ends[lengths > 0] - 1
