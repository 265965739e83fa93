"""Which pairs to compare: neighbours, random pairs in which all items take part alike, or those that tell the most.

    neighbours   0-1 1-2 2-3 …        cheap, and documents of one source meet; the graph may fall apart
    random       shuffle, pair up, shuffle again …      every item takes part in as many pairs, one more or less
    telling      pairs whose outcome is open and whose scores are loose:  p (1 - p) (error₁² + error₂²)

The last is the information gain of one answer to second order: the drop of the posterior entropy of the difference, with
its variance taken as the sum of both (MacKay 1992, "Information-based objective functions"). Candidates are neighbours in the
order of the scores at distances up to `reach`, shuffled, and no item takes part more than `most` times in a round, so a
round has variety and a bad start is not dug in. Everything follows from the seed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


def neighbour_pairs(num_items: int, num_pairs: int) -> I64:
    """(pairs, 2): every item with the next one, then with the second next, … until there are enough or all."""
    rows: list[I64] = []
    left = num_pairs
    for step in range(1, num_items):
        first = np.arange(num_items - step)[:left]
        rows.append(np.column_stack([first, first + step]))
        left -= len(first)
        if left <= 0:
            break
    return np.concatenate(rows).astype(np.int64) if rows else np.zeros((0, 2), np.int64)


def random_pairs(num_items: int, num_pairs: int, *, seed: int) -> I64:
    """(pairs, 2): different random pairs, all items in about as many; fewer only where there are not so many pairs.

    Items are shuffled and paired off; who would meet the same item again waits for the next shuffle.
    """
    dice = np.random.default_rng(seed)
    there = num_items * (num_items - 1) // 2
    if num_pairs * 2 > there:
        return _some_of_all(num_items, min(num_pairs, there), dice)
    found = np.zeros((0, 2), np.int64)
    codes = np.zeros(0, np.int64)
    waiting = np.zeros(0, np.int64)
    while len(found) < num_pairs:
        queue = np.concatenate([waiting, dice.permutation(num_items)])
        pairs = queue[: len(queue) // 2 * 2].reshape(-1, 2)
        code = pairs.min(axis=1) * num_items + pairs.max(axis=1)
        fresh = np.zeros(len(pairs), np.bool_)
        fresh[np.unique(code, return_index=True)[1]] = True
        fresh &= (pairs[:, 0] != pairs[:, 1]) & ~np.isin(code, codes)
        found, codes = np.concatenate([found, pairs[fresh]]), np.concatenate([codes, code[fresh]])
        waiting = np.concatenate([pairs[~fresh].ravel(), queue[len(queue) // 2 * 2 :]])[: 2 * num_items]
    return found[:num_pairs]


def _some_of_all(num_items: int, num_pairs: int, dice: np.random.Generator) -> I64:
    """A draw from all pairs, each shown in a random order: for sets so small that most pairs are asked."""
    first, second = np.triu_indices(num_items, 1)
    pairs = np.column_stack([first, second]).astype(np.int64)[dice.permutation(len(first))[:num_pairs]]
    return np.where((dice.random(num_pairs) < 0.5)[:, None], pairs[:, ::-1], pairs)


def telling_pairs(
    scores: F64, errors: F64, num_pairs: int, *, seed: int, known: I64 | None = None, reach: int = 24, most: int = 2
) -> I64:
    """(at most num_pairs, 2): the pairs of which an answer tells the most; `known` pairs (rows, 2) are not asked again."""
    num_items = len(scores)
    dice = np.random.default_rng(seed)
    order = np.argsort(scores + 1e-9 * dice.random(num_items), kind="stable")
    steps = range(1, min(reach, num_items - 1) + 1)
    pairs = np.concatenate([np.column_stack([order[:-step], order[step:]]) for step in steps] or [np.zeros((0, 2), np.int64)])
    if known is not None and len(known):
        codes = np.sort(pairs, axis=1) @ np.array([num_items, 1])
        pairs = pairs[~np.isin(codes, np.sort(known, axis=1) @ np.array([num_items, 1]))]
    chance = 1 / (1 + np.exp(scores[pairs[:, 0]] - scores[pairs[:, 1]]))
    gain = chance * (1 - chance) * (errors[pairs[:, 0]] ** 2 + errors[pairs[:, 1]] ** 2)
    best = np.argsort(-gain * (0.5 + dice.random(len(pairs))), kind="stable")
    taken = _spread(pairs[best].tolist(), num_items, num_pairs, most)
    turned = dice.random(len(taken)) < 0.5
    return np.where(turned[:, None], taken[:, ::-1], taken)


def _spread(pairs: list[list[int]], num_items: int, num_pairs: int, most: int) -> I64:
    taken, used = [], [0] * num_items
    for first, second in pairs:
        if used[first] < most and used[second] < most:
            used[first] += 1
            used[second] += 1
            taken.append((first, second))
            if len(taken) == num_pairs:
                break
    return np.array(taken, np.int64).reshape(-1, 2)
