"""TokenStore: what is read is what was written, whoever wrote it."""

from __future__ import annotations

import os
import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.naive_tokens import bin_of, idx_bytes, idx_of, legacy_bytes, write_set
from typecase.core.bisect import last_not_above
from typecase.core.document import Span
from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.tokens import gather as token_gather
from typecase.store.tokens.store import TokenStore, open_tokens

GOLDEN = Path(os.environ.get("TYPECASE_GOLDEN", Path(__file__).parents[1] / "golden"))
PAIRS = sorted(GOLDEN.glob("*/*.idx"))

DOCUMENTS = st.lists(st.lists(st.lists(st.integers(0, 65_535), max_size=5), max_size=3), max_size=8)
"""Documents of sequences of ids; empty ones of both kinds included."""


@pytest.mark.parametrize("idx", PAIRS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_golden_sets_open(idx: Path) -> None:
    with open_tokens(idx) as store:
        raw = np.fromfile(store.pair.bin, store.dtype)
        assert store.facts.contiguous and store.num_tokens == len(raw) and not store.facts.findings
        assert np.array_equal(store.read_many(range(store.num_documents))[0], raw)
        assert store.num_sequences == store.document_index[-1]


def test_golden_folder_is_there() -> None:
    assert len(PAIRS) >= 7


@settings(max_examples=60, deadline=None)
@given(documents=DOCUMENTS, dtype=st.sampled_from(["uint16", "int32", "int64"]))
def test_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]], dtype: str
) -> None:
    with open_tokens(write_set(tmp_path_factory.mktemp("set") / "x", documents, dtype)) as store:
        flat = [[t for s in document for t in s] for document in documents]
        sequences = [s for document in documents for s in document]
        assert (store.num_documents, store.num_sequences) == (len(documents), len(sequences)) and store.dtype == dtype
        assert store.document_lengths().tolist() == [len(f) for f in flat]
        for doc, tokens in enumerate(flat):
            assert store.read(doc).tolist() == tokens
            for start in range(len(tokens) + 1):
                for stop in range(start, len(tokens) + 1):
                    assert store.read(doc, Span(start, stop)).tolist() == tokens[start:stop]
        for sequence, ids in enumerate(sequences):
            assert (
                store.read_sequence(sequence).tolist() == ids
                and store.read_sequence(sequence, 0, len(ids) // 2).tolist() == ids[: len(ids) // 2]
            )
        backwards = [*range(len(flat))][::-1] * 2
        tokens, offsets = store.read_many(backwards)
        assert [tokens[a:b].tolist() for a, b in pairwise(offsets)] == [flat[d] for d in backwards]
        owners = [d for d, f in enumerate(flat) for _ in f]
        assert store.document_of(range(store.num_tokens)).tolist() == owners
        assert store.sequence_of(range(store.num_tokens)).tolist() == [k for k, s in enumerate(sequences) for _ in s]


@settings(max_examples=60, deadline=None)
@given(documents=DOCUMENTS, max_tokens=st.integers(1, 7))
def test_blocks_cover_every_token_once(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]], max_tokens: int
) -> None:
    with open_tokens(write_set(tmp_path_factory.mktemp("set") / "x", documents)) as store:
        found: dict[int, list[int]] = {}
        for block in store.blocks(max_tokens):
            assert len(block.tokens) <= max_tokens and len(block.sequences) == len(block.offsets) - 1
            for k, sequence in enumerate(block.sequences.tolist()):
                assert block.starts[k] == len(found.setdefault(sequence, []))
                found[sequence] += block.tokens[block.offsets[k] : block.offsets[k + 1]].tolist()
        assert [found[k] for k in sorted(found)] == [s for document in documents for s in document]


