"""What TokenSmith was seen to do wrong when it edits, by the numbers of the list of its weaknesses, done right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.naive_tokens import bin_of, idx_of, write_set
from tests.store.timeline.runs import make_set, settings_of, write_run
from typecase.core.edit.edit import AppendDocument, DeleteDocument, InsertDocument, ReplaceDocument, Replacement
from typecase.core.edit.inject import Sample, masked, replacing, seq_shuffle, seq_start
from typecase.core.edit.spread import spread
from typecase.errors import BadQuery, Conflict, NotFound, StaleEdit
from typecase.store.journal.blast import blast_radius, refuse_dangers
from typecase.store.journal.finding import replace_everywhere
from typecase.store.journal.health import half_applied
from typecase.store.journal.opening import open_edited, open_journal
from typecase.store.timeline.timeline import Timeline, open_timeline
from typecase.store.tokens.store import open_tokens

LENGTHS = [30, 7, 1, 120, 16, 17, 15, 33, 64, 5, 90, 2, 44, 71, 8, 19]


def opened(folder: Path, **changes: Any) -> Timeline:
    make_set(folder / "a", LENGTHS)
    return open_timeline(write_run(folder / "run.json", settings_of("gpt-neox", "a", **changes)))


def sample_at(timeline: Timeline, index: int) -> Sample:
    samples = timeline.samples([index])
    packing = samples.reads.packing
    return Sample.of(zip(packing.docs.tolist(), packing.starts.tolist(), packing.stops.tolist(), strict=True), samples.tokens)


def test_1_every_place_of_a_sample_can_be_injected_at(tmp_path: Path) -> None:
    with opened(tmp_path) as timeline:
        for index in range(timeline.num_samples):
            sample = sample_at(timeline, index)
            plan = seq_start(sample, [9, 9, 9])
            assert plan.after[:3].tolist() == [9, 9, 9]
            if len({sequence for sequence, _, _ in sample.pieces}) == len(sample.pieces):
                assert np.array_equal(plan.after[3:], plan.before[3:])
        with pytest.raises(BadQuery):
            timeline.samples([-1])


def test_2_a_preview_shows_what_will_be_and_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as timeline, open_journal(tmp_path / "a", write=True) as journal:
        found = bin_of(tmp_path / "a" / "text_document").read_bytes()
        sample = sample_at(timeline, 3)
        seen = {}
        for seed in range(8):
            plan = seq_shuffle(sample, [999, 998, 997], np.random.default_rng(seed))
            view = journal.preview(plan.edits)
            tokens = np.concatenate([view.read_sequence(*piece) for piece in sample.pieces])
            assert np.array_equal(tokens, plan.after) and not np.array_equal(tokens, sample.tokens)
            seen[seed] = tokens.tolist()
            assert np.array_equal(plan.after[plan.at : plan.at + 3], [999, 998, 997])
        assert len({tuple(t) for t in seen.values()}) > 1  # another seed, another result
        assert journal.head == 0 and bin_of(tmp_path / "a" / "text_document").read_bytes() == found


def test_3_every_edit_can_be_taken_back_to_the_very_bytes(tmp_path: Path) -> None:
    prefix = make_set(tmp_path / "a", LENGTHS)
    found = bin_of(prefix).read_bytes()
    with open_journal(prefix, write=True, author="ada", clock=lambda: "noon") as journal:
        entry = journal.record([Replacement(3, 5, np.arange(44, 47), np.array([7, 7, 7]))], reason="wrong")
        journal.apply()
        assert bin_of(prefix).read_bytes() != found
        shown, groups = journal.show(entry.id)
        assert (shown.author, shown.reason, shown.time) == ("ada", "wrong", "noon")
        assert groups[0].spans.replacement(0).old.tolist() == [44, 45, 46]
        journal.undo(entry.id)
        journal.apply()
        assert bin_of(prefix).read_bytes() == found


def test_4_a_text_too_long_for_the_sample_is_refused_before_a_byte_is_written(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", [[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9, 10]]])
    found = bin_of(prefix).read_bytes()
    sample = Sample.of([(0, 1, 3), (1, 0, 3), (2, 0, 2)], [2, 3, 4, 5, 6, 7, 8])
    for inject in (lambda t: seq_start(sample, t), lambda t: seq_shuffle(sample, t, np.random.default_rng(0))):
        with pytest.raises(BadQuery, match=r"9 tokens do not fit the sample of 7 in 3 pieces; nothing was changed"):
            inject(list(range(9)))
    with open_journal(prefix, write=True) as journal:
        # One good edit and one that leaves its sequence: neither is made.
        with pytest.raises(BadQuery, match="leave it"):
            journal.record([Replacement(0, 0, [1], [5]), Replacement(1, 2, [6, 7], [0, 0])])  # type: ignore[arg-type]
        assert journal.head == 0
        journal.apply()
    assert bin_of(prefix).read_bytes() == found


@pytest.mark.parametrize("token", [70_000, 128_000, -1])
def test_5_an_id_that_does_not_fit_is_refused_and_never_wraps(tmp_path: Path, token: int) -> None:
    prefix = write_set(tmp_path / "set", [[[1, 2, 3]]])
    with pytest.raises(BadQuery, match=rf"token id {token} .* does not fit .*uint16"):
        seq_start(Sample.of([(0, 0, 3)], np.array([1, 2, 3], np.uint16)), [token])
    with open_journal(prefix, write=True) as journal:
        for edit in (
            Replacement(0, 0, np.array([1]), np.array([token])),
            AppendDocument((np.array([token]),)),
            ReplaceDocument(0, (np.array([token]),)),
        ):
            with pytest.raises(BadQuery, match=rf"token id {token} .* does not fit"):
                journal.record([edit])
        with pytest.raises(BadQuery, match="does not fit"):
            replace_everywhere(journal.view(), [1], [token])
        assert journal.head == 0


def test_6_neighbours_epochs_and_borders_are_told_before(tmp_path: Path) -> None:
    with opened(tmp_path) as timeline, open_journal(tmp_path / "a", write=True) as journal:
        view = journal.view()
        sample = sample_at(timeline, 5)
        plan = seq_start(sample, np.full(17, 9))  # the whole sample, its last token too, which is the next one's first
        radius = blast_radius(plan.edits, view, timeline=timeline, eod=int(sample.tokens[4]), addressed=[5], trained_until=2)
        changed = []
        ahead = journal.preview(plan.edits)
        for index in range(timeline.num_samples):
            other = sample_at(timeline, index)
            after = np.concatenate([ahead.read_sequence(*piece) for piece in other.pieces])
            if not np.array_equal(after, other.tokens):
                changed.append(index)
        assert list(radius.indices) == changed and len(changed) > 1
        assert set(radius.steps) == {seat.step for i in changed for seat in timeline.seats([i])[0]}
        assert len(radius.epochs) > 1 and set(radius.ranks) == {0, 1}
        assert radius.shared and all(len(s.indices) > 1 for s in radius.shared)
        assert radius.eod_overwritten
        codes = {d.code for d in radius.dangers}
        assert {"other-samples", "eod-overwritten"} <= codes
        with pytest.raises(Conflict, match=r"allow .*other-samples"):
            refuse_dangers(radius, ["eod-overwritten"])
        refuse_dangers(radius, codes)


def test_10_no_two_injections_get_the_same_draws() -> None:
    placed = spread(3, 4, over=range(100), seed=1234)
    assert len({p.sample for p in placed}) == 12
    draws = [tuple(p.rng.integers(0, 1 << 30, 4).tolist()) for p in placed]
    assert len(set(draws)) == 12
    assert [p.rng.integers(0, 1 << 30, 4).tolist() for p in spread(3, 4, over=range(100), seed=1234)] == [*map(list, draws)]
    one_a_batch = spread(3, 4, over=range(96), seed=1, batches=np.arange(96) // 8)
    assert len({p.sample // 8 for p in one_a_batch}) == 12
    with pytest.raises(BadQuery, match="13 injections, one a batch"):
        spread(13, 1, over=range(96), seed=1, batches=np.arange(96) // 8)


def test_25_looking_never_opens_for_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = write_set(tmp_path / "set", [[[1, 2, 3]], [[4]]])
    with open_journal(prefix, write=True) as journal:
        journal.record([Replacement(0, 0, np.array([1]), np.array([9]))])
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p.is_file()}
    real = os.open

    def reading(path: Any, flags: int, *more: Any, **named: Any) -> int:
        assert not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT), path
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", reading)
    with open_edited(prefix) as view, open_journal(prefix) as journal:
        assert view.read(0).tolist() == [9, 2, 3] and [e.id for e in journal.log()] == [1]
        assert half_applied(prefix) is None
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p.is_file()} == before


def test_26_checks_are_no_assertions(tmp_path: Path) -> None:
    write_set(tmp_path / "set", [[[1, 2, 3]], [[4]]])
    script = """
