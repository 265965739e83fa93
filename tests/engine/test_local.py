"""Local: an ordered map; workers that wait for the next one; errors at the turn of their task."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import psutil
import pytest

from typecase.engine.local import Local
from typecase.errors import FixInput, WorkerLost


def slow_square(n: int) -> tuple[int, int]:
    time.sleep(0.02 * (n % 3 == 0))
    return n * n, os.getpid()


def fails_at_three(n: int) -> int:
    if n == 3:
        raise FixInput("three")
    return n


def dies(n: int) -> int:
    os._exit(9)


def notes_and_sleeps(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(120)


def sleeps_within(folder: str) -> None:
    list(Local(2).map(notes_and_sleeps, [folder, folder]))


def maps_within(answers: object) -> None:
    answers.put([v for v, _ in Local(2).map(slow_square, range(4))])  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_answers_come_in_the_order_of_the_tasks(workers: int) -> None:
    assert [v for v, _ in Local(workers).map(slow_square, range(30))] == [n * n for n in range(30)]
    assert list(Local(workers).map(slow_square, [])) == []


def test_workers_wait_for_the_next_map() -> None:
    first = {pid for _, pid in Local(2).map(slow_square, range(20))}
    second = {pid for _, pid in Local(2).map(slow_square, range(20))}
    assert second <= first and os.getpid() not in first


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_is_raised_at_the_turn_of_its_task(workers: int) -> None:
    answers = Local(workers).map(fails_at_three, range(9))
    assert list(islice(answers, 3)) == [0, 1, 2]
    with pytest.raises(FixInput, match="three"):
        next(answers)
    assert list(Local(workers).map(fails_at_three, [7, 8])) == [7, 8], "and the next map works"


def test_a_dead_worker_is_worker_lost_and_the_next_map_works() -> None:
    with pytest.raises(WorkerLost, match="run the same command again"):
        list(Local(2).map(dies, range(3)))
    assert [v for v, _ in Local(2).map(slow_square, range(3))] == [0, 1, 4]


def test_an_abandoned_map_ends_its_workers() -> None:
    answers = Local(2).map(slow_square, range(100))
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert [v for v, _ in Local(2).map(slow_square, range(3))] == [0, 1, 4]


def test_a_process_started_by_multiprocessing_can_map_and_end() -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    child = context.Process(target=maps_within, args=(answers,))
    child.start()
    assert answers.get() == [0, 1, 4, 9]
    child.join(timeout=60)
    alive = child.is_alive()
    child.kill()
    assert not alive, "the child waits for its own workers for ever"


def test_fewer_than_no_workers() -> None:
    with pytest.raises(FixInput, match="must be 0"):
        Local(-1)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path, how: signal.Signals) -> None:
    """In the middle of a task: an orphan would write beside whoever takes the work up."""
    child = multiprocessing.get_context("spawn").Process(target=sleeps_within, args=(str(tmp_path),))
    child.start()
    assert child.pid is not None
    _until(lambda: len(list(tmp_path.iterdir())) == 2)
    os.kill(child.pid, how)
    child.join(timeout=60)
    _until(lambda: not any(psutil.pid_exists(int(path.name)) for path in tmp_path.iterdir()))


def _until(held: Callable[[], bool]) -> None:
    for _ in range(1200):
        if held():
            return
        time.sleep(0.05)
    raise AssertionError("not within a minute")
