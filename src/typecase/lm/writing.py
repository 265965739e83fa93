"""Writing: a local model continues prompts, freely or as a guide allows; rows that are done leave the batch.

    write(forward, prompts, keys, wanted, stopped)    drawn by (key, turn), so a row's text does not depend on its batch
    write_guided(forward, prompts, guides, most)      the likeliest id that the row's guide allows

Shape letters: B rows, V vocabulary. Price: one step of the model a token and batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from typecase.lm.forward import Forward, Ids
from typecase.lm.protocol import Generation

I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Written:
    """Generated ids, without the end token; their log-probabilities; per token the likeliest (id, log-probability)."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[list[tuple[int, float]]] = field(default_factory=list)


class Guide(Protocol):
    """What a row may be continued with; a guide is of one row and one writing."""

    def allowed(self, left: int) -> I32:
        """The ids, at least one, that may come next when `left` more may be written, an end token included."""

    def take(self, token: int) -> None:
        """The id that was chosen."""


@dataclass(slots=True)
class Guided:
    """Generated ids, without the end token; per token its log-probability among all ids and among those that were allowed.

    `moved` counts the tokens, the end token included, for which the likeliest id of all was not allowed.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)
    moved: int = 0
    ended: bool = False


@torch.inference_mode()
def write(
    forward: Forward, prompts: Sequence[Ids], keys: Sequence[int], wanted: Generation, stopped: Callable[[list[int]], bool]
) -> list[tuple[Written, bool]]:
    """Continues each prompt; True where the end token or `stopped(ids)` ended it. Rows that are done leave the batch."""
    written = [(Written(), False) for _ in prompts]
    state, active = forward.prefill(prompts), list(range(len(prompts)))
    for turn in range(wanted.max_tokens):
        logprobs = forward.logits(state.hidden).log_softmax(1)
        drawn = _draw(logprobs, [keys[row] for row in active], turn, wanted.temperature)
        own = logprobs.gather(1, drawn[:, None])[:, 0].tolist()
        tops = _tops(logprobs, wanted.top_logprobs)
        going = []
        for at, (row, token) in enumerate(zip(active, drawn.tolist())):
            text = written[row][0]
            if token in forward.ends:
                written[row] = text, True
                continue
            text.ids.append(token)
            text.logprobs.append(own[at])
            text.top.append(tops[at])
            if stopped(text.ids):
                written[row] = text, True
            else:
                going.append(at)
        if not going or turn + 1 == wanted.max_tokens:
            break
        if len(going) < len(active):
            rows = torch.tensor(going, device=forward.device)
            state, drawn, active = state.select(rows), drawn[rows], [active[at] for at in going]
        state = forward.step(state, drawn)
    return written


@torch.inference_mode()
def write_guided(forward: Forward, prompts: Sequence[Ids], guides: Sequence[Guide], max_tokens: int) -> list[Guided]:
    """Continues each prompt by the likeliest id that its guide allows, until that is an end token."""
    written = [Guided() for _ in prompts]
    state, active = forward.prefill(prompts), list(range(len(prompts)))
    for turn in range(max_tokens):
        logits = forward.logits(state.hidden)
        drawn, own, among, moved = _guided(logits, [guides[row].allowed(max_tokens - turn) for row in active])
        going = []
        for at, row in enumerate(active):
            text, token = written[row], drawn[at]
            text.moved += moved[at]
            if token in forward.ends:
                text.ended = True
                continue
            text.ids.append(token)
            text.logprobs.append(own[at])
            text.chances.append(among[at])
            guides[row].take(token)
            going.append(at)
        if not going or turn + 1 == max_tokens:
            break
        taken = torch.tensor([drawn[at] for at in going], device=forward.device)
        if len(going) < len(active):
            rows = torch.tensor(going, device=forward.device)
            state, active = state.select(rows), [active[at] for at in going]
        state = forward.step(state, taken)
    return written


def _guided(logits: Tensor, allowed: Sequence[I32]) -> tuple[list[int], list[float], list[float], list[bool]]:
    """The likeliest allowed id a row, its log-probability among all and among the allowed, whether another was likelier."""
    sizes = [len(ids) for ids in allowed]
    rows = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(logits.device)
    ids = torch.from_numpy(np.concatenate(allowed).astype(np.int64)).to(logits.device)
    masked = torch.full_like(logits, -torch.inf)
    masked[rows, ids] = logits[rows, ids]
    drawn = masked.argmax(1)
    value = masked.gather(1, drawn[:, None])[:, 0]
    told = torch.stack(
        [drawn.float(), value - logits.logsumexp(1), value - masked.logsumexp(1),
         (logits.argmax(1) != drawn).float()]
    ).tolist()  # one transfer  # fmt: skip
    return [int(i) for i in told[0]], told[1], told[2], [bool(m) for m in told[3]]


def _draw(logprobs: Tensor, keys: Sequence[int], turn: int, temperature: float) -> Tensor:
    if temperature == 0:
        return logprobs.argmax(1)
    chances = (logprobs.double() / temperature).softmax(1).cumsum(1)
    points = [np.random.default_rng([key, turn]).random() for key in keys]
    wanted = torch.tensor(points, dtype=torch.float64, device=logprobs.device)[:, None] * chances[:, -1:]
    return torch.searchsorted(chances, wanted, right=True)[:, 0].clamp(max=logprobs.shape[1] - 1)


def _tops(logprobs: Tensor, most: int) -> list[list[tuple[int, float]]]:
    if not most:
        return [[] for _ in range(len(logprobs))]
    values, ids = logprobs.topk(min(most, logprobs.shape[1]), 1)
    return [list(zip(row_ids, row_values)) for row_ids, row_values in zip(ids.tolist(), values.tolist())]
