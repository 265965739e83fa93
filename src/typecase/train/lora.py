"""LoRA: training a small update of rank r beside each frozen linear layer (Hu et al. 2021, arXiv 2106.09685).

    y = W x  +  (alpha / r) · B (A x)          W frozen;  A (r, in) small and random;  B (out, r) zero

So the model is unchanged at the start, and `merge` folds the update into W: what is saved is a plain checkpoint that any
server reads. The update is chosen by names of layers; by default every linear layer inside the blocks, not the output layer.

Price: r · (in + out) numbers a layer to train and to keep the optimiser's state of; no time once merged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from typecase.errors import BadQuery


class RankUpdate(nn.Module):
    """A frozen linear layer and its update of low rank."""

    def __init__(self, linear: nn.Linear, rank: int, alpha: float, generator: torch.Generator) -> None:
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.scale = alpha / rank
        bound = 1 / math.sqrt(linear.in_features)
        start = torch.rand(rank, linear.in_features, generator=generator, dtype=torch.float32) * 2 * bound - bound
        self.a = nn.Parameter(start.to(linear.weight.device))
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank, device=linear.weight.device))

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output (…, out) with the update added."""
        update = nn.functional.linear(nn.functional.linear(x.to(self.a.dtype), self.a), self.b)
        out: Tensor = self.linear(x)
        return out + self.scale * update.to(out.dtype)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The linear layer with the update in its weights."""
        update = self.scale * (self.b @ self.a)
        self.linear.weight.add_(update.to(self.linear.weight.dtype))
        return self.linear


def adapt(model: nn.Module, *, rank: int, alpha: float, seed: int, layers: Sequence[str] = ()) -> int:
    """Freezes `model` and puts an update beside each linear layer whose last name is in `layers`; returns their number.

    Without `layers` every linear layer but the output layer is taken. Raises BadQuery where none is of that name.
    """
    if rank < 1:
        raise BadQuery(f"the rank of an update is 1 or more, got {rank}")
    generator = torch.Generator().manual_seed(seed)
    outputs: Any = getattr(model, "get_output_embeddings", None)
    output = outputs() if outputs is not None else None
    model.requires_grad_(False)
    found = [
        (parent, name, child) for parent, name, child in _linears(model) if (name in layers if layers else child is not output)
    ]
    if not found:
        names = sorted({name for _, name, child in _linears(model) if child is not output})
        raise BadQuery(
            f"the model has no linear layer called {', '.join(layers) or 'anything'}; it has {', '.join(names) or 'none'}"
        )
    for parent, name, child in found:
        setattr(parent, name, RankUpdate(child, rank, alpha, generator))
    return len(found)


def merge(model: nn.Module) -> None:
    """Folds every update into its layer: the model is again what it was built as, with other weights."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, RankUpdate):
                setattr(parent, name, child.merged())


def _linears(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    for parent in model.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                yield parent, name, child
