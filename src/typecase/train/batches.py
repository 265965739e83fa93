"""Batches: what a step of training reads, by the very path that `typecase trace` shows.

    schedule.batch(step) -> training indices -> timeline.samples -> tokens and pieces of documents

    tokens    5 8 2 0 | 9 4 …       a sample of context + 1 tokens
    ids       5 8 2 0   9 4 …       all but the last go in
    targets   8 2 0   9 4 … 7       all but the first are learnt
    mask      1 1 1   1 1 … 1       0 on padding

By default attention and loss go across the borders of documents, as in the frameworks. Where the settings of the run say
`reset_attention_mask`, `reset_position_ids` or `eod_mask_loss`, they do not: a document begins where a piece of one begins, and
with `eod_mask_loss` its first token is not learnt (what stands before it is the end token of another document).

Several processes share a step: each reads its part of the samples alone, and where the run was planned for as many ranks as
there are processes, process r reads what rank r reads. Price: reading is the tokens of the step, some tens of microseconds a
sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.order.order import Split
from typecase.errors import BadQuery
from typecase.store.timeline.samples import Samples
from typecase.store.timeline.timeline import Timeline, open_timeline
from typecase.train.config import ModelShape, TrainPlan

Ints = npt.NDArray[np.int64]
OrderLike = Mapping[str, Any] | Sequence[str] | Path | str | None


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """The part of a step that one process learns: n samples of t inputs.

    ids, targets   (n, t) int64
    mask           (n, t) bool, what of the targets is learnt
    firsts         (n, t) int64, the input at which the document of each begins; None where documents see each other
    members, docs  (pieces,) int64: the token set and document of every piece that has a target, in the order of the tokens
    starts         (pieces,) int64: the first target of each, counted through all rows
    num_targets    of the whole step, all processes together
    trained        False where the run only consumes the samples of this step
    """

    step: int
    ids: Ints
    targets: Ints
    mask: npt.NDArray[np.bool_]
    firsts: Ints | None
    members: Ints
    docs: Ints
    starts: Ints
    num_targets: int
    trained: bool

    def by_document(self, losses: npt.NDArray[Any]) -> tuple[Ints, Ints, Ints, npt.NDArray[np.float64]]:
        """Of `losses` (n, t): member, document, targets and sum of losses, a row for every document, by rising number."""
        if not len(self.starts):
            none: Ints = np.zeros(0, np.int64)
            return none, none, none, np.zeros(0)
        sums = np.add.reduceat(losses.reshape(-1).astype(np.float64), self.starts)
        counts = np.add.reduceat(self.mask.reshape(-1).astype(np.int64), self.starts)
        keys, inverse = np.unique(np.stack((self.members, self.docs)), axis=1, return_inverse=True)
        inverse = inverse.reshape(-1)
        tokens = np.bincount(inverse, counts, len(keys[0])).astype(np.int64)
        return keys[0], keys[1], tokens, np.bincount(inverse, sums, len(keys[0])).astype(np.float64)


class Course:
    """The steps of a run, in order. Made by `open_course`; closing lets go of the files."""

    def __init__(self, timeline: Timeline, vocab: int) -> None:
        self.timeline, self._vocab = timeline, vocab
        values = timeline.settings.get
        self.apart = bool(values("reset_attention_mask", bool, False))
        self.anew = bool(values("reset_position_ids", bool, False))
        self.skips_firsts = bool(values("eod_mask_loss", bool, False))
        if self.anew and not self.apart:
            raise BadQuery("reset_position_ids without reset_attention_mask is not built: set both, or none")
        if timeline.plan.labels:
            raise BadQuery("this run learns labels of its own (label_data_path), which typecase can trace but not train on")

    @property
    def inputs(self) -> int:
        """Inputs of a sample."""
        return self.timeline.laid.sample_tokens - 1

    def indices(self, step: int, *, rank: int = 0, world: int = 1) -> Ints:
        """The training indices of a step, in the order of trace, or the part of process `rank` of `world`."""
        grid = self.timeline.plan.schedule.batch(step, self.timeline.num_samples).indices
        flat = (grid if world == 1 else grid.transpose(1, 0, 2)).reshape(-1)
        flat = flat[flat >= 0]
        if len(flat) < world:
            raise BadQuery(f"step {step} reads {len(flat)} samples, too few for {world} processes: start fewer")
        return np.array_split(flat, world)[rank]

    def at(self, step: int, *, rank: int = 0, world: int = 1) -> StepBatch:
        """What process `rank` of `world` learns in `step`. Raises BadQuery beyond the run, or for ids beyond the vocabulary."""
        timeline = self.timeline
        trained = bool(timeline.plan.schedule.trained(step))
        samples = timeline.samples(self.indices(step, rank=rank, world=world))
        batch = self._batch(step, samples, trained)
        if world == 1 or not trained:
            return batch
        return replace(batch, num_targets=self._targets_of(self.indices(step)))

    def batches(self, first: int, stop: int, *, rank: int = 0, world: int = 1) -> Iterator[StepBatch]:
        """Steps [first, stop), the next one read while one is learnt."""
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(self.at, first, rank=rank, world=world) if first < stop else None
            for step in range(first, stop):
                assert ahead is not None
                batch = ahead.result()
                ahead = reader.submit(self.at, step + 1, rank=rank, world=world) if step + 1 < stop else None
                yield batch

    def samples(self, indices: npt.ArrayLike) -> StepBatch:
        """The samples of training `indices`, as a batch of no step (-1)."""
        return self._batch(-1, self.timeline.samples(indices), True)

    def _batch(self, step: int, samples: Samples, trained: bool) -> StepBatch:
        padded = samples.padded()
        self._check_ids(step, padded)
        packing, width = samples.reads.packing, padded.shape[1]
        counts = np.diff(packing.bounds)
        rows = np.repeat(np.arange(len(samples)), counts)
        sizes = packing.stops - packing.starts
        ends = np.cumsum(sizes)
        at = ends - sizes - samples.offsets[rows]
        mask = np.arange(1, width) < packing.sample_tokens[:, None]
        if self.skips_firsts:
            inner = at > 0
            mask[rows[inner], at[inner] - 1] = False
        firsts = self._firsts(rows, at, sizes, padded.shape) if self.apart else None
        docs = np.empty_like(packing.docs)
        members = np.repeat(samples.reads.members, counts)
        for member in np.unique(members):
            own = members == member
            docs[own] = self.timeline.libraries[member].documents_of(packing.docs[own])[0]
        learnt = (at > 0) | (sizes > 1)  # the first token of a sample is no target
        starts = rows * (width - 1) + np.maximum(at - 1, 0)
        return StepBatch(
            step, padded[:, :-1], padded[:, 1:], mask, firsts, members[learnt], docs[learnt], starts[learnt],
            int(mask.sum()) if trained else 0, trained,
        )  # fmt: skip

    @staticmethod
    def _firsts(rows: Ints, at: Ints, sizes: Ints, shape: tuple[int, ...]) -> Ints:
        """Where the document of each input begins; padding is a document of its own."""
        begins = np.zeros(shape, np.int64)
        begins[rows, at] = at
        ends = at + sizes
        last = ends < shape[1]
        begins[rows[last], ends[last]] = ends[last]
        return np.maximum.accumulate(begins, axis=1)[:, :-1]

    def _targets_of(self, indices: Ints) -> int:
        """How many targets samples have, without reading them."""
        packing = self.timeline.laid.reads(indices).packing
        targets = int((packing.sample_tokens - 1).clip(0).sum())
        return targets - (len(packing.docs) - len(indices)) if self.skips_firsts else targets

    def _check_ids(self, step: int, tokens: Ints) -> None:
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < self._vocab:
            wrong = tokens.min() if tokens.min() < 0 else tokens.max()
            raise BadQuery(
                f"step {step} reads token {wrong}, and the model has a vocabulary of {self._vocab}: give it the size of the"
                " tokenizer"
            )

    def close(self) -> None:
        self.timeline.close()

    def __enter__(self) -> Course:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_course(
    tokens: Path | str, shape: ModelShape, plan: TrainPlan, order: OrderLike = None, *, split: Split = "train"
) -> Course:
    """The steps that `plan` takes over `tokens`: a token set, or a run file, which then is the order.

    `tokens` is read as it lies, or as its journal says where it is written `set@`, `set@branch`, `set@17`. `order` is settings
    of a framework, as a mapping or as `name=value`, or a run file whose data path is taken from `tokens`; by default it is the
    keyed order of `plan.seed`. Raises BadQuery where order, shape and plan do not fit together.
    """
    course = Course(open_order(tokens, shape.context, plan, order, split=split), shape.vocab)
    try:
        _check(course, shape, plan)
    except BaseException:
        course.close()
        raise
    return course


def open_order(
    tokens: Path | str, context: int, plan: TrainPlan, order: OrderLike = None, *, split: Split = "train"
) -> Timeline:
    """The order of `open_course`, opened."""
    path, is_run = Path(tokens), Path(tokens).suffix in (".toml", ".json")
    if isinstance(order, Path) or (isinstance(order, str) and "=" not in order):
        if is_run:
            raise BadQuery(f"{path} is a run file and has an order of its own: give a token set with {order}, or no order")
        return open_timeline(Path(order), changes={"data_path": str(path.resolve())}, split=split)
    changes: Any = [order] if isinstance(order, str) else order or ()
    names = changes if isinstance(changes, Mapping) else [one.partition("=")[0].strip() for one in changes]
    if is_run or "framework" in names:
        return open_timeline(path, changes=changes, split=split)
    if changes:
        raise BadQuery(f"the order is given by {', '.join(names)} and no framework: add framework=…, or leave them out")
    keyed = {"framework": "typecase", "seq_length": context, "seed": plan.seed}
    return open_timeline(path, changes={**keyed, "train_iters": plan.steps, "global_batch_size": plan.batch}, split=split)


def _check(course: Course, shape: ModelShape, plan: TrainPlan) -> None:
    timeline = course.timeline
    if course.inputs > shape.context:
        raise BadQuery(
            f"the order feeds {course.inputs} tokens a sample and the model has a context of {shape.context}: give a context of"
            f" {course.inputs}, or another seq_length"
        )
    steps = timeline.num_steps
    if steps is not None and plan.steps > steps:
        raise BadQuery(
            f"the plan asks {plan.steps} steps and the order has {steps}: ask fewer, or set train_iters of the run higher"
        )
    reads = timeline.plan.schedule.batch_size(plan.steps - 1)
    if reads != plan.batch:
        raise BadQuery(f"the order reads {reads} samples a step and the plan says {plan.batch}: give batch={reads}")
