"""Gopher's quality and repetition rules, with the published thresholds as data.

Source: Rae et al. 2021, "Scaling Language Models" (arXiv 2112.11446), table A1, in the form of the common open
implementation. Words are runs between blanks. `…_scripts` counts length in units, takes stop words by language and so
does not drop a page for its script.

Price: about 1 ms a page of 2 KB for repetition (nine n-gram counts), 0.1 ms for quality.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from typecase.core.rules.page import Page, Rule
from typecase.core.words import UNIT, units_of, words_of

Decision = tuple[str, str]

MIN_WORDS: Final = 50
MAX_WORDS: Final = 100_000
MIN_WORD_CHARS: Final = 3.0
MAX_WORD_CHARS: Final = 10.0
MAX_HASH_SHARE: Final = 0.1
MAX_ELLIPSIS_SHARE: Final = 0.1
MAX_BULLET_LINES: Final = 0.9
MAX_ELLIPSIS_LINES: Final = 0.3
MIN_ALPHA_WORDS: Final = 0.8
MIN_STOP_WORDS: Final = 2
STOP_WORDS: Final = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))

STOP_WORDS_BY_LANGUAGE: Final[dict[str, frozenset[str]]] = {
    "en": STOP_WORDS | {"in", "is", "for", "a"},
    "de": frozenset(("der", "die", "und", "das", "ist", "mit", "von", "nicht", "zu", "den")),
    "fr": frozenset(("le", "la", "les", "de", "et", "des", "est", "un", "une", "pour")),
    "es": frozenset(("el", "la", "de", "que", "y", "los", "en", "un", "para", "se")),
    "pt": frozenset(("de", "que", "o", "a", "e", "do", "da", "para", "um", "com")),
    "it": frozenset(("il", "di", "che", "la", "e", "un", "per", "non", "del", "si")),
    "nl": frozenset(("de", "het", "een", "van", "en", "dat", "is", "niet", "met", "op")),
    "pl": frozenset(("w", "i", "z", "na", "nie", "do", "się", "jest", "że", "to")),
    "cs": frozenset(("a", "je", "se", "na", "v", "že", "pro", "s", "z", "to")),
    "ru": frozenset(("и", "в", "не", "на", "с", "что", "для", "по", "это", "как")),
    "uk": frozenset(("і", "в", "не", "на", "з", "що", "для", "та", "це", "як")),
    "sv": frozenset(("och", "att", "det", "som", "en", "på", "är", "för", "av", "med")),
    "tr": frozenset(("ve", "bir", "bu", "için", "ile", "de", "da", "olarak", "daha", "en")),
    "ar": frozenset(("في", "من", "على", "إلى", "أن", "هذا", "عن", "مع", "التي", "لا")),
    "el": frozenset(("και", "το", "να", "της", "του", "η", "ο", "για", "με", "από")),
}
"""A page passes when one language has two of its stop words in it; unspaced scripts are not asked."""

TOP_NGRAMS: Final = ((2, 0.20), (3, 0.18), (4, 0.16))
DUPLICATE_NGRAMS: Final = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))
DUPLICATE_LINES: Final = (0.30, 0.20)
DUPLICATE_PARAGRAPHS: Final = (0.30, 0.20)
"""Largest share of duplicates by count, and by characters."""

QUALITY_RULES: Final = tuple(
    Rule(f"gopher_quality.{name}", about)
    for name, about in (
        ("words", f"fewer than {MIN_WORDS} or more than {MAX_WORDS} words"),
        ("word_length", "mean length of a word below 3 or above 10 characters"),
        ("hashes", "more than one # in ten words"),
        ("ellipses", "more than one ellipsis in ten words"),
        ("bullets", "more than 90 % of the lines begin with a bullet"),
        ("ellipsis_lines", "more than 30 % of the lines end in an ellipsis"),
        ("letters", "fewer than 80 % of the words have a letter"),
        ("stop_words", "fewer than two stop words"),
    )
)

REPETITION_RULES: Final = tuple(
    Rule(f"gopher_repetition.{name}", about)
    for name, about in (
        ("paragraphs", "more than 30 % of the paragraphs are duplicates"),
        ("paragraph_chars", "more than 20 % of the characters are in duplicate paragraphs"),
        ("lines", "more than 30 % of the lines are duplicates"),
        ("line_chars", "more than 20 % of the characters are in duplicate lines"),
        *((f"top_{n}", f"the most frequent {n}-gram has more than {share:.0%} of the characters") for n, share in TOP_NGRAMS),
        *(
            (f"duplicate_{n}", f"more than {share:.0%} of the characters are in repeated {n}-grams")
            for n, share in DUPLICATE_NGRAMS
        ),
    )
)


def gopher_quality(page: Page) -> Decision | None:
    """The literal rules."""
    words = page.text.split()
    content = [w for w in words if any(c.isalnum() for c in w)]
    if not MIN_WORDS <= len(content) <= MAX_WORDS:
        return "gopher_quality.words", f"{len(content)} words"
    mean = sum(map(len, content)) / len(content)
    if not MIN_WORD_CHARS <= mean <= MAX_WORD_CHARS:
        return "gopher_quality.word_length", f"{mean:.2f} characters"
    if decided := _signs(page, len(words)):
        return decided
    alpha = sum(any(c.isalpha() for c in w) for w in words) / len(words)
    if alpha < MIN_ALPHA_WORDS:
        return "gopher_quality.letters", f"{alpha:.3f}"
    found = len(STOP_WORDS.intersection(words))
    return ("gopher_quality.stop_words", str(found)) if found < MIN_STOP_WORDS else None


def gopher_quality_scripts(page: Page) -> Decision | None:
    """The same for any script: units for words, and no word-length or stop-word test where words are not spaced."""
    units = units_of(page.text)
    if not MIN_WORDS * UNIT <= units <= MAX_WORDS * UNIT:
        return "gopher_quality.words", f"{units / UNIT:.1f} units"
    words = page.text.split()
    segments = words_of(page.text)
    spaced = UNIT * len(segments) == units
    if spaced:
        mean = sum(map(len, segments)) / len(segments)
        # Segments carry no punctuation, so the lower bound of whole words is a little high for them.
        if not MIN_WORD_CHARS - 0.5 <= mean <= MAX_WORD_CHARS:
            return "gopher_quality.word_length", f"{mean:.2f} characters"
    if decided := _signs(page, max(len(words), units // UNIT)):
        return decided
    alpha = sum(any(c.isalpha() for c in w) for w in words) / len(words)
    if alpha < MIN_ALPHA_WORDS:
        return "gopher_quality.letters", f"{alpha:.3f}"
    if spaced:
        have = {w.casefold() for w in segments}
        found = max(len(stop & have) for stop in STOP_WORDS_BY_LANGUAGE.values())
        if found < MIN_STOP_WORDS:
            return "gopher_quality.stop_words", str(found)
    return None


def _signs(page: Page, num_words: int) -> Decision | None:
    hashes = page.text.count("#") / num_words
    if hashes > MAX_HASH_SHARE:
        return "gopher_quality.hashes", f"{hashes:.3f}"
    ellipses = (page.text.count("...") + page.text.count("…")) / num_words
    if ellipses > MAX_ELLIPSIS_SHARE:
        return "gopher_quality.ellipses", f"{ellipses:.3f}"
    num_lines = len(page.bodies)
    bullets = sum(body.startswith(("•", "-")) for body in page.bodies) / num_lines
    if bullets > MAX_BULLET_LINES:
        return "gopher_quality.bullets", f"{bullets:.3f}"
    open_ended = sum(body.endswith(("...", "…")) for body in page.bodies) / num_lines
    return ("gopher_quality.ellipsis_lines", f"{open_ended:.3f}") if open_ended > MAX_ELLIPSIS_LINES else None


_PARAGRAPHS: Final = re.compile(r"\n{2,}")
_LINES: Final = re.compile(r"\n+")


def gopher_repetition(page: Page) -> Decision | None:
    """The literal rules; every share is of the length of the text in characters."""
    text = page.text.strip()
    if not text:
        return None
    for name, chars_name, pattern, limits in (
        ("paragraphs", "paragraph_chars", _PARAGRAPHS, DUPLICATE_PARAGRAPHS),
        ("lines", "line_chars", _LINES, DUPLICATE_LINES),
    ):
        parts = pattern.split(text)
        count, chars = duplicates(parts)
        if count / len(parts) > limits[0]:
            return f"gopher_repetition.{name}", f"{count / len(parts):.3f}"
        if chars / len(text) > limits[1]:
            return f"gopher_repetition.{chars_name}", f"{chars / len(text):.3f}"
    words = text.split()
    for n, limit in TOP_NGRAMS:
        share = top_ngram_chars(words, n) / len(text)
        if share > limit:
            return f"gopher_repetition.top_{n}", f"{share:.3f}"
    for n, limit in DUPLICATE_NGRAMS:
        share = repeated_ngram_chars(words, n) / len(text)
        if share > limit:
            return f"gopher_repetition.duplicate_{n}", f"{share:.3f}"
    return None


def duplicates(parts: Sequence[str]) -> tuple[int, int]:
    """How many of `parts` were there before, and their characters."""
    seen: set[str] = set()
    count = chars = 0
    for part in parts:
        if part in seen:
            count += 1
            chars += len(part)
        else:
            seen.add(part)
    return count, chars


def top_ngram_chars(words: Sequence[str], n: int) -> int:
    """Length of the most frequent n-gram, joined by blanks, times its count; the longest where several are as frequent."""
    counts = Counter(zip(*(words[i:] for i in range(n)), strict=False))
    if not counts:
        return 0
    most = max(counts.values())
    return most * max(sum(map(len, gram)) + n - 1 for gram, count in counts.items() if count == most)


def repeated_ngram_chars(words: Sequence[str], n: int) -> int:
    """Characters of n-grams that were there before, by a greedy scan that jumps over each."""
    seen: set[tuple[str, ...]] = set()
    chars = at = 0
    while at + n <= len(words):
        gram = tuple(words[at : at + n])
        if gram in seen:
            chars += sum(map(len, gram))
            at += n
        else:
            seen.add(gram)
            at += 1
    return chars
