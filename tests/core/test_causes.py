"""Causes: average linkage as SciPy has it, independent of order; correlations by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.causes import average_linkage, cluster, component_shares, correlations, phrase_vectors
from typecase.errors import BadQuery

PHRASES = [
    "many spelling mistakes", "cookie consent banner", "spelling mistakes in most words", "Repeated cookie banner",
    "navigation menu of a website", "misspelled words; spelling mistakes", "website navigation menu", "many spelling mistakes",
]  # fmt: skip


def partition(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in set(labels.tolist())}


@settings(max_examples=40)
@given(st.integers(1, 25), st.integers(0, 10_000), st.floats(0.05, 0.95))
def test_average_linkage_is_scipys(num: int, seed: int, closeness: float) -> None:
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    points = np.random.default_rng(seed).random((num, 4))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    likeness = np.clip(points @ points.T, 0, 1)
    ours = average_linkage(likeness.astype(np.float32), np.ones(num), closeness)
    if num == 1:
        assert ours.tolist() == [0]
        return
    distance = (1 - likeness)[np.triu_indices(num, 1)]
    theirs = hierarchy.fcluster(hierarchy.linkage(distance, "average"), 1 - closeness, "distance")
    assert partition(ours) == partition(theirs)


def test_weights_are_repeated_points() -> None:
    likeness = np.array([[1, 0.9, 0.2], [0.9, 1, 0.62], [0.2, 0.62, 1]], np.float32)
    assert partition(average_linkage(likeness, np.array([1.0, 1, 1]), 0.45)) == {frozenset({0, 1}), frozenset({2})}
    assert partition(average_linkage(likeness, np.array([1.0, 3, 1]), 0.45)) == {frozenset({0, 1, 2})}


def test_phrases_of_one_meaning_come_together_in_any_order() -> None:
    found = cluster(PHRASES)
    assert [one.members for one in found] == [(0, 2, 5, 7), (1, 3), (4, 6)]
    assert found[0].centre == "many spelling mistakes"
    order = np.random.default_rng(1).permutation(len(PHRASES))
    again = cluster([PHRASES[k] for k in order])
    assert {frozenset(int(order[m]) for m in one.members) for one in again} == {frozenset(one.members) for one in found}


def test_nothing_and_nonsense() -> None:
    assert cluster([]) == ()
    assert len(cluster(["…", "!!", "the of"])) == 2  # no word to go by: alone, equal ones together
    with pytest.raises(BadQuery):
        cluster(["a"], closeness=0)
    with pytest.raises(BadQuery):
        cluster([f"phrase {k}" for k in range(5000)])


def test_vectors_have_length_one() -> None:
    vectors = phrase_vectors(["spelling", "cookie banner", "the"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 0], atol=1e-6)


def test_correlations_and_components() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(50, 4))
    columns[:, 2] = 3.0
    columns[:, 3] = -2 * columns[:, 0]
    found = correlations(columns)
    assert found[0, 1] == pytest.approx(np.corrcoef(columns[:, 0], columns[:, 1])[0, 1])
    assert found[0, 3] == pytest.approx(-1) and np.isnan(found[2]).all()
    shares = component_shares(found)
    assert (
        len(shares) == 3 and shares.sum() == pytest.approx(1) and shares[0] > 0.6 and shares[-1] == pytest.approx(0, abs=1e-9)
    )
    assert component_shares(correlations(np.zeros((3, 2)))).tolist() == []
