"""Flow: repetition, sentences, the run of words through a text, and its share of known and classed words.

Four groups, each a tuple of names and a kernel, as in core/features/surface. Recency asks of every content word that comes
again how many sentences (lines) ago it came last: an ordered text repeats at once, a shuffled one at any distance, and
two interleaved texts at distance two.

Price: about 20 ns a byte, most of it probes of tables that fit the second-level cache.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.features.lexicon import Words, find, in_words
from typecase.core.features.scan import (
    FOREIGN,
    IDEOGRAPH,
    MARK,
    NEWLINE,
    SPACED,
    UPPER_FIRST,
    UPPER_LATER,
    WORD,
    Lines,
    Tokens,
    mixed,
)

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

REPEAT_MEASURES = (
    "types_per_word", "types_per_root", "hapax", "commonest_word", "word_entropy", "word_concentration", "pairs_repeated",
    "triples_repeated", "fives_repeated", "neighbours_equal", "bytes_repeated",
)  # fmt: skip
SENTENCE_MEASURES = (
    "log_sentences", "sentence_mean", "sentence_spread", "sentences_long", "sentences_short", "words_in_plain_sentences",
    "sentences_begin_upper", "sentence_openings", "sentence_max", "again_same", "again_1", "again_2", "again_5", "again_far",
    "again", "line_again_1", "line_again_2", "line_again_3", "line_again_1_less_2", "new_in_second_half",
)  # fmt: skip
LEXICON_MEASURES = (
    "known",
    "known_well",
    "known_types",
    "level_mean",
    "strange_once",
    "strange_capital",
    "misspelt",
    "misspelt_once",
)
SPELLING_MEASURES = ("surprise", "surprise_spread", "words_strange", "surprise_max")

CLASS_POWER = 0.75
"""Power of a class's share: between the share itself, which one word decides, and its root, which evens all out."""
RAREST = 140.0
"""Level at which a word weighs nothing as a sign of its classes: in 430 sources (2^(140/16))."""
NUM_LETTERS = 27
"""Letters of the spelling model: word boundary, a..z."""
_STRANGE_BITS = 6.0
_SALT_1, _SALT_2, _SALT_3, _SALT_5, _SALT_8 = (np.uint64(n) for n in (0x1111, 0x2222, 0x3333, 0x5555, 0x8888))
_RECENT = 1 << 13
_PRIME = np.uint64(0x100000001B3)


class Table(NamedTuple):
    """Scratch of one text: distinct words with their counts and last places, and two lossy sets."""

    keys: U64  # (slots,), a power of two, zero between texts
    counts: I32
    sentence: I32  # the sentence, line and half in which the word stood last
    line: I32
    slots: I32  # slots in use, in order of first use
    slot_of: I32  # the slot of each token that is a word or an ideograph
    recent: U64  # (power of two,) direct-mapped set of hashes, salted by text
    sentence_words: I32


def new_table(max_tokens: int) -> Table:
    """Scratch for texts of at most `max_tokens`."""
    size = 1 << max(6, (2 * max_tokens).bit_length())

    def ints() -> I32:
        return np.zeros(size, np.int32)

    return Table(np.zeros(size, np.uint64), ints(), ints(), ints(), ints(), ints(), np.zeros(_RECENT, np.uint64), ints())


@njit(cache=True, nogil=True)
def count_words(tokens: Tokens, num_tokens: int, table: Table) -> int:
    """Fills `table.keys`, `counts` and `slots` with the distinct words and ideographs; returns how many."""
    num_types = 0
    for row in range(num_tokens):
        if tokens.kind[row] == WORD or tokens.kind[row] == IDEOGRAPH:
            key = tokens.key[row]
            slot = find(key, table.keys)
            if table.keys[slot] == 0:
                table.keys[slot], table.counts[slot] = key, 0
                table.sentence[slot] = table.line[slot] = -1
                table.slots[num_types] = slot
                num_types += 1
            table.counts[slot] += 1
            table.slot_of[row] = slot
    return num_types


@njit(cache=True, nogil=True)
def clear_words(num_types: int, table: Table) -> None:
    """Makes `table` ready for the next text."""
    for row in range(num_types):
        table.keys[table.slots[row]] = 0


@njit(cache=True, nogil=True, inline="always")
def _again(key: np.uint64, salt: np.uint64, recent: U64) -> bool:
    """Whether `key` was seen in this text (unless another took its place), and remembers it.

    The place does not depend on the salt, so a text measures the same wherever it stands in a batch.
    """
    place = (key >> np.uint64(20)) & np.uint64(len(recent) - 1)
    if recent[place] == key ^ salt:
        return True
    recent[place] = key ^ salt
    return False


@njit(cache=True, nogil=True)
def _bytes_again(text: U8, salt: np.uint64, recent: U64) -> float:
    """Share of the 8-byte pieces of the text that came before in it."""
    again = 0
    last = np.uint64(0)
    for pos in range(len(text)):
        last = (last << np.uint64(8)) | np.uint64(text[pos])
        if pos >= 7:
            again += _again(mixed(last, _SALT_8), salt, recent)
    return again / max(1, len(text) - 7)


