"""Search over a set as its journal says: at every state the answers of a fresh index, whether edits are applied or not."""

from __future__ import annotations

import os
import pickle
import tempfile
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.index.naive import Naive
from tests.store.naive_tokens import bin_of, idx_bytes, write_set
from typecase.core.edit.edit import AppendDocument, DeleteDocument, Edit, InsertDocument, ReplaceDocument, Replacement
from typecase.errors import BadQuery, FingerprintMismatch, TypecaseError
from typecase.recipe.index import Index as IndexStage
from typecase.recipe.run import run_stage
from typecase.store.index import edited
from typecase.store.index.edited import EditedIndex
from typecase.store.index.filtered import Scope, count_within, positions_within
from typecase.store.index.index import Index, open_index
from typecase.store.journal import inplace
from typecase.store.journal.journal import Journal
from typecase.store.journal.opening import open_journal
from typecase.store.tokens.store import TokenStore

some = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
ids = st.sampled_from([0, 1, 2, 9])
sequence = st.lists(ids, max_size=9) | st.builds(lambda t, n: [t] * n, ids, st.integers(1, 9))
documents = st.lists(st.lists(sequence, max_size=3), min_size=1, max_size=6).filter(lambda ds: any(map(any, ds)))


def indexed(folder: Path, docs: list[list[list[int]]], dtype: str = "uint16", shard_tokens: int | None = None) -> Path:
    """The prefix of a set of `docs`, its index in `folder / "index"`."""
    prefix = write_set(folder / "set", docs, dtype)
    memory = 4 << 30 if shard_tokens is None else shard_tokens * (12 + np.dtype(dtype).itemsize)
    run_stage(IndexStage(threads=1, memory_bytes=memory), {"tokens": prefix}, folder / "index")
    return prefix


def arrays(sequences: list[list[int]]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(s, np.int64) for s in sequences)


@st.composite
def an_edit(draw: st.DrawFn, view: TokenStore) -> Edit:
    kind = draw(st.sampled_from(["same", "same", "other", "other", "delete", "insert", "append", "replace"]))
    brought = st.builds(arrays, st.lists(sequence, max_size=3))
    if kind in ("same", "other") and view.num_sequences:
        number = draw(st.integers(0, view.num_sequences - 1))
        tokens = view.read_sequence(number)
        start = draw(st.integers(0, len(tokens)))
        stop = draw(st.integers(start, min(len(tokens), start + 4)))
        size = {"min_size": stop - start, "max_size": stop - start} if kind == "same" else {"max_size": 5}
        new = draw(st.lists(ids, **size))  # type: ignore[arg-type]
        return Replacement(number, start, tokens[start:stop], np.array(new, np.int64))
    if kind in ("delete", "replace") and view.num_documents:
        doc = draw(st.integers(0, view.num_documents - 1))
        return DeleteDocument(doc) if kind == "delete" else ReplaceDocument(doc, draw(brought))
    if kind == "insert":
        return InsertDocument(draw(st.integers(0, view.num_documents)), draw(brought))
    return AppendDocument(draw(brought))


def disturb(data: st.DataObject, journal: Journal) -> None:
    """A few edits, some taken back, on branches, the state of some of them in the `.bin`."""
    for _ in range(data.draw(st.integers(1, 5))):
        what = data.draw(st.sampled_from(["edit", "edit", "edit", "undo", "branch", "apply", "apply"]))
        try:
            if what == "edit":
                journal.record([data.draw(an_edit(journal.view()))])
            elif what == "undo" and journal.log():
                journal.undo(data.draw(st.sampled_from([e.id for e in journal.log()])))
            elif what == "branch":
                name = f"b{len(journal.branches())}"
                journal.new_branch(name, at=data.draw(st.integers(0, journal.head)))
                journal.switch(name)
            elif what == "apply":
                journal.apply()
        except TypecaseError:
            pass  # nothing changed: an edit of nothing, one that is in the way of an undo, lengths that cannot be applied


