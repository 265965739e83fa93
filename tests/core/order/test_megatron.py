"""Megatron orders: the golden arrays of megatron-core, and what the rules say where no vector reaches."""

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
from typecase.core.order.blend import BlendTables
from typecase.core.order.epochs import PROFILES, EpochPlan, plan_epochs
from typecase.core.order.megatron import MegatronBlend, MegatronOrder, rows_dtype
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery
from typecase.store.tokens.store import TokenStore, open_tokens

CASES = cases("megatron-core")
SPLITS = ("train", "valid", "test")
OPTIONS = ("add_extra_token_to_sequence", "drop_last_partial_validation_sequence", "sequence_length", "split")
SHOWCASE = 4_533_297
"""Tokens of the train split of a public token set whose orders are known."""


def _folder() -> Path:
    return golden_folder() / "megatron-core"


def _lay(case: Case, split: Any, lengths: list[np.ndarray]) -> Tables | BlendTables:
    given: dict[str, Any] = {name: case[name] for name in OPTIONS if name in case}
    weights = None if case["weights"] is None else tuple(case["weights"])
    size = case["sizes"][SPLITS.index(split)]
    return MegatronBlend(random_seed=case["seed"], index_split=split, weights=weights, size=size, **given).lay(lengths)


def _same(ours: np.ndarray, golden: np.ndarray) -> None:
    assert ours.dtype == golden.dtype and np.array_equal(ours, golden)


def test_there_are_cases() -> None:
    assert CASES


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden(case: Case) -> None:
    golden = arrays("megatron-core", case["name"])
    stores = [open_tokens(_folder() / prefix) for prefix in case["prefixes"]]
    lengths = [store.lengths for store in stores]
    for split in SPLITS:
        if f"{split}.len" in golden:
            _check(_lay(case, split, lengths), split, golden, stores)
        else:
            with pytest.raises(BadQuery, match="makes no data set"):
                _lay(case, split, lengths)


def _check(laid: Tables | BlendTables, split: str, golden: dict[str, np.ndarray], stores: list[TokenStore]) -> None:
    if isinstance(laid, BlendTables):
        _same(laid.dataset_index, golden[f"{split}.dataset_index"])
        _same(laid.dataset_sample_index, golden[f"{split}.dataset_sample_index"])
    for k, member in enumerate(laid.members if isinstance(laid, BlendTables) else (laid,)):
        _same(member.sequences, golden[f"{split}.{k}.document_index"])
        _same(member.rows, golden[f"{split}.{k}.sample_index"])
        _same(member.shuffle, golden[f"{split}.{k}.shuffle_index"])
    assert laid.num_samples == golden[f"{split}.len"]
    ids = golden[f"{split}.sample_ids"].astype(np.int64)
    if len(ids):
        assert np.array_equal(tokens_of(laid.reads(ids), stores, laid.sample_tokens), golden[f"{split}.sample_tokens"])


@pytest.mark.parametrize(
    ("tokens", "options", "expected"),
    [
        (SHOWCASE, {"num_samples": 1_600}, (1, False, 2213, 2213)),
        (SHOWCASE, {"num_samples": 5_000}, (3, True, 4427, 6640)),
        (SHOWCASE, {"num_samples": 4_000}, (2, False, 4427, 4427)),
        (SHOWCASE, {"num_samples": 2_300}, (2, True, 2213, 4427)),
        (18_923, {"num_samples": None}, (1, False, 9, 9)),
        (18_923, {"num_samples": None, "partial": True}, (1, False, 10, 10)),
        (18_923, {"num_samples": 100, "sequence_length": 512, "extra": 0, "partial": True}, (3, True, 73, 111)),
        (0, {"num_samples": None}, (1, False, 0, 0)),
        (0, {"num_samples": 0, "extra": 0}, (1, False, 0, 0)),
        (5 << 40, {"num_samples": 10**10}, (4, True, 8_053_063_679, 10_737_418_239)),
        (1 << 31, {"num_samples": 1 << 20}, (2, True, 1_048_575, 2_097_151)),
        ((1 << 31) + 1, {"num_samples": 1 << 20}, (1, False, 1 << 20, 1 << 20)),
    ],
)
def test_plans(tokens: int, options: dict[str, Any], expected: tuple[int, bool, int, int]) -> None:
    plan = plan_epochs(tokens, **({"sequence_length": 2048, "extra": 1} | options))
    epochs, separate, before, samples = expected
    assert plan == EpochPlan(
        tokens_per_epoch=tokens,
        num_epochs=epochs,
        separate_last_epoch=separate,
        samples_before_last_epoch=before,
        num_samples=samples,
    )


