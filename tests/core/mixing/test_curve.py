"""Curves: ranks, and expected tokens against a sum over documents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.mixing.curve import Ranked, curve_mix, expected_tokens, mean_copies, merged_quality, rank_of, ranked
from typecase.core.selection.quadmix import Curve, expected_copies
from typecase.errors import FixInput

CURVES = st.builds(Curve, st.floats(0, 1000), st.floats(0, 1), st.floats(0, 3), st.floats(0, 1))


def test_ranks_are_token_weighted_and_ties_share() -> None:
    ranks = rank_of(np.array([1.0, 3.0, 3.0, 2.0]), np.array([10.0, 20.0, 20.0, 50.0]))
    assert ranks == pytest.approx([0.95, 0.2, 0.2, 0.65])
    both = merged_quality([[1, 9], [2, 8]], [1, 1], [1.0, 3.0])
    assert both == pytest.approx([0.25 + 3 * 0.75, 0.75 + 3 * 0.25])


@settings(max_examples=40)
@given(CURVES, st.floats(0.2, 5), st.integers(0, 1000))
def test_the_integral_equals_a_fine_sum(curve: Curve, cap: float, seed: int) -> None:
    dice = np.random.default_rng(seed)
    domain = ranked(("d",), dice.integers(0, 30, 200), dice.integers(1, 500, 200), bins=16)
    grid = (np.arange(200_000) + 0.5) / 200_000
    row = np.array([[curve.steepness, curve.depth, curve.exponent, curve.floor]])
    copies = expected_copies(grid, np.repeat(row, len(grid), 0), cap)
    assert expected_tokens(domain, curve, cap=cap) == pytest.approx(
        domain.available * copies.mean(), abs=2e-3 * domain.available
    )
    assert (mean_copies(domain, curve, cap=cap) <= cap + 1e-9).all()


def test_bins_hold_all_tokens_and_ties_stay_together() -> None:
    domain = ranked(("d",), [5, 5, 4, 1], [10, 30, 40, 20], bins=100)
    assert domain.edges == pytest.approx([0, 0.4, 0.8, 1]) and domain.tokens == pytest.approx([40, 40, 20])
    assert ranked(("e",), [], []).available == 0


def test_weights_of_domains_set_their_shares_up_to_the_cap() -> None:
    big, small = (ranked((n,), np.arange(500), np.full(500, size)) for n, size in (("big", 1000), ("small", 10)))
    curve = Curve(100, 0.3, 1.0, 0.001)
    free = curve_mix([big, small], curve)
    assert free[0].share == pytest.approx(1000 / 1010, abs=1e-6)  # the same curve everywhere: shares are those of the corpus
    wanted = curve_mix([big, small], curve, cap=50, weights={("big",): 0.95, ("small",): 0.05})
    assert [row.share for row in wanted] == pytest.approx([0.95, 0.05], abs=1e-6)
    capped = curve_mix([big, small], curve, cap=2, weights={("big",): 0.5, ("small",): 0.5})
    assert capped[1].epochs == pytest.approx(2, abs=1e-3) and capped[1].share < 0.1
    with pytest.raises(FixInput):
        curve_mix([big], curve, weights={("big",): 0.0})
    with pytest.raises(FixInput):
        curve_mix([big], curve, cap=0)


def test_an_empty_domain_takes_nothing() -> None:
    assert curve_mix([Ranked(("x",), np.array([0.0, 0.0]), np.array([0.0]))], Curve())[0].taken == 0
