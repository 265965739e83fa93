"""Strings that may be cut out of a row: where they may begin, where they may end, and what no longer names one place.

    row      Read on | [edit] More          cut "[edit] " or " | [edit]", never "ead" (cuts a word), never "e" (occurs twice)
    bytes    of the row as the language writes it in a string: escapes for quotes, backslashes, control characters

A string [p, q) may be cut if both edges lie between words and character clusters, the two ends that meet fit together
("foo" and "bar" would not), and it occurs once in the row, counted with overlaps. Whether two ends fit is a matter of one
small class on each side, so that all pairs need no table of their own:

    left[p]   what may follow what stands before p        needs[q]   what must be allowed for what stands at q to follow

After a cut the row has two open stretches, each ending at a character that no word or cluster reaches across (an anchor), so
that a later cut cannot disturb the edges of an earlier one; a piece of a longer line is treated so from the start.

Where Unicode makes the question hard (flags, jamo, joiners) the answer is no. Price: the square of the row's length once for
the uniqueness, 4 ms for 2,000 characters, only for rows that are asked about; then about 10 ns a byte and candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.program.language import Statement, show_statement
from typecase.core.words import JOINER, LETTER, OTHER, classes, is_grapheme_boundary, is_word_boundary

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
Stretches = tuple[tuple[int, int], ...]
"""Open stretches [start, stop) of a row, in characters."""

MAX_ROW_CHARS: Final = 8192
MAX_ROW_BYTES: Final = 8192
"""Rows that are longer can be removed, but no string in them."""

_AFTER_ANY: Final = 1
_AFTER_JOINED: Final = 2
_AFTER_CLUSTER: Final = 4
_NEVER: Final = 8
_CONTEXT: Final = 80


@dataclass(frozen=True, slots=True, eq=False)
class RowTable:
    """A row of n characters, m bytes as written in a string.

    data      uint8 (m,)          the bytes
    byte_of   int32 (n + 1,)      where each character begins in them
    char_of   int32 (m + 1,)      the character that begins at a byte, -1 inside one
    unique    int32 (n,)          the least q for which [p, q) occurs once, n + 1 where there is none
    edge      bool  (n + 1,)      whether the text may be cut before a character
    left      uint8 (n + 1,)      see the module
    needs     uint8 (n + 1,)
    anchor    bool  (n,)          characters that nothing reaches across
    single    bool  (n,)          characters that may be cut alone
    """

    data: U8
    byte_of: I32
    char_of: I32
    unique: I32
    edge: npt.NDArray[np.bool_]
    left: U8
    needs: U8
    anchor: npt.NDArray[np.bool_]
    single: npt.NDArray[np.bool_]

    @property
    def num_chars(self) -> int:
        """Characters of the row."""
        return len(self.unique)


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """What may be cut in the open stretches of a row.

    starts   int32 (s,)     characters at which a string may begin
    limit    int32 (n + 1,) for each character the end of its stretch, -1 where it lies in none
    last     int32 (n,)     the last place where a string that begins there may end, -1 where there is none
    least    bytes of the shortest string
    """

    table: RowTable
    starts: I32
    limit: I32
    last: I32
    least: int
    small: int
    whole: bool

    def end_after(self, start: int, char: int) -> int:
        """The first place at or behind `char` where a string that begins at `start` may end, -1 where there is none."""
        return int(end_from(start, char, *self.arrays))

    def may_end(self, start: int, char: int) -> bool:
        """Whether [start, char) may be cut."""
        return char > start and self.end_after(start, char) == char

    @property
    def arrays(self) -> tuple[I32, I32, I32, npt.NDArray[np.bool_], U8, U8, npt.NDArray[np.bool_], int, bool]:
        """As the kernels take them."""
        t = self.table
        return self.limit, self.last, t.unique, t.edge, t.left, t.needs, t.single, self.small, self.whole


def row_table(text: str, separators: str) -> RowTable | None:
    """The table of a row without line terminators; None where it is too long, or no UTF-8."""
    if not text or len(text) > MAX_ROW_CHARS:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    written = text if _is_plain_ascii(text) else None
    parts = None if written is not None else [_written(char) for char in text]
    data = written.encode() if parts is None and written is not None else b"".join(parts or ())
    if len(data) > MAX_ROW_BYTES:
        return None
    sizes = np.ones(len(text), np.int32) if parts is None else np.array([len(part) for part in parts], np.int32)
    byte_of = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    char_of = np.full(len(data) + 1, -1, np.int32)
    char_of[byte_of] = np.arange(len(text) + 1, dtype=np.int32)
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)
    unique = np.empty(len(text), np.int32)
    _least_unique(codes, unique)
    edge, left, needs = _edges(text, codes)
    anchor = (_class_of(codes) == OTHER) & _is_easy(codes)
    single = np.array([char in separators for char in text], np.bool_)
    return RowTable(np.frombuffer(data, np.uint8), byte_of, char_of, unique, edge, left, needs, anchor, single)


def open_row(table: RowTable, *, whole: bool) -> Stretches:
    """The stretches of a row that nothing has been cut from; `whole` where it is all of its line."""
    if whole:
        return ((0, table.num_chars),)
    anchors = np.flatnonzero(table.anchor)
    return ((int(anchors[0]) + 1, int(anchors[-1])),) if len(anchors) > 1 and anchors[-1] > anchors[0] + 1 else ()


def without(table: RowTable, stretches: Stretches, start: int, stop: int) -> Stretches:
    """The stretches that are left when [start, stop), which lies in one of them, has been cut."""
    done: list[tuple[int, int]] = []
    for low, high in stretches:
        if not low <= start < stop <= high:
            done.append((low, high))
            continue
        before = np.flatnonzero(table.anchor[low:start])
        behind = np.flatnonzero(table.anchor[stop:high])
        if len(before) and before[-1] > 0:
            done.append((low, low + int(before[-1])))
        if len(behind) and stop + behind[0] + 1 < high:
            done.append((stop + int(behind[0]) + 1, high))
    return tuple(done)


def cuts_of(table: RowTable, stretches: Stretches, *, small: int, whole: bool) -> Cuts:
    """What may be cut; strings of fewer than `small` characters only where they are single separators."""
    num = table.num_chars
    limit = np.full(num + 1, -1, np.int32)
    for low, high in stretches:
        limit[low:high] = high
    last = np.full(num, -1, np.int32)
    starts = np.empty(num, np.int32)
    arrays = (limit, last, table.unique, table.edge, table.left, table.needs, table.single, small, whole)
    found, least = _open(table.byte_of, starts, *arrays)
    return Cuts(table, starts[:found].copy(), limit, last, int(least), small, whole)


def _is_plain_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _written(char: str) -> bytes:
    """A character as the language writes it inside a string."""
    if char >= " " and char != '"' and char != "\\" and char.isascii() and char != "\x7f":
        return char.encode()
    shown = show_statement(Statement("normalize", text=char))
    return shown[len('normalize(form="') : -len('")')].encode()


def _class_of(codes: npt.NDArray[np.int64]) -> U8:
    table = classes()
    return np.where(codes < len(table), table[np.minimum(codes, len(table) - 1)], np.uint8(OTHER)).astype(np.uint8)


def _is_easy(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Characters without marks, joiners or parts of clusters: Latin, punctuation, Chinese."""
    latin = (codes >= 0x20) & (codes < 0x300)
    punctuation = ((codes >= 0x2010) & (codes <= 0x2027)) | ((codes >= 0x2030) & (codes <= 0x205E))
    chinese = ((codes >= 0x3000) & (codes < 0x302A)) | ((codes >= 0x4E00) & (codes <= 0x9FFF))
    return np.asarray(latin | punctuation | chinese | (codes == 9))


