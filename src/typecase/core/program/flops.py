"""FLOPs: what refining costs, what training costs, and from where on refining pays.

    refining     C = sum over stages of 2 N (tokens read + tokens written)     N of the stage's model, embeddings left out
    published    C = 2 N (D_raw + D_afterdoc)                                  what is written is not counted
    training     C = 6 N D                                                     N of the model, D tokens

Check value, published: N = 313 M, 62.5 B tokens raw, 19.0 B after the document stage: 5.1e19, which is the training of a 0.7 B
model on 12 B tokens. Source: ProX (arXiv 2409.17115, section on FLOPs); 2 N and 6 N a token from Kaplan et al. 2020 (arXiv
2001.08361). What the teacher and the training of the refiner cost is not in these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def refining_flops(parameters: int, tokens_read: int, tokens_written: int = 0) -> float:
    """FLOPs of one stage of a refiner; prompts, line numbers and overlaps are among the tokens read."""
    return 2.0 * parameters * (tokens_read + tokens_written)


@dataclass(frozen=True, slots=True)
class StageTokens:
    """What the model of one stage of a refiner, of so many `parameters`, read and wrote, in tokens."""

    parameters: int
    read: int
    written: int

    @property
    def flops(self) -> float:
        """See `refining_flops`."""
        return refining_flops(self.parameters, self.read, self.written)


def stages_of(told: Mapping[str, Any], counts: Mapping[str, Any]) -> tuple[StageTokens, ...]:
    """The stages that a manifest knows of: `told` of its refiner, `counts` of its run. The chunk stage, and the document stage
    where a model decided; none where the size of a model is not told."""
    size = told.get("parameters")
    if not size:
        return ()
    decided = int(counts.get("decided_in", 0)), int(counts.get("decided_out", 0))
    chunks = int(counts.get("tokens_in", 0)) - decided[0], int(counts.get("tokens_out", 0)) - decided[1]
    found = StageTokens(int(size), *chunks), StageTokens(int(told.get("document_parameters", size)), *decided)
    return tuple(one for one in found if one.read or one.written)


def published_flops(parameters: int, raw_tokens: float, tokens_after_documents: float) -> float:
    """FLOPs of both stages as ProX counts them: each reads the plain tokens once."""
    return 2.0 * parameters * (raw_tokens + tokens_after_documents)


def training_flops(parameters: int, tokens: float) -> float:
    """FLOPs of training on `tokens`, forward and backward."""
    return 6.0 * parameters * tokens


def training_tokens(flops: float, parameters: int) -> float:
    """Tokens on which a model of `parameters` could be trained for `flops`."""
    return flops / (6.0 * parameters)


def break_even_parameters(flops: float, raw_tokens: float, refined_tokens: float) -> float | None:
    """The size of model from which refining pays: both trainings reach equal quality, one on `raw_tokens`, one on
    `refined_tokens`; None where refining saves no tokens and never pays."""
    saved = raw_tokens - refined_tokens
    return flops / (6.0 * saved) if saved > 0 else None
