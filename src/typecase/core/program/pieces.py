"""Pieces: a line that is too long to be shown, cut where a reader would cut it.

    "One sentence. Another one. "   ->   "One sentence. " "Another one. "        sentence ends, else blanks, else clusters

Pieces tile the line; a cut never lies inside a character cluster, and inside a word only where a word alone is longer than a
piece may be. Blanks behind a sentence stay with it.

Price: linear in the line.
"""

from __future__ import annotations

import re
from typing import Final

from typecase.core.words import is_grapheme_boundary, is_word_boundary

_SENTENCE: Final = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？；][”’」』）]*|[;:]\s+")
_BLANK: Final = re.compile(r"\s+")


def cut_line(text: str, start: int, stop: int, most: int) -> list[tuple[int, int]]:
    """Characters [start, stop) of `text` as consecutive spans of at most `most` characters, or one cluster, each."""
    pieces: list[tuple[int, int]] = []
    while stop - start > most:
        cut = _cut(text, start, start + most, stop)
        pieces.append((start, cut))
        start = cut
    if start < stop or not pieces:
        pieces.append((start, stop))
    return pieces


def _cut(text: str, start: int, limit: int, stop: int) -> int:
    """The last good place to cut in (start, limit], or the first possible one behind it."""
    for pattern in (_SENTENCE, _BLANK):
        ends = [m.end() for m in pattern.finditer(text, start, limit)]
        for end in reversed(ends):
            if start < end and is_grapheme_boundary(text, end) and is_word_boundary(text, end):
                return end
    for test in (_both, is_grapheme_boundary):
        for at in range(limit, start, -1):
            if test(text, at):
                return at
    at = limit + 1
    while at < stop and not is_grapheme_boundary(text, at):
        at += 1
    return min(at, stop)


def _both(text: str, at: int) -> bool:
    return is_word_boundary(text, at) and is_grapheme_boundary(text, at)
