"""Principal axes: shares that sum to one, the known answer of simple matrices, constant columns apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from typecase.core.statistics.axes import principal_axes


def test_independent_columns_are_as_many_as_they_are() -> None:
    axes = principal_axes(np.eye(4))
    assert axes.shares.tolist() == [0.25] * 4 and axes.effective == pytest.approx(4)


def test_equal_columns_are_one() -> None:
    axes = principal_axes(np.ones((3, 3)))
    assert axes.shares[0] == pytest.approx(1) and axes.effective == pytest.approx(1)
    assert np.allclose(axes.loadings[:, 0], 1)


def test_two_columns_by_hand() -> None:
    """Of [[1, r], [r, 1]] the axes have shares (1 + r) / 2 and (1 - r) / 2."""
    axes = principal_axes(np.array([[1, 0.6], [0.6, 1]]))
    assert axes.shares.tolist() == pytest.approx([0.8, 0.2])
    assert axes.loadings[:, 0].tolist() == pytest.approx([math.sqrt(0.8)] * 2)


def test_loadings_rebuild_the_matrix() -> None:
    rng = np.random.default_rng(2)
    matrix = np.corrcoef(rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6)), rowvar=False)
    axes = principal_axes(matrix)
    assert np.allclose(axes.loadings @ axes.loadings.T, matrix) and axes.shares.sum() == pytest.approx(1)
    assert (np.diff(axes.shares) <= 0).all() and (axes.loadings.sum(axis=0) >= 0).all()


def test_constant_columns_take_no_part() -> None:
    matrix = np.full((3, 3), np.nan)
    matrix[np.ix_([0, 2], [0, 2])] = [[1, 0.2], [0.2, 1]]
    assert principal_axes(matrix).columns == (0, 2) and principal_axes(np.full((2, 2), np.nan)).columns == ()
