"""Verification: golden orders are found right; any single change of them, of the set, or of the parameters is found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.order.golden import cases, golden_folder
from typecase.core.order.megatron import MegatronOrder
from typecase.core.order.neox import NeoxOrder
from typecase.core.order.tables import Tables
from typecase.store.orders import walk
from typecase.store.orders.extra import extra_of
from typecase.store.orders.npy import open_npy, write_npy
from typecase.store.orders.verify import Packing, differences
from typecase.store.tokens.store import open_tokens

ARRAYS = ("sequences", "rows", "shuffle")


@dataclass(frozen=True, eq=False)
class Golden:
    """An order that a framework built."""

    name: str
    tables: Tables
    packing: Packing


@cache
def _lengths(framework: str, prefix: str) -> np.ndarray:
    with open_tokens(golden_folder() / framework / prefix) as store:
        return np.array(store.lengths)


@cache
def goldens() -> tuple[Golden, ...]:
    found = []
    for case in cases("megatron-core"):
        arrays = np.load(golden_folder() / "megatron-core" / f"{case['name']}.npz")
        extra = int(case.get("add_extra_token_to_sequence", True))
        for key in [key for key in arrays if key.endswith(".document_index")]:
            split, member, _ = key.split(".")
            three = [arrays[f"{split}.{member}.{part}_index"] for part in ("document", "sample", "shuffle")]
            lengths = _lengths("megatron-core", case["prefixes"][int(member)])
            tables = Tables(*three, lengths, case["sequence_length"], extra, len(three[2]))
            found.append(Golden(f"{case['name']}.{split}.{member}", tables, "packed"))
    for case in cases("gpt-neox"):
        if "prefix" in case:
            arrays = np.load(golden_folder() / "gpt-neox" / f"{case['name']}.npz")
            three = [arrays[part] for part in ("doc_idx", "sample_idx", "shuffle_idx")]
            lengths = _lengths("gpt-neox", case["prefix"])
            tables = Tables(*three, lengths, case["seq_length"], 1, int(arrays["length"]), wraps=True)
            found.append(Golden(case["name"], tables, case["packing_impl"]))
    return tuple(found)


def _codes(tables: Tables, lengths: np.ndarray | None = None, **options: Any) -> list[str]:
    found = differences(tables, tables.lengths if lengths is None else lengths, **options)
    assert all(d.sentence and d.remedy and str(d) == f"{d.sentence}; {d.remedy}" for d in found)
    return [difference.code for difference in found]


def _bounds(tables: Tables) -> tuple[int, int] | None:
    return (int(tables.sequences.min()), int(tables.sequences.max()) + 1) if len(tables.sequences) else None


@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: str(golden.name))
def test_golden_orders_belong(golden: Golden) -> None:
    assert _codes(golden.tables, packing=golden.packing) == []
    assert _codes(golden.tables, packing=golden.packing, bounds=_bounds(golden.tables)) == []
    assert _codes(golden.tables, packing=golden.packing, rebuilt=golden.tables) == []


def _mutant(data: st.DataObject, tables: Tables) -> Tables:
    """One element of one array changed."""
    name = data.draw(st.sampled_from([name for name in ARRAYS if getattr(tables, name).size]))
    array = getattr(tables, name).copy()
    flat = array.reshape(-1)
    place = data.draw(st.integers(0, len(flat) - 1))
    near = int(flat[place]) + data.draw(st.integers(-3, 3))
    far = data.draw(st.integers(int(flat.min()), int(flat.max())) | st.sampled_from([0, np.iinfo(array.dtype).max]))
    value = max(near, np.iinfo(array.dtype).min) if data.draw(st.booleans()) else far
    value = min(max(value, np.iinfo(array.dtype).min), np.iinfo(array.dtype).max)
    flat[place] = value if value != flat[place] else value ^ 1
    return replace(tables, **{name: array})


@settings(max_examples=400)
@given(data=st.data())
def test_any_single_change_is_found_without_the_order(data: st.DataObject) -> None:
    golden = data.draw(st.sampled_from([golden for golden in goldens() if golden.packing == "packed"]))
    assert _codes(_mutant(data, golden.tables), bounds=_bounds(golden.tables))


@settings(max_examples=400)
@given(data=st.data())
def test_any_single_change_is_found_beside_the_order(data: st.DataObject) -> None:
    golden = data.draw(st.sampled_from(goldens()))
    assert _codes(_mutant(data, golden.tables), packing=golden.packing, rebuilt=golden.tables)


@settings(max_examples=200)
@given(data=st.data())
def test_cut_arrays_and_changed_lengths_are_found(data: st.DataObject) -> None:
    golden = data.draw(st.sampled_from([golden for golden in goldens() if golden.packing != "unpacked"]))
    tables = golden.tables
    name = data.draw(st.sampled_from(ARRAYS))
    array = getattr(tables, name)
    if len(array) > 1:
        kept = data.draw(st.integers(0, len(array) - 1))
        assert _codes(replace(tables, **{name: array[:kept]}), packing=golden.packing, rebuilt=tables)
    if golden.packing == "packed" and len(tables.rows) > 1:
        # What lies before the last sample is bound to the rows; a cut last sample takes what there is.
        used = np.unique(tables.sequences[: int(tables.rows[-2, 0])])
        if len(used):
            lengths = tables.lengths.copy()
            lengths[data.draw(st.sampled_from(used.tolist()))] += data.draw(st.integers(1, 5))
            assert "rows" in _codes(tables, lengths) or "samples" in _codes(tables, lengths)


def _set(count: int = 500, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 60, count).astype(np.int32)


ORDER = MegatronOrder(sequence_length=32, random_seed=7, split="969,30,1", num_samples=1000)


def test_what_differs_is_named() -> None:
    lengths = _set()
    laid = ORDER.lay(lengths)
    assert _codes(laid, rebuilt=ORDER.lay(lengths)) == []
    for other, code in (
        (replace(ORDER, random_seed=8), "sequences-order"),
        (replace(ORDER, random_seed=8), "shuffle-order"),
        (replace(ORDER, split="960,39,1"), "split"),
        (replace(ORDER, num_samples=3000), "samples"),
        (replace(ORDER, num_samples=3000), "sequences-missing"),
        (replace(ORDER, sequence_length=16), "sample-length"),
        (replace(ORDER, add_extra_token_to_sequence=False), "extra-token"),
        (replace(ORDER, add_extra_token_to_sequence=False), "rows"),
    ):
        assert code in _codes(other.lay(lengths), rebuilt=laid)
    (first, *_) = differences(laid, lengths, rebuilt=replace(ORDER, random_seed=8).lay(lengths))
    assert "in another order: place 0 is sequence" in first.sentence and "another seed" in first.remedy


def test_an_edited_set_is_found_by_its_first_wrong_sample() -> None:
    lengths = _set()
    laid = ORDER.lay(lengths)
    edited = lengths.copy()
    edited[int(laid.sequences[200])] += 2
    alone, beside = differences(laid, edited), differences(laid, edited, rebuilt=ORDER.lay(edited))
    assert alone[0].code == "rows" and beside[0].code == "rows" and "edited or tokenised again" in alone[0].remedy
    first = int((laid.rows != ORDER.lay(edited).rows[: len(laid.rows)]).any(axis=1).argmax())
    assert alone[0].sentence.startswith(
        f"sample {first}: the file says ({laid.rows[first][0]}, {laid.rows[first][1]}), the set"
    )
    assert _codes(laid, lengths[:400]) == ["sequences-beyond"]
    grown = np.concatenate([lengths, lengths])
    assert "split" in _codes(laid, grown, rebuilt=ORDER.lay(grown))


def test_the_rule_of_the_other_framework_is_named() -> None:
    lengths = _set(500)
    neox = NeoxOrder(seq_length=32, seed=7, split="969,30,1", num_samples=300).lay(lengths)
    mine = replace(ORDER, num_samples=300)
    rules = {"Megatron-Core": mine.lay(lengths), "GPT-NeoX": neox}
    found = {d.code: d.sentence for d in differences(neox, lengths, rebuilt=mine.lay(lengths), alternatives=rules)}
    assert found["split"] == "the order draws from sequences [0, 485), this split gives [0, 484)"
    assert found["other-rule"] == "the arrays are exactly those of GPT-NeoX"
    assert differences(neox, lengths, rebuilt=neox, alternatives=rules) == ()
    assert _codes(replace(neox, num_samples=300), rebuilt=neox) == ["exposed"]


def test_the_extra_token_is_told() -> None:
    lengths = _set()
    with_one, without = (replace(ORDER, add_extra_token_to_sequence=flag).lay(lengths) for flag in (True, False))
    assert [extra_of(t.sequences, t.rows, lengths, seq_length=32).extra for t in (with_one, without)] == [1, 0]
    assert _codes(replace(with_one, extra=0)) == ["extra-token"] and _codes(replace(without, extra=1)) == ["extra-token"]
    (found,) = differences(replace(without, extra=1), lengths)
    assert "add_extra_token_to_sequence is False" in found.remedy


def test_a_cut_last_sample_that_ends_on_an_empty_sequence() -> None:
    order = MegatronOrder(
        sequence_length=2,
        split="0,1,0",
        index_split="valid",
        random_seed=0,
        add_extra_token_to_sequence=False,
        drop_last_partial_validation_sequence=False,
    )
    lengths = np.array([0, 1], np.int32)
    laid = order.lay(lengths)
    assert laid.sequences.tolist() == [1, 0] and laid.rows.tolist() == [[0, 0], [1, 0]]
    told = extra_of(laid.sequences, laid.rows, lengths, seq_length=2)
    assert (told.extra, told.certain) == (0, True) and _codes(laid, bounds=(0, 2)) == []


LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any).map(lambda n: np.array(n, np.int32))


@settings(max_examples=300)
@given(lengths=LENGTHS, seq_length=st.integers(1, 12), extra=st.booleans(), drop=st.booleans(), epochs=st.integers(0, 60))
def test_orders_of_any_set_belong_and_tell_their_extra_token(
    lengths: np.ndarray, seq_length: int, extra: bool, drop: bool, epochs: int
) -> None:
    order = MegatronOrder(
        sequence_length=seq_length,
        random_seed=epochs,
        split="0,1,0",
        index_split="valid",
        num_samples=epochs or None,
        add_extra_token_to_sequence=extra,
        drop_last_partial_validation_sequence=drop,
    )
    try:
        laid = order.lay(lengths)
    except Exception as error:  # noqa: BLE001 - what the framework refuses has no order to verify
        assert type(error).__name__ == "BadQuery"
        return
    assert _codes(laid, rebuilt=laid) == [] and _codes(laid, bounds=(0, len(lengths))) == []
    told = extra_of(laid.sequences, laid.rows, lengths, seq_length=seq_length)
    assert told.extra == extra or not told.certain
    if not told.certain:
        # Then it does not matter: both readings of the rows hold.
        assert len(laid.rows) < 2 or _codes(replace(laid, extra=1 - int(extra))) == []


def test_other_types_are_named() -> None:
    laid = ORDER.lay(_set())
    assert _codes(replace(laid, shuffle=laid.shuffle.astype(np.int32))) == ["dtype"]
    assert _codes(replace(laid, rows=laid.rows.astype(np.int64))) == []
    assert _codes(replace(laid, rows=laid.rows.astype(np.int64)), rebuilt=laid) == ["dtype"]
    assert "shape" in _codes(replace(laid, rows=laid.rows[:-1]))
    assert "shape" in _codes(replace(laid, rows=laid.rows[:0]), rebuilt=laid)


def test_unpacked_rows() -> None:
    rows = np.stack([np.arange(6), np.zeros(6, np.int64)], axis=1)
    tables = Tables(np.array([0, 1, 2, 0, 1, 2]), rows, np.arange(5), np.array([4, 5, 6]), 8, 1, 4, wraps=True)
    assert _codes(tables, packing="unpacked") == []
    rows[3, 1] = 1
    assert _codes(tables, packing="unpacked") == ["rows"]
    assert _codes(replace(tables, rows=rows[:3], shuffle=np.arange(2)), packing="unpacked") == ["rows"]


def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for golden in goldens():
        paths = [tmp_path / f"{golden.name}.{name}.npy" for name in ARRAYS]
        for name, path in zip(ARRAYS, paths, strict=True):
            write_npy(path, getattr(golden.tables, name), sync=False)
        mapped = [open_npy(path, ndim=1 + (name == "rows")) for name, path in zip(ARRAYS, paths, strict=True)]
        tables = replace(golden.tables, **dict(zip(ARRAYS, mapped, strict=True)))
        for chunk in (1, 2, 7):
            monkeypatch.setattr(walk, "CHUNK", chunk)
            monkeypatch.setattr("typecase.store.orders.verify.CHUNK", chunk)
            monkeypatch.setattr("typecase.store.orders.extra._CHUNK", chunk)
            assert _codes(tables, packing=golden.packing) == []
            told = extra_of(tables.sequences, tables.rows, tables.lengths, seq_length=tables.seq_length)
            assert golden.packing != "packed" or told.extra == tables.extra or not told.certain
