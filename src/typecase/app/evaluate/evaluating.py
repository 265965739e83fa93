"""The verb evaluate: what a trained model is worth, as side tables and JSON that any figure can be worked out from again.

    evaluate_perplexity(model, data)     OUT/ documents.parquet  evaluation.json
    evaluate_tasks(model, items)         OUT/ items.parquet      evaluation.json
    evaluate_harness(model, folder)      {task: {metric: value}}
    evaluate_winrate(a, b, judge, …)     OUT/ comparisons.jsonl  evaluation.json
    evaluate_compare([A1, A2], [B1, B2]) the difference of two models over seeds and documents, paired

A model is a run or checkpoint of `typecase train`, or a Hugging Face folder; for win rates any model that `open_lm` takes too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from typecase.core.learn.bootstrap import RESAMPLES, Interval, groups_of
from typecase.core.perplexity import OK, Perplexity
from typecase.core.statistics.seeded import Difference, figures_of
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NeedsExtra, NotFound
from typecase.store.atomic import write_bytes, write_json
from typecase.store.shards import write_shard

if TYPE_CHECKING:
    from typecase.lm.protocol import LM
    from typecase.train.evaluation.choosing import TaskScore
    from typecase.train.evaluation.subject import Subject
    from typecase.train.evaluation.winning import WinRate

DOCUMENTS, ITEMS, CARD, COMPARISONS = "documents.parquet", "items.parquet", "evaluation.json", "comparisons.jsonl"
_LN2 = float(np.log(2))


@dataclass(frozen=True, slots=True)
class Measured:
    """Perplexity of a model: of all documents, of each source and each domain; `table` has a row for each document."""

    model: str
    fingerprint: str
    data: str
    content: str
    window: int
    stride: int
    first_token: str
    whole: Perplexity
    by_source: Mapping[str, Perplexity]
    by_domain: Mapping[str, Perplexity]


@dataclass(frozen=True, slots=True)
class Answered:
    """Task scores of a model, by task."""

    model: str
    fingerprint: str
    tasks: Mapping[str, TaskScore]


@dataclass(frozen=True, slots=True)
class Compared:
    """Evaluations of one model against those of another, seed by seed, on the same rows.

    figure   bits_per_byte, or the task whose share of right items is compared
    """

    figure: str
    first: Interval
    second: Interval
    difference: Difference
    seeds: int
    rows: int


def evaluate_perplexity(
    model: Path | str,
    data: Path | str,
    *,
    out: Path | None = None,
    ratings: Path | None = None,
    tokenizer: str | None = None,
    stride: int = 0,
    documents: int = 0,
    device: str = "cpu",
) -> Measured:
    """Perplexity of `data`, a token set or a folder of documents, in every way that is in use, by source and domain.

    `documents` takes the first so many; `stride` moves a window on, 0 for half the context. Raises NotFound, BadQuery,
    FingerprintMismatch for a token set of another tokenizer.
    """
    subject = opened(model, tokenizer, device)
    from typecase.train.evaluation.documents import SCHEMA, score_held, summaries_by, summary_of
    from typecase.train.evaluation.held import open_held

    _free(out)
    held = open_held(data, subject.tokenizer, ratings=ratings).first(documents)
    if not len(held):
        raise BadQuery(f"{data} holds no document: there is nothing to measure")
    table = score_held(subject, held, stride=stride)
    told = Measured(
        model=subject.name,
        fingerprint=subject.fingerprint,
        data=str(data),
        content=held.content,
        window=subject.context,
        stride=stride or max(1, subject.context // 2),
        first_token="not scored" if subject.start is None else f"predicted behind token {subject.start}",
        whole=summary_of(table),
        by_source=summaries_by(table, "source"),
        by_domain=summaries_by(table, "domain"),
    )
    if out is not None:
        write_shard(out / DOCUMENTS, [table], SCHEMA)
        _write_card(out, "perplexity", told)
    return told


def make_items(data: Path | str, out: Path, *, tokenizer: str, cloze: int = 0, copy: int = 0, seed: int = 0) -> dict[str, int]:
    """Writes cloze and copy items of held-out documents, or of a token set, as JSON lines; how many of each task.

    Raises BadQuery where none is asked for, AlreadyExists where `out` holds others.
    """
    from typecase.store.tokenizer.tokenizer import open_tokenizer
    from typecase.train.evaluation.held import open_held
    from typecase.train.evaluation.items import cloze_items, copy_items

    if cloze < 0 or copy < 0 or not cloze + copy:
        raise BadQuery("no items are asked for: say how many, --cloze 200 --copy 200")
    reader = open_tokenizer(tokenizer)
    held = open_held(data, reader)
    texts = held.texts(reader)
    items = cloze_items(texts, held.doc_ids, cloze, seed=seed) if cloze else []
    items += copy_items(texts, held.doc_ids, copy, seed=seed) if copy else []
    data_out = b"".join(orjson.dumps(item) + b"\n" for item in items)
    if out.exists() and out.read_bytes() != data_out:
        raise AlreadyExists(f"{out} is there with other items; remove it, or write another file")
    write_bytes(out, data_out)
    return {task: sum(item.task == task for item in items) for task in sorted({item.task for item in items})}


def evaluate_tasks(
    model: Path | str, items: Path | str, *, out: Path | None = None, tokenizer: str | None = None, device: str = "cpu"
) -> Answered:
    """Which choice of every item the model finds likeliest, plain and by byte; shares of right ones by task, with intervals."""
    subject = opened(model, tokenizer, device)
    from typecase.train.evaluation.choosing import SCHEMA, answer_items, task_scores
    from typecase.train.evaluation.items import read_items

    _free(out)
    asked = read_items(items)
    if not asked:
        raise BadQuery(f"{items} holds no item: there is nothing to ask")
    table = answer_items(subject, asked)
    told = Answered(subject.name, subject.fingerprint, task_scores(table))
    if out is not None:
        write_shard(out / ITEMS, [table], SCHEMA)
        _write_card(out, "tasks", told)
    return told


def evaluate_harness(
    model: Path | str, folder: Path, tasks: Sequence[str] = (), *, limit: int | None = None, fewshot: int | None = None,
    tokenizer: str | None = None, device: str = "cpu",
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Metrics of EleutherAI's harness on the task files of `folder`; nothing is fetched. Raises NeedsExtra without it."""
    subject = opened(model, tokenizer, device)
    from typecase.train.evaluation.harness import run_harness

    return run_harness(subject, folder, tasks, limit=limit, fewshot=fewshot)


