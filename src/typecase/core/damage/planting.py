"""Planting: thirteen kinds of damage, one for each criterion of the dataman rubric, each at a dose that is known.

    misspelt 0.1        a tenth of the longer words is misspelt
    misspelt 0.4        the same words and three times as many more

A dose is the share of a text's units (words, sentences, gaps between words) that are hit. Every unit draws one number and
is hit if that lies below the dose, so a higher dose keeps all the faults of a lower one and adds to them.

These are means to measure raters, and nothing is trained on them: the copies that a rater in training sees are made by
other code, of other phrases (lm/damage). A dose is no rating: how bad it is, only a reader can say.

Equal (text, kind, dose, seed, other) give equal texts. Price: some microseconds a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from typecase.core.damage.phrases import (
    CHATTER,
    CLICHES,
    FOREIGN,
    HOSTILE,
    KEY_ROWS,
    PLATITUDES,
    RESPELT,
    VAGUE,
    WEB_FURNITURE,
)

DOSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""The doses of the benchmark."""

_SENTENCE = re.compile(r"((?<=[.!?])[ \t]+|[ \t]*\n\s*)")
_LONG_WORD = re.compile(r"[A-Za-z]{5,}")
_TERM = re.compile(r"[A-Za-z][A-Za-z-]{7,}")
_CLAUSE_WORDS = 5
Dice = np.random.Generator


@dataclass(frozen=True, slots=True)
class Damage:
    """A kind of damage: name, criterion that it is aimed at, and a function (text, other text, dose, dice) -> text."""

    name: str
    criterion: str
    plant: Callable[[str, str, float, Dice], str]


def damaged(text: str, damage: Damage, dose: float, *, seed: int, other: str = "") -> str:
    """`text` with damage of a dose in [0, 1]; `other` is a text on another subject, for kinds that mix texts.

    Raises ValueError for a dose outside [0, 1].
    """
    if not 0 <= dose <= 1:
        raise ValueError(f"a dose is a share of units in [0, 1], got {dose}")
    digest = blake2b(f"{seed}\0{damage.name}\0{text}".encode("utf-8", "replace"), digest_size=8).digest()
    return damage.plant(text, other, dose, np.random.default_rng(list(digest))) if dose else text


def cut_sentences(text: str) -> tuple[list[str], list[str]]:
    """(sentences or lines, what stands between them): the text is their alternation, one gap fewer than sentences."""
    parts = _SENTENCE.split(text)
    return parts[0::2], parts[1::2]


def _joined(sentences: Sequence[str], gaps: Sequence[str]) -> str:
    return "".join(part for pair in zip(sentences, [*gaps, ""], strict=True) for part in pair)


def _hit_words(pattern: re.Pattern[str], text: str, dose: float, dice: Dice, change: Callable[[str, int], str]) -> str:
    """Every match draws (whether, how); a hit is replaced by change(match, how)."""

    def replace(match: re.Match[str]) -> str:
        chance, how = dice.random(), int(dice.integers(1 << 30))
        return change(match.group(), how) if chance < dose else match.group()

    return pattern.sub(replace, text)


def _hit_sentences(text: str, dose: float, dice: Dice, change: Callable[[str, int], str]) -> str:
    """Every sentence of a letter or more draws (whether, how)."""
    sentences, gaps = cut_sentences(text)
    chances, hows = dice.random(len(sentences)), dice.integers(1 << 30, size=len(sentences))
    hit = [chance < dose and any(map(str.isalpha, sentence)) for chance, sentence in zip(chances, sentences, strict=True)]
    changed = [change(s, int(how)) if h else s for s, how, h in zip(sentences, hows, hit, strict=True)]
    return _joined(changed, gaps)


def _replaced(phrases: Sequence[str]) -> Callable[[str, str, float, Dice], str]:
    return lambda text, _, dose, dice: _hit_sentences(text, dose, dice, lambda _s, how: phrases[how % len(phrases)])


def _followed(phrases: Sequence[str], gap: str) -> Callable[[str, str, float, Dice], str]:
    return lambda text, _, dose, dice: _hit_sentences(
        text, dose, dice, lambda sentence, how: f"{sentence}{gap}{phrases[how % len(phrases)]}"
    )


