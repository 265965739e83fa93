"""Legs: a run cut into stretches of steps of one batch size and one layout.

    resumes, phase transitions     0 ───────────────── 1500 ───────── …      processes, or data sets, of the run
    stairs of the batch size       0 ────── 900 ────── 1500 ───────── …      legs

Within a leg a step is a multiplication. Price: a leg for every stair and every restart; nothing grows with the steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from typecase.core.order.batch_sizes import BatchSizes
from typecase.errors import BadQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """Steps [first, stop) of one batch size and layout; stop None: without end.

    `consumed` samples lie before step `first` in the current data set, `size` are taken a step. The process began at step
    `origin` with `origin_consumed`; `declared` says that this count was given and not carried over. `phase` numbers the data
    sets of a run with phase transitions.
    """

    first: int
    stop: int | None
    consumed: int
    size: int
    micro_batch_size: int
    data_parallel_size: int
    origin: int
    origin_consumed: int
    declared: bool
    phase: int

    @property
    def share(self) -> int:
        """Samples of one micro-batch over all ranks."""
        return self.micro_batch_size * self.data_parallel_size

    @property
    def micro_batches(self) -> int:
        return self.size // self.share

    @property
    def shape(self) -> tuple[int, int, int]:
        """Micro-batches, ranks, slots."""
        return self.micro_batches, self.data_parallel_size, self.micro_batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """From `step` on the run continues in a new process; what is not None changes there.

    `consumed_samples` is the count that the checkpoint brings, or that was set; left out it is carried over. (A checkpoint
    without the counter means iteration * global_batch_size.) A restart that changes nothing still matters to GPT-NeoX past the
    end of its data, and to Megatron's cyclic loader.
    """

    step: int
    consumed_samples: int | None = None
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    data_parallel_size: int | None = None

    def __post_init__(self) -> None:
        if self.step < 0 or (self.consumed_samples or 0) < 0:
            raise BadQuery(
                f"a run cannot resume at step {self.step} with {self.consumed_samples} samples consumed: count from 0"
            )
        at_least_one(self, "global_batch_size", "micro_batch_size", "data_parallel_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What cuts a run into legs.

    It begins with `micro_batch_size` and `data_parallel_size`, and `sizes` of the global batch size that a resume sets (None:
    as configured, `nominal`). It ends before step `stop`, begins a new data set at the steps `transitions` (rising), and was
    restarted at `resumes` (rising).
    """

    micro_batch_size: int
    data_parallel_size: int
    nominal: int
    sizes: Callable[[int | None], BatchSizes]
    decrease_batch_size_if_needed: bool
    stop: int | None
    transitions: tuple[int, ...]
    resumes: tuple[Resume, ...]

    def legs(self) -> tuple[Leg, ...]:
        return tuple(self._walk())

    def _walk(self) -> Iterator[Leg]:
        resumes = {resume.step: resume for resume in self.resumes}
        transitions = [t for t in self.transitions if self.stop is None or t < self.stop]
        starts = sorted({0, *transitions, *resumes})
        state, consumed = Resume(step=0), 0
        for start, stop in zip(starts, [*starts[1:], self.stop]):
            resume = resumes.get(start)
            state = _changed(state, resume) if resume else state
            phase = bisect_right(transitions, start)
            consumed = self._consumed_at(start, consumed, state, resume, transitions)
            declared = resume is not None and resume.consumed_samples is not None
            run = Leg(
                first=start,
                stop=stop,
                consumed=consumed,
                size=0,
                micro_batch_size=state.micro_batch_size or self.micro_batch_size,
                data_parallel_size=state.data_parallel_size or self.data_parallel_size,
                origin=start,
                origin_consumed=consumed,
                declared=declared,
                phase=phase,
            )
            for leg in self._plateaus(run, self.sizes(state.global_batch_size)):
                yield leg
                consumed = leg.consumed + ((leg.stop or leg.first) - leg.first) * leg.size

    def _consumed_at(self, start: int, carried: int, state: Resume, resume: Resume | None, transitions: list[int]) -> int:
        if resume is not None and resume.consumed_samples is not None:
            return resume.consumed_samples
        if start in transitions:
            return 0
        if resume is not None and transitions and start:
            # With phases Megatron ignores its counter and multiplies anew, by the batch size of today.
            begun = max([0, *(t for t in transitions if t <= start)])
            return (start - begun) * (state.global_batch_size or self.nominal)
        return carried

    def _plateaus(self, run: Leg, sizes: BatchSizes) -> Iterator[Leg]:
        """The legs of one process."""
        step, consumed, before = run.first, run.consumed, 0
        while run.stop is None or step < run.stop:
            nominal, until = sizes.size_at(consumed)
            size = self._running(nominal, run, step)
            if size // run.share < before:
                raise BadQuery(
                    f"at step {step} the number of micro-batches falls from {before} to {size // run.share}, which Megatron"
                    " refuses within a run: let the sizes of the schedule rise, or resume there"
                )
            stop = None if until is None else step + -((consumed - until) // size)
            stop = run.stop if stop is None else stop if run.stop is None else min(stop, run.stop)
            yield replace(run, first=step, stop=stop, consumed=consumed, size=size)
            if stop is None:
                return
            step, consumed, before = stop, consumed + (stop - step) * size, size // run.share

    def _running(self, nominal: int, run: Leg, step: int) -> int:
        rest = nominal % run.share
        parts = f"micro_batch_size * data_parallel_size = {run.micro_batch_size} * {run.data_parallel_size} = {run.share}"
        if rest and not self.decrease_batch_size_if_needed:
            raise BadQuery(
                f"the global batch size {nominal} of step {step} is not divisible by {parts}: change one of them, or set"
                " decrease_batch_size_if_needed if the run did"
            )
        if nominal < run.share:
            raise BadQuery(f"the global batch size {nominal} of step {step} does not fill one micro-batch: it is below {parts}")
        return nominal - rest


def _changed(state: Resume, resume: Resume) -> Resume:
    """What holds after `resume`: its own values, and those of before where it has none."""
    return replace(
        resume,
        global_batch_size=resume.global_batch_size or state.global_batch_size,
        micro_batch_size=resume.micro_batch_size or state.micro_batch_size,
        data_parallel_size=resume.data_parallel_size or state.data_parallel_size,
    )


def at_least_one(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if value is not None and value < 1:
            raise BadQuery(f"{name} is {value}: it must be at least 1")
