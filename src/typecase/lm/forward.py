"""Forward: the tensors under a local model. Rows of token ids in, numbers out; padding, caches and batches end here.

    score       right-padded, no cache          [a b c . .]      a log-probability a token
    prefill     left-padded, into a cache       [S S S | . a b]  S: the ids that all rows begin with, computed once, kept
    step        one token a row                 [S S S | . a b | x]
    extend      continuations, right-padded     [S S S | . a b | x y .]

Shape letters: B rows, T tokens, H width of the model, V vocabulary. Only the rows of the output layer that are needed are
computed, in float32, some 64 MB at a time: all logits of a batch of 8,192 tokens would take 1.6 GB at V = 49,152. That
the output layer is applied as the model itself does is proved on a probe when the model is loaded.

Price: a cache takes 2 · layers · kv width numbers a token; a window of rows whose prompts share nothing gains nothing.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from typecase.errors import FixInput, NeedsExtra, NotFound
from typecase.lm.protocol import F32

_LOGITS_BYTES = 64 << 20
_LEAST_SHARED_TOKENS = 16
Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class State:
    """What the model has read of B rows."""

    cache: Any
    mask: Tensor  # (B, T) int64
    position: Tensor  # (B,) int64, of the next token
    hidden: Tensor  # (B, H) after the last token

    def select(self, rows: Tensor) -> State:
        """Some rows, perhaps more than once, in a cache of their own."""
        cache = copy.copy(self.cache)
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        cache.batch_select_indices(rows)
        return State(cache, self.mask[rows], self.position[rows], self.hidden[rows])

    def fork(self) -> State:
        """All rows, to be read on from more than once. A dynamic layer grows by new tensors, so the old ones need no copy."""
        if not all(type(layer).__name__.startswith("Dynamic") for layer in self.cache.layers):
            return self.select(torch.arange(len(self.mask), device=self.mask.device))
        cache = copy.copy(self.cache)
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        return State(cache, self.mask, self.position, self.hidden)


class Forward:
    """A causal language model of transformers, in evaluation mode, on one device."""

    def __init__(self, model: Any, device: str) -> None:
        self.model, self.device = model.eval(), torch.device(device)
        self.body, self.head = model.base_model, model.get_output_embeddings()
        names = inspect.signature(self.body.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self._takes_positions = "position_ids" in names
        config = model.config.get_text_config()
        self.vocabulary = int(self.head.weight.shape[0])
        self.context_tokens = getattr(config, "max_position_embeddings", None)
        self._shares = not (
            getattr(config, "sliding_window", None) or "sliding_attention" in (getattr(config, "layer_types", None) or ())
        )
        self._kept: tuple[tuple[int, ...], State] | None = None
        self._finish = self._find_finish(config)

    @property
    def ends(self) -> frozenset[int]:
        """Ids that end a text."""
        found = [self.model.generation_config.eos_token_id, self.model.config.get_text_config().eos_token_id]
        return frozenset(i for ids in found if ids is not None for i in (ids if isinstance(ids, list) else [ids]))

    def _find_finish(self, config: Any) -> Callable[[Tensor], Tensor]:
        """How this architecture turns the head's output into logits, proved on a probe."""
        cap, scale, over = (getattr(config, n, None) for n in ("final_logit_softcapping", "logit_scale", "logits_scaling"))
        ways: list[Callable[[Tensor], Tensor]] = [lambda x: x]
        if cap:
            ways.append(lambda x: torch.tanh(x / cap) * cap)
        if scale:
            ways.append(lambda x: x * scale)
        if over:
            ways.append(lambda x: x / over)
        probe = torch.arange(1, 9, device=self.device)[None] % self.vocabulary
        with torch.inference_mode():
            true = self.model(input_ids=probe).logits[0].float()
            raw = self.head(self.body(input_ids=probe).last_hidden_state[0]).float()
        for way in reversed(ways):  # an own way of the architecture before the plain one
            if torch.allclose(way(raw), true, rtol=1e-2, atol=1e-2):
                return way
        raise FixInput(
            f"{type(self.model).__name__} does not compute its logits from its last hidden state and output layer alone: "
            "serve it (vLLM, llama.cpp) and use RemoteLM"
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits (N, V) of hidden states (N, H)."""
        return self._finish(self.head(hidden).float())

    def _logprobs_of(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Log-probability (N,) of each target id given the hidden state before it."""
        size = max(1, _LOGITS_BYTES // (4 * self.vocabulary))
        parts = []
        for at in range(0, len(targets), size):
            logits = self.logits(hidden[at : at + size])
            own = logits.gather(1, targets[at : at + size, None])[:, 0]
            parts.append(own - logits.logsumexp(1))
        return torch.cat(parts) if parts else torch.empty(0)

    def _read(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: Any, keep: bool) -> tuple[Tensor, Any]:
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": keep}
        if self._takes_positions:
            given["position_ids"] = positions
        if cache is not None:
            given[self._cache_name] = cache
        out = self.body(**given)
        return out.last_hidden_state, getattr(out, self._cache_name, None) if keep else None

    def _padded(self, rows: Sequence[Ids], side: Literal["left", "right"]) -> tuple[Tensor, Tensor]:
        tensors = [torch.tensor(row, dtype=torch.int64) for row in rows]
        ids = pad_sequence(tensors, batch_first=True, padding_side=side)
        mask = pad_sequence([torch.ones(len(row), dtype=torch.int64) for row in rows], batch_first=True, padding_side=side)
        return ids.to(self.device), mask.to(self.device)

    @torch.inference_mode()
    def score(self, rows: Sequence[Ids]) -> list[F32]:
        """Log-probabilities (len(row) - 1,) of each row's ids after the first."""
        ids, mask = self._padded(rows, "right")
        hidden, _ = self._read(ids, mask, (mask.cumsum(1) - 1).clamp(min=0), None, False)
        real = mask[:, 1:].bool()
        flat = self._logprobs_of(hidden[:, :-1][real], ids[:, 1:][real]).cpu().numpy().astype(np.float32)
        return np.split(flat, np.cumsum([len(row) - 1 for row in rows])[:-1])

    @torch.inference_mode()
    def embed(self, rows: Sequence[Ids]) -> list[F32]:
        """Mean of the last hidden states of each row's ids, (H,)."""
        ids, mask = self._padded(rows, "right")
        hidden, _ = self._read(ids, mask, (mask.cumsum(1) - 1).clamp(min=0), None, False)
        mean = (hidden.float() * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return list(mean.cpu().numpy().astype(np.float32))

    @torch.inference_mode()
    def prefill(self, rows: Sequence[Ids]) -> State:
        """Reads the rows; what all begin with is read once."""
        shared = self._shared(rows)
        past = self._prefix(tuple(rows[0][:shared])) if shared else None
        ids, mask = self._padded([row[shared:] for row in rows], "left")
        positions = (mask.cumsum(1) - 1).clamp(min=0) + shared
        cache = None
        if past is not None:
            past = past.select(torch.zeros(len(rows), dtype=torch.int64, device=self.device))
            cache, mask = past.cache, torch.cat([past.mask, mask], 1)
        hidden, cache = self._read(ids, mask, positions, cache, True)
        return State(cache, mask, positions[:, -1] + 1, hidden[:, -1])

    def forget(self) -> None:
        """Drops the beginning that is kept for the next batch."""
        self._kept = None

    def _shared(self, rows: Sequence[Ids]) -> int:
        """How many ids to take from the kept beginning: that of the last batch if it still serves, else what all rows share."""
        if not self._shares:
            return 0
        low, high = min(rows, key=list), max(rows, key=list)  # what these two share, all between them share
        most = min(len(row) for row in rows) - 1
        same = min(most, next((k for k, (a, b) in enumerate(zip(low, high)) if a != b), most))
        kept = self._kept[0] if self._kept else ()
        if len(kept) <= same and tuple(low[: len(kept)]) == kept and (len(rows) == 1 or 4 * len(kept) >= 3 * same):
            return len(kept)
        return same if same >= _LEAST_SHARED_TOKENS and len(rows) > 1 else 0

    def _prefix(self, ids: tuple[int, ...]) -> State:
        if self._kept is None or self._kept[0] != ids:
            tensor = torch.tensor([ids], device=self.device)
            mask = torch.ones_like(tensor)
            hidden, cache = self._read(tensor, mask, mask.cumsum(1) - 1, None, True)
            self._kept = ids, State(cache, mask, mask.sum(1), hidden[:, -1])
        return self._kept[1]

    @torch.inference_mode()
    def step(self, state: State, ids: Tensor) -> State:
        """Reads one more id (B,) a row."""
        return self._advance(state, ids[:, None])

    @torch.inference_mode()
    def continuations(self, prompts: Sequence[Ids], texts: Sequence[Sequence[Ids]], batch_tokens: int) -> list[list[float]]:
        """Log-probability of each continuation of each prompt; a prompt is read once for all of its continuations."""
        state = self.prefill(prompts)
        firsts = [(row, text[0]) for row, group in enumerate(texts) for text in group]
        owners = torch.tensor([row for row, _ in firsts], device=self.device)
        targets = torch.tensor([first for _, first in firsts], device=self.device)
        totals = self._first_logprobs(state, owners, targets)
        flat = [text for group in texts for text in group]
        longer = sorted((k for k, text in enumerate(flat) if len(text) > 1), key=lambda k: len(flat[k]))
        for chunk in chunks(longer, [state.mask.shape[1] + len(text) for text in flat], batch_tokens):
            part = state.select(owners[torch.tensor(chunk, device=self.device)])
            for k, rest in zip(chunk, self._extend(part, [flat[k] for k in chunk])):
                totals[k] += rest
        rest_of = iter(totals)
        return [[next(rest_of) for _ in group] for group in texts]

    def _first_logprobs(self, state: State, owners: Tensor, targets: Tensor) -> list[float]:
        size, found = max(1, _LOGITS_BYTES // (4 * self.vocabulary)), torch.empty(len(targets), dtype=torch.float32)
        for at in range(0, len(state.hidden), size):  # the output layer once a prompt, not once a continuation
            logprobs = self.logits(state.hidden[at : at + size]).log_softmax(1)
            mine = ((owners >= at) & (owners < at + size)).nonzero()[:, 0]
            found[mine.cpu()] = logprobs[owners[mine] - at, targets[mine]].float().cpu()
        return [float(value) for value in found]

    def _extend(self, state: State, texts: Sequence[Ids]) -> list[float]:
        """Log-probability of each text's ids after the first."""
        ids, mask = self._padded([text[:-1] for text in texts], "right")
        targets, _ = self._padded([text[1:] for text in texts], "right")
        positions = state.position[:, None] + (mask.cumsum(1) - 1).clamp(min=0)
        hidden, _ = self._read(ids, torch.cat([state.mask, mask], 1), positions, state.cache, True)
        real = mask.bool()
        logprobs = torch.zeros(mask.shape, dtype=torch.float32, device=self.device)
        logprobs[real] = self._logprobs_of(hidden[real], targets[real])
        return [float(value) for value in logprobs.sum(1).cpu()]

    @torch.inference_mode()
    def fill(
        self, prompts: Sequence[Ids], befores: Sequence[Ids], labels: Sequence[Ids], passes: int, likely: Ids | None = None
    ) -> tuple[list[list[F32]], list[bool], list[int]]:
        """Log-probabilities of each slot's labels (ids) for each prompt, whether they are exact, and the passes it took.

        `likely` are the labels that like prompts had, by place: a guess that holds saves a pass.
        """
        state = self.prefill([[*prompt, *befores[0]] for prompt in prompts])
        if passes > len(labels) and self.device.type == "cpu" and likely is None:  # without a guess tokens count, not passes
            values = self._slots_in_turn(state, befores, labels)
            rows = [[own[row].numpy() for own in values] for row in range(len(prompts))]
            return rows, [True] * len(prompts), [max(1, len(labels) - 1)] * len(prompts)
        first = [len(own) // 2 for own in labels] if likely is None else list(likely)
        guess = torch.tensor([first] * len(prompts), device=self.device)  # (B, S)
        found: list[list[F32]] = [[] for _ in prompts]
        exact, taken = [False] * len(prompts), [0] * len(prompts)
        active = torch.arange(len(prompts), device=self.device)
        for turn in range(passes):
            own_state = state.fork() if len(active) == len(prompts) else state.select(active)
            values = self._slots(own_state, guess[active], befores, labels)
            best = torch.stack([own.argmax(1) for own in values], 1)
            for at, row in enumerate(active.tolist()):
                found[row], taken[row] = [own[at].cpu().numpy() for own in values], turn + 1
                exact[row] = bool((best[at, :-1] == guess[row, :-1]).all())
            guess[active] = best
            active = active[torch.tensor([not exact[row] for row in active.tolist()], device=self.device)]
            if not len(active):
                break
        return found, exact, taken

    def _slots_in_turn(self, state: State, befores: Sequence[Ids], labels: Sequence[Ids]) -> list[Tensor]:
        """Gap after gap, each token of the form read once: float32 (B, labels) a slot."""
        values = []
        for k, own in enumerate(labels):
            ids = torch.tensor(own, device=self.device)
            values.append(self.logits(state.hidden).log_softmax(1)[:, ids])
            if k + 1 < len(labels):
                before = torch.tensor([befores[k + 1]], dtype=torch.int64, device=self.device)
                chosen = ids[values[-1].argmax(1)][:, None]
                state = self._advance(state, torch.cat([chosen, before.expand(len(chosen), -1)], 1))
        return values

    def _advance(self, state: State, ids: Tensor) -> State:
        """Reads the same number of further ids (B, T) in each row."""
        mask = torch.cat([state.mask, torch.ones_like(ids)], 1)
        positions = state.position[:, None] + torch.arange(ids.shape[1], device=self.device)
        hidden, cache = self._read(ids, mask, positions, state.cache, True)
        return State(cache, mask, state.position + ids.shape[1], hidden[:, -1])

    def _slots(self, state: State, guess: Tensor, befores: Sequence[Ids], labels: Sequence[Ids]) -> list[Tensor]:
        """One pass over the form with the guessed labels in its gaps: float32 (B, labels) a slot."""
        parts, ends = [], []
        for k, own in enumerate(labels[:-1]):
            parts.append(torch.tensor(own, device=self.device)[guess[:, k], None])
            parts.append(torch.tensor([befores[k + 1]], dtype=torch.int64, device=self.device).expand(len(guess), -1))
            ends.append(sum(part.shape[1] for part in parts) - 1)
        hidden = state.hidden[:, None]
        if parts:
            ids = torch.cat(parts, 1)
            mask = torch.cat([state.mask, torch.ones_like(ids)], 1)
            positions = state.position[:, None] + torch.arange(ids.shape[1], device=self.device)
            read, _ = self._read(ids, mask, positions, state.cache, True)
            hidden = torch.cat([hidden, read[:, ends]], 1)
        return [
            self.logits(hidden[:, k]).log_softmax(1)[:, torch.tensor(own, device=self.device)] for k, own in enumerate(labels)
        ]


def chunks(order: Sequence[int], lengths: Sequence[int], budget_tokens: int) -> Iterator[list[int]]:
    """Runs of `order` whose padded size stays within the budget; a run has one member at least."""
    chunk: list[int] = []
    longest = 0
    for k in order:
        longest = max(longest, lengths[k])
        if chunk and longest * (len(chunk) + 1) > budget_tokens:
            yield chunk
            chunk, longest = [], lengths[k]
        chunk.append(k)
    if chunk:
        yield chunk


def load(path: Path, *, device: str, dtype: str, bits: int | None) -> tuple[Forward, Any]:
    """The model and tokenizer at `path` (a folder, or a GGUF file), never from the network."""
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise NeedsExtra("a local model", "lm") from None
    transformers.utils.logging.disable_progress_bar()
    given: dict[str, Any] = {"local_files_only": True, "dtype": getattr(torch, dtype)}
    where: dict[str, Any] = {}
    folder = path
    if path.suffix == ".gguf":
        folder, where = path.parent, {"gguf_file": path.name}
        given |= where | _dense_gguf(transformers)
    elif bits is not None:
        given["quantization_config"] = _quantised(transformers, bits, dtype)
        given["device_map"] = {"": device}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, **where)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, **given)
    except ImportError as error:
        raise NeedsExtra(f"{path.name} ({str(error).splitlines()[0]})", "lm") from None
    except (OSError, ValueError) as error:
        raise NotFound(f"{path} holds no causal LM that transformers can load ({str(error)[:200]})") from None
    return Forward(model if bits is not None else model.to(device), device), tokenizer


def _dense_gguf(transformers: Any) -> dict[str, Any]:
    """Version 5 keeps GGUF weights packed unless told otherwise, which is slow; version 4 knows only dense ones."""
    config = getattr(transformers, "GgufConfig", None)
    return {"quantization_config": config(dequantize=True)} if config else {}


def _quantised(transformers: Any, bits: int, dtype: str) -> Any:
    try:
        importlib.import_module("bitsandbytes")
    except ImportError:
        raise NeedsExtra(f"{bits}-bit weights", "quant") from None
    if bits == 8:
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=getattr(torch, dtype)
    )
