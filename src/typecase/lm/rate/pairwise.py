"""Pairs: a language model says which of two texts is better; both orders are asked, and what the order gives cancels.

    Text A: a   Text B: b    ─►  P("B") = 0.7       chance that b beats a = (0.7 + 1 - 0.5) / 2 = 0.6
    Text A: b   Text B: a    ─►  P("B") = 0.5

How the chance of "B" is read, the first way that the model can:
    labels      the two labels alone are read where the answer stands (lm/slots): exact, one pass, nothing drawn
    top         the likeliest first tokens of the answer; a label that is not among them has at most the least of them
    votes       texts are drawn at temperature 1; valid if more than half of them name a label

A pair whose answer is not valid in both orders is missing, with a reason, and never counts as a tie. Both texts are cut to
excerpts of one length (as in QuRating, arXiv 2402.09739, in words instead of tokens): the full length with chance 1/2, else
something between half and all of it, at a random place; the draw follows from (seed, ids) alone.

Price: two prompts a pair (two times `votes` answers where the model tells no log-probabilities).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from typecase.core.pairwise import both_orders
from typecase.core.rating import Criterion
from typecase.errors import FixInput
from typecase.lm.protocol import LM, Answer, Failure
from typecase.lm.slots import Filled, FillsSlots, Slot, fill

if TYPE_CHECKING:
    from typecase.lm.rate.pairwise_rater import PairwiseRater

Way = Literal["labels", "top", "votes"]

WORDS = 384
VOTES = 20
_LEAST_WORDS = 64
_TOP = 20
_WINDOW_PAIRS = 128
_WORD = re.compile(r"\S+")
_NAMED = re.compile(r"^\W*(?:(?:text|answer|option)\W+)*([AB])\b", re.IGNORECASE)
_LABELS = (" A", " B")
_BEFORE = "\nAnswer:"
_FORM = """Two texts are compared on one question.

Question: {question}{best}

Text A:
<<<
{first}
>>>

Text B:
<<<
{second}
>>>

