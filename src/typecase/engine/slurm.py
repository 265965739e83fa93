"""Slurm: workers that a batch system starts, on a folder that all of its machines see.

    folder/
       array.sh                      what sbatch is given: an array of `workers` elements, each a worker
       call                          the function
       task-00000 task-00001 …       pickled tasks
       claim-00000                   made by the worker that took the task; holds its number in the array
       answer-00000                  the answer; it goes when its turn has come
       log-<number>.txt              what a worker printed

A worker takes the first task that nobody has, until none is left, so a model is loaded once a worker and slow shards hold
nobody up. A worker that is no longer in the queue and left a claim without an answer is lost: WorkerLost at the turn of its
task, and the others go on; the next map submits again what is missing. Answers wait as files, in no memory.

Errors: FixInput where there is no sbatch, or it refuses. Price: what the queue makes a job wait, and up to POLL_SECONDS a turn
that is not there yet; two small files a task.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import Any, Generic, TypeVar

from typecase.engine import shipped
from typecase.errors import FixInput, WorkerLost

T = TypeVar("T")
R = TypeVar("R")

POLL_SECONDS = 0.5
_QUEUE_SECONDS = 5.0
"""How often the queue is asked: it serves everybody."""
_SETTLING_LOOKS = 2
"""A worker has gone when so many looks in a row do not find it: an answer may come late through a network file system."""


@dataclass(frozen=True, slots=True)
class Slurm:
    """`workers` array elements at most.

    `folder`   where tasks and answers lie while a map runs, seen by every machine; the working folder by default
    `options`  of sbatch, as it takes them: ("--partition=long", "--time=02:00:00", "--cpus-per-task=4")
    `models`   options more for a stage with a model: ("--gres=gpu:1",)
    """

    workers: int = 1
    folder: str = "."
    options: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    queue_seconds: float = _QUEUE_SECONDS

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise FixInput(f"Slurm needs 1 worker or more, got {self.workers}")
        if wrong := [option for option in (*self.options, *self.models) if not option.startswith("-")]:
            raise FixInput(f"an option of sbatch begins with '-', got {wrong[0]!r}")

    @property
    def num_workers(self) -> int:
        return self.workers

    @property
    def here(self) -> bool:
        return False

    def map(self, fn: Callable[[T], R], tasks: Sequence[T], *, models: bool = False) -> Iterator[R]:
        """Yields `fn(task)` in task order; see `Engine.map`."""
        if not tasks:
            return iter(())
        return _Answers(self, fn, tasks, (*self.options, *self.models) if models else self.options)


class _Answers(Iterator[R], Generic[T, R]):
    """`next` gives the answer of the next task, raises its error, or WorkerLost; `close` ends the array."""

    def __init__(self, engine: Slurm, fn: Callable[[T], R], tasks: Sequence[T], options: Sequence[str]) -> None:
        self._job = ""
        self._turn, self._tasks = 0, len(tasks)
        self._looks = _Looks(engine.queue_seconds)
        self._folder = Path(tempfile.mkdtemp(prefix=".typecase-slurm-", dir=engine.folder)).absolute()
        _write(self._folder / "call", pickle.dumps((_main_file(), shipped.pack(fn))))
        for i, task in enumerate(tasks):
            _write(self._folder / f"task-{i:05d}", pickle.dumps(task))
        script = self._folder / "array.sh"
        script.write_text(_script(self._folder, min(engine.workers, len(tasks)), options))
        self._job = self._looks.job = _submitted(script)

    def __next__(self) -> R:
        if self._turn == self._tasks:
            self.close()
            raise StopIteration
        try:
            self._wait()
            answer = (self._folder / f"answer-{self._turn:05d}").read_bytes()
            self._forget()
            value: R = shipped.answer_of(answer)
        except WorkerLost:
            raise
        except BaseException:
            # Nobody waits for answers any more. Writers are atomic, so a worker can be ended at any instant.
            self.close()
            raise
        return value

    def close(self) -> None:
        """Ends what is left of the array, and removes the folder."""
        self._turn = self._tasks
        if self._job:
            _ask("scancel", self._job)
            self._job = ""
        shutil.rmtree(self._folder, ignore_errors=True)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _wait(self) -> None:
        """Until the answer whose turn it is lies there; WorkerLost when nobody is left who would write it."""
        answer, claim = self._folder / f"answer-{self._turn:05d}", self._folder / f"claim-{self._turn:05d}"
        absent = 0
        while not answer.exists():
            time.sleep(POLL_SECONDS)
            queue = self._looks.queue()
            if queue is None or answer.exists():
                continue
            worker = claim.read_text() if claim.exists() else None
            absent = absent + 1 if (worker not in queue if worker else not queue) else 0
            if absent == _SETTLING_LOOKS:
                raise self._lost(worker)

    def _lost(self, worker: str | None) -> WorkerLost:
        log = self._folder / f"log-{worker}.txt"
        lines = log.read_text(errors="replace").strip().splitlines() if worker and log.exists() else []
        said = f"; its last words: {lines[-1]}" if lines else ""
        remedy = "finished shards are kept: run the same command again, with more memory or time for a job if that was short"
        if not worker:
            # No claim and nobody in the queue: what is left will never be taken.
            self.close()
            return WorkerLost(f"the workers of the Slurm job have ended before the work was done; {remedy}")
        self._forget()
        return WorkerLost(f"element {worker} of a Slurm job is gone (killed, or over its limits{said}); {remedy}")

    def _forget(self) -> None:
        # The claim stays until the end: without it, another worker could take the task again.
        for kind in ("task", "answer"):
            (self._folder / f"{kind}-{self._turn:05d}").unlink(missing_ok=True)
        self._turn += 1


@dataclass(slots=True)
class _Looks:
    """Looks at the queue, not more often than every `seconds`."""

    seconds: float
    job: str = ""
    last: float = 0.0

    def queue(self) -> set[str] | None:
        """The array elements of the job that wait or run; None when it is not time yet, or the queue does not answer."""
        if time.monotonic() - self.last < self.seconds:
            return None
        self.last = time.monotonic()
        done = _ask("squeue", "--noheader", "--array", "--format=%K", f"--jobs={self.job}")
        if done.returncode and "Invalid job id" not in done.stderr:
            return None
        return set(done.stdout.split())


def _ask(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FixInput(f"there is no program {command[0]!r} here: run this on a machine that submits to Slurm") from None


def _submitted(script: Path) -> str:
    """The number of the job."""
    done = _ask("sbatch", "--parsable", str(script))
    if done.returncode:
        raise FixInput(f"sbatch refuses {script}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip().partition(";")[0]


def _script(folder: Path, workers: int, options: Sequence[str]) -> str:
    heads = [f"--array=0-{workers - 1}", "--job-name=typecase", f"--output={folder}/log-%a.txt", *options]
    lines = [f"#SBATCH {head}" for head in heads]
    run = f"exec {shlex.quote(sys.executable)} -m typecase.engine.slurm {shlex.quote(str(folder))}"
    return "\n".join(["#!/bin/sh", *lines, run, ""])


def _main_file() -> str | None:
    """The script that this process runs: functions that it defines are found by importing it, as `multiprocessing` does."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    return str(Path(file).absolute()) if file and getattr(main, "__spec__", None) is None else None


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


def work(folder: Path, worker: str) -> None:
    """A worker: takes the first task that nobody has, until none is left."""
    script, call = pickle.loads((folder / "call").read_bytes())
    if script is not None:
        spawn.prepare({"init_main_from_path": script})
    for number in sorted(int(path.name.partition("-")[2]) for path in folder.glob("task-*")):
        if _claimed(folder / f"claim-{number:05d}", worker):
            task = (folder / f"task-{number:05d}").read_bytes()
            _write(folder / f"answer-{number:05d}", shipped.run(call, task))


def _claimed(path: Path, worker: str) -> bool:
    """Whether the task is this worker's; a link is made by one alone, on network file systems too."""
    mine = path.with_name(f".{path.name}.{worker}")
    mine.write_text(worker)
    try:
        os.link(mine, path)
    except FileExistsError:
        return False
    finally:
        mine.unlink()
    return True


def _main(arguments: Sequence[str]) -> Any:
    work(Path(arguments[0]), os.environ["SLURM_ARRAY_TASK_ID"])


if __name__ == "__main__":
    _main(sys.argv[1:])
