"""Scores out of comparisons (Bench-6): truth, place bias, noise of other forms, an adverse judge, and which pairs to ask.

    python benchmarks/bench_pairwise.py [--quick] [--json]

2,000 items with a true score; each pair is answered by 20 votes. The peer is choix (ilsr_pairwise_dense with alpha 0.01; it
knows no bias, no missing answer and no standard error) where it is installed, else a plain minorisation-maximisation loop in
numpy. `rho` is Spearman's with the truth, `s` seconds of one fit without standard errors. What is not against a peer stands
against our own plain fit: the same data without the bias term, without judges, or with other pairs.

The noise rows change the answers and not the model: votes that are a coin with chance 0.2, a normal and a Cauchy curve in
place of the logistic one. So the model is not tested on itself alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from measure import Record, best_of, cost, options, report

from typecase.core.judges import fit_judged
from typecase.core.learn.agreement import spearman
from typecase.core.pairing import neighbour_pairs, random_pairs, telling_pairs
from typecase.core.pairwise import Comparisons, fit_scores

VOTES = 20
BIAS = 0.4
SEED = 6
Curve = Callable[[np.ndarray], np.ndarray]


def logistic(odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-odds))


def normal(odds: np.ndarray) -> np.ndarray:
    """The normal curve of the logistic one's spread."""
    return np.array([0.5 * math.erfc(-x * math.sqrt(3) / math.pi / math.sqrt(2)) for x in odds])


def cauchy(odds: np.ndarray) -> np.ndarray:
    return 0.5 + np.arctan(odds) / math.pi


def lapsing(odds: np.ndarray) -> np.ndarray:
    return 0.8 * logistic(odds) + 0.1


def answers(truth: np.ndarray, pairs: np.ndarray, curve: Curve, dice: np.random.Generator, *, bias: float = 0.0) -> Comparisons:
    chance = curve(truth[pairs[:, 1]] - truth[pairs[:, 0]] + bias)
    return Comparisons.of(pairs[:, 0], pairs[:, 1], dice.binomial(VOTES, chance) / VOTES)


def peer_scores(rows: Comparisons, num_items: int) -> np.ndarray:
    """choix on a table of wins, or MM where it is missing."""
    wins = np.round(rows.chance * VOTES).astype(np.int64)
    if importlib.util.find_spec("choix") is not None:
        choix = importlib.import_module("choix")
        table = np.zeros((num_items, num_items))
        np.add.at(table, (rows.second, rows.first), wins)
        np.add.at(table, (rows.first, rows.second), VOTES - wins)
        found: np.ndarray = choix.ilsr_pairwise_dense(table, alpha=0.01)
        return found
    strength = np.ones(num_items)
    won = np.bincount(rows.second, wins, num_items) + np.bincount(rows.first, VOTES - wins, num_items) + 0.1
    for _ in range(300):
        share = VOTES / (strength[rows.first] + strength[rows.second])
        met = np.bincount(rows.first, share, num_items) + np.bincount(rows.second, share, num_items) + 0.2 / (1 + strength)
        strength = won / met
        strength /= np.exp(np.log(strength).mean())
    return np.log(strength)


def sizes(num_items: int, budgets: tuple[int, ...]) -> list[Record]:
    dice = np.random.default_rng(SEED)
    truth = dice.normal(0, 1, num_items)
    records = []
    for budget in budgets:
        rows = answers(truth, random_pairs(num_items, budget, seed=SEED), logistic, dice)
        fit_scores(rows, num_items, errors=False)
        ours_s, peer_s = best_of(
            [partial(fit_scores, rows, num_items, errors=False), partial(peer_scores, rows, num_items)],
            1,
        )
        found = fit_scores(rows, num_items, errors=False).scores, peer_scores(rows, num_items)
        rho, peer = (spearman(scores, truth) for scores in found)
        records.append(Record(f"{budget:,} comparisons", rho, peer, "rho", rho / peer))
        records.append(cost(f"{budget:,} comparisons", ours_s, peer_s, "s"))
    return records


def biased(num_items: int, budget: int) -> list[Record]:
    """Every pair in one order only, so that the bias does not cancel; some items are mostly shown second."""
    dice = np.random.default_rng(SEED + 1)
    truth = dice.normal(0, 1, num_items)
    pairs = random_pairs(num_items, budget, seed=SEED)
    order = dice.permutation(num_items)
    pairs = np.where((order[pairs[:, 0]] > order[pairs[:, 1]])[:, None], pairs[:, ::-1], pairs)
    rows = answers(truth, pairs, logistic, dice, bias=BIAS)
    with_it, without = (fit_scores(rows, num_items, with_bias=flag, errors=False) for flag in (True, False))
    rho = [spearman(found.scores, truth) for found in (with_it, without)]
    return [
        Record("place bias: recovered against true", with_it.bias, BIAS, "log-odds", with_it.bias / BIAS),
        Record("place bias: with the term against without", rho[0], rho[1], "rho", rho[0] / rho[1]),
    ]