@njit(cache=True, nogil=True)
def measure_repeats(text: U8, tokens: Tokens, num_tokens: int, num_types: int, table: Table, salt: np.uint64, out: F32) -> None:
    """Fills REPEAT_MEASURES; `salt` differs from text to text."""
    out[:] = 0
    num_words = once = most = 0
    entropy = square = 0.0
    for row in range(num_types):
        count = table.counts[table.slots[row]]
        num_words += count
        once += count == 1
        most = max(most, count)
        entropy += count * math.log2(count)
        square += float(count) * count
    words = max(1, num_words)
    out[0], out[1], out[2], out[3] = num_types / words, num_types / math.sqrt(words), once / words, most / words
    out[4], out[5] = math.log2(words) - entropy / words, square / words / words
    a = b = c = d = np.uint64(0)
    num = equal = pairs = triples = fives = 0
    for row in range(num_tokens):
        if tokens.kind[row] == NEWLINE:
            continue
        e = tokens.key[row]
        equal += e == d
        two = mixed(d, e ^ _SALT_2)
        three = mixed(two, c ^ _SALT_3)
        five = mixed(mixed(three, b), a ^ _SALT_5)
        num += 1
        pairs += _again(two, salt, table.recent)
        triples += _again(three, salt, table.recent)
        fives += _again(five, salt, table.recent)
        a, b, c, d = b, c, d, e
    out[6], out[7], out[8], out[9] = pairs / max(1, num), triples / max(1, num), fives / max(1, num), equal / max(1, num)
    out[10] = _bytes_again(text, salt, table.recent)


@njit(cache=True, nogil=True, inline="always")
def _ends_sentence(text: U8, tokens: Tokens, row: int, num_tokens: int) -> bool:
    if tokens.kind[row] == NEWLINE:
        return bool(tokens.length[row] > 1)
    byte = text[tokens.start[row]]
    if tokens.kind[row] == MARK and (byte == 46 or byte == 33 or byte == 63):
        after = row + 1
        return bool(after >= num_tokens or tokens.flag[after] & SPACED != 0 or tokens.kind[after] == NEWLINE)
    if tokens.kind[row] == IDEOGRAPH and byte == 0xE3:
        return bool(text[tokens.stop[row] - 1] == 0x82 and text[tokens.stop[row] - 2] == 0x80)
    return False


@njit(cache=True, nogil=True)
def _sentence_lengths(text: U8, tokens: Tokens, num_tokens: int, words: I32, salt: np.uint64, recent: U64, out: F32) -> int:
    """Words of each sentence into `words`; counts openings in upper case (6) and distinct openings (7)."""
    sentence = 0
    words[0] = 0
    for row in range(num_tokens):
        kind = tokens.kind[row]
        if kind in (WORD, IDEOGRAPH):
            if words[sentence] == 0:
                out[6] += tokens.flag[row] & UPPER_FIRST != 0
                out[7] += not _again(mixed(tokens.key[row], _SALT_1), salt, recent)
            words[sentence] += 1
        if words[sentence] > 0 and _ends_sentence(text, tokens, row, num_tokens):
            sentence += 1
            words[sentence] = 0
    return sentence + int(words[sentence] > 0)


@njit(cache=True, nogil=True)
def _recency(text: U8, tokens: Tokens, num_tokens: int, lines: Lines, num_lines: int, table: Table, out: F32) -> None:
    """Fills slots 9 and after: the distances at which content words come again."""
    sentence = line = content = again = halves = fresh = words = line_again = 0
    for row in range(num_tokens):
        while line + 1 < num_lines and row >= lines.last[line]:
            line += 1
        kind = tokens.kind[row]
        words += kind == WORD
        if kind == WORD and tokens.length[row] > 3:
            slot = table.slot_of[row]
            content += 1
            second = 2 * row > num_tokens
            halves += second
            if table.sentence[slot] >= 0:
                again += 1
                gap = sentence - table.sentence[slot]
                out[9 + (gap if gap < 3 else (3 if gap < 6 else 4))] += 1
                gap = line - table.line[slot]
                if 1 <= gap <= 3:
                    out[14 + gap] += 1
                line_again += gap > 0
            else:
                fresh += second
            table.sentence[slot], table.line[slot] = sentence, line
        if words > 0 and _ends_sentence(text, tokens, row, num_tokens):
            sentence += 1
            words = 0
    for slot in range(9, 14):
        out[slot] /= max(1, again)
    out[14] = again / max(1, content)
    for slot in range(15, 18):
        out[slot] /= max(1, line_again)
    out[18] = out[15] - out[16]
    out[19] = fresh / max(1, halves)


