"""Mixing on synthetic worlds whose best mix is known: how good are mixes proposed from proxy runs?

    python benchmarks/bench_mixing.py [--quick] [--json] [--regmix FOLDER]

    loglinear     losses follow the law that is fitted: 12 domains, 6 targets
    interacting   they do not: products of pairs of shares act as well, so the law is wrong
    face          most targets need the same few domains: the best mix lies on a face of the simplex
    capped        supply is short: caps on repeats are active at the best mix, three domains are tiny

Regret is the true mean loss of the proposed mix above that of the best allowed one, as a share of what the even allowed mix
loses (0 is the best, 1 no better than even). Each world is drawn several times. Beside the law: ridge on [w, sqrt w, log w]
(the best of 4,000 allowed mixes drawn), own share (targets' own domains in equal parts, as far as supply allows) and the even
mix. Noise is in units of the standard deviation of a target's losses over mixes. `rho` is the rank correlation with the true
mean loss over fresh mixes.

`--regmix` names a folder with the released tables of RegMix (train_mixture_1m.csv, train_pile_loss_1m.csv, test_mixture_1B.csv,
test_pile_loss_1B.csv, test_mixture_60m.csv, test_pile_loss_60m.csv); without it, that part is left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measure import Record, options, report

from typecase.app.mix.runs import Table, read_runs
from typecase.core.learn.agreement import spearman
from typecase.core.mixing.judging import fit_ridge, own_domain
from typecase.core.mixing.law import Law, fit_law
from typecase.core.mixing.proposer import objective, propose
from typecase.core.mixing.reuse import tie
from typecase.core.mixing.simplex import bounds_of, middle, nearest_shape, whole_tokens
from typecase.core.mixing.swarm import Swarm, draw_swarm
from typecase.errors import FixInput

F64 = np.ndarray
DOMAINS, TARGETS = 12, 6
BUDGET = 10**9


@dataclass(frozen=True)
class World:
    """True losses (mixes, targets) of mixes, and the bounds of the real run."""

    truth: Callable[[F64], F64]
    low: F64
    high: F64
    have: dict[str, int]

    def mean(self, mixes: F64) -> F64:
        return self.truth(np.atleast_2d(mixes)).mean(axis=1)


def make_world(kind: str, seed: int, domains: int = DOMAINS, targets: int = TARGETS) -> World:
    dice = np.random.default_rng(seed)
    slope = dice.normal(0, 0.5, (targets, domains))
    slope[np.arange(targets), np.arange(targets)] -= dice.uniform(1.5, 3, targets)
    floor = dice.uniform(1, 3, targets)
    if kind == "face":
        slope[:, 2:] += 1.0
        slope[:, :2] -= 1.5
    pairs = dice.normal(0, 1.5, (targets, domains, domains)) if kind == "interacting" else np.zeros((targets, domains, domains))
    supply = np.full(domains, 10**9)
    if kind == "capped":
        supply = (dice.exponential(0.06, domains) * BUDGET).astype(np.int64) + 10**5
        supply[-3:], supply[-4] = 10**5, BUDGET
    names = [f"d{k:02d}" for k in range(domains)]
    have = dict(zip(names, supply.tolist(), strict=True))
    low, high = bounds_of(names, BUDGET, available=have, repeats=4).shares

    def truth(w: F64) -> F64:
        return floor + np.exp(w @ slope.T + np.einsum("nk,jkl,nl->nj", w, pairs, w))

    return World(truth, low, high, have)


def allowed(shapes: F64, world: World) -> F64:
    """Each row as clip(s * row, low, high) with sum 1: what `nearest_shape` does, for many rows at once."""
    bottom, top = np.zeros((len(shapes), 1)), np.full((len(shapes), 1), 1e6)
    shapes = np.maximum(shapes, 1e-9)
    for _ in range(70):
        half = np.sqrt(np.maximum(bottom, 1e-3) * top)
        under = np.clip(half * shapes, world.low, world.high).sum(axis=1, keepdims=True) < 1
        bottom, top = np.where(under, half, bottom), np.where(under, top, half)
    mixes = np.clip(top * shapes, world.low, world.high)
    return mixes[np.abs(mixes.sum(axis=1) - 1) < 1e-6]


def best_of_world(world: World, kind: str, dice: np.random.Generator) -> float:
    """The true mean loss of the best allowed mix: exact where the world is convex, else by descent from many mixes."""
    if kind != "interacting":
        # the world's own slopes, read off its logarithm at the corners
        corners = np.eye(len(world.low))
        base = world.truth(np.full((1, len(world.low)), 1 / len(world.low)))
        slopes, floors = _slopes(world, corners, base)
        made = propose(objective(slopes, importance=np.full(len(floors), 1 / len(floors))), world.low, world.high)
        return float(world.mean(made.mix)[0])
    starts = dice.dirichlet(np.full(len(world.low), 0.3), 6000)
    starts = allowed(starts, world)
    tops = starts[np.argsort(world.mean(starts))[:8]]
    return min(_descend(world, w) for w in tops[:3])


def _slopes(world: World, corners: F64, base: F64) -> tuple[F64, F64]:
    """The law behind a log-linear world, from noiseless values at the corners: floors by root, slopes by logarithm."""
    points = np.vstack([corners, np.random.default_rng(0).dirichlet(np.ones(len(corners)), 200)])
    law = fit_law(points, world.truth(points), damping=1e-12)
    return law.slope, law.floor


def _descend(world: World, w: F64) -> float:
    """Pairwise moves of shrinking size: no derivative, no law."""
    value, size = float(world.mean(w)[0]), 0.1
    while size > 5e-4:
        moves = []
        for i in range(len(w)):
            for j in range(len(w)):
                step = min(size, w[i] - world.low[i], world.high[j] - w[j])
                if i != j and step > 0:
                    moved = w.copy()
                    moved[i] -= step
                    moved[j] += step
                    moves.append(moved)
        losses = world.mean(np.array(moves))
        at = int(losses.argmin())
        if losses[at] < value - 1e-7:
            w, value = moves[at], float(losses[at])
        else:
            size /= 2
    return value


def proxies(world: World, count: int, noise: float, seed: int) -> tuple[F64, F64]:
    drawn = draw_swarm(world.have, count, settings=Swarm(budget=BUDGET // 50, strengths=(1.0, 30.0, 15)), seed=seed)
    losses = world.truth(drawn)
    scale = losses.std(axis=0)
    return drawn, losses + noise * scale * np.random.default_rng(seed + 1).normal(size=losses.shape)


def by_law(law: Law, world: World) -> F64:
    return propose(objective(law.slope), world.low, world.high).mix


def regrets(kind: str, count: int, noise: float, seeds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {
        name: [] for name in ("law", "ridge", "own share", "rho law", "rho ridge", "rho own share")
    }
    for seed in range(seeds):
        world = make_world(kind, seed)
        dice = np.random.default_rng(seed + 99)
        best = best_of_world(world, kind, dice)
        even = float(world.mean(nearest_shape(np.ones(DOMAINS), world.low, world.high))[0])
        w, y = proxies(world, count, noise, seed * 7 + 1)
        law, ridge = fit_law(w, y), fit_ridge(w, y)
        own = np.where(np.arange(DOMAINS) < TARGETS, 1.0, 0.0)
        tried = allowed(dice.dirichlet(np.full(DOMAINS, 0.5), 4000), world)
        mixes = {
            "law": by_law(law, world),
            "ridge": tried[ridge(tried).mean(axis=1).argmin()],
            "own share": nearest_shape(own, world.low, world.high),
        }
        for name, mix in mixes.items():
            found[name].append((float(world.mean(mix)[0]) - best) / (even - best))
        fresh = dice.dirichlet(np.full(DOMAINS, 0.7), 300)
        true = world.mean(fresh)
        found["rho law"].append(spearman(law.predict(fresh).mean(axis=1), true))
        found["rho ridge"].append(spearman(ridge(fresh).mean(axis=1), true))
        found["rho own share"].append(spearman(-fresh[:, :TARGETS].sum(axis=1), true))
    return found


def reuse(seeds: int, noise: float) -> dict[str, float]:
    """1 of 20 domains changes: a new law on few proxies that keep the other ratios, beside a full new swarm."""
    figures: dict[str, list[float]] = {name: [] for name in ("stale", "reused", "afresh", "reused proxies", "afresh proxies")}
    for seed in range(seeds):
        world = make_world("loglinear", seed, 20, 8)
        full_w, full_y = proxies(world, 80, noise, seed)
        old = by_law(fit_law(full_w, full_y), world)
        shift = np.random.default_rng(seed + 5).normal(0, 1.5, 8)
        changed = int(np.random.default_rng(seed).integers(8))

        def truth(w: F64, old_truth: Callable[[F64], F64] = world.truth, k: int = changed, by: F64 = shift) -> F64:
            losses = old_truth(w)
            return losses + 0.4 * (np.exp(by * w[:, k : k + 1]) - 1)

        new = World(truth, world.low, world.high, world.have)
        tied = tie(list(world.have), old, {f"d{changed:02d}"})
        few = draw_swarm(world.have, 12, settings=Swarm(strengths=(1.0, 30.0, 15)), seed=seed + 1, tied=tied)
        dice = np.random.default_rng(seed + 2)
        few_y = truth(few) + noise * full_y.std(axis=0) * dice.normal(size=(12, 8))
        # in the two variables of the tie, so that the small swarm determines the law
        small = fit_law(few @ np.linalg.pinv(tied), few_y)
        step = propose(objective(small.slope), *_tied_bounds(tied, new)).mix @ tied
        again_w = draw_swarm(world.have, 80, settings=Swarm(strengths=(1.0, 30.0, 15)), seed=seed + 3)
        again = by_law(fit_law(again_w, truth(again_w) + noise * full_y.std(axis=0) * dice.normal(size=(80, 8))), new)
        points = np.array([_descend(new, again), _descend(new, step)])
        best, even = points.min(), float(new.mean(middle(new.low, new.high))[0])
        for name, mix in (("stale", old), ("reused", step), ("afresh", again)):
            figures[name].append((float(new.mean(mix)[0]) - best) / (even - best))
        figures["reused proxies"].append(12)
        figures["afresh proxies"].append(80)
    return {name: float(np.median(values)) for name, values in figures.items()}


def _tied_bounds(tied: F64, world: World) -> tuple[F64, F64]:
    inside = tied[0] > 0
    top = min(1.0, float((world.high[inside] / tied[0][inside]).min()))
    return np.array([0.0, 0.0]), np.array([top, float(world.high[tied[1].argmax()])])


def violations(cases: int) -> tuple[int, int, float, float]:
    """(broken bounds, impossible inputs not named, worst relative gap, ms a proposal) over random problems."""
    broken = silent = 0
    worst = spent = 0.0
    for seed in range(cases):
        dice = np.random.default_rng(seed)
        k = int(dice.integers(2, 40))
        names = [f"d{i}" for i in range(k)]
        supply = (dice.exponential(0.5 / k, k) * BUDGET).astype(np.int64) + 1
        floors = {n: float(f) for n, f in zip(names, dice.uniform(0, 0.5 / k, k), strict=True)} if seed % 2 else {}
        top = np.minimum(4 * supply, BUDGET)
        least = np.ceil(np.array([floors.get(n, 0) for n in names]) * BUDGET)
        possible = (least <= top).all() and least.sum() <= BUDGET <= top.sum()
        try:
            bounds = bounds_of(names, BUDGET, available=dict(zip(names, supply.tolist(), strict=True)), floors=floors)
        except FixInput:
            silent += bool(possible)
            continue
        silent += not possible
        goal = objective(dice.normal(0, 2, (5, k)), nearness=[0, 0.05][seed % 2], prior=dice.dirichlet(np.ones(k)) + 1e-6)
        begin = time.perf_counter()
        made = propose(goal, *bounds.shares)
        spent += time.perf_counter() - begin
        tokens = whole_tokens(made.mix, bounds)
        inside = all(a <= t <= b for a, t, b in zip(bounds.low, tokens, bounds.high, strict=True))
        broken += not inside or sum(tokens) != BUDGET
        worst = max(worst, made.gap / abs(made.value))
    return broken, silent, worst, 1000 * spent / cases


def analytic_gap() -> float:
    """Largest difference between the proposed shares of four domains and the exact ones.

    Loss sum of exp(-a_d w_d): equal slopes a_d exp(-a_d w_d) = exp(-m) give w_d = (log(a_d) + m) / a_d; the sum of 1 gives m.
    All four are above zero, so no bound acts. Quality with diversity has a benchmark of its own: bench_diversity.py.
    """
    a = np.array([4.0, 5.0, 6.0, 8.0])
    m = (1 - (np.log(a) / a).sum()) / (1 / a).sum()
    exact = np.log(a) / a + m / a
    found = propose(objective(-np.diag(a)), np.zeros(4), np.ones(4)).mix
    return float(np.abs(found - exact).max())


def regmix(folder: Path) -> list[Record]:
    """Fitted on the 512 small runs alone; rank correlation on larger ones for each of their targets, own share beside it."""
    runs = read_runs(Table(folder / "train_mixture_1m.csv", folder / "train_pile_loss_1m.csv"))
    law = fit_law(runs.mixes, runs.losses)
    records = []
    for size in ("60m", "1B"):
        larger = read_runs(Table(folder / f"test_mixture_{size}.csv", folder / f"test_pile_loss_{size}.csv"))
        mixes = larger.mixes[:, [larger.domains.index(name) for name in runs.domains]]
        said = law.predict(mixes)
        for k, target in enumerate(larger.targets):
            rho = spearman(said[:, runs.targets.index(target)], larger.losses[:, k])
            own = own_domain(target, runs.domains)
            trivial = float("nan") if own is None else spearman(-mixes[:, own], larger.losses[:, k])
            records.append(Record(f"RegMix {target} {size}, peer own share", rho, trivial, "rho", rho / trivial))
    return records


def main() -> None:
    asked = options(__doc__, regmix="")
    seeds = 3 if asked.quick else 8
    counts = (24, 96) if asked.quick else (24, 48, 96, 192)
    records: list[Record] = []
    for kind in ("loglinear", "interacting", "face", "capped"):
        for noise in (0.0, 0.1, 0.5):
            for count in counts if noise == 0.1 else (96,):
                found = {name: float(np.median(values)) for name, values in regrets(kind, count, noise, seeds).items()}
                tag = f"{kind}, {count} proxies, noise {noise:g}"
                for peer in ("ridge", "own share"):
                    records.append(_less(f"regret {tag}, peer {peer}", found["law"], found[peer]))
                rho, own, ridge = found["rho law"], found["rho own share"], found["rho ridge"]
                records.append(Record(f"rho {tag}, peer ridge", rho, ridge, "rho", rho / max(ridge, 1e-9)))
                records.append(Record(f"rho {tag}, peer own share", rho, own, "rho", rho / max(own, 1e-9)))
    again = reuse(seeds, 0.1)
    records.append(_less("1 of 20 domains changed: regret reused, peer afresh", again["reused"], again["afresh"]))
    records.append(_less("1 of 20 domains changed: regret reused, peer the old mix", again["reused"], again["stale"]))
    records.append(_less("1 of 20 domains changed: new proxies", again["reused proxies"], again["afresh proxies"], "runs"))
    broken, silent, worst, ms = violations(60 if asked.quick else 400)
    notes = [
        f"random problems: {broken} bounds broken, {silent} impossible inputs not named, worst relative gap {worst:.1e}, "
        f"{ms:.1f} ms a proposal",
        f"analytic optimum of four domains met to {analytic_gap():.1e}",
        "regret: 0 the best allowed mix, 1 no better than even; medians over worlds",
    ]
    if asked.regmix:
        records += regmix(Path(asked.regmix))
    else:
        notes.append("RegMix's released tables: not given (--regmix FOLDER)")
    if asked.json:
        print("\n".join(notes), file=sys.stderr)
    report(records, as_json=asked.json, notes=notes)


def _less(name: str, ours: float, peer: float, unit: str = "regret") -> Record:
    return Record(name, ours, peer, unit, peer / max(ours, 1e-6))


if __name__ == "__main__":
    main()
