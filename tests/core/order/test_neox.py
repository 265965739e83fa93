"""GPT-NeoX orders: the golden arrays of the framework, its rules written out as plain loops, and where it stops."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.order.brute import brute_sightings, rows_of, tokens_of
from tests.core.order.golden import Case, arrays, cases, golden_folder
from tests.core.order.neox_plain import PlainSet, plain_overflow, plain_packed, plain_unpacked
from typecase.core.order.neox import NeoxOrder, neox_epochs
from typecase.core.order.requests import megatron_requested_samples, requested_samples
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery
from typecase.store.tokens.store import open_tokens

CASES = [case for case in cases("gpt-neox") if "blend_sizes" not in case]
NAMES = ("doc_idx", "sample_idx", "shuffle_idx")
OPTIONS = ("seq_length", "seed", "num_samples", "num_epochs", "packing_impl", "allow_chopped")


def _folder() -> Path:
    return golden_folder() / "gpt-neox"


def _same(laid: Tables, golden: dict[str, np.ndarray]) -> None:
    for name, ours in zip(NAMES, (laid.sequences, laid.rows, laid.shuffle), strict=True):
        assert ours.dtype == golden[name].dtype and np.array_equal(ours, golden[name]), name


def _lay(case: Case) -> Tables:
    given: dict[str, Any] = {name: case[name] for name in OPTIONS if name in case}
    return NeoxOrder(split=case["split"], **given).lay(open_tokens(_folder() / case["prefix"]).lengths)


def test_there_are_cases() -> None:
    assert CASES


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden(case: Case) -> None:
    golden = arrays("gpt-neox", case["name"])
    laid = _lay(case)
    _same(laid, golden)
    assert laid.num_samples == golden["length"]
    ids = golden["sample_ids"].astype(np.int64)
    store = open_tokens(_folder() / case["prefix"])
    assert np.array_equal(tokens_of(laid.reads(ids), [store], laid.sample_tokens), golden["sample_tokens"])


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden_files_that_a_run_leaves(case: Case) -> None:
    chopped = "_ac" if case.get("allow_chopped", True) else ""
    stem = (
        f"{case['prefix']}_train_indexmap_{case['num_samples']}ns_{case['seq_length']}sl_{case['seed']}s"
        f"_{case['packing_impl']}pi{chopped}"
    )
    found = {name: _folder() / f"{stem}_{name}.npy" for name in NAMES}
    if all(path.exists() for path in found.values()):
        _same(_lay(case), {name: np.load(path) for name, path in found.items()})


lengths_of_sets = st.lists(st.integers(0, 30) | st.sampled_from([0, 0, 1]), min_size=1, max_size=12).map(
    lambda held: np.array(held, np.int32)
)
splits = st.sampled_from([None, "1", "5,4,3", "2,1,1", "1/1/1"])
parts = st.sampled_from(["train", "valid", "test"])


def _range(order: NeoxOrder, lengths: np.ndarray) -> tuple[int, int] | None:
    """The sequences of the split, None where the framework makes no data set of it, or one of no token."""
    try:
        begin, end = order.sequence_range(len(lengths))
    except BadQuery:
        return None
    return (begin, end) if lengths[begin:end].sum() else None


def _agree(laid: Tables, plain: PlainSet) -> None:
    _same(laid, dict(zip(NAMES, plain.arrays, strict=True)))
    assert laid.num_samples == plain.size
    runs = [(s, a, b) for s in range(len(plain.lengths)) for a, b in ((0, 1), (2, 9), (0, 99))]
    for index in range(2 * plain.size + 3):
        expected = plain.read(index)
        if expected is None:
            with pytest.raises(BadQuery):
                laid.reads([index])
        else:
            assert plain.tokens(laid.reads([index]).packing[0]) == expected
    if all(plain.read(index) is not None for index in range(plain.size)):
        assert rows_of(laid.sightings(*zip(*runs, strict=True))) == brute_sightings(laid, runs)


@settings(max_examples=150, deadline=None)
@given(lengths_of_sets, splits, parts, st.integers(1, 20), st.integers(0, 9), st.integers(0, 25), st.integers(1, 3) | st.none())
def test_packed_follows_the_plain_loops(
    lengths: np.ndarray, split: str | None, part: Any, seq_length: int, seed: int, size: int, epochs: int | None
) -> None:
    sizes = {"num_samples": size} if epochs is None else {"num_epochs": epochs}
    order = NeoxOrder(seq_length=seq_length, seed=seed, split=split, index_split=part, **sizes)
    if (found := _range(order, lengths)) is None:
        with pytest.raises(BadQuery):
            order.lay(lengths)
        return
    plain = plain_packed(lengths, found, seq_length, seed, None if epochs else size, epochs)
    if plain.size < 0:
        with pytest.raises(BadQuery, match="length -1"):
            order.lay(lengths)
        return
    _agree(order.lay(lengths), plain)


labels = st.none() | st.integers(0, 2**32 - 1)


def _masked(lengths: np.ndarray, label_seed: int | None) -> np.ndarray | None:
    """Of about half of the documents all labels are masked, of others a part."""
    if label_seed is None:
        return None
    random = np.random.default_rng(label_seed)
    return np.where(random.random(len(lengths)) < 0.3, lengths, random.integers(0, lengths + 1))


@settings(max_examples=250, deadline=None)
@given(
    st.data(), lengths_of_sets, splits, parts, st.integers(1, 40), st.integers(0, 99), st.integers(1, 25), st.booleans(),
    labels, st.booleans(), st.booleans(),
)  # fmt: skip
def test_lists_follow_the_plain_loops(
    data: st.DataObject, lengths: np.ndarray, split: str | None, part: Any, seq_length: int, seed: int, size: int,
    chopped: bool, label_seed: int | None, unpacked: bool, pairwise: bool,
) -> None:  # fmt: skip
    order = NeoxOrder(
        seq_length=seq_length, seed=seed, split=split, index_split=part, num_samples=size, allow_chopped=chopped,
        packing_impl="unpacked" if unpacked else "pack_until_overflow", pairwise=pairwise,
    )  # fmt: skip
    texts, masked = [lengths], [_masked(lengths, label_seed)]
    if pairwise:
        texts.append(np.array(data.draw(st.permutations(lengths.tolist())), np.int32))
        masked.append(_masked(texts[1], None if label_seed is None else label_seed + 1))
    rejected = {"rejected_lengths": texts[1], "rejected_masked_prefix": masked[1]} if pairwise else {}
    found = _range(order, lengths)
    plain_lists = plain_unpacked if unpacked else plain_overflow
    plain = None if found is None else plain_lists(texts, masked, found, seq_length, seed, size, chopped)
    if plain is None:
        with pytest.raises(BadQuery):
            order.lay(lengths, masked_prefix=masked[0], **rejected)
        return
    laid = order.lay(lengths, masked_prefix=masked[0], **rejected)
    _agree(laid, plain)
    if pairwise:
        other = dataclasses.replace(laid, lengths=texts[1])
        _agree(other, PlainSet(texts[1], seq_length, plain.arrays))


THREE = np.array([5, 0, 9], np.int32)


def _order(**given: Any) -> NeoxOrder:
    return NeoxOrder(**({"seq_length": 4, "num_samples": 3, "split": None} | given))


@pytest.mark.parametrize(
    ("given", "lengths", "message"),
    [
        ({}, [0, 0], "without end"),
        ({}, [], "no sequence"),
        ({"num_samples": 0}, [3], "length -1"),
        ({"split": "1", "index_split": "valid"}, [5, 9], "none of 2 sequences"),
        ({"split": "0,1,1", "index_split": "valid"}, [5, 9, 3], "begin at sequence -1"),
        ({"num_samples": None, "num_epochs": 2**31 + 1}, [1], "int32 rows"),
        ({"packing_impl": "unpacked"}, [5, 9], "label set"),
        ({"packing_impl": "pack_until_overflow", "allow_chopped": False}, [9, 9], "IndexError stops GPT-NeoX after 0 of 3"),
    ],
)
def test_where_the_framework_stops(given: dict[str, Any], lengths: list[int], message: str) -> None:
    with pytest.raises(BadQuery, match=message):
        _order(**given).lay(np.array(lengths, np.int32))


def test_a_sample_that_ends_behind_the_file_is_refused_and_hides_no_other() -> None:
    laid = _order(packing_impl="pack_until_overflow", num_samples=4, seed=0, seq_length=1).lay(np.array([0, 1, 0], np.int32))
    read = {}
    for index in range(laid.num_samples):
        try:
            read[index] = laid.reads([index]).packing[0]
        except BadQuery as err:
            assert "the file ends there" in str(err)
    found = laid.sightings([1], [0], [1])
    assert sorted(found.indices.tolist()) == [index for index, pieces in read.items() for _ in pieces]


def test_documents_that_are_all_skipped_are_searched_without_end() -> None:
    with pytest.raises(BadQuery, match="search without end"):
        _order(packing_impl="unpacked").lay(THREE, masked_prefix=THREE)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_samples": None}, "neither"),
        ({"num_samples": -1}, "num_samples is -1"),
        ({"num_epochs": 0}, "num_epochs is 0"),
        ({"seq_length": 0}, "sequence length 0"),
        ({"seed": -1}, "seed -1"),
        ({"seed": 2**32}, "seed 4294967296"),
        ({"split": "a"}, "split 'a'"),
        ({"index_split": "dev"}, "no split 'dev'"),
        ({"packing_impl": "padded"}, "no packing 'padded'"),
        ({"rows_dtype": "int16"}, "int16"),
        ({"pairwise": True}, "cannot be packed"),
        ({"packing_impl": "unpacked", "num_samples": None, "num_epochs": 1}, "size from num_samples"),
        ({"packing_impl": "unpacked", "num_epochs": 1}, "no num_epochs"),
        ({"packing_impl": "unpacked", "num_samples": 0}, "size from num_samples"),
        ({"packing_impl": "unpacked", "exposes_last_sample": True}, "came in 2024"),
    ],
)
def test_parameters_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadQuery, match=message):
        _order(**given)


def test_pairs_and_labels_are_parallel() -> None:
    lists, pairs = _order(packing_impl="unpacked"), _order(packing_impl="unpacked", pairwise=True)
    nothing = np.zeros(3, np.int64)
    for order, options, message in (
        (pairs, {}, "needs the lengths"),
        (lists, {"rejected_lengths": THREE}, "for pairwise"),
        (pairs, {"rejected_lengths": THREE, "masked_prefix": nothing}, "all or none"),
        (pairs, {"rejected_lengths": THREE[:2]}, "must be parallel"),
        (lists, {"masked_prefix": nothing[:2]}, "must be parallel"),
    ):
        with pytest.raises(BadQuery, match=message):
            order.lay(THREE, **options)


def test_old_runs_expose_the_last_sample_and_replace_none() -> None:
    old, new = _order(exposes_last_sample=True, rows_dtype="int64").lay(THREE), _order().lay(THREE)
    assert old.num_samples == new.num_samples + 1 == 3
    assert old.rows.dtype == np.int64 and np.array_equal(old.rows, new.rows)
    assert new.reads([3]).samples == new.reads([1]).samples
    with pytest.raises(BadQuery, match="no training index 3"):
        old.reads([3])


def test_sum_of_python_decides_a_tie() -> None:
    split = "0.1,0.2,0.3"
    orders = [_order(split=split, compensated_sum=compensated) for compensated in (False, True)]
    ranges = [[order.sequence_range(n) for n in range(9, 400)] for order in orders]
    assert ranges[0] != ranges[1]


@pytest.mark.parametrize(
    ("tokens", "given", "expected"),
    [
        (4_533_297, {"seq_length": 2048, "num_samples": 1_600}, (1, 2213, "int32", "uint32")),
        (4_533_297, {"seq_length": 2048, "num_samples": 5_000}, (3, 6640, "int32", "uint32")),
        (4_533_297, {"seq_length": 2048, "num_epochs": 1}, (1, 2213, "int32", "uint32")),
        (2049, {"seq_length": 2048, "num_samples": 1}, (1, 1, "int32", "uint32")),
        (2048, {"seq_length": 2048, "num_samples": 1}, (2, 1, "int32", "uint32")),
        # 2 * (x + 1) < 2^31 - 1, x = (T - 1) / L not rounded: below x = 2^30 - 1.5
        (2 * (2**30 - 2) + 1, {"seq_length": 2, "num_epochs": 1}, (1, 2**30 - 2, "int32", "uint32")),
        (2 * (2**30 - 2) + 2, {"seq_length": 2, "num_epochs": 1}, (1, 2**30 - 2, "int64", "uint32")),
        (2**32 - 2, {"seq_length": 1, "num_epochs": 1}, (1, 2**32 - 3, "int64", "uint32")),
        (2**32 - 1, {"seq_length": 1, "num_epochs": 1}, (1, 2**32 - 2, "int64", "int64")),
    ],
)
def test_epochs_from_totals(tokens: int, given: dict[str, int], expected: tuple[int, int, str, str]) -> None:
    plan = neox_epochs(tokens, **given)
    assert (plan.num_epochs, plan.num_samples, plan.rows_dtype, plan.shuffle_dtype) == expected


def test_lists_take_sets_that_are_views_of_files() -> None:
    packed = np.zeros(7 + 4 * 3, np.uint8)[7:]
    view = packed.view(np.int32)
    view[:] = THREE
    assert not view.flags.aligned
    for options in ({"packing_impl": "pack_until_overflow"}, {}):
        assert np.array_equal(_order(**options).lay(view).sequences, _order(**options).lay(THREE).sequences)


def test_requested_samples() -> None:
    asked = requested_samples(train_iters=1000, train_batch_size=16, eval_interval=300, eval_iters=10)
    assert asked == {"train": 16_000, "valid": 640, "test": 160}
    with pytest.raises(BadQuery, match="eval_interval is 0"):
        requested_samples(train_iters=1, train_batch_size=1, eval_interval=0, eval_iters=1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"train_iters": 1000}, (16_000, 640, 160)),
        ({"train_samples": 16_015}, (16_015, 640, 160)),
        ({"train_samples": 16_015, "train_iters": 3000}, (16_015, 1760, 160)),
        ({"train_iters": 1000, "full_validation": True}, (16_000, None, 160)),
        ({"train_iters": 1000, "skip_train": True}, (16_000, 160, 160)),
        ({"train_iters": 1000, "start_eval_at_iter": 700}, (16_000, 320, 160)),
        ({"train_iters": 1000, "start_eval_at_iter": 7000}, (16_000, 0, 160)),
        ({"train_iters": 1000, "eval_global_batch_size": 32}, (16_000, 1280, 320)),
        ({"train_samples": 16_000, "phase_samples": 480}, (480, 640, 160)),
    ],
)
def test_megatron_requested_samples(given: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    asked = megatron_requested_samples(global_batch_size=16, eval_interval=300, eval_iters=10, **given)
    assert tuple(asked.values()) == expected


def test_megatron_needs_a_number_of_iterations_or_samples() -> None:
    with pytest.raises(BadQuery, match="neither"):
        megatron_requested_samples(global_batch_size=16, eval_interval=300, eval_iters=10)
