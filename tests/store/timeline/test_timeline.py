"""A run asked both ways: ranks tile a step, a sighting is where the tokens are, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.timeline.runs import FRAMEWORKS, make_set, settings_of, write_run
from typecase.errors import BadQuery, NotFound
from typecase.store.timeline.timeline import Timeline, open_timeline

LENGTHS = [30, 7, 1, 120, 16, 17, 15, 33, 64, 5, 90, 2, 44, 71, 8, 19]


def opened(folder: Path, framework: str, **changes: Any) -> Timeline:
    make_set(folder / "a", LENGTHS)
    return open_timeline(write_run(folder / "run.json", settings_of(framework, "a", **changes)))


def seen_by(timeline: Timeline, steps: range) -> list[tuple[int, int, int, int, int, int]]:
    """Every piece of the steps: (step, index, at, doc, start, stop), by walking."""
    return [
        (step, s.index, p.at, p.document.doc, p.start, p.stop) for step in steps for s in timeline.at(step) for p in s.pieces
    ]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ranks_one_after_another_are_the_step(tmp_path: Path, framework: str) -> None:
    with opened(tmp_path, framework) as timeline:
        assert timeline.num_steps == 20
        for step in (0, 7, 19):
            whole = timeline.at(step)
            by_rank = [timeline.at(step, rank=r) for r in range(2)]
            assert len(whole) == 8 and [len(b) for b in by_rank] == [4, 4]
            assert sorted(whole.reads.indices) == sorted(i for b in by_rank for i in b.reads.indices)
            first = [b.padded()[:2] for b in by_rank]  # micro-batch 0: rank 0, then rank 1
            assert np.array_equal(whole.padded()[:4], np.concatenate(first))
        with pytest.raises(BadQuery, match="rank 2"):
            timeline.at(0, rank=2)
        with pytest.raises(BadQuery, match="step 20"):
            timeline.at(20)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_tokens_of_a_sample_are_those_of_its_documents(tmp_path: Path, framework: str) -> None:
    with opened(tmp_path, framework) as timeline:
        store = timeline.stores[0]
        for sample in timeline.samples(np.arange(timeline.num_samples)):
            told = [store.read(p.document.doc)[p.start : p.stop] for p in sample.pieces]
            assert np.array_equal(sample.tokens, np.concatenate(told))
            assert len(sample.padded) == 17 and sample.padding == 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_when_is_the_inverse_of_at(tmp_path: Path, framework: str) -> None:
    with opened(tmp_path, framework) as timeline:
        walked = seen_by(timeline, range(20))
        assert len(walked) > 200
        for doc in range(len(LENGTHS)):
            told = [
                (s.seat.step, s.index, s.at, s.document.doc, s.start, s.stop)
                for s in timeline.when_document(0, doc)
                if s.seat is not None
            ]
            assert told == sorted(w for w in walked if w[3] == doc)


def test_epochs_tell_the_copies_of_a_document_apart(tmp_path: Path) -> None:
    with opened(tmp_path, "megatron-core", train_iters=60) as timeline:
        places = timeline.when_document(0, 3)
        by_epoch: dict[int, set[int]] = {}
        for place in places:
            by_epoch.setdefault(place.epoch, set()).update(range(place.start, place.stop))
        assert len(by_epoch) > 10
        # All copies but those cut by the end of the order are whole.
        assert sum(tokens == set(range(120)) for tokens in by_epoch.values()) >= len(by_epoch) - 1


def test_a_blend_reads_each_set(tmp_path: Path) -> None:
    make_set(tmp_path / "a", LENGTHS)
    make_set(tmp_path / "b", LENGTHS[::-1], first_id=10_000)
    for framework, data in (
        ("megatron-core", {"data_path": [0.75, "a", 0.25, "b"]}),
        ("gpt-neox", {"train_data_paths": ["a", "b"], "train_data_weights": [3, 1]}),
    ):
        run = write_run(tmp_path / "run.json", settings_of(framework, "a") | data)
        with open_timeline(run) as timeline:
            members = [s.member for step in range(20) for s in timeline.at(step)]
            assert members.count(0) == 3 * members.count(1) == 120
            for sample in timeline.at(3):
                assert (sample.tokens >= 10_000).all() == (sample.member == 1)
            walked = {
                (step, s.index)
                for step in range(20)
                for s in timeline.at(step)
                if s.member == 1 and s.pieces[0].document.doc == 2
            }
            told = {(s.seat.step, s.index) for s in timeline.when_document(1, 2) if s.seat and s.at == 0}
            assert walked == told and walked


def test_a_run_set_by_epochs_repeats_the_same_order(tmp_path: Path) -> None:
    with opened(tmp_path, "gpt-neox", train_epochs=3, train_iters=None) as timeline:
        per_epoch = timeline.num_samples // 4
        assert timeline.num_steps == per_epoch * 3 // 2
        first = timeline.plan.schedule.batch(0, timeline.num_samples).indices.ravel()
        seats = timeline.seats(first)
        assert all(len(s) == 3 for s in seats)


@given(st.lists(st.integers(1, 60), min_size=3, max_size=12), st.integers(0, 2**32 - 1), st.sampled_from(FRAMEWORKS))
@settings(max_examples=40)
def test_any_set_any_seed(tmp_path_factory: pytest.TempPathFactory, lengths: list[int], seed: int, framework: str) -> None:
    folder = tmp_path_factory.mktemp("any")
    make_set(folder / "a", [*lengths, 40])
    run = write_run(folder / "run.json", settings_of(framework, "a", seed=seed, split="100,0,0", train_iters=6))
    with open_timeline(run) as timeline:
        walked = seen_by(timeline, range(6))
        doc = seed % (len(lengths) + 1)
        told = [(s.seat.step, s.index, s.at, s.document.doc, s.start, s.stop) for s in timeline.when_document(0, doc) if s.seat]
        assert told == sorted(w for w in walked if w[3] == doc)


def test_documents_of_several_sequences_are_told_as_documents(tmp_path: Path) -> None:
    from typecase.store.tokens.writer import TokenSetWriter

    (tmp_path / "s").mkdir()
    with TokenSetWriter(tmp_path / "s" / "text_document", np.int32) as writer:
        writer.append(np.arange(100, dtype=np.int32), np.array([10, 20, 5, 15, 30, 20]), per_document=np.array([2, 1, 3]))
    run = write_run(tmp_path / "run.json", settings_of("megatron-core", "s", split="100,0,0"))
    with open_timeline(run) as timeline:
        for sample in timeline.at(4):
            told = [timeline.stores[0].read(p.document.doc)[p.start : p.stop] for p in sample.pieces]
            assert np.array_equal(sample.tokens, np.concatenate(told))
        places = timeline.when_document(0, 2)
        assert {t for p in places for t in range(p.start, p.stop)} == set(range(65))


@pytest.mark.parametrize(
    ("framework", "changes", "said"),
    [
        ("gpt-neox", {"train_iters": None}, "needs train_iters"),
        ("gpt-neox", {"train_batch_size": 9}, "train_batch_size 9 is not"),
        ("megatron-core", {"train_iters": None}, "train_iters or train_samples"),
        ("megatron-core", {"global_batch_size": 9}, "not divisible"),
        ("megatron-core", {"split": "0,1,0"}, "train"),
        ("megatron-core", {"version": "new"}, "version is 'new'"),
        ("megatron-core", {"resumes": [{"at": 3}]}, "resumes holds"),
        ("megatron-core", {"phase_transition_iterations": [3]}, "each phase as a run of its own"),
    ],
)
def test_settings_that_contradict(tmp_path: Path, framework: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadQuery, match=said):
        opened(tmp_path, framework, **changes)


def test_a_missing_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        open_timeline(write_run(tmp_path / "run.json", settings_of("megatron-core", "nowhere")))
