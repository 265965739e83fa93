"""Stopping: a run that is asked to end does so behind a whole step, saves, and says how it is taken up.

Ctrl-C, or SIGTERM of a scheduler  ->  the step is ended, a checkpoint written, Stopped raised
Ctrl-C once more                   ->  at once
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A run was asked to stop and is saved: in folder `path`, behind `step` steps."""

    def __init__(self, path: Path, step: int) -> None:
        super().__init__(f"stopped behind step {step}, saved in {path}: run the same command with --resume to go on")
        self.path, self.step = path, step


class Wish:
    """Whether the run was asked to stop."""

    def __init__(self) -> None:
        self.told = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.told:
            raise KeyboardInterrupt
        self.told = True


@contextmanager
def listening() -> Iterator[Wish]:
    """Hears the signals while the block runs; only the main thread of a process can."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before: dict[int, Any] = {number: signal.signal(number, wish) for number in _SIGNALS}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
