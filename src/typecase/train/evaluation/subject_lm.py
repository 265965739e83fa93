"""Subject LM: a subject behind the face of every language model, so that a run of ours can be asked what any model is asked.

    lm = SubjectLM(open_subject("work/models/small"))
    lm.generate(["Once"], max_tokens=20, seed=0)          for win rates
    lm.score(texts)  lm.score_continuations(…)

Writing reads the whole text again for every token, which is right for models of a few million parameters and wrong for others:
export those and open them as a Hugging Face folder. Prompts longer than the context lose their beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from typecase.lm.protocol import (
    Answer,
    Can,
    Choices,
    Failure,
    Form,
    Generation,
    Scores,
    Vector,
    draw_key,
    fingerprint_of,
    no_string,
    pairs_of,
    require,
)
from typecase.train.evaluation.choosing import ids_nats, split_ids
from typecase.train.evaluation.subject import Ints, Subject

_ROWS = 32


class SubjectLM:
    """Generates and scores by a subject. Rows are worked in windows of 32."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @property
    def name(self) -> str:
        """Of the run or folder."""
        return self.subject.name

    @property
    def fingerprint(self) -> str:
        """Of weights, tokenizer and device."""
        return fingerprint_of("subject", 1, self.subject.fingerprint, self.subject.tokenizer.fingerprint, self.subject.device)

    @property
    def can(self) -> Can:
        """Text, scores and continuations; no forms, no embeddings."""
        return Can(generate=True, score=True, continuations=True, context_tokens=self.subject.context)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Ids of each text and its start token."""
        return [len(self._ids(text)) for text in texts]

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
        """Token by token; a text ends before a stop string or at the end token."""
        asked = Generation.checked(self, max_tokens, seed, stop, temperature, form, top_logprobs)
        rows = iter(no_string(prompts))
        while window := list(islice(rows, _ROWS)):
            yield from _write(self.subject, [(prompt, self._ids(prompt)) for prompt in window], asked)

    def score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        """Log-probabilities of each text's tokens; a text beyond the context is a failure."""
        rows = iter(no_string(texts))
        unscored = 0 if self.subject.start is not None else 1
        while window := list(islice(rows, _ROWS)):
            ids = [self._ids(text) for text in window]
            fits = [len(row) <= self.subject.context + 1 for row in ids]
            told = iter(self.subject.score([row for row, good in zip(ids, fits, strict=True) if good]))
            for row, good in zip(ids, fits, strict=True):
                size = len(row) - 1 + unscored
                yield Scores(-next(told).nats, size, unscored) if good else Failure("too_long", f"{size} tokens do not fit")

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        """Log-probability of each continuation."""
        for prompt, mine in pairs_of(prompts, continuations):
            pairs = [split_ids(self.subject, prompt, one) for one in mine]
            if not len(pairs[0][0]):
                yield Failure("empty_prompt", "nothing to go on from: the tokenizer has no token that begins a text")
                continue
            nats = np.array([n for n, _ in ids_nats(self.subject, pairs)], np.float32)
            yield Choices(-nats, np.array([len(one) for _, one in pairs], np.int32), len(pairs[0][0]))

    def embed(self, texts: Iterable[str]) -> Iterator[Vector | Failure]:
        """Refused."""
        require(self, "embed")
        return iter(())

    def _ids(self, text: str) -> Ints:
        ids = self.subject.encode([text])[0]
        return ids if self.subject.start is None else np.concatenate((np.array([self.subject.start], np.int64), ids))


def _write(subject: Subject, window: Sequence[tuple[str, Ints]], asked: Generation) -> Iterator[Answer | Failure]:
    """Writes on every row of a window until each has ended."""
    rows = [ids for _, ids in window]
    dice = [np.random.default_rng(draw_key(asked.seed, prompt)) for prompt, _ in window]
    ends: list[str | None] = ["empty" if not len(ids) else None for ids in rows]
    logprobs: list[list[float]] = [[] for _ in rows]
    while open_rows := [k for k, end in enumerate(ends) if end is None]:
        logits = subject.next_logits([rows[k] for k in open_rows]).astype(np.float64)
        for k, line in zip(open_rows, logits, strict=True):
            plain = line - _log_sum(line)
            if asked.temperature:
                drawn = line / asked.temperature
                token = int(dice[k].choice(len(line), p=np.exp(drawn - _log_sum(drawn))))
            else:
                token = int(line.argmax())
            if token == subject.tokenizer.eod_id or token == subject.tokenizer.eos_id:
                ends[k] = "stop"
                continue
            rows[k] = np.append(rows[k], token)
            logprobs[k].append(float(plain[token]))
            if asked.stop and any(one in subject.tokenizer.decode(rows[k][-len(logprobs[k]) :]) for one in asked.stop):
                ends[k] = "stop"
            elif len(logprobs[k]) == asked.max_tokens:
                ends[k] = "length"
    for (_, ids), row, end, told in zip(window, rows, ends, logprobs, strict=True):
        if end == "empty":
            yield Failure("empty_prompt", "nothing to go on from: the tokenizer has no token that begins a text")
            continue
        text = subject.tokenizer.decode(row[len(ids) :])
        for one in asked.stop:
            text = text.split(one, 1)[0]
        yield Answer(text, "stop" if end == "stop" else "length", len(ids), len(told), np.array(told, np.float32))


def _log_sum(line: np.ndarray) -> float:
    top = float(line.max())
    return top + float(np.log(np.exp(line - top).sum()))
