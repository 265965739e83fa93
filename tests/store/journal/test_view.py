"""A view is read like the set that it would be written out as; lineage, provenance and doctor follow."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.naive_tokens import bin_of, idx_bytes, idx_of, write_set
from tests.store.timeline.runs import make_set, settings_of, write_run
from typecase.core.edit.edit import AppendDocument, DeleteDocument, InsertDocument, ReplaceDocument, Replacement
from typecase.errors import AlreadyExists, BadQuery, Conflict, CorruptStore, NotFound
from typecase.store import provenance, shards
from typecase.store.journal.journal import Journal
from typecase.store.journal.materialise import materialise
from typecase.store.journal.opening import open_edited, open_journal
from typecase.store.manifest import FileEntry, Manifest, first_damage, read_manifest, write_manifest
from typecase.store.timeline.timeline import open_timeline
from typecase.store.tokens.doctor import examine
from typecase.store.tokens.scan import find_tokens
from typecase.store.tokens.store import open_tokens

DOCUMENTS = [[[1, 2, 3], [4]], [], [[5, 6, 7, 8]], [[9, 9], [], [10]]]


def replacement(sequence: int, start: int, old: list[int], new: list[int]) -> Replacement:
    return Replacement(sequence, start, np.array(old, np.int64), np.array(new, np.int64))


def edited(journal: Journal, moved: bool) -> None:
    journal.record([replacement(2, 1, [6, 7], [60, 70])])
    if moved:
        journal.record(
            [replacement(0, 3, [], [30, 31]), DeleteDocument(1), InsertDocument(3, (np.array([8]), np.array([9, 9])))]
        )
        journal.record([ReplaceDocument(1, (np.array([5]), np.array([6]))), AppendDocument(())])


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("multimodal", [False, True])
def test_a_view_is_the_set_that_it_is_written_out_as(tmp_path: Path, moved: bool, multimodal: bool) -> None:
    prefix = write_set(tmp_path / "a" / "set", DOCUMENTS, "int32", modes=[0, 1, 0, 1, 0, 1] if multimodal else None)
    with open_journal(prefix, write=True) as journal:
        edited(journal, moved)
        view = journal.view()
        summary = materialise(journal, tmp_path / "out")
        assert summary.how == ("stream" if moved else summary.how) and summary.num_tokens == view.num_tokens
        with open_tokens(tmp_path / "out") as store:
            for name in ("num_sequences", "num_documents", "num_tokens", "dtype"):
                assert getattr(view, name) == getattr(store, name), name
            for name in ("lengths", "pointers", "document_index", "modes"):
                assert np.array_equal(getattr(view, name), getattr(store, name)), name
            assert view.facts == store.facts
            docs = np.random.default_rng(0).integers(0, store.num_documents, 20)
            for a, b in zip(view.read_many(docs), store.read_many(docs), strict=True):
                assert np.array_equal(a, b)
            assert np.array_equal(view.document_lengths(docs), store.document_lengths(docs))
            positions = np.arange(store.num_tokens)
            assert np.array_equal(view.document_of(positions), store.document_of(positions))
            assert np.array_equal(view.whole(docs), store.whole(docs))
            for mine, theirs in zip(view.blocks(3), store.blocks(3), strict=True):
                assert np.array_equal(mine.tokens, theirs.tokens) and np.array_equal(mine.sequences, theirs.sequences)
            assert [x.tolist() for x in find_tokens(view, [9, 9])] == [x.tolist() for x in find_tokens(store, [9, 9])]
            for call in ("read", "read_sequence"):
                for bad in (-1, 99):
                    with pytest.raises(BadQuery):
                        getattr(view, call)(bad)
            for spans in (([0], [0], [99]), ([99], [0], [1]), ([0], [-1], [1]), ([0, 1], [0], [1]), ([0.5], [0], [1])):
                with pytest.raises(BadQuery):
                    view.read_spans(*spans)
            with pytest.raises(BadQuery):
                view.sequence_of([store.num_tokens])


def test_a_view_outlives_its_journal_and_travels(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)
    with open_journal(prefix, write=True) as journal:
        edited(journal, True)
    with open_edited(prefix) as view, pickle.loads(pickle.dumps(view)) as copy:
        assert [copy.read(d).tolist() for d in range(copy.num_documents)] == [
            view.read(d).tolist() for d in range(view.num_documents)
        ]
        assert copy.fingerprint() == view.fingerprint() and copy.entry == view.entry == 3
    with open_edited(prefix, at=1) as view:
        assert view.read(2).tolist() == [5, 60, 70, 8] and not view.moved
        assert view.is_current
        with open_journal(prefix, write=True) as journal:
            journal.apply(1)
        assert not view.is_current


def test_branches_and_diffs(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)
    with open_journal(prefix, write=True) as journal:
        journal.record([replacement(0, 0, [1, 2], [7, 7])])
        journal.new_branch("what-if", at=0)
        journal.switch("what-if")
        journal.record([replacement(0, 1, [2], [8]), DeleteDocument(3)])
        told = [(d.kind, d.key, d.start, d.old.tolist(), d.new.tolist()) for d in journal.diff("main", "what-if")]
        assert told == [("replace", 0, 0, [7, 7], [1, 8]), ("delete", 3, 0, [9, 9, 10], [])]
        back = [(d.kind, d.key, d.old.tolist(), d.new.tolist()) for d in journal.diff("what-if", "main")]
        assert back == [("replace", 0, [1, 8], [7, 7]), ("insert", 3, [], [9, 9, 10])]
        assert [e.id for e in journal.log()] == [2] and [e.id for e in journal.log("main")] == [1]
        with pytest.raises(AlreadyExists):
            journal.new_branch("main")
        with pytest.raises(BadQuery, match="needs a letter"):
            journal.new_branch("7")
        with pytest.raises(NotFound, match="there are main, what-if"):
            journal.switch("other")
        with pytest.raises(BadQuery, match="cannot be applied in place"):
            journal.apply()


def test_undo_of_what_something_later_touches_is_refused(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", [[list(range(20))]])
    with open_journal(prefix, write=True) as journal:
        for start in (0, 5, 2):
            old = journal.view().read_sequence(0, start, start + 4)
            journal.record([Replacement(0, start, old, np.full(4, 100 + start))])
        with pytest.raises(Conflict, match=r"entry 1 cannot be taken back alone: entry 3, made later, touches sequence 0"):
            journal.undo(1)
        journal.undo(3)
        journal.undo(1)
        assert journal.view().read(0).tolist() == [0, 1, 2, 3, 4, 105, 105, 105, 105, *range(9, 20)]
        with pytest.raises(Conflict, match="taken back already"):
            journal.undo(1)
        journal.redo(5)
        assert journal.view().read(0)[:5].tolist() == [100, 100, 100, 100, 4]
        journal.redo()
        assert journal.view().read(0)[:6].tolist() == [100, 100, 102, 102, 102, 102]
        with pytest.raises(Conflict, match="nothing to redo"):
            journal.redo()
        with pytest.raises(NotFound):
            journal.undo(99)
        journal.undo(2, 7)  # back to the state of entry 1, whatever was undone and redone since
        assert journal.view().read(0).tolist() == [100, 100, 100, 100, *range(4, 20)]
        with pytest.raises(Conflict, match="entry 8 was taken back already, or is itself an undo"):
            journal.undo(8)
        journal.undo(1, 8)
        assert journal.view().read(0).tolist() == list(range(20))
        assert journal.verify() == 9


def test_nothing_is_redone_or_undone_at_a_place_that_moved(tmp_path: Path) -> None:
    """All tokens are alike, so that only the journal knows that they moved."""
    prefix = write_set(tmp_path / "set", [[[0] * 9], [[0] * 9]])
    with open_journal(prefix, write=True) as journal:
        journal.record([replacement(0, 5, [0], [7])])
        journal.undo(1)
        journal.record([replacement(0, 0, [], [0, 0])])
        with pytest.raises(Conflict, match="touches sequence 0, the length of which changes"):
            journal.redo()
        journal.record([AppendDocument((np.array([1]),))])
        journal.record([replacement(2, 0, [1], [2])])
        with pytest.raises(
            Conflict, match="entry 4 cannot be taken back alone: entry 5, made later, touches sequence 2, whose"
        ):
            journal.undo(4)
        journal.undo(5)
        journal.undo(4)
        journal.undo(3)
        journal.redo(2)  # what was between has gone
        assert journal.view().read(0).tolist() == [0, 0, 0, 0, 0, 7, 0, 0, 0] and journal.view().num_documents == 2


def test_a_changed_entry_breaks_the_chain(tmp_path: Path) -> None:
    import sqlite3

    prefix = write_set(tmp_path / "set", DOCUMENTS)
    with open_journal(prefix, write=True, author="ada") as journal:
        for token in (11, 12, 13):
            journal.record([Replacement(0, 0, journal.view().read_sequence(0, 0, 1), np.array([token]))])
        path = journal.ledger.path
    for sql, number in (("author = 'eve' WHERE id = 2", 2), ("author = 'eve' WHERE id = 3", 3)):
        db = sqlite3.connect(path)
        db.execute(f"UPDATE entries SET {sql}")
        db.commit()
        db.close()
        with pytest.raises(CorruptStore, match=f"entry {number} of .* was changed after it was written"):
            if number == 2:
                with open_journal(prefix) as journal:
                    assert journal.head == 3  # opening checks the last entry alone
                    journal.verify()
            else:
                open_journal(prefix)
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 9)
    with pytest.raises(CorruptStore, match="take a copy from a backup"):
        open_journal(prefix)


def test_sequences_that_share_bytes_are_not_edited_in_place(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", [[[1, 2, 3, 4]]])
    idx_of(prefix).write_bytes(idx_bytes(8, [4, 2], [0, 2], [0, 1, 2]))
    with open_journal(prefix, write=True) as journal:
        journal.record([replacement(1, 0, [2], [9])])
        assert [journal.view().read(d).tolist() for d in range(2)] == [[1, 2, 3, 4], [9, 3]]
        with pytest.raises(Conflict, match="share bytes"):
            journal.apply()
        assert materialise(journal, tmp_path / "out").how == "stream"
    with open_tokens(tmp_path / "out") as store:
        assert [store.read(d).tolist() for d in range(2)] == [[1, 2, 3, 4], [9, 3]]


def made_by_typecase(folder: Path) -> Path:
    """A set with provenance and manifest."""
    prefix = write_set(folder / "text_document", [[[1, 2, 3]], [[4, 5]], [[6]]])
    rows: list[dict[str, Any]] = [
        {"doc": d, "doc_id": f"{d:032x}", "source": "s", "file": "f", "row": d, "offset": 0, "start": 0, "stop": 9, "tokens": n}
        for d, n in enumerate((3, 2, 1))
    ]
    table = pa.Table.from_pylist(rows, provenance.PROVENANCE_SCHEMA)
    shards.write_shard(folder / provenance.NAME, [table], provenance.PROVENANCE_SCHEMA)
    names = ("text_document.bin", "text_document.idx", provenance.NAME)
    write_manifest(folder, Manifest("tokens", "build", 1, {}, (), tuple(FileEntry.of(folder, n) for n in names)))
    return prefix


def test_provenance_and_parents_of_what_is_written_out(tmp_path: Path) -> None:
    made_by_typecase(tmp_path / "web")
    with open_journal(tmp_path / "web", write=True) as journal:
        journal.record([DeleteDocument(1), InsertDocument(0, (np.array([7, 7]),)), replacement(0, 1, [2], [])])
        materialise(journal, tmp_path / "out")
        with pytest.raises(AlreadyExists):
            materialise(journal, tmp_path / "out")
        materialise(journal, tmp_path / "same", at=0)
    table = provenance.open_provenance(tmp_path / "out")
    assert table is not None
    rows = table.rows(np.arange(3)).to_pylist()
    assert [(r["doc"], r["source"], r["tokens"]) for r in rows] == [(0, "edit", 2), (1, "s", 2), (2, "s", 1)]
    assert [r["doc_id"] for r in rows[1:]] == [f"{d:032x}" for d in (0, 2)]
    manifest = read_manifest(tmp_path / "out")
    assert (manifest.stage, manifest.parents[0].content) == ("edit", read_manifest(tmp_path / "web").content)
    assert first_damage(tmp_path / "out", manifest) is None and examine(tmp_path / "out").ok
    assert bin_of(tmp_path / "same" / "text_document").read_bytes() == bin_of(tmp_path / "web" / "text_document").read_bytes()


def test_doctor_knows_an_edit_in_place_from_damage(tmp_path: Path) -> None:
    prefix = made_by_typecase(tmp_path / "web")
    with open_journal(tmp_path / "web", write=True, author="ada") as journal:
        journal.record([replacement(0, 1, [2], [9])])
        journal.apply()
    found = {f.code: f for f in examine(prefix).findings}
    assert examine(prefix).ok and "edited in place by entry 1" in found["edited-in-place"].message
    assert "but for the edits in place" in found["manifest"].message
    with bin_of(prefix).open("r+b") as file:
        file.write(b"\x07")
    assert not examine(prefix).ok


def test_a_run_over_a_view_sees_the_edits(tmp_path: Path) -> None:
    make_set(tmp_path / "a", [30, 7, 1, 120, 16])
    with open_timeline(write_run(tmp_path / "run.json", settings_of("gpt-neox", "a"))) as timeline:
        before = timeline.samples(np.arange(timeline.num_samples)).tokens
        with open_journal(tmp_path / "a", write=True) as journal:
            journal.record([replacement(3, 2, [41, 42], [900, 901])])
            timeline.stores = (journal.view(),)
            after = timeline.samples(np.arange(timeline.num_samples)).tokens
    told = before.copy()
    told[before == 41], told[before == 42] = 900, 901
    assert np.array_equal(after, told) and not np.array_equal(after, before)


@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 30), rounds=st.integers(1, 12))
def test_many_small_entries_are_one_large_one(tmp_path_factory: pytest.TempPathFactory, seed: int, rounds: int) -> None:
    rng = np.random.default_rng(seed)
    prefix = write_set(tmp_path_factory.mktemp("s") / "set", [[rng.integers(0, 9, 40).tolist()] for _ in range(5)])
    with open_tokens(prefix) as store:
        now = [store.read(d).copy() for d in range(5)]
    with open_journal(prefix, write=True) as journal, journal.batch():
        for _ in range(rounds):
            d, a = int(rng.integers(5)), int(rng.integers(40))
            b = int(rng.integers(a, 40)) + 1
            new = rng.integers(0, 9, b - a).astype(np.uint16)
            journal.record([Replacement(d, a, now[d][a:b].copy(), new)])
            now[d][a:b] = new
            assert all(np.array_equal(journal.view().read(k), now[k]) for k in range(5))
