"""LMRater: a causal language model as a rater. The reply form is forced upon it and only labels are read; nothing is parsed.

    prompt(document) ─ [A..O] ─ "\\n" ─ [1..5] ─ "\\n" ─ [1..5] …      a log-probability a label in every gap (slots.py)

    chance p_k    of the labels of a gap, summing to 1         level   the likeliest label
    score         Σ k · p_k                                    surety  its chance
    label mass    how much of the model's wish went to labels at all; under `least_mass` the document has `low_label_mass`

The reply that DataMan's checkpoints write takes 29 tokens, decoded one after the other: 29 steps. Here a step reads a gap and
the text up to the next, 14 of them, or, once like documents were read, all gaps at once with their labels as the guess until
nothing changes: mostly 2 or 3 passes, 15 at most, with the same answer
(`passes` None; see slots.py). `passes=1` reads the form once with the middle label in each gap, says `inexact` where that may
differ, and `agreement` measures how much.

View: `whole` fails a document that does not fit (`too_long`); `head_tail` shows half as many tokens from each end with
`ellipsis` between them, as those checkpoints are used, and `Detail.windows` holds the two spans; windows are `WindowedRater`'s.
A document that spells out special tokens is text in a chat model; give such corpora to a model with chat = true.

Confidences are the model's own and not calibrated: `confidence` is the surety of the summary criterion, or the mean surety.
Price: the prompt once, and the form's tokens a pass. A model that cannot read labels (no log-probabilities) is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from typecase.core.rating import Rubric
from typecase.errors import BadRecipe
from typecase.lm.pace import Estimate, estimate
from typecase.lm.protocol import LM, Failure, FailureKind, fingerprint_of, require
from typecase.lm.rate.cuts import Cut, byte_bounds, clean, head_and_tail, text_of
from typecase.lm.rate.rater import (
    F32,
    I64,
    OK,
    PARTIAL,
    RATER_FAILED,
    U8,
    Detail,
    Ratings,
    WindowRating,
    unrated,
)
from typecase.lm.slots import Filled, FillsSlots, Slot, fill

View = Literal["whole", "head_tail"]
BATCH_DOCS = 64
DOMAIN = "domain"
"""What a slot asks for beside criteria."""

CODE_OF: Mapping[FailureKind, str] = {
    "too_long": "too_long",
    "timeout": "timeout",
    "refused": "refusal",
    "budget": "budget",
    "empty_prompt": "empty_prompt",
    "out_of_memory": "out_of_memory",
}
"""Reason codes of failures; all others are `api_error`."""


class Asking(Protocol):
    """A prompt form with gaps: the text before them, the gaps, and what each of them asks for."""

    @property
    def slots(self) -> Sequence[Slot]:
        """The gaps, in order."""

    @property
    def asks(self) -> Sequence[str]:
        """What each gap asks for: the id of a criterion, whose labels are the levels from the lowest up, or DOMAIN."""

    def prompt(self, text: str) -> str:
        """What stands before the first gap, for one document."""


@dataclass(frozen=True, slots=True)
class LMRater:
    """`lm` as a rater on `rubric`; see the module.

    head_tail_tokens   tokens of a document in the view `head_tail`
    passes             over the form at most; None reads until exact
    least_mass         label mass under which a document gets the code `low_label_mass`
    """

    lm: LM
    rubric: Rubric
    asking: Asking
    name: str = "lm"
    version: str = "1"
    view: View = "whole"
    head_tail_tokens: int = 1894
    ellipsis: str = "..."
    passes: int | None = None
    least_mass: float = 0.5
    batch_docs: int = BATCH_DOCS

    def __post_init__(self) -> None:
        require(self.lm, "continuations")
        if not 0 <= self.least_mass <= 1:
            raise BadRecipe(f"least_mass is a share of 0 to 1, got {self.least_mass}")
        if self.passes is not None and self.passes < 1:
            raise BadRecipe(f"a form takes 1 pass or more, got passes={self.passes}")
        unknown = [name for name in self.asking.asks if name != DOMAIN and name not in self.rubric.columns]
        if unknown:
            raise BadRecipe(f"the form asks for '{unknown[0]}', the rubric has {', '.join(self.rubric.columns)}")

    @property
    def fingerprint(self) -> str:
        """Of the model, the rubric, the form's words and gaps, and the view."""
        slots = [[slot.before, slot.labels] for slot in self.asking.slots]
        view = [self.view, self.head_tail_tokens, self.ellipsis] if self.view == "head_tail" else [self.view]
        words = [self.asking.prompt(""), self.asking.prompt("text")]
        settings = [self.passes, self.least_mass, self.version]
        return fingerprint_of(
            "lm", 1, self.lm.fingerprint, self.rubric.fingerprint, slots, list(self.asking.asks), words, view, settings
        )

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Ratings of the documents; a document that cannot be asked about has a code and the reason in `raw`."""
        texts = [text_of(values[a:b].tobytes()) for a, b in pairwise(offsets)]
        docs = [doc for doc, text in enumerate(texts) if text.strip()]
        shown = [self._shown(texts[doc]) for doc in docs]
        board = _Board(unrated(self.rubric, len(texts)))
        prompts = [self._prompt(text) for text, _ in shown]
        for doc, (_, cuts), found in zip(docs, shown, fill(self.lm, prompts, self.asking.slots, passes=self.passes)):
            if isinstance(found, Failure):
                board.fail(doc, found)
            else:
                self._put(board, doc, found, texts[doc], cuts)
        return board.done()

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of texts by the model's tokenizer, without what every prompt has around them."""
        around = self.lm.count_tokens([""])[0]
        return [size - around for size in self.lm.count_tokens(texts)]

    def room(self) -> int | None:
        """Tokens of a document that fit the model's context beside prompt and form; None where the context is not known."""
        context = self.lm.can.context_tokens
        if context is None:
            return None
        form = "".join(slot.before + slot.labels[0] for slot in self.asking.slots)
        return context - self.lm.count_tokens([self.asking.prompt("")])[0] - self.count([form])[0] - 8

    def estimate_cost(self, texts: Iterable[str]) -> Reading:
        """Tokens and cost of rating `texts`, before anything is sent: a prompt is read once, or once a label by a server."""
        shown = [self._prompt(self._shown(text)[0]) for text in texts if text.strip()]
        own: Any = self.lm
        while not hasattr(own, "estimate") and hasattr(own, "lm"):
            own = own.lm
        count = own.estimate if hasattr(own, "estimate") else partial(estimate, count_tokens=self.lm.count_tokens)
        one: Estimate = count(shown, max_tokens=1)
        n = self._readings()
        scaled = (one.rows * n, one.prompt_tokens * n, one.most_completion_tokens * n, one.least_cost * n, one.most_cost * n)
        return Reading(Estimate(*scaled, one.currency))

    def _readings(self) -> int:
        if isinstance(self.lm, FillsSlots) and self.lm.can_fill(self.asking.slots):
            return 1
        return sum(len(slot.labels) for slot in self.asking.slots)

    def _prompt(self, text: str) -> str:
        return self.asking.prompt(clean(text))

    def _shown(self, text: str) -> tuple[str, list[Cut]]:
        """What of a document is shown, and the spans of it where that is not all."""
        if self.view == "whole":
            return text, []
        cuts = head_and_tail(text, self.head_tail_tokens, self.count)
        if len(cuts) == 1:
            return text, []
        return self.ellipsis.join(text[cut.start : cut.stop] for cut in cuts), cuts

    def _put(self, board: _Board, doc: int, found: Filled, text: str, cuts: Sequence[Cut]) -> None:
        chances = [_chances(logprobs) for logprobs in found.logprobs]
        mass = min(_mass(logprobs) for logprobs in found.logprobs)
        ratings, rubric = board.ratings, self.rubric
        for name, own in zip(self.asking.asks, chances, strict=True):
            if name == DOMAIN:
                ratings.domain_chances[doc] = own
                ratings.domain[doc], ratings.domain_confidence[doc] = int(own.argmax()), own.max()
                continue
            at = rubric.columns.index(name)
            ratings.scores[doc, at] = float(own @ np.arange(rubric.low, rubric.high + 1))
            board.levels[doc, at], board.surety[doc, at] = rubric.low + int(own.argmax()), own.max()
        board.label_mass[doc] = mass
        board.codes[doc] = (
            *(("shortened",) if cuts else ()),
            *(("low_label_mass",) if mass < self.least_mass else ()),
            *(() if found.exact else ("inexact",)),
        )
        whole = not np.isnan(ratings.scores[doc]).any() and (ratings.domain[doc] >= 0 or not rubric.domains)
        ratings.status[doc] = OK if whole else PARTIAL
        ratings.confidence[doc] = self._confidence(board.surety[doc])
        spans = list(byte_bounds(text, cuts or [Cut(0, len(text), 0)]))
        ratings.rated_bytes[doc] = sum(stop - start for start, stop in spans)
        if cuts:
            board.windows[doc] = board.spans(doc, cuts, spans)

    def _confidence(self, surety: F32) -> float:
        if self.rubric.summary is not None:
            summary = float(surety[self.rubric.columns.index(self.rubric.summary)])
            if not np.isnan(summary):
                return summary
        told = surety[~np.isnan(surety)]
        return float(told.mean()) if len(told) else float("nan")


