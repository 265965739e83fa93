"""Damage: faults planted in clean texts, so that a rater in training meets more of them than its readers rated.

Each kind is one function of (text, another text, dice). The planted faults are made here in another way than those that
were rated, and the dose is drawn anew for each text: a rater that knew only the generator would fail on the rated ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

_OCR = (
    ("rn", "m"), ("m", "rn"), ("l", "1"), ("o", "0"), ("i", "l"), ("e", "c"), ("h", "b"), ("cl", "d"), ("I", "l"), ("S", "5"),
    ("a", "o"), ("t", "f"), ("B", "8"), ("g", "9"), ("u", "ii"),
)  # fmt: skip
_ADVERTS = (
    "Click here to subscribe to our newsletter and get 50% off!",
    "Buy now! Limited time offer - best prices guaranteed.",
    "Advertisement",
    "Share on Facebook Share on Twitter",
    "Accept all cookies",
    "You may also like: 10 tricks that doctors hate",
    "Free shipping on all orders over $30",
    "Sign up today and win a new phone",
    "SALE SALE SALE cheap brand shoes",
    "Download our app for more",
    "Read more stories like this",
    "Earn money from home, $5000 a week!",
    "Best online casino bonus - play now",
    "Order your pills today without prescription",
)


class Dice:
    """A stream of random numbers that is the same on every machine and in every version (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed % (1 << 64)

    def word(self) -> int:
        """The next 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) % (1 << 64)
        word = self._state
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % (1 << 64)
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % (1 << 64)
        return word ^ (word >> 31)

    def share(self, low: float = 0.0, high: float = 1.0) -> float:
        """A number in [low, high)."""
        return low + (high - low) * (self.word() >> 11) / (1 << 53)

    def below(self, size: int) -> int:
        """A whole number in [0, size)."""
        return self.word() % size

    def shuffle(self, items: list[str]) -> None:
        """Puts `items` in random order."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


def _sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n(?=[*\-•])", text)
    return [part.strip() for part in parts if part.strip()]


def _in_words(text: str, dice: Dice, share: float, change: Callable[[str], str]) -> str:
    return re.sub(r"[A-Za-z]{4,}", lambda m: change(m.group()) if dice.share() < share else m.group(), text)


def _typos(text: str, _: str, dice: Dice) -> str:
    def slip(word: str) -> str:
        at = 1 + dice.below(len(word) - 2)
        kind = dice.below(4)
        if kind == 0:
            return word[:at] + word[at + 1 :]
        if kind == 1:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        if kind == 2:
            return word[:at] + word[at:][:1] + word[at:]
        return word[:at] + "abcdefghijklmnopqrstuvwxyz"[dice.below(26)] + word[at + 1 :]

    return _in_words(text, dice, dice.share(0.1, 0.35), slip)


def _ocr_noise(text: str, _: str, dice: Dice) -> str:
    share = dice.share(0.1, 0.35)

    def misread(word: str) -> str:
        for _try in range(7):
            seen, read = _OCR[dice.below(len(_OCR))]
            if seen in word:
                return word.replace(seen, read, 1)
        return word

    text = _in_words(text, dice, share, misread)
    return re.sub(" ", lambda m: m.group() if dice.share() > share / 10 else ("", "  ", ". ")[dice.below(3)], text)


def _broken_whitespace(text: str, _: str, dice: Dice) -> str:
    share = dice.share(0.1, 0.4)
    text = re.sub(r"\s", lambda m: m.group() if dice.share() > share else ("", " ", "  ", "\n")[dice.below(4)], text)
    return re.sub(r"(?<=\w)(?=\w)", lambda _: " " if dice.share() < share / 12 else "", text)


def _stripped_punctuation(text: str, _: str, dice: Dice) -> str:
    return re.sub(r"[.,;:!?'\"()\-]" if dice.share() < 0.5 else r"[^\w\s]", "", text)


def _sentence_shuffle(text: str, _: str, dice: Dice) -> str:
    parts = _sentences(text)
    if len(parts) < 4:
        parts = text.split("\n")
    if len(parts) < 4:
        parts = re.split(r"(?<=[,;])\s", text)
    dice.shuffle(parts)
    return (" " if dice.share() < 0.7 else "\n").join(parts)


def _mojibake(text: str, _: str, dice: Dice) -> str:
    if sum(ord(char) > 127 for char in text) < 5:
        curly = {"'": "’", '"': "“"}
        text = re.sub(r"['\"]| - |--", lambda m: curly.get(m.group(), " – ") if dice.share() < 0.9 else m.group(), text)
    if sum(ord(char) > 127 for char in text) < 5:
        marked = {"a": "á", "e": "é", "o": "ö", "u": "ü"}
        text = re.sub("[aeou]", lambda m: marked[m.group()] if dice.share() < 0.05 else m.group(), text)
    return text.encode().decode("cp1252" if dice.share() < 0.5 else "latin-1", "replace")


def _interleaved(text: str, other: str, dice: Dice) -> str:
    cut = _sentences if dice.share() < 0.3 else str.splitlines
    mine, theirs = ([part for part in cut(whole) if part.strip()] for whole in (text, other))
    width = 1 + dice.below(2)
    woven: list[str] = []
    for at in range(0, min(len(mine), len(theirs)), width):
        woven += mine[at : at + width] + theirs[at : at + width]
    return "\n".join(woven)[: max(400, len(text) * 13 // 10)]


def _truncated(text: str, _: str, dice: Dice) -> str:
    start = int(len(text) * dice.share(0.1, 0.5))
    return text[start : start + int(len(text) * dice.share(0.3, 0.6))]


def _paragraph_duplication(text: str, _: str, dice: Dice) -> str:
    parts = text.split("\n\n") if text.count("\n\n") > 1 else text.split("\n")
    at = dice.below(len(parts))
    again = parts[max(0, at - 1 - dice.below(2)) : at + 1] * (1 + dice.below(2))
    return "\n\n".join(parts[: at + 1] + again + parts[at + 1 :])


def _line_repetition(text: str, _: str, dice: Dice) -> str:
    lines = [line for line in text.split("\n") if line.strip()]
    at = dice.below(len(lines))
    return "\n".join(lines[:at] + [lines[at]] * (8 + dice.below(22)) + lines[at + 1 :])[: len(text) * 3 // 2 + 300]


def _spliced_ads(text: str, _: str, dice: Dice) -> str:
    lines = text.split("\n")
    for _advert in range(3 + dice.below(6)):
        lines.insert(dice.below(len(lines) + 1), _ADVERTS[dice.below(len(_ADVERTS))])
    return "\n".join(lines)


DAMAGES: Mapping[str, Callable[[str, str, Dice], str]] = {
    "broken-whitespace": _broken_whitespace,
    "interleaved": _interleaved,
    "line-repetition": _line_repetition,
    "mojibake": _mojibake,
    "ocr-noise": _ocr_noise,
    "paragraph-duplication": _paragraph_duplication,
    "sentence-shuffle": _sentence_shuffle,
    "spliced-ads": _spliced_ads,
    "stripped-punctuation": _stripped_punctuation,
    "truncated": _truncated,
    "typos": _typos,
}
"""Kinds of damage by name."""

_LEAST_CHARS = 100


def plant(
    texts: Sequence[str], groups: Sequence[object], pools: Sequence[object], num: int, *, seed: int
) -> list[tuple[int, str, str]]:
    """`num` damaged copies or a few fewer, as (row of the original, kind, text); kinds and originals take turns.

    Two texts are woven together only if they differ in group and share a pool.
    """
    dice = Dice(seed)
    order = sorted(range(len(texts)), key=lambda _: dice.word())
    kinds = sorted(DAMAGES)
    out = []
    for turn in range(num):
        row, kind = order[turn % len(order)], kinds[turn % len(kinds)]
        partners = np.flatnonzero([pools[o] == pools[row] and groups[o] != groups[row] for o in range(len(texts))])
        other = texts[partners[dice.below(len(partners))]] if len(partners) else ""
        text = DAMAGES[kind](texts[row], other, dice) if texts[row].strip() else ""
        if len(text) >= _LEAST_CHARS and text != texts[row]:
            out.append((row, kind, text))
    return out
