"""Shape: what one line looks like, whatever it says.

    "  • Next page »"     length, words, casing, digits, marks, how it begins and ends, indent, blank lines around it

A row a written line (one that is not blank), float32, columns as NAMES says. Shares are of the line's characters that
are not blank, unless the name says words or letters. Works on UTF-8 bytes; a character is a byte that is no tail.

Price: 20 ns a byte.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

NAMES: Final = (
    "size",
    "words",
    "upper_letters",
    "digits",
    "marks",
    "begins_upper",
    "begins_lower",
    "begins_number",
    "ends_sentence",
    "ends_colon",
    "ends_comma",
    "ends_bracket",
    "bullet",
    "indent",
    "tabs",
    "separators",
    "code",
    "address",
    "beyond_ascii",
    "stop_words",
    "capital_words",
    "word_length",
    "copyright",
    "year",
    "name_like",
    "gap_before",
    "gap_after",
)

_STOP: Final = """
the of and to a in is that for it as with be on by this from are or an not can if which you will when has have at
der die das und ist ein eine nicht mit von zu den auf werden kann wenn sie im des
le la les et un une est que pour dans en du qui pas sur
el los las de y es para con por se no il di che per non sono
"""


_IS_CODE: Final = np.isin(np.arange(256), np.frombuffer(b"{}();=<>_[]&*\\$", np.uint8))
"""Marks that code has more of than text."""


def _stop_keys() -> U64:
    keys = []
    for word in sorted(set(_STOP.split())):
        key = 0xCBF29CE484222325
        for byte in word.encode():
            key = ((key ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        keys.append(key)
    return np.sort(np.array(keys, np.uint64))


STOP_KEYS: Final = _stop_keys()
_MAY_STOP: Final = np.isin(np.arange(4096), (STOP_KEYS >> np.uint64(20)).astype(np.int64) & 4095)
"""Which twelve bits of a key a stop word has: most other words need no search."""


@njit(cache=True, nogil=True)
def _is_stop_word(key: np.uint64, keys: U64) -> bool:
    if not _MAY_STOP[np.int64(key >> np.uint64(20)) & 4095]:
        return False
    at = np.searchsorted(keys, key)
    return bool(at < len(keys) and keys[at] == key)


@njit(cache=True, nogil=True)
def measure_shapes(
    values: U8, starts: I64, stops: I64, before: I64, after: I64, indents: I64, stop_keys: U64, out: F32
) -> None:
    """Fills `out` float32 (lines, at least len(NAMES)).

    Lines are values[starts[i]:stops[i]] without blanks at their ends; `before` and `after` are the blank lines around
    each, `indents` the blanks that were before it in its line.
    """
    for row in range(len(starts)):
        _measure(values[starts[row] : stops[row]], stop_keys, out[row])
        out[row, 13] = min(indents[row], 16)
        out[row, 25] = min(before[row], 4)
        out[row, 26] = min(after[row], 4)


@njit(cache=True, nogil=True)
def _measure(line, stop_keys, out):  # type: ignore[no-untyped-def]
    size = letters = upper = digits = marks = beyond = separators = code = tabs = address = 0
    words = stops = capitals = word_chars = ideographs = years = names = 0
    prime, basis = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
    key, inside, length, run = basis, False, 0, 0
    last = np.uint8(32)
    for pos in range(len(line) + 1):
        byte = line[pos] if pos < len(line) else np.uint8(32)
        is_upper, is_lower = 65 <= byte <= 90, 97 <= byte <= 122
        is_digit = 48 <= byte <= 57
        if is_upper or is_lower or byte >= 128:
            if not inside:
                key, length = basis, 0
                capitals += int(is_upper)
                if 0xE3 <= byte < 0xEA:
                    ideographs += 1
            elif is_upper and 97 <= last <= 122:
                names += 1
            inside = True
            key = (key ^ np.uint64(byte + 32 if is_upper else byte)) * prime
            length += int(byte < 0x80 or byte >= 0xC0)
        else:
            if inside:
                words += 1
                word_chars += length
                stops += length <= 6 and _is_stop_word(key, stop_keys)
            inside = False
        if is_digit:
            run += 1
            if run == 4 and ((line[pos - 3] == 49 and line[pos - 2] == 57) or (line[pos - 3] == 50 and line[pos - 2] == 48)):
                years += 1
        else:
            run = 0
        if pos < len(line) and byte != 32:
            size += int(byte < 0x80 or byte >= 0xC0)
            upper += int(is_upper)
            letters += int(is_upper or is_lower)
            digits += int(is_digit)
            beyond += int(byte >= 0xC0)
            tabs += byte == 9
            if 33 <= byte < 127 and not (is_upper or is_lower or is_digit):
                marks += 1
                separators += byte == 124 or byte == 62
                code += _IS_CODE[byte]
                names += byte == 95
                address += byte == 64
                address += byte == 58 and pos + 2 < len(line) and line[pos + 1] == 47 and line[pos + 2] == 47
            if byte == 0xC2 and pos + 1 < len(line):
                separators += line[pos + 1] in (0xBB, 0xAB, 0xB7)
            if byte == 0xE2 and pos + 2 < len(line):
                separators += line[pos + 1] == 0x86 or (line[pos + 1] == 0x80 and line[pos + 2] in (0xB9, 0xBA))
        last = byte
    _write(line, out, size, letters, upper, digits, marks, beyond, separators, code, tabs)
    out[1] = math.log1p(words + ideographs)
    out[17] = min(address, 3)
    out[19] = stops / (words + 1)
    out[20] = capitals / (words + 1)
    out[21] = word_chars / (words + 1)
    out[22] = _has_copyright(line)
    out[23] = min(years, 3)
    out[24] = min(names, 4) / (words + 1)


@njit(cache=True, nogil=True)
def _write(line, out, size, letters, upper, digits, marks, beyond, separators, code, tabs):  # type: ignore[no-untyped-def]
    whole = max(1, size)
    out[0] = math.log1p(size)
    out[2] = upper / max(1, letters)
    out[3] = digits / whole
    out[4] = marks / whole
    bullet = len(line) > 2 and line[0] == 0xE2 and line[1] == 0x80 and line[2] == 0xA2
    first = 3 if bullet else 0
    while first < len(line) and line[first] <= 32:
        first += 1
    head = line[first] if first < len(line) else np.uint8(32)
    out[5] = 65 <= head <= 90
    out[6] = 97 <= head <= 122
    out[7] = 48 <= head <= 57
    end = line[-1] if len(line) else np.uint8(32)
    wide = len(line) > 2 and line[-3] in (0xE3, 0xEF) and line[-1] in (0x82, 0x81, 0x9F)
    out[8] = end == 46 or end == 33 or end == 63 or wide
    out[9] = end == 58
    out[10] = end == 44 or end == 59
    out[11] = end == 41 or end == 93 or end == 125
    out[12] = bullet or (len(line) > 1 and line[0] in (42, 45, 43) and line[1] == 32)
    out[14] = min(tabs, 6)
    out[15] = min(separators, 6)
    out[16] = code / whole
    out[18] = beyond / whole


@njit(cache=True, nogil=True)
def _has_copyright(line: U8) -> bool:
    for pos in range(len(line) - 1):
        if line[pos] == 0xC2 and line[pos + 1] == 0xA9:
            return True
        here = line[pos] | 32 == 99 and pos + 8 < len(line) and line[pos + 1] | 32 == 111 and line[pos + 2] | 32 == 112
        if here and line[pos + 3] | 32 == 121 and line[pos + 4] | 32 == 114 and line[pos + 5] | 32 == 105:
            return True
    return False