def noisy(num_items: int, budget: int) -> list[Record]:
    records = []
    for name, curve in (("a coin in 5", lapsing), ("normal", normal), ("Cauchy", cauchy)):
        dice = np.random.default_rng(SEED + 2)
        truth = dice.normal(0, 1, num_items)
        rows = answers(truth, random_pairs(num_items, budget, seed=SEED), curve, dice)
        ours, peer = (
            spearman(s, truth) for s in (fit_scores(rows, num_items, errors=False).scores, peer_scores(rows, num_items))
        )
        records.append(Record(f"noise of another form: {name}", ours, peer, "rho", ours / peer))
    return records


def adverse(num_items: int, budget: int) -> list[Record]:
    """Five judges of one vote a pair; one says the opposite, one guesses."""
    dice = np.random.default_rng(SEED + 3)
    truth = dice.normal(0, 1, num_items)
    pairs = random_pairs(num_items, budget, seed=SEED)
    judge = dice.integers(0, 5, budget)
    slope = np.array([1.0, 1.0, 1.0, 0.0, -1.0])[judge]
    chance = logistic(slope * (truth[pairs[:, 1]] - truth[pairs[:, 0]]))
    rows = Comparisons.of(pairs[:, 0], pairs[:, 1], (dice.random(budget) < chance).astype(np.float64))
    judged, slopes = fit_judged(rows, judge, num_items, with_bias=False, errors=False)
    plain = fit_scores(rows, num_items, with_bias=False, errors=False)
    ours, peer = spearman(judged.scores, truth), spearman(plain.scores, truth)
    return [
        Record("an adverse and a guessing judge: weighed against plain", ours, peer, "rho", ours / peer),
        Record("slope of the adverse judge against a good one", float(slopes[4]), float(slopes[0]), "slope", float("nan")),
    ]


def chosen(num_items: int, budget: int, rounds: int) -> list[Record]:
    """The same number of answers to pairs that were chosen in rounds, at random, and among neighbours."""
    dice = np.random.default_rng(SEED + 4)
    truth = dice.normal(0, 1, num_items)
    pairs = random_pairs(num_items, budget // rounds, seed=SEED)
    rows = answers(truth, pairs, logistic, dice)
    for number in range(1, rounds):
        found = fit_scores(rows, num_items, with_bias=False)
        most = max(2, 4 * (budget // rounds) // num_items)
        more = telling_pairs(found.scores, found.errors, budget // rounds, seed=number, known=pairs, most=most)
        new = answers(truth, more, logistic, dice)
        pairs = np.concatenate([pairs, more])
        rows = Comparisons.of(pairs[:, 0], pairs[:, 1], np.concatenate([rows.chance, new.chance]))
    telling = spearman(fit_scores(rows, num_items, with_bias=False, errors=False).scores, truth)
    records = []
    others = {
        "random": random_pairs(num_items, len(pairs), seed=SEED + 1),
        "neighbours": neighbour_pairs(num_items, len(pairs)),
    }
    for name, other in others.items():
        rows = answers(truth, other, logistic, dice)
        rho = spearman(fit_scores(rows, num_items, with_bias=False, errors=False).scores, truth)
        records.append(Record(f"{len(pairs):,} telling pairs against {name} ones", telling, rho, "rho", telling / rho))
    return records


def calibrated(num_items: int, budget: int) -> list[Record]:
    """One vote a pair: misses over standard errors should spread by 1."""
    dice = np.random.default_rng(SEED + 5)
    truth = dice.normal(0, 1, num_items)
    pairs = random_pairs(num_items, budget, seed=SEED)
    chance = logistic(truth[pairs[:, 1]] - truth[pairs[:, 0]])
    rows = Comparisons.of(pairs[:, 0], pairs[:, 1], (dice.random(budget) < chance).astype(np.float64))
    found = fit_scores(rows, num_items, with_bias=False)
    spread = float(((found.scores - truth + truth.mean()) / found.errors).std())
    return [Record("misses over standard errors, against 1", spread, 1.0, "spread", spread)]


def main() -> None:
    args = options(__doc__)
    num_items, budgets = (400, (800, 4000)) if args.quick else (2000, (4000, 20_000, 60_000))
    middle = budgets[1]
    records = [
        *sizes(num_items, budgets),
        *biased(num_items, middle),
        *noisy(num_items, middle),
        *adverse(num_items, 2 * middle),
        *chosen(num_items, budgets[0] * 2, 4),
        *calibrated(num_items, middle),
    ]
    report(records, as_json=args.json)


if __name__ == "__main__":
    main()
