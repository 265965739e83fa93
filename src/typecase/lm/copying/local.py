"""LocalCopier: a model of this machine is asked to repeat tokens by their ids; and tells how likely it ever says each token.

    rows of one form have one length: no padding; what they begin with is read once a form and kept
    [shared examples | X … X _]  -> chance of X at step 1 and, where it is low, after the model's own likeliest tokens

Results depend on the batch up to rounding only. A batch of fewer than two rows is filled up, so that what is shared is always
the same. Price: a candidate reads the ids of the form behind its first gap; of a vocabulary, 4 bytes of logits a row and id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from typecase.errors import NeedsExtra
from typecase.lm.copying.copying import Form
from typecase.lm.model_files import find_model, hash_model
from typecase.lm.protocol import fingerprint_of

F64 = npt.NDArray[np.float64]
_BATCH = 32
CONTEXT = 128
"""Ids of a window of ordinary text."""
_ROWS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """`mean` float64 (V,): the chance of each id averaged over `positions`; `error` its standard error; `mean_logit` (V,): the
    logit at the mean of the last hidden states."""

    mean: F64
    error: F64
    mean_logit: F64
    positions: int


class LocalCopier:
    """A causal language model of this machine."""

    def __init__(
        self,
        path: Path | str,
        *,
        device: str = "auto",
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        batch: int = _BATCH,
    ) -> None:
        try:
            import torch
        except ImportError:
            raise NeedsExtra("asking a model to repeat tokens", "lm") from None
        from typecase.lm.forward import load

        place = find_model(path)
        chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        self.forward, self._tokenizer = load(place, device=chosen, dtype=dtype, bits=None)
        self.batch, self.tokens = batch, 0
        self._fingerprint = fingerprint_of("copier", 1, hash_model(place), dtype, chosen)

    @property
    def fingerprint(self) -> str:
        """Of the files, the precision and the kind of device."""
        return self._fingerprint

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids with the special tokens that the tokenizer puts around a text by default."""
        return [list(ids) for ids in self._tokenizer(list(texts), verbose=False)["input_ids"]]

    def encode_bare(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of the texts alone."""
        return [list(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]]

    def able(self, ids: Sequence[int]) -> list[int]:
        """Every id."""
        return list(ids)

    def chances(self, form: Form, ids: Sequence[int], stop_at: float) -> list[tuple[float, ...] | None]:
        """See `Copier`; a batch at a time."""
        found: list[tuple[float, ...] | None] = []
        for at in range(0, len(ids), self.batch):
            found += self._batch_chances(form, list(ids[at : at + self.batch]), stop_at)
        return found

    def _batch_chances(self, form: Form, ids: list[int], stop_at: float) -> list[tuple[float, ...]]:
        import torch

        companions = [0, 1] if len(ids) == 1 else []
        targets = torch.tensor([*ids, *companions], device=self.forward.device)
        state = self.forward.prefill([form.filled(t) for t in [*ids, *companions]])
        self.tokens += form.shared + len(targets) * form.own
        found: list[list[float]] = [[] for _ in targets]
        active = torch.arange(len(targets), device=self.forward.device)
        with torch.inference_mode():
            for step in range(form.steps):
                logprobs = self.forward.logits(state.hidden).log_softmax(1)
                chance = logprobs.gather(1, targets[active][:, None])[:, 0].double().exp().tolist()
                for row, p in zip(active.tolist(), chance):
                    found[row].append(p)
                going = torch.tensor([k for k, p in enumerate(chance) if p < stop_at], device=self.forward.device)
                if step + 1 == form.steps or not len(going):
                    break
                likeliest = logprobs.argmax(1)[going]
                if len(going) < len(active):
                    state, active = state.select(going), active[going]
                state = self.forward.step(state, likeliest)
                self.tokens += len(going)
        return [tuple(p) for p in found[: len(ids)]]

    def row_chances(self, form: Form, rows: Sequence[Sequence[int]]) -> list[float]:
        """The chance that each row of ids is repeated whole, token after token; rows of one length are read together."""
        found = [0.0] * len(rows)
        lengths = sorted({len(row) for row in rows})
        for length in lengths:
            same = [k for k, row in enumerate(rows) if len(row) == length]
            for at in range(0, len(same), self.batch):
                some = same[at : at + self.batch]
                prompts = [form.filled_with(rows[k]) for k in some]
                scores = self.forward.continuations(prompts, [[rows[k]] for k in some], self.batch * len(prompts[0]))
                self.tokens += sum(len(prompt) + length - 1 for prompt in prompts)
                for k, (score,) in zip(some, scores, strict=True):
                    found[k] = math.exp(score)
        return found

    def marginal(self, texts: Sequence[str], *, positions: int = 4096, seed: int = 0) -> Marginal:
        """How likely the model says each token, averaged over positions of ordinary texts; see `Marginal`.

        Windows of 128 ids are cut from the texts, evenly spread over all of them. Raises ValueError without texts.
        """
        import torch

        windows = self._windows(texts, positions)
        rng = np.random.default_rng(seed)
        total, squares = np.zeros(self.forward.vocabulary), np.zeros(self.forward.vocabulary)
        hidden_sum: Any = 0.0
        count = 0
        with torch.inference_mode():
            for at in range(0, len(windows), _ROWS):
                ids = torch.tensor(windows[at : at + _ROWS], device=self.forward.device)
                hidden = self.forward.body(input_ids=ids).last_hidden_state[:, 1:]
                flat = hidden.reshape(-1, hidden.shape[-1])
                picked = np.sort(rng.permutation(len(flat))[: max(0, positions - count)])
                flat = flat[torch.tensor(picked, device=flat.device)]
                hidden_sum = hidden_sum + flat.double().sum(0)
                for part in flat.split(256):
                    chance = self.forward.logits(part).double().softmax(1)
                    total += chance.sum(0).cpu().numpy()
                    squares += (chance**2).sum(0).cpu().numpy()
                count += len(flat)
                self.tokens += int(ids.numel())
            middle = (hidden_sum / count).to(self.forward.head.weight.dtype)
            mean_logit = self.forward.logits(middle[None])[0].double().cpu().numpy()
        mean = total / count
        error = np.sqrt(np.maximum(0.0, squares / count - mean**2) / count)
        return Marginal(mean, error, mean_logit, count)

    def _windows(self, texts: Sequence[str], positions: int) -> list[list[int]]:
        stream = [i for ids in self.encode_bare(texts) for i in ids]
        size = min(CONTEXT, len(stream))
        if size < 2:
            raise ValueError("the texts hold no two tokens")
        windows = [stream[at : at + size] for at in range(0, len(stream) - size + 1, size)]
        number = min(len(windows), -(-positions // (size - 1)))
        return [windows[k * len(windows) // number] for k in range(number)]