def asked(data: st.DataObject, *texts: list[list[int]]) -> list[list[int]]:
    pieces = [doc for docs in texts for doc in docs if doc] or [[0]]
    piece = st.builds(
        lambda doc, a, n: doc[a % len(doc) :][:n], st.sampled_from(pieces), st.integers(0, 50), st.integers(0, 12)
    )
    query = piece | piece | st.builds(lambda q, more: q + more, piece, st.lists(ids, max_size=3))
    return data.draw(st.lists(query, min_size=4, max_size=8))


def compare(index: Index, naive: Naive, queries: list[list[int]]) -> None:
    assert (index.num_tokens, index.num_documents) == (len(naive.text), len(naive.docs))
    assert index.starts.tolist() == naive.starts
    for query in queries:
        hits = naive.positions(query)
        assert index.count(query) == len(hits), query
        assert index.contains(query) == bool(hits)
        assert index.positions(query).tolist() == hits, query
        assert index.positions(query, offset=1, limit=2).tolist() == hits[1:3]
        assert np.concatenate([np.zeros(0, int), *index.pages(query, 3)]).tolist() == hits
        drawn = index.positions(query, sample=3, seed=1).tolist()
        assert len(drawn) == min(3, len(hits)) and set(drawn) <= set(hits) and drawn == sorted(set(drawn))
        want, ends = naive.next(query)
        follows = index.next(query)
        assert dict(zip(follows.ids.tolist(), follows.counts.tolist())) == want and follows.ends == ends, query
        places = index.places(hits)
        assert places.docs.tolist() == [naive.doc_of(p) for p in hits]
        assert index.text[np.array(hits, np.int64)].tolist() == [naive.text[p] for p in hits]
        suffixes = [k for k in range(1, len(query) + 1) if naive.positions(query[len(query) - k :])]
        assert index.longest_suffix(query) == max(suffixes, default=0)
    assert index.count_batch(queries).tolist() == [len(naive.positions(q)) for q in queries]
    assert [n.total for n in index.next_batch(queries)] == [len(naive.positions(q)) for q in queries]
    some_docs = np.arange(len(naive.docs)) % 2 == 0
    for query in filter(None, queries[:2]):
        wanted = [p for p in naive.positions(query) if some_docs[naive.doc_of(p)]]
        assert positions_within(index, query, Scope(some_docs)).tolist() == wanted
        assert count_within(index, query, Scope(some_docs)) == len(wanted)


@some
@given(data=st.data())
@pytest.mark.parametrize("contexts", [(1, 2), (8, 32)])
def test_equal_to_a_scan_of_the_view(data: st.DataObject, contexts: tuple[int, ...]) -> None:
    docs = data.draw(documents)
    shard = data.draw(st.sampled_from([None, 8]))
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(edited, "CONTEXTS", contexts)
        folder = Path(place)
        prefix = indexed(folder, docs, data.draw(st.sampled_from(["uint16", "int32"])), shard)
        with open_journal(prefix, write=True) as journal:
            disturb(data, journal)
            names = ["", "@", *(f"@{n}" for n in journal.branches()), f"@{journal.head}", "@0"]
        found = [list(chain.from_iterable(doc)) for doc in docs]
        for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)):
            index = open_index(folder / "index", f"{prefix}{name}")
            now = [index.store.read(d).tolist() for d in range(index.store.num_documents)]
            if name == "@0":
                assert now == found
            if isinstance(index, EditedIndex):
                assert index.base.text.tolist() == list(chain.from_iterable(found))
            compare(index, Naive(now), asked(data, now, found))
            index.store.close()


def test_two_empty_sequences_of_an_empty_document_become_one_run(tmp_path: Path) -> None:
    prefix = indexed(tmp_path, [[[5, 6]], [[], []], [[7]]])
    with open_journal(prefix, write=True) as journal:
        journal.record([Replacement(1, 0, [], [1, 2]), Replacement(2, 0, [], [3])])
    with open_index(tmp_path / "index", f"{prefix}@").store:
        index = open_index(tmp_path / "index", f"{prefix}@")
        compare(index, Naive([[5, 6], [1, 2, 3], [7]]), [[1, 2, 3], [2, 3], [6, 1], [3, 7], [3]])
        again = pickle.loads(pickle.dumps(index))
        compare(again, Naive([[5, 6], [1, 2, 3], [7]]), [[2, 3]])


