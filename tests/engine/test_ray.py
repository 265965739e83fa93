"""Ray: the map of every engine on a real cluster of two nodes; lost workers, actors that load once, and what is bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from tests.engine.nodes import cluster_of
from typecase.engine.protocol import Engine
from typecase.engine.ray import Ray
from typecase.engine.ray_answers import WINDOW
from typecase.errors import FixInput, NeedsExtra, WorkerLost

ACTORS = pytest.param(True, id="actors", marks=pytest.mark.slow)
BOTH = pytest.mark.parametrize("models", [pytest.param(False, id="tasks"), ACTORS])
"""Tasks in every run; starting actors takes seconds each."""

loads: list[int] = []
"""What this process has loaded, in a worker."""


def square(n: int) -> int:
    time.sleep(0.02 * (n % 3 == 0))
    return n * n


def fails_at_three(n: int) -> int:
    if n == 3:
        raise FixInput("three")
    return n


def dies_at_two(n: int) -> int:
    if n == 2:
        os._exit(9)
    return n


def dies(n: int) -> int:
    os._exit(9)


def loads_once(n: int) -> tuple[int, int]:
    if not loads:
        loads.append(n)
    time.sleep(0.05)
    return os.getpid(), len(loads)


def notes(task: tuple[str, int]) -> int:
    folder, n = task
    Path(folder, str(n)).touch()
    return n


def unpicklable(n: int) -> object:
    return (i for i in range(n))


class Spelled(Exception):
    """An error that its own pickle cannot make again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def raises_spelled(n: int) -> None:
    raise Spelled("o", "dd")


@pytest.fixture(scope="module")
def engine() -> Iterator[Ray]:
    with cluster_of(2) as cluster:
        yield Ray(cluster.address)


def answers_of(engine: Engine, fn: Any, tasks: Any, *, models: bool) -> list[Any]:
    """Every answer in order, None where the worker was lost."""
    answers, found = engine.map(fn, tasks, models=models), list[Any]()
    while True:
        try:
            found.append(next(answers))
        except WorkerLost:
            found.append(None)
        except StopIteration:
            return found


def test_it_is_an_engine_with_a_worker_a_core(engine: Ray) -> None:
    assert isinstance(engine, Engine) and engine.num_workers == 2 and not engine.here


@BOTH
def test_answers_come_in_the_order_of_the_tasks(engine: Ray, models: bool) -> None:
    assert list(engine.map(square, range(30), models=models)) == [n * n for n in range(30)]
    assert list(engine.map(square, [], models=models)) == []


@BOTH
def test_an_error_is_raised_as_itself_at_the_turn_of_its_task(engine: Ray, models: bool) -> None:
    answers = engine.map(fails_at_three, range(9), models=models)
    assert list(islice(answers, 3)) == [0, 1, 2]
    with pytest.raises(FixInput, match=r"^three$") as caught:
        next(answers)
    assert type(caught.value) is FixInput and "fails_at_three" in str(caught.value.__cause__)
    assert list(engine.map(fails_at_three, [7, 8], models=models)) == [7, 8], "and the next map works"


@pytest.mark.slow
def test_errors_and_answers_that_cannot_travel_say_what_they_were(engine: Ray) -> None:
    with pytest.raises(RuntimeError, match="Spelled: odd"):
        list(engine.map(raises_spelled, [1]))
    with pytest.raises(TypeError, match="generator"):
        list(engine.map(unpicklable, [1]))


@BOTH
def test_a_lost_worker_costs_its_own_task(engine: Ray, models: bool) -> None:
    assert answers_of(engine, dies_at_two, range(8), models=models) == [0, 1, None, 3, 4, 5, 6, 7]


@pytest.mark.slow
@BOTH
def test_a_map_ends_when_every_worker_dies(engine: Ray, models: bool) -> None:
    found = answers_of(engine, dies, range(200), models=models)
    assert found == [None] * 3, "more in a row than there are workers"
    with pytest.raises(WorkerLost, match=r"died \(killed, or out of memory\).*run the same command again"):
        next(engine.map(dies, [1], models=models))


