"""Progress: a bar on a terminal, a plain line where output is piped, nothing where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NoReturn, Protocol, TextIO

from tqdm import tqdm

_LINE_SECONDS = 10.0


class Phase(Protocol):
    """One beat of a stage under way."""

    def advance(self, documents: int, size_bytes: int) -> None:
        """One more task is done; it held so many documents and bytes of text."""


class Reporter(Protocol):
    """Who is told how far the work is."""

    def phase(self, name: str, *, total: int, done: int) -> AbstractContextManager[Phase]:
        """A beat of `total` tasks, `done` of which were finished by an earlier run."""


@dataclass(slots=True)
class _Rate:
    """Documents and bytes since the phase began; clocks serve the display alone."""

    started: float = field(default_factory=time.monotonic)
    documents: int = 0
    size_bytes: int = 0

    def add(self, documents: int, size_bytes: int) -> str:
        self.documents += documents
        self.size_bytes += size_bytes
        seconds = max(time.monotonic() - self.started, 1e-9)
        if not self.documents:
            return ""
        return f"{self.documents / seconds:,.0f} docs/s, {self.size_bytes / seconds / 1e6:,.1f} MB/s"


class Quiet:
    """Tells nobody."""

    @contextmanager
    def phase(self, name: str, *, total: int, done: int) -> Iterator[Phase]:
        yield _Silent()


class _Silent:
    def advance(self, documents: int, size_bytes: int) -> None:
        pass


class Lines:
    """Plain lines: one when a phase ends, and one every ten seconds in between."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def phase(self, name: str, *, total: int, done: int) -> Iterator[Phase]:
        phase = _LinePhase(self._stream, name, total, done)
        yield phase
        phase.say()


class _LinePhase:
    def __init__(self, stream: TextIO, name: str, total: int, done: int) -> None:
        self._stream, self._name, self._total, self._done = stream, name, total, done
        self._rate, self._speed, self._said = _Rate(), "", time.monotonic()
        self._fresh = 0

    def advance(self, documents: int, size_bytes: int) -> None:
        self._done += 1
        self._fresh += 1
        self._speed = self._rate.add(documents, size_bytes)
        if time.monotonic() - self._said > _LINE_SECONDS and self._done < self._total:
            self.say()

    def say(self) -> None:
        self._said = time.monotonic()
        left = ""
        if self._fresh and self._done < self._total:
            seconds = (self._said - self._rate.started) / self._fresh * (self._total - self._done)
            left = f", about {seconds:,.0f} s left"
        speed = f"  {self._speed}" if self._speed else ""
        print(f"{self._name}: {self._done}/{self._total}{speed}{left}", file=self._stream, flush=True)


class Bars:
    """Bars with counts, rates and time left."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def phase(self, name: str, *, total: int, done: int) -> Iterator[Phase]:
        with tqdm(total=total, initial=done, desc=f"{name:<16}", file=self._stream, unit="part", dynamic_ncols=True) as bar:
            yield _BarPhase(bar)


class _BarPhase:
    def __init__(self, bar: tqdm[NoReturn]) -> None:
        self._bar, self._rate = bar, _Rate()

    def advance(self, documents: int, size_bytes: int) -> None:
        self._bar.set_postfix_str(self._rate.add(documents, size_bytes), refresh=False)
        self._bar.update()


def reporter_for(stream: TextIO | None = None) -> Reporter:
    """Bars when `stream` (standard error) is a terminal, else lines."""
    stream = stream if stream is not None else sys.stderr
    return Bars(stream) if stream.isatty() else Lines(stream)
