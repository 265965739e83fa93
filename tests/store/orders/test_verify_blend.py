"""Verification of blends: right ones of the frameworks belong, and any single change is found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.order.golden import cases, golden_folder
from typecase.core.order.blend import BlendTables
from typecase.core.order.tables import Tables
from typecase.store.orders.verify_blend import blend_differences


def _member(size: int) -> Tables:
    nothing = np.zeros(0, np.int32)
    return Tables(nothing, np.zeros((size + 1, 2), np.int32), np.arange(size, dtype=np.uint32), nothing, 8, 1, size)


@cache
def blends() -> tuple[BlendTables, ...]:
    found = []
    for case in cases("gpt-neox"):
        if "blend_sizes" in case:
            arrays = np.load(golden_folder() / "gpt-neox" / f"{case['name']}.npz")
            owners, samples = arrays["dataset_index"], arrays["dataset_sample_index"]
            found.append(BlendTables(tuple(map(_member, case["blend_sizes"])), owners, samples, len(owners), wraps=True))
    for case in cases("megatron-core"):
        arrays = np.load(golden_folder() / "megatron-core" / f"{case['name']}.npz")
        for split in ("train", "valid", "test"):
            if f"{split}.dataset_index" in arrays:
                sizes = [len(arrays[f"{split}.{k}.shuffle_index"]) for k in range(len(case["prefixes"]))]
                owners, samples = arrays[f"{split}.dataset_index"], arrays[f"{split}.dataset_sample_index"]
                found.append(BlendTables(tuple(map(_member, sizes)), owners, samples, len(owners)))
    return tuple(found)


def _codes(blend: BlendTables, **options: Any) -> list[str]:
    return [difference.code for difference in blend_differences(blend, **options)]


def test_golden_blends_belong() -> None:
    for blend in blends():
        assert _codes(blend) == [] and _codes(blend, rebuilt=blend) == []


@given(data=st.data())
def test_any_single_change_is_found(data: st.DataObject) -> None:
    blend = data.draw(st.sampled_from([blend for blend in blends() if len(blend.dataset_index)]))
    name = data.draw(st.sampled_from(["dataset_index", "dataset_sample_index"]))
    array = getattr(blend, name).copy()
    place = data.draw(st.integers(0, len(array) - 1))
    value = data.draw(st.integers(0, 5))
    array[place] = value if value != array[place] else value + 1
    mutant = replace(blend, **{name: array})
    assert _codes(mutant, rebuilt=blend)
    # The last index may be any member's next: only the rule tells that.
    assert _codes(mutant) or (
        name == "dataset_index" and blend.dataset_sample_index[place] == mutant.dataset_sample_index[place]
    )


def test_what_differs_is_named() -> None:
    blend = BlendTables((_member(3), _member(3)), np.array([0, 1, 0], np.int16), np.array([0, 0, 1]), 3)
    assert _codes(blend) == []
    assert _codes(replace(blend, members=(_member(1), _member(3)))) == ["blend-oversampled"]
    assert _codes(replace(blend, dataset_index=np.array([0, 1, 2], np.int16))) == ["blend-member"]
    assert _codes(replace(blend, dataset_sample_index=np.array([0, 0, 2]))) == ["blend-sample"]
    assert _codes(replace(blend, dataset_index=blend.dataset_index.astype(np.int32))) == ["blend-dtype"]
    assert _codes(replace(blend, num_samples=2), rebuilt=blend) == ["blend-samples"]
    other = replace(blend, dataset_index=np.array([1, 0, 0], np.int16))
    (found,) = blend_differences(other, rebuilt=blend)
    assert found.code == "blend-order" and found.sentence == "index 0 is served by member 1, built anew 0"


@pytest.mark.parametrize("chunk", [1, 2])
def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr("typecase.store.orders.verify_blend.CHUNK", chunk)
    for blend in blends():
        assert _codes(blend, rebuilt=blend) == []
