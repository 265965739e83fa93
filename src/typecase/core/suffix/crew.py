"""Crew: plain threads that take tasks from one list.

The kernels of this room give up the interpreter's lock, so threads run them side by side. A worker that is done takes
the next task, so tasks that are listed from the longest to the shortest leave no thread waiting for long.

Results come in the order of the tasks, and no task may depend on which thread ran it: more threads change the time only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Task = TypeVar("Task")
Result = TypeVar("Result")

Unsigned = npt.NDArray[np.unsignedinteger]
"""Codes, positions or ranks: uint16, uint32 or uint64, as small as the text allows."""


def share(threads: int, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """`work` of every task, by `threads` threads."""
    if threads <= 1 or len(tasks) <= 1:
        return [work(task) for task in tasks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, tasks))


def spans(total: int, parts: int, smallest: int = 1 << 16) -> list[tuple[int, int]]:
    """[0, total) cut into at most `parts` equal spans of at least `smallest`; at least one span."""
    parts = max(1, min(parts, total // smallest))
    cuts = [total * k // parts for k in range(parts + 1)]
    return list(pairwise(cuts))


class Scratch(threading.local):
    """Arrays that a thread keeps between tasks; `take` gives the same ones again while they are large enough."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[np.generic]] = {}

    def take(self, name: str, size: int, dtype: npt.DTypeLike) -> Any:
        """An array of at least `size`, with whatever it held last."""
        held = self._held.get(name)
        if held is None or len(held) < size or held.dtype != dtype:
            self._held.pop(name, None)
            held = self._held[name] = np.empty(size, dtype)
        return held
