"""Schedule: steps against plain loops over the rules, and steps_of against every batch read out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.order.batch_sizes import RampUp, Steps
from typecase.core.order.schedule import Resume, Schedule
from typecase.errors import BadQuery


def walk(size_of, share, steps, *, decrease=False, resumes=None, transitions=()):
    """(consumed, size) of every step, one step after another."""
    consumed, out = 0, []
    for t in range(steps):
        if t in transitions:
            consumed = 0
        if resumes and t in resumes:
            consumed, size_of, share = resumes[t](consumed)
        size = size_of(consumed)
        assert decrease or size % share == 0
        size = size // share * share
        out.append((consumed, size))
        consumed += size
    return out


def told(schedule, steps):
    return list(zip(schedule.consumed(range(steps)).tolist(), schedule.batch_size(np.arange(steps)).tolist()))


def ramp(start, increment, samples, gbs):
    per = samples / ((gbs - start) // increment)
    return lambda c: gbs if c > samples else start + int(c / per) * increment


def test_the_size_of_a_ramp_up_at_its_stairs():
    law = RampUp(start=16, increment=8, samples=300_000, global_batch_size=32)
    assert [law.size_at(c)[0] for c in (0, 149_999, 150_000, 300_000, 300_001)] == [16, 16, 24, 32, 32]
    assert law.size_at(0)[1] == 150_000


def test_the_thresholds_of_a_step_schedule_are_tokens():
    law = Steps.parse("0:768 250B:1536", 2048)
    assert law == Steps(thresholds=(0, 122_070_312), sizes=(768, 1536))
    assert Steps.parse("1.5M:2K, 0:768", 1000) == Steps(thresholds=(0, 1500), sizes=(768, 2000))
    schedule = Schedule(step_batch_size_schedule="0:768 250B:1536", seq_length=2048, micro_batch_size=4, data_parallel_size=8)
    first = -(-122_070_312 // 768)
    assert schedule.batch_size([first - 1, first]).tolist() == [768, 1536]
    assert schedule.consumed(10**9) == first * 768 + (10**9 - first) * 1536


@given(
    start=st.integers(1, 9),
    increment=st.integers(1, 7),
    stairs=st.integers(1, 8),
    samples=st.integers(1, 400),
    share=st.integers(1, 3),
)
@settings(max_examples=80, deadline=None)
def test_a_ramp_up_is_the_loop_over_its_steps(start, increment, stairs, samples, share):
    gbs, start = start * share + increment * stairs, start * share
    schedule = Schedule(
        global_batch_size=gbs,
        rampup_batch_size=(start, increment, samples),
        micro_batch_size=share,
        decrease_batch_size_if_needed=True,
    )
    assert told(schedule, 150) == walk(ramp(start, increment, samples, gbs), share, 150, decrease=True)


@pytest.mark.oracle
def test_ramp_ups_are_those_of_megatron():
    calculators = pytest.importorskip("megatron.core.num_microbatches_calculator")
    rng = np.random.default_rng(5)
    for _ in range(40):
        dp, mbs = (int(x) for x in rng.integers(1, 4, 2))
        start, increment = mbs * dp * int(rng.integers(1, 4)), int(rng.integers(1, 9))
        gbs, samples = start + increment * int(rng.integers(1, 12)), int(rng.integers(1, 3000))
        theirs = calculators.RampupBatchsizeNumMicroBatchesCalculator(gbs, mbs, dp, True, 1, start, increment, samples)
        ours = Schedule(
            global_batch_size=gbs,
            micro_batch_size=mbs,
            data_parallel_size=dp,
            rampup_batch_size=(start, increment, samples),
            decrease_batch_size_if_needed=True,
        )
        consumed = 0
        for step in range(120):
            theirs.update(consumed, True)
            assert (ours.consumed(step), ours.batch_size(step)) == (consumed, theirs.get_current_running_global_batch_size())
            consumed += theirs.get_current_running_global_batch_size()


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    gaps=st.lists(st.integers(1, 90), min_size=3, max_size=3),
    share=st.integers(1, 3),
    seq_length=st.integers(1, 5),
)
@settings(max_examples=80, deadline=None)
def test_a_step_schedule_is_the_loop_over_its_steps(sizes, gaps, share, seq_length):
    sizes = sorted(size * share for size in sizes)
    samples = np.cumsum([0, *gaps])[: len(sizes)]
    text = " ".join(f"{s * seq_length}:{size}" for s, size in zip(samples, sizes))
    schedule = Schedule(step_batch_size_schedule=text, seq_length=seq_length, data_parallel_size=share)
    expected = walk(lambda c: sizes[np.searchsorted(samples, c, "right") - 1], share, 100)
    assert told(schedule, 100) == expected


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 20), st.none() | st.integers(0, 99), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
        max_size=4,
        unique_by=lambda change: change[0],
    )
)
@settings(max_examples=60, deadline=None)
def test_resumes_change_sizes_layouts_and_counts(changes):
    resumes, actions = [], {}
    for step, consumed, micro, dp, mbs in sorted(changes, key=lambda change: change[0]):
        gbs = micro * dp * mbs
        resumes.append(
            Resume(step=step, consumed_samples=consumed, global_batch_size=gbs, micro_batch_size=mbs, data_parallel_size=dp)
        )
        actions[step] = lambda c, consumed=consumed, gbs=gbs: (c if consumed is None else consumed, lambda _: gbs, 1)
    schedule = Schedule(global_batch_size=6, micro_batch_size=2, data_parallel_size=3, resumes=tuple(resumes))
    assert told(schedule, 40) == walk(lambda _: 6, 1, 40, resumes=actions)
    for step in range(40):
        batch = schedule.batch(step, 10_000)
        ranks = np.stack([batch.rank(r).reshape(batch.indices.shape[0], -1) for r in range(batch.indices.shape[1])], axis=1)
        assert ranks.reshape(-1).tolist() == list(range(batch.consumed, batch.consumed + schedule.batch_size(step)))


def test_train_iters_of_train_samples():
    assert Schedule(global_batch_size=8).iterations(39) == 4
    stepped = Schedule(step_batch_size_schedule="0:4 20:8", seq_length=1)
    assert [stepped.iterations(n) for n in (0, 1, 20, 21, 28, 29)] == [0, 1, 5, 6, 6, 7]
    for samples, train_samples in ((30, 29), (30, 100), (17, 101), (5, 3)):
        size_of, consumed, steps = ramp(4, 2, samples, 10), 0, 0
        while consumed <= min(samples, train_samples):
            consumed, steps = consumed + size_of(consumed), steps + 1
        steps += max(train_samples - consumed, 0) // 10
        odd = {"micro_batch_size": 3, "decrease_batch_size_if_needed": True}
        ramped = Schedule(global_batch_size=10, rampup_batch_size=(4, 2, samples), **odd)
        assert ramped.iterations(train_samples) == steps


def test_a_resumed_ramp_up_goes_on_from_the_samples_consumed():
    schedule = Schedule(
        global_batch_size=32,
        rampup_batch_size=(16, 8, 300),
        resumes=(Resume(step=10, consumed_samples=149, micro_batch_size=2),),
    )
    assert schedule.batch_size([9, 10, 11]).tolist() == [16, 16, 24]
    assert schedule.consumed(11) == 165


def test_skipped_iterations_consume_but_do_not_train():
    schedule = Schedule(global_batch_size=4, iterations_to_skip=(3, 5))
    assert [schedule.trained(t) for t in range(6)] == [True, True, False, True, False, True]
    assert schedule.trained([1, 2]).tolist() == [True, False]
    assert schedule.consumed(6) == 24
    places = schedule.steps_of([7, 8], 24)
    assert places.steps.tolist() == [1, 2]
    assert places.trained.tolist() == [True, False]
    assert not schedule.batch(2, 24).trained


def test_every_phase_counts_from_zero():
    schedule = Schedule(global_batch_size=4, data_parallel_size=2, phase_transition_iterations=(7, 3))
    assert told(schedule, 12) == walk(lambda _: 4, 2, 12, transitions=(3, 7))
    assert [schedule.phase(t) for t in (0, 2, 3, 6, 7, 99)] == [0, 0, 1, 1, 2, 2]
    assert schedule.num_steps([12, 16, 20]) == 12
    assert schedule.num_steps([12, 15, 20]) == 6
    assert schedule.steps_of([5], [12, 16, 20], phase=1).steps.tolist() == [4]
    with pytest.raises(BadQuery, match="3 phases"):
        schedule.steps_of([5], [12, 16, 20])
    resumed = Schedule(global_batch_size=4, phase_transition_iterations=(3,), resumes=(Resume(step=5, global_batch_size=8),))
    assert resumed.consumed([4, 5, 6]).tolist() == [4, 16, 24]


LOADERS = ("single", "cyclic", "bridge-cyclic", "batch", "full-validation", "neox")


@given(
    kind=st.sampled_from(LOADERS),
    sharding=st.booleans(),
    drop_last=st.booleans(),
    pads=st.booleans(),
    layouts=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3),
    rest=st.integers(0, 40),
    train_iters=st.integers(4, 30),
)
@settings(max_examples=150, deadline=None)
def test_steps_of_is_the_inverse_of_batch(kind, sharding, drop_last, pads, layouts, rest, train_iters):
    if kind in ("single", "batch"):
        options = {"drop_last": drop_last, "pad_samples_to_global_batch_size": pads and not drop_last}
    else:
        options = {"data_sharding": sharding}
    layouts = [(m, dp, 1 if kind == "full-validation" else mbs) for m, dp, mbs in layouts]
    (m, dp, mbs), *later = layouts
    resumes, at = [], 0
    for micro, ranks, size in later:
        at += 3
        whole = micro * ranks * size
        resumes.append(
            Resume(
                step=at, consumed_samples=whole * at, global_batch_size=whole, micro_batch_size=size, data_parallel_size=ranks
            )
        )
    resumes = tuple(r for r in resumes if r.step < train_iters)
    schedule = Schedule(
        global_batch_size=m * dp * mbs,
        micro_batch_size=mbs,
        data_parallel_size=dp,
        train_iters=train_iters,
        dataloader_type=kind,
        resumes=resumes,
        **options,
    )
    n = max(a * b * c for a, b, c in layouts) + rest
    expected = []
    for step in range(schedule.num_steps(n)):
        indices = schedule.batch(step, n).indices
        for a, r, b in np.argwhere(indices >= 0):
            expected.append((int(indices[a, r, b]), step, int(a), int(r), int(b)))
    asked = np.arange(n)[::-1]
    places = schedule.steps_of(asked, n)
    found = zip(
        asked[places.rows].tolist(), *(c.tolist() for c in (places.steps, places.micro_batches, places.ranks, places.slots))
    )
    assert sorted(found) == sorted(expected)
    twice = schedule.steps_of([3 % n, 3 % n], n)
    assert twice.rows.tolist() == sorted(twice.rows.tolist())
    assert (twice.rows == 0).sum() == (twice.rows == 1).sum() == sum(e[0] == 3 % n for e in expected)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"global_batch_size": 10, "micro_batch_size": 4}, "not divisible by micro_batch_size"),
        (
            {"global_batch_size": 3, "micro_batch_size": 4, "decrease_batch_size_if_needed": True},
            "does not fill one micro-batch",
        ),
        ({}, "needs global_batch_size"),
        ({"global_batch_size": 0}, "at least 1"),
        ({"step_batch_size_schedule": "0:8"}, "seq_length"),
        ({"step_batch_size_schedule": "0:8", "seq_length": 1, "decrease_batch_size_if_needed": True}, "drop one of the two"),
        ({"step_batch_size_schedule": "0:8 8:4", "seq_length": 1}, "number of micro-batches falls from 8 to 4"),
        ({"step_batch_size_schedule": "5:8", "seq_length": 1}, "begin at 0"),
        ({"step_batch_size_schedule": "0:8 0:9", "seq_length": 1}, "must rise"),
        ({"step_batch_size_schedule": "0-8", "seq_length": 1}, "tokens:size"),
        ({"step_batch_size_schedule": "0:8X", "seq_length": 1}, "at most one of K, M, B, T"),
        ({"step_batch_size_schedule": "0:8", "seq_length": 1, "global_batch_size": 8}, "leave out global_batch_size"),
        ({"global_batch_size": 32, "rampup_batch_size": (16, 5, 100)}, "never lands"),
        ({"global_batch_size": 32, "rampup_batch_size": (16, 8, 0)}, "samples of rampup"),
        ({"global_batch_size": 8, "dataloader_type": "double"}, "no dataloader_type 'double'"),
        ({"global_batch_size": 8, "micro_batch_size": 2, "dataloader_type": "full-validation"}, "one sample a micro-batch"),
        ({"global_batch_size": 8, "dataloader_type": "cyclic", "drop_last": False}, "always drops"),
        ({"global_batch_size": 8, "resumes": (Resume(step=5), Resume(step=5))}, "rising step"),
        ({"global_batch_size": 8, "resumes": (Resume(step=5),), "train_iters": 5}, "train_iters ends it"),
        (
            {
                "global_batch_size": 8,
                "dataloader_type": "cyclic",
                "resumes": (Resume(step=5, consumed_samples=7, micro_batch_size=2),),
            },
            "multiple of micro_batch_size",
        ),
        (
            {"global_batch_size": 8, "dataloader_type": "batch", "resumes": (Resume(step=5, consumed_samples=12),)},
            "multiple of the global batch size",
        ),
        ({"global_batch_size": 8, "dataloader_type": "neox", "rampup_batch_size": (4, 2, 9)}, "one batch size only"),
        ({"global_batch_size": 8, "iterations_to_skip": (0,)}, "from 1"),
    ],
)
def test_what_the_framework_refuses_is_refused(parameters, says):
    with pytest.raises(BadQuery, match=says):
        Schedule(**parameters)


def test_questions_beyond_the_run_are_refused():
    schedule = Schedule(global_batch_size=8, data_parallel_size=2)
    assert schedule.num_steps(39) == 4
    assert schedule.batch(3, 39).rank(1).tolist() == [25, 27, 29, 31]
    with pytest.raises(BadQuery, match="samples 32 to 39, and the data set has 39: the run has 4 steps"):
        schedule.batch(4, 39)
    with pytest.raises(BadQuery, match="no rank 2"):
        schedule.batch(0, 39).rank(2)
    with pytest.raises(BadQuery, match="no step -1"):
        schedule.consumed(-1)
    with pytest.raises(BadQuery, match="no training index 39"):
        schedule.steps_of([39], 39)
    assert schedule.steps_of([38], 39).steps.tolist() == []
    assert schedule.steps_of([], 39).steps.tolist() == []
    endless = Schedule(global_batch_size=8, data_parallel_size=8, dataloader_type="cyclic")
    assert endless.num_steps(39) is None and endless.num_steps(7) == 0
    with pytest.raises(BadQuery, match="for ever"):
        endless.steps_of([3], 39)
    assert Schedule(global_batch_size=8, train_iters=2).num_steps(39) == 2


def test_neox_cycles_what_was_seen_since_the_restart():
    # 5 batches of 2; the run restarts at step 3 and reads 3 4 | 3 4 | 3 ... from then on.
    schedule = Schedule.neox(train_micro_batch_size_per_gpu=1, data_parallel_size=2, resumes=(Resume(step=3),))
    batches = [schedule.batch(t, 11).indices[0, 0, 0] // 2 for t in range(9)]
    assert batches == [0, 1, 2, 3, 4, 3, 4, 3, 4]
    assert schedule.steps_of([6], 11, stop=9).steps.tolist() == [3, 5, 7]
    assert [Schedule.neox(train_micro_batch_size_per_gpu=1).batch(t, 4).indices.item() for t in range(6)] == [0, 1, 2, 3, 0, 1]


def test_lists_are_taken_as_a_configuration_gives_them():
    listed = Schedule(global_batch_size=32, rampup_batch_size=[16, 8, 300], iterations_to_skip=[3], resumes=[Resume(step=2)])
    told_so = Schedule(global_batch_size=32, rampup_batch_size=(16, 8, 300), iterations_to_skip=(3,), resumes=(Resume(step=2),))
    assert listed == told_so and hash(listed) == hash(told_so)
