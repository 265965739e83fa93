"""What a person sees of a training run: a bar on a terminal or a line now and then, and what it came to."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, NoReturn, TextIO

from tqdm import tqdm

from typecase.app.printing import shown_path
from typecase.app.train.training import Trained
from typecase.train.config import ModelShape, TrainPlan

if TYPE_CHECKING:
    from typecase.train.record import StepRow


class Watched:
    """Shows how far a run is: a bar where `stream` is a terminal, else a line every `log_every` steps."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._bar: tqdm[NoReturn] | None = None
        self._since, self._tokens = time.monotonic(), 0

    def begun(self, shape: ModelShape, plan: TrainPlan) -> None:
        """Before the first step."""
        self._plan, self._since = plan, time.monotonic()
        said = f"{shape.parameters:,} weights, {plan.steps:,} steps of {plan.batch:,} samples of up to {shape.context:,} tokens"
        print(said, file=self._stream, flush=True)

    def stepped(self, row: StepRow) -> None:
        """Behind every step."""
        self._tokens += row.tokens
        if self._stream.isatty():
            self._advance(row)
        elif (row.step + 1) % self._plan.log_every == 0 or row.step + 1 == self._plan.steps:
            print(f"step {row.step + 1:,}/{self._plan.steps:,}  {self._said(row)}", file=self._stream, flush=True)

    def ended(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _advance(self, row: StepRow) -> None:
        if self._bar is None:
            self._bar = tqdm(
                total=self._plan.steps, initial=row.step, desc="train", unit="step", file=self._stream, dynamic_ncols=True
            )
        self._bar.set_postfix_str(self._said(row), refresh=False)
        self._bar.update()

    def _said(self, row: StepRow) -> str:
        speed = self._tokens / max(1e-9, time.monotonic() - self._since)
        loss = "skipped" if row.loss is None else f"loss {row.loss:.3f}"
        looked = "" if row.validation is None else f", validation {row.validation:.3f}"
        return f"{loss}{looked}, {speed:,.0f} tokens/s"


def trained_lines(made: Trained) -> list[str]:
    """A finished run."""
    lines = [
        f"train -> {shown_path(made.path)}" + ("  (was there already)" if made.resumed_at == made.steps else ""),
        f"  {made.parameters:,} weights, {made.steps:,} steps, {made.tokens:,} tokens, {made.flops:.3g} FLOPs",
    ]
    if made.first is not None and made.last is not None:
        lines.append(f"  loss {made.first:.3f} -> {made.last:.3f} nats a token (perplexity {math.exp(made.last):,.1f})")
    if made.validation is not None:
        lines.append(f"  validation {made.validation:.3f} nats a token (perplexity {math.exp(made.validation):,.1f})")
    if 0 < made.resumed_at < made.steps:
        lines.append(f"  taken up behind step {made.resumed_at:,}")
    if made.export is not None:
        lines.append(f"  {shown_path(made.export)}: a Hugging Face model" + (f" ({made.note})" if made.note else ""))
    return lines
