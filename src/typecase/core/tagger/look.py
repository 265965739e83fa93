"""Look: pages as rows of measures, one for every written line.

    look = look_at(texts)                 the lines of all pages, and what they look like alone
    measures = see(look, scores)          with their context: what the forest reads

Lines are those of `text.split("\\n")`, a carriage return counts as a blank. Nothing depends on which pages are looked at
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.tagger import context, shape

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

NAMES = (*shape.NAMES, "score", *context.NAMES)
"""The measures of a line."""

_SCORE = len(shape.NAMES)


@dataclass(frozen=True, slots=True)
class Look:
    """Written lines of pages: bytes values[starts[i]:stops[i]] without blanks at the ends, `number` in its page.

    The lines of page k are [pages[k], pages[k + 1]); `num_lines` are all lines of each page, blank ones too; `hashes` are
    of its letters and digits alone, without numbers and bullets at its beginning: a heading and its entry in a table of
    contents are the same; 0 where it has no letter.
    """

    values: U8
    starts: I64
    stops: I64
    number: I64
    pages: I64
    num_lines: I64
    hashes: U64
    shapes: F32


def look_at(texts: Sequence[str]) -> Look:
    """The written lines of all texts."""
    data = [text.encode("utf-8", "replace") for text in texts]
    values = np.frombuffer(b"".join(data), np.uint8)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(d) for d in data], dtype=np.int64)])
    pages, num_lines = np.zeros(len(texts) + 1, np.int64), np.zeros(len(texts), np.int64)
    _count(values, offsets, pages, num_lines)
    num = int(pages[-1])
    starts, stops, number, indents = (np.zeros(num, np.int64) for _ in range(4))
    before, after = np.zeros(num, np.int64), np.zeros(num, np.int64)
    _cut(values, offsets, starts, stops, number, indents, before, after)
    shapes = np.zeros((num, len(shape.NAMES)), np.float32)
    shape.measure_shapes(values, starts, stops, before, after, indents, shape.STOP_KEYS, shapes)
    hashes = np.zeros(num, np.uint64)
    _hash(values, starts, stops, hashes)
    return Look(values, starts, stops, number, pages, num_lines, hashes, shapes)


def see(look: Look, scores: F32) -> F32:
    """All measures of the lines, float32 (lines, len(NAMES)); `scores` are what their words say."""
    out = np.zeros((len(look.starts), len(NAMES)), np.float32)
    out[:, :_SCORE] = look.shapes
    out[:, _SCORE] = scores
    context.measure_context(
        look.values, look.starts, look.stops, look.pages, look.hashes, look.shapes, scores, out[:, _SCORE + 1 :]
    )
    return out


@njit(cache=True, nogil=True)
def _count(values, offsets, pages, num_lines):  # type: ignore[no-untyped-def]
    for page in range(len(pages) - 1):
        num = lines = 0
        written = False
        for pos in range(offsets[page], offsets[page + 1]):
            byte = values[pos]
            if byte == 10 or (byte == 13 and not (pos + 1 < offsets[page + 1] and values[pos + 1] == 10)):
                num += written
                lines += 1
                written = False
            elif byte > 32:
                written = True
        pages[page + 1] = pages[page] + num + written
        num_lines[page] = lines + 1


@njit(cache=True, nogil=True)
def _cut(values, offsets, starts, stops, number, indents, before, after):  # type: ignore[no-untyped-def]
    row = 0
    for page in range(len(offsets) - 1):
        begin, line, gap = offsets[page], 0, 0
        first_row = row
        for pos in range(offsets[page], offsets[page + 1] + 1):
            if pos < offsets[page + 1]:
                alone = values[pos] == 13 and not (pos + 1 < offsets[page + 1] and values[pos + 1] == 10)
                if values[pos] != 10 and not alone:
                    continue
            start, stop = begin, pos
            while start < stop and values[start] <= 32:
                start += 1
            while stop > start and values[stop - 1] <= 32:
                stop -= 1
            if stop > start:
                starts[row], stops[row], number[row] = start, stop, line
                indents[row], before[row] = start - begin, gap
                if row > first_row:
                    after[row - 1] = gap
                gap = 0
                row += 1
            else:
                gap += 1
            begin = pos + 1
            line += 1
        if row > first_row:
            after[row - 1] = gap


@njit(cache=True, nogil=True)
def _hash(values, starts, stops, out):  # type: ignore[no-untyped-def]
    prime = np.uint64(0x100000001B3)
    for row in range(len(starts)):
        key = np.uint64(0xCBF29CE484222325)
        letters = 0
        pos = starts[row]
        while pos < stops[row]:
            byte = values[pos]
            if byte == 0xE2 and pos + 2 < stops[row]:  # bullets, arrows, dashes, quotation marks
                pos += 3
                continue
            if byte == 0xC2 and pos + 1 < stops[row]:  # signs of Latin-1, such as the pilcrow
                pos += 2
                continue
            if 65 <= byte <= 90:
                byte = np.uint8(byte + 32)
            if 97 <= byte <= 122 or byte >= 128 or (letters > 0 and 48 <= byte <= 57):
                letters += 1
                key = (key ^ np.uint64(byte)) * prime
            pos += 1
        out[row] = (key ^ (key >> np.uint64(29))) | np.uint64(1) if letters > 1 else np.uint64(0)
