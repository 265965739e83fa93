"""Caches of Megatron: found by what they describe, read, and written in the very names and bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core.order.golden import cases, golden_folder
from typecase.core.order.blend import BlendTables
from typecase.core.order.blending import choose, choose_all, normalised
from typecase.core.order.tables import Tables
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound
from typecase.store.orders.descriptions import Description, describe_blend, describe_megatron
from typecase.store.orders.extra import extra_of
from typecase.store.orders.megatron_files import (
    MegatronIndex,
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

FOLDER = golden_folder() / "megatron-core"
CASES = cases("megatron-core")
SPLITS = ("train", "valid", "test")


def _lengths(prefix: str) -> np.ndarray:
    with open_tokens(FOLDER / prefix) as store:
        return np.array(store.lengths)


def _stored(arrays: Any, split: str, member: int) -> tuple[np.ndarray, ...]:
    return tuple(arrays[f"{split}.{member}.{part}_index"] for part in ("document", "sample", "shuffle"))


def _extra(case: dict[str, Any]) -> int:
    return int(case.get("add_extra_token_to_sequence", True))


def _found(case: dict[str, Any], split: str, size: int | None) -> MegatronIndex:
    prefix = case["prefixes"][0]
    return the_match(
        find_megatron_indexes(
            megatron_cache_folder(FOLDER / prefix),
            dataset_path=str(FOLDER / prefix),
            num_samples=size,
            index_split=split,
            random_seed=case["seed"],
            sequence_length=case["sequence_length"],
            split=case["split"],
        )
    )


@pytest.mark.parametrize("case", [c for c in CASES if len(c["prefixes"]) == 1], ids=lambda case: str(case["name"]))
def test_the_order_of_a_golden_case_is_found(case: dict[str, Any]) -> None:
    arrays = np.load(FOLDER / f"{case['name']}.npz")
    for split, size in zip(SPLITS, case["sizes"], strict=True):
        if f"{split}.0.document_index" not in arrays:
            continue
        lengths = _lengths(case["prefixes"][0])
        tables = read_megatron_index(_found(case, split, size), lengths)
        for mine, theirs in zip((tables.sequences, tables.rows, tables.shuffle), _stored(arrays, split, 0), strict=True):
            assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)
        assert tables.num_samples == int(arrays[f"{split}.len"]) and tables.seq_length == case["sequence_length"]
        told = extra_of(tables.sequences, tables.rows, lengths, seq_length=tables.seq_length)
        assert told.extra == _extra(case) or not told.certain


def test_every_golden_cache_is_written_bit_for_bit(tmp_path: Path) -> None:
    for folder in sorted(FOLDER.glob("*/cache/GPTDataset_indices")):
        sets = find_megatron_indexes(folder)
        assert {file for index in sets for file in index.paths.values()} == set(folder.iterdir())
        for index in sets:
            assert index.complete and index.matches and not index.problems and index.description is not None
            tables = read_megatron_index(index, _lengths(folder.parents[1].name))
            mine = write_megatron_index(tmp_path, index.description, tables)
            assert sorted(path.name for path in mine) == sorted(path.name for path in index.paths.values())
            for path in mine:
                assert path.read_bytes() == (folder / path.name).read_bytes()


@pytest.mark.parametrize("case", [c for c in CASES if len(c["prefixes"]) > 1], ids=lambda case: str(case["name"]))
def test_blends_are_written_found_and_read(tmp_path: Path, case: dict[str, Any]) -> None:
    arrays = np.load(FOLDER / f"{case['name']}.npz")
    lengths = [_lengths(prefix) for prefix in case["prefixes"]]
    for split, size in zip(SPLITS, case["sizes"], strict=True):
        if f"{split}.dataset_index" not in arrays:
            continue
        stored = [_stored(arrays, split, k) for k in range(len(lengths))]
        members = tuple(
            Tables(*stored[k], lengths[k], case["sequence_length"], 1, len(stored[k][2])) for k in range(len(stored))
        )
        owners, samples = arrays[f"{split}.dataset_index"], arrays[f"{split}.dataset_sample_index"]
        described = [
            describe_megatron(
                dataset_path=f"./{prefix}",
                num_samples=None if size is None else len(member.shuffle),
                index_split=split,
                random_seed=case["seed"],
                sequence_length=case["sequence_length"],
                split=case["split"],
                tokenizer={"class": "T"},
            )
            for prefix, member in zip(case["prefixes"], members, strict=True)
        ]
        if case["weights"] is None:
            weights: list[Any] = [len(member.shuffle) for member in members]
            assert np.array_equal(choose_all(weights)[0], owners)
        else:
            weights = normalised(normalised(case["weights"]))
            assert np.array_equal(choose(weights, len(owners))[0], owners)
        blend = describe_blend(described, weights=weights, size=None if size is None else len(owners))
        for one, member in zip(described, members, strict=True):
            write_megatron_index(tmp_path, one, member)
        paths = write_megatron_blend(tmp_path, blend, BlendTables(members, owners, samples, len(owners)))
        assert [path.name for path in paths] == [
            f"{blend.md5}-BlendedDataset-{split}-{part}"
            for part in ("description.txt", "dataset_index.npy", "dataset_sample_index.npy")
        ]
        sets = find_megatron_indexes(tmp_path, index_split=split, class_name="BlendedDataset", random_seed=case["seed"])
        found = the_match(sets)
        again = [read_megatron_index(m, n) for m, n in zip(members_of(found, sets), lengths, strict=True)]
        laid = read_megatron_blend(found, again)
        mine, theirs = (
            laid.reads(range(len(owners))),
            BlendTables(members, owners, samples, len(owners)).reads(range(len(owners))),
        )
        assert np.array_equal(mine.members, theirs.members) and np.array_equal(mine.packing.docs, theirs.packing.docs)
        assert laid.num_samples == int(arrays[f"{split}.len"]) == len(owners)


TOY = {
    "dataset_path": "corpora/a",
    "num_samples": 5,
    "index_split": "train",
    "random_seed": 1,
    "sequence_length": 4,
    "split": "1",
    "tokenizer": {"class": "T"},
}
LENGTHS = np.array([7, 8, 9], np.int32)


def _toy(**changes: Any) -> Description:
    return describe_megatron(**{**TOY, **changes})


def _tables() -> Tables:
    rows = np.array([[0, 0], [0, 4], [1, 1], [1, 5], [2, 1], [2, 5]], np.int32)
    return Tables(np.arange(3, dtype=np.int32), rows, np.arange(5, dtype=np.uint32), LENGTHS, 4, 1, 5)


def test_near_misses_say_which_keys_differ(tmp_path: Path) -> None:
    for changes in (
        {},
        {"num_samples": 6},
        {"num_samples": 6, "random_seed": 2},
        {"dataset_path": "corpora/b"},
        {"split": None},
    ):
        write_megatron_index(tmp_path, _toy(**changes), _tables())
    sets = find_megatron_indexes(tmp_path, **TOY)
    assert the_match(sets).md5 == _toy().md5 and [index.matches for index in sets] == [True, False, False, False, False]
    assert {index.md5: index.differs for index in sets[1:]} == {
        _toy(num_samples=6).md5: ("num_samples is 6, asked 5",),
        _toy(num_samples=6, random_seed=2).md5: ("num_samples is 6, asked 5", "random_seed is 2, asked 1"),
        _toy(dataset_path="corpora/b").md5: ("dataset_path is 'corpora/b', asked 'corpora/a'",),
        _toy(split=None).md5: ("split is None, asked '1'",),
    }
    assert sets[-1].md5 == _toy(num_samples=6, random_seed=2).md5
    with pytest.raises(NotFound, match=r"nearest: .*random_seed is 1, asked 7"):
        the_match(find_megatron_indexes(tmp_path, random_seed=7, num_samples=5))
    with pytest.raises(BadQuery, match=r"2 sets of .* ask for more keys"):
        the_match(find_megatron_indexes(tmp_path, num_samples=6))
    with pytest.raises(NotFound, match="there is no folder"):
        find_megatron_indexes(tmp_path / "x")


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ("/data/corpora/a", True),
        ("./corpora/a", True),
        ("a", True),
        ("/other/a", False),
        ("xcorpora/a", False),
        ("a/", True),
        (None, False),
    ],
)
def test_a_moved_set_is_known_by_the_end_of_its_path(tmp_path: Path, asked: str | None, same: bool) -> None:
    write_megatron_index(tmp_path, _toy(), _tables())
    assert find_megatron_indexes(tmp_path, dataset_path=asked)[0].matches is same


def test_incomplete_and_changed_sets(tmp_path: Path) -> None:
    files = write_megatron_index(tmp_path, _toy(), _tables())
    assert write_megatron_index(tmp_path, _toy(), _tables()) == files
    with pytest.raises(AlreadyExists):
        reverse = Tables(*(getattr(_tables(), n) for n in ("sequences", "rows")), np.arange(5)[::-1].copy(), LENGTHS, 4, 1, 5)
        write_megatron_index(tmp_path, _toy(), reverse)
    with pytest.raises(BadQuery, match="describe the order"):
        write_megatron_index(tmp_path, _toy(sequence_length=8), _tables())
    by_part = {path.name.rsplit("-", 1)[1]: path for path in files}
    text = by_part["description.txt"].read_text()
    by_part["description.txt"].write_text(text.replace("corpora/a", "corpora/z"))
    (changed,) = find_megatron_indexes(tmp_path)
    assert changed.complete and "were changed after it was built" in changed.problems[0]
    by_part["description.txt"].write_text("{")
    (damaged,) = find_megatron_indexes(tmp_path)
    assert damaged.description is None and "neither JSON" in damaged.problems[0] and not damaged.matches
    with pytest.raises(NotFound, match="has no description"):
        read_megatron_index(damaged, LENGTHS)
    by_part["description.txt"].write_text(text)
    by_part["sample_index.npy"].unlink()
    (half,) = find_megatron_indexes(tmp_path)
    assert half.missing == ("sample_index",) and not half.complete and half.matches
    with pytest.raises(NotFound, match=r"the nearest: .*sample_index is missing"):
        the_match([half])
    with pytest.raises(NotFound, match="the sample_index of"):
        read_megatron_index(half, LENGTHS)
    shutil.copy(by_part["document_index.npy"], by_part["sample_index.npy"])
    with pytest.raises(CorruptStore, match="of 2 dimensions"):
        read_megatron_index(find_megatron_indexes(tmp_path)[0], LENGTHS)


def test_blends_that_do_not_fit(tmp_path: Path) -> None:
    described = describe_blend([_toy(), _toy(num_samples=6)], weights=[0.5, 0.5], size=4)
    blend = BlendTables((_tables(), _tables()), np.zeros(4, np.int16), np.arange(4), 4)
    write_megatron_blend(tmp_path, described, blend)
    write_megatron_index(tmp_path, _toy(), _tables())
    sets = find_megatron_indexes(tmp_path)
    mixed = next(index for index in sets if index.is_blend)
    with pytest.raises(NotFound, match="member 1 of the blend"):
        members_of(mixed, sets)
    with pytest.raises(BadQuery, match="2 members, 1 were given"):
        read_megatron_blend(mixed, [_tables()])
    with pytest.raises(BadQuery, match="is a blend"):
        read_megatron_index(mixed, LENGTHS)
    with pytest.raises(BadQuery, match="of one dataset"):
        read_megatron_blend(next(index for index in sets if not index.is_blend), [_tables()])
    with pytest.raises(BadQuery, match="names 2 members, the blend has 1"):
        write_megatron_blend(tmp_path, described, BlendTables((_tables(),), np.zeros(1, np.int16), np.zeros(1, np.int64), 1))
    assert the_match(find_megatron_indexes(tmp_path, num_samples=4)).is_blend
    np.save(mixed.path("dataset_index"), np.zeros(3, np.int16))
    with pytest.raises(CorruptStore, match="3 choices and 4 samples"):
        read_megatron_blend(mixed, [_tables(), _tables()])


def test_caches_of_older_releases(tmp_path: Path) -> None:
    old = "GPT Dataset\n\nData prefix corpora/a\nDataset name train\nNumber of samples 5\n"
    old += "Sequence length 4\nRandom seed 1\nSplit 1\n"
    core = json.dumps(
        {"class": "GPTDataset", "path_prefix": "corpora/a", "num_samples": 5, "index_split": "train", "split": "1"}
        | {"random_seed": 1, "sequence_length": 4},
        indent=4,
    )
    arrays = (_tables().sequences, _tables().rows, _tables().shuffle)
    name = Description.parse(old).md5
    (tmp_path / f"{name}.dsc").write_text(old)
    for part, array in zip(("doc_idx", "sample_idx", "shuffle_idx"), arrays, strict=True):
        np.save(tmp_path / f"{name}_{part}.npy", array)
    name = Description.parse(core).md5
    (tmp_path / f"{name}-GPTDataset-description.txt").write_text(core)
    for part, array in zip(("document_index", "sample_index", "shuffle_index"), arrays, strict=True):
        np.save(tmp_path / f"{name}-GPTDataset-{part}.npy", array)
    (tmp_path / "notes.txt").write_text("not a cache")
    sets = find_megatron_indexes(tmp_path, **TOY)
    assert len(sets) == 2
    for index in sets:
        assert index.complete and index.matches and not index.problems and index.index_split == "train"
        tables = read_megatron_index(index, LENGTHS)
        assert np.array_equal(tables.rows, _tables().rows) and tables.num_samples == 5 and not tables.wraps
    text = f"Blendable dataset\n\nDatasets:\n{old}\n\nWeights: [1.]\nSize: 5\n"
    name = Description.parse(text).md5
    (tmp_path / f"{name}.dsc").write_text(text)
    np.save(tmp_path / f"{name}_index.npy", np.zeros(5, np.uint8))
    np.save(tmp_path / f"{name}_sample_index.npy", np.arange(5))
    sets = find_megatron_indexes(tmp_path)
    blend = next(index for index in sets if index.is_blend)
    assert blend.complete and not blend.problems
    laid = read_megatron_blend(blend, [read_megatron_index(index, LENGTHS) for index in members_of(blend, sets)])
    assert laid.reads([3]).samples.tolist() == [3]
