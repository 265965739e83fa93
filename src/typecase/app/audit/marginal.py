"""Marginal chances: how likely a model says each token at all, averaged over ordinary texts. It estimates how often the token
was seen in training, needs no references, and so is a second opinion on the indicators.

audit_marginal(model, texts)      a row for each token: p_marginal, its standard error, the logit at the mean hidden state

Chances are averaged in double precision. A token can be improbable and well trained (it is rare), so this ranks *with* the
weights, never alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from typecase.app.audit.weights import WeightsAudit, vocabulary_of
from typecase.core.glitch.references import spearman
from typecase.errors import BadQuery, FixInput


@dataclass(frozen=True, slots=True)
class MarginalAudit:
    """`positions` contexts were averaged; `lowest` are the ten ids of the lowest logit at the mean hidden state.

    `with_weights` is Spearman's correlation with the main indicator of the weights, None when none were given.
    """

    model: str
    positions: int
    texts: int
    seed: int
    median: float
    lowest: tuple[int, ...]
    with_weights: float | None
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}


def audit_marginal(
    model: str | Path,
    texts: Sequence[str],
    *,
    tokenizer: str | Path | None = None,
    weights: WeightsAudit | None = None,
    positions: int = 4096,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    seed: int = 0,
) -> MarginalAudit:
    """Averages over `positions` places of `texts`. Raises FixInput for too few texts, NeedsExtra without torch."""
    from typecase.lm.copying.local import LocalCopier

    if positions < 1:
        raise FixInput(f"positions are 1 or more, got {positions}")
    vocabulary = vocabulary_of(model, tokenizer)
    copier = LocalCopier(model, device=device, dtype=dtype)
    num_ids = vocabulary.num_ids if vocabulary else copier.forward.vocabulary
    if num_ids > copier.forward.vocabulary:
        raise BadQuery(f"the tokenizer has {num_ids:,} ids, the model {copier.forward.vocabulary:,}: name its own tokenizer")
    try:
        found = copier.marginal(texts, positions=positions, seed=seed)
    except ValueError as error:
        raise FixInput(f"{error}: give texts like those that the model was trained on") from None
    mean, logits = found.mean[:num_ids], found.mean_logit[:num_ids]
    compared = None
    if weights is not None:
        main = np.array([np.nan if v is None else v for v in weights.table.column("main_indicator").to_pylist()], np.float64)
        there = ~np.isnan(main)
        compared = spearman(main[there], mean[: len(main)][there])
    columns: dict[str, Any] = {"i": pa.array(range(num_ids), pa.int64())}
    if vocabulary is not None:
        columns["hex"] = pa.array([None if data is None else data.hex() for data in vocabulary.data], pa.string())
    columns |= {"p_marginal": pa.array(mean), "p_error": pa.array(found.error[:num_ids]), "mean_logit": pa.array(logits)}
    return MarginalAudit(
        model=str(model),
        positions=found.positions,
        texts=len(texts),
        seed=seed,
        median=float(np.median(mean)),
        lowest=tuple(np.argsort(logits, kind="stable")[:10].tolist()),
        with_weights=compared,
        table=pa.table(columns),
    )