def evaluate_winrate(
    first: Path | str, second: Path | str, judge: str | Mapping[str, Any], instructions: Path, *, out: Path | None = None,
    max_tokens: int = 256, form: str = "{instruction}", margin: float | None = None, seed: int = 0,
) -> WinRate:  # fmt: skip
    """How often replies of `first` are judged better than those of `second`, both orders asked.

    `instructions` are JSON lines with `instruction` (or `prompt`), or a text file with one a line. The judge is any model of
    `open_lm`, such as an endpoint `http://host/v1#name`.
    """
    asked = read_instructions(instructions)
    from typecase.lm.models import open_lm

    _free(out)
    sides = [_writer(one) for one in (first, second)]
    from typecase.train.evaluation.winning import MARGIN, win_rate

    told, rows = win_rate(
        sides[0], sides[1], open_lm(judge), asked, max_tokens=max_tokens, form=form,
        margin=MARGIN if margin is None else margin, seed=seed,
    )  # fmt: skip
    if out is not None:
        write_bytes(out / COMPARISONS, b"".join(orjson.dumps(row) + b"\n" for row in rows))
        _write_card(out, "winrate", told)
    return told


def read_instructions(path: Path) -> list[str]:
    """The instructions in a file. Raises NotFound, CorruptStore naming the line."""
    if not path.is_file():
        raise NotFound(f"no instructions at {path}: give JSON lines with `instruction`, or text with one a line")
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        if path.suffix != ".jsonl":
            found.append(line.strip())
            continue
        try:
            row = orjson.loads(line)
            found.append(str(row["instruction"] if "instruction" in row else row["prompt"]))
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise CorruptStore(f"{path}, line {number} has no `instruction` or `prompt` ({error!r})") from None
    return found


