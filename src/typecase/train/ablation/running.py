"""Running: every arm with every seed, trained and measured; what is finished is found, what was interrupted goes on.

    OUT/runs/<arm>/<seed>/   the run, as `typecase train` makes it
        evaluation/          <held>.parquet, items.parquet, evaluation.json

A run is a function of its token set, the plan and the seed, and its folder knows them (see train/identity): another ablation
in the same folder is refused, the same one goes on. Seed k of every arm begins with the same weights and order of samples, so
arms are compared seed by seed. Measurements are remade when weights, documents, or items have changed. Runs are tasks
of an engine; each uses `threads` threads, on which its last bits depend.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from typecase.engine.protocol import Engine
from typecase.store.atomic import write_json
from typecase.store.manifest import digest
from typecase.store.shards import write_shard
from typecase.store.tokenizer.tokenizer import open_tokenizer
from typecase.train.ablation.plan import Ablation
from typecase.train.evaluation import choosing, documents
from typecase.train.evaluation.choosing import answer_items
from typecase.train.evaluation.documents import score_held
from typecase.train.evaluation.held import Held, open_held
from typecase.train.evaluation.items import Item, cloze_items, copy_items, read_items
from typecase.train.evaluation.subject import open_subject
from typecase.train.loop import train
from typecase.train.record import read_steps

_FOLDER, _CARD, _ITEMS = "evaluation", "evaluation.json", "items.parquet"


@dataclass(frozen=True, slots=True)
class Sets:
    """Where everything lies: the token set of every arm that is no mix, and the token set or documents of every `held` name."""

    arms: Mapping[str, Path]
    held: Mapping[str, Path]
    tokenizer: str


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be made."""

    ablation: Ablation
    sets: Sets
    arm: str
    seed: int
    out: Path

    @property
    def folder(self) -> Path:
        return self.out / "runs" / self.arm / str(self.seed)


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """What a run came to.

    losses      of the held-out samples that the curve looks at, in nats a token, after `looked` tokens each
    measured    name of a held set -> a row for each document (evaluation/documents.SCHEMA)
    answers     a row for each item (evaluation/choosing.SCHEMA), None where there are no items
    """

    arm: str
    seed: int
    folder: Path
    tokens: int
    flops: int
    parameters: int
    looked: tuple[int, ...]
    losses: tuple[float, ...]
    measured: Mapping[str, pa.Table]
    answers: pa.Table | None


def run_all(
    ablation: Ablation, sets: Sets, out: Path, engine: Engine, *, finished: Callable[[RunResult], None] | None = None
) -> list[RunResult]:
    """Makes every run, seed by seed through the arms; results by arm and seed in the order of the file."""
    tasks = [Task(ablation, sets, arm.name, seed, out) for seed in ablation.seeds for arm in ablation.arms]
    found = {}
    for result in _results(engine, tasks):
        found[result.arm, result.seed] = result
        if finished is not None:
            finished(result)
    return [found[arm.name, seed] for arm in ablation.arms for seed in ablation.seeds]


def _results(engine: Engine, tasks: Sequence[Task]) -> Iterator[RunResult]:
    yield from engine.map(run_one, tasks)


def run_one(task: Task) -> RunResult:
    """One run, from where it stands."""
    before = torch.get_num_threads()
    if task.ablation.threads:
        torch.set_num_threads(task.ablation.threads)
    try:
        return _run(task)
    finally:
        torch.set_num_threads(before)


def _run(task: Task) -> RunResult:
    ablation, sets = task.ablation, task.sets
    vocab = open_tokenizer(sets.tokenizer).num_ids
    shape, plan = ablation.shape(vocab), ablation.plan(task.seed)
    tokens, order = _order(task, plan.steps, plan.batch)
    validation = sets.held["curve"]
    made = train(tokens, task.folder, shape, plan, order=order, resume=True, validation=validation, device="cpu")
    rows = read_steps(task.folder)
    looked, losses, seen = [], [], 0
    for row in rows:
        seen += row.tokens
        if row.validation is not None:
            looked.append(seen)
            losses.append(row.validation)
    measured, answers = _measure(task)
    return RunResult(
        task.arm, task.seed, task.folder, made.tokens, made.flops, shape.parameters, tuple(looked), tuple(losses), measured,
        answers,
    )  # fmt: skip


def _order(task: Task, steps: int, batch: int) -> tuple[Path, Mapping[str, Any] | None]:
    """The token set of an arm; for a mix the blend of Megatron-Core, whose weights are shares of samples."""
    arm = next(one for one in task.ablation.arms if one.name == task.arm)
    if not arm.mix:
        return task.sets.arms[arm.name], None
    paths = [(weight, _prefix(task.sets.arms[name])) for name, weight in arm.mix]
    settings = {
        "framework": "megatron-core",
        "train_data_path": [str(part) for pair in paths for part in pair],
        "seq_length": task.ablation.context,
        "seed": task.seed,
        "train_iters": steps,
        "global_batch_size": batch,
        "micro_batch_size": batch,
    }
    return task.sets.arms[arm.mix[0][0]], settings


def _prefix(folder: Path) -> Path:
    from typecase.store.tokens.pair import find_pair

    return find_pair(folder).prefix.resolve()


def _measure(task: Task) -> tuple[dict[str, pa.Table], pa.Table | None]:
    """The documents of every held set and the items, by the trained model; read where they were measured before."""
    folder = task.folder / _FOLDER
    subject = open_subject(task.folder, tokenizer=task.sets.tokenizer)
    helds = {name: _held(path, task) for name, path in task.sets.held.items() if name != "curve"}
    items = items_of(task.ablation, next(iter(helds.values())), task.sets.tokenizer)
    key = digest(
        [1, subject.fingerprint, {name: one.content for name, one in helds.items()}, digest(orjson.loads(orjson.dumps(items)))]
    )
    card = folder / _CARD
    if card.is_file() and orjson.loads(card.read_bytes()).get("key") == key:
        return {name: pq.read_table(folder / f"{name}.parquet") for name in helds}, (
            pq.read_table(folder / _ITEMS) if items else None
        )
    folder.mkdir(exist_ok=True)
    measured = {}
    for name, held in helds.items():
        measured[name] = score_held(subject, held)
        write_shard(folder / f"{name}.parquet", [measured[name]], documents.SCHEMA)
    answers = answer_items(subject, items) if items else None
    if answers is not None:
        write_shard(folder / _ITEMS, [answers], choosing.SCHEMA)
    write_json(card, {"key": key})
    return measured, answers


@functools.lru_cache(maxsize=8)
def _read_held(path: Path, tokenizer: str, ratings: Path | None) -> Held:
    return open_held(path, open_tokenizer(tokenizer), ratings=ratings)


def _held(path: Path, task: Task) -> Held:
    return _read_held(path, task.sets.tokenizer, task.ablation.ratings)


def items_of(ablation: Ablation, held: Held, tokenizer: str) -> list[Item]:
    """The items of an ablation: made from its first held set, and those of its file."""
    items: list[Item] = []
    if ablation.cloze or ablation.copy:
        texts = held.texts(open_tokenizer(tokenizer))
        if ablation.cloze:
            items += cloze_items(texts, held.doc_ids, ablation.cloze)
        if ablation.copy:
            items += copy_items(texts, held.doc_ids, ablation.copy)
    return items + (read_items(ablation.items) if ablation.items is not None else [])
