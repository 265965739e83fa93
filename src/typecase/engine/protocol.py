"""An engine is one ordered map.

    engine.map(fn, tasks)  ->  fn(tasks[0]), fn(tasks[1]), …      in task order, whoever finishes first

An engine decides where work runs and nothing else: it knows no text, keeps no state between calls, never retries and
never reorders. Retries, progress and resuming live in `recipe.run`, so that every engine has them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
R = TypeVar("R")


@runtime_checkable
class Engine(Protocol):
    """Where work runs."""

    @property
    def num_workers(self) -> int:
        """Tasks that may run at once; at least 1."""

    @property
    def here(self) -> bool:
        """Whether `fn` runs in the calling process, so that what it loads is loaded here."""

    def map(self, fn: Callable[[T], R], tasks: Sequence[T], *, models: bool = False) -> Iterator[R]:
        """Yields `fn(task)` for every task, in order.

        With `models`, `fn` keeps something heavy in its process: an engine gives it workers that live as long as the map,
        so that each loads it once, and whatever share of a GPU it was told to.

        An error raised by `fn` is raised here, at the turn of its task; WorkerLost when a worker died. After a WorkerLost
        the iterator may go on with the next task, where the other workers live, or end.
        """
