"""Items: tasks of our own that a model of a million parameters can already do a little, made from held-out documents.

    cloze    "… the cache is flushed when the"  process | index | server | letter        the last word of a sentence
    copy     "lamp river seven cloth . lamp river seven"  cloth | lamp | river | seven   what came before, comes again

Cloze asks what a text says: the wrong words are words of the same documents that are about as frequent as the right one,
none of which stands in the passage. Copy asks whether a model reads its context at all: words drawn at random are told twice,
and what is asked is the next of the second time, so that knowing the language does not help. Chance is 1 / choices in both.

An item is a function of (texts, seed) alone. Users bring items of their own as JSON lines of the same fields.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import orjson

from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.atomic import write_bytes

CHOICES = 4
_SENTENCE = re.compile(r"[A-Z\w][^.!?\n]{20,400}[.!?]")
_WORD = re.compile(r"[^\W\d_]{3,}")
_LEAST_WORDS, _MOST_CONTEXT = 6, 400
_COPIED = (4, 9)


@dataclass(frozen=True, slots=True)
class Item:
    """One question: which of `choices` goes on behind `prompt`; `answer` is its number, `group` its document."""

    id: str
    task: str
    prompt: str
    choices: tuple[str, ...]
    answer: int
    group: str = ""

    def __post_init__(self) -> None:
        if len(self.choices) < 2 or not 0 <= self.answer < len(self.choices) or not all(self.choices):
            raise BadQuery(f"item {self.id}: two choices or more, none empty, and the answer one of them; got {self}")


def cloze_items(texts: Sequence[str], groups: Sequence[str], num: int, *, seed: int = 0, choices: int = CHOICES) -> list[Item]:
    """Up to `num` items, at most one a document; fewer where documents have too few sentences."""
    words = Counter(word.lower() for text in texts for word in _WORD.findall(text))
    ranked = [word for word, n in sorted(words.items(), key=lambda one: (-one[1], one[0])) if n >= 2]
    place = {word: k for k, word in enumerate(ranked)}
    found: list[Item] = []
    for text, group in zip(texts, groups, strict=True):
        if len(found) == num:
            break
        dice = _dice("cloze", seed, group)
        cut = _cut(text, place, dice)
        if cut is None:
            continue
        prompt, word = cut
        said = {one.lower() for one in _WORD.findall(prompt)} | {word}
        near = [one for one in _near(ranked, place[word]) if one not in said][: 4 * (choices - 1)]
        if len(near) < choices - 1:
            continue
        wrong = [near[int(k)] for k in dice.permutation(len(near))[: choices - 1]]
        found.append(_item("cloze", group, prompt, word, wrong, dice, len(found)))
    return found


def copy_items(texts: Sequence[str], groups: Sequence[str], num: int, *, seed: int = 0, choices: int = CHOICES) -> list[Item]:
    """`num` items of words that the texts use at least twice. Raises BadQuery where there are fewer than ten."""
    words = Counter(word.lower() for text in texts for word in _WORD.findall(text))
    pool = sorted(word for word, n in words.items() if n >= 2)
    if len(pool) <= _COPIED[1]:
        raise BadQuery(
            f"copy items are made of words that are used twice or more, and the documents have {len(pool)}: give more"
        )
    found = []
    for number in range(num):
        dice = _dice("copy", seed, str(number))
        size = int(dice.integers(max(choices, _COPIED[0]), max(choices, _COPIED[1])))
        told = [pool[int(k)] for k in dice.choice(len(pool), size, replace=False)]
        at = int(dice.integers(1, size))
        prompt = f"{' '.join(told)} . {' '.join(told[:at])}"
        others = [word for k, word in enumerate(told) if k != at]
        wrong = [others[int(k)] for k in dice.permutation(len(others))[: choices - 1]]
        found.append(_item("copy", str(number), prompt, told[at], wrong, dice, number))
    return found


def _item(task: str, group: str, prompt: str, right: str, wrong: Sequence[str], dice: np.random.Generator, number: int) -> Item:
    at = int(dice.integers(len(wrong) + 1))
    choices = [*wrong[:at], right, *wrong[at:]]
    return Item(f"{task}-{number}", task, prompt, tuple(f" {word}" for word in choices), at, group)


def _cut(text: str, place: dict[str, int], dice: np.random.Generator) -> tuple[str, str] | None:
    """A passage up to the last word of one of its sentences, and that word; None where no sentence fits."""
    fitting = []
    for match in _SENTENCE.finditer(text):
        sentence = match.group()[:-1]
        last = sentence.rsplit(" ", 1)[-1]
        plain = _WORD.fullmatch(last) is not None and last == last.lower()
        if plain and last in place and sentence.count(" ") >= _LEAST_WORDS and text[match.end() - 1 - len(last) - 1] == " ":
            fitting.append((match.end() - 1 - len(last), last))
    if not fitting:
        return None
    stop, word = fitting[int(dice.integers(len(fitting)))]
    return text[max(0, stop - _MOST_CONTEXT) : stop - 1], word


def _near(ranked: Sequence[str], at: int) -> list[str]:
    """Words by how near their frequency is."""
    order = [at + step for k in range(1, 60) for step in (k, -k)]
    return [ranked[k] for k in order if 0 <= k < len(ranked)]


def _dice(*key: object) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest(), "little"))


def write_items(path: Path, items: Iterable[Item]) -> None:
    """Writes items as JSON lines."""
    write_bytes(path, b"".join(orjson.dumps(item) + b"\n" for item in items))


def read_items(path: Path | str) -> list[Item]:
    """The items in a file of JSON lines. Raises NotFound, or CorruptStore naming the line."""
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"no items at {path}: give JSON lines with id, task, prompt, choices, answer")
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            row = orjson.loads(line)
            found.append(Item(**{**row, "choices": tuple(row["choices"])}))
        except (orjson.JSONDecodeError, KeyError, TypeError, BadQuery) as error:
            raise CorruptStore(
                f"{path}, line {number} is no item ({error}); an item has id, task, prompt, choices, answer"
            ) from None
    return found
