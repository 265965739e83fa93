"""Writers: the bytes of the frameworks' own builders, complete or absent, and never a wrapped id."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.naive_tokens import bin_of, idx_bytes, idx_of, write_set
from tests.store.test_tokens import DOCUMENTS, PAIRS
from typecase.errors import AlreadyExists, BadQuery
from typecase.store.tokens.pair import TokenPair, atomic_pair
from typecase.store.tokens.store import open_tokens
from typecase.store.tokens.writer import TokenSetWriter, cast_ids, dtype_for, plan_layout, preallocate, write_idx, write_slice


def _bytes(prefix: Path) -> tuple[bytes, bytes]:
    return bin_of(prefix).read_bytes(), idx_of(prefix).read_bytes()


def _write(prefix: Path, documents: list[list[list[int]]], dtype: str, *, step: int = 100) -> Path:
    with TokenSetWriter(prefix, dtype) as writer:
        for first in range(0, len(documents), step):
            part = documents[first : first + step]
            writer.append(
                np.array([t for document in part for s in document for t in s], np.int64),
                np.array([len(s) for document in part for s in document], np.int64),
                per_document=np.array([len(document) for document in part], np.int64),
            )
    return prefix


@pytest.mark.parametrize("idx", PAIRS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_golden_sets_are_rewritten_byte_for_byte(tmp_path: Path, idx: Path) -> None:
    with open_tokens(idx) as store:
        documents = [
            [store.read_sequence(s).tolist() for s in range(int(a), int(b))] for a, b in pairwise(store.document_index)
        ]
        prefix = _write(tmp_path / "x", documents, store.dtype.name, step=7)
        assert _bytes(prefix) == _bytes(store.pair.prefix)


def test_the_published_set(tmp_path: Path) -> None:
    data, index = _bytes(_write(tmp_path / "x", [[[1, 2, 3]], [[4, 5]]], "uint16"))
    assert hashlib.sha256(data).hexdigest() == "6ca637cc10a303925c94bfc4d8cd3238c76c64df56b1bf0a06ce901da433f48a"
    assert hashlib.sha256(index).hexdigest() == "416ba3f8d9601192c5b0c9424ce7e61d6ac2d9d464dba8e5ee55deb8247de3aa"


@settings(max_examples=40, deadline=None)
@given(documents=DOCUMENTS, dtype=st.sampled_from(["uint16", "int32"]), step=st.integers(1, 4))
def test_writer_gives_the_naive_bytes(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]], dtype: str, step: int
) -> None:
    folder = tmp_path_factory.mktemp("set")
    assert _bytes(_write(folder / "fast", documents, dtype, step=step)) == _bytes(write_set(folder / "slow", documents, dtype))


@settings(max_examples=40, deadline=None)
@given(documents=DOCUMENTS, num_slices=st.integers(1, 4), order=st.randoms(use_true_random=False))
def test_slices_in_any_order_give_the_bytes_of_the_stream(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]], num_slices: int, order: Any
) -> None:
    folder = tmp_path_factory.mktemp("set")
    stream = _write(folder / "stream", documents, "uint16")
    cuts = np.linspace(0, len(documents), num_slices + 1).astype(int).tolist()
    slices = [[s for document in documents[a:b] for s in document] for a, b in pairwise(cuts)]
    offsets = plan_layout([sum(map(len, s)) for s in slices], np.uint16)
    with atomic_pair(folder / "sliced") as pair:
        preallocate(pair.bin, int(offsets[-1]))
        tasks = list(enumerate(slices))
        order.shuffle(tasks)
        for k, own in tasks:
            write_slice(pair.bin, int(offsets[k]), np.array([t for s in own for t in s], np.uint16))
        counts = [np.array([len(d) for d in documents[a:b]], np.int64) for a, b in pairwise(cuts)]
        write_idx(pair.idx, np.uint16, [np.array([len(s) for s in own], np.int64) for own in slices], per_document=counts)
    assert _bytes(folder / "sliced") == _bytes(stream)


def _slice_of_five(task: tuple[str, int]) -> None:
    path, k = task
    write_slice(Path(path), 10 * k, np.full(5, k, np.uint16))


def test_slices_from_several_processes(tmp_path: Path) -> None:
    preallocate(tmp_path / "x.bin", 100)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(_slice_of_five, [(str(tmp_path / "x.bin"), k) for k in range(10)])
    assert np.fromfile(tmp_path / "x.bin", np.uint16).tolist() == [k for k in range(10) for _ in range(5)]


def test_slices_stay_within_the_file(tmp_path: Path) -> None:
    preallocate(tmp_path / "x.bin", 10)
    for offset in (-2, 2, 10):
        with pytest.raises(BadQuery, match="which has 10 bytes"):
            write_slice(tmp_path / "x.bin", offset, np.zeros(5, np.uint16))
    write_slice(tmp_path / "x.bin", 10, np.zeros(0, np.uint16))
    with pytest.raises(BadQuery, match="slice 1 has -1 tokens"):
        plan_layout([1, -1], np.uint16)


def test_layout_counts_in_64_bits() -> None:
    assert plan_layout(np.array([2**31 - 1] * 3, np.int32), np.int32).tolist() == [k * 4 * (2**31 - 1) for k in range(4)]
    assert plan_layout([], np.uint16).tolist() == [0]


@pytest.mark.parametrize(
    ("max_id", "dtype"),
    [(0, "uint16"), (255, "uint16"), (65_499, "uint16"), (65_535, "uint16"), (65_536, "int32"), (2**31 - 1, "int32")],
)
def test_dtype_for(max_id: int, dtype: str) -> None:
    assert dtype_for(max_id) == np.dtype(dtype)


@pytest.mark.parametrize("max_id", [-1, 2**31])
def test_dtype_for_ids_that_no_set_holds(max_id: int) -> None:
    with pytest.raises(BadQuery, match="largest token id"):
        dtype_for(max_id)


def test_an_id_that_does_not_fit_names_its_document(tmp_path: Path) -> None:
    with TokenSetWriter(tmp_path / "x", np.uint16) as writer:
        writer.append(np.array([1, 2]), np.array([2]))
        with pytest.raises(BadQuery, match=r"70000 \(document 2, token 1\) does not fit uint16"):
            writer.append(np.array([5, 6, 70_000]), np.array([1, 2]))
        with pytest.raises(BadQuery, match=r"-1 \(document ab, token 0\)"):
            writer.append(np.array([-1]), np.array([1]), names=["ab"])
        with pytest.raises(BadQuery, match=r"document cd, token 2"):
            writer.append(np.array([1, 2, 2**40]), np.array([1, 2]), per_document=np.array([0, 2]), names=["ab", "cd"])
        with pytest.raises(BadQuery, match="lengths add up to 3, but 2"):
            writer.append(np.array([1, 2]), np.array([3]))
        writer.append(np.array([65_535], np.uint32), np.array([1]))
    with open_tokens(tmp_path / "x") as store:
        assert store.num_documents == 2 and store.read(1).tolist() == [65_535]


def test_labels_below_zero_fit_int32() -> None:
    assert cast_ids(np.array([-100, 5]), np.int32).dtype == np.int32
    with pytest.raises(BadQuery, match="without loss"):
        cast_ids(np.array([0.5]), np.int32)


def test_a_set_is_never_overwritten(tmp_path: Path) -> None:
    _write(tmp_path / "x", [[[1]]], "uint16")
    before = _bytes(tmp_path / "x")
    with pytest.raises(AlreadyExists, match="never overwritten"):
        TokenSetWriter(tmp_path / "x", np.uint16)
    idx_of(tmp_path / "x").unlink()
    with pytest.raises(AlreadyExists, match=r"x\.bin exists"):
        TokenSetWriter(tmp_path / "x", np.uint16)
    assert bin_of(tmp_path / "x").read_bytes() == before[0]


def test_a_failed_writer_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), TokenSetWriter(tmp_path / "a" / "x", np.uint16) as writer:
        writer.append(np.array([1]), np.array([1]))
        raise RuntimeError("stop")
    assert list((tmp_path / "a").iterdir()) == []


def test_a_dying_writer_leaves_no_index(tmp_path: Path) -> None:
    code = (
        "import numpy as np, os, sys; from typecase.store.tokens.writer import TokenSetWriter\n"
        "w = TokenSetWriter(sys.argv[1], np.uint16); w.append(np.array([1]), np.array([1])); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=False)
    assert [p.suffix for p in tmp_path.iterdir()] == [".tmp", ".tmp"]
    assert not TokenPair.at(tmp_path / "x").idx.exists()


def test_the_bin_takes_its_name_before_the_idx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        names.append(Path(target).name)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    _write(tmp_path / "x", [[[1]]], "uint16")
    assert names == ["x.bin", "x.idx"]


def test_the_float_code_can_be_kept(tmp_path: Path) -> None:
    with TokenSetWriter(tmp_path / "x", np.float32, dtype_code=6) as writer:
        writer.append(np.array([0.5], np.float32), np.array([1]))
    assert idx_of(tmp_path / "x").read_bytes() == idx_bytes(6, [1], [0], [0, 1])


def test_five_documents_of_which_three_are_empty(tmp_path: Path) -> None:
    """The texts "", a, "", b, "": every document keeps its number, without a sequence or with an empty one."""
    without = {"lengths": np.array([1, 2]), "per_document": np.array([0, 1, 0, 1, 0])}
    empty = {"lengths": np.array([0, 1, 0, 2, 0])}
    for name, shape in (("without", without), ("empty", empty)):
        with TokenSetWriter(tmp_path / name, np.uint16) as writer:
            writer.append(np.array([1, 2, 3]), **shape)
        with open_tokens(tmp_path / name) as store:
            assert [store.read(d).tolist() for d in range(5)] == [[], [1], [], [2, 3], []]
            assert store.document_of([0, 1, 2]).tolist() == [1, 3, 3]


BOUNDED = """
import resource, sys
import numpy as np
from typecase.store.tokens.writer import TokenSetWriter
chunk = 20_000
with TokenSetWriter(sys.argv[1], np.uint16) as writer:
    before = 0
    for k in range(int(sys.argv[2]) // chunk):
        writer.append(np.full(3 * chunk, k % 60_000, np.int32), np.full(chunk, 3, np.int32))
        before = before or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_documents(tmp_path: Path) -> None:
    """Two million documents of three tokens: peak memory is that of one call, within a few megabytes."""
    run = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(tmp_path / "x"), "2000000"], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 24 << 10  # KiB
    with open_tokens(tmp_path / "x") as store:
        assert store.num_documents == 2_000_000 and store.facts.contiguous


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(8))
def test_megatron_core_builds_the_same_bytes(tmp_path: Path, seed: int) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset", reason="needs the oracle extra")
    torch = pytest.importorskip("torch", reason="needs the oracle extra")
    rng = np.random.default_rng(seed)
    dtype = [np.uint16, np.int32, np.int64][seed % 3]
    multimodal = seed in (1, 5)
    documents = [[rng.integers(0, 60_000, rng.integers(0, 40)).tolist() for _ in range(rng.integers(0, 4))] for _ in range(200)]
    modes = [rng.integers(0, 2, len(d)).tolist() for d in documents]
    builder = indexed.IndexedDatasetBuilder(str(bin_of(tmp_path / "m")), dtype=dtype, multimodal=multimodal)
    for document, kinds in zip(documents, modes, strict=True):
        if seed % 2:
            flat = torch.tensor([t for s in document for t in s], dtype=torch.int64)
            builder.add_document(flat, [len(s) for s in document], kinds if multimodal else None)
        else:
            for s in document:
                builder.add_item(torch.tensor(s, dtype=torch.int64))
            builder.end_document()
    builder.finalize(str(idx_of(tmp_path / "m")))
    with TokenSetWriter(tmp_path / "x", dtype, multimodal=multimodal) as writer:
        for document, kinds in zip(documents, modes, strict=True):
            writer.append(
                np.array([t for s in document for t in s], np.int64),
                np.array([len(s) for s in document], np.int64),
                per_document=np.array([len(document)]),
                modes=np.array(kinds, np.int64) if multimodal else None,
            )
    assert _bytes(tmp_path / "x") == _bytes(tmp_path / "m")
    theirs = indexed.IndexedDataset(str(tmp_path / "x"), multimodal=multimodal)
    with open_tokens(tmp_path / "m") as ours:
        assert len(theirs) == ours.num_sequences and np.array_equal(theirs.document_indices, ours.document_index)
        for k in range(len(theirs)):
            got = theirs.get(k)
            assert np.array_equal(got[0] if multimodal else got, ours.read_sequence(k))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_preallocate_fails_at_once_when_the_disk_cannot_hold_it(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        with pytest.raises(OSError, match=r"File too large|Errno 27"):
            preallocate(tmp_path / "x.bin", 1 << 21)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