def evaluate_compare(
    first: Sequence[Path],
    second: Sequence[Path],
    *,
    task: str = "",
    by: str = "doc_id",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Compared:
    """The difference of two models, each evaluated with one or more seeds into a folder: seed k against seed k, same rows.

    Folders of `evaluate_perplexity` are compared in bits per byte, those of `evaluate_tasks` in the share of right items of
    `task`. `by` says which rows are drawn together: doc_id, source or domain. Raises BadQuery where rows or seeds differ.
    """
    if len(first) != len(second) or not first:
        raise BadQuery(
            f"seeds are compared one by one, and there are {len(first)} evaluations against {len(second)}: give as many"
        )
    if by not in ("doc_id", "source", "domain"):
        raise BadQuery(f"rows are drawn by doc_id, source or domain, got {by!r}")
    tables = [[_table(folder, task) for folder in side] for side in (first, second)]
    names = {tuple(table.column("name").to_pylist()) for side in tables for table in side}
    if len(names) != 1:
        raise BadQuery("the evaluations are of different documents or items: evaluate all models on the same ones")
    sizes = {table.column("size").combine_chunks().to_numpy().tobytes() for side in tables for table in side}
    if len(sizes) != 1:
        raise BadQuery(
            "the evaluations scored different rows, or counted different bytes: evaluate all models on the same text"
        )
    some = tables[0][0]
    if by != "doc_id" and by not in some.column_names:
        raise BadQuery(f"items have no {by}: compare them by doc_id")
    sums = {
        label: np.stack([table.column("sum").to_numpy() for table in side])
        for label, side in zip(("first", "second"), tables, strict=True)
    }
    group = groups_of(some.column("group" if by == "doc_id" else by).to_pylist())
    figures = figures_of(sums, some.column("size").to_numpy(), group, resamples=resamples, seed=seed)
    return Compared(
        task or "bits_per_byte",
        figures.interval("first"),
        figures.interval("second"),
        figures.difference("first", "second"),
        len(first),
        some.num_rows,
    )


def _table(folder: Path, task: str) -> pa.Table:
    """Rows of an evaluation as name, group, sum, size, and source and domain of documents."""
    name = ITEMS if task else DOCUMENTS
    if not (folder / name).is_file():
        kind = "tasks" if task else "perplexity"
        raise NotFound(f"{folder} holds no {name}: give a folder of `typecase evaluate {kind} … -o`")
    table = pq.read_table(folder / name)
    if task:
        table = table.filter(pa.array([one == task for one in table.column("task").to_pylist()], pa.bool_()))
        if not table.num_rows:
            raise BadQuery(f"{folder} has no items of the task {task!r}")
        right = np.equal(table.column("choice").to_numpy(), table.column("answer").to_numpy()).astype(np.float64)
        groups = [g or i for g, i in zip(table.column("group").to_pylist(), table.column("item").to_pylist(), strict=True)]
        return pa.table({"name": table.column("item"), "group": groups, "sum": right, "size": np.ones(len(right))})
    good = np.array([status == OK for status in table.column("status").to_pylist()], np.bool_)
    bits = np.where(good, table.column("nll").to_numpy(zero_copy_only=False), 0.0) / _LN2
    size = np.where(good, table.column("bytes").to_numpy(), 0).astype(np.float64)
    return pa.table(
        {
            "name": table.column("doc_id"),
            "group": table.column("doc_id"),
            "sum": bits,
            "size": size,
            "source": table.column("source"),
            "domain": table.column("domain"),
        }
    )


def opened(model: Path | str, tokenizer: str | None = None, device: str = "cpu") -> Subject:
    """The model at a path. Raises NeedsExtra without torch."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise NeedsExtra("evaluating a model", "lm") from None
    from typecase.train.evaluation.subject import open_subject

    return open_subject(model, tokenizer=tokenizer, device=device)


def _writer(model: Path | str) -> LM:
    """A run of ours, or whatever else `open_lm` takes."""
    path = Path(model)
    if (path / "run.json").is_file() or (path / "checkpoint.json").is_file():
        subject = opened(model)
        from typecase.train.evaluation.subject_lm import SubjectLM

        return SubjectLM(subject)
    from typecase.lm.models import open_lm

    return open_lm(str(model))


def _free(out: Path | None) -> None:
    if out is not None and out.is_dir() and any(out.iterdir()) and not (out / CARD).is_file():
        raise AlreadyExists(f"{out} holds something that is no evaluation: choose another folder")


def _write_card(out: Path, kind: str, told: Any) -> None:
    from typecase.app.options import plain

    write_json(out / CARD, {"kind": kind, **plain(told)})