@pytest.mark.slow
def test_a_model_is_loaded_once_an_actor(engine: Ray) -> None:
    found = list(engine.map(loads_once, range(40), models=True))
    assert len({pid for pid, _ in found}) == 2 and {loaded for _, loaded in found} == {1}


@pytest.mark.slow
def test_no_more_tasks_are_under_way_than_the_window(engine: Ray, tmp_path: Path) -> None:
    answers = engine.map(notes, [(str(tmp_path), n) for n in range(100)])
    taken = [next(answers) for _ in range(5)]
    time.sleep(1.0)  # time enough for two workers to run away with the rest
    begun = sum(1 for _ in tmp_path.iterdir())
    assert len(taken) <= begun <= len(taken) + WINDOW * 2
    assert [*taken, *answers] == list(range(100))


@pytest.mark.slow
def test_functions_of_a_script_work_and_standard_output_is_its_own(engine: Ray, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "from multiprocessing import get_context\n"
        "from typecase.engine.ray import Ray\n"
        "from typecase.errors import WorkerLost\n"
        "import beside\n"
        "def twice(n):\n"
        "    return beside.add(n, n)\n"
        "def dies(n):\n"
        "    os._exit(9)\n"
        "def work(address):\n"
        "    engine = Ray(address)\n"
        "    print(list(engine.map(twice, range(3))), flush=True)\n"
        "    try:\n"
        "        list(engine.map(dies, [1]))\n"
        "    except WorkerLost:\n"
        "        print('lost', flush=True)\n"
        "if __name__ == '__main__':\n"
        "    work(sys.argv[1])\n"
        "    child = get_context('spawn').Process(target=work, args=(sys.argv[1],))\n"
        "    child.start()\n"
        "    child.join()\n"
    )
    (tmp_path / "beside.py").write_text("def add(a, b):\n    return a + b\n")
    command = [sys.executable, str(script), str(engine.address)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[0, 2, 4]\nlost\n" * 2 and "Traceback" not in done.stderr


def test_what_cannot_work_is_refused(engine: Ray) -> None:
    with pytest.raises(FixInput, match=r"no node of the Ray cluster has 3 CPU; they have 1 CPU and 0 GPU each"):
        engine_of(engine, cpus=3).map(square, [1])
    with pytest.raises(FixInput, match=r"no node of the Ray cluster has 1 CPU and 0.5 GPU"):
        engine_of(engine, gpus=0.5).map(square, [1], models=True)
    assert list(engine_of(engine, gpus=0.5).map(square, [1])) == [1], "a stage without a model asks for no GPU"
    with pytest.raises(FixInput, match=r"use another process for 10\.0\.0\.1:6379"):
        Ray("10.0.0.1:6379").map(square, [1])
    for wrong in ({"workers": 0}, {"cpus": 0}, {"gpus": -1}, {"gpus": 1.5}):
        with pytest.raises(FixInput):
            Ray(**wrong)  # type: ignore[arg-type]


def engine_of(engine: Ray, **share: float) -> Ray:
    return Ray(engine.address, **share)  # type: ignore[arg-type]


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NeedsExtra, match=r"pip install 'typecase\[ray\]'"):
        Ray().map(square, [1])


def test_an_address_where_nobody_answers_is_refused_at_once() -> None:
    code = (
        "from typecase.engine.ray import Ray\n"
        "from typecase.errors import FixInput\n"
        "for address in ('127.0.0.1:1', 'head'):\n"
        "    try:\n"
        "        Ray(address).num_workers\n"
        "    except FixInput as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    refused, unread = done.stdout.splitlines()
    assert refused.startswith("no Ray cluster answers at '127.0.0.1:1' ([Errno 111] Connection refused): start one with")
    assert "an address is host:port" in unread