@settings(max_examples=60, deadline=None)
@given(
    ranges=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=12),
    extra=st.integers(0, 3),
)
def test_gaps_and_overlaps_are_read_by_pointer(
    tmp_path_factory: pytest.TempPathFactory, ranges: list[tuple[int, int]], extra: int
) -> None:
    prefix = tmp_path_factory.mktemp("set") / "x"
    num_items = max(start + length for start, length in ranges)
    items = np.arange(100, 100 + num_items, dtype=np.uint16)
    items.tofile(bin_of(prefix))
    lengths, pointers = [n for _, n in ranges], [2 * p for p, _ in ranges]
    idx_of(prefix).write_bytes(idx_bytes(8, lengths, pointers, range(len(ranges) + 1)))
    with open_tokens(prefix) as store:
        tokens, offsets = store.read_many(range(len(ranges)))
        for k, (start, length) in enumerate(ranges):
            assert store.read(k).tolist() == tokens[offsets[k] : offsets[k + 1]].tolist()
            assert store.read(k).tolist() == items[start : start + length].tolist()
        for pos in range(num_items):
            holders = [k for k, (start, length) in enumerate(ranges) if start <= pos < start + length]
            if holders:
                found = int(store.sequence_of(pos))
                assert found in holders and ranges[found][0] == max(ranges[k][0] for k in holders)
            else:
                with pytest.raises(BadQuery, match="in no sequence"):
                    store.sequence_of(pos)


def _three(tmp_path: Path) -> Path:
    return write_set(tmp_path / "set.v1" / "x.y", [[[1, 2, 3]], [[4, 5], [6]], [], [[7, 8, 9, 10]]])


def test_a_path_of_any_kind_opens(tmp_path: Path) -> None:
    prefix = _three(tmp_path)
    for path in (prefix, bin_of(prefix), idx_of(prefix), prefix.parent, str(prefix)):
        with open_tokens(path) as store:
            assert store.pair.prefix == prefix and store.num_tokens == 10


def test_paths_that_name_no_set(tmp_path: Path) -> None:
    prefix = _three(tmp_path)
    with pytest.raises(NotFound, match="no token set at"):
        open_tokens(tmp_path / "nothing")
    with pytest.raises(NotFound, match="holds no pair"):
        open_tokens(tmp_path)
    write_set(prefix.parent / "other", [[[1]]])
    with pytest.raises(BadQuery, match=r"2 token sets \(other, x.y\)"):
        open_tokens(prefix.parent)
    idx_of(prefix).unlink()
    with pytest.raises(NotFound, match=r"x\.y\.idx is missing although x\.y\.bin is there"):
        open_tokens(prefix)


def test_spans_of_sequences(tmp_path: Path) -> None:
    with open_tokens(_three(tmp_path)) as store:
        tokens, offsets = store.read_spans([3, 0, 0, 2], [1, 0, 2, 0], [2, 3, 0, 1])
        assert tokens.tolist() == [8, 9, 1, 2, 3, 6] and offsets.tolist() == [0, 2, 5, 5, 6]
        assert store.read_spans([], [], [])[1].tolist() == [0]
        assert store.read_many([])[0].dtype == np.uint16


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: s.read(-1), "no document -1: they go from 0 to 3"),
        (lambda s: s.read(4), "no document 4"),
        (lambda s: s.read(0, Span(0, 4)), r"3 tokens, \[0, 4\) leaves it"),
        (lambda s: s.read(1, Span(2, 4)), r"3 tokens, \[2, 4\) leaves it"),
        (lambda s: s.read_many([0, 9, -2, 9, 9, 9, 9]), "no document 9, -2, 9, 9, 9 and 1 more"),
        (lambda s: s.read_many([0.5]), "flat list of integers"),
        (lambda s: s.read_many([[0]]), "flat list of integers"),
        (lambda s: s.read_many(np.array([2**64 - 1], np.uint64)), "no document 18446744073709551615"),
        (lambda s: s.read_sequence(4), "no sequence 4"),
        (lambda s: s.read_sequence(0, 2, 1), "leaves it"),
        (lambda s: s.read_spans([0], [0, 1], [1]), "as many starts"),
        (lambda s: s.read_spans([0, 1], [0, 1], [1, 2]), "2 from token 1 leave it"),
        (lambda s: s.read_spans([0], [1], [2**63 - 1]), "leave it"),
        (lambda s: s.read_spans([0], [-1], [1]), "leave it"),
        (lambda s: s.read_spans([0], [0.5], [1]), "flat list of integers"),
        (lambda s: s.sequence_of(10), "no position 10: they go from 0 to 9"),
        (lambda s: s.document_of([-1]), "no position -1"),
    ],
)
def test_questions_out_of_range_are_refused(tmp_path: Path, call, says: str) -> None:  # type: ignore[no-untyped-def]
    with open_tokens(_three(tmp_path)) as store, pytest.raises(BadQuery, match=says):
        call(store)


