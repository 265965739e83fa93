"""Blends: the choices against known digests and a plain loop, and blends read both ways."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.order.brute import brute_sightings, rows_of
from tests.core.order.golden import arrays, cases
from typecase.core.order.blend import BlendTables
from typecase.core.order.blending import choose, choose_all, normalised, pairwise_sum, parse_paths
from typecase.core.order.megatron import MegatronBlend, MegatronOrder
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery

NEOX_BLENDS = [case for case in cases("gpt-neox") if "blend_sizes" in case]


@pytest.mark.parametrize(
    ("weights", "first", "counts", "members", "samples"),
    [
        (
            [3, 7],
            "1 0 1 1 0 1 1 0 1 1 0 1 1 1 0 1 1 0 1 1",
            [30000, 70000],
            "661eb6953a0f346aad83015346a85f47f7279521a3bfa655c50e347fc8cf4082",
            "1b64b3cad6e5ecbe3687f864bd23f2a0a8a15afa082bff863e7c014cada4a2c2",
        ),
        (
            [1, 1, 1],
            "0 1 2 0 1 2 0 1 2",
            [33334, 33333, 33333],
            "1b00ed800535491816a09affb11bd0c2c8a65e510d8b018c1697e63408cc0eff",
            "5ad831cdaa889f6ad95f4fb312e2507c78c9e575a04c04d65c1967a7d144a948",
        ),
        (
            [5, 3, 2],
            "0 1 2 0 1 0 2 0 1 0 0 1 2 0 1 0 2 0 1 0",
            [50000, 30000, 20000],
            "c0ff79395b85240348c30ee77a51de242ec7bc4f1bdd91229799fc367cbdd9c5",
            "bddc553bd1e255dabc60f6c33a857e69cfcf548fe0afad0010acb0d45ec003ab",
        ),
        (
            [0.5, 0.25, 0.25],
            "0 1 2 0 0 1 2 0 0 1 2 0 0 1 2 0 0 1 2 0",
            [50000, 25000, 25000],
            "d5db6369d805c48d5b26f0caec1edb5b83bff3157b2ea22186ae1d75454ec17b",
            "8d3f7985ae9b9e4b17452bcf7883d01c5405d7a08a2ab1b2a073079768bec029",
        ),
    ],
)
def test_choices_have_the_known_digests(
    weights: list[float], first: str, counts: list[int], members: str, samples: str
) -> None:
    owners, within = choose(normalised(weights), 100_000)
    assert owners.dtype == np.int16 and within.dtype == np.int64
    assert owners[: len(first.split())].tolist() == [int(number) for number in first.split()]
    assert np.bincount(owners).tolist() == counts
    assert hashlib.sha256(owners.tobytes()).hexdigest() == members
    assert hashlib.sha256(within.tobytes()).hexdigest() == samples


@pytest.mark.parametrize("case", NEOX_BLENDS, ids=[case["name"] for case in NEOX_BLENDS])
def test_golden_neox_choices(case: dict[str, Any]) -> None:
    golden = arrays("gpt-neox", case["name"])
    owners, within = choose(normalised(case["weights"]), len(golden["dataset_index"]))
    assert np.array_equal(owners, golden["dataset_index"]) and np.array_equal(within, golden["dataset_sample_index"])


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=6), st.integers(0, 80))
def test_choices_are_the_rule(weights: list[float], size: int) -> None:
    counts = [0] * len(weights)
    owners, within = choose(weights, size)
    for s in range(size):
        behind = [weight * max(s, 1) - count for weight, count in zip(weights, counts, strict=True)]
        best = behind.index(max(behind))
        assert (owners[s], within[s]) == (best, counts[best])
        counts[best] += 1


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_all_choices_are_the_rule(sizes: list[int]) -> None:
    counts = [0] * len(sizes)
    owners, within = choose_all(sizes)
    for s in range(sum(sizes)):
        left = [i for i in range(len(sizes)) if counts[i] < sizes[i]]
        best = max(left, key=lambda i: (sizes[i] / sum(sizes) * max(s, 1) - counts[i], -i))
        assert (owners[s], within[s]) == (best, counts[best])
        counts[best] += 1
    assert counts == sizes == np.bincount(owners, minlength=len(sizes)).tolist()


def test_known_exhaustive_choices() -> None:
    assert [a.tolist() for a in choose_all([5, 3, 2])] == [[0, 1, 2, 0, 1, 0, 2, 0, 1, 0], [0, 0, 0, 1, 1, 2, 1, 3, 2, 4]]
    assert [a.tolist() for a in choose_all([10, 1])] == [[0, 1] + [0] * 9, [0, 0, *range(1, 10)]]


@given(st.lists(st.floats(0, 1e6), max_size=300))
def test_sums_are_pairwise(values: list[float]) -> None:
    def pairwise(a: list[float]) -> float:
        if len(a) < 8:
            return sum(a, 0.0) if len(a) < 2 else float(np.add.accumulate([0.0, *a])[-1])
        if len(a) <= 128:
            r = a[:8]
            for first in range(8, len(a) - len(a) % 8, 8):
                r = [x + y for x, y in zip(r, a[first : first + 8], strict=True)]
            out = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
            for x in a[len(a) - len(a) % 8 :]:
                out += x
            return out
        half = len(a) // 2 - len(a) // 2 % 8
        return pairwise(a[:half]) + pairwise(a[half:])

    assert pairwise_sum(values) == pairwise(values)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (["30", "a", "70", " b "], (["a", "b"], [30.0, 70.0])),
        (["a", "b"], (["a", "b"], None)),
        (["a", " b", "c"], (["a", "b", "c"], None)),
        (["a"], (["a"], None)),
        (["2024", "c4"], (["c4"], [2024.0])),
        (["1", "2", "3"], (["1", "2", "3"], None)),
    ],
)
def test_path_lists(items: list[str], expected: tuple[list[str], list[float] | None]) -> None:
    assert parse_paths(items) == expected


def test_path_lists_that_cannot_be() -> None:
    with pytest.raises(BadQuery, match="'c' stands where a weight"):
        parse_paths(["1", "b", "c", "d"])
    with pytest.raises(BadQuery, match="empty"):
        parse_paths([])


def _lengths(*rows: list[int]) -> list[np.ndarray]:
    return [np.array(row, np.int32) for row in rows]


MEMBER = st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(lambda lengths: sum(lengths) > 8)


@settings(max_examples=60, deadline=None)
@given(
    members=st.lists(st.tuples(MEMBER, st.floats(0.1, 5)), min_size=2, max_size=3),
    size=st.none() | st.integers(1, 40),
    weighted=st.booleans(),
    length=st.integers(1, 7),
    data=st.data(),
)
def test_sightings_are_the_inverse_of_reads(
    members: list[tuple[list[int], float]], size: int | None, weighted: bool, length: int, data: st.DataObject
) -> None:
    weights = tuple(weight for _, weight in members) if weighted and size is not None else None
    blend = MegatronBlend(sequence_length=length, split=None, weights=weights, size=size, surplus=1.0)
    laid = blend.lay(_lengths(*(lengths for lengths, _ in members)))
    _check_inverse(laid, data)
    asked = data.draw(st.lists(st.integers(0, laid.num_samples - 1)))
    together, alone = laid.reads(asked), [laid.reads([index]) for index in asked]
    assert list(together.packing) == [reads.packing[0] for reads in alone]
    assert together.samples.tolist() == [reads.samples[0] for reads in alone]
    assert together.copies.tolist() == [copy for reads in alone for copy in reads.copies.tolist()]


def _check_inverse(laid: Tables | BlendTables, data: st.DataObject) -> None:
    assert isinstance(laid, BlendTables)
    member = data.draw(st.integers(0, len(laid.members) - 1))
    run = st.tuples(st.integers(0, len(laid.members[member].lengths) - 1), st.integers(0, 12), st.integers(0, 13))
    runs = data.draw(st.lists(run, min_size=1, max_size=3))
    assert rows_of(laid.sightings(*zip(*runs, strict=True), member=member)) == brute_sightings(laid, runs, member)


def _wrapping(lengths: list[int], length: int, seed: int) -> Tables:
    """An order as GPT-NeoX offers it: one sample fewer than there are, and numbers beyond taken modulo that."""
    laid = MegatronOrder(sequence_length=length, split=None, random_seed=seed).lay(np.array(lengths, np.int32))
    return Tables(
        laid.sequences, laid.rows, laid.shuffle, laid.lengths, length, 1, num_samples=laid.num_samples - 1, wraps=True
    )


@settings(max_examples=60, deadline=None)
@given(
    members=st.lists(MEMBER, min_size=2, max_size=3),
    length=st.integers(1, 4),
    seed=st.integers(0, 9),
    size=st.integers(1, 60),
    data=st.data(),
)
def test_members_that_wrap_are_read_both_ways(
    members: list[list[int]], length: int, seed: int, size: int, data: st.DataObject
) -> None:
    laid = tuple(_wrapping(lengths, length, seed) for lengths in members)
    if min(member.num_samples for member in laid) < 1:
        return
    owners, within = choose(normalised(data.draw(st.permutations([1.0, 2.0, 5.0]))[: len(laid)]), size)
    blend = BlendTables(laid, owners.astype(np.uint8), within, size, wraps=True)
    _check_inverse(blend, data)
    beyond = data.draw(st.integers(size, 3 * size))
    assert list(blend.reads([beyond]).packing) == list(blend.reads([beyond % size]).packing)


def test_a_member_without_a_weight_is_laid_alone() -> None:
    lengths = _lengths([30, 40, 50])
    assert isinstance(MegatronBlend(sequence_length=8, size=10).lay(lengths), Tables)
    assert isinstance(MegatronBlend(sequence_length=8, size=10, split=None, weights=(2.0,)).lay(lengths), Tables)
    assert isinstance(MegatronBlend(sequence_length=8, size=10, weights=(2.0,)).lay(lengths), BlendTables)


def test_old_blends_are_as_long_as_what_they_ask() -> None:
    lengths = _lengths([500] * 9, [700] * 9)
    old: dict[str, Any] = {"sequence_length": 8, "weights": (1.0, 2.0), "size": 400}
    assert MegatronBlend(**old).samples_asked(2) == [135, 269]
    assert MegatronBlend(**old).lay(lengths).num_samples == 134 + 267
    for profile, dtype in {"core-0.10": "int16", "core-0.4": "int16", "legacy": "uint8", "nemo1": "uint8"}.items():
        blend = MegatronBlend(**old, profile=profile)  # type: ignore[arg-type]
        laid = blend.lay(lengths)
        assert isinstance(laid, BlendTables) and laid.dataset_index.dtype == dtype
        assert blend.samples_asked(2) == [134, 268] and laid.num_samples == 402
    again = MegatronBlend(**old, profile="core-0.10", renormalize_blend_weights=True).lay(lengths)
    assert isinstance(again, BlendTables)
    assert np.array_equal(again.dataset_index, choose(normalised([134 / 402, 268 / 402]), 402)[0])


@pytest.mark.parametrize(
    ("given", "lengths", "says"),
    [
        ({"weights": (0.0, 1.0), "size": 9}, None, "above 0"),
        ({"weights": (1.0, 1.0)}, None, "needs the number of samples"),
        ({"weights": (1.0,), "size": 9}, None, "2 token sets and 1 weights"),
        ({"size": -1}, None, "size is -1"),
        ({"weights": (1.0, 1.0), "size": 9}, [[5, 5, 30], [0]], "token set 1 of the blend.*without end"),
        ({}, [[5, 5, 30], [3]], "token set 1 of the blend has tokens for no sample"),
        ({"surplus": 0.1, "profile": "core-0.4", "weights": (1.0, 1.0), "size": 9}, None, "fixed surplus"),
        ({"profile": "legacy", "size": 9}, None, "without weights"),
    ],
)
def test_mistakes(given: dict[str, Any], lengths: list[list[int]] | None, says: str) -> None:
    with pytest.raises(BadQuery, match=says):
        MegatronBlend(sequence_length=8, split=None, **given).lay(_lengths(*(lengths or [[30, 40], [50]])))


def test_oversampling_names_the_member_and_the_remedy() -> None:
    """Eleven members of tiny weight: each is asked for one sample, the rule takes the second of the first of them."""
    weights = (0.55, *[0.03] * 15)
    for size in range(1, 60):
        blend = MegatronBlend(sequence_length=1, split=None, weights=weights, size=size, surplus=0.0)
        asked = blend.samples_asked(16)
        laid = _lengths(*([n + 1] for n in asked if n is not None))
        shares = normalised(normalised(weights))
        taken = np.bincount(choose(shares, sum(n for n in asked if n is not None))[0], minlength=16)
        over = [k for k in range(16) if taken[k] > (asked[k] or 0)]
        if over:
            with pytest.raises(BadQuery, match=f"token set {over[0]}.*mid_level_dataset_surplus"):
                blend.lay(laid)
            return
    pytest.fail("no size oversamples")


def test_indices_that_no_framework_serves() -> None:
    laid = MegatronBlend(sequence_length=8, split=None).lay(_lengths([30, 40], [50]))
    for index in (-1, laid.num_samples):
        with pytest.raises(BadQuery, match="no training index"):
            laid.reads([index])
    with pytest.raises(BadQuery, match="no member 2"):
        laid.sightings([0], [0], [1], member=2)
    assert len(laid.reads([]).packing) == 0


def test_a_blend_that_asks_too_much_is_found_as_far_as_it_can_be_read() -> None:
    """As old generations lay them: training stops where it gets to such an index."""
    alone = MegatronOrder(sequence_length=4, split=None).lay(np.array([9, 9], np.int32))
    size = alone.num_samples + 2
    blend = BlendTables((alone,), np.zeros(size, np.int16), np.arange(size), size)
    found, expected = blend.sightings([1], [0], [9]), alone.sightings([1], [0], [9])
    assert len(expected.indices) and rows_of(found) == rows_of(expected)
    with pytest.raises(BadQuery, match="the framework stops there"):
        blend.reads([size - 1])


def test_members_must_match() -> None:
    laid = [MegatronOrder(sequence_length=length, split=None).lay(np.array([30], np.int32)) for length in (4, 8)]
    with pytest.raises(BadQuery, match="5, 9"):
        BlendTables(tuple(laid), np.zeros(1, np.int16), np.zeros(1, np.int64), 1)
    with pytest.raises(BadQuery, match="different blends"):
        BlendTables((laid[0],), np.zeros(2, np.int16), np.zeros(1, np.int64), 1)