import sys
import numpy as np
from typecase.core.edit.edit import DeleteDocument, Replacement
from typecase.errors import TypecaseError
from typecase.store.journal.opening import open_journal
assert False, "must not run"
with open_journal(sys.argv[1], write=True) as journal:
    for edit in (Replacement(2, 0, [1], [1]), Replacement(0, 3, [1], [1]), Replacement(0, 0, [2], [1]), DeleteDocument(2),
                 DeleteDocument(-1)):
        try:
            journal.record([edit])
        except TypecaseError as error:
            print(type(error).__name__)
    try:
        Replacement(-1, 0, [1], [1])
    except TypecaseError as error:
        print(type(error).__name__)
"""
    run = [sys.executable, "-O", "-c", script, str(tmp_path / "set")]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert said == ["BadQuery", "BadQuery", "StaleEdit", "BadQuery", "BadQuery", "BadQuery"]


def test_28_everything_that_is_told_is_json(tmp_path: Path) -> None:
    with opened(tmp_path) as timeline, open_journal(tmp_path / "a", write=True, author="ada") as journal:
        plan = seq_start(sample_at(timeline, 5), [9, 9])
        radius = blast_radius(plan.edits, journal.view(), timeline=timeline, eod=1, addressed=[5])
        entry = journal.record(plan.edits, reason="why")
        told = [radius.as_dict(), entry.as_dict(), *(d.as_dict() for d in journal.diff(0, 1))]
        assert json.loads(json.dumps(told))[2]["new"] == [9, 9]


def test_29_ids_go_in_as_given_and_every_kind_of_edit_is_there(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", [[[1, 2, 3, 4]], [[5, 2, 3]], [[6]]])
    with open_journal(prefix, write=True) as journal:
        sample = Sample.of([(0, 0, 4), (1, 0, 2)], np.array([1, 2, 3, 4, 5, 2], np.uint16))
        assert seq_start(sample, [9]).after.tolist() == [9, 2, 3, 4, 5, 2]  # neither BOS nor EOS is added
        assert masked(sample, 3, 5, 0).after.tolist() == [1, 2, 3, 0, 0, 2]
        assert replacing(sample, [3, 4], [7, 7]).after.tolist() == [1, 2, 7, 7, 5, 2]
        assert replacing(sample, [3, 4], [7], fill=0).after.tolist() == [1, 2, 7, 0, 5, 2]
        with pytest.raises(BadQuery, match="not in the sample"):
            replacing(sample, [3, 9], [7, 7])
        journal.record(replace_everywhere(journal.view(), [2, 3], [8], limit=5))
        assert [journal.view().read(d).tolist() for d in range(3)] == [[1, 8, 4], [5, 8], [6]]
        journal.record([InsertDocument(0, (np.array([0, 0]),)), DeleteDocument(2), ReplaceDocument(1, (np.array([7]),))])
        view = journal.view()
        assert [view.read(d).tolist() for d in range(view.num_documents)] == [[0, 0], [1, 8, 4], [7]]


def test_a_stale_edit_is_refused_with_place_expected_and_found(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", [[[1, 2, 3, 4]]])
    with (
        open_journal(prefix, write=True) as journal,
        pytest.raises(StaleEdit, match=r"sequence 0, tokens \[1, 3\) are 2 3, the edit expects 2 9"),
    ):
        journal.record([Replacement(0, 1, np.array([2, 9]), np.array([0, 0]))])


def test_the_journal_of_another_set_and_no_journal(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", [[[1, 2, 3, 4]]])
    with pytest.raises(NotFound, match="has not been edited"):
        open_edited(prefix)
    open_journal(prefix, write=True).close()
    idx_of(prefix).unlink()
    bin_of(prefix).unlink()
    write_set(tmp_path / "set", [[[1, 2]], [[3, 4]]])
    with pytest.raises(Conflict, match=r"belongs to another set.*another \.idx"):
        open_edited(prefix)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_megatron_core_reads_what_was_applied_and_what_was_written_out(tmp_path: Path) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset", reason="needs the oracle extra")
    from typecase.store.journal.materialise import materialise

    prefix = make_set(tmp_path / "a", LENGTHS)
    rng = np.random.default_rng(0)
    with open_journal(prefix, write=True) as journal:
        for _ in range(20):
            view = journal.view()
            sequence = int(rng.integers(view.num_sequences))
            old = view.read_sequence(sequence)
            start = int(rng.integers(len(old)))
            new = rng.integers(0, 60_000, len(old) - start)
            journal.record([Replacement(sequence, start, old[start:], new)])
        journal.apply()
        theirs, ours = indexed.IndexedDataset(str(prefix)), journal.view()
        for k in range(len(theirs)):
            assert np.array_equal(theirs.get(k), ours.read_sequence(k))
        journal.record([Replacement(3, 5, journal.view().read_sequence(3, 5, 9), np.array([1])), DeleteDocument(7)])
        journal.record([AppendDocument((np.arange(9), np.arange(4))), InsertDocument(2, (np.array([5]),))])
        materialise(journal, tmp_path / "out")
        theirs, ours = indexed.IndexedDataset(str(tmp_path / "out" / "text_document")), journal.view()
        assert len(theirs) == ours.num_sequences and np.array_equal(theirs.document_indices, ours.document_index)
        for k in range(len(theirs)):
            assert np.array_equal(theirs.get(k), ours.read_sequence(k))
    with open_tokens(tmp_path / "out") as store:
        assert store.facts.contiguous and store.num_documents == len(LENGTHS) + 1
