"""Loop: from a token set and an order to a model, a step after another, along the path that `typecase trace` shows.

    run = train("work/tokens/web", "work/models/small", preset("3m", vocab=4096, context=512), TrainPlan(steps=2000, batch=16))

    RUN/ run.json   checkpoints/step-…/   steps.parquet   documents.parquet   seen.parquet   manifest.json

What step k learns is a function of k, of the data and of the weights before it; nothing is drawn on the way. A run that was
killed and is taken up again ends with the same bytes, weights and tables, as one that was not: on a CPU, with one number of
threads and processes. Checkpoints know what they are of (see `identity`), and others' are refused.

Price: `shape.flops_per_token` for each token; 16 bytes a weight, and the activations of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from typecase.core.order.order import Split
from typecase.errors import BadQuery
from typecase.store.manifest import NAME as MANIFEST
from typecase.store.manifest import FileEntry, Manifest, Parent, library_versions, read_manifest, relative, write_manifest
from typecase.train import checkpoint
from typecase.train.batches import Course, OrderLike, StepBatch, open_course
from typecase.train.checkpoint import Card, find_checkpoint, load_model
from typecase.train.config import ModelShape, TrainPlan
from typecase.train.distributed import World, join
from typecase.train.identity import claim, fingerprints
from typecase.train.learner import Learner
from typecase.train.model import GPT
from typecase.train.record import DOCUMENTS, SEEN, STEPS, Record, StepRow, read_steps
from typecase.train.schedule import rate_at
from typecase.train.stopping import Stopped, Wish, listening

STAGE, VERSION = "train", 1
_LOOKED_AT = 8  # samples of the validation set read at once
Progress = Callable[[StepRow], None]


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """A finished run: its folder, steps, loss of every step in nats a token (None where the run skips one), tokens learnt,
    floating-point operations, what it is of, the last loss on the validation set, and the step that it was taken up at."""

    path: Path
    steps: int
    losses: tuple[float | None, ...]
    tokens: int
    flops: int
    fingerprints: Mapping[str, str]
    validation: float | None
    resumed_at: int


def train(
    tokens: Path | str,
    out: Path | str,
    shape: ModelShape,
    plan: TrainPlan,
    *,
    order: OrderLike = None,
    resume: bool = False,
    validation: Path | str | None = None,
    start: Path | str | GPT | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> TrainedRun:
    """Trains a model of `shape` over `tokens` into the folder `out`.

    `tokens` and `order` are those of `batches.open_course`. `resume` goes on from the newest checkpoint in `out`, from the
    beginning where there is none, and gives a finished run as it is. `validation` is a token set, or "valid" or "test", the
    split of the order. `start` is a model to begin with: a run, a checkpoint, or a Hugging Face folder. `progress` is told of
    every step.

    Raises BadQuery where the parts do not fit together, AlreadyExists and FingerprintMismatch for a folder with another run,
    BadRecipe when the loss is no number any more, and Stopped, when it was asked to stop and has saved.
    """
    run, world = Path(out), join(device)
    with ExitStack() as stack:
        course = stack.enter_context(open_course(tokens, shape, plan, order))
        looks = stack.enter_context(_validation(validation, tokens, shape, plan, order)) if validation is not None else None
        model, names = _begin(course, shape, plan, start)
        about = {"tokens": [relative(store.pair.prefix, run) for store in course.timeline.stores], "inputs": course.inputs}
        claim(run, names, shape, plan, about, resume=resume) if world.leads else None
        world.wait()
        if (run / MANIFEST).is_file():
            return _told(run, course, shape, names)
        learner = Learner(model.to(world.device), plan, world, anew=course.anew)
        loop = _Loop(run, course, looks, learner, world, names, progress)
        with listening() as wish:
            loop.go(wish)
        world.wait()
        return replace(_told(run, course, shape, names), resumed_at=loop.resumed_at)


def _begin(course: Course, shape: ModelShape, plan: TrainPlan, start: Path | str | GPT | None) -> tuple[GPT, dict[str, str]]:
    """The model before the first step, and what the run is of."""
    begun = start if isinstance(start, GPT) or start is None else load_model(start)
    if begun is not None and replace(begun.shape, context=shape.context) != shape:
        raise BadQuery(f"the run begins with a model of {begun.shape}, and is to train one of {shape}: give that shape")
    names = fingerprints(course, shape, plan, begun)
    model = GPT(shape, seed=plan.seed if begun is None else None)
    if begun is not None:
        with torch.no_grad():
            for weight, given in zip(model.parameters(), begun.parameters(), strict=True):
                weight.copy_(given)
    return model, names


def _validation(named: Path | str, tokens: Path | str, shape: ModelShape, plan: TrainPlan, order: OrderLike) -> Course:
    """The steps of a validation set: of a split of the order, or of another token set in the keyed order."""
    if str(named) in ("valid", "test"):
        split: Split = "valid" if str(named) == "valid" else "test"
        from typecase.train.batches import open_order

        return Course(open_order(tokens, shape.context, plan, order, split=split), shape.vocab)
    return open_course(named, shape, replace(plan, steps=plan.eval_samples, batch=1, warmup=0))


class _Loop:
    """A run under way."""

    def __init__(
        self,
        run: Path,
        course: Course,
        looks: Course | None,
        learner: Learner,
        world: World,
        names: Mapping[str, str],
        progress: Progress | None,
    ) -> None:
        self.run, self.course, self.looks, self.learner, self.world = run, course, looks, learner, world
        self.names, self.progress, self.plan = names, progress, learner.plan
        self.updates = self.tokens = self.resumed_at = 0
        newest = checkpoint.latest(run)
        if newest is not None:
            card = checkpoint.restore(newest, learner.model, learner.optimiser)
            self.updates, self.tokens, self.resumed_at = card.updates, card.tokens, card.step
        self.saved = self.resumed_at
        world.wait()
        self.record = Record(run, self.resumed_at, writes=world.leads)

    def go(self, wish: Wish) -> None:
        """All steps that are left, then the tables and the manifest. Raises Stopped."""
        plan, world = self.plan, self.world
        for batch in self.course.batches(self.resumed_at, plan.steps, rank=world.rank, world=world.size):
            done = batch.step + 1
            row = self._learn(batch)
            if self.looks is not None and (done == plan.steps or (plan.eval_every and done % plan.eval_every == 0)):
                row = replace(row, validation=self._look(self.looks))
            self.record.step(row)
            stopping = world.any(wish.told)
            if stopping or done == plan.steps or done % plan.save_every == 0:
                self._save(done)
            if self.progress is not None and world.leads:
                self.progress(row)
            if stopping and done < plan.steps:
                raise Stopped(self.run, done)
        if world.leads:
            self.record.finish(self.course.timeline.libraries)
            self._sign()

    def _learn(self, batch: StepBatch) -> StepRow:
        rate = rate_at(batch.step, self.plan)
        if not batch.trained or not batch.num_targets:
            return StepRow(batch.step, None, rate, None, 0)
        loss, gradient, losses = self.learner.learn(batch, rate)
        self.record.seen(batch.step, batch.by_document(losses))
        self.updates += 1
        self.tokens += batch.num_targets
        return StepRow(batch.step, loss, rate, gradient, batch.num_targets)

    def _look(self, looks: Course) -> float:
        """The loss on the first samples of the validation set, in nats a token."""
        once = sum(store.num_tokens for store in looks.timeline.stores) // looks.inputs
        most = min(self.plan.eval_samples, looks.timeline.num_samples, once)
        total = count = 0.0
        for at in range(self.world.rank * _LOOKED_AT, most, self.world.size * _LOOKED_AT):
            losses, targets = self.learner.look(looks.samples(range(at, min(at + _LOOKED_AT, most))))
            total, count = total + losses, count + targets
        total, count = self.world.total(total, count)
        if not count:
            raise BadQuery("the validation set has no sample of the length of the context: give more tokens")
        return total / count

    def _save(self, step: int) -> None:
        """The rows first: a checkpoint says that they lie there."""
        others = self.world.gathered(self.record.taken() if not self.world.leads else ())
        if self.world.leads:
            self.record.keep(step, others)
            card = Card(
                step, self.updates, self.tokens, self.learner.model.shape, self.plan.as_dict(), self.names,
                torch.get_num_threads(), self.world.size,
            )  # fmt: skip
            checkpoint.save(self.run, card, self.learner.model, self.learner.optimiser)
            checkpoint.forget(self.run, self.plan.keep)
        self.world.wait()

    def _sign(self) -> None:
        """The manifest: the run is whole."""
        checkpoint.forget(self.run, self.plan.keep)  # a killed run may have saved the last and not let go of an older one
        last = find_checkpoint(self.run)
        assert last is not None
        files = [STEPS, DOCUMENTS, SEEN, *(f"{last.relative_to(self.run).as_posix()}/{name}" for name in _FILES)]
        params = {"shape": self.learner.model.shape.as_dict(), "plan": self.plan.law(), "fingerprints": dict(self.names)}
        counts = {"steps": self.plan.steps, "tokens": self.tokens, "parameters": self.learner.model.shape.parameters}
        manifest = Manifest(
            kind="model",
            stage=STAGE,
            version=VERSION,
            params=params,
            parents=_parents(self.course, self.run, self.names),
            files=tuple(FileEntry.of(self.run, name) for name in files),
            counts=counts,
            libraries=library_versions("torch"),
        )
        write_manifest(self.run, manifest)


_FILES = (checkpoint.CARD, checkpoint.MODEL, checkpoint.OPTIMISER)


def _parents(course: Course, run: Path, names: Mapping[str, str]) -> tuple[Parent, ...]:
    """The token sets that it learnt; one of another maker has no manifest and is known by the bytes of all sets."""
    found = []
    for member, store in enumerate(course.timeline.stores):
        folder = store.pair.bin.parent
        known = (folder / MANIFEST).is_file()
        content = read_manifest(folder).content if known else names["store"]
        found.append(Parent(f"tokens {member}" if member else "tokens", "tokens", relative(folder, run), content))
    return tuple(found)


def _told(run: Path, course: Course, shape: ModelShape, names: Mapping[str, str]) -> TrainedRun:
    """A finished run, from its tables."""
    rows = read_steps(run)
    tokens = sum(row.tokens for row in rows)
    looked = [row.validation for row in rows if row.validation is not None]
    return TrainedRun(
        path=run,
        steps=len(rows),
        losses=tuple(row.loss for row in rows),
        tokens=tokens,
        flops=replace(shape, context=course.inputs).flops_per_token * tokens,
        fingerprints=dict(names),
        validation=looked[-1] if looked else None,
        resumed_at=len(rows),
    )
