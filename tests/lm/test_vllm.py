"""The vLLM backend against a stand-in with vLLM's names: what is passed and what is read, not vLLM itself."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.lm.contract import LMContract
from typecase.errors import NeedsExtra, NotFound
from typecase.lm.fake import _TOKEN, FakeLM
from typecase.lm.protocol import LM, Answer, Form, Scores
from typecase.lm.vllm import VllmLM


class Tokenizer:
    """Words as ids, in the order they are met; 0 is the start token."""

    bos_token_id = 0

    def __init__(self) -> None:
        self.words: dict[str, int] = {"": 0}

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [self.words.setdefault(word, len(self.words)) for word in _TOKEN.findall(text)]

    def decode(self, ids: list[int]) -> str:
        words = list(self.words)
        return "".join(words[k] for k in ids)


class StandIn:
    """vLLM's LLM with a FakeLM inside."""

    made: dict[str, Any]
    asked: list[Any]

    def __init__(self, model: str, **settings: Any) -> None:
        StandIn.made, StandIn.asked = {"model": model, **settings}, []
        self.fake, self.tokenizer = FakeLM(), Tokenizer()
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=512))

    def get_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    def generate(self, prompts: list[dict[str, list[int]]], settings: list[Any], use_tqdm: bool) -> list[Any]:
        StandIn.asked += settings
        return [self.one(prompt["prompt_token_ids"], setting) for prompt, setting in zip(prompts, settings)]

    def one(self, ids: list[int], setting: Any) -> Any:
        text = self.tokenizer.decode(ids)
        if getattr(setting, "prompt_logprobs", None) is not None:
            (scores,) = self.fake.score([text])
            assert isinstance(scores, Scores)
            told = [{token: SimpleNamespace(logprob=float(v))} for token, v in zip(ids[1:], scores.logprobs)]
            return SimpleNamespace(prompt_token_ids=ids, prompt_logprobs=[None, *told])
        (answer,) = self.fake.generate(
            [text],
            max_tokens=setting.max_tokens,
            seed=setting.seed,
            stop=setting.stop,
            temperature=setting.temperature,
            top_logprobs=max(1, setting.logprobs),
        )
        assert isinstance(answer, Answer)
        words = self.tokenizer.encode(answer.text, False)
        entries = [
            {token if k == 0 else -k: SimpleNamespace(logprob=v, decoded_token=t) for k, (t, v) in enumerate(top)}
            for token, top in zip(words, answer.top)
        ]
        best = SimpleNamespace(text=answer.text, token_ids=words, logprobs=entries, finish_reason=answer.finish)
        return SimpleNamespace(prompt_token_ids=ids, outputs=[best])


@pytest.fixture
def lm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> VllmLM:
    module, sampling = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    module.LLM, module.SamplingParams = StandIn, SimpleNamespace  # type: ignore[attr-defined]
    sampling.StructuredOutputsParams = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", sampling)
    (tmp_path / "config.json").write_text("{}")
    return VllmLM(tmp_path, engine={"tensor_parallel_size": 2}, window_rows=3)


class TestStandIn(LMContract):
    @pytest.fixture
    def lm(self, lm: VllmLM) -> LM:
        return lm


def test_what_is_passed(lm: VllmLM, tmp_path: Path) -> None:
    assert StandIn.made == {
        "model": str(tmp_path), "max_logprobs": 20, "enable_prefix_caching": True, "tensor_parallel_size": 2
    }  # fmt: skip
    list(lm.generate(["a", "b"], max_tokens=2, seed=1, form=Form("choice", '["x", "y"]')))
    assert StandIn.asked[0].structured_outputs == {"choice": ["x", "y"]}
    assert StandIn.asked[0].seed != StandIn.asked[1].seed


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="none is downloaded"):
        VllmLM(tmp_path / "none")
    if importlib.util.find_spec("vllm") is None:
        with pytest.raises(NeedsExtra, match=r"typecase\[vllm\]"):
            VllmLM(tmp_path)
