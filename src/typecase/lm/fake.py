"""FakeLM: a language model for tests, exact and free. It keeps every law of the protocol and needs no weights.

    lm = FakeLM(replies={"How": "Fine."}, failures={"BOOM": Failure("timeout", "planted")})

Its tokens are words with the white space before them. A token's log-probability is a digit of a hash of (name, token
before, token), so that scores add up like those of a bigram model. A text is a row of nonsense words drawn from
(seed, prompt), unless a reply is planted: the reply of the first key that the prompt contains, or what `reply(prompt)`
says. A prompt that contains a key of `failures` fails as planted, always. `rows_asked` counts the rows that reached it.

Price: about 5 µs a token. Nothing about it resembles language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, TypeVar

import numpy as np

from typecase.lm.protocol import (
    F32,
    Answer,
    Can,
    Choices,
    Failure,
    Form,
    FormKind,
    Generation,
    Scores,
    Vector,
    draw_key,
    fingerprint_of,
    no_string,
    pairs_of,
    require,
)

X = TypeVar("X")

_TOKEN = re.compile(r"\s*\S+|\s+$")
_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su", "ta", "vo")
_WIDTH = 16
ALL = Can(True, True, True, True, frozenset[FormKind](), top_logprobs=5, context_tokens=512)


class FakeLM:
    """A deterministic LM with planted replies and failures."""

    def __init__(
        self,
        name: str = "fake",
        *,
        can: Can = ALL,
        replies: Mapping[str, str] | None = None,
        reply: Callable[[str], str] | None = None,
        failures: Mapping[str, Failure] | None = None,
    ) -> None:
        self._name, self._can = name, can
        self._replies, self._reply, self._failures = dict(replies or {}), reply, dict(failures or {})
        self.rows_asked = 0

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Of the name and the planted replies; a `reply` function counts by its name."""
        return fingerprint_of("fake", 1, self._name, self._replies, getattr(self._reply, "__qualname__", ""))

    @property
    def can(self) -> Can:
        """As given."""
        return self._can

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Words of each text."""
        return [len(_TOKEN.findall(text)) for text in texts]

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
        """The planted reply, or nonsense."""
        wanted = Generation.checked(self, max_tokens, seed, stop, temperature, form, top_logprobs)
        return self._each(prompts, lambda prompt: self._answer(prompt, wanted), max_tokens)

    def score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        """Bigram log-probabilities out of a hash."""
        require(self, "score")
        return self._each(texts, self._scores, 0)

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        """Bigram log-probabilities of the continuations' words."""
        require(self, "continuations")
        return self._choices(pairs_of(no_string(prompts), continuations))

    def embed(self, texts: Iterable[str]) -> Iterator[Vector | Failure]:
        """A normal vector out of a hash of the text."""
        require(self, "embed")
        return self._each(texts, lambda text: Vector(_normal(text), self.count_tokens([text])[0]), 0)

    def _each(self, texts: Iterable[str], ask: Callable[[str], X], room: int) -> Iterator[X | Failure]:
        return (self._refuse(text, room) or ask(text) for text in no_string(texts))

    def _refuse(self, text: str, room: int) -> Failure | None:
        self.rows_asked += 1
        for mark, failure in self._failures.items():
            if mark in text:
                return failure
        size, limit = self.count_tokens([text])[0] + room, self._can.context_tokens
        if limit is not None and size > limit:
            return Failure("too_long", f"{size} tokens with the answer, the context holds {limit}")
        return None

    def _answer(self, prompt: str, wanted: Generation) -> Answer:
        text = self._reply(prompt) if self._reply else next((r for mark, r in self._replies.items() if mark in prompt), None)
        words = _TOKEN.findall(text if text is not None else _nonsense(prompt, wanted))
        finish: Literal["stop", "length"] = "length" if len(words) > wanted.max_tokens else "stop"
        text = "".join(words[: wanted.max_tokens])
        cuts = [at for mark in wanted.stop if (at := text.find(mark)) >= 0]
        if cuts:
            text, finish = text[: min(cuts)], "stop"
        logprobs = self._logprobs(prompt, text)
        top = tuple(
            ((word, float(value)), *((word + "x" * k, float(value) - k) for k in range(1, wanted.top_logprobs)))
            for word, value in zip(_TOKEN.findall(text), logprobs)
        )
        return Answer(text, finish, self.count_tokens([prompt])[0], len(logprobs), logprobs, top if wanted.top_logprobs else ())

    def _scores(self, text: str) -> Scores:
        logprobs = self._logprobs("", text)
        return Scores(logprobs, len(logprobs))

    def _choices(self, pairs: Iterator[tuple[str, tuple[str, ...]]]) -> Iterator[Choices | Failure]:
        for prompt, continuations in pairs:
            longest = max(self.count_tokens(continuations))
            scored = [self._logprobs(prompt, text) for text in continuations]
            yield self._refuse(prompt, longest) or Choices(
                np.array([row.sum() for row in scored], np.float32),
                np.array([len(row) for row in scored], np.int32),
                self.count_tokens([prompt])[0],
            )

    def _logprobs(self, before: str, text: str) -> F32:
        last = (_TOKEN.findall(before) or [""])[-1]
        tokens = _TOKEN.findall(text)
        return np.array([self._logprob(a, b) for a, b in zip([last, *tokens], tokens)], np.float32)

    def _logprob(self, before: str, token: str) -> float:
        digest = blake2b(f"{self._name}\0{before}\0{token}".encode("utf-8", "surrogatepass"), digest_size=2).digest()
        return -0.01 - int.from_bytes(digest, "little") / 8192


def _nonsense(prompt: str, wanted: Generation) -> str:
    key = draw_key(wanted.seed if wanted.temperature > 0 else 0, prompt)
    dice = np.random.default_rng(key)
    words = 3 + int(dice.integers(12))
    return " ".join("".join(dice.choice(_SYLLABLES, 2)) for _ in range(words))


def _normal(text: str) -> F32:
    key = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    return np.random.default_rng(key).standard_normal(_WIDTH).astype(np.float32)
