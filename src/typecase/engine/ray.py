"""Ray: a cluster of machines, or this one by Ray.

    Ray()                                  that of RAY_ADDRESS, else this machine's cores, started for this process
    Ray("auto")                            the cluster that runs on this machine (ray start)
    Ray("10.0.0.1:6379", gpus=0.25)        the cluster of that head; four model workers on every GPU

    map(fn, tasks)               a Ray task for each; Ray places it on any node that has `cpus` free
    map(fn, tasks, models=True)  a pool of actors with `cpus` and `gpus` each, for the length of the map: a model is loaded
                                 once an actor

Laws: answers come in task order. At most WINDOW tasks a worker are under way or wait for their turn, so that the object store
holds at most that many answers; stages write files and answer with a record of a few hundred bytes. Ray retries nothing: a
lost worker or node costs the tasks that it had, each is WorkerLost at its turn, and the map goes on. It ends when more
workers are lost in a row than it has, or when no node is left that could work.

Every node has to see the working folder under the same name and have the same typecase; environment variables are those that a
node was started with. Errors: NeedsExtra without Ray; FixInput for an address that does not answer, or for a share that no
node has. Price: 2 to 5 s to start a worker, 1 ms a task; see docs/cluster.md.
"""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, TypeVar

from typecase.engine.local import available_cores
from typecase.errors import FixInput, NeedsExtra

T = TypeVar("T")
R = TypeVar("R")

AUTO = "auto"
OWN_STORE_BYTES = 128 << 20
"""Memory of the object store of a cluster that is started here: the window of records needs a few MB."""
_KNOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Ray:
    """`workers` at once, None for as many as the cluster has room for, each with `cpus` cores.

    `address`  None: that of RAY_ADDRESS, else a cluster of this machine, started for this process; "auto": the one that
               runs here; or "host:port" of a cluster's head
    `gpus`     share of a GPU that each worker of a stage with a model holds; 0 works without
    """

    address: str | None = None
    workers: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise FixInput(f"Ray needs 1 worker or more, got {self.workers}")
        if self.cpus <= 0 or self.gpus < 0:
            raise FixInput(f"a Ray worker has more than 0 cores and 0 GPUs or more, got cpus={self.cpus:g}, gpus={self.gpus:g}")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise FixInput(f"a Ray worker has a share of one GPU or whole ones, got gpus={self.gpus:g}")

    @property
    def num_workers(self) -> int:
        """Workers that the cluster has room for now. Joins it, or starts it."""
        return self._workers(joined(self), {"CPU": self.cpus})

    @property
    def here(self) -> bool:
        return False

    def map(self, fn: Callable[[T], R], tasks: Sequence[T], *, models: bool = False) -> Iterator[R]:
        """Yields `fn(task)` in task order; see `Engine.map`."""
        if not tasks:
            return iter(())
        from typecase.engine.ray_answers import Answers

        ray = joined(self)
        share = {"CPU": self.cpus, "GPU": self.gpus} if models and self.gpus else {"CPU": self.cpus}
        workers = min(len(tasks), self._workers(ray, share))
        return Answers(ray, fn, tasks, workers=workers, share=share, actors=models)

    def _workers(self, ray: Any, share: Mapping[str, float]) -> int:
        room = room_for(ray, share)
        if not room:
            raise FixInput(
                f"no node of the Ray cluster has {_shown(share)}; they have {nodes_shown(ray)}: ask for a smaller share, or"
                " add a node"
            )
        return min(room, self.workers) if self.workers is not None else room


def room_for(ray: Any, share: Mapping[str, float]) -> int:
    """How many workers with `share` the living nodes hold when they do nothing else."""
    return sum(_room(node, share) for node in ray.nodes() if node["Alive"])


def _room(node: Mapping[str, Any], share: Mapping[str, float]) -> int:
    # Shares are exact to 1/10,000 in Ray; so are they here.
    return min(round(float(node["Resources"].get(name, 0)) * 10_000) // round(each * 10_000) for name, each in share.items())


def _shown(share: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:g} {name}" for name, amount in share.items())


def nodes_shown(ray: Any) -> str:
    """The cores and GPUs of the living nodes, for a message."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    each = sorted({_shown({name: node.get(name, 0) for name in ("CPU", "GPU")}) for node in nodes})
    return f"{' or '.join(each[:4])} each" if each else "nothing: no node lives"


_joined: list[str | None] = []
"""The address that this process joined."""


def joined(engine: Ray) -> Any:
    """The module `ray`, connected to the cluster of `engine`; a connection of the caller's own is used as it is.

    Raises NeedsExtra without Ray, FixInput when the cluster does not answer or this process belongs to another.
    """
    # Read by Ray when it is imported: no reports home, and no words about answers that nobody waits for after Ctrl-C.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise NeedsExtra("the Ray engine", "ray") from None
    if ray.is_initialized():
        if _joined and engine.address not in (AUTO, _joined[0]):
            raise FixInput(
                f"this process works on the Ray cluster {_joined[0] or 'that it started'}; use another process for"
                f" {engine.address or 'one of its own'}"
            )
        return ray
    _joined[:] = []
    # Ray prints deaths of workers to standard output, where answers belong; a WorkerLost says the same.
    importlib.import_module("ray._private.worker")._worker_logs_enabled = False  # type: ignore[attr-defined]
    _join(ray, engine)
    _joined[:] = [engine.address]
    return ray


def _join(ray: Any, engine: Ray) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    address = engine.address or os.environ.get("RAY_ADDRESS")
    if not address:
        cores = max(ceil((engine.workers or 0) * engine.cpus), available_cores())
        ray.init("local", num_cpus=cores, object_store_memory=OWN_STORE_BYTES, include_dashboard=False, **quiet)
        return
    try:
        if address != AUTO and "://" not in address:
            _knock(address)
        ray.init(address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FixInput(
            f"no Ray cluster answers at {address!r} ({reason}): start one with `ray start --head`, and name its head as"
            " host:6379, or leave the address out to work on this machine"
        ) from None


def _knock(address: str) -> None:
    """Raises OSError or ValueError when nobody listens at `address`: Ray itself would wait for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError("an address is host:port")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()