def test_edits_in_place_are_recognised_and_other_changes_refused(tmp_path: Path) -> None:
    prefix = indexed(tmp_path, [[[1, 2, 3]], [[4, 5, 6], [7, 8]]])
    before = bin_of(prefix).read_bytes()
    with open_journal(prefix, write=True) as journal:
        journal.record([Replacement(1, 1, [5, 6], [50, 60])])
        journal.apply()
        journal.record([DeleteDocument(0)])
    for check in ("stamp", "stamp", "full", "probe"):
        index = open_index(tmp_path / "index", check=check)  # type: ignore[arg-type]
        compare(index, Naive([[1, 2, 3], [4, 50, 60, 7, 8]]), [[50, 60], [5, 6], [60, 7], [1, 2]])
        compare(pickle.loads(pickle.dumps(index)), Naive([[1, 2, 3], [4, 50, 60, 7, 8]]), [[50, 60], [5, 6]])
    assert isinstance(index, EditedIndex) and index.base.text.tobytes() == before != bin_of(prefix).read_bytes()
    compare(open_index(tmp_path / "index", f"{prefix}@"), Naive([[4, 50, 60, 7, 8]]), [[50, 60], [1], [7, 8]])
    made = run_stage(IndexStage(threads=1), {"tokens": prefix}, tmp_path / "later").folder
    assert type(open_index(made)) is Index and open_index(made).count([50, 60]) == 1
    data = bytearray(bin_of(prefix).read_bytes())
    data[0] ^= 1
    bin_of(prefix).write_bytes(data)
    for name in ("", "@"):
        with pytest.raises(FingerprintMismatch, match="typecase index"):
            open_index(tmp_path / "index", f"{prefix}{name}")
    data[0] ^= 1
    bin_of(prefix).write_bytes(data)
    with open_journal(prefix, write=True) as journal:
        journal.unapply()
    assert type(open_index(tmp_path / "index")) is Index and bin_of(prefix).read_bytes() == before


