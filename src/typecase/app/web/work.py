"""Work: an answer is built in a thread, so many at once, and within so many seconds.

A thread cannot be stopped, so one that takes too long goes on and its answer is thrown away; until it ends it counts among
those at work, and those that find no place are told to try again.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from typecase.app.web.desk import Limits
from typecase.errors import TryAgain, TypecaseError

T = TypeVar("T")


def unexpected(error: BaseException) -> TypecaseError:
    """An error that no one raised on purpose, as one of the tree; its traceback goes to the log, not to the reader."""
    logging.getLogger("typecase.serve").error("an answer failed", exc_info=error)
    return TypecaseError(f"{type(error).__name__}: {error}; this is a fault of typecase, please report it")


class Workers:
    """Threads that build answers."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._threads = ThreadPoolExecutor(limits.at_once, thread_name_prefix="answer")
        self._open = 0

    async def run(self, fn: Callable[..., T], *args: Any, seconds: float | None = None) -> T:
        """What `fn` gives. Raises TryAgain when too many wait, or when it takes too long; else what `fn` raises."""
        if self._open >= self.limits.at_once + self.limits.waiting:
            raise TryAgain(f"{self._open} requests are being answered or wait: try again in a moment")
        self._open += 1
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        future = loop.run_in_executor(self._threads, functools.partial(context.run, fn, *args))
        future.add_done_callback(self._ended)
        limit = seconds if seconds is not None else self.limits.seconds
        done, _ = await asyncio.wait({future}, timeout=limit)
        if not done:
            future.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise TryAgain(f"no answer within {limit:g} seconds: ask for less, or try again when the files are in memory")
        try:
            return future.result()
        except TypecaseError:
            raise
        except Exception as error:  # noqa: BLE001  a reader gets an error of the tree, the log the rest
            raise unexpected(error) from None

    def _ended(self, _: object) -> None:
        self._open -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
