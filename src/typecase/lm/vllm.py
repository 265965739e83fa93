"""VllmLM: vLLM's offline engine behind the protocol. A thin translation: vLLM itself batches, schedules and shares prefixes.

    lm = VllmLM("models/qwen3-4b", engine={"tensor_parallel_size": 2, "max_model_len": 8192})

    prompts ──► window ──► LLM.generate / LLM.chat (seed a prompt) ──► Answer      text and log-probabilities
    texts   ──► window ──► prompt_logprobs, one token generated    ──► Scores      Choices: prompt + continuation, the tail read

Not run where this was written: vLLM needs a GPU. It is tested against a stand-in with vLLM's names only; before a large
run compare a few rows with LocalLM. Embeddings want another engine and are not offered. The rows of a window are in memory.

Price: the engine holds most of the GPU's memory from the first call to the end of the process. Prompt log-probabilities
switch off vLLM's prefix cache for the rows that ask for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson

from typecase.errors import NeedsExtra
from typecase.lm.model_files import find_model, hash_model
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
    windows,
)

_FORMS: frozenset[FormKind] = frozenset(("json_schema", "grammar", "regex", "choice"))


class VllmLM:
    """A causal LM in vLLM, in this process."""

    def __init__(
        self,
        path: Path | str,
        *,
        chat: bool = False,
        system: str = "",
        engine: Mapping[str, Any] | None = None,
        top_logprobs: int = 20,
        window_rows: int = 4096,
    ) -> None:
        self.path = find_model(path)
        try:
            self._vllm: Any = importlib.import_module("vllm")
        except ImportError:
            raise NeedsExtra("vLLM's offline engine", "vllm") from None
        self._chat, self._system, self._window_rows, self._most = chat, system, window_rows, top_logprobs
        settings = {"enable_prefix_caching": True, **(engine or {})}
        self._llm = self._vllm.LLM(model=str(self.path), max_logprobs=top_logprobs, **settings)
        self._tokenizer = self._llm.get_tokenizer()
        self._context = int(self._llm.llm_engine.model_config.max_model_len)
        self._fingerprint = fingerprint_of("vllm", 1, hash_model(self.path), chat, system, _plain(engine or {}))

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def fingerprint(self) -> str:
        """Of the model's files, the prompt form and the engine's settings."""
        return self._fingerprint

    @property
    def can(self) -> Can:
        """Everything but embeddings."""
        return Can(True, True, True, False, _FORMS, self._most, self._context)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Ids of each prompt, chat form included."""
        return [len(ids) for ids in map(self._prompt_ids, texts)]

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
        """vLLM's answers, a window at a time."""
        wanted = Generation.checked(self, max_tokens, seed, stop, temperature, form, top_logprobs)
        return self._generate(no_string(prompts), wanted)

    def _generate(self, prompts: Iterable[str], wanted: Generation) -> Iterator[Answer | Failure]:
        for window in windows(prompts, self._window_rows):
            rows = [(self._prompt_ids(prompt), draw_key(wanted.seed, prompt) % 2**31) for prompt in window]
            refused = [self._refusal(ids, wanted.max_tokens) for ids, _ in rows]
            asked = [row for row, failure in zip(rows, refused) if failure is None]
            outputs = iter(self._call([ids for ids, _ in asked], [self._settings(wanted, key) for _, key in asked]))
            yield from (failure or _answer(next(outputs), wanted) for failure in refused)

    def score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        """Prompt log-probabilities."""
        require(self, "score")
        return self._score(no_string(texts))

    def _score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        for window in windows(texts, self._window_rows):
            start = self._start()
            rows = [start + self._ids(text) for text in window]
            for ids, found in zip(rows, self._logprobs(rows)):
                size = len(ids) - len(start)
                yield found if isinstance(found, Failure) else Scores(found, size, min(size, 1 - len(start)))

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        """Prompt log-probabilities of prompt and continuation, the continuation's summed."""
        require(self, "continuations")
        return self._choices(pairs_of(no_string(prompts), continuations))

    def _choices(self, pairs: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[Choices | Failure]:
        for window in windows(pairs, self._window_rows):
            heads = [self._prompt_ids(prompt) for prompt, _ in window]
            tails = [[self._ids(text) for text in texts] for _, texts in window]
            scored = iter(self._logprobs([head + tail for head, own in zip(heads, tails) for tail in own]))
            for head, own in zip(heads, tails):
                found = [next(scored) for _ in own]
                failed = next((result for result in found if isinstance(result, Failure)), None)
                if failed is None and not head:
                    failed = Failure("empty_prompt", "the prompt has no tokens and the model no start token")
                values = [float(r[-len(tail) :].sum()) for r, tail in zip(found, own) if not isinstance(r, Failure)]
                sizes = np.array([len(tail) for tail in own], np.int32)
                yield failed or Choices(np.array(values, np.float32), sizes, len(head))

    def embed(self, texts: Iterable[str]) -> Iterator[Vector | Failure]:
        """Not offered."""
        require(self, "embed")
        return iter(())

    def _logprobs(self, rows: list[list[int]]) -> list[F32 | Failure]:
        """Log-probabilities of each row's ids after the first."""
        refused = [self._refusal(ids, 1) if len(ids) > 1 else None for ids in rows]
        asked = [ids for ids, failure in zip(rows, refused) if failure is None and len(ids) > 1]
        setting = self._vllm.SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        outputs = iter(self._call(asked, [setting] * len(asked)))
        nothing = np.empty(0, np.float32)
        return [failure or (_told(next(outputs)) if len(ids) > 1 else nothing) for ids, failure in zip(rows, refused)]

    def _call(self, rows: list[list[int]], settings: list[Any]) -> list[Any]:
        if not rows:
            return []
        return list(self._llm.generate([{"prompt_token_ids": ids} for ids in rows], settings, use_tqdm=False))

    def _settings(self, wanted: Generation, key: int) -> Any:
        given: dict[str, Any] = {
            "max_tokens": wanted.max_tokens, "temperature": wanted.temperature, "seed": key,
            "stop": list(wanted.stop), "logprobs": wanted.top_logprobs,
        }  # fmt: skip
        if wanted.form is not None:
            sampling: Any = importlib.import_module("vllm.sampling_params")
            field = "json" if wanted.form.kind == "json_schema" else wanted.form.kind
            value = orjson.loads(wanted.form.body) if wanted.form.kind in ("json_schema", "choice") else wanted.form.body
            given["structured_outputs"] = sampling.StructuredOutputsParams(**{field: value})
        return self._vllm.SamplingParams(**given)

    def _start(self) -> list[int]:
        return [] if self._tokenizer.bos_token_id is None else [int(self._tokenizer.bos_token_id)]

    def _ids(self, text: str) -> list[int]:
        clean = text.encode("utf-8", "replace").decode()
        return list(self._tokenizer.encode(clean, add_special_tokens=False))

    def _prompt_ids(self, prompt: str) -> list[int]:
        if not self._chat:
            return self._start() + self._ids(prompt)
        opening = [{"role": "system", "content": self._system}] if self._system else []
        messages = [*opening, {"role": "user", "content": prompt}]
        return self._ids(str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)))

    def _refusal(self, ids: list[int], room_tokens: int) -> Failure | None:
        if not ids:
            return Failure("empty_prompt", "the text has no tokens and the model no start token")
        if len(ids) + room_tokens > self._context:
            return Failure("too_long", f"{len(ids)} tokens and {room_tokens} for the answer, the context holds {self._context}")
        return None


def _told(output: Any) -> F32 | Failure:
    ids, told = output.prompt_token_ids[1:], (output.prompt_logprobs or [])[1:]
    if len(told) != len(ids):
        return Failure("no_logprobs", f"vLLM told {len(told)} log-probabilities of {len(ids)} tokens")
    return np.array([float(entry[token].logprob) for token, entry in zip(ids, told)], np.float32)


def _answer(output: Any, wanted: Generation) -> Answer:
    best = output.outputs[0]
    entries = list(best.logprobs or [])
    own = np.array([float(entry[token].logprob) for token, entry in zip(best.token_ids, entries)], np.float32)
    ranked = (sorted(entry.values(), key=lambda one: -one.logprob)[: wanted.top_logprobs] for entry in entries)
    top = tuple(tuple((str(one.decoded_token), float(one.logprob)) for one in token) for token in ranked)
    finish: Literal["stop", "length"] = "length" if best.finish_reason == "length" else "stop"
    prompt_tokens, written = len(output.prompt_token_ids), len(best.token_ids)
    return Answer(best.text, finish, prompt_tokens, written, own, top if wanted.top_logprobs else ())


def _plain(engine: Mapping[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in engine.items()}
