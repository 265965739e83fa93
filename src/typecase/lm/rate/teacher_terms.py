"""Terms: how a teacher is asked, what is kept of each attempt, what is counted, and which part of a document it sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from typecase.core.replies import Rounding
from typecase.errors import BadQuery
from typecase.lm.pace import Estimate
from typecase.lm.rate.cuts import Cut, head_and_tail

View = Literal["whole", "head_tail"]
HEAD_TAIL_CHARS = {"zh": 60_000}
"""Characters of a long document that are shown, by the template's language; others see HEAD_TAIL_CHARS_ELSE."""
HEAD_TAIL_CHARS_ELSE = 20_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a teacher is asked. `temperatures` and `seed + round` are of each round, the last temperature of all later ones.

    max_tokens         of an answer; None: enough for the form, and for some thought where the form allows it
    top_logprobs       alternatives a token; None: what the model tells, at most 20; 0: none
    head_tail_chars    None: by the template's language, see HEAD_TAIL_CHARS
    least_mass         a label mass under this is marked `low_label_mass`
    system_apart       the model was given the form's system turn; else it stands at the head of each prompt
    """

    rounds: int = 3
    seed: int = 0
    temperatures: tuple[float, ...] = (0.0, 0.3, 0.7)
    max_tokens: int | None = None
    top_logprobs: int | None = None
    view: View = "head_tail"
    head_tail_chars: int | None = None
    head_tail_tokens: int | None = None
    rounding: Rounding = "nearest"
    least_mass: float = 0.5
    system_apart: bool = False

    def __post_init__(self) -> None:
        if self.rounds < 1 or not self.temperatures or min(self.temperatures) < 0:
            raise BadQuery(f"a teacher is asked 1 round or more at temperatures of 0 or more, got {self}")
        if self.view not in ("whole", "head_tail") or self.rounding not in ("nearest", "away_from_3"):
            raise BadQuery(f"view is whole or head_tail, rounding nearest or away_from_3; got {self.view}, {self.rounding}")
        if any(cap is not None and cap < 2 for cap in (self.head_tail_chars, self.head_tail_tokens)):
            raise BadQuery("head and tail hold 2 characters or tokens or more: see head_tail_chars and head_tail_tokens")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One question about one document and what came of it; `document` is 32 hexadecimal digits over its bytes."""

    document: str
    round: int
    seed: int
    temperature: float
    status: str
    codes: tuple[str, ...]
    reply: str | None
    prompt_tokens: int
    completion_tokens: int


@dataclass(slots=True)
class Round:
    """What came back in one round: documents asked, replies by status, codes, tokens as the model counts them."""

    asked: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What rating will use: if every first reply is complete, and if every document takes all rounds.

    Answers that a cache already holds cost nothing; they are not taken off.
    """

    one_round: Estimate
    all_rounds: Estimate


def cut_head_tail(text: str, chars: int, tokens: int | None, count: Callable[[Sequence[str]], Sequence[int]]) -> list[Cut]:
    """Head and tail of a text over `chars` characters, or over `tokens` tokens; the one whole cut of a shorter text.

    As DataMan's annotator cuts: characters first, then tokens of what is left. Cuts are in characters of `text`; their
    tokens are not counted where no cap needs them (0).
    """
    half = chars // 2
    long = len(text) > chars
    kept = text[:half] + text[len(text) - half :] if long else text
    if tokens is not None and int(count([kept])[0]) > tokens:
        cuts = head_and_tail(kept, tokens, count)
        head, tail = cuts[0].stop, cuts[-1].stop - cuts[-1].start
        if long:
            head, tail = min(head, half), min(tail, half)
        return [Cut(0, head, cuts[0].tokens), Cut(len(text) - tail, len(text), cuts[-1].tokens)]
    return [Cut(0, half, 0), Cut(len(text) - half, len(text), 0)] if long else [Cut(0, len(text), 0)]
