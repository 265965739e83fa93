"""Slots: a form with gaps, of which only the labels that may fill each gap are read. No answer can fail to parse.

    slots = [Slot("\\n", DIGITS), Slot("\\n", DIGITS), Slot("\\nDomain: ", ("A", "B", "C"))]

    prompt ─ "\\n" ─ [1..5] ─ "\\n" ─ [1..5] ─ "\\nDomain: " ─ [A..C]      each gap: a log-probability a label
                      └─ the likeliest label fills the gap for those behind it

`fill` reads all gaps of a form in one pass over it with a guess in each gap, puts the likeliest labels into the gaps and
reads again until nothing changes: that is exactly what filling gap after gap gives, mostly in 2 to 4 passes instead of one
a token. `passes` bounds them; 1 is the plain one-pass reading with the middle label as filler. A model that cannot do
that is asked for continuations, gap after gap: the same result, the prompt read once a gap.

Price: a pass costs the tokens of the form, not of the prompt, which is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from typecase.errors import BadQuery
from typecase.lm.protocol import F32, LM, Choices, Failure, windows

_WINDOW_ROWS = 256


@dataclass(frozen=True, slots=True)
class Slot:
    """A gap after the text `before`, to be filled with one of the labels."""

    before: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.labels) < 2 or not all(self.labels) or len(set(self.labels)) < len(self.labels):
            raise BadQuery(f"a slot has two labels or more, none empty, none twice, got {self.labels}")


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """What a model says in each gap.

    logprobs   a float32 (labels,) for each slot: log-probabilities before they are divided by their sum, so that
               exp(logprobs).sum() is the label mass: how much the model wanted to answer with a label at all
    exact      whether every gap was read with the likeliest labels before it, as if filled one after the other
    """

    logprobs: tuple[F32, ...]
    exact: bool
    prompt_tokens: int

    @property
    def best(self) -> tuple[int, ...]:
        """The likeliest label of each slot, by its place in the slot's labels."""
        return tuple(int(values.argmax()) for values in self.logprobs)


@runtime_checkable
class FillsSlots(Protocol):
    """An LM that can read all gaps at once."""

    def can_fill(self, slots: Sequence[Slot]) -> bool:
        """Whether every label is one token where it stands."""

    def fill(self, prompts: Iterable[str], slots: Sequence[Slot], *, passes: int) -> Iterator[Filled | Failure]:
        """See `fill`."""


def fill(lm: LM, prompts: Iterable[str], slots: Sequence[Slot], *, passes: int | None = None) -> Iterator[Filled | Failure]:
    """What `lm` says in each gap after each prompt, in order; `passes` None reads until exact."""
    if not slots or (passes is not None and passes < 1):
        raise BadQuery(f"a form has one slot or more and takes one pass or more, got {len(slots)} slots and passes={passes}")
    if isinstance(lm, FillsSlots) and lm.can_fill(slots):
        return lm.fill(prompts, slots, passes=passes or len(slots) + 1)
    return fill_by_choices(lm, prompts, slots)


def fill_by_choices(lm: LM, prompts: Iterable[str], slots: Sequence[Slot]) -> Iterator[Filled | Failure]:
    """Gap after gap, by the continuations of the prompt and all that was filled in before."""
    for window in windows(prompts, _WINDOW_ROWS):
        texts = list(window)
        found: list[list[Choices]] = [[] for _ in window]
        failed: dict[int, Failure] = {}
        for slot in slots:
            going = [row for row in range(len(window)) if row not in failed]
            asked = [texts[row] + slot.before for row in going]
            for row, result in zip(going, lm.score_continuations(asked, [slot.labels] * len(asked))):
                if isinstance(result, Failure):
                    failed[row] = result
                else:
                    found[row].append(result)
                    texts[row] += slot.before + slot.labels[int(np.argmax(result.logprobs))]
        for row, own in enumerate(found):
            yield failed.get(row) or Filled(tuple(result.logprobs for result in own), True, own[0].prompt_tokens)
