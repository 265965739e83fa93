"""Slots: a form with gaps, of which only the labels that may fill each gap are read. No answer can fail to parse.

    slots = [Slot("\\n", DIGITS), Slot("\\n", DIGITS), Slot("\\nDomain: ", ("A", "B", "C"))]

    prompt ─ "\\n" ─ [1..5] ─ "\\n" ─ [1..5] ─ "\\nDomain: " ─ [A..C]      each gap: a log-probability a label
                      └─ the likeliest label fills the gap for those behind it

On a GPU `fill` reads all gaps of a form in one pass over it with a guess in each gap, puts the likeliest labels into the
gaps and reads again until nothing changes: exactly what filling gap after gap gives, in one pass a gap at most, never one a
token. How many it takes depends on the guess: a small model that was never tuned to its form took 7 to 13 for 15 gaps from the
middle labels, and 2 or 3 from the labels that most documents of the batch before had, which are the guess from the second batch
on. On a CPU, where a pass costs as much as its tokens, the first batch is filled gap after gap. `passes` bounds the passes; 1
is the plain one-pass reading with the middle label as filler. A model that cannot do that is asked for continuations, gap after
gap: the same result, the prompt read once a gap.

Price: the prompt is read once; then the form's tokens, a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from typecase.errors import BadQuery
from typecase.lm.protocol import F32, LM, Failure, windows

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
    passes     over the form that it took; one a gap where gap after gap was asked
    """

    logprobs: tuple[F32, ...]
    exact: bool
    prompt_tokens: int
    passes: int = 1

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
    """Gap after gap, by the continuations of the prompt: what was filled in so far, the text before the gap, a label.

    The prompt stays as it is, so that with a chat model the form stands in the model's own turn. A label's log-probability is
    that of the whole continuation less that of what stands before the label.
    """
    for window in windows(prompts, _WINDOW_ROWS):
        said = [""] * len(window)
        found: list[list[F32]] = [[] for _ in window]
        sizes = [0] * len(window)
        failed: dict[int, Failure] = {}
        for slot in slots:
            going = [row for row in range(len(window)) if row not in failed]
            starts = [said[row] + slot.before for row in going]
            asked = [(*([start] if start else []), *(start + label for label in slot.labels)) for start in starts]
            for row, start, result in zip(going, starts, lm.score_continuations([window[row] for row in going], asked)):
                if isinstance(result, Failure):
                    failed[row] = result
                    continue
                own = result.logprobs[1:] - result.logprobs[0] if start else result.logprobs
                found[row].append(own)
                said[row], sizes[row] = start + slot.labels[int(np.argmax(own))], result.prompt_tokens
        for row, logprobs in enumerate(found):
            yield failed.get(row) or Filled(tuple(logprobs), True, sizes[row], len(slots))