Which of the two does better on the question? Answer with one letter, A or B."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a model said of a pair (a, b).

    forward, backward   chance that the text shown second is better, for a, b and for b, a; NaN where invalid
    label_mass          the least share of the model's wish that went to the labels; NaN where it is not told
    reason              why the pair is missing, "" where it is not
    """

    forward: float
    backward: float
    label_mass: float
    reason: str

    @property
    def chance(self) -> float:
        """That b is better than a; NaN where the pair is missing."""
        return float(both_orders(self.forward, self.backward))


def way_of(lm: LM) -> Way:
    """How the chance will be read. Raises FixInput when the model can do none of the three."""
    if lm.can.continuations or (isinstance(lm, FillsSlots) and lm.can_fill([Slot(_BEFORE, _LABELS)])):
        return "labels"
    if lm.can.generate:
        return "top" if lm.can.top_logprobs >= 2 else "votes"
    raise FixInput(f"{lm.name} can neither score continuations nor generate: it cannot compare texts")


def prompt_of(criterion: Criterion, first: str, second: str) -> str:
    """The question about two texts. A text that spells the fences out cannot end its place: they are taken apart."""
    best = criterion.anchors[max(criterion.anchors)] if criterion.anchors else ""
    return _FORM.format(
        question=criterion.question, best=f" (At best: {best})" if best else "", first=_fenced(first), second=_fenced(second)
    )


def _fenced(text: str) -> str:
    return text.replace(">>>", "> > >").replace("<<<", "< < <")


def judge_pairs(
    lm: LM, pairs: Iterable[tuple[str, str]], criterion: Criterion, *, votes: int = VOTES, seed: int = 0
) -> Iterator[Judged]:
    """What the model says of each pair of texts, in order; a failure is a pair with a reason, and the run goes on."""
    ask = _ASKERS[way_of(lm)]
    source = iter(pairs)
    while window := list(islice(source, _WINDOW_PAIRS)):
        prompts = [prompt_of(criterion, *shown) for a, b in window for shown in ((a, b), (b, a))]
        said = list(ask(lm, prompts, votes, seed))
        for forward, backward in zip(said[::2], said[1::2], strict=True):
            reason = forward[2] or backward[2]
            yield Judged(forward[0], backward[0], float(np.fmin(forward[1], backward[1])), reason)


_Said = tuple[float, float, str]  # chance of "B", label mass, reason


def _by_labels(lm: LM, prompts: Sequence[str], votes: int, seed: int) -> Iterator[_Said]:
    for result in fill(lm, prompts, [Slot(_BEFORE, _LABELS)]):
        yield _failed(result) if isinstance(result, Failure) else _read_labels(result)


def _read_labels(result: Filled) -> _Said:
    a, b = (float(value) for value in result.logprobs[0])
    top = max(a, b)
    if not np.isfinite(top):
        return float("nan"), 0.0, "no_label"
    return float(1 / (1 + np.exp(np.clip(a - b, -500, 500)))), float(np.exp(a) + np.exp(b)), ""


def _by_top(lm: LM, prompts: Sequence[str], votes: int, seed: int) -> Iterator[_Said]:
    shown = [prompt + _BEFORE for prompt in prompts]
    for result in lm.generate(shown, max_tokens=1, seed=seed, top_logprobs=min(_TOP, lm.can.top_logprobs)):
        yield _failed(result) if isinstance(result, Failure) else _read_top(result)


def _read_top(answer: Answer) -> _Said:
    if not answer.top:
        return float("nan"), float("nan"), "no_logprobs"
    first = answer.top[0]
    mass = [sum(float(np.exp(lp)) for text, lp in first if text.strip().upper() == label) for label in "AB"]
    if not any(mass):
        return float("nan"), 0.0, "no_label"
    bound = min(min(float(np.exp(lp)) for _, lp in first), max(0.0, 1 - sum(float(np.exp(lp)) for _, lp in first)))
    a, b = (value or bound / 2 for value in mass)
    return b / (a + b), sum(mass), ""


def _by_votes(lm: LM, prompts: Sequence[str], votes: int, seed: int) -> Iterator[_Said]:
    shown = [prompt + _BEFORE for prompt in prompts]
    counts = np.zeros((len(prompts), 2))
    failed: dict[int, _Said] = {}
    for vote in range(votes):
        for row, result in enumerate(lm.generate(shown, max_tokens=8, seed=seed + vote, temperature=1.0)):
            if isinstance(result, Failure):
                failed[row] = _failed(result)
            elif found := _NAMED.match(result.text):
                counts[row, "AB".index(found.group(1).upper())] += 1
    for row in range(len(prompts)):
        parsed = counts[row].sum()
        if parsed * 2 > votes:
            yield float(counts[row, 1] / parsed), float("nan"), ""
        else:
            yield failed.get(row, (float("nan"), float("nan"), "no_label"))


_ASKERS: dict[Way, Callable[[LM, Sequence[str], int, int], Iterator[_Said]]] = {
    "labels": _by_labels,
    "top": _by_top,
    "votes": _by_votes,
}


def _failed(failure: Failure) -> _Said:
    return float("nan"), float("nan"), failure.kind


@dataclass(frozen=True, slots=True)
class Excerpts:
    """The stretches of two texts that are compared: characters [start, stop) of each."""

    first: tuple[int, int]
    second: tuple[int, int]


def excerpts_of(first: str, second: str, *, words: int, key: tuple[object, ...]) -> Excerpts:
    """Excerpts of one length in words for both, drawn from `key`; never longer than the shorter text, nor than `words`.

    A text below 64 words does not drag the other down: it stays whole, and the other is cut to 64.
    """
    dice = np.random.default_rng(int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest(), "little"))
    length = words if dice.random() < 0.5 else int(dice.integers(max(1, words // 2), words + 1))
    places = [[match.span() for match in _WORD.finditer(text)] for text in (first, second)]
    length = min(length, max(min(map(len, places)), _LEAST_WORDS))
    spans = []
    for text, found in zip((first, second), places, strict=True):
        if len(found) <= length:
            spans.append((0, len(text)))
            continue
        start = int(dice.integers(len(found) - length + 1))
        spans.append((found[start][0], found[start + length - 1][1]))
    return Excerpts(*spans)


def open_pairwise(table: Mapping[str, Any], where: Path) -> PairwiseRater:
    """The rater of documents that a table of `rater.toml` describes; see lm/pairwise_rater."""
    from typecase.lm.rate.pairwise_rater import open_pairwise as opened

    return opened(table, where)
