"""The index: what it says is what a naive scan says, for any ids, documents and shards; and it knows its set."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.index.naive import Naive, build, corpora, queries
from tests.store.naive_tokens import bin_of, idx_bytes, idx_of
from typecase.errors import BadQuery, CorruptStore, FingerprintMismatch, NotFound, SchemaMismatch
from typecase.recipe.index import Index as IndexStage
from typecase.recipe.run import run_stage
from typecase.store.index.index import open_index
from typecase.store.index.recognise import STAMP
from typecase.store.tokens.store import open_tokens

KINDS = [("uint16", 65_535), ("int32", 2**31 - 1)]
few = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@pytest.mark.parametrize("dtype, max_id", KINDS, ids=["uint16", "int32"])
@few
@given(data=st.data())
def test_answers_equal_a_naive_scan(dtype: str, max_id: int, data: st.DataObject) -> None:
    docs = data.draw(corpora(max_id))
    naive = Naive(docs)
    shard_tokens = data.draw(st.sampled_from([None, 1, 4, 16]))
    with tempfile.TemporaryDirectory() as folder:
        index = build(Path(folder), docs, dtype, shard_tokens=shard_tokens)
        asked = [data.draw(queries(docs, max_id)) for _ in range(8)]
        for query in asked:
            hits = naive.positions(query)
            assert index.count(query) == len(hits)
            assert index.contains(query) == bool(hits)
            assert index.positions(query).tolist() == hits
            assert index.positions(query, offset=1, limit=2).tolist() == hits[1:3]
            assert [p for page in index.pages(query, 3) for p in page.tolist()] == hits
            assert index.count(query, fenced=False) == len(naive.unfenced(query))
            assert index.positions(query, fenced=False).tolist() == naive.unfenced(query)
            follows, ends = index.next(query), naive.next(query)[1]
            assert dict(zip(follows.ids.tolist(), follows.counts.tolist())) == naive.next(query)[0]
            assert follows.ends == ends and follows.total == len(hits)
            places = index.places(hits)
            assert places.docs.tolist() == [naive.doc_of(p) for p in hits]
            assert index.longest_suffix(query) == max(
                n for n in range(len(query) + 1) if n == 0 or naive.positions(query[len(query) - n :])
            )
        assert index.count_batch(asked).tolist() == [len(naive.positions(q)) for q in asked]
        for query, follows in zip(asked, index.next_batch(asked)):
            want, ends = naive.next(query)
            assert dict(zip(follows.ids.tolist(), follows.counts.tolist())) == want and follows.ends == ends


def test_threads_change_no_answer(tmp_path: Path) -> None:
    docs = np.random.default_rng(3).integers(0, 9, (40, 25)).tolist()
    index = build(tmp_path, docs, shard_tokens=300)
    asked = [[a, b][:n] for a in range(9) for b in range(9) for n in (0, 1, 2)]
    for threads in (1, 2, 5, 0):
        for query, follows in zip(asked, index.next_batch(asked, threads=threads), strict=True):
            one = index.next(query)
            assert (follows.ids.tolist(), follows.counts.tolist(), follows.ends) == (
                one.ids.tolist(),
                one.counts.tolist(),
                one.ends,
            )


@few
@given(data=st.data())
def test_what_follows_across_borders(data: st.DataObject) -> None:
    docs = data.draw(corpora(9))
    naive = Naive(docs)
    text = naive.text
    with tempfile.TemporaryDirectory() as folder:
        index = build(Path(folder), docs)
        query = data.draw(queries(docs, 9).filter(len))
        behind = [p + len(query) for p in naive.unfenced(query)]
        got = index.next(query, fenced=False)
        want = np.unique([text[b] for b in behind if b < len(text)], return_counts=True)
        assert got.ids.tolist() == want[0].tolist() and got.counts.tolist() == want[1].tolist()
        assert got.ends == sum(b == len(text) for b in behind)


def test_wide_and_narrow_ids(tmp_path: Path) -> None:
    docs = [[2**40, 3, 2**40, 3], [2**62]]
    index = build(tmp_path / "wide", docs, "int64")
    assert [index.count(q) for q in ([2**40, 3], [2**62], [3, 2**40], [2**41])] == [2, 1, 1, 0]
    narrow = build(tmp_path / "narrow", [[255, 0, 255, 0], [0]], "uint8")
    assert narrow.positions([255, 0]).tolist() == [0, 2] and narrow.next([0]).ends == 2
    with pytest.raises(BadQuery, match="id 256"):
        narrow.count([256])


def test_probabilities(tmp_path: Path) -> None:
    index = build(tmp_path, [[1, 2, 3], [1, 2, 4], [1, 2, 3], [1, 2]])
    found = index.prob([1, 2], 3)
    assert (found.prompt_count, found.count, found.prob, found.suffix_len) == (4, 2, 0.5, 2)
    assert index.prob([9, 9], 3).prob is None
    found = index.infgram_prob([9, 1, 2], 4)
    assert (found.prompt_count, found.count, found.prob, found.suffix_len) == (4, 1, 0.25, 2)
    longest = index.infgram_next([7, 2])
    assert longest.suffix_len == 1 and longest.next.top(1) == [(3, 2)] and longest.next.dense(5).tolist() == [0, 0, 0, 2, 1]


def test_continuations_are_seeded_and_come_from_the_set(tmp_path: Path) -> None:
    docs = [[1, 2, 3, 4, 5], [1, 2, 9], [2, 2, 2]]
    index, naive = build(tmp_path, docs, shard_tokens=5), Naive(docs)
    drawn = index.sample_unsmoothed([8, 1], n=3, num_tokens=4, num_samples=40, seed=3)
    again = index.sample_unsmoothed([8, 1], n=3, num_tokens=4, num_samples=40, seed=3)
    assert [d.tolist() for d in drawn] == [d.tolist() for d in again]
    for sample in drawn:
        assert sample[:2].tolist() == [8, 1]
        grown = sample[1:].tolist()
        assert all(naive.positions(grown[max(0, i - 2) : i + 1]) for i in range(len(grown)))
    assert {len(d) for d in drawn} == {4, 6}  # [8 1 2 9] ends where its document does
    assert len(index.sample_unsmoothed([], n=1, num_tokens=50, seed=1)[0]) == 50


def test_a_sample_of_positions_is_uniform_and_seeded(tmp_path: Path) -> None:
    index = build(tmp_path, [[5] * 10] * 10, shard_tokens=30)
    seen = np.zeros(100, int)
    for seed in range(300):
        drawn = index.positions([5], sample=10, seed=seed)
        assert len(set(drawn.tolist())) == 10 and drawn.tolist() == sorted(drawn.tolist())
        seen[drawn] += 1
    assert abs(seen - 30).max() < 25
    assert index.positions([5], sample=10, seed=4).tolist() == index.positions([5], sample=10, seed=4).tolist()
    assert len(index.positions([5], sample=1000)) == 100


@pytest.mark.parametrize(
    "query, words",
    [([70_000, 5], "id 70000"), ([-1], "id -1"), ([1.5], "flat list of token ids"), ([[1]], "flat list"), (["a"], "flat list")],
)
def test_an_id_that_cannot_be_is_an_error(tmp_path: Path, query: list[int], words: str) -> None:
    index = build(tmp_path, [[5, 6]])
    for ask in (index.count, index.next, index.positions, index.find, index.longest_match, index.longest_suffix):
        with pytest.raises(BadQuery, match=words):
            ask(query)
    with pytest.raises(BadQuery):
        index.count_batch([query])
    assert index.count([60_000]) == 0 and index.count(np.array([5, 6], np.uint16)) == 1


def test_a_set_without_tokens(tmp_path: Path) -> None:
    index = build(tmp_path, [[], []])
    assert index.count([]) == index.count([1]) == 0
    assert not len(index.positions([1])) and index.next([]).total == 0 and not list(index.pages([1]))
    assert index.count_batch([[1], []]).tolist() == [0, 0] and index.longest_match([1, 2]).tolist() == [0, 1]


def test_sequences_with_gaps_get_a_copy_and_documents_of_several(tmp_path: Path) -> None:
    np.array([9, 1, 2, 9, 9, 3, 1, 2], "uint16").tofile(bin_of(tmp_path / "set"))
    idx_of(tmp_path / "set").write_bytes(idx_bytes(8, [2, 1, 2], [12, 10, 2], [0, 2, 3]))
    made = run_stage(IndexStage(threads=1), {"tokens": tmp_path / "set"}, tmp_path / "index")
    index = open_index(made.folder)
    assert (made.folder / "tokens.bin").is_file() and index.text.tolist() == [1, 2, 3, 1, 2]
    assert index.positions([1, 2]).tolist() == [0, 3] and index.count([2, 3]) == 1 and index.count([3, 1]) == 0
    assert index.places([0, 2, 3]).docs.tolist() == [0, 0, 1]


def test_another_set_is_refused(tmp_path: Path) -> None:
    index = build(tmp_path, [[1, 2, 3, 4]] * 5000)
    assert (index.folder / STAMP).is_file()
    data = bin_of(tmp_path / "set").read_bytes()
    changed = bytearray(data)
    changed[20_000] ^= 1
    stat = bin_of(tmp_path / "set").stat()
    bin_of(tmp_path / "set").write_bytes(changed)
    import os

    os.utime(bin_of(tmp_path / "set"), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(FingerprintMismatch, match="typecase index"):
        open_index(index.folder)
    bin_of(tmp_path / "set").write_bytes(data)
    assert open_index(index.folder).count([1]) == 5000
    bin_of(tmp_path / "set").write_bytes(data[:-2] + b"\7\0")
    with pytest.raises(FingerprintMismatch, match="other sizes or blocks"):
        open_index(index.folder, check="probe")


def test_where_the_set_lies_now(tmp_path: Path) -> None:
    index = build(tmp_path / "a", [[1, 2, 3]])
    (tmp_path / "a").rename(tmp_path / "b")
    assert open_index(tmp_path / "b" / "index").count([1, 2]) == 1  # moved together
    (tmp_path / "b" / "index").rename(tmp_path / "index")
    with pytest.raises(NotFound, match="say where it lies now"):
        open_index(tmp_path / "index")
    assert open_index(tmp_path / "index", tmp_path / "b" / "set").count([1, 2]) == 1
    assert index.count([2, 3]) == 1  # what is open stays open


def test_a_damaged_index_is_recognised(tmp_path: Path) -> None:
    index = build(tmp_path, [[1, 2, 3]])
    array = index.folder / "shard-00000.sa"
    array.write_bytes(array.read_bytes()[:-4])
    with pytest.raises(CorruptStore, match=r"shard-00000.sa has 8 bytes, expected 12"):
        open_index(index.folder)
    with pytest.raises(NotFound):
        open_index(tmp_path)


def test_another_artifact_is_no_index(tmp_path: Path, docs_artifact) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SchemaMismatch, match="holds docs"):
        open_index(docs_artifact([]))


def test_it_pickles_and_needs_no_writing(tmp_path: Path) -> None:
    index = build(tmp_path, [[1, 2, 3], [1, 2]])
    for path in [*index.folder.iterdir(), bin_of(tmp_path / "set")]:
        path.chmod(0o444)
    index.folder.chmod(0o555)
    try:
        again = pickle.loads(pickle.dumps(index))
        assert again.count([1, 2]) == 2 and open_index(index.folder).num_documents == 2
    finally:
        index.folder.chmod(0o755)


def test_it_follows_the_documents_of_the_store(tmp_path: Path) -> None:
    index = build(tmp_path, [[1, 2], [], [3]])
    with open_tokens(tmp_path / "set") as store:
        assert index.places([0, 1, 2]).docs.tolist() == store.document_of([0, 1, 2]).tolist() == [0, 0, 2]
    with pytest.raises(BadQuery, match="positions lie in"):
        index.places([3])
