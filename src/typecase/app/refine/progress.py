"""The progress of a refining run: documents, throughput and keep rates while a part is under way.

    refine work: 1,204/31,000 documents  8.2 docs/s  kept 71.0% of documents, 66.3% of bytes  about 3,600 s left

A slow refiner may take hours for one part, so a bar of parts says nothing. Each part says in the scratch folder how far it is
(recipe.refine_batches); a thread looks there now and then. Clocks serve the display alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TextIO

from tqdm import tqdm

from typecase.recipe.progress import Phase, reporter_for
from typecase.recipe.refine_batches import Pulse, pulse_of

_TERMINAL_SECONDS = 1.0
_LINE_SECONDS = 10.0


class LiveReporter:
    """Tells `stream` how the run into `out` goes; beats other than the work are told as parts are."""

    def __init__(self, stream: TextIO, out: Path, fingerprint: str, documents: int, *, every: float | None = None) -> None:
        self._stream, self._documents = stream, documents
        self._scratch = out.parent / f".{out.name}.{fingerprint[:12]}.partial" / ".scratch"
        self._every = every if every is not None else _TERMINAL_SECONDS if stream.isatty() else _LINE_SECONDS

    @contextmanager
    def phase(self, name: str, *, total: int, done: int) -> Iterator[Phase]:
        if not name.endswith("work"):
            with reporter_for(self._stream).phase(name, total=total, done=done) as phase:
                yield phase
            return
        with self._watching(name):
            yield _Unheard()

    @contextmanager
    def _watching(self, name: str) -> Iterator[None]:
        stop = threading.Event()
        begun, before = time.monotonic(), pulse_of(self._scratch)
        terminal = self._stream.isatty()
        bar: tqdm[NoReturn] = tqdm(
            total=self._documents, desc=f"{name:<16}", file=self._stream, unit="doc", dynamic_ncols=True, disable=not terminal
        )

        def say() -> None:
            pulse = pulse_of(self._scratch)
            if terminal:
                bar.set_postfix_str(kept(pulse), refresh=False)
                bar.update(pulse.documents - bar.n)
            else:
                line = progress_line(name, pulse, before.documents, self._documents, time.monotonic() - begun)
                print(line, file=self._stream, flush=True)

        def watch() -> None:
            while not stop.wait(self._every):
                say()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
            say()
            bar.close()


class _Unheard:
    def advance(self, documents: int, size_bytes: int) -> None:
        """Parts say more of themselves in the scratch folder."""


def progress_line(name: str, pulse: Pulse, before: int, documents: int, seconds: float) -> str:
    """One line; `before` documents were settled by an earlier run and are no part of the throughput."""
    fresh = max(0, pulse.documents - before)
    speed = fresh / max(seconds, 1e-9)
    left = documents - pulse.documents
    ahead = f"  about {left / speed:,.0f} s left" if speed and left > 0 else ""
    kept_so_far = f"  {kept(pulse)}" if pulse.documents else ""
    return f"{name}: {pulse.documents:,}/{documents:,} documents  {speed:,.1f} docs/s{kept_so_far}{ahead}"


def kept(pulse: Pulse) -> str:
    """Keep rates so far."""
    documents = 100 * pulse.stay / max(1, pulse.documents)
    return f"kept {documents:.1f}% of documents, {100 * pulse.bytes_after / max(1, pulse.bytes_before):.1f}% of bytes"
