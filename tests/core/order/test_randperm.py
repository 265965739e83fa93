"""randperm: torch's permutations, against torch where it is there and against known values where not."""

from __future__ import annotations

import numpy as np
import pytest

from typecase.core.order.randperm import SMALL, _large, _seeded, randperm
from typecase.errors import BadQuery

SEEDS = (0, 1, 42, 1234, 2**32 - 1, 2**32, 2**32 + 7, 2**63 - 1, -3)


@pytest.mark.oracle
@pytest.mark.parametrize("seed", SEEDS)
def test_torch_draws_the_same(seed):
    torch = pytest.importorskip("torch")
    for n in (*range(12), 311, 312, 313, 623, 624, 625, 1248, 5000, 70_001):
        theirs = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).numpy()
        np.testing.assert_array_equal(randperm(n, seed), theirs)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("n", [SMALL - 1, SMALL])
def test_torch_draws_the_same_where_the_rule_changes(n):
    torch = pytest.importorskip("torch")
    theirs = torch.randperm(n, generator=torch.Generator().manual_seed(7)).numpy()
    assert np.array_equal(randperm(n, 7), theirs)


def test_known_values():
    assert randperm(10, 0).tolist() == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]
    assert randperm(10, 42).tolist() == [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]
    assert randperm(0, 5).tolist() == [] and randperm(1, 5).tolist() == [0]


def test_the_rule_of_large_sizes_is_the_plain_loop():
    n, words = 1000, np.random.RandomState(9).randint(0, 2**32, size=2000, dtype=np.uint64).tolist()
    order = list(range(n))
    for i in range(n):
        j = (words[2 * i] << 32 | words[2 * i + 1]) % (i + 1)
        order[i] = order[j]
        order[j] = i
    assert _large(n, _seeded(np.uint32(9))).tolist() == order


def test_what_torch_refuses_is_refused():
    with pytest.raises(BadQuery, match="-1 numbers"):
        randperm(-1, 0)
    with pytest.raises(BadQuery, match="64 bits"):
        randperm(3, 2**64)
