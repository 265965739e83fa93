"""Choosing: which choice of an item a model finds likeliest, plain and for its length.

    prompt + choice -> ids;  nats of the choice's ids behind the prompt's

    plain     the choice with the least nats                    `acc` of the evaluation harness
    by byte   the choice with the least nats a byte             `acc_norm` of the harness

The ids of a choice are those that prompt and choice have together behind the prompt's own. A prompt that does not fit loses its
beginning. Price: a pass over prompt and choice for each choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from typecase.core.learn.bootstrap import Interval, groups_of, mean_interval
from typecase.train.evaluation.items import Item
from typecase.train.evaluation.subject import Ints, Subject

SCHEMA = pa.schema(
    [
        ("item", pa.string()),
        ("task", pa.string()),
        ("group", pa.string()),
        ("answer", pa.int32()),
        ("choice", pa.int32()),
        ("choice_by_byte", pa.int32()),
        ("nats", pa.list_(pa.float64())),
        ("bytes", pa.list_(pa.int32())),
    ]
)
_ITEMS = 256


@dataclass(frozen=True, slots=True)
class TaskScore:
    """A task: the share of items chosen right, plain and by byte, the chance of guessing, and bits a byte of the right ones.

    Intervals are over the groups of items (documents).
    """

    task: str
    items: int
    chance: float
    accuracy: Interval
    accuracy_by_byte: Interval
    bits_per_byte: float


def answer_items(subject: Subject, items: Sequence[Item]) -> pa.Table:
    """A row of SCHEMA for each item, in order."""
    rows: list[dict[str, object]] = []
    for at in range(0, len(items), _ITEMS):
        some = items[at : at + _ITEMS]
        pairs = [(item.prompt, choice) for item in some for choice in item.choices]
        nats = iter(continuation_nats(subject, pairs))
        for item in some:
            own = [next(nats)[0] for _ in item.choices]
            sizes = [len(choice.encode()) for choice in item.choices]
            rows.append(
                {
                    "item": item.id,
                    "task": item.task,
                    "group": item.group,
                    "answer": item.answer,
                    "choice": int(np.argmin(own)),
                    "choice_by_byte": int(np.argmin(np.array(own) / sizes)),
                    "nats": own,
                    "bytes": sizes,
                }
            )
    return pa.Table.from_pylist(rows, SCHEMA)


def continuation_nats(subject: Subject, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, bool]]:
    """The nats of each continuation behind its prompt, and whether every token of it was the likeliest."""
    ids = [split_ids(subject, prompt, continuation) for prompt, continuation in pairs]
    return ids_nats(subject, ids)


def ids_nats(subject: Subject, pairs: Sequence[tuple[Ints, Ints]]) -> list[tuple[float, bool]]:
    """The same of ids; a prompt loses its beginning, a continuation longer than the context its own."""
    rows, counts = [], []
    for before, behind in pairs:
        kept = behind[-subject.context :]
        rows.append(np.concatenate((before, kept))[-subject.context - 1 :])
        counts.append(min(len(kept), len(rows[-1]) - 1))
    return [
        (float(s.nats[len(s.nats) - n :].sum(dtype=np.float64)), bool(s.likeliest[len(s.nats) - n :].all()))
        for s, n in zip(subject.score(rows), counts, strict=True)
    ]


def split_ids(subject: Subject, prompt: str, continuation: str) -> tuple[Ints, Ints]:
    """Ids of the prompt behind the start token, and of the continuation behind it; where the two melt, its own ids."""
    before, whole = subject.encode([prompt, prompt + continuation])
    start = np.array([] if subject.start is None else [subject.start], np.int64)
    if len(whole) > len(before) and (whole[: len(before)] == before).all():
        return np.concatenate((start, before)), whole[len(before) :]
    return np.concatenate((start, before)), subject.encode([continuation])[0]


def task_scores(table: pa.Table, *, seed: int = 0) -> dict[str, TaskScore]:
    """What a table of SCHEMA comes to, by task."""
    found = {}
    tasks = np.array(table.column("task").to_pylist(), object)
    for task in sorted(set(tasks.tolist())):
        rows = table.filter(pa.array(tasks == task)).to_pylist()
        group = groups_of([row["group"] or row["item"] for row in rows])
        right, by_byte = (
            np.array([row[name] == row["answer"] for row in rows], np.float64) for name in ("choice", "choice_by_byte")
        )
        nats = math.fsum(row["nats"][row["answer"]] for row in rows)
        size = sum(row["bytes"][row["answer"]] for row in rows)
        found[str(task)] = TaskScore(
            str(task),
            len(rows),
            float(np.mean([1 / len(row["nats"]) for row in rows])),
            mean_interval(right, group, seed=seed),
            mean_interval(by_byte, group, seed=seed),
            nats / math.log(2) / size,
        )
    return found
