"""This machine: the builtin map, or processes.

    Local(0)   in this process, one task after the other; the engine to debug with
    Local(n)   n processes by spawn: nothing is inherited but what a task carries

Workers wait for the next `map` of as many workers, until this process ends. Price: a spawned worker costs about a second
of imports, once, and its memory while it waits.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import multiprocessing.util
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TypeVar

from typecase.errors import FixInput, WorkerLost

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Local:
    """`workers` processes on this machine; 0 runs in the calling process."""

    workers: int = 0

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise FixInput(f"workers must be 0 (this process) or more, got {self.workers}")

    @property
    def num_workers(self) -> int:
        return max(1, self.workers)

    @property
    def here(self) -> bool:
        return self.workers == 0

    def map(self, fn: Callable[[T], R], tasks: Sequence[T], *, models: bool = False) -> Iterator[R]:
        """Yields `fn(task)` in task order; see `Engine.map`. A worker lives as long as this process, so `models` asks nothing
        more of it, and a map ends with its first lost worker."""
        if self.workers == 0 or not tasks:
            return map(fn, tasks)
        return _map_processes(fn, tasks, self.workers)


def available_cores() -> int:
    """Cores that this process may use; containers and taskset are respected."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _map_processes(fn: Callable[[T], R], tasks: Sequence[T], workers: int) -> Iterator[R]:
    pool = _pool_of(workers)
    waiting: deque[Future[R]] = deque()
    try:
        # A window of a few tasks per worker bounds the answers that wait for their turn.
        for task in tasks:
            waiting.append(pool.submit(fn, task))
            if len(waiting) >= 4 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        _end_pool()
        raise WorkerLost(
            "a worker process died (out of memory, or killed); finished shards are kept: run the same command again,"
            " with fewer workers if memory was short"
        ) from error
    except BaseException:
        # Nobody waits for answers any more. Writers are atomic, so a worker can be ended at any instant.
        _end_pool()
        raise


@dataclass(slots=True)
class _Pool:
    """Workers that wait for the next `map`: a recipe has a dozen, and spawning costs more than many of them."""

    key: tuple[int, tuple[str, ...]]
    executor: ProcessPoolExecutor
    others: set[multiprocessing.process.BaseProcess]


_waiting_pool: list[_Pool] = []


def _pool_of(workers: int) -> ProcessPoolExecutor:
    """The pool of the last `map` if it had as many workers and the same import path, else a new one."""
    key = (workers, tuple(sys.path))
    if _waiting_pool and _waiting_pool[0].key != key:
        _end_pool()
    if not _waiting_pool:
        others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_follow_the_parent)
        _waiting_pool.append(_Pool(key, executor, others))
        # A process that was itself started by multiprocessing joins its children when it ends: they must be gone by then.
        multiprocessing.util.Finalize(None, _end_pool, exitpriority=10)
    return _waiting_pool[0].executor


def _end_pool() -> None:
    while _waiting_pool:
        pool = _waiting_pool.pop()
        for child in set(multiprocessing.active_children()) - pool.others:
            child.terminate()
        pool.executor.shutdown(wait=True, cancel_futures=True)


def _follow_the_parent() -> None:
    """Run in a worker as it starts: it leaves interrupts to its parent, and ends when that is gone, killed or not."""
    # Ctrl-C reaches the whole process group; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    # An orphan would go on with its task, beside whoever takes the same work up. Writers are atomic, so it may end at once.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
