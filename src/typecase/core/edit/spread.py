"""Spread: N texts, k copies each, over samples of a run, by draws of one seed; the plan of a perturbation experiment.

    spread(3 texts, 2 copies, over samples 0 … 999, seed 7)      text 0 -> samples 812, 44     text 1 -> 5, 390   …
    the same with the batch of each sample                       at most one injection a batch

No two injections share a sample, and each has a random generator of its own, so that no two get the same draws and none
changes when another is left out. The same seed gives the same plan everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import Ints
from typecase.errors import BadQuery


@dataclass(frozen=True, slots=True)
class Placement:
    """Copy `copy` of text `text` goes to training index `sample`; `rng` draws what its injection draws."""

    text: int
    copy: int
    sample: int
    seed: tuple[int, int, int]

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def spread(
    num_texts: int, copies: int, *, over: npt.ArrayLike | range, seed: int, batches: npt.ArrayLike | None = None
) -> tuple[Placement, ...]:
    """Draws a sample for every copy of every text, without replacement, out of the training indices `over`.

    With `batches`, the batch of each of `over`, at most one injection falls into a batch: the batch is drawn without
    replacement, the sample within it uniformly. Raises BadQuery when there are too few samples or batches.
    """
    if num_texts < 0 or copies < 1:
        raise BadQuery(f"cannot spread {num_texts} texts in {copies} copies")
    chosen = _drawn(num_texts * copies, over, np.random.default_rng(seed), batches)
    return tuple(
        Placement(k // copies, k % copies, int(sample), (seed, k // copies, k % copies)) for k, sample in enumerate(chosen)
    )


def _drawn(wanted: int, over: npt.ArrayLike | range, rng: np.random.Generator, batches: npt.ArrayLike | None) -> Ints:
    pool, places = np.unique(np.asarray(over, np.int64).reshape(-1), return_index=True)
    if batches is None:
        if wanted > len(pool):
            raise BadQuery(f"{wanted} injections need as many samples, there are {len(pool)} to choose from")
        return pool[rng.choice(len(pool), wanted, replace=False)]
    own_batch = np.asarray(batches, np.int64).reshape(-1)[places]
    order = np.argsort(own_batch, kind="stable")
    _, firsts, counts = np.unique(own_batch[order], return_index=True, return_counts=True)
    if wanted > len(counts):
        raise BadQuery(f"{wanted} injections, one a batch, need as many batches, there are {len(counts)} to choose from")
    own = rng.choice(len(counts), wanted, replace=False)
    return pool[order][firsts[own] + rng.integers(0, counts[own])] if wanted else np.zeros(0, np.int64)
