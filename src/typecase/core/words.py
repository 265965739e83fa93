"""Length units, word segments and the places where a text may be cut, for any script.

"Words by blanks" counts a Chinese page as one word and drops it. Here length is counted in units, and a unit is worth
the same in every script:

    run of letters, digits, marks in scripts that put blanks between words       1 unit
    Han, Hiragana, Katakana                                                      1 unit per 1.5 characters
    Thai, Lao, Khmer, Myanmar                                                    1 unit per 4 characters
    punctuation, symbols, emoji                                                  0

    "state-of-the-art 中文字 !"  ->  12 + 3 * 8 = 36 twelfths = 3 units

Units are kept in twelfths, as integers, so that a threshold has no floating ties. A run is cut where the kind of
script changes (the three kinds above; Latin against Cyrillic is no change). An apostrophe or hyphen between two
letters belongs to the word.

Price: about 3 ns a byte of UTF-8, 0.4 where a text is all ASCII. The character table (256 KB) is made at first use, in
about 30 ms, and follows the Unicode version of the Python that runs (`UNICODE`): two Python versions may differ on
newly assigned characters.
"""

from __future__ import annotations

import functools
import unicodedata
from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.utf8 import code_at

UNIT: Final = 12
"""Twelfths in one unit."""

UNICODE: Final = unicodedata.unidata_version

OTHER: Final = 0
LETTER: Final = 1
KANJI: Final = 2
THAI: Final = 3
JOINER: Final = 4
MARK: Final = 5

_TABLE_SIZE = 0x40000
_KANJI_RANGES = (
    (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3041, 0x3096), (0x309D, 0x309F),
    (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F), (0x1AFF0, 0x1B16F), (0x20000, 0x3FFFD),
)  # fmt: skip
_THAI_RANGES = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x19E0, 0x19FF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F))
_MARK_RANGES = (
    (0x0300, 0x036F), (0x0483, 0x0489), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x200C, 0x200D), (0x20D0, 0x20FF),
    (0x302A, 0x302F), (0x3099, 0x309A), (0xFE00, 0xFE0F), (0xFE20, 0xFE2F),
)  # fmt: skip
_JOINERS = "'-\u2019\u02bc\u2010\u2011"
_MAX_MARKS = 32

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]


@functools.cache
def classes() -> U8:
    """Class of every character below U+40000: OTHER, LETTER, KANJI, THAI, JOINER or MARK, uint8 (0x40000,)."""
    table = np.zeros(_TABLE_SIZE, np.uint8)
    kinds = np.array([ord(unicodedata.category(chr(c))[0]) for c in range(_TABLE_SIZE)], np.uint8)
    word = (kinds == ord("L")) | (kinds == ord("N")) | (kinds == ord("M"))
    table[word] = LETTER
    for ranges, kind in ((_KANJI_RANGES, KANJI), (_THAI_RANGES, THAI)):
        for low, high in ranges:
            table[low : high + 1][word[low : high + 1]] = kind
    for low, high in _MARK_RANGES:
        table[low : high + 1] = MARK
    table[[ord(c) for c in _JOINERS]] = JOINER
    return table


@functools.cache
def _class_bytes() -> bytes:
    return classes().tobytes()


def class_of(char: str) -> int:
    """Class of one character; variation selectors beyond the table are marks."""
    code = ord(char)
    if code < _TABLE_SIZE:
        return _class_bytes()[code]
    return MARK if 0xE0100 <= code <= 0xE01EF else OTHER


def units_of(text: str) -> int:
    """Length of `text` in twelfths of a unit."""
    if text.isascii():
        return int(_units_ascii(np.frombuffer(text.encode(), np.uint8)))
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    return int(_units(data, 0, len(data), classes()))


def units_of_buffers(values: U8, offsets: I64) -> I64:
    """Length in twelfths of each string `values[offsets[i]:offsets[i + 1]]` of UTF-8, int64 (strings,)."""
    out = np.zeros(len(offsets) - 1, np.int64)
    _units_each(values, offsets, classes(), out)
    return out


