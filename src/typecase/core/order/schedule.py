"""Schedule: the law from a training step to the training indices it reads, and back.

    schedule = Schedule(global_batch_size=1024, micro_batch_size=4, data_parallel_size=32)

    schedule.batch(500, len_dataset).rank(3)          step 500 -> what rank 3 reads
    schedule.steps_of([41_250], len_dataset)          training index -> step, micro-batch, rank, slot

    step      0 ─────────── 900 ─────────── 1500 ───────── …
    legs      │ 256 a step  │ 512 a step    │ resumed: 512 a step on 64 ranks
    consumed  0             230,400         537,600

Parameters are named as the frameworks' configuration names them. Steps count from 0: step t is their iteration t + 1. Ramp-ups,
step schedules, restarts with another batch size and phase transitions all cut a run into *legs* of one size and one layout;
there are few of them however long the run is, so an answer costs a bisection of the legs, and what the loader needs within one
(`loaders`). Everything that the framework would refuse on the way is found when the schedule is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np
import numpy.typing as npt

from typecase.core.order.batch_sizes import BatchSizes, Constant, RampUp, Steps
from typecase.core.order.legs import Leg, Run, at_least_one
from typecase.core.order.legs import Resume as Resume
from typecase.core.order.loaders import Batched, Cyclic, Loader, Neox, Sequential
from typecase.errors import BadQuery

Ints: TypeAlias = npt.NDArray[np.int64]
Sizes: TypeAlias = int | Sequence[int]
"""Samples of the data set (its `len`); with phase transitions one number a phase, or one for all."""
LoaderType: TypeAlias = Literal["single", "cyclic", "bridge-cyclic", "batch", "full-validation", "neox"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What one step reads.

    `indices` (micro-batches, ranks, micro-batch size) are training indices, negative where there is none: -1, and with NeMo's
    padding -1, -2, … `consumed` samples were taken before; `trained` is False where the step's samples are skipped.
    """

    step: int
    consumed: int
    trained: bool
    indices: Ints

    def rank(self, rank: int) -> Ints:
        """What data-parallel rank `rank` reads, in its order: micro-batch after micro-batch."""
        ranks = self.indices.shape[1]
        if not 0 <= rank < ranks:
            raise BadQuery(f"there is no rank {rank} at step {self.step}: it has data-parallel ranks 0 to {ranks - 1}")
        return self.indices[:, rank].reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where training indices are read, one row a place, by `rows` and then by step: `rows` numbers the index as asked."""

    rows: Ints
    steps: Ints
    micro_batches: Ints
    ranks: Ints
    slots: Ints
    trained: npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How a run walks through its training indices.

    Sizes: `global_batch_size`, or `step_batch_size_schedule` ("0:768 250B:1536", which needs `seq_length`); with
    `rampup_batch_size` = (start, increment, samples) the size climbs to `global_batch_size`. With
    `decrease_batch_size_if_needed` a size that micro-batches on all ranks do not divide is rounded down instead of refused.

    Loader: "single" (Megatron, NeMo, Bridge), "cyclic" (Megatron; NeMo, with `data_sharding`), "bridge-cyclic", "batch" (Bridge
    fine-tuning; `seed`, `shuffle`), "full-validation" (Megatron; one sample a micro-batch) and "neox". `drop_last` False keeps
    the last partial batch, `pad_samples_to_global_batch_size` fills it as NeMo does; the batch loader always fills it.

    Run: it ends after `train_iters` if given, jumps over the samples of `iterations_to_skip` (numbers from 1, as in the
    framework), begins a new data set after each of `phase_transition_iterations`, and was restarted at `resumes`.
    """

    global_batch_size: int | None = None
    micro_batch_size: int = 1
    data_parallel_size: int = 1
    rampup_batch_size: tuple[int, int, int] | None = None
    step_batch_size_schedule: str | None = None
    seq_length: int | None = None
    decrease_batch_size_if_needed: bool = False
    train_iters: int | None = None
    iterations_to_skip: tuple[int, ...] = ()
    phase_transition_iterations: tuple[int, ...] = ()
    resumes: tuple[Resume, ...] = field(default=())
    dataloader_type: LoaderType = "single"
    data_sharding: bool = True
    drop_last: bool = True
    pad_samples_to_global_batch_size: bool = False
    seed: int = 1234
    shuffle: bool = True

    @classmethod
    def neox(
        cls,
        *,
        train_micro_batch_size_per_gpu: int,
        gradient_accumulation_steps: int = 1,
        data_parallel_size: int = 1,
        train_iters: int | None = None,
        resumes: tuple[Resume, ...] = (),
    ) -> Schedule:
        """The schedule of a GPT-NeoX run, in its own words. A resume counts `step * gradient_accumulation_steps` batches into
        the data, as GPT-NeoX does, unless it gives `consumed_samples`."""
        return cls(
            global_batch_size=train_micro_batch_size_per_gpu * gradient_accumulation_steps * data_parallel_size,
            micro_batch_size=train_micro_batch_size_per_gpu,
            data_parallel_size=data_parallel_size,
            train_iters=train_iters,
            resumes=resumes,
            dataloader_type="neox",
        )

    def __post_init__(self) -> None:
        at_least_one(self, "global_batch_size", "micro_batch_size", "data_parallel_size", "train_iters", "seq_length")
        for name in ("iterations_to_skip", "phase_transition_iterations", "resumes", "rampup_batch_size"):
            if isinstance(getattr(self, name), list):  # as read from a configuration
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if any(i < 1 for i in self.iterations_to_skip + self.phase_transition_iterations):
            raise BadQuery("iterations_to_skip and phase_transition_iterations count iterations from 1: give no number below")
        steps = [resume.step for resume in self.resumes]
        if any(a >= b for a, b in pairwise(steps)):
            raise BadQuery(f"resumes must be given by rising step, one a step, and these are at steps {steps}")
        if self.train_iters is not None and any(step >= self.train_iters for step in steps):
            raise BadQuery(f"the run resumes at step {steps[-1]}, but train_iters ends it after step {self.train_iters - 1}")
        self._check_combination()
        for leg in self.legs:
            self._loader.check(leg)

    def _check_combination(self) -> None:
        kind, varies = self.dataloader_type, self.rampup_batch_size is not None or self.step_batch_size_schedule is not None
        if kind not in get_args(LoaderType):
            raise BadQuery(f"there is no dataloader_type {kind!r}: choose one of {', '.join(get_args(LoaderType))}")
        if varies and (kind in ("neox", "batch") or self.pad_samples_to_global_batch_size):
            raise BadQuery("GPT-NeoX, the batch loader and padding know one batch size only: drop the ramp-up or step schedule")
        if varies and self.phase_transition_iterations:
            raise BadQuery("Megatron has no phase transitions with a batch size that varies: drop one of the two")
        if kind == "neox" and self.phase_transition_iterations:
            raise BadQuery("GPT-NeoX has no phase_transition_iterations: leave them out")
        if kind == "full-validation" and self.micro_batch_size != 1:
            raise BadQuery(
                f"full validation reads one sample a micro-batch, and micro_batch_size is {self.micro_batch_size}: give 1"
            )
        if self.pad_samples_to_global_batch_size and (self.drop_last or kind not in ("single", "batch")):
            raise BadQuery("pad_samples_to_global_batch_size works with drop_last=False and the single or batch loader only")
        if not self.drop_last and kind not in ("single", "batch", "full-validation"):
            raise BadQuery(f"the {kind} loader always drops the last partial batch: leave drop_last as it is")

    @cached_property
    def _loader(self) -> Loader:
        match self.dataloader_type:
            case "single":
                return Sequential(drop_last=self.drop_last, pads=self.pad_samples_to_global_batch_size)
            case "full-validation":
                return Sequential(drop_last=False)
            case "cyclic" | "bridge-cyclic":
                return Cyclic(data_sharding=self.data_sharding, bridge=self.dataloader_type == "bridge-cyclic")
            case "batch":
                return Batched(seed=self.seed, shuffle=self.shuffle, drop_last=self.drop_last)
            case "neox":
                return Neox()

    @property
    def cycles(self) -> bool:
        """Whether the loader begins anew where its data end."""
        return self._loader.cycles

    # Legs

    @cached_property
    def legs(self) -> tuple[Leg, ...]:
        """The run as stretches of one size and one layout."""
        return Run(
            micro_batch_size=self.micro_batch_size,
            data_parallel_size=self.data_parallel_size,
            nominal=self.global_batch_size or 0,
            sizes=self._sizes,
            decrease_batch_size_if_needed=self.decrease_batch_size_if_needed,
            stop=self.train_iters,
            transitions=tuple(sorted(set(self.phase_transition_iterations))),
            resumes=self.resumes,
        ).legs()

    def _sizes(self, changed: int | None) -> BatchSizes:
        if self.step_batch_size_schedule is not None:
            if self.global_batch_size or changed or self.rampup_batch_size:
                raise BadQuery(
                    "step_batch_size_schedule sets the batch size: leave out global_batch_size and rampup_batch_size"
                )
            if self.decrease_batch_size_if_needed:
                raise BadQuery(
                    "Megatron has no step_batch_size_schedule with decrease_batch_size_if_needed: drop one of the two"
                )
            if self.seq_length is None:
                raise BadQuery("step_batch_size_schedule counts tokens: give seq_length, which makes samples of them")
            return Steps.parse(self.step_batch_size_schedule, self.seq_length)
        size = changed or self.global_batch_size
        if size is None:
            raise BadQuery("a schedule needs global_batch_size, or step_batch_size_schedule with seq_length")
        if self.rampup_batch_size is None:
            return Constant(global_batch_size=size)
        if len(self.rampup_batch_size) != 3:
            raise BadQuery(f"rampup_batch_size is (start, increment, samples), and this is {self.rampup_batch_size}")
        start, increment, samples = map(int, self.rampup_batch_size)
        return RampUp(start=start, increment=increment, samples=samples, global_batch_size=size)

    # From steps

    @overload
    def consumed(self, step: int) -> int: ...
    @overload
    def consumed(self, step: npt.NDArray[Any] | Sequence[int]) -> Ints: ...
    def consumed(self, step: int | npt.NDArray[Any] | Sequence[int]) -> int | Ints:
        """Samples consumed before the step, in the data set of its phase; of many steps at once, the same shape."""
        steps, nth = self._legs_of(step)
        firsts, counts, sizes = self._columns
        return _like(step, counts[nth] + (steps - firsts[nth]) * sizes[nth])

    @overload
    def batch_size(self, step: int) -> int: ...
    @overload
    def batch_size(self, step: npt.NDArray[Any] | Sequence[int]) -> Ints: ...
    def batch_size(self, step: int | npt.NDArray[Any] | Sequence[int]) -> int | Ints:
        """Samples that the step takes."""
        _, nth = self._legs_of(step)
        return _like(step, self._columns[2][nth])

    @overload
    def trained(self, step: int) -> bool: ...
    @overload
    def trained(self, step: npt.NDArray[Any] | Sequence[int]) -> npt.NDArray[np.bool_]: ...
    def trained(self, step: int | npt.NDArray[Any] | Sequence[int]) -> bool | npt.NDArray[np.bool_]:
        """Whether the step trains on its samples; the others only consume them."""
        steps, _ = self._legs_of(step)
        trains = ~np.isin(steps + 1, np.array(self.iterations_to_skip, np.int64))
        return bool(trains) if isinstance(step, int | np.integer) else trains

    def phase(self, step: int) -> int:
        """Which data set the step reads: the number of phase transitions before it."""
        return self._leg(step).phase

    @cached_property
    def _columns(self) -> tuple[Ints, Ints, Ints]:
        rows = np.array([(leg.first, leg.consumed, leg.size) for leg in self.legs], np.int64)
        return rows[:, 0], rows[:, 1], rows[:, 2]

    def _legs_of(self, step: int | npt.NDArray[Any] | Sequence[int]) -> tuple[Ints, Ints]:
        steps = np.asarray(step, np.int64)
        if steps.size and steps.min() < 0:
            raise BadQuery(f"there is no step {steps.min()}: steps count from 0")
        if self.train_iters is not None and steps.size and steps.max() >= self.train_iters:
            raise BadQuery(f"there is no step {steps.max()}: train_iters ends the run after step {self.train_iters - 1}")
        return steps, np.searchsorted(self._columns[0], steps, "right") - 1

    def _leg(self, step: int) -> Leg:
        return self.legs[int(self._legs_of(step)[1])]

    def batch(self, step: int, num_samples: Sizes) -> Batch:
        """What `step` reads of data sets of `num_samples`. Raises BadQuery beyond the end of the run."""
        step, leg = int(step), self._leg(step)
        size, last = self._samples(num_samples, leg.phase), self.num_steps(num_samples)
        consumed = self.consumed(step)
        if last is not None and step >= last:
            raise BadQuery(
                f"step {step} asks for samples {consumed} to {consumed + leg.size - 1}, and the data set has {size}: the run"
                f" has {last} steps"
            )
        return Batch(step, consumed, self.trained(step), self._loader.at(leg, step, size).astype(np.int64))

    def num_steps(self, num_samples: Sizes) -> int | None:
        """How many whole steps the run has over data sets of `num_samples`; None: it goes on for ever."""
        for leg in self.legs:
            served = self._loader.steps(leg, self._samples(num_samples, leg.phase))
            if served is not None and (leg.stop is None or leg.first + served < leg.stop):
                return leg.first + served
        return self.train_iters

    def iterations(self, train_samples: int) -> int:
        """The train_iters that Megatron makes of `train_samples`, for a run without resumes.

        It drops a last partial step where the size is constant or has been ramped up, and keeps it under a step schedule.
        """
        # Megatron counts the sizes as configured here, not as layout and divisibility make them.
        plain = Schedule(
            global_batch_size=self.global_batch_size,
            rampup_batch_size=self.rampup_batch_size,
            step_batch_size_schedule=self.step_batch_size_schedule,
            seq_length=self.seq_length,
        )
        if self.step_batch_size_schedule is not None:
            return plain._first_to(train_samples)
        begun = 0 if self.rampup_batch_size is None else plain._first_to(min(self.rampup_batch_size[2], train_samples) + 1)
        return begun + max(train_samples - plain.consumed(begun), 0) // plain.legs[-1].size

    def _first_to(self, count: int) -> int:
        """The first step with `count` samples before it."""
        leg = next(leg for leg in reversed(self.legs) if leg.consumed < count or not leg.first)
        return leg.first - (leg.consumed - max(count, 0)) // leg.size

    def _samples(self, num_samples: Sizes, phase: int) -> int:
        if isinstance(num_samples, int | np.integer):
            return int(num_samples)
        if phase >= len(num_samples):
            raise BadQuery(f"the run has a phase {phase}, and num_samples names {len(num_samples)} data sets: name one a phase")
        return int(num_samples[phase])

    # To steps

    def steps_of(
        self, indices: npt.ArrayLike, num_samples: Sizes, *, stop: int | None = None, phase: int | None = None
    ) -> Places:
        """Every place in steps [0, stop) that reads one of the training `indices`.

        `stop` defaults to the end of the run, and must be given where there is none. With phase transitions `phase` names the
        data set that they index.
        """
        asked = np.asarray(indices, np.int64).reshape(-1)
        phase = self._only_phase() if phase is None else phase
        size = self._samples(num_samples, phase)
        if asked.size and not 0 <= asked.min() <= asked.max() < size:
            wrong = asked.min() if asked.min() < 0 else asked.max()
            raise BadQuery(f"there is no training index {wrong}: the data set has {size}, from 0 to {size - 1}")
        stop = self._last(num_samples, stop)
        unique, inverse = np.unique(asked, return_inverse=True)
        parts = []
        for leg in self.legs:
            steps = (stop if leg.stop is None else min(stop, leg.stop)) - leg.first
            if leg.phase == phase and steps > 0 and unique.size:
                dealt = self._loader.where(leg, unique, size, steps)
                nth, micro_batch = np.divmod(dealt.turns, leg.micro_batches)
                parts.append(np.stack([dealt.rows, leg.first + nth, micro_batch, dealt.ranks, dealt.slots]))
        return self._placed(np.concatenate([np.zeros((5, 0), np.int64), *parts], axis=1), inverse.reshape(-1))

    def _placed(self, found: Ints, inverse: Ints) -> Places:
        """`found` by unique index, as rows of what was asked: index k stands in every row with inverse[row] == k."""
        asked = np.argsort(inverse, kind="stable")
        low, high = (np.searchsorted(inverse[asked], found[0], side) for side in ("left", "right"))
        nth = np.arange((high - low).sum()) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
        rows = asked[np.repeat(low, high - low) + nth]
        _, steps, micro_batches, ranks, slots = np.repeat(found, high - low, axis=1)
        order = np.lexsort((slots, ranks, micro_batches, steps, rows))
        rows, steps, micro_batches, ranks, slots = (c[order] for c in (rows, steps, micro_batches, ranks, slots))
        return Places(rows, steps, micro_batches, ranks, slots, self.trained(steps))

    def _only_phase(self) -> int:
        if self.legs[-1].phase:
            raise BadQuery(
                f"the run has {self.legs[-1].phase + 1} phases, each with training indices of its own: say which by phase"
            )
        return 0

    def _last(self, num_samples: Sizes, stop: int | None) -> int:
        end = self.num_steps(num_samples)
        if end is None and stop is None:
            raise BadQuery(f"the {self.dataloader_type} loader goes round for ever: give train_iters, or stop")
        return min(s for s in (end, stop) if s is not None)


def _like(asked: object, answer: Ints) -> int | Ints:
    return int(answer) if isinstance(asked, int | np.integer) else answer
