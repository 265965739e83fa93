"""Harness: a subject in EleutherAI's lm-evaluation-harness, on task files that lie on this disk.

    tasks/cloze.yaml     task: cloze, dataset_path: json, data_files: {test: …/cloze.jsonl}, output_type: multiple_choice …
    run_harness(subject, Path("tasks"), ["cloze"])  ->  {"cloze": {"acc": 0.41, "acc_stderr": 0.03, …}}

Nothing is fetched: only the tasks of the folder are known, and the hub is told to be offline while they run. `write_task`
writes items of ours as such a task, which shows that both count alike. Raises NeedsExtra without the harness.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from typecase.errors import BadQuery, NeedsExtra, NotFound
from typecase.store.atomic import write_bytes
from typecase.train.evaluation.choosing import ids_nats
from typecase.train.evaluation.documents import windows_of
from typecase.train.evaluation.items import Item
from typecase.train.evaluation.subject import Subject
from typecase.train.evaluation.subject_lm import SubjectLM

_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_NAMED = re.compile(r"^task:\s*[\"']?([\w.-]+)", re.MULTILINE)


def run_harness(
    subject: Subject, folder: Path, tasks: Sequence[str] = (), *, limit: int | None = None, fewshot: int | None = None
) -> dict[str, dict[str, float]]:
    """Metrics of each task by name, those of the harness without its filter names.

    `tasks` are names of tasks in `folder`, all of them by default; `limit` takes the first items of each. Raises NotFound,
    BadQuery for a task that the harness cannot run, NeedsExtra.
    """
    evaluate, manager = _harness()
    known = task_names(folder)
    unknown = sorted(set(tasks) - set(known))
    if unknown:
        raise BadQuery(f"{folder} has no task {unknown[0]}: it has {', '.join(known)}")
    with _offline():
        try:
            told = evaluate(
                model=harness_model(subject),
                tasks=list(tasks or known),
                num_fewshot=fewshot,
                limit=limit,
                bootstrap_iters=0,
                log_samples=False,
                task_manager=manager(include_path=str(folder), include_defaults=False),
            )
        except (KeyError, ValueError, TypeError, FileNotFoundError) as error:
            raise BadQuery(f"the harness cannot run {', '.join(tasks or known)} of {folder}: {error}") from error
    return {name: _numbers(metrics) for name, metrics in sorted(told["results"].items())}


def task_names(folder: Path) -> list[str]:
    """The tasks that the .yaml files of a folder name. Raises NotFound where there is none."""
    files = sorted(folder.rglob("*.yaml")) if folder.is_dir() else []
    names = [match[1] for file in files if (match := _NAMED.search(file.read_text("utf-8")))]
    if not names:
        raise NotFound(f"{folder} holds no task of the harness: give a folder with .yaml files that name a `task:`")
    return sorted(names)


def write_task(folder: Path, name: str, items: Sequence[Item]) -> Path:
    """Writes items as a multiple-choice task of the harness: a .yaml file and the items beside it; returns the folder."""
    rows = [{"prompt": item.prompt, "choices": list(item.choices), "answer": item.answer} for item in items]
    data = (folder / f"{name}.jsonl").resolve()
    write_bytes(data, b"".join(orjson.dumps(row) + b"\n" for row in rows))
    lines = [
        f"task: {name}",
        "dataset_path: json",
        f"dataset_kwargs: {{data_files: {{test: {orjson.dumps(str(data)).decode()}}}}}",
        "test_split: test",
        "output_type: multiple_choice",
        'doc_to_text: "{{prompt}}"',
        "doc_to_choice: choices",
        "doc_to_target: answer",
        'target_delimiter: ""',
        "metric_list:",
        "  - {metric: acc, aggregation: mean, higher_is_better: true}",
        "  - {metric: acc_norm, aggregation: mean, higher_is_better: true}",
    ]
    write_bytes(folder / f"{name}.yaml", ("\n".join(lines) + "\n").encode())
    return folder


def harness_model(subject: Subject) -> Any:
    """The subject as a model of the harness: log-likelihoods, rolling ones, and texts."""
    try:
        TemplateLM: Any = importlib.import_module("lm_eval.api.model").TemplateLM
    except ImportError:
        raise NeedsExtra("the evaluation harness", "eval") from None

    class Adapter(TemplateLM):  # type: ignore[misc]
        """Of a subject."""

        @property
        def eot_token_id(self) -> int:
            start = subject.start if subject.start is not None else subject.tokenizer.eos_id
            return int(start) if start is not None else 0

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
            return [int(one) for one in subject.encode([string])[0]]

        def _loglikelihood_tokens(self, requests: Any, **kwargs: Any) -> list[tuple[float, bool]]:
            start = [self.eot_token_id] if subject.start is not None else []
            pairs = [
                (np.array([*(start if before[:1] != start else []), *before], np.int64), np.array(behind, np.int64))
                for _, before, behind in requests
            ]
            return [(-nats, best) for nats, best in ids_nats(subject, pairs)]

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            return [self._whole(request.args[0]) for request in requests]

        def _whole(self, text: str) -> float:
            row = np.array([self.eot_token_id, *self.tok_encode(text)], np.int64)
            places = list(windows_of(len(row), subject.context, subject.context))
            scores = subject.score([row[begin:end] for begin, end, _ in places])
            return -sum(float(s.nats[first:].sum(dtype=np.float64)) for s, (_, _, first) in zip(scores, places, strict=True))

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            lm, texts = SubjectLM(subject), []
            for request in requests:
                prompt, how = request.args
                stop = how.get("until") or []
                stop = [stop] if isinstance(stop, str) else [one for one in stop if one]
                heat = float(how.get("temperature", 0.0)) if how.get("do_sample") else 0.0
                most = int(how.get("max_gen_toks", 64))
                answer = next(iter(lm.generate([prompt], max_tokens=most, seed=0, stop=stop, temperature=heat)))
                texts.append(getattr(answer, "text", ""))
            return texts

    return Adapter()


def _harness() -> tuple[Any, Any]:
    with _offline():
        try:
            evaluate = importlib.import_module("lm_eval").simple_evaluate
            manager = importlib.import_module("lm_eval.tasks").TaskManager
        except ImportError:
            raise NeedsExtra("the evaluation harness", "eval") from None
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    return evaluate, manager


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Metrics as numbers, `acc,none` as `acc`; standard errors that were not worked out are left out."""
    found = {}
    for name, value in metrics.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and name != "sample_len":
            found[name.replace(",none", "")] = float(value)
    return found


@contextmanager
def _offline() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _OFFLINE}
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
