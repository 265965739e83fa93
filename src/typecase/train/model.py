"""Model: a small Llama-like language model, written to be read in one sitting.

    ids (b, t) -> embedding -> [ x + attention(norm(x)) ; x + feed_forward(norm(x)) ] · layers -> norm -> logits (b, t, vocab)

RoPE (Su et al. 2021, arXiv 2104.09864) in halves as Llama has it, RMSNorm (Zhang & Sennrich 2019, arXiv 1910.07467), SwiGLU
(Shazeer 2020, arXiv 2002.05202), grouped queries (Ainslie et al. 2023, arXiv 2305.13245), no biases, no dropout. Attention is
causal and goes across the borders of documents, as that of the training frameworks does; `firsts` keeps it within them.

Shape letters: b samples, t tokens, h heads, d width of a head. Weights are float32; autocast does the rest. Price: 4 bytes a
weight, and about 14 numbers of width `width` a token and layer for the way back.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typecase.errors import BadQuery
from typecase.train.config import ModelShape
from typecase.train.losses import losses_of

_FIRST_SPREAD = 0.02  # Radford et al. 2019 (GPT-2)


def matrix(inputs: int, outputs: int) -> nn.Linear:
    """A product without a bias, whose weights somebody else fills: torch would draw them first, which takes seconds."""
    made: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, bias=False)  # type: ignore[no-untyped-call]
    return made


class Attention(nn.Module):
    """Causal attention of grouped queries. Queries, keys and values come from one product."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = shape.heads, shape.kv_heads, shape.head_width
        self.qkv = matrix(shape.width, (shape.heads + 2 * shape.kv_heads) * shape.head_width)
        self.out = matrix(shape.width, shape.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, allowed: Tensor | None) -> Tensor:
        b, t, _ = x.shape
        heads = self.qkv(x).view(b, t, -1, self.head_width)
        turned, v = torch.split(heads, [self.heads + self.kv_heads, self.kv_heads], 2)
        q, k = torch.split(turn(turned, cos, sin), [self.heads, self.kv_heads], 2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if self.kv_heads != self.heads:
            k, v = (one.repeat_interleave(self.heads // self.kv_heads, 1) for one in (k, v))
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=allowed is None)
        return self.out(seen.transpose(1, 2).reshape(b, t, -1))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) · up(x)); gate and up come from one product."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate_up = matrix(shape.width, 2 * shape.hidden)
        self.down = matrix(shape.hidden, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.width, shape.norm_eps)
        self.attention = Attention(shape)
        self.feed_norm = nn.RMSNorm(shape.width, shape.norm_eps)
        self.feed_forward = FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, allowed: Tensor | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin, allowed)
        return x + self.feed_forward(self.feed_norm(x))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """The model of a shape. Its first weights are a function of `seed`; None leaves them to be filled."""

    def __init__(self, shape: ModelShape, *, seed: int | None = 1234) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.width, _weight=torch.empty(shape.vocab, shape.width))
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, shape.norm_eps)
        self.head = matrix(shape.width, shape.vocab)
        if shape.tied:
            self.head.weight = self.embedding.weight
        self.cos: Tensor
        self.sin: Tensor
        for name, table in zip(("cos", "sin"), rotations(shape)):
            self.register_buffer(name, table, persistent=False)
        if seed is not None:
            self._draw(seed)

    @torch.no_grad()
    def _draw(self, seed: int) -> None:
        """Normal weights; what is added to the stream is smaller the more layers add to it, as in GPT-2."""
        dice = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                added = name.endswith(("attention.out.weight", "feed_forward.down.weight"))
                spread = _FIRST_SPREAD / math.sqrt(2 * self.shape.layers) if added else _FIRST_SPREAD
                weight.normal_(0.0, spread, generator=dice)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (b, t, vocab) of what follows each of `ids` (b, t) int64. Raises BadQuery for t beyond the context."""
        return self.head(self.states(ids))  # type: ignore[no-any-return]

    def states(self, ids: Tensor, firsts: Tensor | None = None, *, anew: bool = False) -> Tensor:
        """What the output layer reads, (b, t, width).

        `firsts` (b, t) int64 is for every token the place at which its document begins in the sample: nothing before it is
        seen. With `anew` positions are counted from there too.
        """
        t = ids.shape[1]
        if t > self.shape.context:
            raise BadQuery(f"{t} tokens are more than the model's context of {self.shape.context}")
        cos, sin, allowed = self.cos[:t], self.sin[:t], None
        if firsts is not None:
            places = torch.arange(t, device=ids.device)
            allowed = ((places[:, None] >= places) & (firsts[:, :, None] <= places))[:, None]
            if anew:
                cos, sin = (table[places - firsts] for table in (self.cos, self.sin))
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, cos, sin, allowed)
        return self.norm(x)  # type: ignore[no-any-return]


def rotations(shape: ModelShape) -> tuple[Tensor, Tensor]:
    """Cosines and sines (context, d / 2) float32 of the angles place · base^(-2 i / d)."""
    d = shape.head_width
    speeds = 1.0 / (shape.rope_base ** (torch.arange(0, d, 2, dtype=torch.int64).float() / d))
    angles = torch.arange(shape.context).float()[:, None] * speeds
    return angles.cos(), angles.sin()


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Heads (b, t, h, d) turned by the angles of their places: pair i of a head is its numbers i and i + d / 2."""
    cos, sin = cos.unsqueeze(-2).to(x.dtype), sin.unsqueeze(-2).to(x.dtype)
    left, right = x.chunk(2, -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


def token_losses(model: GPT, ids: Tensor, targets: Tensor, mask: Tensor | None = None) -> Tensor:
    """How surprised the model is by each target, in nats: (b, t) float32, 0 where `mask` (b, t) is false.

    `ids`, `targets` (b, t) int64: targets[:, k] stands behind ids[:, k]. Logits are made some rows at a time.
    """
    states = model.states(ids)
    losses = losses_of(states.flatten(0, 1), model.head.weight, targets.flatten()).view(targets.shape)
    return losses if mask is None else losses * mask
