"""Copying: prompts that ask a model to repeat one token, as ids with gaps.

    quick      repeat    … X X X X X X X X _                                          20 copies: settles nearly all tokens
               echo      … «river» out «river» …  in «X» out «X»  in «X» out «_      7 copies behind examples of fixed words
               explain   … user: what does 'X' mean?  assistant: '_                   1 copy; what all share is computed once
    full       the same three with the candidate from the first example on, as published: 41, 101 and 1 copies of it

A candidate is put in by its id, so parts of characters and tokens that no text makes can be asked, too: each form is written
with a placeholder, whose id is found in the encoded text as often as it was written, and is then replaced. The structure of
the full forms is that of Land & Bartolo, arXiv 2405.05417; the wording is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal, Protocol

import numpy as np

from typecase.errors import FixInput
from typecase.lm.protocol import fingerprint_of

CANDIDATE = -1
Which = Literal["quick", "full"]
Encode = Callable[[Sequence[str]], list[list[int]]]

_CODE = "\x00"
"""Stands for the candidate in a sheet; \x01 for the next fixed word."""
_WORD = "\x01"

_PLAIN_WORDS = ("river", "garden", "winter", "music", "window", "paper", "silver", "market")
_ECHO = "An echo device writes out again exactly what it is given. A hundred test runs were all like these:\n\n"
_EXPLAIN = "A careful assistant explains expressions, and always begins with the expression itself in quotes.\n\n"
_REPEAT = "This is the output of a program that does nothing but write one phrase again and again:\n"
_ASK = "User: What is meant by '{0}'?\nAssistant: '{0}' is {1}.\n\n"
_PAIR = "In: «{0}»\nOut: «{0}»\n\n"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A form as text: \\x00 where the candidate goes, \\x01 where a fixed word goes; the candidate is to come next."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Form:
    """A form as ids, `CANDIDATE` in the gaps. `steps` is how many tokens the model may write to repeat it."""

    name: str
    ids: tuple[int, ...]
    steps: int

    @property
    def shared(self) -> int:
        """How many ids come before the first gap."""
        return self.ids.index(CANDIDATE)

    @property
    def own(self) -> int:
        """How many ids must be read for each candidate alone."""
        return len(self.ids) - self.shared

    def filled(self, token: int) -> list[int]:
        """The prompt for one candidate."""
        return [token if i == CANDIDATE else i for i in self.ids]

    def filled_with(self, row: Sequence[int]) -> list[int]:
        """The prompt for a candidate of several tokens."""
        return [i for one in self.ids for i in (row if one == CANDIDATE else (one,))]


class Copier(Protocol):
    """A model that is asked to repeat tokens. `tokens` counts what it has read so far, shared beginnings once a batch."""

    tokens: int

    @property
    def fingerprint(self) -> str:
        """Of the model, its tokenizer and precision."""

    def able(self, ids: Sequence[int]) -> list[int]:
        """Those of `ids` that can be asked at all, in their order."""

    def chances(self, form: Form, ids: Sequence[int], stop_at: float) -> list[tuple[float, ...] | None]:
        """For each id the chance at each step, in order; no further step once `stop_at` is reached. None: it did not answer."""


def sheets_of(which: Which) -> tuple[Sheet, ...]:
    """The forms of a protocol as text."""
    x, nonsense = _CODE, "no expression of any language that is known"
    asked = f"User: What is meant by '{x}'?\nAssistant: '"
    if which == "full":
        return (
            Sheet("echo", _ECHO + _PAIR.format(x) * 20 + f"In: «{x}»\nOut: «"),
            Sheet("explain", _EXPLAIN + _ASK.format("qzvkwj", nonsense) + asked),
            Sheet("repeat", _REPEAT + x * 101),
        )
    words = "".join(_PAIR.format(_WORD) for _ in range(6))
    return (
        Sheet("repeat", _REPEAT + x * 20),
        Sheet("echo", _ECHO + words + _PAIR.format(x) * 3 + f"In: «{x}»\nOut: «"),
        Sheet("explain", _EXPLAIN + _ASK.format("qzvkwj", nonsense) + _ASK.format(_WORD, "a word of everyday use") + asked),
    )


def forms_of(
    which: Which, placeholder: tuple[int, str], words: Sequence[int], encode: Encode, *, seed: int = 0, steps: int = 3
) -> tuple[Form, ...]:
    """The forms of a protocol as ids, first those that settle most tokens for their cost.

    `words` are ids that fill the examples, in an order drawn by `seed`, again from the first where there are too few.

    Raises FixInput when the placeholder does not stay whole in a form.
    """
    token, text = placeholder
    drawn = np.random.default_rng(seed).permutation(np.asarray(words, np.int64)).tolist()
    found = []
    for sheet in sheets_of(which):
        gaps = [mark for mark in sheet.text if mark in (_CODE, _WORD)]
        (ids,) = encode([sheet.text.replace(_CODE, text).replace(_WORD, text)])
        if ids.count(token) != len(gaps):
            raise FixInput(
                f"the placeholder {text!r} comes up {ids.count(token)} times in the form {sheet.name}, not {len(gaps)}: "
                "this tokenizer melts it with its neighbours"
            )
        # A fixed word stands twice in its example: asked and repeated.
        rest, fill = iter(gaps), cycle([word for word in drawn or [token] for _ in range(2)])
        filled = tuple((CANDIDATE if next(rest) == _CODE else next(fill)) if i == token else i for i in ids)
        found.append(Form(sheet.name, filled, steps))
    return tuple(found)


def find_placeholder(texts: Sequence[str | None], ordinary: Sequence[bool], encode: Encode) -> tuple[int, str]:
    """A token that stays whole next to itself, and its text: of ordinary tokens of letters that with most different ones.

    Raises FixInput when a tokenizer has none.
    """
    ranked = sorted(
        (t for t, text in enumerate(texts) if text and ordinary[t] and text.isalpha()),
        key=lambda t: (-len(set(texts[t] or "")), -len(texts[t] or ""), t),
    )
    for at in range(0, len(ranked), 256):
        some = ranked[at : at + 256]
        for token, ids in zip(some, encode([(texts[t] or "") * 2 for t in some])):
            if ids == [token, token]:
                return token, texts[token] or ""
    raise FixInput("no token of this tokenizer stays whole next to itself, so no form can be written with a placeholder")


def plain_words(texts: Sequence[str | None], ordinary: Sequence[bool]) -> list[int]:
    """Ids of common words to fill examples with; where there are too few, ordinary tokens of letters, smallest ids first.

    Ids rise with rarity in most vocabularies, as merges come by falling frequency.
    """
    known = {text: t for t, text in reversed(list(enumerate(texts))) if text and ordinary[t]}
    found = [known[word] for word in (*_PLAIN_WORDS, *(f" {word}" for word in _PLAIN_WORDS)) if word in known]
    if len(found) < len(_PLAIN_WORDS):
        others = (t for t, s in enumerate(texts) if s and ordinary[t] and len(s) > 2 and s.isascii() and s.strip().isalpha())
        found += [t for t, _ in zip(others, range(4 * len(_PLAIN_WORDS))) if t not in found]
    return found


def protocol_fingerprint(forms: Sequence[Form], limit: float, *, early_exit: bool) -> str:
    """Of everything that a result depends on besides model and token."""
    return fingerprint_of("copies", 2, [[form.name, form.ids, form.steps] for form in forms], limit, early_exit)
