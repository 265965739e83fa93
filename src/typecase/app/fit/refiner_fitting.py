"""Teaching a language model to refine: pairs out of evidence, and a fit of a model to them.

make_pairs([("twins", Path("seeds/twins")), ("run", Path("work/docs/refined"))], Path("work/pairs"))
fit_lm(Path("work/pairs"), Path("work/models/web"), {"base": "small", "domain": "web"}, seed=1)
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typecase.errors import NeedsExtra
from typecase.store.manifest import Manifest, Parent, relative
from typecase.train.refiner_pairs import Kind, collect_pairs, read_pairs

if TYPE_CHECKING:
    from typecase.train.tune import Watch


@dataclass(frozen=True, slots=True)
class MadePairs:
    """A set of pairs that was made."""

    folder: Path
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class FittedLMRefiner:
    """A language model refiner that was made: folder, fingerprint, steps, figures, and its card."""

    folder: Path
    fingerprint: str
    steps: int
    best_step: int
    figures: Mapping[str, Any]
    card: str


def make_pairs(evidence: Sequence[tuple[Kind, Path]], out: Path) -> MadePairs:
    """Pairs of all evidence in the new folder `out`; see train.refiner_pairs for kinds and errors."""
    return MadePairs(out, collect_pairs(evidence, out))


def fit_lm(
    pairs: Path, out: Path, settings: Mapping[str, Any] | None = None, *, seed: int = 1, watch: Watch | None = None
) -> FittedLMRefiner:
    """Fits a language model to the pairs in a folder; `settings` are those of RefinerRecipe.

    Raises AlreadyExists, NotFound, BadRecipe, BadQuery, and NeedsExtra where torch is missing.
    """
    try:
        importlib.import_module("torch")
    except ImportError:
        raise NeedsExtra("training a language model", "lm") from None
    from typecase.store.manifest import read_manifest
    from typecase.train.refiner_fit import fit_lm_refiner
    from typecase.train.refiner_recipe import RefinerRecipe

    taught = read_pairs(pairs)
    parents = (Parent("pairs", "pairs", relative(pairs, out), read_manifest(pairs).content),)
    made = fit_lm_refiner(taught, out, RefinerRecipe(**(settings or {}), seed=seed), parents=parents, watch=watch)
    return FittedLMRefiner(out, made.fingerprint, made.tuned.steps, made.tuned.best_step, made.figures, made.card)
