"""Jobs: long work in the background, with progress, a log, and a way to stop it.

    job = jobs.start("apply edits to web", work)          work(teller) runs in a thread; teller is a Reporter of recipe.progress
    job.told()                                            a frozen picture of it: state, part done, last lines
    jobs.cancel(job.id)                                   the next time the work tells its progress, it stops

A stage that is stopped keeps its finished shards: started again, it goes on where it was.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from typecase.errors import Conflict, NotFound, TypecaseError

State = Literal["running", "done", "failed", "cancelled"]
_LINES, _KEPT = 200, 100
MOST_RUNNING = 4


class Cancelled(Exception):
    """Raised within a job that was asked to stop."""


@dataclass(frozen=True, slots=True)
class JobTold:
    """A job as it stands: `done` of `total` tasks of its `phase`; `result` is what it said at its end, or why it failed.

    `seconds` is how long it has run, `left` a guess of what remains; `link` leads to what it made.
    """

    id: int
    title: str
    state: State
    phase: str
    done: int
    total: int
    seconds: float
    left: float | None
    result: str
    link: str
    log: tuple[str, ...]


class Job:
    """Work in a thread. It is a Reporter: give it to what works through shards, or call `tell`."""

    def __init__(self, number: int, title: str, work: Callable[[Job], str | None], link: str = "") -> None:
        self.id, self.title, self.link = number, title, link
        self.state: State = "running"
        self._work, self._stop = work, threading.Event()
        self._phase, self._done, self._total, self._result = "", 0, 0, ""
        self._began, self._ended = time.monotonic(), 0.0
        self._phase_began, self._phase_first = self._began, 0
        self._log: deque[str] = deque(maxlen=_LINES)
        self._thread = threading.Thread(target=self._run, name=f"job-{number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        self._stop.set()

    def wait(self, seconds: float) -> None:
        """Waits for its end, at most so long."""
        self._thread.join(seconds)

    def check(self) -> None:
        """Raises Cancelled where the job was asked to stop."""
        if self._stop.is_set():
            raise Cancelled

    def say(self, line: str) -> None:
        """A line for its log."""
        self._log.append(line)

    def tell(self, phase: str, done: int, total: int) -> None:
        """How far the work is; stops it where that was asked."""
        if phase != self._phase:
            self._phase_began, self._phase_first = time.monotonic(), done
            self.say(phase)
        self._phase, self._done, self._total = phase, done, total
        self.check()

    @contextmanager
    def phase(self, name: str, *, total: int, done: int) -> Iterator[_Phase]:
        """One beat of a stage, as `recipe.progress.Reporter` has it."""
        self.tell(name, done, total)
        yield _Phase(self, name, total, done)

    def told(self) -> JobTold:
        """The job as it stands now."""
        now = self._ended or time.monotonic()
        fresh = self._done - self._phase_first
        left = None
        if self.state == "running" and fresh > 0 and self._total > self._done:
            left = (now - self._phase_began) / fresh * (self._total - self._done)
        return JobTold(
            self.id,
            self.title,
            self.state,
            self._phase,
            self._done,
            self._total,
            round(now - self._began, 2),
            round(left, 1) if left is not None else None,
            self._result,
            self.link,
            tuple(self._log),
        )

    def _run(self) -> None:
        try:
            self._result = self._work(self) or ""
            self.state = "done"
        except Cancelled:
            self.state, self._result = "cancelled", "stopped as asked; what was finished is kept"
        except TypecaseError as error:
            self.state, self._result = "failed", f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001  a job has nobody above it to tell
            self.state, self._result = (
                "failed",
                f"{type(error).__name__}: {error}; this is a fault of typecase, please report it",
            )
        finally:
            self._ended = time.monotonic()


class _Phase:
    def __init__(self, job: Job, name: str, total: int, done: int) -> None:
        self._job, self._name, self._total, self._done = job, name, total, done

    def advance(self, documents: int, size_bytes: int) -> None:
        self._done += 1
        self._job.tell(self._name, self._done, self._total)


class Jobs:
    """All jobs of a server, newest first; the oldest finished ones are forgotten."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._numbers, self._lock = itertools.count(1), threading.Lock()

    def start(self, title: str, work: Callable[[Job], str | None], *, link: str = "") -> Job:
        """Starts `work` in a thread. Raises Conflict when as many run as may."""
        with self._lock:
            running = [j for j in self._jobs.values() if j.state == "running"]
            if len(running) >= MOST_RUNNING:
                raise Conflict(f"{len(running)} jobs are running: wait for one, or cancel one on the page Runs")
            job = Job(next(self._numbers), title, work, link)
            self._jobs[job.id] = job
            for number in [n for n, j in self._jobs.items() if j.state != "running"][: max(0, len(self._jobs) - _KEPT)]:
                del self._jobs[number]
        job.start()
        return job

    def get(self, number: int) -> Job:
        """The job of a number. Raises NotFound."""
        job = self._jobs.get(number)
        if job is None:
            raise NotFound(f"there is no job {number}: jobs live as long as the server")
        return job

    def cancel(self, number: int) -> JobTold:
        """Asks a job to stop. Raises NotFound."""
        job = self.get(number)
        job.cancel()
        return job.told()

    def told(self) -> tuple[JobTold, ...]:
        return tuple(j.told() for j in sorted(self._jobs.values(), key=lambda j: -j.id))

    def stop(self) -> None:
        """Asks all to stop and waits a moment for them."""
        every: list[Any] = list(self._jobs.values())
        for job in every:
            job.cancel()
        for job in every:
            job.wait(2.0)