def _misspelt(text: str, _: str, dose: float, dice: Dice) -> str:
    def slip(word: str, how: int) -> str:
        fitting = [(right, wrong) for right, wrong in RESPELT if right in word]
        if fitting and how % 2:
            right, wrong = fitting[how // 2 % len(fitting)]
            return word.replace(right, wrong, 1)
        at = 1 + how // 2 % (len(word) - 1)
        row = next(row for row in KEY_ROWS if word[at].lower() in row)
        key = row.index(word[at].lower())
        return word[:at] + row[key + 1 if key + 1 < len(row) else key - 1] + word[at + 1 :]

    return _hit_words(_LONG_WORD, text, dose, dice, slip)


def _displaced(text: str, _: str, dose: float, dice: Dice) -> str:
    """Sentences change places among themselves; line ends stay where they are."""
    sentences, gaps = cut_sentences(text)
    chances, order = dice.random(len(sentences)), dice.random(len(sentences))
    hit = [place for place, chance in enumerate(chances) if chance < dose]
    moved = sorted(hit, key=lambda place: order[place])
    out = list(sentences)
    for place, source in zip(hit, moved, strict=True):
        out[place] = sentences[source]
    return _joined(out, gaps)


def _invaded(text: str, other: str, dose: float, dice: Dice) -> str:
    """Sentences give way to those of another text, which keep their order."""
    foreign = [sentence for sentence in cut_sentences(other)[0] if any(map(str.isalpha, sentence))]
    if not foreign:
        return text
    sentences, gaps = cut_sentences(text)
    chances = dice.random(len(sentences))
    return _joined([foreign[k % len(foreign)] if chances[k] < dose else s for k, s in enumerate(sentences)], gaps)


def _dumbed_down(text: str, _: str, dose: float, dice: Dice) -> str:
    return _hit_words(_TERM, text, dose, dice, lambda _w, how: VAGUE[how % len(VAGUE)])


def _chatty(text: str, _: str, dose: float, dice: Dice) -> str:
    def talk(sentence: str, how: int) -> str:
        return f"{sentence.lower().rstrip('.!?')} {CHATTER[how % len(CHATTER)]}"

    return _hit_sentences(text, dose, dice, talk)


def _flattened(text: str, _: str, dose: float, dice: Dice) -> str:
    """A sentence becomes a row of short ones of one pattern."""

    def chop(sentence: str, _how: int) -> str:
        words = re.findall(r"[^\W_][\w'-]*", sentence)
        pieces = [" ".join(words[at : at + _CLAUSE_WORDS]) for at in range(0, len(words), _CLAUSE_WORDS)]
        return " ".join(f"It is {piece}." for piece in pieces)

    return _hit_sentences(text, dose, dice, chop)


def _layout_lost(text: str, _: str, dose: float, dice: Dice) -> str:
    """Line ends vanish together with marks of lists and headings, and lines break where none should."""

    def change(gap: str, how: int) -> str:
        if "\n" in gap:
            return " "
        return "\n" if how % 6 == 0 else gap

    return _hit_words(re.compile(r"\s*\n[\s#*\-•=>|]*|[ \t]+"), text, dose, dice, change)


def _said_again(text: str, _: str, dose: float, dice: Dice) -> str:
    """A sentence is followed by itself with one word left out."""

    def again(sentence: str, how: int) -> str:
        words = sentence.split(" ")
        left_out = how % len(words)
        return f"{sentence} {' '.join(words[:left_out] + words[left_out + 1 :]) if len(words) > 3 else sentence}"

    return _hit_sentences(text, dose, dice, again)


DAMAGES = (
    Damage("misspelt", "accuracy", _misspelt),
    Damage("displaced", "coherence", _displaced),
    Damage("foreign", "language_consistency", _replaced(FOREIGN)),
    Damage("furniture", "semantic_density", _followed(WEB_FURNITURE, "\n")),
    Damage("platitudes", "knowledge_novelty", _replaced(PLATITUDES)),
    Damage("invaded", "topic_focus", _invaded),
    Damage("cliches", "creativity", _replaced(CLICHES)),
    Damage("dumbed-down", "professionalism", _dumbed_down),
    Damage("chatty", "style_consistency", _chatty),
    Damage("flattened", "grammatical_diversity", _flattened),
    Damage("layout-lost", "structural_standardization", _layout_lost),
    Damage("said-again", "originality", _said_again),
    Damage("hostile", "sensitivity", _followed(HOSTILE, " ")),
)
"""The kinds of damage, in the order of the rubric's criteria."""
