"""Surface: measures of a text's lines, characters and words, from one scan. Mechanical; none of them is called quality.

Three groups, each a tuple of names and a kernel that fills as many floats. Shares lie in [0, 1]; `log_` is log1p of a
count; `per_100` a count for every 100 characters on a log1p scale. A text without lines or words gives zeros.

Price: about 8 ns a byte.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.features.lexicon import find
from typecase.core.features.scan import (
    ALL_UPPER,
    BYTE_CLASS,
    CONTROL,
    DIGIT,
    FOREIGN,
    HAN,
    IDEOGRAPH,
    LETTER,
    LOWER,
    MARK,
    NEWLINE,
    NUMBER,
    OTHER,
    SPACE,
    TAB,
    TAIL,
    UPPER,
    UPPER_FIRST,
    UPPER_LATER,
    WORD,
    Lines,
    Tokens,
)

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_MARKS = ".,;:?!\"'()[]{}<>/\\|=+*#@_-&%$^~`"

LINE_MEASURES = (
    "log_bytes", "log_lines", "line_mean", "line_spread", "line_variation", "line_max", "lines_short", "lines_long",
    "lines_blank", "bytes_in_short_lines", "bytes_in_long_lines", "lines_bulleted", "lines_numbered", "lines_end_stop",
    "lines_end_colon", "lines_end_comma", "lines_end_bracket", "lines_begin_upper", "lines_begin_lower", "lines_indented",
    "lines_of_one_token", "lines_ruled", "lines_key_value", "bytes_in_stopped_lines", "lines_repeated", "bytes_repeated_lines",
    "indent_jump_1", "indent_jump_2", "length_jump_1", "length_jump_2", "run_on_1", "run_on_2", "broken_1", "broken_2",
    "begins_lower", "ends_stopped",
)  # fmt: skip
CHARACTER_MEASURES = (
    "letters", "upper", "digits", "spaces", "tabs", "non_ascii", "han", "latin_extended", "cyrillic", "typographic",
    "pictographs", "controls", "mojibake", "replacement", "open_brackets", "bytes_entropy", "bytes_entropy_next",
    *(f"per_100 {mark}" for mark in _MARKS),
)  # fmt: skip
WORD_MEASURES = (
    "log_words", "words_per_byte", "word_mean", "word_spread", "words_long", "words_single", "words_upper", "words_capital",
    "words_camel", "words_snake", "words_with_digits", "words_foreign", "numbers", "marks", "ed", "ing", "ly", "tion",
    "double_spaces", "space_before_mark", "no_space_after_mark", "lower_after_stop", "capital_inside", "break_inside",
    "calls", "decimals", "addresses", "placeholders",
)  # fmt: skip

_MARK_SLOT = np.full(256, -1, np.int64)
for _slot, _mark in enumerate(_MARKS):
    _MARK_SLOT[ord(_mark)] = _slot
_NUM_PLAIN = len(CHARACTER_MEASURES) - len(_MARKS)


@njit(cache=True, nogil=True, inline="always")
def _is_stop(byte: int) -> bool:
    return byte == 46 or byte == 33 or byte == 63


@njit(cache=True, nogil=True, inline="always")
def _is_lower(byte: int) -> bool:
    return 97 <= byte <= 122


@njit(cache=True, nogil=True)
def _line_jumps(text: U8, lines: Lines, num_lines: int, lag: int) -> tuple[float, float, float, float]:
    """How unlike lines `lag` apart are: indent, length; how often a sentence runs on; how often it is cut."""
    indent = length = 0.0
    open_ends = run_on = broken = 0
    for row in range(num_lines - lag):
        after = row + lag
        indent += min(8, abs(lines.indent[row] - lines.indent[after]))
        length += abs(math.log((1 + lines.stop[row] - lines.start[row]) / (1.0 + lines.stop[after] - lines.start[after])))
        end = text[lines.stop[row] - 1]
        if _is_lower(end) or end == 44:
            open_ends += 1
            begin = text[lines.start[after]]
            if _is_lower(begin):
                run_on += 1
            elif BYTE_CLASS[begin] == UPPER:
                broken += 1
    pairs = max(1, num_lines - lag)
    return indent / pairs, length / pairs, run_on / max(1, open_ends), broken / max(1, open_ends)


@njit(cache=True, nogil=True)
def measure_lines(
    text: U8, tokens: Tokens, lines: Lines, num_lines: int, seen: npt.NDArray[np.uint64], slots: I32, out: F32
) -> None:
    """Fills LINE_MEASURES. `seen` has a power of two slots, at least twice the lines, 0 before and after."""
    size = len(text)
    out[:] = 0
    out[0], out[1] = math.log(1 + size), math.log(1 + num_lines)
    if num_lines == 0:
        return
    total = square = 0.0
    longest = breaks = 0
    for row in range(num_lines):
        start, stop = lines.start[row], lines.stop[row]
        num_bytes = stop - start
        first, last = lines.first[row], lines.last[row]
        total += num_bytes
        square += num_bytes * num_bytes
        longest = max(longest, num_bytes)
        out[6] += num_bytes < 20
        out[7] += num_bytes > 200
        out[9] += num_bytes if num_bytes < 40 else 0
        out[10] += num_bytes if num_bytes >= 100 else 0
        begin, end = text[start], text[stop - 1]
        out[11] += (
            begin == 42 or begin == 45 or begin == 43 or (begin == 0xE2 and tokens.length[first] == 1 and last > first + 1)
        )
        out[12] += tokens.kind[first] == NUMBER
        if _is_stop(end):
            out[13] += 1
            out[23] += num_bytes
        out[14] += end == 58
        out[15] += end == 44 or end == 59
        out[16] += end == 123 or end == 125 or end == 41 or end == 62
        out[17] += BYTE_CLASS[begin] == UPPER
        out[18] += _is_lower(begin)
        out[19] += lines.indent[row] > 0
        out[20] += last - first == 1
        out[21] += last - first == 1 and tokens.kind[first] == MARK and tokens.length[first] > 2
        if last - first > 2 and tokens.kind[first] == WORD and tokens.kind[first + 1] == MARK:
            sign = text[tokens.start[first + 1]]
            out[22] += sign == 58 or sign == 61
        key = np.uint64(num_bytes) + np.uint64(1)
        for token in range(first, last):
            key = (key ^ tokens.key[token]) * np.uint64(0x100000001B3)
        slot = find(key | np.uint64(1), seen)
        if seen[slot]:
            out[24] += 1
            out[25] += num_bytes
        seen[slot] = key | np.uint64(1)
        slots[row] = slot
    for row in range(num_lines):
        seen[slots[row]] = 0
    for pos in range(size):
        breaks += text[pos] == 10
    mean = total / num_lines
    spread = math.sqrt(max(0.0, square / num_lines - mean * mean))
    for slot in (6, 7, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24):
        out[slot] /= num_lines
    for slot in (9, 10, 23, 25):
        out[slot] /= total
    out[2], out[3], out[4], out[5] = math.log(1 + mean), math.log(1 + spread), spread / (1 + mean), math.log(1 + longest)
    out[8] = max(0.0, 1 - num_lines / (breaks + 1.0))
    out[26], out[28], out[30], out[32] = _line_jumps(text, lines, num_lines, 1)
    out[27], out[29], out[31], out[33] = _line_jumps(text, lines, num_lines, 2)
    out[34] = 1.0 if _is_lower(text[lines.start[0]]) else 0.0
    out[35] = 1.0 if _is_stop(text[lines.stop[num_lines - 1] - 1]) else 0.0


_LOG = np.array([0.0, 0.0] + [n * math.log2(n) for n in range(2, 4097)])
"""n log2 n, so that an entropy grows by a look-up for every byte."""


@njit(cache=True, nogil=True)
def _entropies(text: U8, pairs: I32, singles: I32) -> tuple[float, float]:
    """Bits of a byte, and of a byte given the one before it (by a table of hashed pairs)."""
    size = len(text)
    singles[:] = 0
    pairs[:] = 0
    slots = np.uint64(len(pairs) - 1)
    single = double = 0.0
    before = np.uint64(0)
    for pos in range(size):
        byte = np.uint64(text[pos])
        singles[byte] += 1
        slot = (before * np.uint64(40503) + byte) & slots
        count = pairs[slot] + 1
        if count < len(_LOG):
            pairs[slot] = count
            double += _LOG[count] - _LOG[count - 1]
        before = byte
    for count in singles:
        if count > 1:
            single += count * math.log2(count)
    bits = math.log2(max(1, size))
    single = bits - single / max(1, size)
    return single, bits - double / max(1, size) - single


@njit(cache=True, nogil=True)
def measure_characters(text: U8, pairs: I32, singles: I32, out: F32) -> None:
    """Fills CHARACTER_MEASURES; `pairs` int32 (power of two,) and `singles` int32 (256,) are scratch."""
    size = len(text)
    out[:] = 0
    if size == 0:
        return
    out[15], out[16] = _entropies(text, pairs, singles)
    num_chars = 0
    for byte in range(256):
        count = singles[byte]
        kind = BYTE_CLASS[byte]
        if kind != TAIL:
            num_chars += count
        if kind in (LOWER, UPPER, LETTER):
            out[0] += count
        if byte >= 0xC2:
            out[5] += count
        out[1] += count if kind == UPPER else 0
        out[2] += count if kind == DIGIT else 0
        out[3] += count if kind == SPACE else 0
        out[4] += count if kind == TAB else 0
        out[6] += count if kind == HAN else 0
        out[7] += count if 0xC3 <= byte <= 0xC9 else 0
        out[8] += count if 0xD0 <= byte <= 0xD3 else 0
        out[9] += count if byte == 0xE2 else 0
        out[10] += count if kind == OTHER else 0
        out[11] += count if kind == CONTROL else 0
        slot = _MARK_SLOT[byte]
        if slot >= 0:
            out[_NUM_PLAIN + slot] = count
    if out[5] > 0:
        for pos in range(size - 2):
            a, b, c = text[pos], text[pos + 1], text[pos + 2]
            if (a == 0xC3 and (b == 0x83 or b == 0x82 or b == 0xA2 or b == 0x90 or b == 0x91) and c >= 0xC2) or (
                a == 0xC2 and 0x80 <= b < 0xA0
            ):
                out[12] += 1
            elif a == 0xEF and b == 0xBF and c == 0xBD:
                out[13] += 1
    num_chars = max(1, num_chars)
    for slot in range(12):
        out[slot] /= num_chars
    out[12], out[13] = math.log(1 + 1000 * out[12] / num_chars), math.log(1 + 1000 * out[13] / num_chars)
    opened = singles[40] + singles[91] + singles[123]
    closed = singles[41] + singles[93] + singles[125]
    out[14] = abs(opened - closed) / (1.0 + opened + closed)
    for slot in range(_NUM_PLAIN, len(out)):
        out[slot] = math.log(1 + 100 * out[slot] / num_chars)


@njit(cache=True, nogil=True, inline="always")
def _count_word_pair(text: U8, tokens: Tokens, row: int, num_tokens: int, counts: I64) -> None:
    """Counts what shows only between the word `row` and its neighbours."""
    after = row + 1
    if row > 0 and tokens.kind[row - 1] == NUMBER and tokens.start[row] == tokens.stop[row - 1]:
        counts[10] += 1
    if after >= num_tokens:
        return
    kind, gap = tokens.kind[after], tokens.start[after] - tokens.stop[row]
    if kind == WORD:
        if gap > 1:
            counts[18] += 1
        if tokens.flag[after] & (UPPER_FIRST | ALL_UPPER) == UPPER_FIRST:
            counts[22] += 1
    elif kind == MARK:
        byte = text[tokens.start[after]]
        if gap == 0:
            if byte == 95:
                counts[9] += 1
            elif byte == 40:
                counts[24] += 1
        elif (byte == 44 or byte == 59 or byte == 46) and tokens.length[after] == 1:
            counts[19] += 1
    elif kind == NUMBER:
        if gap == 0:
            counts[10] += 1
    elif (
        kind == NEWLINE
        and tokens.length[after] == 1
        and after + 1 < num_tokens
        and tokens.kind[after + 1] == WORD
        and tokens.flag[after + 1] & UPPER_FIRST == 0
    ):
        counts[23] += 1


@njit(cache=True, nogil=True, inline="always")
def _count_mark_pair(text: U8, tokens: Tokens, row: int, num_tokens: int, counts: I64) -> None:
    """Counts what shows only between the mark `row` and its neighbours."""
    after = row + 1
    if after >= num_tokens:
        return
    byte, glued = text[tokens.start[row]], tokens.start[after] == tokens.stop[row]
    word_after = tokens.kind[after] == WORD
    if byte == 46 or byte == 44 or byte == 59 or byte == 58:
        if glued and word_after and row > 0 and tokens.kind[row - 1] == WORD:
            counts[20] += 1
        if byte == 46 and word_after and not glued and tokens.flag[after] & UPPER_FIRST == 0:
            counts[21] += 1
        if byte == 58 and text[tokens.start[after]] == 47 and tokens.length[after] == 2:
            counts[26] += 1
    elif byte == 64:
        counts[26] += 1
    elif byte == 91 and word_after and after + 1 < num_tokens and text[tokens.start[after + 1]] == 93:
        counts[27] += 1


@njit(cache=True, nogil=True, inline="always")
def _count_word(tokens: Tokens, row: int, counts: I64) -> None:
    """Counts what shows in the word `row` alone."""
    flag, length = tokens.flag[row], tokens.length[row]
    if flag & (UPPER_FIRST | UPPER_LATER | ALL_UPPER | FOREIGN):
        if flag & ALL_UPPER:
            counts[6] += 1
        elif flag & UPPER_LATER:
            counts[8] += 1
        if flag & UPPER_FIRST:
            counts[7] += 1
        if flag & FOREIGN:
            counts[11] += 1
    if length == 1:
        counts[5] += 1
    elif length > 4:
        if length > 12:
            counts[4] += 1
        tail = tokens.tail[row]
        pair = tail & np.uint64(0xFFFF)
        if pair == np.uint64(0x6564):
            counts[14] += 1
        elif tail == np.uint64(0x696E67):
            counts[15] += 1
        elif pair == np.uint64(0x6C79):
            counts[16] += 1
        elif tail == np.uint64(0x696F6E) or tail == np.uint64(0x656E74) or tail == np.uint64(0x697479):
            counts[17] += 1


@njit(cache=True, nogil=True)
def measure_words(text: U8, tokens: Tokens, num_tokens: int, counts: I64, out: F32) -> None:
    """Fills WORD_MEASURES; `counts` int64 of their number is scratch."""
    counts[:] = 0
    total = square = num_words = 0
    for row in range(num_tokens):
        kind = tokens.kind[row]
        if kind == WORD:
            length = int(tokens.length[row])
            num_words += 1
            total += length
            square += length * length
            _count_word(tokens, row, counts)
            _count_word_pair(text, tokens, row, num_tokens, counts)
        elif kind == MARK:
            counts[13] += 1
            _count_mark_pair(text, tokens, row, num_tokens, counts)
        elif kind == NUMBER:
            counts[12] += 1
            if row + 2 < num_tokens and tokens.kind[row + 2] == NUMBER and text[tokens.stop[row]] == 46:
                counts[25] += tokens.start[row + 2] - tokens.stop[row] == 1
        elif kind == IDEOGRAPH:
            counts[11] += 1
    scale = 1.0 / max(1, num_words, num_tokens // 4)
    for slot in range(4, len(out)):
        out[slot] = counts[slot] * scale
    mean = total / max(1, num_words)
    out[0], out[1] = math.log(1 + num_words), num_words / max(1, len(text))
    out[2], out[3] = mean, math.sqrt(max(0.0, square / max(1, num_words) - mean * mean))
