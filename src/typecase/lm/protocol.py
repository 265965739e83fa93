"""LM: one face for every language model. Batches in, one result a row out, in the same order; a failure is a value.

    generate(prompts, max_tokens, …)             -> Answer   | Failure     text, why it ended, log-probabilities
    score(texts)                                 -> Scores   | Failure     a log-probability a token
    score_continuations(prompts, continuations)  -> Choices  | Failure     a log-probability a given continuation
    embed(texts)                                 -> Vector   | Failure

                 rows ──► window ──► sorted, batched, retried ──► the same rows, in order
                                              └── one row went wrong: Failure(kind, message), and the run goes on

Every call checks what it was asked *before* any work and raises then (a backend that cannot score says so at once);
afterwards only an outage of the whole backend raises. Input may be endless: results stream, and a backend holds no more
than a window of rows. A result depends on its row and on the parameters alone, never on its neighbours: a draw is seeded
by (seed, prompt), so the same prompt twice in a call gives the same answer twice; another sample takes another seed.

Price: one Python object a row. A log-probability takes 4 bytes a token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from typecase.errors import BadQuery, FixInput

F32 = npt.NDArray[np.float32]
T = TypeVar("T")

FailureKind = Literal[
    "too_long",  # prompt and answer do not fit the model's context
    "empty_prompt",  # nothing to condition on, and the model has no start token
    "timeout",  # no answer in time, all attempts
    "connection",  # the connection broke, all attempts
    "rate_limited",  # told to wait more often than there were attempts
    "server_error",  # the server failed on this row, all attempts
    "rejected",  # the server will not take this row
    "refused",  # a filter or the model declined
    "malformed",  # a reply that is not what the interface promises, all attempts
    "no_logprobs",  # the reply lacks the log-probabilities that were asked for
    "budget",  # not asked: the budget was spent
    "out_of_memory",  # the row alone does not fit the device
]
LASTING: frozenset[FailureKind] = frozenset(("too_long", "empty_prompt"))
"""Kinds that asking again cannot change; the others may pass."""

FormKind = Literal["json_schema", "grammar", "regex", "choice"]


@dataclass(frozen=True, slots=True)
class Form:
    """What a generated text must look like: a JSON schema, grammar or regular expression as text, or a JSON list of choices."""

    kind: FormKind
    body: str

    def __post_init__(self) -> None:
        if self.kind in ("json_schema", "choice"):
            try:
                value = orjson.loads(self.body)
            except orjson.JSONDecodeError as error:
                raise BadQuery(f"a form of kind {self.kind} is JSON text, got {self.body[:60]!r}: {error}") from None
            if not isinstance(value, dict if self.kind == "json_schema" else list):
                raise BadQuery(f"a form of kind {self.kind} got the JSON value {self.body[:60]!r}")


@dataclass(frozen=True, slots=True)
class Failure:
    """A row without an answer, and why."""

    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A generated text. `finish` is "stop" (the model or a stop string ended it) or "length" (max_tokens did).

    logprobs   float32 (generated tokens,) at temperature 1, or None where the backend tells none
    top        per generated token its likeliest alternatives (text, log-probability), best first; () unless asked for
    """

    text: str
    finish: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    logprobs: F32 | None = None
    top: tuple[tuple[tuple[str, float], ...], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Log-probabilities of a text's tokens, natural logarithm, float32 (prompt_tokens - unscored,).

    `unscored` is 1 where the model has no start token and so nothing to predict the first token from; else 0.
    """

    logprobs: F32
    prompt_tokens: int
    unscored: int = 0

    @property
    def total(self) -> float:
        """Log-probability of the whole text."""
        return float(self.logprobs.sum(dtype=np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Log-probability of each continuation given the prompt, float32 (continuations,), and its tokens, int32."""

    logprobs: F32
    num_tokens: npt.NDArray[np.int32]
    prompt_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """An embedding, float32 (width,), as the model gives it: not normalised."""

    values: F32
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Can:
    """What a backend can do. `top_logprobs` is the most alternatives a token; `context_tokens` is None where unknown."""

    generate: bool = False
    score: bool = False
    continuations: bool = False
    embed: bool = False
    forms: frozenset[FormKind] = frozenset()
    top_logprobs: int = 0
    context_tokens: int | None = None


class LM(Protocol):
    """A language model at arm's length. Two LMs of one fingerprint give the same results up to rounding."""

    @property
    def name(self) -> str:
        """What the model is called in tables and reports."""

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over the weights, the prompt form, the precision: all that results depend on."""

    @property
    def can(self) -> Can:
        """What it can do."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as `generate` would count its prompt."""

    def generate(
        self,
        prompts: Iterable[str],
        *,
        max_tokens: int,
        seed: int,
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        form: Form | None = None,
        top_logprobs: int = 0,
    ) -> Iterator[Answer | Failure]:
        """A text for each prompt; temperature 0 takes the likeliest token. The text ends before a stop string."""

    def score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        """Log-probabilities of each text's tokens."""

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        """Log-probabilities of the given continuations of each prompt; `itertools.repeat(same)` serves all prompts."""

    def embed(self, texts: Iterable[str]) -> Iterator[Vector | Failure]:
        """A vector for each text."""


Result = Answer | Scores | Choices | Vector | Failure


@dataclass(frozen=True, slots=True)
class Generation:
    """The checked parameters of `generate`."""

    max_tokens: int
    seed: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    form: Form | None = None
    top_logprobs: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise BadQuery(f"max_tokens must be 1 or more, got {self.max_tokens}")
        if not 0.0 <= self.temperature <= 10.0:
            raise BadQuery(f"temperature must be within 0 and 10, got {self.temperature}")
        if "" in self.stop or self.top_logprobs < 0:
            raise BadQuery(f"stop strings are not empty and top_logprobs not negative, got {self.stop} and {self.top_logprobs}")

    @staticmethod
    def checked(
        lm: LM,
        max_tokens: int,
        seed: int,
        stop: Sequence[str],
        temperature: float,
        form: Form | None,
        top_logprobs: int,
    ) -> Generation:
        """The parameters, if `lm` can serve them."""
        if isinstance(stop, str):
            raise BadQuery(f"stop is a list of strings, got the string {stop!r}")
        require(lm, "generate")
        wanted = Generation(max_tokens, seed, tuple(stop), temperature, form, top_logprobs)
        if form is not None and form.kind not in lm.can.forms:
            can = ", ".join(sorted(lm.can.forms)) or "no form at all"
            raise FixInput(
                f"{lm.name} cannot force a {form.kind}; it can force {can}. Ask without `form`, or take another backend"
            )
        if top_logprobs > lm.can.top_logprobs:
            raise FixInput(f"{lm.name} tells at most {lm.can.top_logprobs} alternatives a token, asked for {top_logprobs}")
        return wanted


def require(lm: LM, what: Literal["generate", "score", "continuations", "embed"]) -> None:
    """Refuses before any work what `lm` cannot do."""
    if not getattr(lm.can, what):
        able = [name for name in ("generate", "score", "continuations", "embed") if getattr(lm.can, name)]
        raise FixInput(
            f"{lm.name} cannot do '{what}'; it can do: {', '.join(able) or 'nothing'}. Take another backend or model"
        )


def pairs_of(prompts: Iterable[str], continuations: Iterable[Sequence[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each prompt with its continuations; continuations may go on (`repeat`), prompts may not."""
    rest = iter(continuations)
    for row, prompt in enumerate(prompts):
        mine = next(rest, None)
        if mine is None:
            raise BadQuery(f"prompt {row} has no continuations; to use the same for all prompts, pass itertools.repeat(them)")
        if isinstance(mine, str) or not mine or not all(mine):
            raise BadQuery(f"the continuations of prompt {row} must be a list of texts, none empty, got {mine!r}")
        yield prompt, tuple(mine)


def no_string(texts: Iterable[str]) -> Iterable[str]:
    """`texts`, unless it is one string, whose letters would be taken for prompts."""
    if isinstance(texts, str):
        raise BadQuery(f"a batch is a list of texts, got the text {texts[:40]!r}: put it in a list")
    return texts


def windows(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` rows, in order."""
    source = iter(rows)
    for first in source:
        window = [first]
        for row in chain(source):
            window.append(row)
            if len(window) == size:
                break
        yield window


def fingerprint_of(*parts: object) -> str:
    """32 hexadecimal digits over JSON values."""
    return blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def draw_key(seed: int, prompt: str) -> int:
    """The seed of one prompt's draws, 63 bits: from (seed, prompt) alone."""
    digest = blake2b(f"{seed}\0".encode() + prompt.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass(slots=True)
class Tally:
    """Counts what went by: answers, failures by kind, tokens."""

    answers: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, result: Result) -> None:
        """Counts one result."""
        if isinstance(result, Failure):
            self.failures[result.kind] += 1
            return
        self.answers += 1
        self.prompt_tokens += result.prompt_tokens
        self.completion_tokens += result.completion_tokens if isinstance(result, Answer) else 0

    @property
    def rows(self) -> int:
        """All results: answers and failures."""
        return self.answers + self.failures.total()


R = TypeVar("R", bound=Result)


def tallied(results: Iterable[R], tally: Tally) -> Iterator[R]:
    """The results as they come, counted into `tally`."""
    for result in results:
        tally.add(result)
        yield result
