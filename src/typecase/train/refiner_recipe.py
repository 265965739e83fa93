"""Refiner recipe: everything that a fit of a language model refiner depends on besides its pairs, and how they are split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from typecase.core.selection.keys import derive_seed
from typecase.errors import BadQuery, BadRecipe
from typecase.lm.model_files import find_model, hash_model
from typecase.lm.rate.seeds import source_folds
from typecase.train.rater_recipe import Precision, Split
from typecase.train.refiner_pairs import Pair
from typecase.train.scratch import SIZES

STAGES: Final = ("document", "chunk")
DOMAINS: Final = ("general", "web", "maths", "code")
_FOLDS = 10


@dataclass(frozen=True, slots=True)
class RefinerRecipe:
    """Everything that a fit depends on besides the pairs.

    base         folder of a checkpoint, or a size of scratch.SIZES: a model made on the spot
    domain       what the pairs are of: web, maths, code or general; it is said on the card and in the refiner's name
    form         name of the prompt's form
    stages       what is taught: document, chunk, or both by one model
    budget       tokens of numbered rows in a chunk; max_tokens of an answer, the end token included
    keeps        examples without anything to do, for each that has something, in an epoch
    rank         of a low-rank update of all linear layers; 0 trains every weight
    epochs       times that the examples of an epoch are shown; batch rows a step
    rate         highest learning rate; None: 2e-4 for an update, 2e-5 for a checkpoint, 3e-3 from scratch
    held_out     examples that choose the weights, at most; measured: texts of the figures, at most
    """

    base: str = "small"
    domain: str = "general"
    form: str = "student"
    chat: bool | None = None
    stages: tuple[str, ...] = ("chunk",)
    budget: int = 700
    max_tokens: int = 128
    keeps: float = 1.0
    rank: int = 0
    alpha: float | None = None
    epochs: float = 3.0
    batch: int = 16
    rate: float | None = None
    decay: float = 0.1
    every: int = 50
    patience: int = 5
    held_out: int = 200
    measured: int = 100
    batch_tokens: int = 8192
    precision: Precision = "auto"
    recompute: bool = False
    device: str = "auto"
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.stages or set(self.stages) - set(STAGES):
            raise BadQuery(f"stages are some of {', '.join(STAGES)}, got {self.stages}")
        if self.domain not in DOMAINS:
            raise BadQuery(f"the domain is one of {', '.join(DOMAINS)}, got {self.domain!r}")
        if min(self.budget, self.max_tokens, self.batch, self.held_out, self.measured) < 1 or self.epochs <= 0:
            raise BadQuery(f"budget, max_tokens, batch, held_out, measured are 1 or more and epochs above 0, got {self}")
        if self.keeps < 0 or self.rank < 0:
            raise BadQuery(f"keeps and rank are not negative, got {self.keeps} and {self.rank}")

    @property
    def scratch(self) -> bool:
        """Whether the model is made on the spot."""
        return self.base in SIZES

    @property
    def highest_rate(self) -> float:
        """The learning rate that was given, or what suits the way of training."""
        return self.rate if self.rate is not None else 3e-3 if self.scratch else 2e-4 if self.rank else 2e-5


def identity(recipe: RefinerRecipe) -> dict[str, Any]:
    """What another result depends on: a base by its contents, never by its place."""
    known = asdict(recipe) | {"base": recipe.base if recipe.scratch else hash_model(find_model(recipe.base))}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in known.items()}


def split_of(pairs: Sequence[Pair], recipe: RefinerRecipe) -> Split:
    """Whole sources in folds: one is measured on, one chooses the weights, the rest teach. Raises BadRecipe for too few."""
    sources = tuple(pair.source for pair in pairs)
    kinds = len(set(sources))
    if kinds < 3:
        raise BadRecipe(f"a split needs 3 sources or more, the pairs have {kinds}: name finer sources in the evidence")
    folds = source_folds(sources, folds=min(_FOLDS, kinds), seed=recipe.seed)
    return Split(
        np.flatnonzero(folds > 1),
        _some(np.flatnonzero(folds == 1), recipe.held_out, derive_seed(recipe.seed, "held out")),
        _some(np.flatnonzero(folds == 0), recipe.measured, derive_seed(recipe.seed, "measured")),
    )


def _some(rows: npt.NDArray[np.int64], most: int, seed: int) -> npt.NDArray[np.int64]:
    return rows if len(rows) <= most else np.sort(np.random.default_rng(seed).permutation(rows)[:most])
