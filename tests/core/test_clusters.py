"""Clusters of equal content: the fast grouping is the dictionary one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.clusters import exact_clusters

CONTENT = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2))
SCORE = st.sampled_from([1.0, 2.0, 2.0, math.nan, -math.inf, math.inf])


@given(st.lists(st.tuples(CONTENT, SCORE), max_size=40))
def test_fast_equals_a_dictionary(rows: list[tuple[tuple[int, int, int], float]]) -> None:
    hi, lo = (np.array([r[0][i] for r in rows], np.uint64) for i in (0, 1))
    length, score = np.array([r[0][2] for r in rows], np.int64), np.array([r[1] for r in rows], np.float64)
    found = exact_clusters(hi, lo, length, score)
    groups: dict[tuple[int, int, int], list[int]] = {}
    for i, (content, _) in enumerate(rows):
        groups.setdefault(content, []).append(i)
    assert found.cluster.tolist() == [sorted(groups).index(content) for content, _ in rows]
    for c, content in enumerate(sorted(groups)):
        members = groups[content]
        best = max(members, key=lambda i: (-math.inf if math.isnan(score[i]) else score[i], -i))
        assert found.survivor[c] == best and found.size[c] == len(members)
    assert exact_clusters(hi, lo, length).survivor.tolist() == [min(groups[c]) for c in sorted(groups)]