def test_merged_without_document_index(tmp_path: Path) -> None:
    with open_tokens(write_set(tmp_path / "x", [[[1, 2]], [[3]]], index=[0])) as store:
        assert store.num_documents == 2 and store.document_index.tolist() == [0, 1, 2]
        assert store.read(1).tolist() == [3] and store.document_of([0, 1, 2]).tolist() == [0, 0, 1]
        assert [f.code for f in store.facts.findings] == ["no-documents"]


def test_multimodal(tmp_path: Path) -> None:
    with open_tokens(write_set(tmp_path / "x", [[[1, 2, 3, 4], [9, 9, 9]]], "int32", modes=[0, 1])) as store:
        assert store.modes is not None and store.modes.tolist() == [0, 1]
        assert store.read(0).tolist() == [1, 2, 3, 4, 9, 9, 9] and store.read_sequence(1).tolist() == [9, 9, 9]


def test_legacy_sets_open_like_any_other(tmp_path: Path) -> None:
    np.array([1, 2, 3, 4, 5], np.int32).tofile(tmp_path / "x.bin")
    (tmp_path / "x.idx").write_bytes(legacy_bytes(4, 4, [3, 2], [0, 1, 2]))
    with open_tokens(tmp_path / "x") as store:
        assert store.read(1).tolist() == [4, 5] and store.facts.contiguous and store.num_tokens == 5
        assert store.read_spans([1, 0], [0, 1], [1, 2])[0].tolist() == [4, 2, 3]


def test_float_sets_open(tmp_path: Path) -> None:
    np.array([0.5, -1.5], np.float32).tofile(tmp_path / "x.bin")
    (tmp_path / "x.idx").write_bytes(idx_bytes(6, [1, 1], [0, 4], [0, 1, 2]))
    with open_tokens(tmp_path / "x") as store:
        assert store.dtype == np.float32 and store.read_many([1, 0])[0].tolist() == [-1.5, 0.5]


def test_an_empty_set_opens(tmp_path: Path) -> None:
    with open_tokens(write_set(tmp_path / "x", [])) as store:
        assert (store.num_documents, store.num_tokens, list(store.blocks())) == (0, 0, [])
        assert store.read_many([])[1].tolist() == [0] and store.document_index.tolist() == [0]
        with pytest.raises(BadQuery, match="the set has none"):
            store.read(0)


def test_documents_of_nothing_alone(tmp_path: Path) -> None:
    with open_tokens(write_set(tmp_path / "x", [[], [[]], []])) as store:
        assert (store.num_documents, store.num_sequences) == (3, 1)
        assert [store.read(d).tolist() for d in range(3)] == [[], [], []]


def test_arrays_outlive_the_store_and_are_copies(tmp_path: Path) -> None:
    prefix = _three(tmp_path)
    store = open_tokens(prefix)
    one, many, lengths = store.read(0), store.read_many([3])[0], store.lengths
    store.close()
    store.close()
    del store
    one[0], many[0] = 99, 99
    assert lengths.tolist() == [3, 2, 1, 4]
    assert np.fromfile(bin_of(prefix), np.uint16).tolist() == list(range(1, 11))


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_tokens(_three(tmp_path))
    store.close()
    with pytest.raises(BadQuery, match="was closed"):
        store.read(0)


def test_a_store_travels_to_another_process(tmp_path: Path) -> None:
    with open_tokens(_three(tmp_path)) as store:
        again: TokenStore = pickle.loads(pickle.dumps(store))
        assert again.read(1).tolist() == [4, 5, 6] and "4 documents" in repr(again)
        again.close()


def test_a_read_only_set_opens(tmp_path: Path) -> None:
    prefix = _three(tmp_path)
    for file in (bin_of(prefix), idx_of(prefix)):
        file.chmod(0o444)
    with open_tokens(prefix) as store:
        assert store.read(0).tolist() == [1, 2, 3]


