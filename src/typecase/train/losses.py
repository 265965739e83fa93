"""Losses: next-token cross-entropy, a few rows of logits at a time.

    states (n, width) · output layer (vocab, width) -> logits of 256 rows -> losses, and at once their gradients -> next rows

All logits of a batch would be written, read back for the softmax, and kept for the way back: at 8,192 tokens and a vocabulary
of 49,152 that is 1.6 GB. The loss is the end of the way forward, so its gradient is known while a few rows of logits still lie
in the cache: they are turned into it where they lie and forgotten. This is the same arithmetic, in float32; nothing is done
twice. Price: one product forward, two back, and a gradient the size of the output layer.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_LOGITS_BYTES = {"cpu": 4 << 20, "cuda": 256 << 20}


def losses_of(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """The loss in nats of each target: (n,) float32. `states` (n, width), `weight` (vocab, width), `targets` (n,) int64."""
    states, weight = _in_arithmetic(states, weight)
    rows = _rows(states, weight)
    parts = [
        F.cross_entropy((states[at : at + rows] @ weight.T).float(), targets[at : at + rows], reduction="none")
        for at in range(0, len(targets), rows)
    ]
    return torch.cat(parts)


def summed_losses(states: Tensor, weight: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the losses where `mask` (n,) is 1, to go back from, and each loss (n,), 0 elsewhere, to look at."""
    total, losses = _Summed.apply(states, weight, targets, mask)  # type: ignore[no-untyped-call]
    return total, losses


class _Summed(torch.autograd.Function):
    """Gradients are made on the way forward; the way back only scales them."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        read, matrix = _in_arithmetic(states, weight)
        losses = torch.empty(len(targets), device=states.device)
        into_states = torch.empty_like(states)
        into_weight = torch.zeros_like(weight)
        rows = _rows(read, matrix)
        for at in range(0, len(targets), rows):
            own, wanted = slice(at, at + rows), targets[at : at + rows, None]
            shares = torch.log_softmax((read[own] @ matrix.T).float(), -1)
            losses[own] = -shares.gather(1, wanted)[:, 0]
            shares.exp_()
            shares.scatter_add_(1, wanted, shares.new_full((1, 1), -1.0).expand(len(wanted), 1))
            weighed = mask[own, None].to(read.dtype)
            shares = shares.to(matrix.dtype)
            into_states[own] = (shares @ matrix) * weighed
            _add_product(into_weight, shares.T, read[own] * weighed)
        losses *= mask
        ctx.save_for_backward(into_states, into_weight)
        ctx.mark_non_differentiable(losses)
        return losses.sum(dtype=torch.float64).float(), losses

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, None, None]:
        into_states, into_weight = ctx.saved_tensors
        return into_states.mul_(grads[0]), into_weight.mul_(grads[0]), None, None


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _in_arithmetic(states: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the arithmetic of autocast where it is on."""
    kind = states.device.type
    if not torch.is_autocast_enabled(kind):
        return states, weight
    dtype = torch.get_autocast_dtype(kind)
    return states.to(dtype), weight.to(dtype)


def _rows(states: Tensor, weight: Tensor) -> int:
    """Rows of logits at a time."""
    return max(64, _LOGITS_BYTES.get(states.device.type, 64 << 20) // (4 * len(weight)))
