"""Config: the shape of a model and the plan of a run, as values that say what they cost.

    shape = preset("3m", vocab=4096, context=512)      3,148,224 weights
    plan = TrainPlan(steps=2000, batch=16)             2000 steps of 16 · 512 tokens
    shape.flops_per_token * plan.steps * 16 * 512      floating-point operations of the run

Both are checked at birth (BadQuery) and are written beside every checkpoint. Price: none, this is arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from typecase.errors import BadQuery

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A Llama-like model (Touvron et al. 2023, arXiv 2302.13971): RoPE, RMSNorm, SwiGLU, grouped queries, no biases.

    layers    blocks of attention and feed-forward
    heads     of queries; each is width / heads wide, an even number
    kv_heads  of keys and values; divides `heads`, each serves heads / kv_heads of them
    width     of the residual stream
    hidden    of the feed-forward
    vocab     token ids go from 0 to vocab - 1
    context   tokens that a sample feeds at most
    tied      whether the output layer is the embedding
    """

    layers: int
    heads: int
    kv_heads: int
    width: int
    hidden: int
    vocab: int
    context: int
    tied: bool = True
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        sizes = (self.layers, self.heads, self.kv_heads, self.width, self.hidden, self.vocab, self.context)
        if min(sizes) < 1:
            raise BadQuery(f"every size of a model is 1 or more, got {self}")
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise BadQuery(f"width {self.width} must be an even number for each of {self.heads} heads: change one of the two")
        if self.heads % self.kv_heads:
            raise BadQuery(
                f"kv_heads {self.kv_heads} does not divide heads {self.heads}: every key head serves as many queries"
            )
        if self.rope_base <= 0 or self.norm_eps <= 0:
            raise BadQuery(f"rope_base and norm_eps are above 0, got {self.rope_base} and {self.norm_eps}")

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def body_parameters(self) -> int:
        """Weights without embedding and output layer: what scaling laws call N."""
        attention = self.width * self.head_width * 2 * (self.heads + self.kv_heads)
        block = attention + 3 * self.width * self.hidden + 2 * self.width
        return self.layers * block + self.width

    @property
    def parameters(self) -> int:
        """All weights; a tied output layer counts once."""
        return self.body_parameters + self.vocab * self.width * (1 if self.tied else 2)

    @property
    def flops_per_token(self) -> int:
        """Floating-point operations to train on one token, forward and backward: 6 N + 12 · layers · width · context.

        Chowdhery et al. 2022 (PaLM, arXiv 2204.02311), appendix B. N here holds what is multiplied: the body and the output
        layer, tied or not, but not the look-up of the embedding. Attention is counted as if it were not causal, as there.
        """
        multiplied = self.body_parameters + self.vocab * self.width
        return 6 * multiplied + 12 * self.layers * self.width * self.context

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """How a model is trained.

    steps              of the optimiser
    batch              samples a step; with an order of a framework it must be what that order's steps read
    micro_batch        samples that go through the model at once; 0 takes the whole batch. It changes rounding, not the step
    learning_rate      the highest; it rises in a line over `warmup` steps and falls as a cosine
    min_learning_rate  what it falls to at the last step
    weight_decay       decoupled (Loshchilov & Hutter 2019), of matrices alone, the embedding included
    clip               the longest gradient, 0 for any
    seed               of the first weights and, where no order is given, of the order
    dtype              of the arithmetic; auto is bfloat16 on a GPU that has it and float32 on a CPU. Weights stay float32
    compile            whether torch.compile makes kernels of the model: some tens of seconds first, then faster steps
    save_every         steps between checkpoints; the last step is always saved
    keep               checkpoints kept, the newest; 0 keeps all
    log_every          steps between two lines of progress where there is no terminal
    eval_every         steps between two looks at the validation set; 0 looks once, at the end
    eval_samples       samples of it that are looked at
    """

    steps: int
    batch: int = 32
    micro_batch: int = 0
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-4
    warmup: int = 0
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    clip: float = 1.0
    seed: int = 1234
    dtype: Precision = "auto"
    compile: bool = False
    save_every: int = 500
    keep: int = 2
    log_every: int = 10
    eval_every: int = 0
    eval_samples: int = 128

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.save_every, self.log_every, self.eval_samples) < 1:
            raise BadQuery(f"steps, batch, save_every, log_every and eval_samples are 1 or more, got {self}")
        if min(self.micro_batch, self.warmup, self.keep, self.eval_every, self.seed) < 0:
            raise BadQuery(f"micro_batch, warmup, keep, eval_every and seed are not negative, got {self}")
        if not 0 <= self.min_learning_rate <= self.learning_rate or self.learning_rate <= 0:
            raise BadQuery(
                f"the learning rate falls from {self.learning_rate} to {self.min_learning_rate}: the first must be above 0, the"
                " second between 0 and it"
            )
        if self.warmup > self.steps:
            raise BadQuery(f"warmup {self.warmup} is longer than the run of {self.steps} steps: shorten it")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1) or self.weight_decay < 0 or self.clip < 0:
            raise BadQuery(f"betas lie in [0, 1), weight_decay and clip are not negative, got {self}")
        if self.dtype not in ("auto", "float32", "bfloat16"):
            raise BadQuery(f"there is no dtype {self.dtype!r}: choose auto, float32 or bfloat16")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def law(self) -> dict[str, Any]:
        """What of the plan decides the weights: the rest may differ when a run is taken up again."""
        return {name: value for name, value in asdict(self).items() if name not in _MANNERS}


_MANNERS = ("save_every", "keep", "log_every", "eval_every", "eval_samples")

PRESETS: Mapping[str, Mapping[str, int]] = {
    "1m": {"layers": 4, "heads": 4, "kv_heads": 2, "width": 128, "hidden": 352},
    "3m": {"layers": 6, "heads": 6, "kv_heads": 2, "width": 192, "hidden": 512},
    "10m": {"layers": 8, "heads": 5, "kv_heads": 5, "width": 320, "hidden": 864},
    "30m": {"layers": 10, "heads": 8, "kv_heads": 4, "width": 512, "hidden": 1376},
}
"""Shapes by about how many weights they have with the vocabularies of their size: 2,048, 4,096, 8,192 and 16,384 tokens."""


def preset(name: str, *, vocab: int, context: int, **changes: Any) -> ModelShape:
    """The preset `name`, for a vocabulary and a context. Raises BadQuery for a name that is not in PRESETS."""
    if name not in PRESETS:
        raise BadQuery(f"there is no preset {name!r}: choose one of {', '.join(PRESETS)}, or give the sizes")
    return ModelShape(**{**PRESETS[name], "vocab": vocab, "context": context, **changes})


def shape_from(values: Mapping[str, Any]) -> ModelShape:
    """The shape that `as_dict` wrote."""
    return ModelShape(**values)
