"""Random token sets, splits, weights and sizes through the real megatron-core: every array and every token must agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from tests.core.order.brute import tokens_of
from typecase.core.order.blend import BlendTables
from typecase.core.order.epochs import plan_epochs
from typecase.core.order.megatron import MegatronBlend
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery
from typecase.store.tokens.store import open_tokens

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
SPLITS = ("train", "valid", "test")


@dataclass
class Tokenizer:
    """As much of a tokenizer as the framework looks at. No token is -1, so no token is taken for padding."""

    eod: int = 0
    pad: int = -1
    vocab_size: int = 60_000

    @property
    def unique_identifiers(self) -> dict[str, Any]:
        return {"class": "T", "v": self.vocab_size}


@pytest.fixture(scope="module")
def build() -> Callable[..., list[Any]]:
    """The data sets (train, valid, test) that megatron-core makes of prefixes."""
    gpt = pytest.importorskip("megatron.core.datasets.gpt_dataset", reason="needs the oracle extra")
    builder = pytest.importorskip("megatron.core.datasets.blended_megatron_dataset_builder", reason="needs the oracle extra")

    def run(sizes: list[int | None], **config: Any) -> list[Any]:
        flags = dict.fromkeys(("reset_position_ids", "reset_attention_mask", "eod_mask_loss", "create_attention_mask"), False)
        made = gpt.GPTDatasetConfig(tokenizer=Tokenizer(), **flags, **config)
        return builder.BlendedMegatronDatasetBuilder(gpt.GPTDataset, sizes, lambda: True, made).build()

    return run


def _write(prefix: Path, lengths: list[int], seed: int) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset", reason="needs the oracle extra")
    torch = pytest.importorskip("torch", reason="needs the oracle extra")
    rng = np.random.default_rng(seed)
    builder = indexed.IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    for length in lengths:
        builder.add_document(torch.tensor(rng.integers(1, 60_000, length)), [length])
    builder.finalize(f"{prefix}.idx")


def _compare(laid: Tables | BlendTables, theirs: Any, prefixes: list[Path]) -> None:
    members = [theirs]
    if isinstance(laid, BlendTables):
        members = theirs.datasets
        _same(laid.dataset_index, theirs.dataset_index)
        _same(laid.dataset_sample_index, theirs.dataset_sample_index)
    for ours, member in zip(laid.members if isinstance(laid, BlendTables) else (laid,), members, strict=True):
        _same(ours.sequences, member.document_index)
        _same(ours.rows, member.sample_index)
        _same(ours.shuffle, member.shuffle_index)
    assert laid.num_samples == len(theirs)
    stores = [open_tokens(prefix) for prefix in prefixes]
    found = tokens_of(laid.reads(range(len(theirs))), stores, laid.sample_tokens)
    for index in range(len(theirs)):
        item = theirs[index]
        tokens = item["tokens"].tolist()
        assert found[index].tolist() == (tokens + item["labels"].tolist()[-1:])[: laid.sample_tokens]


def _same(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs)


LENGTHS = st.lists(st.integers(0, 40) | st.integers(0, 1), min_size=1, max_size=30).filter(any)
PARTS = st.sampled_from(["969,30,1", "98,1,1", "1,1,1", "60,20,20", "100,0,0", "8, 1, 1", "0.7,0.2,.1", "70,30", "0,1,1", "1"])
SIZES = st.integers(0, 60) | st.integers(1, 200) | st.none()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    sets=st.lists(st.tuples(LENGTHS, st.floats(0.05, 20)), min_size=1, max_size=3),
    weighted=st.booleans(),
    per_split=st.booleans(),
    split=PARTS,
    sizes=st.tuples(SIZES, SIZES, SIZES),
    length=st.integers(1, 24),
    extra=st.booleans(),
    drop=st.booleans(),
    seed=st.integers(0, (1 << 32) - 1),
    surplus=st.sampled_from([0.0, 0.005, 0.5]),
)
def test_every_array_and_token(
    tmp_path_factory: pytest.TempPathFactory,
    build: Callable[..., list[Any]],
    sets: list[tuple[list[int], float]],
    weighted: bool,
    per_split: bool,
    split: str,
    sizes: tuple[int | None, int | None, int | None],
    length: int,
    extra: bool,
    drop: bool,
    seed: int,
    surplus: float,
) -> None:
    weights = tuple(weight for _, weight in sets) if weighted and None not in sizes else None
    common: dict[str, Any] = {
        "sequence_length": length,
        "random_seed": seed,
        "add_extra_token_to_sequence": extra,
        "drop_last_partial_validation_sequence": drop,
        "split": None if per_split else split,
    }
    lengths = [np.array(own, np.int32) for own, _ in sets]
    laid: list[Tables | BlendTables | None] = []
    refusals = ""
    for name, size in zip(SPLITS, sizes, strict=True):
        blend = MegatronBlend(**common, index_split=name, weights=weights, size=size, surplus=surplus)  # type: ignore[arg-type]
        try:
            laid.append(blend.lay(lengths))
        except BadQuery as err:
            laid.append(None)
            refusals += str(err) * ("makes no data set" not in str(err))
    # There the framework would never come back, or write outside of its memory.
    assume("without end" not in refusals and "cannot build samples" not in refusals)

    folder = tmp_path_factory.mktemp("oracle")
    prefixes = [folder / f"s{k}" for k in range(len(sets))]
    for prefix, (own, _) in zip(prefixes, sets, strict=True):
        _write(prefix, own, seed)
    paths = ([str(prefix) for prefix in prefixes], None if weights is None else list(weights))
    where: dict[str, Any] = {"blend_per_split": [paths] * 3} if per_split else {"blend": paths}
    config = common | where | {"mid_level_dataset_surplus": surplus}
    if refusals:
        event(f"refused: {refusals[:60]}")
        with pytest.raises((AssertionError, IndexError)):
            build(list(sizes), **config)
        return
    for ours, theirs in zip(laid, build(list(sizes), **config), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            event("blend" if isinstance(ours, BlendTables) else "plain")
            _compare(ours, theirs, prefixes)


@pytest.mark.parametrize("total", [10**8 + 7, 10**9 + 13, 3 * 10**9 + 1, 7 * 10**9 + 11, 2**31, 2**31 + 1, 2**33 + 12_345])
@pytest.mark.parametrize("length", [4096, 5000, 8192])
def test_the_float32_count_of_partial_samples(total: int, length: int) -> None:
    """Giant sequences, lengths only, through the compiled helper, which counts the rows of its result."""
    helpers = pytest.importorskip("megatron.core.datasets.helpers", reason="needs the oracle extra")
    sequences = np.arange(-(-total // (1 << 30)), dtype=np.int32)
    lengths = np.full(len(sequences), 1 << 30, np.int32)
    lengths[-1] -= (len(sequences) << 30) - total
    try:
        plan = plan_epochs(total, num_samples=None, sequence_length=length, extra=1, partial=True)
    except BadQuery as err:
        # The helper of the wheel is built without assertions and pads.
        rows = helpers.build_sample_idx(lengths, sequences, length, 1, total, False, True)
        assert f"counts {len(rows) - 1} samples" in str(err) and len(rows) - 1 > -(-(total - 1) // length)
        return
    rows = helpers.build_sample_idx(lengths, sequences, length, 1, total, False, True)
    assert plan.num_samples == len(rows) - 1
