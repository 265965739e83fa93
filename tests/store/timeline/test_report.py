"""Plans: counted sample by sample, and honest about orders that change."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.store.timeline.runs import FRAMEWORKS, make_set, settings_of, write_run
from tests.store.timeline.test_timeline import LENGTHS, opened
from typecase.core.order.tables import Tables
from typecase.errors import Conflict
from typecase.store.timeline.report import compare, report
from typecase.store.timeline.timeline import Timeline, open_timeline


def naive(timeline: Timeline) -> tuple[int, int, int | None, int | None, set[int]]:
    """Trained and repeated tokens, index and step of the first repeat, documents never seen: piece by piece."""
    first_read: dict[int, tuple[int, int]] = {}
    visits: Counter[int] = Counter()
    trained = repeated = 0
    first = step_of_first = None
    for step in range(timeline.num_steps or 0):
        batch = timeline.plan.schedule.batch(step, timeline.num_samples)
        for index in batch.indices.ravel().tolist() if batch.trained else ():
            reads = timeline.laid.reads([index])
            packing = reads.packing
            for doc, size, copy in zip(packing.docs.tolist(), packing.stops - packing.starts, reads.copies.tolist()):
                trained += int(size)
                if first_read.setdefault(doc, (copy, visits[index])) != (copy, visits[index]):
                    repeated += int(size)
                    first, step_of_first = (index, step) if first is None else (first, step_of_first)
            visits[index] += 1
    return trained, repeated, first, step_of_first, set(range(len(LENGTHS))) - set(first_read)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("steps", [3, 20])
def test_a_report_counts_every_piece(tmp_path: Path, framework: str, steps: int) -> None:
    with opened(tmp_path, framework, train_iters=steps) as timeline:
        found = report(timeline)
        trained, repeated, first, step, unseen = naive(timeline)
        whole = found.members[0].whole
        assert (found.steps, found.samples_trained, found.trained_tokens) == (steps, steps * 8, trained)
        assert (whole.trained_tokens, whole.repeated_tokens) == (trained, repeated)
        assert (whole.first_repeat_index, whole.unseen_documents) == (first, len(unseen))
        assert whole.first_repeat_step == step
        assert found.padding_tokens == 0 and whole.documents == len(LENGTHS) and whole.set_tokens == sum(LENGTHS)


def test_padding_is_counted(tmp_path: Path) -> None:
    with opened(tmp_path, "gpt-neox", pack_impl="pack_until_overflow") as timeline:
        found = report(timeline)
        short = sum(s.padding for step in range(20) for s in timeline.at(step))
        assert found.padding_tokens == short > 0
        tables = timeline.laid
        assert isinstance(tables, Tables)
        held = [
            sum(LENGTHS[d] for d in tables.sequences[tables.rows[k, 0] : tables.rows[k + 1, 0]]) + 1
            for k in range(len(tables.rows) - 1)
        ]
        samples = [s.sample for step in range(20) for s in timeline.at(step)]
        assert found.cut_tokens == sum(max(held[k] - 17, 0) for k in samples) > 0


def test_skipped_steps_are_consumed_and_not_counted(tmp_path: Path) -> None:
    with opened(tmp_path, "megatron-core", iterations_to_skip=[3, 4, 20]) as timeline:
        found = report(timeline)
        assert found.samples_trained == 17 * 8 and found.trained_tokens == naive(timeline)[0]


def test_extending_a_run_that_reshuffles_is_an_error_unless_it_is_said(tmp_path: Path) -> None:
    make_set(tmp_path / "a", LENGTHS)
    runs = [
        write_run(tmp_path / f"{n}.json", settings_of("megatron-core", "a", train_iters=n, split="100,0,0")) for n in (4, 30)
    ]
    with open_timeline(runs[0]) as old, open_timeline(runs[1]) as new:
        with pytest.raises(Conflict, match=r"order changed: sample \d+ of 32"):
            compare(old, new, step=4)
        found = compare(old, new, step=4, allow_changed_order=True)
        assert not found.same_order and found.first_difference is not None
        before = Counter(p.document.doc for step in range(4) for s in old.at(step) for p in s.pieces)
        after = Counter(p.document.doc for step in range(4, 30) for s in new.at(step) for p in s.pieces)
        path = str(new.stores[0].pair.prefix)
        assert found.repeated[path] == tuple(sorted(before.keys() & after.keys()))
        assert found.skipped[path] == tuple(sorted(set(range(len(LENGTHS))) - before.keys() - after.keys()))


def test_the_keyed_order_stays_when_a_run_is_extended(tmp_path: Path) -> None:
    make_set(tmp_path / "a", LENGTHS)
    runs = [write_run(tmp_path / f"{n}.json", settings_of("typecase", "a", train_iters=n)) for n in (4, 300)]
    with open_timeline(runs[0]) as old, open_timeline(runs[1]) as new:
        found = compare(old, new, step=4)
        assert found.same_order and found.first_difference is None
