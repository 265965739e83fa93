"""Quality with diversity where the best selection is known: how much of it does each way of selecting reach?

    python benchmarks/bench_diversity.py [--quick] [--json]

A made corpus of 15 domains, sizes by Zipf's law, documents of lognormal length. What a selection is worth is

    sum over domains d of (sum over its kept documents i of tokens_i * g(quality_i)) ** c

so each further good document of one domain is worth less than the one before where c < 1. Inside a domain the best come first;
over domains a concave program is left, solved to the last document: one price decides how far every domain is taken, and the
dual value at that price bounds every selection, whole documents or not. `regret` is the share of the bound that is missed.

    spread     c = 1/2, g = quality ** 2     the case to solve: neither all from the best domain nor the same of each quality
    skewed     as spread, but domains differ in quality: a threshold for the whole corpus starves most of them
    flat       c = 1/2, g = 1                quality means nothing: equal shares are best, whatever is taken inside
    linear     c = 1, g = quality ** 2       diversity means nothing: the best of the whole corpus is best

Ways: uniform; the best of the whole corpus; the best inside domains with shares in proportion, equal or tempered; draws with a
temperature of 0.5, 1 and 2; QuaDMix's curve with a cut (omega) of 0.05, 0.2 and 0.5, whose copies are worth nothing here; and
mixed: shares that the program finds from the domains' own curves of quality, given as a table, as `mix` gives it. The peer of
each is uniform. The integrality gap is what the bound lies above the whole documents that the program rounds to.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from measure import Record, options, report

from typecase.core.selection.decide import select
from typecase.core.selection.quadmix import Curve, QuadMix
from typecase.core.selection.selection import Budget, Policy, Pool

F64 = np.ndarray
DOMAINS = [(f"d{k:02d}",) for k in range(15)]
_ROUNDS = 200


@dataclass(frozen=True)
class World:
    """A corpus and what a selection of it is worth."""

    pool: Pool
    gain: F64
    power: float

    def worth(self, taken: F64) -> float:
        """Of how much of every document is taken, 0 to 1 or how many copies; copies beyond the first are worth nothing."""
        mass = np.bincount(self.pool.stratum, np.minimum(taken, 1) * self.gain * self.pool.amount, len(DOMAINS))
        return float((mass**self.power).sum())


def make_world(regime: str, rows: int, seed: int) -> World:
    dice = np.random.default_rng([7, seed])
    sizes = 1 / np.arange(1, len(DOMAINS) + 1)
    stratum = dice.choice(len(DOMAINS), rows, p=sizes / sizes.sum()).astype(np.int32)
    level = dice.uniform(2, 5, len(DOMAINS)) if regime == "skewed" else np.full(len(DOMAINS), 3.0)
    quality = dice.beta(level[stratum], 6 - level[stratum])
    ids = dice.integers(0, 256, (rows, 16), dtype=np.uint8)
    amount = dice.lognormal(6, 1, rows).astype(np.int64) + 1
    gain = np.ones(rows) if regime == "flat" else quality**2
    return World(Pool(ids, amount, stratum, quality), gain, 1.0 if regime == "linear" else 0.5)


@dataclass(frozen=True)
class Best:
    """The best selection: `shares` of tokens by domain, its value with parts of documents and of whole ones, and the bound."""

    shares: F64
    value: float
    whole: float
    bound: float


def best_of_world(world: World, budget: int) -> Best:
    """Bisection on the price of a token; `bound` is the Lagrangian dual there, which no selection exceeds."""
    order = np.lexsort((-world.gain, world.pool.stratum))
    starts = np.searchsorted(world.pool.stratum[order], np.arange(len(DOMAINS) + 1))
    tokens = [world.pool.amount[order[a:b]].astype(float) for a, b in itertools.pairwise(starts)]
    gains = [world.gain[order[a:b]] for a, b in itertools.pairwise(starts)]
    low, high = 0.0, 1e6
    for _ in range(_ROUNDS):
        price = (low + high) / 2
        if sum(_bought(t, g, world.power, price) for t, g in zip(tokens, gains, strict=True)) > budget:
            low = price
        else:
            high = price
    # at the price where the budget is met the last tokens are worth the price: the gap is theirs
    bought = np.array([_bought(t, g, world.power, high) for t, g in zip(tokens, gains, strict=True)])
    more = np.array([_bought(t, g, world.power, low) for t, g in zip(tokens, gains, strict=True)])
    if (more - bought).sum() > 0:
        bought = bought + (more - bought) * min(1.0, (budget - bought.sum()) / (more - bought).sum())
    value = sum(_value(t, g, world.power, b) for t, g, b in zip(tokens, gains, bought, strict=True))
    gained = sum(
        _value(t, g, world.power, b) - high * b
        for t, g, b in ((t, g, _bought(t, g, world.power, high)) for t, g in zip(tokens, gains, strict=True))
    )
    whole = sum(
        _value(t, g, world.power, float(np.cumsum(t)[np.searchsorted(np.cumsum(t), b, "right") - 1]) if b >= t[0] else 0.0)
        for t, g, b in zip(tokens, gains, bought, strict=True)
    )
    return Best(bought / bought.sum(), value, whole, gained + high * budget)


def _bought(tokens: F64, gain: F64, power: float, price: float) -> float:
    """Tokens of a domain, best first, whose next one is worth at least the price."""
    mass = np.concatenate(([0.0], np.cumsum(tokens * gain)))
    if power == 1.0:
        return float(tokens[gain > price].sum())
    # inside document i the next token is worth power * gain_i * m ** (power - 1), m the mass before it
    reach = (power * gain / price) ** (1 / (1 - power))
    part = np.clip((reach - mass[:-1]) / np.maximum(tokens * gain, 1e-300), 0, 1)
    return float((tokens * part).sum())


def _value(tokens: F64, gain: F64, power: float, bought: float) -> float:
    ends = np.cumsum(tokens)
    part = np.clip((bought - (ends - tokens)) / tokens, 0, 1)
    return float((tokens * gain * part).sum() ** power)


def ways(best: Best) -> dict[str, tuple[Policy, bool]]:
    """{name: (policy, whether domains are strata)}."""
    top = Policy(key="top_k", strata=("domain",))
    table = {name: share for (name,), share in zip(DOMAINS, best.shares, strict=True) if share > 0}
    found = {
        "best of the corpus": (replace(top, strata=()), False),
        "best inside, in proportion": (top, True),
        "best inside, tempered 0.5": (replace(top, quota="tempered", alpha=0.5), True),
        "best inside, equal": (replace(top, quota="equal"), True),
        "mixed": (replace(top, quota="table", table=table), True),
    }
    for tau in (0.5, 1.0, 2.0):
        found[f"drawn, temperature {tau:g}"] = (
            Policy(key="gumbel", temperature=tau, normalise="corpus", strata=("domain",)),
            True,
        )
    for omega in (0.05, 0.2, 0.5):
        curve = QuadMix(curve=Curve(steepness=100, depth=omega, exponent=1, floor=0.001))
        found[f"quadmix, omega {omega:g}"] = (
            Policy(key="uniform", quota="pool", quadmix=curve, epochs=3, strata=("domain",)),
            True,
        )
    return found


def regret(world: World, best: Best, budget: int, policy: Policy, *, by_domain: bool, seed: int) -> float:
    pool = world.pool if by_domain else replace(world.pool, stratum=np.zeros_like(world.pool.stratum))
    labels = DOMAINS if by_domain else [()]
    made = select(pool, labels, budget=Budget(tokens=budget), policy=policy, seed=seed)
    over = int((world.pool.amount * made.copies).sum()) / budget
    # a selection is cut behind the document that meets each quota: what is above the budget is taken off in proportion
    return 1 - world.worth(made.copies * made.kept) / max(1.0, over) ** world.power / best.bound


def measure(regime: str, share: float, rows: int, seeds: int) -> tuple[list[Record], str]:
    regrets: dict[str, list[float]] = {}
    gaps, dual = [], []
    for seed in range(seeds):
        world = make_world(regime, rows, seed)
        budget = int(world.pool.amount.sum() * share)
        best = best_of_world(world, budget)
        gaps.append(1 - best.whole / best.bound)
        dual.append(1 - best.value / best.bound)
        uniform = Policy(key="uniform", strata=("domain",))
        regrets.setdefault("uniform", []).append(regret(world, best, budget, uniform, by_domain=True, seed=seed))
        for name, (policy, by_domain) in ways(best).items():
            regrets.setdefault(name, []).append(regret(world, best, budget, policy, by_domain=by_domain, seed=seed))
    middle = {name: float(np.median(values)) for name, values in regrets.items()}
    records = [
        Record(f"{regime}, {share:.0%} kept: {name}", value, middle["uniform"], "regret", middle["uniform"] / max(value, 1e-6))
        for name, value in middle.items()
        if name != "uniform"
    ]
    note = f"{regime}, {share:.0%} kept: integrality gap {np.median(gaps):.1e}, program to its bound {max(dual):.1e}"
    return records, note


def main() -> None:
    args = options(__doc__)
    rows, seeds = (20_000, 2) if args.quick else (100_000, 5)
    records, notes = [], []
    for regime in ("spread", "skewed", "flat", "linear"):
        for share in (0.1,) if args.quick else (0.02, 0.1, 0.4):
            found, note = measure(regime, share, rows, seeds)
            records += found
            notes.append(note)
    report(records, as_json=args.json, notes=notes)


if __name__ == "__main__":
    main()
