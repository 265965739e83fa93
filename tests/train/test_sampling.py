"""Which documents an epoch shows: rare levels more often, weights kept on the mean, sources balanced as DataMan did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.made import made_annotations
from typecase.errors import BadQuery
from typecase.train.sampling import RULES, aspects_of, dataman_rows, epoch_rows, even_weights, nearest_levels, systematic

weights_ = st.lists(st.floats(0.01, 20), min_size=1, max_size=40).map(lambda w: np.array(w) * len(w) / sum(w))


@given(weights_, st.integers(0, 2**32))
def test_a_document_is_shown_its_weight_rounded_down_or_up(weights: np.ndarray, seed: int) -> None:
    times = np.bincount(systematic(weights, seed=seed), minlength=len(weights))
    assert times.sum() == len(weights)
    assert (times >= np.floor(weights - 1e-9)).all() and (times <= np.ceil(weights + 1e-9)).all()


def test_on_the_mean_of_epochs_a_document_is_shown_its_weight() -> None:
    weights = np.array([0.2, 0.5, 1.3, 2.0, 1.0])
    times = sum(np.bincount(systematic(weights, seed=seed), minlength=5) for seed in range(4000)) / 4000
    np.testing.assert_allclose(times, weights, atol=0.03)


def test_without_a_cap_every_value_of_one_aspect_weighs_the_same() -> None:
    values = np.array([[1], [1], [1], [1], [1], [2], [2], [5]])
    weights = even_weights(values, cap=1e9)
    assert weights.mean() == pytest.approx(1)
    np.testing.assert_allclose([weights[:5].sum(), weights[5:7].sum(), weights[7:].sum()], 8 / 3)


@given(st.integers(0, 1000), st.floats(1, 6))
def test_no_document_weighs_more_than_the_cap(seed: int, cap: float) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (30, 3)) ** 2
    weights = even_weights(values, cap=cap)
    assert weights.max() <= cap * weights.min() * (1 + 1e-9)


def test_a_cap_below_one_is_refused() -> None:
    with pytest.raises(BadQuery, match="cap"):
        even_weights(np.array([[1]]), cap=0.5)


@pytest.mark.parametrize(
    ("high", "low", "added"),
    [(20, 3, 12), (7, 6, 0), (5, 0, 0), (11, 5, 4), (3, 14, 8)],  # 4 · min(⌊|high − low| / 5⌋, minority)
)
def test_datamans_rule_adds_minority_documents(high: int, low: int, added: int) -> None:
    summary = np.array([4.0] * high + [2.0] * low)
    rows = dataman_rows(summary, ["s"] * len(summary), middle=3, quotient=5, factor=4, seed=1)
    assert rows[: len(summary)].tolist() == list(range(len(summary)))
    more = rows[len(summary) :]
    assert len(more) == added
    assert all((summary[more] >= 3) == (high < low))


def test_datamans_rule_looks_at_each_source_by_itself() -> None:
    summary, sources = np.array([4.0] * 10 + [2.0] * 10), ["a"] * 10 + ["b"] * 10
    assert len(dataman_rows(summary, sources, middle=3, quotient=5, factor=4, seed=1)) == 20


def test_an_epoch_is_a_function_of_seed_and_epoch(tmp_path: Path) -> None:
    seeds = made_annotations(tmp_path / "made").documents
    for rule in RULES:
        drawn = [
            epoch_rows(seeds, rule, epoch=epoch, seed=seed, cap=5, quotient=2, factor=4).tolist()
            for epoch, seed in ((0, 1), (0, 1), (1, 1), (0, 2))
        ]
        assert drawn[0] == drawn[1] and drawn[0] != drawn[2] and drawn[0] != drawn[3]
        if rule != "even":
            assert set(drawn[0]) == set(range(len(seeds)))
    assert aspects_of(seeds).shape == (len(seeds), 3)


def test_halves_are_rounded_upwards() -> None:
    assert nearest_levels(np.array([2.4, 2.5, 3.5, 3.0])).tolist() == [2, 3, 4, 3]