@dataclass(frozen=True, slots=True)
class Reading:
    """What rating will use."""

    one_round: Estimate


class _Board:
    """Ratings under way, with all there is to say more of them."""

    def __init__(self, ratings: Ratings) -> None:
        num, shape = len(ratings), ratings.scores.shape
        self.ratings = ratings
        self.levels = np.zeros(shape, np.int8)
        self.surety = np.full(shape, np.nan, np.float32)
        self.label_mass = np.full(num, np.nan, np.float32)
        self.codes: list[tuple[str, ...]] = [()] * num
        self.raw: list[str | None] = [None] * num
        self.windows: list[tuple[WindowRating, ...]] = [()] * num

    def fail(self, doc: int, failure: Failure) -> None:
        """A document without a rating."""
        self.ratings.status[doc] = RATER_FAILED
        self.codes[doc] = (CODE_OF.get(failure.kind, "api_error"),)
        self.raw[doc] = f"{failure.kind}: {failure.message}"

    def spans(self, doc: int, cuts: Sequence[Cut], spans: Sequence[tuple[int, int]]) -> tuple[WindowRating, ...]:
        """The parts of a document that were read as one: each has the rating of them all."""
        row = self.ratings.row(doc)
        return tuple(
            WindowRating(start, stop, cut.tokens, row.scores, row.domain)
            for cut, (start, stop) in zip(cuts, spans, strict=True)
        )

    def done(self) -> Ratings:
        """The ratings with their detail."""
        kept = tuple(self.codes), tuple(self.raw), tuple(self.windows)
        return replace(self.ratings, detail=Detail(self.levels, self.surety, self.label_mass, *kept))


