"""Rater recipe: everything that a fit depends on besides its annotations, and how they are split."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from typecase.core.selection.keys import derive_seed
from typecase.errors import BadQuery, BadRecipe
from typecase.lm.model_files import find_model, hash_model
from typecase.lm.rate.seeds import I64, Seeds, source_folds
from typecase.train.rater_data import Long
from typecase.train.sampling import Rule
from typecase.train.scratch import SIZES

Precision = Literal["auto", "float32", "bfloat16"]
SplitBy = Literal["source", "document"]
_FOLDS = 10


@dataclass(frozen=True, slots=True)
class RaterRecipe:
    """Everything that a fit depends on besides the annotations.

    base         folder of a checkpoint, or a size of scratch.SIZES: a model made on the spot
    form         name of the prompt's form
    chat         whether the prompt is a user's turn in the model's chat form; None: if the model has one
    rank         of a low-rank update of all linear layers; 0 trains every weight
    epochs       times that as many rows are shown as there are documents to learn from
    batch        rows a step
    rate         highest learning rate; None: 2e-4 for an update, 2e-5 for a checkpoint, 3e-3 from scratch
    held_out     documents that choose the weights, at most; measured: documents of the figures, at most
    rule, cap    how documents are drawn, see sampling; quotient and factor belong to the rule `dataman`
    """

    base: str = "small"
    form: str = "student"
    chat: bool | None = None
    system: str = ""
    window: int = 1024
    long: Long = "window"
    blank: float = 0.0
    random: float = 0.0
    drawn: bool = False
    rank: int = 0
    alpha: float | None = None
    layers: tuple[str, ...] = ()
    epochs: float = 3.0
    batch: int = 16
    rule: Rule = "even"
    cap: float = 5.0
    quotient: int = 5
    factor: int = 4
    split_by: SplitBy = "source"
    held_out: int = 500
    measured: int = 5000
    rate: float | None = None
    decay: float = 0.1
    every: int = 50
    patience: int = 5
    batch_tokens: int = 8192
    precision: Precision = "auto"
    recompute: bool = False
    device: str = "auto"
    seed: int = 1

    def __post_init__(self) -> None:
        if self.held_out < 1 or self.measured < 1:
            raise BadQuery(f"held_out and measured are 1 or more, got {self.held_out} and {self.measured}")
        if self.epochs <= 0 or self.batch < 1 or self.rank < 0:
            got = f"{self.epochs}, {self.batch} and {self.rank}"
            raise BadQuery(f"epochs are above 0, the batch is 1 or more and the rank not negative, got {got}")

    @property
    def scratch(self) -> bool:
        """Whether the model is made on the spot."""
        return self.base in SIZES

    @property
    def highest_rate(self) -> float:
        """The learning rate that was given, or what suits the way of training."""
        return self.rate if self.rate is not None else 3e-3 if self.scratch else 2e-4 if self.rank else 2e-5


def identity(recipe: RaterRecipe) -> dict[str, Any]:
    """What another result depends on: a base by its contents, never by its place."""
    known = asdict(recipe) | {"base": recipe.base if recipe.scratch else hash_model(find_model(recipe.base))}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in known.items()}


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of documents: to learn from, to choose the weights by, to measure on; int64, sorted."""

    train: I64
    held_out: I64
    test: I64


def split_of(documents: Seeds, recipe: RaterRecipe) -> Split:
    """Whole sources (or originals with their variants) in ten folds: one is measured on, one chooses the weights.

    Of a large fold a part is drawn; the rest is not learnt from either, for it shares sources with what is measured.
    """
    groups = documents.sources if recipe.split_by == "source" else tuple(documents.ids[root] for root in _roots(documents))
    if len(set(groups)) < 3:
        what = f"{len(set(groups))} {recipe.split_by}s"
        raise BadRecipe(
            f"a split needs 3 {recipe.split_by}s or more, there are {what}: name a finer source, or split by document"
        )
    folds = source_folds(groups, folds=min(_FOLDS, len(set(groups))), seed=recipe.seed)
    return Split(
        np.flatnonzero(folds > 1),
        _some(np.flatnonzero(folds == 1), recipe.held_out, derive_seed(recipe.seed, "held out")),
        _some(np.flatnonzero(folds == 0), recipe.measured, derive_seed(recipe.seed, "measured")),
    )


def _some(docs: I64, most: int, seed: int) -> I64:
    """At most so many of the documents, drawn, in order."""
    return docs if len(docs) <= most else np.sort(np.random.default_rng(seed).permutation(docs)[:most])


def _roots(documents: Seeds) -> list[int]:
    """The row of each document's original, however long the chain; its own if it is none's variant."""
    roots = []
    for row in range(len(documents)):
        seen = {row}
        while (original := int(documents.original[row])) >= 0 and original not in seen:
            row = original
            seen.add(row)
        roots.append(row)
    return roots
