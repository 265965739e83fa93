"""The contract of every LM: a test class names its model in a fixture `lm` and inherits the laws.

A law that needs what a backend cannot do checks that the backend says so before any work.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from typecase.errors import BadQuery, FixInput
from typecase.lm.protocol import LM, Answer, Choices, Failure, Form, Result, Scores, Tally, Vector, tallied

TEXTS = (
    "The tray of sorts stands by the press.",
    "Wer setzt, der liest: äöü ß — „Fraktur“.",
    "日本語の活字",
    "a",
    "one two three four five six seven eight nine ten",
    "The tray of sorts stands by the window.",
    "emoji 🖋️ and \u200bzero width",
    "line\nline\n\n  line",
)
CHOICES = (" yes", " no", " perhaps so")
LONG = "word and word " * 5000


def same(a: Result, b: Result, tolerance: float = 0.0) -> bool:
    """Whether two results are equal, numbers up to `tolerance`."""
    if type(a) is not type(b):
        return False
    for name in type(a).__dataclass_fields__:
        x, y = getattr(a, name), getattr(b, name)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            if x.shape != y.shape or not np.allclose(x, y, rtol=tolerance, atol=tolerance):
                return False
        elif name == "top":
            if [[t for t, _ in token] for token in x] != [[t for t, _ in token] for token in y]:
                return False
        elif not np.array_equal(x, y):
            return False
    return True


class LMContract:
    """Laws of the protocol; `tolerance` is how far numbers may differ between batches."""

    tolerance = 0.0
    long = LONG

    def ask(self, lm: LM, what: str, texts: tuple[str, ...], **settings: object) -> list[Result]:
        """One of the four calls, with plain parameters."""
        if what == "generate":
            given = {"max_tokens": 6, "seed": 1} | settings
            return list(lm.generate(texts, **given))  # type: ignore[arg-type]
        if what == "score":
            return list(lm.score(texts))
        if what == "continuations":
            return list(lm.score_continuations(texts, itertools.repeat(CHOICES)))
        return list(lm.embed(texts))

    @pytest.fixture(params=["generate", "score", "continuations", "embed"])
    def what(self, request: pytest.FixtureRequest, lm: LM) -> str:
        """Each thing that the backend can do."""
        name = str(request.param)
        if not getattr(lm.can, name):
            with pytest.raises(FixInput, match=f"cannot do '{name}'"):
                self.ask(lm, name, TEXTS)
            pytest.skip(f"{lm.name} says that it cannot do {name}")
        return name

    def test_order_is_kept_and_rows_do_not_depend_on_their_neighbours(self, lm: LM, what: str) -> None:
        together = self.ask(lm, what, TEXTS)
        assert len(together) == len(TEXTS)
        for text, result in zip(TEXTS, together):
            assert same(self.ask(lm, what, (text,))[0], result, self.tolerance), text
        backwards = self.ask(lm, what, TEXTS[::-1])
        assert all(same(a, b, self.tolerance) for a, b in zip(together, backwards[::-1]))

    def test_types_and_counts(self, lm: LM, what: str) -> None:
        kind = {"generate": Answer, "score": Scores, "continuations": Choices, "embed": Vector}[what]
        tally = Tally()
        results = list(tallied(self.ask(lm, what, TEXTS), tally))
        assert all(isinstance(result, kind) for result in results), results
        assert tally.rows == tally.answers == len(TEXTS)
        assert tally.prompt_tokens > 0
        assert (tally.completion_tokens > 0) == (what == "generate")

    def test_an_empty_batch_gives_nothing(self, lm: LM, what: str) -> None:
        assert self.ask(lm, what, ()) == []

    def test_an_empty_text_is_one_result(self, lm: LM, what: str) -> None:
        assert len(self.ask(lm, what, ("", "a"))) == 2

    def test_a_lone_surrogate_is_one_result(self, lm: LM, what: str) -> None:
        results = self.ask(lm, what, ("broken \ud800 text", "a"))
        assert len(results) == 2
        assert not isinstance(results[1], Failure)

    def test_a_text_beyond_the_context_is_a_counted_failure(self, lm: LM, what: str) -> None:
        tally = Tally()
        results = list(tallied(self.ask(lm, what, ("a", self.long, "b")), tally))
        assert isinstance(results[1], Failure)
        assert tally.failures == {"too_long": 1}
        assert tally.answers == 2

    def test_repeats_are_answered_alike(self, lm: LM, what: str) -> None:
        first, second = self.ask(lm, what, ("twice", "twice"))
        assert same(first, second, self.tolerance)

    def test_results_stream_from_endless_input(self, lm: LM, what: str) -> None:
        endless: Iterator[str] = (f"row {k}" for k in itertools.count())
        if what == "generate":
            results: Iterator[Result] = lm.generate(endless, max_tokens=2, seed=1)
        elif what == "continuations":
            results = lm.score_continuations(endless, itertools.repeat(CHOICES))
        else:
            results = lm.score(endless) if what == "score" else lm.embed(endless)
        assert len(list(itertools.islice(results, 3))) == 3
        results.close()  # type: ignore[attr-defined]

    def test_draws_depend_on_the_seed_alone(self, lm: LM) -> None:
        drawn = [self.ask(lm, "generate", TEXTS, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
        texts = [[result.text for result in row if isinstance(result, Answer)] for row in drawn]
        assert texts[0] == texts[1] != texts[2]
        assert len(set(texts[0])) > 1

    def test_without_temperature_the_seed_does_not_matter(self, lm: LM) -> None:
        a, b = (self.ask(lm, "generate", TEXTS, seed=seed) for seed in (1, 2))
        assert all(same(x, y, self.tolerance) for x, y in zip(a, b))

    def test_max_tokens_and_finish(self, lm: LM) -> None:
        for result in self.ask(lm, "generate", TEXTS, max_tokens=2):
            assert isinstance(result, Answer)
            assert result.completion_tokens <= 2
            assert result.logprobs is None or len(result.logprobs) == result.completion_tokens

    def test_a_text_ends_before_a_stop_string(self, lm: LM) -> None:
        (whole,) = self.ask(lm, "generate", TEXTS[:1], max_tokens=8)
        assert isinstance(whole, Answer)
        mark = whole.text[len(whole.text) // 2 :][:3]
        (cut,) = self.ask(lm, "generate", TEXTS[:1], max_tokens=8, stop=[mark])
        assert isinstance(cut, Answer)
        assert cut.text == whole.text[: whole.text.find(mark)]
        assert cut.finish == "stop"

    def test_alternatives_hold_the_token_taken(self, lm: LM) -> None:
        most = min(3, lm.can.top_logprobs)
        if not most:
            pytest.skip("the backend tells no alternatives")
        (result,) = self.ask(lm, "generate", TEXTS[:1], top_logprobs=most)
        assert isinstance(result, Answer) and result.logprobs is not None
        assert len(result.top) == result.completion_tokens == len(result.logprobs)
        for own, top in zip(result.logprobs, result.top):
            assert len(top) == most
            assert top[0][1] == pytest.approx(own, abs=max(1e-5, self.tolerance))
            assert [value for _, value in top] == sorted((value for _, value in top), reverse=True)

    def test_scores_add_up(self, lm: LM) -> None:
        if not (lm.can.score and lm.can.continuations):
            pytest.skip("needs both kinds of scores")
        prompt, texts = "The tray of sorts", (" stands by the press.", " stands.")
        (choices,) = lm.score_continuations([prompt], [texts])
        whole = list(lm.score([prompt, *(prompt + text for text in texts)]))
        assert isinstance(choices, Choices)
        for at in range(2):
            base, longer = whole[0], whole[1 + at]
            assert isinstance(base, Scores) and isinstance(longer, Scores)
            assert choices.logprobs[at] == pytest.approx(longer.total - base.total, abs=1e-3)
            assert int(choices.num_tokens[at]) == longer.prompt_tokens - base.prompt_tokens

    def test_what_cannot_be_meant_is_refused_before_any_work(self, lm: LM) -> None:
        with pytest.raises(BadQuery, match="a batch is a list"):
            lm.generate("one text", max_tokens=1, seed=0)
        with pytest.raises(BadQuery, match="max_tokens"):
            lm.generate(["a"], max_tokens=0, seed=0)
        with pytest.raises(BadQuery, match="stop is a list"):
            lm.generate(["a"], max_tokens=1, seed=0, stop="x")
        with pytest.raises(FixInput, match="alternatives"):
            lm.generate(["a"], max_tokens=1, seed=0, top_logprobs=10**6)
        if "regex" not in lm.can.forms:
            with pytest.raises(FixInput, match="cannot force a regex"):
                lm.generate(["a"], max_tokens=1, seed=0, form=Form("regex", "a+"))

    def test_prompts_without_continuations_are_named(self, lm: LM) -> None:
        if lm.can.continuations:
            with pytest.raises(BadQuery, match="prompt 1 has no continuations"):
                list(lm.score_continuations(["a", "b"], [CHOICES]))
            with pytest.raises(BadQuery, match="prompt 0 must be a list"):
                list(lm.score_continuations(["a"], [" yes"]))

    def test_the_fingerprint_is_stable_and_tokens_are_counted(self, lm: LM) -> None:
        assert lm.fingerprint == lm.fingerprint and len(lm.fingerprint) == 32
        counts = lm.count_tokens(TEXTS)
        assert len(counts) == len(TEXTS) and min(counts) >= 1
