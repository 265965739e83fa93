"""What the starter rater knows of words: classes, how many sources hold a word, spelling, the run of letters.

Levels and letters are counted in the undamaged documents of the seeds. A document in training is measured with the counts
of its own source taken out: it must not look better known than a document that was never seen.

Price: 1 ms a source to leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.features.flow import NUM_LETTERS
from typecase.core.features.lexicon import Lexicon, pack_words, word_keys
from typecase.core.features.scan import WORD, Tokens, new_lines, new_tokens, scan

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

_UNIGRAM_WEIGHT = 8.0
_LEAST_WORD = 4


@dataclass(frozen=True, slots=True)
class WordLists:
    """Classes by name and the words of each, as keys with class bits; and a filter of correctly spelled words."""

    classes: tuple[str, ...]
    keys: U64
    mask: U64
    spelled: U64


def word_lists(classes: Mapping[str, Sequence[str]], spelled: U64) -> WordLists:
    """Packs word lists; a word of several classes has several bits."""
    bits: dict[int, int] = {}
    for place, words in enumerate(classes.values()):
        for key in word_keys(list(words)).tolist():
            bits[key] = bits.get(key, 0) | 1 << place
    keys = sorted(bits)
    return WordLists(tuple(classes), np.array(keys, np.uint64), np.array([bits[key] for key in keys], np.uint64), spelled)


def lists_of(lexicon: Lexicon) -> WordLists:
    """The word lists that a packed lexicon was made from."""
    words = lexicon.words
    held = np.flatnonzero(words.mask)
    order = held[np.argsort(words.keys[held])]
    return WordLists(lexicon.classes, words.keys[order], words.mask[order], words.spelled)


@dataclass(frozen=True, slots=True)
class WordCounts:
    """Words and letters of a corpus, by source. `words[source]` holds rows of `keys`."""

    lists: WordLists
    keys: U64  # sorted
    mask: U64
    sources: I64  # (keys,): sources that hold the word
    words: Mapping[str, I64]
    letters: Mapping[str, I64]  # counts int64 (27³,)

    def lexicon(self, without: str | None = None) -> Lexicon:
        """The lexicon of all sources, or of all but one."""
        held = self.sources.copy()
        total = np.sum(list(self.letters.values()), axis=0)
        if without is not None and without in self.words:
            held[self.words[without]] -= 1
            total = total - self.letters[without]
        level = np.where(held >= 2, np.minimum(255, np.rint(16 * np.log2(np.maximum(1, held)))), 0).astype(np.uint8)
        keep = (level > 0) | (self.mask > 0)
        words = pack_words(self.keys[keep], self.mask[keep], level[keep], self.lists.spelled, _surprises(total))
        return Lexicon(self.lists.classes, words)


def count_corpus(texts: Sequence[bytes], sources: Sequence[str], lists: WordLists) -> WordCounts:
    """Counts the words and letters of UTF-8 `texts`, each of its source."""
    longest = max((len(text) for text in texts), default=0)
    tokens, lines = new_tokens(longest), new_lines(longest)
    held: dict[str, set[int]] = {}
    letters: dict[str, I64] = {}
    for text, source in zip(texts, sources, strict=True):
        values = np.frombuffer(text, np.uint8)
        num_tokens, _ = scan(values, tokens, lines)
        is_word = tokens.kind[:num_tokens] == WORD
        held.setdefault(source, set()).update(np.unique(tokens.key[:num_tokens][is_word]).tolist())
        _count_letters(values, tokens, num_tokens, letters.setdefault(source, np.zeros(NUM_LETTERS**3, np.int64)))
    keys = np.array(sorted(set().union(*held.values(), lists.keys.tolist())), np.uint64)
    rows = {source: np.searchsorted(keys, np.array(sorted(words), np.uint64)) for source, words in held.items()}
    sources_of = np.zeros(len(keys), np.int64)
    for row in rows.values():
        sources_of[row] += 1
    mask = np.zeros(len(keys), np.uint64)
    mask[np.searchsorted(keys, lists.keys)] = lists.mask
    return WordCounts(lists, keys, mask, sources_of, rows, letters)


@njit(cache=True, nogil=True)
def _count_letters(text: U8, tokens: Tokens, num_tokens: int, counts: I64) -> None:
    for row in range(num_tokens):
        if tokens.kind[row] != WORD:
            continue
        a = b = length = 0
        for pos in range(tokens.start[row], tokens.stop[row]):
            letter = (int(text[pos]) | 32) - 96
            if not 1 <= letter <= 26:
                break
            counts[(a * NUM_LETTERS + b) * NUM_LETTERS + letter] += 1
            a, b = b, letter
            length += 1
        if length >= _LEAST_WORD:
            counts[(a * NUM_LETTERS + b) * NUM_LETTERS] += 1


def _surprises(counts: I64) -> U8:
    """The surprise of each letter after two others, in sixteenths of a bit, smoothed by how common the letter is."""
    cube = counts.reshape(NUM_LETTERS, NUM_LETTERS, NUM_LETTERS).astype(np.float64)
    single = cube.sum(axis=(0, 1)) + 1
    share = (cube + _UNIGRAM_WEIGHT * single / single.sum()) / (cube.sum(axis=2, keepdims=True) + _UNIGRAM_WEIGHT)
    bits: U8 = np.clip(np.rint(-16 * np.log2(share)), 0, 255).astype(np.uint8).reshape(-1)
    return bits
