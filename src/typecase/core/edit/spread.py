"""Spread: N texts, k copies each, over samples of a run, by draws of one seed; the plan of a perturbation experiment.

    spread(3 texts, 2 copies, over samples 0 … 999, seed 7)      text 0 -> samples 812, 44     text 1 -> 5, 390   …
    the same with a batch size of 8                              at most one injection a batch

No two injections share a sample, and each has a random generator of its own, so that no two get the same draws and none
changes when another is left out. The same seed gives the same plan everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    num_texts: int, copies: int, *, over: npt.ArrayLike | range, seed: int, batch_size: int | None = None
) -> tuple[Placement, ...]:
    """Draws a sample for every copy of every text, without replacement, out of the training indices `over`.

    With `batch_size` at most one injection falls into a batch (indices [b n, b n + n)): the batch is drawn without
    replacement, the sample within it uniformly. Raises BadQuery when there are too few samples or batches.
    """
    if num_texts < 0 or copies < 1 or (batch_size is not None and batch_size < 1):
        raise BadQuery(f"cannot spread {num_texts} texts in {copies} copies with batches of {batch_size}")
    chosen = _drawn(num_texts * copies, over, np.random.default_rng(seed), batch_size)
    return tuple(
        Placement(k // copies, k % copies, int(sample), (seed, k // copies, k % copies)) for k, sample in enumerate(chosen)
    )


def _drawn(wanted: int, over: npt.ArrayLike | range, rng: np.random.Generator, batch_size: int | None) -> Ints:
    pool = np.unique(np.asarray(over, np.int64).reshape(-1))
    if batch_size is None:
        if wanted > len(pool):
            raise BadQuery(f"{wanted} injections need as many samples, there are {len(pool)} to choose from")
        return pool[rng.choice(len(pool), wanted, replace=False)]
    batches, firsts, counts = np.unique(pool // batch_size, return_index=True, return_counts=True)
    if wanted > len(batches):
        raise BadQuery(f"{wanted} injections, one a batch, need as many batches, there are {len(batches)} to choose from")
    own = rng.choice(len(batches), wanted, replace=False)
    return pool[firsts[own] + rng.integers(0, counts[own])] if wanted else np.zeros(0, np.int64)


def over_steps(steps: npt.ArrayLike, batch_size: int) -> Iterator[int]:
    """The training indices of `steps` of a run whose every step reads `batch_size` samples in order."""
    for step in np.asarray(steps, np.int64).reshape(-1).tolist():
        yield from range(step * batch_size, (step + 1) * batch_size)