def _edges(text: str, codes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.bool_], U8, U8]:
    if bool(_is_easy(codes).all()):
        left, needs = _easy_edges(_class_of(codes))
        return (needs & ~left) == 0, left, needs
    places = range(len(text) + 1)
    edge = np.array([is_grapheme_boundary(text, at) and is_word_boundary(text, at) for at in places], np.bool_)
    left = np.array([_left(text[max(0, at - _CONTEXT) : at]) for at in places], np.uint8)
    needs = np.array([_needs(text[at : at + _CONTEXT]) for at in places], np.uint8)
    return edge, left, needs


def _easy_edges(kinds: U8) -> tuple[U8, U8]:
    """`left` and `needs` of a row of easy characters."""
    num = len(kinds)
    around = np.concatenate(([OTHER, OTHER], kinds, [OTHER, OTHER])).astype(np.uint8)
    before, first = around[1 : num + 2], around[: num + 1]  # of character at - 1 and at - 2
    here, behind = around[2 : num + 3], around[3 : num + 4]
    letter, joined = before == LETTER, (before == JOINER) & (first == LETTER)
    left = np.full(num + 1, _AFTER_CLUSTER, np.uint8)
    left |= np.where(letter | joined, 0, _AFTER_ANY).astype(np.uint8)
    left |= np.where(letter, 0, _AFTER_JOINED).astype(np.uint8)
    needs = np.full(num + 1, _AFTER_CLUSTER, np.uint8)
    needs[here == LETTER] = _AFTER_ANY
    needs[(here == JOINER) & (behind == LETTER)] = _AFTER_JOINED
    return left, needs