@given(tokens=st.integers(1, 400), asked=st.integers(0, 300), length=st.integers(1, 50), extra=st.integers(0, 1))
def test_epochs_are_as_few_as_give_what_is_asked(tokens: int, asked: int, length: int, extra: int) -> None:
    plan = plan_epochs(tokens, num_samples=asked, sequence_length=length, extra=extra)
    epochs, walked = 1, tokens
    while walked < asked * length + extra:
        epochs, walked = epochs + 1, walked + tokens
    assert plan.num_epochs == epochs and plan.num_samples == (walked - extra) // length >= asked


def test_a_split_without_tokens() -> None:
    with pytest.raises(BadQuery, match="without end"):
        plan_epochs(0, num_samples=1, sequence_length=8, extra=1)
    with pytest.raises(BadQuery, match="no token"):
        plan_epochs(0, num_samples=None, sequence_length=1, extra=1)
    tiny = MegatronOrder(sequence_length=8, split="98,1,1", index_split="valid").lay(np.array([50, 50], np.int32))
    assert tiny.num_samples == 0 and tiny.rows.tolist() == [[0, 0]] and tiny.shuffle.dtype == np.uint32


def test_a_partial_sample_is_counted_in_float32() -> None:
    """2^24 + 1 is no float32 and rounds down, 2^25 + 3 rounds up."""
    kept: dict[str, Any] = {"num_samples": None, "sequence_length": 1, "extra": 1, "partial": True}
    assert plan_epochs((1 << 24) + 2, **kept).num_samples == 1 << 24
    with pytest.raises(BadQuery, match=r"float32.*drop the partial sequence"):
        plan_epochs((1 << 25) + 4, **kept)
    assert plan_epochs((1 << 25) + 4, **kept, profile=PROFILES["nemo1"]).num_samples == (1 << 25) + 3


def test_an_int64_rounds_to_float32_once() -> None:
    """2^60 + 2^36 + 1 lies just above the middle of two float32; a double would hold the middle and round down."""
    total = (1 << 60) + (1 << 36) + 1
    with pytest.raises(BadQuery, match=str((1 << 60) + (1 << 37))):
        plan_epochs(total + 1, num_samples=None, sequence_length=1, extra=1, partial=True)


def test_fewer_samples_than_asked_stop_the_builder_of_the_framework() -> None:
    """A validation set of 2^24 + 2 tokens, one a sample: asked for all, the float32 count misses one."""
    order = MegatronOrder(
        sequence_length=1,
        split=None,
        index_split="valid",
        num_samples=(1 << 24) + 1,
        drop_last_partial_validation_sequence=False,
    )
    with pytest.raises(BadQuery, match="ask for fewer"):
        order.lay(np.array([(1 << 24) + 2], np.int32))


def test_the_last_epoch_of_nemo1_must_not_exceed_one() -> None:
    """Two epochs of 11 tokens give 5 samples of 4, one epoch 2."""
    asked: dict[str, Any] = {"num_samples": 5, "sequence_length": 4, "extra": 1}
    assert plan_epochs(11, **asked).num_samples == 5
    with pytest.raises(BadQuery, match="one sample less"):
        plan_epochs(11, **asked, profile=PROFILES["nemo1"])


def test_row_types() -> None:
    assert rows_dtype((1 << 31) - 1, 5) == rows_dtype(5, (1 << 31) - 1) == "int32"
    assert rows_dtype(1 << 31, 5) == rows_dtype(5, 1 << 31) == "int64"
    lengths = np.array([40, 70], np.int32)
    types = {"core": "int32", "core-0.10": "int64", "core-0.4": "int32", "legacy": "int32", "nemo1": "int32"}
    for profile, dtype in types.items():
        assert MegatronOrder(sequence_length=8, profile=profile).lay(lengths).rows.dtype == dtype  # type: ignore[arg-type]
    assert MegatronOrder(sequence_length=8, profile="core-0.10", rows_dtype="int32").lay(lengths).rows.dtype == "int32"


