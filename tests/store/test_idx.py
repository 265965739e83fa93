"""The `.idx` parser and writer against hand-made bytes."""

from __future__ import annotations

import hashlib
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.naive_tokens import CODES, idx_bytes, legacy_bytes
from typecase.errors import BadQuery, CorruptStore
from typecase.store.tokens.idx import code_fits, code_of, read_header, read_layout
from typecase.store.tokens.idx_writer import IdxWriter, write_idx

SHA = {
    "plain": "416ba3f8d9601192c5b0c9424ce7e61d6ac2d9d464dba8e5ee55deb8247de3aa",
    "merged": "f371e09049f5d52d2ca27ad30fbbc1da68d54e4a34f7b59a2b15fb17266c1577",
    "multimodal": "82dcddfb5b585698b54d7833e787a22c7014089e8a993a3d0f5df27d512548d6",
    "legacy": "7e3996c73479e8d752cbd788607887faccd6d376a7c5d7585dea5c18d996940b",
}
"""Published digests of hand-made files: documents [1, 2, 3], [4, 5] and variants."""


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_writer_gives_the_published_bytes(tmp_path: Path) -> None:
    write_idx(tmp_path / "a.idx", np.uint16, [np.array([3]), np.array([2])])
    assert _sha((tmp_path / "a.idx").read_bytes()) == SHA["plain"]
    with IdxWriter(tmp_path / "m.idx", np.int32, multimodal=True) as writer:
        writer.append(np.array([4, 3]), per_document=np.array([2]), modes=np.array([0, 1]))
    assert _sha((tmp_path / "m.idx").read_bytes()) == SHA["multimodal"]


def test_naive_yardstick_gives_the_published_bytes() -> None:
    assert _sha(idx_bytes(8, [3, 2], [0, 6], [0, 1, 2])) == SHA["plain"]
    assert _sha(idx_bytes(8, [3, 2], [0, 6], [0])) == SHA["merged"]
    assert _sha(legacy_bytes(4, 4, [3, 2], [0, 1, 2])) == SHA["legacy"]


def test_reads_what_the_bytes_say(tmp_path: Path) -> None:
    layout = read_layout(_write(tmp_path / "m.idx", idx_bytes(4, [4, 3], [0, 16], [0, 2], [0, 1])), bin_bytes=28)
    assert layout.header.multimodal and layout.dtype == np.int32
    assert layout.lengths.tolist() == [4, 3] and layout.pointers.tolist() == [0, 16]
    assert layout.document_index.tolist() == [0, 2] and layout.modes is not None and layout.modes.tolist() == [0, 1]
    assert layout.num_documents == 1


def test_legacy(tmp_path: Path) -> None:
    layout = read_layout(_write(tmp_path / "t.idx", legacy_bytes(4, 4, [3, 2], [0, 1, 2])), bin_bytes=20)
    assert layout.header.format == "TNTIDX"
    assert layout.lengths.tolist() == [3, 2] and layout.pointers.tolist() == [0, 12]


def test_legacy_items_of_two_dimensions(tmp_path: Path) -> None:
    # two items of shape (2, 3) and (4,): S = 3
    numbers = [1, 4, 4, 2, 3, 3, 0, 2, 3, 0, 6, 10, 2, 3, 4, 0, 1, 2]
    data = b"TNTIDX\0\0" + struct.pack(f"<{len(numbers)}q", *numbers)
    layout = read_layout(_write(tmp_path / "t.idx", data), bin_bytes=40)
    assert layout.lengths.tolist() == [6, 4] and layout.pointers.tolist() == [0, 24]


def test_empty_corpus_has_42_bytes(tmp_path: Path) -> None:
    assert write_idx(tmp_path / "e.idx", np.uint16, []) == 0
    assert (tmp_path / "e.idx").read_bytes() == idx_bytes(8, [], [], [0])
    assert (tmp_path / "e.idx").stat().st_size == 42
    assert read_layout(tmp_path / "e.idx", bin_bytes=0).num_documents == 0


def test_document_without_sequences_repeats_the_entry(tmp_path: Path) -> None:
    write_idx(tmp_path / "e.idx", np.uint16, [np.array([2])], per_document=[np.array([0, 1])])
    assert (tmp_path / "e.idx").read_bytes() == idx_bytes(8, [2], [0], [0, 0, 1])
    assert (tmp_path / "e.idx").stat().st_size == 70


@pytest.mark.parametrize("dtype", sorted(CODES))
def test_codes_are_those_of_megatron_core(dtype: str) -> None:
    assert code_of(np.dtype(dtype)) == CODES[dtype]
    assert code_fits(CODES[dtype], np.dtype(dtype))


