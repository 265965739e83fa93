"""Repair: every whole document comes over, every other is counted with its reason."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.naive_tokens import bin_of, idx_bytes, idx_of, legacy_bytes, write_set
from tests.store.test_token_merge import _with_rows
from tests.store.test_tokens import DOCUMENTS
from typecase.core.balance import Balance
from typecase.errors import AlreadyExists, BadQuery, CorruptStore
from typecase.store.tokens.repair import repair
from typecase.store.tokens.store import open_tokens

HUNDRED = [[[k] * 10] for k in range(100)]


def _documents(prefix: Path) -> list[list[int]]:
    with open_tokens(prefix) as store:
        return [store.read(d).tolist() for d in range(store.num_documents)]


@settings(max_examples=40, deadline=None)
@given(documents=DOCUMENTS, cut=st.integers(0, 400))
def test_a_cut_bin_keeps_every_whole_document(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    prefix = write_set(folder / "x", documents)
    size = min(cut, bin_of(prefix).stat().st_size)
    os.truncate(bin_of(prefix), size)
    flat = [[t for s in document for t in s] for document in documents]
    begin, whole = 0, []
    for document, tokens in zip(documents, flat, strict=True):
        fits = True
        for sequence in document:
            fits &= begin + 2 * len(sequence) <= size
            begin += 2 * len(sequence)
        if fits:
            whole.append(tokens)
    summary = repair(prefix, folder / "out")
    kept = _documents(summary.prefix)
    assert kept == whole
    assert summary.balance == Balance(
        len(flat), len(whole), {"outside the .bin": len(flat) - len(whole)} if len(whole) < len(flat) else {}
    )
    assert summary.dropped_bytes == size - 2 * sum(map(len, whole))


def test_the_published_case_of_seven_bytes(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", HUNDRED)
    os.truncate(bin_of(prefix), 2000 - 7)
    before = (bin_of(prefix).read_bytes(), idx_of(prefix).read_bytes())
    summary = repair(prefix, tmp_path / "out")
    assert summary.balance.as_dict() == {"in": 100, "kept": 99, "removed": {"outside the .bin": 1}, "quarantined": {}}
    assert _documents(summary.prefix) == [[k] * 10 for k in range(99)]
    assert (bin_of(prefix).read_bytes(), idx_of(prefix).read_bytes()) == before


def test_a_merge_without_document_index_gets_one(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", HUNDRED, index=[0])
    summary = repair(prefix, tmp_path / "out")
    assert bin_of(summary.prefix).read_bytes() == bin_of(prefix).read_bytes()
    assert idx_of(summary.prefix).read_bytes() == idx_of(write_set(tmp_path / "w", HUNDRED)).read_bytes()
    assert summary.balance == Balance(100, 100) and "no document index" in summary.notes[0]


@pytest.mark.parametrize("index", [[0, 2, 1], [1, 1, 2], [0, 1, 1], []])
def test_an_impossible_document_index_is_replaced(tmp_path: Path, index: list[int]) -> None:
    prefix = write_set(tmp_path / "x", [[[1, 2]], [[3]]], index=index)
    summary = repair(prefix, tmp_path / "out")
    assert _documents(summary.prefix) == [[1, 2], [3]] and summary.balance == Balance(2, 2)


@pytest.mark.parametrize("left", [34, 36, 38, 234, 434, 435, 440, 1000, 1234, 1240, 2034, 2041])
def test_a_cut_index_gives_back_what_it_still_holds(tmp_path: Path, left: int) -> None:
    prefix = write_set(tmp_path / "x", HUNDRED)
    assert idx_of(prefix).stat().st_size == 2042
    os.truncate(idx_of(prefix), left)
    with pytest.raises(CorruptStore, match="truncated"):
        open_tokens(prefix)
    summary = repair(prefix, tmp_path / "out")
    there = min(100, (left - 34) // 4)
    assert _documents(summary.prefix) == [[k] * 10 for k in range(there)]
    assert summary.balance == Balance(100, there, {"index cut off": 100 - there} if there < 100 else {})


def test_a_cut_index_of_documents_with_several_sequences(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", [[[1], [2]], [[3]], [[4], [5]]])
    os.truncate(idx_of(prefix), 34 + 12 * 5 + 8 * 3)  # entries 0, 2, 3 of 0, 2, 3, 5
    summary = repair(prefix, tmp_path / "out")
    assert _documents(summary.prefix) == [[1, 2], [3]]
    assert summary.balance == Balance(3, 2, {"index cut off": 1})


def test_wrong_counts_are_solved_from_the_size(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", HUNDRED)
    data = idx_of(prefix).read_bytes()
    for at, value in ((18, 101), (18, 2**40), (26, 3), (18, 3)):
        idx_of(prefix).write_bytes(data[:at] + struct.pack("<Q", value) + data[at + 8 :])
        summary = repair(prefix, tmp_path / f"out{at}-{value}")
        assert idx_of(summary.prefix).read_bytes() == data and "counts in the header" in summary.notes[0]


def test_foreign_bytes_after_the_index_are_ignored(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", [[[1], [2]], [[3]]])
    data = idx_of(prefix).read_bytes()
    idx_of(prefix).write_bytes(data + b"junk!")
    summary = repair(prefix, tmp_path / "out")
    assert idx_of(summary.prefix).read_bytes() == data and "5 foreign bytes" in summary.notes[0]


def test_trailing_bytes_of_the_bin_are_dropped_and_counted(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", HUNDRED)
    with bin_of(prefix).open("ab") as file:
        file.write(b"12345")
    summary = repair(prefix, tmp_path / "out")
    assert summary.dropped_bytes == 5 and _documents(summary.prefix) == [[k] * 10 for k in range(100)]


def test_one_bad_length_in_the_middle_costs_one_document(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", [[[1]], [[2]], [[3]]])
    idx_of(prefix).write_bytes(idx_bytes(8, [1, -1, 1], [0, 2, 4], [0, 1, 2, 3]))
    summary = repair(prefix, tmp_path / "out")
    assert _documents(summary.prefix) == [[1], [3]] and summary.balance == Balance(3, 2, {"negative length": 1})


def test_modes_come_along(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", [[[1], [2]], [[3], [4]]], "int32", modes=[0, 1, 0, 1])
    os.truncate(bin_of(prefix), 15)
    summary = repair(prefix, tmp_path / "out")
    with open_tokens(summary.prefix) as store:
        assert store.modes is not None and store.modes.tolist() == [0, 1] and store.read(0).tolist() == [1, 2]


def test_a_legacy_set_becomes_a_modern_one(tmp_path: Path) -> None:
    write_set(tmp_path / "x", [[[1, 2, 3]], [[4, 5]]], "int32")
    wanted = (tmp_path / "x.idx").read_bytes()
    (tmp_path / "x.idx").write_bytes(legacy_bytes(4, 4, [3, 2], [0]))
    assert idx_of(repair(tmp_path / "x", tmp_path / "out").prefix).read_bytes() == wanted


def test_provenance_follows_the_documents(tmp_path: Path) -> None:
    prefix = _with_rows(write_set(tmp_path / "a" / "x", [[[1]], [[2]], [[3]]]), ["aa", "bb", "cc"])
    idx_of(prefix).write_bytes(idx_bytes(8, [1, -1, 1], [0, 2, 4], [0, 1, 2, 3]))
    summary = repair(prefix, tmp_path / "out")
    assert summary.provenance is not None
    table = pq.read_table(summary.provenance)
    assert table.column("doc").to_pylist() == [0, 1] and table.column("doc_id").to_pylist() == ["aa", "cc"]


def test_provenance_of_another_set_is_left_behind(tmp_path: Path) -> None:
    prefix = _with_rows(write_set(tmp_path / "a" / "x", [[[1]], [[2]]]), ["aa"])
    summary = repair(prefix, tmp_path / "out")
    assert summary.provenance is None and "not carried over" in summary.notes[0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage!!",
        b"MMIDIDX\0\0",
        idx_bytes(8, [2, 1], [0, 4], [0, 1, 2]).replace(b"\x01", b"\x02", 1),
        b"TNTIDX\0\0" + bytes(10),
    ],
)
def test_what_cannot_be_repaired(tmp_path: Path, data: bytes) -> None:
    prefix = write_set(tmp_path / "x", [[[1, 2]], [[3]]])
    idx_of(prefix).write_bytes(data)
    with pytest.raises(CorruptStore):
        repair(prefix, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lengths_that_contradict_the_bin_are_not_believed(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", [[[1, 2]], [[3]]])
    idx_of(prefix).write_bytes(idx_bytes(8, [2, 1000], [0, 4], [0, 1, 2])[:45])
    with pytest.raises(CorruptStore, match="make the set again"):
        repair(prefix, tmp_path / "out")


def test_outputs_that_are_refused(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "one" / "x", [[[1]]])
    with pytest.raises(BadQuery, match="folder of the damaged set"):
        repair(prefix, tmp_path / "one")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").touch()
    with pytest.raises(AlreadyExists, match="not empty"):
        repair(prefix, tmp_path / "full")