def _left(before: str) -> int:
    """What may follow `before`: found by asking, so that there is one place that knows where words end."""
    at = len(before)
    if not (is_grapheme_boundary(before + "a", at) and is_grapheme_boundary(before + "\uac00", at)):
        return 0
    any_word = _AFTER_ANY if is_word_boundary(before + "a", at) else 0
    return any_word | (_AFTER_JOINED if is_word_boundary(before + "'a", at) else 0) | _AFTER_CLUSTER


def _needs(behind: str) -> int:
    """What `behind` needs of what it is to follow."""
    if any(not is_grapheme_boundary(probe + behind, 1) for probe in ("a", "\uac00", "\uac01", "\U0001f1e6")):
        return _NEVER
    if is_word_boundary("a" + behind, 1):
        return _AFTER_CLUSTER
    return _AFTER_JOINED if is_word_boundary("a'" + behind, 2) else _AFTER_ANY


@njit(cache=True, nogil=True)
def _least_unique(codes, unique):  # type: ignore[no-untyped-def]
    """For each p the least q with [p, q) once in the row: one more than its longest common beginning with another place."""
    num = len(codes)
    longest = np.zeros(num, np.int32)
    below = np.zeros(num + 1, np.int32)  # of p + 1 with each j
    for p in range(num - 1, -1, -1):
        code = codes[p]
        for j in range(p + 1, num):  # below[j + 1] is still that of p + 1
            below[j] = below[j + 1] + 1 if codes[j] == code else 0
            if below[j] > longest[p]:
                longest[p] = below[j]
            if below[j] > longest[j]:
                longest[j] = below[j]
    for p in range(num):
        unique[p] = p + longest[p] + 1 if p + longest[p] < num else num + 1


@njit(cache=True, nogil=True)
def _fits(p, q, limit, unique, edge, left, needs, single, small, whole):  # type: ignore[no-untyped-def]
    if q <= p or q > limit[p] or q < unique[p] or not edge[p] or not edge[q]:
        return False
    if needs[q] & ~left[p]:
        return False
    if q - p < small and not (q - p == 1 and single[p]):
        return False
    return not (whole and p == 0 and q == len(unique))


@njit(cache=True, nogil=True)
def end_from(p, char, limit, last, unique, edge, left, needs, single, small, whole):  # type: ignore[no-untyped-def]
    for q in range(char, last[p] + 1):
        if _fits(p, q, limit, unique, edge, left, needs, single, small, whole):
            return q
    return -1


@njit(cache=True, nogil=True)
def _open(byte_of, starts, limit, last, unique, edge, left, needs, single, small, whole):  # type: ignore[no-untyped-def]
    """Fills `last` and `starts`; the number of starts and the bytes of the shortest string."""
    num, least = 0, 1 << 30
    for p in range(len(unique)):
        if limit[p] < 0 or not edge[p]:
            continue
        for q in range(limit[p], p, -1):
            if _fits(p, q, limit, unique, edge, left, needs, single, small, whole):
                last[p] = q
                break
        if last[p] < 0:
            continue
        starts[num] = p
        num += 1
        q = end_from(p, p + 1, limit, last, unique, edge, left, needs, single, small, whole)
        least = min(least, byte_of[q] - byte_of[p])
    return num, least
