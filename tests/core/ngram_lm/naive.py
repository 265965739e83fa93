"""Modified Kneser-Ney as the paper has it, with dictionaries: slow, and plain enough to be believed."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from typecase.core.suffix.kneser_ney import Discounts, fitted

START = "<s>"


class NaiveModel:
    """p(symbol | those before) from texts as lists of symbols; unseen symbols get what `base(symbol)` is of the rest."""

    def __init__(self, texts: Sequence[Sequence[str]], order: int) -> None:
        self.order = order
        raw: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(order + 1)]
        for text in texts:
            padded = [START] * (order - 1) + list(text)
            for end in range(order - 1, len(padded)):
                for size in range(1, order + 1):
                    raw[size][tuple(padded[end - size + 1 : end + 1])] += 1
        self.counts: list[dict[tuple[str, ...], int]] = [{} for _ in range(order + 1)]
        self.counts[order] = dict(raw[order])
        for size in range(order - 1, 0, -1):
            before: dict[tuple[str, ...], set[str]] = defaultdict(set)
            for gram in self.counts[size + 1]:
                before[gram[1:]].add(gram[0])
            self.counts[size] = {g: raw[size][g] if g[0] == START else len(found) for g, found in before.items()}
        self.discounts = [Discounts(0, 0, 0)]
        for size in range(1, order + 1):
            times = Counter(self.counts[size].values())
            self.discounts.append(fitted(np.array([times[k] for k in range(5)], np.int64)))
        self.following: list[dict[tuple[str, ...], dict[str, int]]] = [defaultdict(dict) for _ in range(order + 1)]
        for size in range(1, order + 1):
            for gram, number in self.counts[size].items():
                self.following[size][gram[:-1]][gram[-1]] = number

    def chance(self, context: tuple[str, ...], symbol: str, base: float) -> float:
        """Interpolated all the way down to `base`, the chance of the symbol where nothing is known."""
        size = len(context) + 1
        below = base if size == 1 else self.chance(context[1:], symbol, base)
        here = self.following[size].get(context)
        if not here:
            return below
        discounts, total = self.discounts[size], sum(here.values())
        taken = {s: float(discounts.of(np.array([n]))[0]) for s, n in here.items()}
        own = (here[symbol] - taken[symbol]) / total if symbol in here else 0.0
        return own + sum(taken.values()) / total * below

    def nats(self, text: Sequence[str], base: float) -> float:
        """Minus ln of the chance of a text."""
        padded = (START,) * (self.order - 1) + tuple(text)
        return -sum(
            math.log(self.chance(padded[end - self.order + 1 : end], padded[end], base))
            for end in range(self.order - 1, len(padded))
        )
