"""A Ray cluster of several nodes on this machine, for tests; it leaves no process behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

STORE_BYTES = 80 << 20


@contextmanager
def cluster_of(nodes: int, *, cores: int = 1, gpus: int = 0) -> Iterator[Any]:
    """`nodes` nodes of one core each; the process that tests belongs to the first one. Ray counts cores and GPUs that it is
    told of; none need be there."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()
    sizes = {"num_cpus": cores, "num_gpus": gpus, "object_store_memory": STORE_BYTES}
    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
    head = {**sizes, "include_dashboard": False, "include_log_monitor": False, "_system_config": quick}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**sizes)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def workers_at_work(node: Any = None) -> list[psutil.Process]:
    """The Ray workers of a node, or of every cluster of this process, that are in the middle of a task."""
    above = psutil.Process() if node is None else psutil.Process(node.all_processes["raylet"][0].process.pid)
    found = []
    for process in above.children(recursive=True):
        try:
            if " ".join(process.cmdline()).startswith(("ray::_run", "ray::_Holder.run")):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def kill_one() -> bool:
    """SIGKILL to a worker in the middle of a task, if there is one."""
    for process in workers_at_work():
        os.kill(process.pid, signal.SIGKILL)
        return True
    return False


def remove_one_at_work(cluster: Any, *, seconds: float = 30.0) -> None:
    """Removes a node, not this process's own, while it has a task under way."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for node in list(cluster.worker_nodes):
            if workers := workers_at_work(node):
                cluster.remove_node(node, allow_graceful=False)
                _, alive = psutil.wait_procs(workers, timeout=seconds)
                assert not alive, "workers outlive their node"
                return
        time.sleep(0.02)
    raise TimeoutError("no node has had a task under way")
