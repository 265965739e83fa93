"""Loaders: against plain simulations, sample by sample and rank by rank, of what each sampler does."""

from __future__ import annotations

from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.order.randperm import randperm
from typecase.core.order.schedule import Resume, Schedule

DIMENSIONS = {"micro": st.integers(1, 3), "dp": st.integers(1, 8), "mbs": st.integers(1, 4), "rest": st.integers(0, 70)}


def runs_of(size, items):
    """`items` in whole runs of `size`; what is left over is dropped."""
    run = []
    for item in items:
        run.append(item)
        if len(run) == size:
            yield run
            run = []


def single(n, start, mbs, dp, rank):
    for run in runs_of(mbs * dp, range(start, n)):
        yield run[rank * mbs : (rank + 1) * mbs]


def cyclic(n, start, mbs, dp, rank, sharding, bridge):
    """A rank's sampler, begun anew whenever it is spent; it counts what it gave."""
    consumed, active = start, n - n % (mbs * dp)
    while True:
        epoch, offset = divmod(consumed, active)
        if sharding:
            bucket = n // (mbs * dp) * mbs
            own = [rank * bucket + x for x in randperm(bucket, epoch).tolist()[offset // dp :]]
        elif bridge:
            own = randperm(n, epoch).tolist()[offset:active][rank::dp]
        else:
            own = randperm(n // mbs * mbs, epoch).tolist()[offset:][rank::dp]
        for run in runs_of(mbs, own):
            consumed += mbs * dp
            yield run


def batched(n, start, size, dp, rank, seed, pads):
    consumed = start
    active = -(-n // size) * size if pads else n // size * size
    while True:
        epoch, offset = divmod(consumed, active)
        cards = randperm(n, seed + epoch).tolist()[offset:]
        cards += [-1] * (-len(cards) % size if pads else 0)
        for run in runs_of(size, cards):
            consumed += size
            yield run[rank::dp]


def neox(n, start_batch, mbs, dp, rank):
    seen = [list(range(p * mbs * dp, (p + 1) * mbs * dp)) for p in range(start_batch % (n // (mbs * dp)), n // (mbs * dp))]
    while True:
        for batch in seen:
            yield batch[rank * mbs : (rank + 1) * mbs]


def assert_ranks(schedule, n, first, dp, simulated, steps):
    """`simulated(rank)` gives the micro-batches of a rank from step `first` on."""
    for rank in range(dp):
        turns = simulated(rank)
        for step in range(first, first + steps):
            batch = schedule.batch(step, n)
            expected = list(islice(turns, batch.indices.shape[0]))
            assert batch.indices[:, rank].tolist() == expected, (step, rank)
            assert batch.rank(rank).tolist() == list(chain.from_iterable(expected))


def layout(micro, dp, mbs, **more):
    return Schedule(global_batch_size=micro * dp * mbs, micro_batch_size=mbs, data_parallel_size=dp, **more)


@given(**DIMENSIONS)
@settings(max_examples=60, deadline=None)
def test_single(micro, dp, mbs, rest):
    n, size = 3 * micro * dp * mbs + rest, micro * dp * mbs
    schedule = layout(micro, dp, mbs)
    steps = schedule.num_steps(n)
    assert steps == n // size
    assert_ranks(schedule, n, 0, dp, lambda rank: single(n, 0, mbs, dp, rank), steps)
    for step in range(steps):
        batch = schedule.batch(step, n)
        whole = np.stack([batch.rank(r).reshape(micro, mbs) for r in range(dp)], axis=1).reshape(-1)
        assert whole.tolist() == list(range(step * size, (step + 1) * size))


@pytest.mark.parametrize("kind", ["sharded", "dealt", "bridge"])
@given(**DIMENSIONS, begun=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_cyclic(kind, micro, dp, mbs, rest, begun):
    n, consumed = dp * mbs + rest, begun * dp * mbs
    schedule = layout(
        micro,
        dp,
        mbs,
        dataloader_type="bridge-cyclic" if kind == "bridge" else "cyclic",
        data_sharding=kind == "sharded",
        resumes=(Resume(step=5, consumed_samples=consumed),),
    )
    fresh = lambda start: lambda rank: cyclic(n, start, mbs, dp, rank, kind == "sharded", kind == "bridge")  # noqa: E731
    assert_ranks(schedule, n, 0, dp, fresh(0), 5)
    assert_ranks(schedule, n, 5, dp, fresh(consumed), 8)


def test_megatrons_dealt_epochs_shift_the_first_ranks():
    # 7 samples, 4 ranks: one whole round an epoch, and 3 ranks find one more sample than the last.
    schedule = layout(1, 4, 1, dataloader_type="cyclic", data_sharding=False)
    first, second = randperm(7, 0), randperm(7, 1)
    assert schedule.batch(0, 7).indices[0, :, 0].tolist() == first[:4].tolist()
    assert schedule.batch(1, 7).indices[0, :, 0].tolist() == [*first[4:7], second[3]]


@given(**DIMENSIONS, begun=st.integers(0, 9), pads=st.booleans(), seed=st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_batched(micro, dp, mbs, rest, begun, pads, seed):
    size = micro * dp * mbs
    n = size + rest
    resumes = (Resume(step=3, consumed_samples=begun * size),)
    schedule = layout(micro, dp, mbs, dataloader_type="batch", seed=seed, drop_last=not pads, resumes=resumes)
    for first, consumed in ((0, 0), (3, begun * size)):
        for rank in range(dp):
            turns = batched(n, consumed, size, dp, rank, seed, pads)
            for step in range(first, first + 3):
                assert schedule.batch(step, n).rank(rank).tolist() == next(turns)


def test_batched_in_file_order():
    schedule = layout(1, 2, 2, dataloader_type="batch", shuffle=False)
    assert [schedule.batch(t, 9).rank(0).tolist() for t in range(3)] == [[0, 2], [4, 6], [0, 2]]


@given(**DIMENSIONS, begun=st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_neox(micro, dp, mbs, rest, begun):
    n = dp * mbs + rest
    schedule = Schedule.neox(
        train_micro_batch_size_per_gpu=mbs,
        gradient_accumulation_steps=micro,
        data_parallel_size=dp,
        resumes=(Resume(step=begun),) if begun else (),
    )
    assert_ranks(schedule, n, 0, dp, lambda rank: neox(n, 0, mbs, dp, rank), begun or 12)
    assert_ranks(schedule, n, begun, dp, lambda rank: neox(n, begun * micro, mbs, dp, rank), 12)


@given(dp=st.integers(1, 8), micro=st.integers(1, 3), n=st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_full_validation(dp, micro, n):
    schedule = layout(micro, dp, 1, dataloader_type="full-validation")
    for rank in range(dp):
        read = np.concatenate([schedule.batch(t, n).rank(rank) for t in range(schedule.num_steps(n))])
        assert read[read >= 0].tolist() == list(range(rank, n, dp))


def test_a_last_partial_batch_is_kept_or_padded():
    kept = layout(1, 2, 2, drop_last=False)
    assert kept.num_steps(6) == 2
    assert kept.batch(1, 6).indices.tolist() == [[[4, 5], [-1, -1]]]
    padded = layout(1, 2, 2, drop_last=False, pad_samples_to_global_batch_size=True)
    assert padded.batch(1, 5).indices.tolist() == [[[4, -1], [-2, -3]]]
    assert padded.steps_of([4], 5).steps.tolist() == [1]


def test_far_steps_cost_no_walk():
    schedule = layout(2, 4, 2, dataloader_type="cyclic")
    step = 10**12
    epoch, turn = divmod(step * 2, 100 // 8)
    assert schedule.batch(step, 100).indices[0, 0].tolist() == randperm(24, epoch)[turn * 2 : turn * 2 + 2].tolist()
    assert Schedule.neox(train_micro_batch_size_per_gpu=2).batch(10**15, 7).indices.tolist() == [[[2, 3]]]