def test_streams_longer_than_2_31() -> None:
    """Five sequences of 2 * 10^9 tokens, three epochs."""
    lengths = np.full(5, 2_000_000_000, np.int32)
    laid = MegatronOrder(sequence_length=1 << 20, split=None, num_samples=20_000).lay(lengths)
    assert laid.num_samples == (3 * 10**10 - 1) >> 20 and laid.rows.dtype == np.int32
    stream = laid.rows[:, 0].astype(np.int64) * 2_000_000_000 + laid.rows[:, 1]
    assert np.array_equal(stream, np.arange(laid.num_samples + 1, dtype=np.int64) << 20)
    assert laid.reads([19_999]).packing.sample_tokens.tolist() == [(1 << 20) + 1]


@pytest.mark.parametrize(
    ("profile", "train"), [("core", 47), ("core-0.10", 47), ("core-0.4", 48), ("legacy", 48), ("nemo1", 48)]
)
def test_profiles_split_their_way(profile: Any, train: int) -> None:
    assert MegatronOrder(sequence_length=8, profile=profile).sequence_range(49) == (0, train)


def test_the_separate_last_epoch_stays_last() -> None:
    laid = MegatronOrder(sequence_length=4, split=None, num_samples=27, random_seed=3).lay(np.full(20, 5, np.int32))
    plan = MegatronOrder(sequence_length=4, split=None, num_samples=27, random_seed=3).plan(np.full(20, 5, np.int32))
    assert plan.separate_last_epoch and plan.samples_before_last_epoch == 24
    assert sorted(laid.shuffle[:24].tolist()) == list(range(24))
    assert sorted(laid.sequences[:20].tolist()) == sorted(laid.sequences[20:].tolist()) == list(range(20))


def test_a_cut_last_sample_behind_an_empty_sequence() -> None:
    """The framework puts its end before the first token of the sequence, and stops."""
    order = MegatronOrder(sequence_length=4, split=None, index_split="valid", drop_last_partial_validation_sequence=False)
    for seed in range(20):
        laid = dataclasses.replace(order, random_seed=seed)
        last = np.random.RandomState(seed)
        sequences = np.arange(2)
        last.shuffle(sequences)
        if sequences[-1] == 0:
            with pytest.raises(BadQuery, match="no token"):
                laid.lay(np.array([0, 7], np.int32))
        else:
            assert laid.lay(np.array([0, 7], np.int32)).num_samples == 2


LENGTHS = st.lists(st.integers(0, 12) | st.just(1), min_size=1, max_size=8).filter(any)


@settings(max_examples=60, deadline=None)
@given(
    lengths=LENGTHS,
    asked=st.none() | st.integers(1, 12),
    length=st.integers(1, 9),
    extra=st.booleans(),
    seed=st.integers(0, 99),
    drop=st.booleans(),
    data=st.data(),
)
def test_sightings_are_the_inverse_of_reads(
    lengths: list[int], asked: int | None, length: int, extra: bool, seed: int, drop: bool, data: st.DataObject
) -> None:
    order = MegatronOrder(
        sequence_length=length,
        random_seed=seed,
        split=None,
        index_split="valid",
        num_samples=asked,
        add_extra_token_to_sequence=extra,
        drop_last_partial_validation_sequence=drop,
    )
    try:
        laid = order.lay(np.array(lengths, np.int32))
    except BadQuery as err:
        assert "ends with a sequence of no token" in str(err)
        return
    run = st.tuples(st.integers(0, len(lengths) - 1), st.integers(0, 12), st.integers(0, 13))
    runs = data.draw(st.lists(run, min_size=1, max_size=3))
    assert rows_of(laid.sightings(*zip(*runs, strict=True))) == brute_sightings(laid, runs)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sequence_length": 0}, "sequence length 0"),
        ({"num_samples": -1}, "num_samples is -1"),
        ({"random_seed": 1 << 32}, "random seed"),
        ({"split": "0,0,0"}, "split"),
        ({"split": "1,1,1,1"}, "four|4"),
        ({"index_split": "dev"}, "train, valid, test"),
        ({"profile": "mcore"}, "core-0.4"),
        ({"profile": "legacy", "add_extra_token_to_sequence": False}, r"0\.7"),
        ({"rows_dtype": "int16"}, "int16"),
    ],
)
def test_mistakes(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(BadQuery, match=says):
        MegatronOrder(**({"sequence_length": 8} | wrong))
