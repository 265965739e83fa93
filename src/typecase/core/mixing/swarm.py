"""Swarm: the mixes that small proxy runs are trained on, spread around what there is.

    prior          available tokens ** 0.5, so that small domains are seen often enough to be measured
    mixes          Dirichlet(strength * prior), strengths spaced evenly by logarithm: nearly one domain … nearly the prior
    left out       above the epochs that the proxies' budget allows, a repeated mix, one too close to another
    zeros          a share below the least is none at all

Shares are whole millionths that sum to one, so the table that is written is the mix that is trained. The recipe is RegMix's
(Liu et al. 2024, 2407.01492); the least distance is WebOrganizer's. Same seed, same swarm.

Errors: FixInput when the bounds turn away so many draws that the swarm cannot be filled; the message names the domain at fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.selection.quota import apportion
from typecase.errors import FixInput

F64 = npt.NDArray[np.float64]

PARTS = 10**6
"""Shares are multiples of one part of this."""
_BLOCK = 1024
_BLOCKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarm:
    """How proxy mixes are drawn: `smoothing` is the exponent on available tokens, `strengths` (first, last, number) of the
    Dirichlet draws, `least` the smallest share that is not zero, `distance` the least total variation between two mixes,
    `epochs` the most of any domain in a proxy run of `budget` tokens (None: no cap)."""

    smoothing: float = 0.5
    strengths: tuple[float, float, int] = (0.1, 5.0, 15)
    least: float = 2e-4
    distance: float = 0.0
    epochs: float = 15.0
    budget: int | None = None

    def __post_init__(self) -> None:
        first, last, number = self.strengths
        if not (0 < first <= last < np.inf and number >= 1):
            raise FixInput(f"swarm: strengths are first, last > 0 and how many, got {self.strengths}")
        if not (0 <= self.smoothing <= 4 and 0 <= self.least < 1 and 0 <= self.distance < 1 and self.epochs > 0):
            raise FixInput(f"swarm: a setting is out of range: {self}")


def smoothed_prior(tokens: Sequence[int], exponent: float) -> F64:
    """tokens ** exponent as shares (domains,); a domain without tokens has none. Raises FixInput when all are empty."""
    mass = np.array([float(count) ** exponent if count > 0 else 0.0 for count in tokens])
    if not mass.sum() > 0:
        raise FixInput("a swarm needs a domain with tokens")
    shares: F64 = mass / mass.sum()
    return shares


def draw_swarm(available: Mapping[str, int], count: int, *, settings: Swarm, seed: int, tied: F64 | None = None) -> F64:
    """`count` mixes float64 (count, domains), rows summing to 1, domains in the order of `available`.

    `tied` (variables, domains) makes every row a mix of those rows instead of single domains (see `reuse`): the draw is over
    the variables, each with the prior of its domains together.
    """
    names, tokens = list(available), list(available.values())
    prior = smoothed_prior(tokens, settings.smoothing)
    spread = np.eye(len(names)) if tied is None else tied
    ceiling = np.full(len(names), np.inf)
    if settings.budget is not None:
        ceiling = np.array([settings.epochs * have / settings.budget for have in tokens])
    centre = np.array([prior[row > 0].sum() for row in spread])
    kept: list[F64] = []
    seen: set[bytes] = set()
    refused = np.zeros(len(names), np.int64)
    alike = drawn = 0
    dice = np.random.default_rng(seed)
    for mixes in _blocks(dice, centre, settings):
        for mix in mixes:
            drawn += 1
            row = _in_parts(mix, settings.least) if tied is None else mix @ spread
            above = row > ceiling
            if above.any():
                refused += above
            elif row.tobytes() in seen or _too_close(row, kept, settings.distance):
                alike += 1
            else:
                seen.add(row.tobytes())
                kept.append(row)
                if len(kept) == count:
                    return np.array(kept)
    worst = int(refused.argmax())
    raise FixInput(
        f"only {len(kept)} of {count} mixes after {drawn:,} draws: {alike:,} were alike, and {names[worst]} was above its cap"
        f" in {int(refused[worst]):,}; allow more epochs, a smaller proxy budget, less distance, or ask for fewer"
    )


def _blocks(dice: np.random.Generator, centre: F64, settings: Swarm) -> Iterator[F64]:
    first, last, number = settings.strengths
    strengths = np.geomspace(first, last, number)
    some = np.flatnonzero(centre > 0)
    for _ in range(_BLOCKS):
        block = np.zeros((_BLOCK, len(centre)))
        for k in range(_BLOCK):
            block[k, some] = dice.dirichlet(np.maximum(centre[some] * strengths[k % number], 1e-6))
        yield block


def _in_parts(mix: F64, least: float) -> F64:
    """`mix` in whole parts of PARTS, shares below `least` as zeros."""
    mix = np.where(np.isfinite(mix), mix, 0.0)
    mix = np.where(mix < min(least, float(mix.max())), 0.0, mix)
    whole = apportion([int(share * (1 << 40)) for share in mix], PARTS)
    return np.array(whole, np.float64) / PARTS


def _too_close(row: F64, kept: Sequence[F64], distance: float) -> bool:
    if not distance or not kept:
        return False
    return bool((0.5 * np.abs(np.array(kept) - row).sum(axis=1)).min() < distance)
