"""Kneser-Ney: equal to the textbook written out with dictionaries; probabilities add up to one."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.index.naive import Naive, build, corpora
from typecase.core.suffix.kneser_ney import Discounts, fitted
from typecase.errors import BadQuery
from typecase.store.index.smoothing import KneserNey

few = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)


class Literal:
    """The definition of Chen and Goodman, word by word."""

    def __init__(self, naive: Naive, order: int) -> None:
        self.order, self.vocabulary = order, sorted(set(naive.text))
        self.counts: list[dict[tuple[int, ...], int]] = []
        for n in range(1, order + 1):
            if n == order:
                self.counts.append(dict(naive.ngrams(n)))
                continue
            before = defaultdict(set)
            for doc in naive.docs:
                for i in range(len(doc) - n + 1):
                    before[tuple(doc[i : i + n])].add(doc[i - 1] if i else "start")
            self.counts.append({gram: len(who) for gram, who in before.items()})
        self.discounts = [self.fit(list(counts.values())) for counts in self.counts]

    @staticmethod
    def fit(counts: list[int]) -> list[float]:
        n = [counts.count(k) for k in range(5)]
        if min(n[1:]) > 0:
            y = n[1] / (n[1] + 2 * n[2])
            d = [1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
            if all(0 <= x <= k + 1 for k, x in enumerate(d)):
                return [0.0, *d]
        return [0.0, 0.5, 1.0, 1.5]

    def prob(self, context: list[int], token: int) -> float:
        context = context[max(0, len(context) - self.order + 1) :]
        counts, discounts = self.counts[len(context)], self.discounts[len(context)]
        lower = self.prob(context[1:], token) if context else 1 / len(self.vocabulary)
        follow = {g[-1]: c for g, c in counts.items() if list(g[:-1]) == context}
        if not follow:
            return lower
        total = sum(follow.values())
        own = max(follow[token] - discounts[min(3, follow[token])], 0) if token in follow else 0.0
        left = sum(discounts[min(3, c)] for c in follow.values()) / total
        return own / total + left * lower


@few
@given(data=st.data())
def test_equal_to_the_definition(data: st.DataObject) -> None:
    docs = data.draw(corpora(9, max_docs=8).filter(lambda docs: any(docs)))
    naive = Naive(docs)
    order = data.draw(st.integers(1, 4))
    literal = Literal(naive, order)
    with tempfile.TemporaryDirectory() as folder:
        index = build(Path(folder), docs, shard_tokens=data.draw(st.sampled_from([None, 4, 12])))
        model = index.kneser_ney(order)
        for k in range(order):
            assert np.allclose(
                [model.discounts[k].one, model.discounts[k].two, model.discounts[k].more], literal.discounts[k][1:]
            )
        for _ in range(6):
            context = data.draw(st.lists(st.sampled_from(naive.text), max_size=5))
            probs = model.probs(context)
            assert np.isclose(probs.sum(), 1.0)
            assert np.allclose(probs, [literal.prob(context, t) for t in literal.vocabulary])
            assert np.isclose(model.prob(context, literal.vocabulary[0]), probs[0])


def test_discounts_are_fitted() -> None:
    assert fitted(np.array([0, 40, 20, 10, 5, 99])) == Discounts(0.5, 1.25, 2.0)
    assert fitted(np.array([0, 4, 0, 1, 1, 9])) == Discounts(0.5, 1.0, 1.5)


def test_a_larger_vocabulary_shares_the_bottom(tmp_path: Path) -> None:
    model = build(tmp_path, [[1, 2, 3, 1, 2]]).kneser_ney(2, vocab_size=10)
    seen = model.probs([1]).sum()
    assert 0 < model.prob([1], 9) < 0.2 and np.isclose(seen + 7 * model.prob([1], 9), 1.0)
    with pytest.raises(BadQuery, match="does not hold id 3"):
        model.index.kneser_ney(2, vocab_size=3)
    with pytest.raises(BadQuery, match="1 or more"):
        model.index.kneser_ney(0)
    with pytest.raises(BadQuery, match="no token 10"):
        model.prob([1], 10)


def test_samples_are_seeded_and_follow_the_probabilities(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    docs = [rng.integers(0, 5, 30).tolist() for _ in range(10)]
    model: KneserNey = build(tmp_path, docs, shard_tokens=100).kneser_ney(3)
    drawn = model.sample([1, 2], num_tokens=1, num_samples=4000, seed=5)
    assert [d.tolist() for d in drawn[:9]] == [d.tolist() for d in model.sample([1, 2], num_tokens=1, num_samples=9, seed=5)]
    shares = np.bincount([d[2] for d in drawn], minlength=5) / 4000
    assert np.abs(shares - model.probs([1, 2])).max() < 0.04
    assert len(model.sample([7, 7], num_tokens=20)[0]) == 22
