"""Rows that may be removed whatever else is: what is before and behind them can stand beside anything that is left.

    whole lines           always, but where a CR of its own could come to stand before an LF of its own: the two would be one
    pieces of a line      if both edges lie between words, a blank stands before the piece, and what is behind can begin a word

Price: a few characters a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from typecase.core.program.chunks import Row
from typecase.core.program.guards import GuardPolicy
from typecase.core.words import is_grapheme_boundary, is_word_boundary


def removable_rows(text: str, rows: Sequence[Row], numbers: Iterable[int], policy: GuardPolicy) -> list[int]:
    """Those of `numbers` whose rows may be removed."""
    delicate = _holds_lone_cr(text)
    return [n for n in numbers if _is_removable(text, rows, n, policy, delicate)]


def _is_removable(text: str, rows: Sequence[Row], n: int, policy: GuardPolicy, delicate: bool) -> bool:
    row = rows[n]
    if not row.whole and (delicate or not _is_loose(text, row, policy)):
        return False
    next_is_empty = n + 1 < len(rows) and rows[n + 1].start == rows[n + 1].stop
    return not (delicate and next_is_empty)


def _is_loose(text: str, row: Row, policy: GuardPolicy) -> bool:
    """Whether a piece of a line can go: it becomes a string, with the rules of strings."""
    before = text[row.start - 1 : row.start] if row.start else "\n"
    behind = text[row.stop : row.stop + 1] or "\n"
    if not all(is_grapheme_boundary(text, at) and is_word_boundary(text, at) for at in (row.start, row.stop)):
        return False
    if before not in " \t\r\n" or not is_grapheme_boundary("a" + behind, 1):
        return False
    small = row.stop - row.start < policy.min_chars
    return row.start < row.stop and (not small or text[row.start : row.stop] in policy.separators)


def _holds_lone_cr(text: str) -> bool:
    return "\r" in text and "\r" in text.replace("\r\n", "")
