"""Learner: a model, its optimiser and its arithmetic; it learns one step at a time.

    the step's part of this process -> micro-batches -> gradients of summed losses / targets of the step -> clip -> AdamW

Every target weighs the same, however a step is divided into micro-batches and processes: the sum of all losses is divided by
the number of targets of the whole step. AdamW is that of Loshchilov & Hutter 2019 (arXiv 1711.05101); matrices decay, norms do
not. Where bfloat16 is wanted products are bfloat16, weights, sums and losses float32.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from typecase.errors import BadRecipe
from typecase.train.batches import StepBatch
from typecase.train.config import TrainPlan
from typecase.train.distributed import World
from typecase.train.losses import losses_of, summed_losses
from typecase.train.model import GPT

F32 = npt.NDArray[np.float32]
_EPS = 1e-8


class _Losses(nn.Module):
    """From ids to the sum of losses, as one module, so that its gradients can be shared between processes."""

    def __init__(self, model: GPT, anew: bool, compiled: bool) -> None:
        super().__init__()
        self.model, self._anew = model, anew
        self._states: Any = torch.compile(model.states) if compiled else model.states

    def forward(self, ids: Tensor, targets: Tensor, mask: Tensor, firsts: Tensor | None) -> tuple[Tensor, Tensor]:
        states = self._states(ids, firsts, anew=self._anew)
        return summed_losses(states.flatten(0, 1), self.model.head.weight, targets, mask)


class Learner:
    """Learns batches; `anew` counts positions from the border of a document where batches keep documents apart."""

    def __init__(self, model: GPT, plan: TrainPlan, world: World, *, anew: bool = False) -> None:
        self.model, self.plan, self._world = model, plan, world
        self._anew = anew
        self.half = uses_bfloat16(plan, world.device)
        self.optimiser = adamw(model, plan)
        self._losses: Any = _Losses(model, anew, plan.compile)
        if world.size > 1:
            self._losses = nn.parallel.DistributedDataParallel(self._losses)

    def learn(self, batch: StepBatch, rate: float) -> tuple[float, float, F32]:
        """One step at learning rate `rate`: its loss in nats a target, the length of its gradient, the losses (n, t) of this
        process. Raises BadRecipe when the loss is no number any more."""
        self.model.train()
        rows = len(batch.ids)
        size = min(self.plan.micro_batch or rows, rows)
        scale = self._world.size / batch.num_targets  # DistributedDataParallel takes the mean of the gradients
        losses = np.empty(batch.ids.shape, np.float32)
        total = 0.0
        for at in range(0, rows, size):
            own = slice(at, at + size)
            with self._shared(last=at + size >= rows):
                with self._arithmetic():
                    summed, each = self._losses(*self._given(batch, own))
                (summed * scale).backward()
            total += float(summed.detach())
            losses[own] = each.view(-1, batch.ids.shape[1]).cpu().numpy()
        (whole,) = self._world.total(total)
        loss = whole / batch.num_targets
        if not math.isfinite(loss):
            raise BadRecipe(f"the loss of step {batch.step} is no number any more: take a lower learning rate, or a warmup")
        gradient = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.plan.clip or math.inf))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss, gradient, losses

    @torch.no_grad()
    def look(self, batch: StepBatch, size: int = 8) -> tuple[float, int]:
        """The sum of the losses of a batch in nats, and its targets; nothing is learnt."""
        self.model.eval()
        total = 0.0
        for at in range(0, len(batch.ids), size):
            ids, targets, mask, firsts = self._given(batch, slice(at, at + size))
            with self._arithmetic():
                states = self.model.states(ids, firsts, anew=self._anew)
                losses = losses_of(states.flatten(0, 1), self.model.head.weight, targets)
            total += float((losses * mask).sum(dtype=torch.float64))
        return total, int(batch.mask.sum())

    def _given(self, batch: StepBatch, own: slice) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Rows of a batch on the device: ids (b, t), targets and mask (b · t,), firsts (b, t)."""
        ids, targets = self._moved(batch.ids[own]), self._moved(batch.targets[own]).flatten()
        mask = self._moved(batch.mask[own].astype(np.float32)).flatten()
        return ids, targets, mask, None if batch.firsts is None else self._moved(batch.firsts[own])

    def _moved(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._world.device, non_blocking=True)

    def _arithmetic(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._world.device.type, torch.bfloat16) if self.half else nullcontext()

    def _shared(self, *, last: bool) -> AbstractContextManager[Any]:
        """Gradients go between the processes with the last micro-batch alone."""
        return nullcontext() if last or self._world.size == 1 else self._losses.no_sync()


def adamw(model: GPT, plan: TrainPlan) -> torch.optim.AdamW:
    """The optimiser of a plan over the weights of a model."""
    weights = list(model.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": plan.weight_decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.learning_rate, betas=(plan.beta1, plan.beta2), eps=_EPS, fused=True)


def uses_bfloat16(plan: TrainPlan, device: torch.device) -> bool:
    """Whether products are bfloat16: when it is asked for, and with `auto` on a GPU that has it."""
    if plan.dtype == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return plan.dtype == "bfloat16"