@pytest.mark.parametrize("code", [6, 7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_width_comes_from_the_bin(tmp_path: Path, code: int, dtype: str) -> None:
    width = np.dtype(dtype).itemsize
    path = _write(tmp_path / "f.idx", idx_bytes(code, [3, 2], [0, 3 * width], [0, 1, 2]))
    assert read_layout(path, bin_bytes=5 * width).dtype == np.dtype(dtype)
    with pytest.raises(CorruptStore, match="float code"):
        read_layout(path, bin_bytes=5 * width - 1)


def test_uint32_has_no_code() -> None:
    with pytest.raises(BadQuery, match="no code for uint32"):
        code_of(np.dtype("uint32"))


GOOD = idx_bytes(8, [3, 2], [0, 6], [0, 1, 2])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"garbage!!", "neither MMIDIDX nor TNTIDX.*garbage"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (b"\x93NUMPY\x01\x00", "NumPy array"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (GOOD[:20], "inside its header"),
        (GOOD[:9] + struct.pack("<Q", 2) + GOOD[17:], "version 2"),
        (GOOD[:17] + b"\x00" + GOOD[18:], "dtype code 0"),
        (GOOD[:17] + b"\x09" + GOOD[18:], "dtype code 9"),
        (GOOD[:-1], "truncated"),
        (GOOD[:40], "truncated"),
        (GOOD + b"x", "foreign bytes from byte 82"),
        (GOOD[:18] + struct.pack("<Q", 2**63) + GOOD[26:], "garbage"),
        (GOOD[:26] + struct.pack("<Q", 2**64 - 1) + GOOD[34:], "garbage"),
        (b"TNTIDX\0\0" + struct.pack("<6Q", 1, 4, 2, 0, 0, 1), "2 bytes an element"),
        (b"TNTIDX\0\0" + struct.pack("<6Q", 7, 4, 4, 0, 0, 1), "TNTIDX version 7"),
        (b"TNTIDX\0\0" + struct.pack("<6Q", 1, 4, 4, 2**61, 0, 1), "garbage"),
        (b"TNTIDX\0\0\x01", "inside its header"),
    ],
)
def test_damage_is_named(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(CorruptStore, match=says):
        read_header(_write(tmp_path / "x.idx", data))


def test_legacy_dimensions_that_wrap_are_refused(tmp_path: Path) -> None:
    top, bottom = 2**63 - 1, -(2**63)
    numbers = [1, 4, 4, 4, 1, 1, 0, top, bottom, -1, 1, 0, 0, 0, 0, 1, 1, 0]
    data = b"TNTIDX\0\0" + struct.pack("<6Q", *numbers[:6]) + struct.pack(f"<{len(numbers) - 6}q", *numbers[6:])
    with pytest.raises(CorruptStore, match="dimensions of item"):
        read_layout(_write(tmp_path / "t.idx", data), bin_bytes=4)


@settings(max_examples=60, deadline=None)
@given(
    documents=st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    dtype=st.sampled_from(["uint16", "int32"]),
)
def test_any_chunking_gives_the_naive_bytes(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]], cuts: list[int], dtype: str
) -> None:
    path = tmp_path_factory.mktemp("idx") / "x.idx"
    bounds = [0, *sorted(min(c, len(documents)) for c in cuts), len(documents)]
    parts = [documents[a:b] for a, b in pairwise(bounds)]
    lengths = [n for document in documents for n in document]
    pointers = np.cumsum([0, *lengths])[:-1] * np.dtype(dtype).itemsize
    write_idx(
        path,
        dtype,
        [np.array([n for document in part for n in document], np.int64) for part in parts],
        per_document=[np.array([len(document) for document in part], np.int64) for part in parts],
    )
    index = np.cumsum([0, *map(len, documents)]).tolist()
    assert path.read_bytes() == idx_bytes(CODES[dtype], lengths, pointers.tolist(), index)


def test_writer_refuses_what_cannot_be(tmp_path: Path) -> None:
    with IdxWriter(tmp_path / "x.idx", np.uint16) as writer:
        for lengths in (np.array([2**31]), np.array([-1])):
            with pytest.raises(BadQuery, match="tokens, got"):
                writer.append(lengths)
        with pytest.raises(BadQuery, match="cannot hold 2 sequences"):
            writer.append(np.array([1, 1]), per_document=np.array([1]))
        with pytest.raises(BadQuery, match="not opened as multimodal"):
            writer.append(np.array([1]), modes=np.array([0]))
    assert (tmp_path / "x.idx").read_bytes() == idx_bytes(8, [], [], [0])
    with pytest.raises(BadQuery, match="does not stand for"):
        IdxWriter(tmp_path / "y.idx", np.uint16, dtype_code=4)


def test_pointers_beyond_32_bits(tmp_path: Path) -> None:
    """Ten sequences of 1.5 billion uint16 tokens: lengths times item size leave i32 and the pointers leave u32."""
    write_idx(tmp_path / "x.idx", np.uint16, [np.full(10, 1_500_000_000, np.int32)])
    layout = read_layout(tmp_path / "x.idx", bin_bytes=30_000_000_000)
    assert layout.pointers.tolist() == [3_000_000_000 * k for k in range(10)]
