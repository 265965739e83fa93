"""The index files of GPT-NeoX: names, and the very bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.order.golden import cases, golden_folder
from typecase.core.order.tables import Tables
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound
from typecase.store.orders.neox_files import PARTS, NeoxIndexName, find_neox_indexes, read_neox_index, write_neox_index
from typecase.store.tokens.store import open_tokens

FOLDER = golden_folder() / "gpt-neox"
CASES = [case for case in cases("gpt-neox") if "prefix" in case]
LENGTHS = np.array([7, 8, 9], np.int32)


def _name(case: dict[str, Any]) -> NeoxIndexName:
    return NeoxIndexName(
        case["prefix"],
        "train",
        case["num_samples"],
        case["seq_length"],
        case["seed"],
        case["packing_impl"],
        case["allow_chopped"],
    )


NAMES = st.builds(
    NeoxIndexName,
    prefix=st.text(min_size=0, max_size=30) | st.just("x_train_indexmap_1ns_2sl_3s_packedpi_doc_idx"),
    name=st.sampled_from(["train", "valid", "test", "train_0", "valid_12", "test_3"]),
    num_samples=st.none() | st.integers(0, 10**12),
    seq_length=st.integers(1, 10**6),
    seed=st.integers(0, 2**32 - 1),
    packing_impl=st.sampled_from([None, "packed", "pack_until_overflow", "unpacked"]),
    allow_chopped=st.booleans(),
).filter(lambda name: name.packing_impl is not None or name.allow_chopped)


@given(name=NAMES, part=st.sampled_from(PARTS))
def test_names_are_read_as_they_are_written(name: NeoxIndexName, part: str) -> None:
    assert NeoxIndexName.parse(name.stem) == name
    assert NeoxIndexName.parse(f"{name.stem}_{part}.npy") == name
    assert name.split in ("train", "valid", "test")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pile_0.87_deduped_text_document_train_indexmap_146432000ns_2048sl_1234s_doc_idx.npy", ("train", 146432000, None)),
        ("c_train_0_indexmap_Nonens_32sl_1s_packedpi_ac_shuffle_idx.npy", ("train_0", None, "packed")),
        ("c_valid_indexmap_8ns_32sl_1s_pack_until_overflowpi_sample_idx.npy", ("valid", 8, "pack_until_overflow")),
        ("c_test_2_indexmap_8ns_32sl_1s", ("test_2", 8, None)),
    ],
)
def test_names_of_all_ages(text: str, expected: tuple[object, ...]) -> None:
    name = NeoxIndexName.parse(text)
    assert (name.name, name.num_samples, name.packing_impl) == expected
    assert text.startswith(name.stem)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "corpus.bin",
        "c_train_indexmap_5ns_2sl_1s_otherpi",
        "c_dev_indexmap_5ns_2sl_1s",
        "c_train_indexmap_-1ns_2sl_1s",
        "c_train",
    ],
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(BadQuery, match="is no index of GPT-NeoX"):
        NeoxIndexName.parse(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_golden_files_are_read_and_written_bit_for_bit(tmp_path: Path, case: dict[str, Any]) -> None:
    arrays = np.load(FOLDER / f"{case['name']}.npz")
    name = _name(case)
    with open_tokens(FOLDER / case["prefix"]) as store:
        lengths = np.array(store.lengths)
    if name.paths(FOLDER)[0].exists():
        for path in (FOLDER / name.stem, *name.paths(FOLDER)):
            tables = read_neox_index(path, lengths)
            assert np.array_equal(tables.sequences, arrays["doc_idx"]) and tables.sequences.dtype == arrays["doc_idx"].dtype
            assert np.array_equal(tables.rows, arrays["sample_idx"]) and tables.rows.dtype == arrays["sample_idx"].dtype
            assert np.array_equal(tables.shuffle, arrays["shuffle_idx"]) and tables.shuffle.dtype == arrays["shuffle_idx"].dtype
            assert tables.num_samples == int(arrays["length"]) and tables.wraps and tables.extra == 1
    ours = Tables(arrays["doc_idx"], arrays["sample_idx"], arrays["shuffle_idx"], lengths, case["seq_length"], 1, 0, wraps=True)
    for path in write_neox_index(tmp_path, name, ours):
        if (FOLDER / path.name).exists():
            assert path.read_bytes() == (FOLDER / path.name).read_bytes()


def test_every_set_is_found(tmp_path: Path) -> None:
    found = find_neox_indexes(FOLDER)
    assert {index.name.stem for index in found} == {f.name.removesuffix("_doc_idx.npy") for f in FOLDER.glob("*_doc_idx.npy")}
    assert all(index.complete for index in found)
    for case in CASES[:2]:
        mine = [index for index in found if index.name.prefix == case["prefix"]]
        for way in ("", ".bin", ".idx"):
            assert [i.name for i in find_neox_indexes(FOLDER / (case["prefix"] + way))] == [i.name for i in mine]
    assert find_neox_indexes(tmp_path) == ()
    with pytest.raises(NotFound, match="there is no folder"):
        find_neox_indexes(tmp_path / "a" / "b")


def _toy(seq_length: int = 4) -> Tables:
    rows = np.array([[0, 0], [0, 4], [1, 1], [1, 5], [2, 1], [2, 5]], np.int32)
    return Tables(np.arange(3, dtype=np.int32), rows, np.arange(5, dtype=np.uint32), LENGTHS, seq_length, 1, 4, wraps=True)


def test_the_number_of_samples_by_age(tmp_path: Path) -> None:
    name = NeoxIndexName("c", "train", 5, 4, 1, None)
    write_neox_index(tmp_path, name, _toy())
    new, old = (read_neox_index(tmp_path / name.stem, LENGTHS, wraps=wraps) for wraps in (True, False))
    assert (new.num_samples, new.wraps, old.num_samples, old.wraps) == (4, True, 5, False)
    assert new.reads([0, 4, 5]).samples.tolist() == [0, 4, 1]


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    name = NeoxIndexName("c", "train", 5, 4, 1)
    with pytest.raises(NotFound, match="find_neox_indexes lists"):
        read_neox_index(tmp_path / name.stem, LENGTHS)
    documents, samples, shuffle = write_neox_index(tmp_path, name, _toy())
    write_neox_index(tmp_path, name, _toy())
    with pytest.raises(AlreadyExists):
        write_neox_index(
            tmp_path, name, Tables(*[a[:2] for a in (_toy().sequences, _toy().rows, _toy().shuffle)], LENGTHS, 4, 1, 1)
        )
    with pytest.raises(BadQuery, match="says 4 tokens a sample, the order has 8"):
        write_neox_index(tmp_path, name, _toy(8))
    samples.write_bytes(documents.read_bytes())
    with pytest.raises(CorruptStore, match="2 dimensions"):
        read_neox_index(documents, LENGTHS)
    shuffle.unlink()
    assert find_neox_indexes(tmp_path)[0].missing == (shuffle,)
    with pytest.raises(NotFound, match="is missing although others"):
        read_neox_index(samples, LENGTHS)
