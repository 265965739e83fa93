"""Pair sums: equal to numpy on the rows that have both, exact in any order and any division into blocks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from typecase.core.statistics.pairs import Grid, PairSums

GRID = Grid(1, 5)
SCORES = arrays.arrays(
    np.float64,
    st.tuples(st.integers(2, 30), st.integers(1, 5)),
    elements=st.one_of(st.floats(1, 5), st.sampled_from([math.nan, 1.0, 3.0, 5.0])),
)


def sums_of(scores: np.ndarray, grid: Grid = GRID) -> PairSums:
    return PairSums.of(grid, grid.whole(scores))


@given(SCORES)
def test_the_same_as_numpy_on_rows_that_have_both(scores: np.ndarray) -> None:
    sums, near = sums_of(scores), np.rint((scores - 3) * 2**16) / 2**16 + 3
    for i, j in itertools.product(range(scores.shape[1]), repeat=2):
        both = np.isfinite(near[:, i]) & np.isfinite(near[:, j])
        x, y = near[both, i], near[both, j]
        assert sums.count[i, j] == both.sum()
        if i == j and len(x):
            assert sums.mean(i) == pytest.approx(x.mean()) and sums.variance(i) == pytest.approx(x.var(), abs=1e-12)
        if len(x) and x.std() > 1e-4 and y.std() > 1e-4:
            assert sums.pearson(i, j) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-7)
        elif not len(x) or len(set(x)) == 1 or len(set(y)) == 1:
            assert math.isnan(sums.pearson(i, j))


@given(SCORES, st.integers(0, 30), st.randoms(use_true_random=False))
def test_shards_in_any_order_give_the_same_bits(scores: np.ndarray, cut: int, random: object) -> None:
    whole = sums_of(scores)
    shuffled = np.random.default_rng(cut).permutation(len(scores))
    parts = [sums_of(scores[shuffled[:cut]]), sums_of(scores[shuffled[cut:]])]
    merged = parts[1] + parts[0]
    for name in ("count", "total", "square", "product"):
        assert (getattr(merged, name) == getattr(whole, name)).all()
    assert np.array_equal(merged.correlation(), whole.correlation(), equal_nan=True)


def test_a_score_off_the_scale_is_missing_and_not_clipped() -> None:
    whole = GRID.whole(np.array([0.0, 0.99, 1.0, 5.0, 5.01, 6.0, math.inf, -math.inf, math.nan]))
    assert np.isfinite(whole).tolist() == [False, False, True, True, False, False, False, False, False]
    assert whole[2:4].tolist() == [-(2**17), 2**17]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 5), (0, 5), (1, 10), (-3, 100)])
def test_any_scale_stays_within_the_bound_that_makes_sums_exact(low: int, high: int) -> None:
    grid = Grid(low, high)
    ends = grid.whole(np.array([float(low), float(high)]))
    assert np.abs(ends).max() <= 2**17 and np.abs(ends).max() > 2**15
    assert [float(grid.middle + grid.unit * int(v)) for v in ends] == [low, high]


def test_more_rows_than_a_block_add_up_to_the_last_unit() -> None:
    rows = (1 << 18) + 5
    sums = sums_of(np.full((rows, 1), 5.0))
    assert sums.product[0, 0] == rows * 2**34 and sums.mean(0) == 5.0 and sums.variance(0) == 0.0


def test_sums_on_two_scales_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="do not add up"):
        sums_of(np.ones((1, 1))) + sums_of(np.ones((1, 1)), Grid(0, 5))
