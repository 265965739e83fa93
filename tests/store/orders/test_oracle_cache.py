"""Megatron-core starts from the caches that we write: a cache with a reversed shuffle gives the reversed order of samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from typecase.core.order.blend import BlendTables
from typecase.core.order.blending import normalised
from typecase.core.order.megatron import MegatronBlend, MegatronOrder
from typecase.core.order.tables import Tables
from typecase.store.orders.descriptions import Description, describe_blend, describe_megatron
from typecase.store.orders.megatron_files import (
    find_megatron_indexes,
    megatron_cache_folder,
    members_of,
    read_megatron_blend,
    read_megatron_index,
    the_match,
    write_megatron_blend,
    write_megatron_index,
)
from typecase.store.tokens.store import open_tokens
from typecase.store.tokens.writer import TokenSetWriter

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

SPLIT, SEED, LENGTH = "100,0,0", 11, 16


@dataclass
class Tokenizer:
    """As much of a tokenizer as the framework looks at; no token is -1."""

    eod: int = 0
    pad: int = -1
    vocab_size: int = 60_000

    @property
    def unique_identifiers(self) -> dict[str, Any]:
        return {"class": "tests.Tokenizer", "tokenizer_path": None, "vocab_size": "60000"}


@pytest.fixture(scope="module")
def build() -> Callable[..., list[Any]]:
    """The data sets (train, valid, test) that megatron-core makes of a blend."""
    gpt = pytest.importorskip("megatron.core.datasets.gpt_dataset", reason="needs the oracle extra")
    builder = pytest.importorskip("megatron.core.datasets.blended_megatron_dataset_builder", reason="needs the oracle extra")

    def run(blend: tuple[list[str], list[float] | None], size: int, **options: Any) -> list[Any]:
        flags = dict.fromkeys(("reset_position_ids", "reset_attention_mask", "eod_mask_loss", "create_attention_mask"), False)
        config = gpt.GPTDatasetConfig(
            random_seed=SEED, sequence_length=LENGTH, blend=blend, split=SPLIT, tokenizer=Tokenizer(), **flags, **options
        )
        made: list[Any] = builder.BlendedMegatronDatasetBuilder(gpt.GPTDataset, [size, 1, 1], lambda: True, config).build()
        return made

    return run


def _write(prefix: Path, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 40, 60)
    with TokenSetWriter(prefix, np.uint16) as writer:
        writer.append(rng.integers(1, 60_000, int(lengths.sum())), lengths)
    with open_tokens(prefix) as store:
        return np.array(store.lengths)


def _described(prefix: Path, size: int | None) -> Description:
    return describe_megatron(
        dataset_path=str(prefix),
        num_samples=size,
        index_split="train",
        random_seed=SEED,
        sequence_length=LENGTH,
        split=SPLIT,
        tokenizer=Tokenizer().unique_identifiers,
    )


def _tokens(laid: Tables | BlendTables, prefixes: list[Path]) -> list[list[int]]:
    reads = laid.reads(range(laid.num_samples))
    stores = [open_tokens(prefix) for prefix in prefixes]
    columns = (reads.packing.docs.tolist(), reads.packing.starts.tolist(), reads.packing.stops.tolist())
    found = []
    for k, (first, last) in enumerate(pairwise(reads.packing.bounds.tolist())):
        store = stores[int(reads.members[k])]
        pieces = zip(*(column[first:last] for column in columns), strict=True)
        found.append([token for piece in pieces for token in store.read_sequence(*piece).tolist()])
    return found


def _given(dataset: Any) -> list[list[int]]:
    items = (dataset[k] for k in range(len(dataset)))
    return [item["tokens"].tolist() + item["labels"].tolist()[-1:] for item in items]


def _reversed(tables: Tables) -> Tables:
    return replace(tables, shuffle=np.ascontiguousarray(tables.shuffle[::-1]))


@pytest.mark.parametrize("beside", [False, True])
def test_it_starts_from_our_cache_of_one_set(build: Callable[..., list[Any]], tmp_path: Path, beside: bool) -> None:
    prefix = tmp_path / "corpus_text_document"
    laid = MegatronOrder(sequence_length=LENGTH, random_seed=SEED, split=SPLIT, num_samples=150).lay(_write(prefix, 1))
    cache = megatron_cache_folder(prefix) if beside else tmp_path / "cache"
    theirs = build(([str(prefix)], None), 150, path_to_cache=None if beside else str(tmp_path / "built"))[0]
    for path in write_megatron_index(cache, _described(prefix, 150), laid, replace=True):
        if not beside:
            assert path.read_bytes() == (tmp_path / "built" / path.name).read_bytes()
    assert _given(theirs) == _tokens(laid, [prefix])
    write_megatron_index(cache, _described(prefix, 150), _reversed(laid), replace=True)
    again = build(([str(prefix)], None), 150, path_to_cache=None if beside else str(cache))[0]
    assert _given(again) == _tokens(_reversed(laid), [prefix]) != _tokens(laid, [prefix])


def test_it_starts_from_our_cache_of_a_blend(build: Callable[..., list[Any]], tmp_path: Path) -> None:
    prefixes = [tmp_path / name for name in ("one", "two")]
    lengths = [_write(prefix, k) for k, prefix in enumerate(prefixes)]
    weights = (0.3, 0.7)
    order = MegatronBlend(sequence_length=LENGTH, random_seed=SEED, split=SPLIT, weights=weights, size=100)
    laid = order.lay(lengths)
    assert isinstance(laid, BlendTables)
    mine = replace(laid, members=tuple(map(_reversed, laid.members)), dataset_index=laid.dataset_index[::-1].copy())
    counts = np.zeros(2, np.int64)
    for k, owner in enumerate(mine.dataset_index):
        mine.dataset_sample_index[k] = counts[owner]
        counts[owner] += 1
    assert all(counts <= [len(member.shuffle) for member in mine.members])
    described = [_described(prefix, size) for prefix, size in zip(prefixes, order.samples_asked(2), strict=True)]
    blend = describe_blend(described, weights=normalised(normalised(weights)), size=100)
    for one, member in zip(described, mine.members, strict=True):
        write_megatron_index(tmp_path / "cache", one, member)
    write_megatron_blend(tmp_path / "cache", blend, mine)
    # Without a process group the framework cannot write a blend's cache: that it starts at all shows that it found ours.
    theirs = build(([str(prefix) for prefix in prefixes], list(weights)), 100, path_to_cache=str(tmp_path / "cache"))
    assert _given(theirs[0]) == _tokens(mine, prefixes)


def test_we_read_a_cache_that_it_left(build: Callable[..., list[Any]], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the oracle extra")
    prefixes = [tmp_path / name for name in ("one", "two")]
    lengths = [_write(prefix, k) for k, prefix in enumerate(prefixes)]
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        theirs = build(([str(prefix) for prefix in prefixes], [1.0, 4.0]), 90, path_to_cache=str(tmp_path / "cache"))[0]
    finally:
        torch.distributed.destroy_process_group()
    sets = find_megatron_indexes(tmp_path / "cache", index_split="train", num_samples=90)
    found = the_match(sets)
    members = [read_megatron_index(index, n) for index, n in zip(members_of(found, sets), lengths, strict=True)]
    laid = read_megatron_blend(found, members)
    assert _tokens(laid, prefixes) == _given(theirs) and laid.num_samples == len(theirs)
    assert found.description is not None
    mine = describe_blend(found.description.members, weights=normalised(normalised([1.0, 4.0])), size=laid.num_samples)
    assert mine.md5 == found.md5
    for path in write_megatron_blend(tmp_path / "ours", found.description, laid):
        assert path.read_bytes() == (tmp_path / "cache" / path.name).read_bytes()
