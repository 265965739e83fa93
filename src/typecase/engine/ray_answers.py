"""The answers of one map on Ray, in task order, a bounded number under way.

    tasks   . . . . . . . . .          waiting: nothing of them is in the cluster yet
    lanes   [3] [4] [5]                under way: Ray tasks, or one a living actor
    turns   2 3 4 5                    WINDOW a worker at most; an answer waits here for those before it

See `engine.ray` for the laws.
"""

from __future__ import annotations

import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from typecase.engine import shipped
from typecase.engine.ray import nodes_shown, room_for
from typecase.errors import FixInput, WorkerLost

T = TypeVar("T")
R = TypeVar("R")

WINDOW = 4
"""Tasks a worker that are under way or wait for their turn."""
_LOOK_SECONDS = 5.0
_PATIENCE_LOOKS = 6
"""A cluster that has lost every node that could work is given half a minute to find one."""


class Answers(Iterator[R], Generic[T, R]):
    """`next` gives the answer of the next task, raises its error, or WorkerLost; `close` ends what is under way."""

    def __init__(
        self,
        ray: Any,
        fn: Callable[[T], R],
        tasks: Sequence[T],
        *,
        workers: int,
        share: Mapping[str, float],
        actors: bool,
    ) -> None:
        self._ray, self._share, self._workers = ray, share, workers
        self._dumps = ray.cloudpickle.dumps  # functions of a script or a notebook travel by value
        if (script := sys.modules.get("__mp_main__")) is not None:  # a script, in a process that multiprocessing started
            ray.cloudpickle.register_pickle_by_value(script)
        call = ray.put(shipped.pack(fn, self._dumps))
        self._waiting = map(self._dumps, tasks)
        self._next_task: bytes | None = next(self._waiting)
        self._turns: deque[Any] = deque()
        self._lanes: _Lanes = (_ActorLanes if actors else _TaskLanes)(ray, call, workers, share)
        self._losses = 0
        self._fill()

    def __next__(self) -> R:
        try:
            return self._answer()
        except (StopIteration, WorkerLost):
            raise
        except BaseException:
            # Nobody waits for answers any more. Writers are atomic, so a worker can be ended at any instant.
            self.close()
            raise

    def close(self) -> None:
        """Ends the workers of this map that are at work."""
        self._next_task = None
        self._turns.clear()
        self._lanes.close()

    def __del__(self) -> None:
        with suppress(Exception):  # it may never have begun, and Ray may be gone already
            self.close()

    def _answer(self) -> R:
        try:
            self._wait_for_turn()
            if not self._turns:
                self._lanes.close()
                raise StopIteration
            answer = self._ray.get(self._turns.popleft())
        except self._ray.exceptions.RayTaskError as error:
            raise _cannot_run(error) from None
        except self._ray.exceptions.RayError as error:
            raise self._lost(error) from None
        self._losses = 0
        self._fill()
        value: R = shipped.answer_of(answer)
        return value

    def _wait_for_turn(self) -> None:
        """Until the first of the turns is there or known to be lost; lanes that become free meanwhile are filled."""
        looked, missed = time.monotonic(), 0
        while self._turns or self._next_task is not None:
            settled = self._looked_at_lanes()
            self._fill()
            if settled:
                return
            if time.monotonic() - looked < _LOOK_SECONDS:
                continue
            looked, missed = time.monotonic(), 0 if room_for(self._ray, self._share) else missed + 1
            if missed == _PATIENCE_LOOKS:
                shown = nodes_shown(self._ray)
                self.close()
                raise WorkerLost(f"no node that could work is left in the Ray cluster, which has {shown}; {_REMEDY}")

    def _looked_at_lanes(self) -> bool:
        try:
            return self._lanes.wait(self._turns[0] if self._turns else None, _LOOK_SECONDS)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            self.close()
            raise WorkerLost(f"Ray workers die before they begin ({_cause(error)}); {_REMEDY}") from None

    def _fill(self) -> None:
        while self._next_task is not None and len(self._turns) < WINDOW * self._workers and self._lanes.free():
            self._turns.append(self._lanes.submit(self._next_task))
            self._next_task = next(self._waiting, None)

    def _lost(self, error: Exception) -> WorkerLost:
        self._losses += 1
        if self._losses > max(self._workers, 2) or not self._ray.is_initialized():
            self.close()
            return WorkerLost(f"{self._losses} Ray workers died one after the other ({_cause(error)}); {_REMEDY}")
        self._fill()
        return WorkerLost(f"a Ray worker died ({_cause(error)}); {_REMEDY}")


_REMEDY = "finished shards are kept: run the same command again, with more cores a worker (?cpus=2) if memory was short"


