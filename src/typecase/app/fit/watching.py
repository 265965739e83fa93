"""Watching: a training is told of as it goes: a bar on a terminal, a plain line a scoring where it is piped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TextIO

from tqdm import tqdm

if TYPE_CHECKING:
    from typecase.train.tune import Scored


class Told:
    """Tells of a training: a bar on a terminal, else a line a scoring."""

    def __init__(self, what: str, stream: TextIO) -> None:
        self._what, self._stream = what, stream
        self._bar: tqdm[NoReturn] | None = None

    def stepped(self, step: int, steps: int, loss: float) -> None:
        """See tune.Watch."""
        if not self._stream.isatty():
            return
        if self._bar is None:
            self._bar = tqdm(total=steps, initial=step - 1, desc=self._what, file=self._stream, unit="step", dynamic_ncols=True)
        self._bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
        self._bar.update()

    def scored(self, scored: Scored, best: bool) -> None:
        """See tune.Watch."""
        learnt = "" if scored.trained is None else f"loss {scored.trained:.4f}, "
        line = f"step {scored.step:,}: {learnt}held out {scored.held_out:.4f}{', the best so far' if best else ''}"
        if self._bar is not None:
            self._bar.write(line, file=self._stream)
        else:
            print(line, file=self._stream, flush=True)

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def watching(what: str, wanted: bool) -> Iterator[Told | None]:
    """Tells of a training called `what`, where that is wanted."""
    told = Told(what, sys.stderr) if wanted else None
    try:
        yield told
    finally:
        if told is not None:
            told.close()