def _chances(logprobs: F32) -> npt.NDArray[np.float64]:
    """The labels' chances, summing to 1."""
    raised = np.exp(logprobs.astype(np.float64) - logprobs.max())
    chances: npt.NDArray[np.float64] = raised / raised.sum()
    return chances


def _mass(logprobs: F32) -> float:
    return float(min(1.0, np.exp(logprobs.astype(np.float64)).sum()))


@dataclass(frozen=True, slots=True)
class Agreement:
    """One pass against the exact reading.

    documents     compared
    labels        share of gaps with the same label
    whole         share of documents with the same label in every gap
    moved         mean absolute difference of the expected scores, in levels
    passes        mean passes that the exact reading took; `most_passes` of any document
    """

    documents: int
    labels: float
    whole: float
    moved: float
    passes: float
    most_passes: int


def agreement(rater: LMRater, texts: Sequence[str]) -> Agreement:
    """How far reading the form once agrees with reading it until nothing changes, over those of `texts` that can be read."""
    prompts = [rater._prompt(rater._shown(text)[0]) for text in texts if text.strip()]
    once, exact = (list(fill(rater.lm, prompts, rater.asking.slots, passes=passes)) for passes in (1, None))
    pairs = [(a, b) for a, b in zip(once, exact, strict=True) if isinstance(a, Filled) and isinstance(b, Filled)]
    same = np.array([[x == y for x, y in zip(a.best, b.best)] for a, b in pairs], bool)
    criteria = [k for k, name in enumerate(rater.asking.asks) if name != DOMAIN]
    moved = [abs(_expected(a.logprobs[k]) - _expected(b.logprobs[k])) for a, b in pairs for k in criteria]
    taken = [b.passes for _, b in pairs]
    return Agreement(
        len(pairs),
        float(same.mean()) if same.size else 1.0,
        float(same.all(axis=1).mean()) if same.size else 1.0,
        float(np.mean(moved)) if moved else 0.0,
        float(np.mean(taken)) if taken else 0.0,
        max(taken, default=0),
    )


def _expected(logprobs: F32) -> float:
    """The expected level, counted from the lowest."""
    return float(_chances(logprobs) @ np.arange(len(logprobs)))


def lm_rater(lm: LM, rubric: Rubric, asking: Asking, **settings: Any) -> LMRater:
    """An LMRater whose rubric is narrowed to what the form asks for."""
    return LMRater(lm, narrowed(rubric, asking.asks), asking, **settings)


def narrowed(rubric: Rubric, asks: Sequence[str]) -> Rubric:
    """The rubric without what is never asked; of one that is asked for the domain alone, the summary criterion stays."""
    criteria = tuple(c for c in rubric.criteria if c.id in asks)
    if not criteria:
        criteria = tuple(c for c in rubric.criteria if c.id == rubric.summary) or rubric.criteria[:1]
    domains = rubric.domains if DOMAIN in asks else ()
    if len(criteria) == len(rubric.criteria) and len(domains) == len(rubric.domains):
        return rubric
    summary = rubric.summary if rubric.summary in [c.id for c in criteria] else None
    return replace(rubric, criteria=criteria, domains=domains, summary=summary)
