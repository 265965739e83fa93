"""GPT-NeoX blends: the golden choices of the framework, the shares and requests of a configuration, and reads of any index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.order.brute import brute_sightings, rows_of
from tests.core.order.golden import Case, arrays, cases
from typecase.core.order.neox import NeoxOrder
from typecase.core.order.neox_blend import NeoxBlend
from typecase.errors import BadQuery

CASES = [case for case in cases("gpt-neox") if "blend_sizes" in case]


def _set(num_samples: int, seq_length: int) -> np.ndarray:
    """Lengths of a set that offers so many samples in one epoch."""
    return np.array([seq_length] * (num_samples + 1) + [1], np.int32)


def _blend(**given: Any) -> NeoxBlend:
    return NeoxBlend(**({"seq_length": 4, "num_samples": 30} | given))


def test_there_are_cases() -> None:
    assert CASES


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden(case: Case) -> None:
    golden = arrays("gpt-neox", case["name"])
    blend = _blend(weights=tuple(case["weights"]), num_samples=1)
    laid = blend.lay([_set(size, 4) for size in case["blend_sizes"]])
    assert [member.num_samples for member in laid.members] == case["blend_sizes"]
    assert laid.num_samples == sum(case["blend_sizes"])
    for name in ("dataset_index", "dataset_sample_index"):
        ours = getattr(laid, name)
        assert ours.dtype == golden[name].dtype and np.array_equal(ours, golden[name]), name


sets = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(st.data(), sets, st.integers(1, 9), st.integers(2, 40), st.booleans())
def test_blends_follow_the_plain_rules(
    data: st.DataObject, lengths: list[list[int]], seq_length: int, size: int, old: bool
) -> None:
    weights = data.draw(st.none() | st.tuples(*[st.floats(0.01, 9) for _ in lengths]))
    held = [np.array(one, np.int32) for one in lengths]
    blend = _blend(seq_length=seq_length, num_samples=size, weights=weights, exposes_last_sample=old)
    laid = blend.lay(held)
    shares = [weight / sum(weights or [1.0] * len(held)) for weight in weights or [1.0] * len(held)]
    members = [
        NeoxOrder(
            seq_length=seq_length, split=None, num_samples=math.ceil((size * share) * 1.005), exposes_last_sample=old
        ).lay(one)
        for share, one in zip(shares, held, strict=True)
    ]
    normal = np.array(shares) / np.sum(np.array(shares))
    counts = [0] * len(held)
    for s in range(sum(member.num_samples for member in members)):
        behind = [float(w) * float(max(s, 1)) - c for w, c in zip(normal, counts, strict=True)]
        chosen = behind.index(max(behind))
        assert (laid.dataset_index[s], laid.dataset_sample_index[s]) == (chosen, counts[chosen])
        counts[chosen] += 1
    assert laid.num_samples == sum(counts)
    if not old:
        _check_reads(laid, members)


def _check_reads(laid: Any, members: list[Any]) -> None:
    """Beyond its end, and beyond the end of a member, an index stands for its remainder."""
    for index in range(2 * laid.num_samples):
        place = index % laid.num_samples
        member, within = int(laid.dataset_index[place]), int(laid.dataset_sample_index[place])
        if members[member].num_samples == 0 and within > 0:
            continue
        found = laid.reads([index])
        assert found.members == member
        assert found.packing[0] == members[member].reads([within]).packing[0]
    if all(member.num_samples for member in members):
        for number, member in enumerate(members):
            runs = [(s, 0, 99) for s in range(len(member.lengths))]
            found = laid.sightings(*zip(*runs, strict=True), member=number)
            assert rows_of(found) == brute_sightings(laid, runs, number)


def test_requests_are_half_a_percent_more_than_shares() -> None:
    blend = _blend(weights=(3, 1), num_samples=1000)
    assert blend.requests(blend.shares([5, 5])) == [754, 252]
    assert blend.requests([0.1]) == [101]
    alone = _blend(num_samples=1000)
    assert alone.requests(alone.shares([5])) == [1005]


def test_weights_by_numbers_of_documents() -> None:
    blend = _blend(weight_by_num_documents=True)
    assert blend.shares([7]) == [1.0]
    assert blend.shares([50, 50]) == [0.5, 0.5]
    assert blend.shares([60, 30, 10]) == pytest.approx([0.24 / 0.54, 0.21 / 0.54, 0.09 / 0.54], rel=1e-15)
    lifted = _blend(weight_by_num_documents=True, weighted_sampler_alpha=0.5).shares([60, 30, 10])
    parts = [0.6**0.5 * 0.4, 0.3**0.5 * 0.7, 0.1**0.5 * 0.9]
    assert lifted == pytest.approx([part / sum(parts) for part in parts], rel=1e-14)


def test_epochs_take_every_set_whole() -> None:
    laid = _blend(num_samples=None, num_epochs=1).lay([_set(9, 4), _set(5, 4)])
    assert [len(member.shuffle) for member in laid.members] == [10, 6]
    assert laid.num_samples == 14


def test_members_are_named_by_bytes() -> None:
    laid = _blend(num_samples=2).lay([_set(2, 4)] * 254)
    assert laid.dataset_index.dtype == np.uint8 and laid.dataset_index.max() == 253


def test_labels_and_pairs_go_to_their_sets() -> None:
    lengths = [np.array([3, 5, 2], np.int32), np.array([4, 4], np.int32)]
    masked = [np.array([3, 0, 0]), np.array([0, 4])]
    laid = _blend(packing_impl="unpacked").lay(lengths, masked_prefix=masked)
    assert [set(member.sequences.tolist()) for member in laid.members] == [{1, 2}, {0}]
    pairs = _blend(packing_impl="unpacked", pairwise=True).lay(
        lengths, masked_prefix=masked, rejected_lengths=lengths, rejected_masked_prefix=[np.zeros(3), np.zeros(2)]
    )
    assert [set(member.sequences.tolist()) for member in pairs.members] == [{1, 2}, {0}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": (0.0, 0.0)}, "cannot be shares"),
        ({"weights": (1.0, -1.0)}, "cannot be shares"),
        ({"weights": (1.0, math.nan)}, "cannot be shares"),
        ({"num_epochs": 1}, "epochs \\(train_epochs\\) or iterations"),
        ({"num_samples": None, "num_epochs": 1, "weights": (2.0,)}, "leave out the weights"),
        ({"num_samples": None, "num_epochs": 1, "weight_by_num_documents": True}, "leave out the weights"),
        ({"num_samples": None}, "neither"),
    ],
)
def test_parameters_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadQuery, match=message):
        _blend(**given)


def test_sets_that_cannot_be_blended() -> None:
    for options, lengths, message in (
        ({"weights": (1.0,)}, [_set(2, 4)] * 2, "1 weights and 2 token sets"),
        ({}, [], "0 token sets"),
        ({}, [_set(2, 4)] * 255, "255 token sets"),
        ({"weight_by_num_documents": True}, [np.zeros(0, np.int32), np.zeros(0, np.int32)], "none of the sets"),
        ({"weight_by_num_documents": True}, [_set(2, 4), np.zeros(0, np.int32)], "add up to 0"),
    ):
        with pytest.raises(BadQuery, match=message):
            _blend(**options).lay(lengths)
