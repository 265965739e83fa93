"""Features: what a rater sees of a text, as one row of measures and one row of weighted n-grams.

    bytes -> scan -> surface, flow, lexicon    measures  float32 (texts, measures + classes)
                  -> n-grams of tokens         scores    float32 (texts, outputs) under a table of weights

A text is a span of a buffer of UTF-8 bytes: text i is values[starts[i]:stops[i]], so the values and offsets of an Arrow
string column serve as they are. Nothing is decoded or copied, and any bytes give finite numbers. The measures are
mechanical and keep their names; only a rater trained on readers' ratings speaks of quality.

Price: about 40 ns a byte for the measures, 15 more for the n-grams, on one core; scratch for the longest text only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.features.flow import (
    LEXICON_MEASURES,
    REPEAT_MEASURES,
    SENTENCE_MEASURES,
    SPELLING_MEASURES,
    Table,
    clear_words,
    count_words,
    measure_lexicon,
    measure_repeats,
    measure_sentences,
    measure_spelling,
    new_table,
)
from typecase.core.features.lexicon import Lexicon, Words
from typecase.core.features.ngrams import Weights, count_token_ngrams, weigh_ngrams
from typecase.core.features.scan import Lines, Tokens, new_lines, new_tokens, scan
from typecase.core.features.surface import (
    CHARACTER_MEASURES,
    LINE_MEASURES,
    WORD_MEASURES,
    measure_characters,
    measure_lines,
    measure_words,
)

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_GROUPS = (
    LINE_MEASURES,
    CHARACTER_MEASURES,
    WORD_MEASURES,
    REPEAT_MEASURES,
    SENTENCE_MEASURES,
    LEXICON_MEASURES,
    SPELLING_MEASURES,
)
MEASURES = tuple(name for group in _GROUPS for name in group)
"""Names of the measures; the classes of a lexicon follow them."""

_ENDS = tuple(sum(len(group) for group in _GROUPS[: row + 1]) for row in range(len(_GROUPS)))
_SALT = np.uint64(0xD6E8FEB86659FD93)


class Scratch(NamedTuple):
    """Room for one text."""

    tokens: Tokens
    lines: Lines
    table: Table
    pairs: I32  # (8192,) counts of hashed byte pairs
    bytes: I32  # (256,) counts of bytes
    counts: I64  # (word measures,)


def new_scratch(max_bytes: int) -> Scratch:
    """Room for texts of at most `max_bytes`."""
    return Scratch(
        new_tokens(max_bytes),
        new_lines(max_bytes),
        new_table(max_bytes + 1),
        np.zeros(1 << 13, np.int32),
        np.zeros(256, np.int32),
        np.zeros(len(WORD_MEASURES), np.int64),
    )


def measure_names(lexicon: Lexicon) -> tuple[str, ...]:
    """Names of the columns of `measure_texts`: each once, in order."""
    return MEASURES + tuple(f"class {name}" for name in lexicon.classes)


def measure_texts(values: U8, starts: I64, stops: I64, lexicon: Lexicon) -> F32:
    """Every measure of every text, float32 (texts, measures + classes)."""
    measures, _ = features(values, starts, stops, lexicon, None)
    return measures


def features(values: U8, starts: I64, stops: I64, lexicon: Lexicon, weights: Weights | None) -> tuple[F32, F32]:
    """The measures of every text, and the sums of its n-grams under `weights`, float32 (texts, outputs); one pass."""
    longest = int((stops - starts).max(initial=0))
    measures = np.zeros((len(starts), len(MEASURES) + len(lexicon.classes)), np.float32)
    if weights is None:
        _measure_all(values, starts, stops, new_scratch(longest), lexicon.words, measures)
        return measures, np.zeros((len(starts), 0), np.float32)
    scores = np.zeros((len(starts), weights.table.shape[1]), np.float32)
    counts = np.zeros(len(weights.table), np.int32)
    touched = np.zeros(4 * (longest + 1), np.int32)
    _measure_and_weigh(values, starts, stops, new_scratch(longest), lexicon.words, weights, counts, touched, measures, scores)
    return measures, scores


@njit(cache=True, nogil=True)
def _measure(text: U8, num_tokens: int, num_lines: int, scratch: Scratch, salt: np.uint64, words: Words, out: F32) -> None:
    """Fills one row of measures from a scan."""
    tokens, lines, table = scratch.tokens, scratch.lines, scratch.table
    measure_lines(text, tokens, lines, num_lines, table.keys, table.slots, out[: _ENDS[0]])
    measure_characters(text, scratch.pairs, scratch.bytes, out[_ENDS[0] : _ENDS[1]])
    measure_words(text, tokens, num_tokens, scratch.counts, out[_ENDS[1] : _ENDS[2]])
    num_types = count_words(tokens, num_tokens, table)
    measure_repeats(text, tokens, num_tokens, num_types, table, salt, out[_ENDS[2] : _ENDS[3]])
    measure_sentences(text, tokens, num_tokens, lines, num_lines, table, salt, out[_ENDS[3] : _ENDS[4]])
    measure_lexicon(tokens, num_tokens, num_types, table, words, out[_ENDS[4] : _ENDS[5]], out[_ENDS[6] :])
    measure_spelling(text, tokens, num_tokens, words.letters, out[_ENDS[5] : _ENDS[6]])
    clear_words(num_types, table)


@njit(cache=True, nogil=True)
def _measure_all(values: U8, starts: I64, stops: I64, scratch: Scratch, words: Words, measures: F32) -> None:
    for row in range(len(starts)):
        text = values[starts[row] : stops[row]]
        num_tokens, num_lines = scan(text, scratch.tokens, scratch.lines)
        _measure(text, num_tokens, num_lines, scratch, np.uint64(row + 1) * _SALT, words, measures[row])


@njit(cache=True, nogil=True)
def _measure_and_weigh(
    values: U8,
    starts: I64,
    stops: I64,
    scratch: Scratch,
    words: Words,
    weights: Weights,
    counts: I32,
    touched: I32,
    measures: F32,
    scores: F32,
) -> None:
    for row in range(len(starts)):
        text = values[starts[row] : stops[row]]
        num_tokens, num_lines = scan(text, scratch.tokens, scratch.lines)
        num = count_token_ngrams(scratch.tokens, num_tokens, weights.bits, counts, touched)
        weigh_ngrams(counts, touched, num, weights, scores[row])
        _measure(text, num_tokens, num_lines, scratch, np.uint64(row + 1) * _SALT, words, measures[row])