@njit(cache=True, nogil=True)
def measure_sentences(
    text: U8, tokens: Tokens, num_tokens: int, lines: Lines, num_lines: int, table: Table, salt: np.uint64, out: F32
) -> None:
    """Fills SENTENCE_MEASURES from a table that `count_words` has filled."""
    out[:] = 0
    num = _sentence_lengths(text, tokens, num_tokens, table.sentence_words, salt, table.recent, out)
    total = square = 0.0
    longest = 0
    for row in range(num):
        words = table.sentence_words[row]
        total += words
        square += float(words) * words
        longest = max(longest, words)
        out[3] += words > 40
        out[4] += words < 4
        out[5] += words if 8 <= words <= 40 else 0
    sentences = max(1, num)
    mean = total / sentences
    out[0], out[1], out[8] = math.log(1 + num), math.log(1 + mean), math.log(1 + longest)
    out[2] = math.log(1 + math.sqrt(max(0.0, square / sentences - mean * mean)))
    for slot in (3, 4, 6, 7):
        out[slot] /= sentences
    out[5] /= max(1.0, total)
    _recency(text, tokens, num_tokens, lines, num_lines, table, out)


@njit(cache=True, nogil=True)
def measure_lexicon(
    tokens: Tokens,
    num_tokens: int,
    num_types: int,
    table: Table,
    words: Words,
    out: F32,
    classes: F32,
) -> None:
    """Fills LEXICON_MEASURES, and into `classes` the share that each class has of the weight of the words, to CLASS_POWER.

    A distinct word weighs log1p(count) times its rarity (the levels that it lies below RAREST), and gives its weight in
    equal parts of square root to its classes. The table's `line` holds the level of each word afterwards.
    """
    held, counts, levels_of = table.keys, table.counts, table.line
    lexicon, masks, levels_in = words.keys, words.mask, words.level
    classes[:] = 0
    total = 0.0
    known_types = 0
    for row in range(num_types):
        slot = table.slots[row]
        place = find(held[slot], lexicon)
        bits, found = np.uint64(0), 0
        if lexicon[place]:
            bits, found = masks[place], int(levels_in[place])
        known_types += found > 0
        levels_of[slot] = found if found or not bits else -1
        weight = math.log(1 + counts[slot]) * max(0.0, RAREST - found)
        total += weight
        if bits:
            num_classes = 0
            rest = bits
            while rest:
                rest &= rest - np.uint64(1)
                num_classes += 1
            weight /= math.sqrt(num_classes)
            place = 0
            while bits:
                if bits & np.uint64(1):
                    classes[place] += weight
                bits >>= np.uint64(1)
                place += 1
    for bit in range(len(classes)):
        classes[bit] = (classes[bit] / max(1e-9, total)) ** CLASS_POWER
    num_words = known = well = levels = once = capital = plain = wrong = wrong_once = 0
    kinds, flags, lengths, slot_of, spelled = tokens.kind, tokens.flag, tokens.length, table.slot_of, words.spelled
    for row in range(num_tokens):
        if kinds[row] != WORD:
            continue
        num_words += 1
        slot = slot_of[row]
        found = levels_of[slot]
        if found > 0:
            known += 1
            well += found > 64
            levels += found
        if lengths[row] > 3:
            if found == 0:
                if flags[row] & UPPER_FIRST:
                    capital += 1
                elif counts[slot] == 1:
                    once += 1
            if flags[row] & (UPPER_FIRST | UPPER_LATER | FOREIGN) == 0:
                plain += 1
                if not in_words(held[slot], spelled):
                    wrong += 1
                    wrong_once += counts[slot] == 1
    num = max(1, num_words)
    out[0], out[1], out[2], out[3] = known / num, well / num, known_types / max(1, num_types), levels / num / 16
    out[4], out[5] = once / num, capital / num
    out[6], out[7] = wrong / max(1, plain), wrong_once / max(1, plain)


@njit(cache=True, nogil=True)
def measure_spelling(text: U8, tokens: Tokens, num_tokens: int, bits: U8, out: F32) -> None:
    """Fills SPELLING_MEASURES. `bits` uint8 (27³,) is the surprise of a letter after two others, in sixteenths of a bit."""
    out[:] = 0
    total = square = 0.0
    num = 0
    kinds, lengths, starts, stops = tokens.kind, tokens.length, tokens.start, tokens.stop
    for row in range(num_tokens):
        if kinds[row] != WORD or lengths[row] < 4:
            continue
        a = b = surprise = length = 0
        for pos in range(starts[row], stops[row]):
            letter = (text[pos] | 32) - 96
            if not 1 <= letter <= 26:
                break
            surprise += bits[(a * NUM_LETTERS + b) * NUM_LETTERS + letter]
            a, b = b, letter
            length += 1
        if length < 4:
            continue
        surprise += bits[(a * NUM_LETTERS + b) * NUM_LETTERS]
        mean = surprise / (16.0 * (length + 1))
        num += 1
        total += mean
        square += mean * mean
        out[2] += mean > _STRANGE_BITS
        out[3] = max(out[3], mean)
    words = max(1, num)
    out[0] = total / words
    out[1] = math.sqrt(max(0.0, square / words - out[0] * out[0]))
    out[2] /= words
