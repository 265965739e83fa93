"""Splits: the tables of both frameworks, their recorded borders, and what no framework can mean."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.order.splits import core_04_bounds, megatron_bounds, megatron_matrix, neox_bounds, python_sum
from typecase.errors import BadQuery

from .golden import manifest

TABLE = [
    ("969,30,1", 49, (0, 48, 49, 49), (0, 47, 49, 49)),
    ("969,30,1", 500, (0, 485, 500, 500), (0, 484, 500, 500)),
    ("969,30,1", 1000, (0, 969, 999, 1000), (0, 969, 999, 1000)),
    ("969,30,1", 21990, (0, 21308, 21968, 21990), (0, 21308, 21968, 21990)),
    ("990,5,5", 100, (0, 100, 100, 100), (0, 99, 100, 100)),
    ("990,5,5", 21990, (0, 21770, 21880, 21990), (0, 21770, 21880, 21990)),
    ("1,1,1", 10, (0, 4, 7, 10), (0, 3, 7, 10)),
    ("8,1,1", 25, (0, 21, 23, 25), (0, 20, 22, 25)),
    ("900,50,50", 21990, (0, 19790, 20890, 21990), (0, 19791, 20890, 21990)),
]


def borders(split: str, n: int) -> tuple[int, ...]:
    """The four borders of Megatron-Core, for splits whose three parts are all there."""
    ranges = [part for part in megatron_bounds(split, n) if part is not None]
    return (ranges[0][0], *(end for _, end in ranges))


@pytest.mark.parametrize(("split", "n", "neox", "core"), TABLE)
def test_both_frameworks_round_as_published(split: str, n: int, neox: tuple[int, ...], core: tuple[int, ...]) -> None:
    assert tuple(neox_bounds(split, n)) == neox
    assert borders(split, n) == core


def test_neox_borders_are_those_recorded() -> None:
    for key, recorded in manifest("gpt-neox")["splits"].items():
        split, n = key.split("|")
        assert neox_bounds(split, int(n)).tolist() == recorded, key


def test_the_frameworks_disagree_as_often_as_published() -> None:
    counts = [tuple(neox_bounds(split, n)) != borders(split, n) for split in ("969,30,1", "990,5,5") for n in range(1, 20_000)]
    assert (sum(counts), len(counts)) == (14_760, 39_998)


def test_matrix_begins_with_the_integer_nought() -> None:
    assert json.dumps(megatron_matrix("990,5,5")) == "[[0, 0.99], [0.99, 0.995], [0.995, 1.0]]"
    assert json.dumps(megatron_matrix("100")) == "[[0, 1.0], null, null]"
    assert json.dumps(megatron_matrix("0,1,1")) == "[null, [0.0, 0.5], [0.5, 1.0]]"
    assert megatron_bounds("0,1,1", 3) == (None, (0, 2), (2, 3))


def test_megatron_reads_digits_and_dots_only() -> None:
    assert megatron_bounds("1e-2", 9) == megatron_bounds("1,2", 9) == ((0, 3), (3, 9), None)
    assert megatron_bounds("-1, 3", 8) == ((0, 2), (2, 8), None)


def test_neox_takes_slashes_spaces_and_further_parts() -> None:
    assert neox_bounds("90 / 5/5", 60).tolist() == neox_bounds("90, 5, 5", 60).tolist() == [0, 54, 57, 60]
    assert neox_bounds("98,2,0,7", 60).tolist() == neox_bounds("98,2", 60).tolist()
    assert neox_bounds("1e2", 7).tolist() == [0, 7, 7, 7]


def test_neox_correction_may_shift_a_border_below_nought() -> None:
    assert neox_bounds("0,1,1", 3).tolist() == [0, -1, 1, 3]


def test_core_04_parses_as_core_and_rounds_as_neox() -> None:
    for split, n, neox, _ in TABLE:
        assert tuple(core_04_bounds(split, n)) == neox
    with pytest.raises(BadQuery, match="4 numbers"):
        core_04_bounds("1,1,1,1", 9)


def test_sum_of_python_before_and_since_3_12() -> None:
    assert python_sum([0.1, 0.2, 0.3]) == 0.6000000000000001
    assert python_sum([0.1, 0.2, 0.3], compensated=True) == 0.6
    assert python_sum([1e100, 1.0, -1e100], compensated=True) == 1.0


@pytest.mark.parametrize("split", ["", "a,b", "0,0,0", "9,,1", "inf,1", "nan"])
def test_refused_by_neox(split: str) -> None:
    with pytest.raises(BadQuery, match="split"):
        neox_bounds(split, 10)


@pytest.mark.parametrize("split", ["", "a,b", "0,0,0", "1.2.3", "1,2,3,4", "1e-2,1e-3", "."])
def test_refused_by_megatron(split: str) -> None:
    with pytest.raises(BadQuery, match="split"):
        megatron_bounds(split, 10)


def test_a_negative_number_of_sequences_is_refused() -> None:
    with pytest.raises(BadQuery, match="-1 sequences"):
        neox_bounds("1", -1)
    with pytest.raises(BadQuery, match="-1 sequences"):
        megatron_bounds("1", -1)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=3).filter(any), st.integers(0, 10**7))
def test_ranges_tile_the_file(values: list[int], n: int) -> None:
    split = ",".join(map(str, values))
    neox = neox_bounds(split, n)
    assert neox[0] == 0 and neox[3] == n and np.all(np.diff(neox[1:]) >= 0)
    ranges = [part for part in megatron_bounds(split, n) if part is not None]
    assert ranges[0][0] == 0 and ranges[-1][1] == n
    assert all(one[1] == two[0] for one, two in pairwise(ranges))