def _cause(error: Exception) -> str:
    """Ray's reason in a few words."""
    name = type(error).__name__
    if name == "OutOfMemoryError":
        return "its node was out of memory"
    if name == "NodeDiedError" or "node" in str(error).partition("\n")[0].lower():
        return "its node is gone"
    return "killed, or out of memory" if name in ("WorkerCrashedError", "ActorDiedError") else name


def _cannot_run(error: Exception) -> FixInput:
    """What goes wrong before our own code runs on a worker: typecase cannot be imported there."""
    last = [line for line in str(error).strip().splitlines() if line.strip()][-1].strip()
    return FixInput(
        f"a Ray worker cannot run typecase ({last}): install typecase {shipped.version()} on every node, for the"
        f" Python {platform.python_version()} of this one"
    )


class _Lanes(Protocol):
    """Where tasks are under way."""

    def free(self) -> bool:
        """Whether a task may be submitted."""

    def submit(self, task: bytes) -> Any:
        """A reference to the answer to come."""

    def wait(self, ref: Any | None, seconds: float) -> bool:
        """Whether `ref`, the first that was submitted of those not yet settled, is settled now. Comes back early when a task
        may be submitted; raises the RayError of workers that cannot be started."""

    def close(self) -> None:
        """Ends what is under way."""


def _run(call: bytes, task: bytes) -> bytes:
    from ray import cloudpickle

    return shipped.run(call, task, cloudpickle.dumps)


class _TaskLanes:
    """A Ray task for each; Ray keeps those that find no worker in line."""

    def __init__(self, ray: Any, call: Any, workers: int, share: Mapping[str, float]) -> None:
        self._ray, self._call = ray, call
        self._under_way: deque[Any] = deque()
        self._remote = ray.remote(num_cpus=share["CPU"], max_retries=0)(_run)

    def free(self) -> bool:
        return True

    def submit(self, task: bytes) -> Any:
        ref = self._remote.remote(self._call, task)
        self._under_way.append(ref)
        return ref

    def wait(self, ref: Any | None, seconds: float) -> bool:
        settled, _ = self._ray.wait([ref], timeout=seconds)
        if settled:
            # Turns come in the order of submission: whatever was submitted before `ref` has had its turn.
            while self._under_way and self._under_way.popleft() != ref:
                pass
        return bool(settled)

    def close(self) -> None:
        if self._ray.is_initialized():
            while self._under_way:
                self._ray.cancel(self._under_way.pop(), force=True)
        self._under_way.clear()


class _Holder:
    """An actor: a process that keeps what its first task loaded."""

    def ready(self) -> None:
        """Answers when the process is there."""

    def run(self, call: bytes, task: bytes) -> bytes:
        return _run(call, task)


class _ActorLanes:
    """`workers` actors, one task each at a time; one that is lost is replaced, on whatever node has room.

    A task is given to an actor that is there: one that waits for room, after a node went, holds nothing up.
    """

    def __init__(self, ray: Any, call: Any, workers: int, share: Mapping[str, float]) -> None:
        self._ray, self._call, self._workers = ray, call, workers
        holder = ray.remote(num_cpus=share["CPU"], num_gpus=share.get("GPU", 0), max_restarts=0, max_task_retries=0)(_Holder)
        self._new = holder.remote
        self._starting: dict[Any, Any] = {}
        self._idle: list[Any] = []
        self._busy: dict[Any, Any] = {}
        self._stillborn = 0
        for _ in range(workers):
            self._start()

    def _start(self) -> None:
        actor = self._new()
        self._starting[actor.ready.remote()] = actor

    def free(self) -> bool:
        return bool(self._idle)

    def submit(self, task: bytes) -> Any:
        actor = self._idle.pop()
        ref = actor.run.remote(self._call, task)
        self._busy[ref] = actor
        return ref

    def wait(self, ref: Any | None, seconds: float) -> bool:
        if ref is None or ref in self._busy:
            settled, _ = self._ray.wait([*self._busy, *self._starting], timeout=seconds)
            for done in settled:
                self._settle(done)
        return ref is not None and ref not in self._busy

    def _settle(self, ref: Any) -> None:
        """The actor of `ref` is idle now, or is replaced; whoever asks for the answer hears of the loss."""
        starts = ref in self._starting
        actor = (self._starting if starts else self._busy).pop(ref)
        try:
            self._ray.get(ref)
        except self._ray.exceptions.RayError:
            self._stillborn += starts
            if self._stillborn > max(self._workers, 2):
                raise
            self._start()
        else:
            self._stillborn = 0
            self._idle.append(actor)

    def close(self) -> None:
        if self._ray.is_initialized():
            for actor in (*self._idle, *self._busy.values(), *self._starting.values()):
                self._ray.kill(actor, no_restart=True)
        self._idle, self._busy, self._starting = [], {}, {}
