"""Distributed: the processes that train together, as torchrun starts them; one alone where it does not.

    torchrun --nproc-per-node 4 --no-python typecase train RUN …      RANK, WORLD_SIZE, LOCAL_RANK … in the environment

Every process reads its part of a step; gradients are summed by DistributedDataParallel. Process 0 writes.
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from typecase.errors import BadQuery


@dataclass(frozen=True, slots=True)
class World:
    """This process among those that train together, and its device."""

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def total(self, *numbers: float) -> list[float]:
        """The sums of `numbers` over all processes, float64."""
        if self.size == 1:
            return list(numbers)
        held = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(held)
        return [float(number) for number in held.tolist()]

    def gathered(self, value: Any) -> list[Any]:
        """The values of all processes, by rank, in process 0; elsewhere nothing."""
        if self.size == 1:
            return [value]
        found: list[Any] | None = [None] * self.size if self.leads else None
        dist.gather_object(value, found)
        return found or []

    def any(self, here: bool) -> bool:
        """Whether it holds in any process."""
        return self.total(float(here))[0] > 0

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            dist.barrier()


def join(device: str = "auto") -> World:
    """The world of this process: joins the others where torchrun started several and nobody has joined them yet.

    What was joined is left when the process ends: the meeting place of torchrun cannot be entered twice.
    """
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    place = _device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size(), place)
    if size > 1:
        dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)
    return World(rank, size, place)


def _device(name: str, local_rank: int) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise BadQuery(f"there is no device {name!r}: write auto, cpu, cuda or cuda:0") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise BadQuery("this machine has no GPU that torch can use: write cpu or auto")
        device = torch.device("cuda", device.index if device.index is not None else local_rank)
        torch.cuda.set_device(device)
    return device