def test_sets_with_gaps_are_searched_with_their_edits_too(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", [[[1, 2], [3]], [[4, 5, 6]]])
    idx = prefix.with_name("set.idx")
    idx.write_bytes(idx_bytes(8, [2, 1, 3], [0, 6, 8], [0, 2, 3]))  # the token at byte 4 belongs to no sequence
    bin_of(prefix).write_bytes(np.array([1, 2, 99, 3, 4, 5, 6], np.uint16).tobytes())
    run_stage(IndexStage(threads=1), {"tokens": prefix}, tmp_path / "index")
    with open_journal(prefix, write=True) as journal:
        journal.record([Replacement(0, 1, [2], [20]), Replacement(2, 0, [4], [40])])
        journal.apply()
        journal.record([Replacement(1, 0, [], [30, 31])])
    compare(open_index(tmp_path / "index"), Naive([[1, 20, 3], [40, 5, 6]]), [[1, 20], [2], [20, 3], [40, 5], [99]])
    edited_now = Naive([[1, 20, 30, 31, 3], [40, 5, 6]])
    compare(open_index(tmp_path / "index", f"{prefix}@"), edited_now, [[20, 30], [31, 3], [20, 3], [2], [40, 5]])


def test_what_needs_a_whole_index_is_refused(tmp_path: Path) -> None:
    prefix = indexed(tmp_path, [[[1, 2, 3]]])
    with open_journal(prefix, write=True) as journal:
        journal.record([Replacement(0, 1, [2], [9])])
    index = open_index(tmp_path / "index", f"{prefix}@")
    calls = [
        lambda: index.kneser_ney(2),
        lambda: index.attribute([1, 2]),
        lambda: index.longest_match([1, 2]),
        lambda: index.ngrams(1, top=1),
        lambda: index.duplicates(2),
        lambda: index.find([1]),
        lambda: index.matching([[1], [2]]),
        lambda: index.sample_unsmoothed([1], n=2, num_tokens=1),
        lambda: index.count([1], fenced=False),
    ]
    for call in calls:
        with pytest.raises(BadQuery, match="typecase edit write"):
            call()
    with pytest.raises(BadQuery, match="id 70000"):
        index.count([70_000])
    assert index.ranked([[9], [2]]).docs.tolist() == [0]
    assert index.prob([1], 9).count == 1 and index.infgram_next([2, 1]).suffix_len == 1


def test_an_application_that_was_broken_off_is_ended_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = indexed(tmp_path, [[[1, 2, 3, 4, 5]]])

    def torn(fd: int, runs: inplace.Runs, data: memoryview) -> None:
        os.pwrite(fd, data[:2], next(iter(runs))[0])
        raise RuntimeError("the machine stopped")

    with open_journal(prefix, write=True) as journal, monkeypatch.context() as patch:
        journal.record([Replacement(0, 1, np.array([2]), np.array([20])), Replacement(0, 3, np.array([4]), np.array([40]))])
        patch.setattr(inplace, "write_runs", torn)
        with pytest.raises(RuntimeError):
            journal.apply()
        # while its writer still holds the lock, nobody ends it: the view is right all the same
        compare(open_index(tmp_path / "index", f"{prefix}@"), Naive([[1, 20, 3, 40, 5]]), [[20], [4], [3, 40]])
        compare(open_index(tmp_path / "index", f"{prefix}@0"), Naive([[1, 2, 3, 4, 5]]), [[20], [4], [3, 4]])
        compare(open_index(tmp_path / "index"), Naive([[1, 20, 3, 4, 5]]), [[20], [4], [3, 40]])
    compare(open_index(tmp_path / "index"), Naive([[1, 20, 3, 40, 5]]), [[20], [4], [3, 40]])


def test_an_id_that_no_index_can_hold_is_told(tmp_path: Path) -> None:
    prefix = indexed(tmp_path, [[[1, 2, 3]]], "int32")
    with open_journal(prefix, write=True) as journal:
        journal.record([Replacement(0, 1, np.array([2]), np.array([-5]))])
    with pytest.raises(BadQuery, match="negative id"):
        open_index(tmp_path / "index", f"{prefix}@")


def test_many_edits_near_and_far_of_a_long_text(tmp_path: Path) -> None:
    """Queries of every length up to beyond the longest context, at and around the borders of edits."""
    rng = np.random.default_rng(3)
    docs = [rng.integers(0, 3, size).tolist() for size in (400, 0, 1, 900, 37)]
    prefix = indexed(tmp_path, [[doc] for doc in docs])
    with open_journal(prefix, write=True) as journal:
        for same in (True, False):
            view = journal.view()
            edits = []
            for sequence in (0, 3):
                for start in sorted(rng.choice(view.lengths[sequence] // 5, 12, replace=False).tolist()):
                    old = view.read_sequence(sequence, 5 * start, 5 * start + int(rng.integers(1, 4)))
                    edits.append(
                        Replacement(sequence, 5 * start, old, rng.integers(0, 3, len(old) if same else rng.integers(0, 6)))
                    )
            journal.record(edits)
            if same:
                journal.apply()
        journal.record([DeleteDocument(4), InsertDocument(1, arrays([docs[3][100:180]]))])
    index = open_index(tmp_path / "index", f"{prefix}@")
    now = [index.store.read(d).tolist() for d in range(index.num_documents)]
    texts = [doc for doc in (*now, *docs) if len(doc) > 60]
    queries = []
    for size in (1, 2, 5, 8, 9, 10, 11, 20, 32, 33, 34, 35, 50):
        for text in texts:
            begin = int(rng.integers(0, len(text) - size))
            queries.append(text[begin : begin + size])
    compare(index, Naive(now), queries)
