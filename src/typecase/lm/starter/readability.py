"""Readability: Flesch's reading ease, the formula that a rater must beat to have seen more than short words.

    206.835 - 1.015 * words a sentence - 84.6 * syllables a word          (Flesch 1948, A new readability yardstick)

A syllable is a run of vowels, a final silent e aside; a sentence ends at a stop, an exclamation or a question mark, or with
a paragraph. High is easy. Meant for English; it gives a number for any text.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)|\n\s*\n")
_VOWELS = re.compile(r"[aeiouy]+")
_LOW, _HIGH = -100.0, 121.0


def reading_ease(text: str) -> float:
    """Flesch's reading ease of `text`, held in [-100, 121]; 0 without a word."""
    words = _WORD.findall(text.lower())
    if not words:
        return 0.0
    sentences = max(1, len(_SENTENCE_END.findall(text.strip())) + (text.strip()[-1:] not in (".", "!", "?")))
    ease = 206.835 - 1.015 * len(words) / sentences - 84.6 * sum(map(count_syllables, words)) / len(words)
    return min(_HIGH, max(_LOW, ease))


def count_syllables(word: str) -> int:
    """Syllables of a word in lower case, 1 or more."""
    runs = len(_VOWELS.findall(word))
    silent = word.endswith("e") and not word.endswith(("le", "ee")) and runs > 1
    return max(1, runs - silent)