def test_cut_bin_names_document_byte_and_remedy(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", [[[k] * 10] for k in range(100)])
    os.truncate(bin_of(prefix), 2000 - 7)
    with pytest.raises(CorruptStore, match=r"document 99, byte 1980.*1993.*typecase doctor .*x`$"):
        open_tokens(prefix)
    with open_tokens(prefix, damaged=True) as store:
        assert store.read(98).tolist() == [98] * 10 and store.num_tokens == 990
        for call in (lambda: store.read(99), lambda: store.read_sequence(99, 0, 10), lambda: store.read_many([0, 99])):
            with pytest.raises(CorruptStore, match=r"sequence 99 .* lies outside"):
                call()
        assert store.read_sequence(99, 0, 6).tolist() == [99] * 6
        assert sum(len(block.tokens) for block in store.blocks()) == 990


def test_index_of_another_set_is_refused(tmp_path: Path) -> None:
    short = write_set(tmp_path / "short", [[[1, 2]], [[3]]])
    long = write_set(tmp_path / "long", [[[1, 2]], [[3, 4, 5]]])
    a, b = idx_of(short).read_bytes(), idx_of(long).read_bytes()
    idx_of(short).write_bytes(b)
    idx_of(long).write_bytes(a)
    with pytest.raises(CorruptStore, match=r"belongs to another \.bin"):
        open_tokens(short)
    with pytest.raises(CorruptStore, match=r"belongs to another \.bin"):
        open_tokens(long)


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ([1, 1, 2], "begins with 1"),
        ([0, 2, 1], "falls from 2 to 1 after document 1"),
        ([0, 1, 1], "ends with 1"),
    ],
)
def test_a_document_index_that_cannot_be(tmp_path: Path, index: list[int], says: str) -> None:
    prefix = write_set(tmp_path / "x", [[[1, 2]], [[3]]], index=index)
    with pytest.raises(CorruptStore, match=says):
        open_tokens(prefix)
    with open_tokens(prefix, damaged=True) as store:
        assert store.read_sequence(1).tolist() == [3]
        for call in (lambda: store.read(0), lambda: store.read_many([0]), lambda: store.document_of(0)):
            with pytest.raises(CorruptStore, match="read by sequence"):
                call()


def test_no_document_index_at_all(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", [[[1, 2]], [[3]]], index=[])
    with pytest.raises(CorruptStore, match="no document index"):
        open_tokens(prefix)
    with open_tokens(prefix, damaged=True) as store:
        assert store.read(1).tolist() == [3]


def test_negative_length_and_wild_pointers(tmp_path: Path) -> None:
    np.arange(3, dtype=np.uint16).tofile(tmp_path / "x.bin")
    for lengths, pointers, says in (
        ([2, -1], [0, 4], "sequence 1 has -1 tokens"),
        ([2, 1], [0, 2**63 - 1], "sequence 1 needs bytes"),
        ([2, 1], [-(2**63), 4], "sequence 0 needs bytes"),
        ([2**31 - 1, 1], [0, 4], "sequence 0 needs bytes"),
    ):
        (tmp_path / "x.idx").write_bytes(idx_bytes(8, lengths, pointers, [0, 1, 2]))
        with pytest.raises(CorruptStore, match=says):
            open_tokens(tmp_path / "x")


def test_long_gathers_use_threads_and_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = write_set(tmp_path / "x", [[list(range(k % 50))] for k in range(400)])
    docs = np.random.default_rng(3).integers(0, 400, 1000)
    with open_tokens(prefix) as store:
        alone = store.read_many(docs)
        monkeypatch.setattr(token_gather, "_THREAD_BYTES", 1)
        shared = store.read_many(docs)
    assert np.array_equal(alone[0], shared[0]) and np.array_equal(alone[1], shared[1])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5, 5)), st.lists(st.integers(-7, 7)))
def test_last_not_above_is_searchsorted(ascending: list[int], values: list[int]) -> None:
    array = np.array(sorted(ascending), np.int64)
    unaligned = np.frombuffer(b"xx" + array.tobytes(), np.int64, len(array), 2) if len(array) else array
    wanted = np.searchsorted(array, np.array(values, np.int64), side="right") - 1
    assert last_not_above(unaligned, np.array(values, np.int64)).tolist() == wanted.tolist()