@njit(cache=True, nogil=True)
def _units_each(values, offsets, table, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = _units(values, offsets[i], offsets[i + 1], table)


@njit(cache=True, nogil=True)
def _units_ascii(values):  # type: ignore[no-untyped-def]
    """`_units` for bytes below 128: word starts are counted without a branch, eight times as fast."""
    total = np.int64(0)
    # Of the last character; `before`: the one before it was a letter.
    letter: np.bool_ = np.bool_(False)
    joiner: np.bool_ = np.bool_(False)
    before: np.bool_ = np.bool_(False)
    for b in values:
        now = (np.uint8((b | np.uint8(32)) - np.uint8(97)) < np.uint8(26)) | (np.uint8(b - np.uint8(48)) < np.uint8(10))
        total += now & ~letter & ~(joiner & before)
        before = letter
        letter = now
        joiner = (b == 39) | (b == 45)
    return total * 12


@njit(cache=True, nogil=True)
def _units(values, start, stop, table):  # type: ignore[no-untyped-def]
    total = 0
    state = 0  # 0 outside a word, 1 in a word, 2 after a joiner that followed a letter
    i = start
    while i < stop:
        lead = values[i]
        if lead < 128:
            kind = table[np.uint8(lead)]
            i += 1
        else:
            code, size = code_at(values, i, stop)
            i += size
            kind = table[code] if code < 0x40000 else np.uint8(5 if 0xE0100 <= code <= 0xE01EF else 0)
        if kind == 1:
            if state == 0:
                total += 12
            state = 1
        elif kind == 4 and state == 1:
            state = 2
        elif kind != 5:
            state = 0
            if kind == 2:
                total += 8
            elif kind == 3:
                total += 3
    return total


def is_word_boundary(text: str, pos: int) -> bool:
    """Whether `text` may be cut before character `pos` without cutting a word.

    In unspaced scripts (classes KANJI and THAI) every place is a boundary; combine with `is_grapheme_boundary`.
    """
    if pos <= 0 or pos >= len(text):
        return True
    right = class_of(text[pos])
    if right == OTHER:
        return True
    left, at = _base_class(text, pos - 1)
    if right == LETTER:
        if left == JOINER:
            return _base_class(text, at - 1)[0] != LETTER
        return left != LETTER
    if right == JOINER and left == LETTER:
        return _next_class(text, pos + 1) != LETTER
    return right != MARK or left == OTHER


def _base_class(text: str, pos: int) -> tuple[int, int]:
    """Class of the character at `pos` and where it is, marks skipped backwards; OTHER before the text."""
    for _ in range(_MAX_MARKS):
        if pos < 0:
            return OTHER, pos
        kind = class_of(text[pos])
        if kind != MARK:
            return kind, pos
        pos -= 1
    # So many marks are no writing; calling them a letter refuses the cut.
    return LETTER, pos


def _next_class(text: str, pos: int) -> int:
    """Class of the character at `pos` or behind the marks there; OTHER behind the text."""
    for at in range(pos, min(pos + _MAX_MARKS, len(text))):
        kind = class_of(text[at])
        if kind != MARK:
            return kind
    return OTHER if pos + _MAX_MARKS >= len(text) else LETTER


def words_of(text: str) -> list[str]:
    """The words of `text` in order: runs in spaced scripts, single grapheme clusters in unspaced ones."""
    found: list[str] = []
    start = 0
    length = len(text)
    while start < length:
        kind = class_of(text[start])
        stop = start + 1
        if kind in (LETTER, KANJI, THAI):
            while stop < length and not _ends(text, stop, kind):
                stop += 1
            found.append(text[start:stop])
        start = stop
    return found


def _ends(text: str, pos: int, kind: int) -> bool:
    if kind == LETTER:
        return is_word_boundary(text, pos) and class_of(text[pos]) != MARK
    # A joiner would draw the first letter of a spaced word into the cluster, and tear the word.
    return is_grapheme_boundary(text, pos) or (class_of(text[pos]) == LETTER and is_word_boundary(text, pos))


def is_grapheme_boundary(text: str, pos: int) -> bool:
    """Whether no extended grapheme cluster (UAX #29) spans the place before character `pos`.

    Character classes come from ranges and categories; where they are coarser than the standard the answer is False: a
    cut is refused, not made inside a cluster. Indic conjuncts are left to `is_word_boundary`, which keeps them whole.
    """
    if pos <= 0 or pos >= len(text):
        return True
    left, right = text[pos - 1], text[pos]
    if right < "\x7f" and left < "\x7f":
        return not (left == "\r" and right == "\n")
    if left in "\r\n" or right in "\r\n":
        return True
    if _extends(right):
        return _is_control(left)
    if left == "\u200d" or left in _PREPEND:
        return False
    if "\U0001f1e6" <= right <= "\U0001f1ff" and "\U0001f1e6" <= left <= "\U0001f1ff":
        return _even_flags(text, pos)
    return not _hangul_joins(ord(left), ord(right))


_PREPEND = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd")


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Zl", "Zp")


def _extends(char: str) -> bool:
    if unicodedata.category(char)[0] == "M" or char in "\u200c\u200d\uff9e\uff9f\u0e33\u0eb3":
        return True
    return "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f"


def _even_flags(text: str, pos: int) -> bool:
    count = 0
    while count < pos and count < 2 * _MAX_MARKS and "\U0001f1e6" <= text[pos - 1 - count] <= "\U0001f1ff":
        count += 1
    return count % 2 == 0 and count < 2 * _MAX_MARKS


def _hangul_joins(left: int, right: int) -> bool:
    """Rules GB6-GB8: L x (L V LV LVT), (LV V) x (V T), (LVT T) x T."""
    if not (0x1100 <= left <= 0x11FF or 0xA960 <= left <= 0xA97C or 0xAC00 <= left <= 0xD7FB):
        return False
    lead = 0x1100 <= left <= 0x115F or 0xA960 <= left <= 0xA97C
    vowel_right = 0x1160 <= right <= 0x11A7 or 0xD7B0 <= right <= 0xD7C6
    tail_right = 0x11A8 <= right <= 0x11FF or 0xD7CB <= right <= 0xD7FB
    if lead:
        return 0x1100 <= right <= 0x115F or 0xA960 <= right <= 0xA97C or vowel_right or 0xAC00 <= right <= 0xD7A3
    open_syllable = 0xAC00 <= left <= 0xD7A3 and (left - 0xAC00) % 28 == 0
    if open_syllable or 0x1160 <= left <= 0x11A7 or 0xD7B0 <= left <= 0xD7C6:
        return vowel_right or tail_right
    return tail_right
