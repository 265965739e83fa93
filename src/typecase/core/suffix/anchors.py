"""Anchors: the few suffixes from which the order of all others follows.

    codes    b  a  n  a  n  a$        a$ = "a, then the end of the document"
    type     L  S  L  S  L  .         S: smaller than the next suffix, L: larger
    anchor      ^     ^               an S behind an L, the valleys of the text (elsewhere "LMS suffix")

An anchor is never the first token of a document, nor its last: the last is finished after one code and is in its place
from the start. Two anchors are never neighbours, so at most half of the suffixes are anchors, a third in natural text.

The types are found from right to left; a span of the text finds the type behind its right border by looking ahead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.suffix.codes import Codes
from typecase.core.suffix.crew import Unsigned, share, spans


@njit(cache=True, nogil=True)
def _rises(text: Unsigned, index: int) -> bool:
    """Whether the suffix at text[index] is smaller than the next."""
    while text[index] == text[index + 1] and text[index]:
        index += 1
    return bool(text[index] < text[index + 1])


@njit(cache=True, nogil=True)
def _find(text: Unsigned, is_end: npt.NDArray[np.uint8], begin: int, end: int, out: Unsigned) -> int:
    """Writes the anchors among positions [begin, end) to the end of `out` (end - begin,), rising; how many."""
    place = len(out)
    rising = _rises(text, end + 1)
    after, here = text[end + 1], text[end]
    for i in range(end - 1, begin - 1, -1):
        before = text[i]
        rising = (here < after) | ((here == after) & rising)
        anchor = rising & (before > here) & (not is_end[before]) & (not is_end[here])
        out[place - 1] = i  # overwritten by the next anchor when this is none; there is always room: see the module
        place -= anchor
        after, here = here, before
    return len(out) - place


def find_anchors(codes: Codes, work: Unsigned, threads: int) -> Unsigned:
    """The positions of all anchors, rising. `work` (tokens,) is overwritten."""
    cuts = spans(len(work), threads)
    found = share(threads, lambda s: _find(codes.text, codes.is_end, s[0], s[1], work[s[0] : s[1]]), cuts)
    return np.concatenate([work[stop - held : stop] for (_, stop), held in zip(cuts, found)])
