"""What a step learns is what trace shows for it, whatever the order, the edits, and the number of processes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.timeline.runs import FRAMEWORKS, make_set, settings_of, write_run
from tests.train.small_runs import make_words, small_plan, small_shape
from typecase.core.edit.edit import Replacement
from typecase.errors import BadQuery
from typecase.store.journal.opening import open_journal
from typecase.store.timeline.timeline import open_timeline
from typecase.train.batches import Course, StepBatch, open_course
from typecase.train.config import ModelShape

WIDE = ModelShape(layers=1, heads=1, kv_heads=1, width=8, hidden=8, vocab=60_000, context=16)
PLAN = small_plan(steps=4, batch=8)


def sets_of(folder: Path) -> list[Path]:
    dice = np.random.default_rng(3)
    return [
        make_set(folder / name, dice.integers(1, 30, 60).tolist(), first_id=first) for name, first in (("a", 1), ("b", 9000))
    ]


def data_of(kind: str, folder: Path) -> dict[str, Any]:
    """Settings of a run over one set, or over a blend of two."""
    one, two = sets_of(folder)
    if kind == "blend":
        return settings_of("megatron-core", ["0.7", str(one), "0.3", str(two)])
    if kind == "neox blend":
        changes = {"train_data_paths": [str(one), str(two)], "train_data_weights": [2, 1]}
        return {k: v for k, v in settings_of("gpt-neox", "", **changes).items() if k != "data_path"}
    return settings_of(kind, str(one))


@pytest.mark.parametrize("kind", [*FRAMEWORKS, "blend", "neox blend"])
def test_a_step_learns_what_trace_shows(tmp_path: Path, kind: str) -> None:
    run = write_run(tmp_path / "run.json", data_of(kind, tmp_path))
    with open_course(run, WIDE, PLAN) as course, open_timeline(run) as timeline:
        for step in range(PLAN.steps):
            batch, shown = course.at(step), timeline.at(step)
            assert np.array_equal(batch.ids, shown.padded()[:, :-1])
            assert np.array_equal(batch.targets, shown.padded()[:, 1:])
            check_pieces(batch, list(shown))


def check_pieces(batch: StepBatch, samples: list[Any]) -> None:
    """Losses that are each their own number: every document must get those of its own tokens."""
    losses = np.arange(batch.ids.size, dtype=np.float64).reshape(batch.ids.shape) * batch.mask
    wanted: dict[tuple[int, int], list[float]] = {}
    for row, sample in enumerate(samples):
        for piece in sample.pieces:
            own = range(max(piece.at, 1) - 1, piece.at + piece.stop - piece.start - 1)
            if len(own):
                wanted.setdefault((piece.document.member, piece.document.doc), []).extend(losses[row, list(own)])
    members, docs, tokens, sums = batch.by_document(losses)
    found = {(int(m), int(d)): (int(t), float(s)) for m, d, t, s in zip(members, docs, tokens, sums, strict=True)}
    assert found == {key: (len(values), sum(values)) for key, values in wanted.items()}
    assert sum(tokens) == batch.mask.sum() == batch.num_targets


@pytest.mark.parametrize("kind", ["gpt-neox", "megatron-core", "typecase"])
@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_a_step(tmp_path: Path, kind: str, world: int) -> None:
    run = write_run(tmp_path / "run.json", data_of(kind, tmp_path))
    with open_course(run, WIDE, PLAN) as course:
        for step in range(2):
            whole = course.at(step)
            parts = [course.at(step, rank=rank, world=world) for rank in range(world)]
            assert {part.num_targets for part in parts} == {whole.num_targets}
            rows = np.concatenate([part.ids for part in parts])
            assert sorted(rows.tolist()) == sorted(whole.ids.tolist())
            if world == 2:  # the run has two ranks: then a process is a rank
                for rank, part in enumerate(parts):
                    assert np.array_equal(part.ids, course.timeline.at(step, rank=rank).padded()[:, :-1])


def test_edits_are_learnt_as_trace_shows_them(tmp_path: Path) -> None:
    prefix = make_words(tmp_path)
    with open_journal(prefix, write=True) as journal:
        old = journal.view().read(0)[:1].astype(np.int64)
        journal.record([Replacement(0, 0, old, old + 1)])
        longest = int(np.argmax(journal.view().document_lengths()))
        journal.record([Replacement(longest, 2, np.zeros(0, np.int64), np.array([5, 5, 5]))])
    plan = small_plan()
    named = {"framework": "typecase", "seq_length": 16, "seed": plan.seed, "train_iters": 8, "global_batch_size": 6}
    different = False
    with (
        open_course(f"{prefix}@", small_shape(), plan) as edited,
        open_course(prefix, small_shape(), plan) as bare,
        open_timeline(f"{prefix}@", changes=named) as timeline,
    ):
        for step in range(plan.steps):
            ids = edited.at(step).ids
            assert np.array_equal(ids, timeline.at(step).padded()[:, :-1])
            different |= not np.array_equal(ids, bare.at(step).ids)
    assert different


def test_padding_is_not_learnt(tmp_path: Path) -> None:
    prefix = make_set(tmp_path, [5, 9, 30, 3, 12] * 20)
    settings = settings_of("gpt-neox", str(prefix), pack_impl="pack_until_overflow")
    with open_course(write_run(tmp_path / "run.json", settings), WIDE, PLAN) as course:
        batch = course.at(0)
        sizes = np.diff(course.timeline.at(0).offsets)
        assert 0 < sizes.min() < 17
        assert np.array_equal(batch.mask, np.arange(1, 17) < sizes[:, None])


def test_documents_are_kept_apart_where_the_run_says_so(tmp_path: Path) -> None:
    changes = {"reset_attention_mask": True, "reset_position_ids": True, "eod_mask_loss": True}
    run = write_run(tmp_path / "run.json", data_of("megatron-core", tmp_path) | changes)
    with open_course(run, WIDE, PLAN) as course:
        assert course.apart and course.anew
        batch, shown = course.at(0), list(course.timeline.at(0))
        for row, sample in enumerate(shown):
            firsts, mask = np.zeros(17, np.int64), np.ones(17, bool)
            for piece in sample.pieces:
                firsts[piece.at : piece.at + piece.stop - piece.start] = piece.at
                mask[piece.at] = False
            assert batch.firsts is not None and np.array_equal(batch.firsts[row], firsts[:-1])
            assert np.array_equal(batch.mask[row], mask[1:])
        check_total(course, batch)


def check_total(course: Course, batch: StepBatch) -> None:
    parts = [course.at(batch.step, rank=rank, world=2) for rank in range(2)]
    assert [part.num_targets for part in parts] == [batch.num_targets] * 2
    assert sum(int(part.mask.sum()) for part in parts) == batch.num_targets


@pytest.mark.parametrize(
    ("changes", "plan", "shape", "message"),
    [
        ({}, PLAN, small_shape(vocab=60), "vocabulary of 60"),
        ({}, small_plan(steps=21, batch=8), WIDE, "has 20"),
        ({}, small_plan(steps=4, batch=4), WIDE, "give batch=8"),
        ({"seq_length": 32}, PLAN, WIDE, "context of 32"),
        ({"reset_position_ids": True}, PLAN, WIDE, "reset_attention_mask"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    tmp_path: Path, changes: dict[str, Any], plan: Any, shape: Any, message: str
) -> None:
    run = write_run(tmp_path / "run.json", data_of("megatron-core", tmp_path) | changes)
    with pytest.raises(BadQuery, match=message), open_course(run, shape, plan) as course:
        course.at(0)


def test_an_order_is_given_once_and_whole(tmp_path: Path) -> None:
    prefix = make_words(tmp_path)
    run = write_run(tmp_path / "run.json", settings_of("megatron-core", "nowhere"))
    plan = small_plan(steps=3, batch=8)
    with open_course(prefix, small_shape(), plan, order=run) as course:
        assert course.timeline.plan.framework == "megatron-core" and course.at(0).ids.shape == (8, 16)
    with pytest.raises(BadQuery, match="of its own"):
        open_course(run, small_shape(), plan, order=run)
    with pytest.raises(BadQuery, match="framework"):
        open_course(prefix, small_shape(), plan, order={"seq_length": 16})


@dataclass
class Tokenizer:
    """As much of a tokenizer as Megatron looks at. No token is -1, so none is taken for padding."""

    eod: int = 0
    pad: int = -1
    vocab_size: int = 60_000

    @property
    def unique_identifiers(self) -> dict[str, Any]:
        return {"class": "T"}


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("blend", [False, True])
def test_megatron_trains_on_the_same_batches(tmp_path: Path, blend: bool) -> None:
    """Its own data sets over our .bin/.idx, its own sampler: tokens and labels of every rank and micro-batch are ours."""
    gpt = pytest.importorskip("megatron.core.datasets.gpt_dataset", reason="needs the oracle extra")
    builder = pytest.importorskip("megatron.core.datasets.blended_megatron_dataset_builder", reason="needs the oracle extra")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prefixes = [str(prefix) for prefix in sets_of(tmp_path)]
        flags = dict.fromkeys(("reset_position_ids", "reset_attention_mask", "eod_mask_loss", "create_attention_mask"), False)
        config = gpt.GPTDatasetConfig(
            tokenizer=Tokenizer(), random_seed=5, sequence_length=16, split="90,5,5", mid_level_dataset_surplus=0.005,
            blend=(prefixes, [0.7, 0.3]) if blend else (prefixes[:1], None), **flags,
        )  # fmt: skip
        sizes = [20 * 8, (20 // 10 + 1) * 8, 8]
        theirs = builder.BlendedMegatronDatasetBuilder(gpt.GPTDataset, sizes, lambda: True, config).build()[0]
    data = ["0.7", prefixes[0], "0.3", prefixes[1]] if blend else prefixes[0]
    run = write_run(tmp_path / "run.json", settings_of("megatron-core", data))
    with open_course(run, WIDE, PLAN) as course:
        for step in range(PLAN.steps):
            for rank in range(2):  # the sampler deals micro-batches of 2 to ranks in turn
                batch = course.at(step, rank=rank, world=2)
                wanted = [8 * step + 4 * micro + 2 * rank + slot for micro in range(2) for slot in range(2)]
                assert np.array_equal(batch.ids, np.stack([theirs[k]["tokens"].numpy() for k in wanted]))
                assert np.array_equal(batch.targets, np.stack([theirs[k]["labels"].numpy() for k in wanted]))
                assert batch.mask.all() and all(bool(theirs[k]["loss_mask"].all()) for k in wanted)
