"""RemoteCopier: a model behind any LM interface is asked to repeat tokens, by their texts.

    completions with log-probabilities    the quick forms as text; chance of the token's text as what comes next
    answers with log-probabilities        "repeat exactly …"; chance of the tokens of the answer that spell the text
    plain answers                         the share of some drawn answers that begin with the text

Only tokens that are whole text can be asked, and the server's tokenizer decides whether the text becomes the token: a witness
from the tokenizer's own audit says that it does. A closed model's share is a coarse number: with 8 draws it is 0 or 1/8.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from typecase.lm.copying.copying import Form, Sheet, sheets_of
from typecase.lm.protocol import LM, Answer, Choices, Failure, fingerprint_of

_CHAT = (
    Sheet("say", "Write the text between « and » again, exactly, with nothing before or after it.\n\n«\x00»"),
    Sheet(
        "spell", "Here is a string of characters in angle quotes: «\x00»\nReply with that string only, unchanged and unquoted."
    ),
)
_MORE_TOKENS = 8
_QUOTES = "«»\"'` \n"


class RemoteCopier:
    """Asks `lm`; `texts` are the texts of ids, None for those that have none."""

    def __init__(self, lm: LM, texts: Sequence[str | None], *, words: Sequence[str], draws: int = 8, seed: int = 0) -> None:
        self.lm, self._texts, self._draws, self._seed, self.tokens = lm, texts, draws, seed, 0
        self._sheets = sheets_of("quick") if lm.can.continuations else _CHAT
        self._words = list(words)
        self._by_name = {sheet.name: sheet for sheet in self._sheets}

    @property
    def fingerprint(self) -> str:
        """Of the model's, and how it is asked."""
        return fingerprint_of("remote copier", 1, self.lm.fingerprint, self._draws, self._seed, self._words)

    def forms(self) -> tuple[Form, ...]:
        """The forms as `verify` takes them; their ids stand for nothing."""
        return tuple(Form(sheet.name, (-1,), 1) for sheet in self._sheets)

    def able(self, ids: Sequence[int]) -> list[int]:
        """Ids of tokens that are text."""
        return [i for i in ids if self._texts[i]]

    def chances(self, form: Form, ids: Sequence[int], stop_at: float) -> list[tuple[float, ...] | None]:
        """See `Copier`; one step. None for rows that failed, and for ids without text."""
        asked = [(i, self._texts[i] or "") for i in self.able(ids)]
        texts = [text for _, text in asked]
        prompts = [self._written(self._by_name[form.name], text) for text in texts]
        if self.lm.can.continuations:
            found = self._scored(prompts, texts)
        elif self.lm.can.top_logprobs:
            found = self._answered(prompts, texts)
        else:
            found = self._drawn(prompts, texts)
        chances = {i: p for (i, _), p in zip(asked, found) if p is not None}
        return [(chances[i],) if i in chances else None for i in ids]

    def _written(self, sheet: Sheet, text: str) -> str:
        written = sheet.text
        for word in self._words:  # twice in its example: asked and repeated
            written = written.replace("\x01", word, 2)
        return written.replace("\x00", text)

    def _scored(self, prompts: Sequence[str], texts: Sequence[str]) -> list[float | None]:
        results = list(self.lm.score_continuations(prompts, [[text] for text in texts]))
        self._count(results)
        return [None if isinstance(r, Failure) else exp(min(0.0, float(r.logprobs[0]))) for r in results]

    def _answered(self, prompts: Sequence[str], texts: Sequence[str]) -> list[float | None]:
        longest = max((len(text.encode()) for text in texts), default=1)
        results = list(self.lm.generate(prompts, max_tokens=longest + _MORE_TOKENS, seed=self._seed, top_logprobs=1))
        self._count(results)
        return [None if isinstance(r, Failure) else chance_in(r, text) for r, text in zip(results, texts)]

    def _drawn(self, prompts: Sequence[str], texts: Sequence[str]) -> list[float | None]:
        longest = max((len(text.encode()) for text in texts), default=1)
        hits, answers = [0] * len(texts), [0] * len(texts)
        for draw in range(self._draws):
            results = list(
                self.lm.generate(prompts, max_tokens=longest + _MORE_TOKENS, seed=self._seed + draw, temperature=1.0)
            )
            self._count(results)
            for k, (result, text) in enumerate(zip(results, texts)):
                if not isinstance(result, Failure):
                    answers[k] += 1
                    hits[k] += says(result.text, text)
        return [hit / total if total else None for hit, total in zip(hits, answers)]

    def _count(self, results: Sequence[Answer | Choices | Failure]) -> None:
        self.tokens += sum(0 if isinstance(r, Failure) else r.prompt_tokens for r in results)


def says(answer: str, text: str) -> bool:
    """Whether an answer begins with the text, quotes and blanks at either's beginning aside."""
    wanted = text.strip(_QUOTES)
    return answer.lstrip(_QUOTES).startswith(wanted) if wanted else answer.startswith(text)


def chance_in(answer: Answer, text: str) -> float:
    """The chance of the tokens that spell `text` at the beginning of an answer, 0 when it does not begin with it."""
    if not says(answer.text, text):
        return 0.0
    if answer.logprobs is None:
        return 1.0
    wanted, total, said = text.strip(_QUOTES) or text, 0.0, ""
    spelled = [token[0][0] if token else "" for token in answer.top] or [""] * len(answer.logprobs)
    for piece, logprob in zip(spelled, answer.logprobs.tolist()):
        said += piece
        total += logprob
        if wanted in said:
            break
    return exp(min(0.0, total))
