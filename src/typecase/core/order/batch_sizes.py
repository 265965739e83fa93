"""Batch sizes: how many samples a step takes, as a law of the samples consumed before it.

    constant    ────────────────────────   global_batch_size
    ramp-up     ──┐__┌──┐__┌── GBS         [start, increment, samples]: even stairs over the first `samples` samples
    step        ─────┐_____________        "0:768 250B:1536": tokens at which the next size begins

    size_at(consumed) -> (the size, the consumed count at which it may next change)

Between two changes the size stands still, so a run is a handful of plateaus whatever its length, and every question about a
step is arithmetic on its plateau.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from typecase.errors import BadQuery


class BatchSizes(Protocol):
    """The law from samples consumed to the global batch size of the next step."""

    def size_at(self, consumed: int) -> tuple[int, int | None]:
        """The size after `consumed` samples, and the least larger count at which it may differ; None: it stays."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The same size for the whole run."""

    global_batch_size: int

    def __post_init__(self) -> None:
        _positive("global_batch_size", self.global_batch_size)

    def size_at(self, consumed: int) -> tuple[int, int | None]:
        return self.global_batch_size, None


@dataclass(frozen=True, slots=True, kw_only=True)
class RampUp:
    """Megatron's `--rampup-batch-size start increment samples`, in its own floating point."""

    start: int
    increment: int
    samples: int
    global_batch_size: int

    def __post_init__(self) -> None:
        _positive("the start of rampup_batch_size", self.start)
        _positive("the increment of rampup_batch_size", self.increment)
        _positive("the samples of rampup_batch_size", self.samples)
        _positive("global_batch_size", self.global_batch_size)
        climb = self.global_batch_size - self.start
        if climb <= 0 or climb % self.increment:
            raise BadQuery(
                f"rampup_batch_size climbs from {self.start} by {self.increment} and so never lands on global_batch_size"
                f" {self.global_batch_size}: choose a start below it and an increment that divides the difference {climb}"
            )

    def _stair(self, consumed: int) -> int:
        # Megatron divides twice, in doubles; one exact division would differ where a stair falls between two samples.
        per_stair = self.samples / ((self.global_batch_size - self.start) // self.increment)
        return int(consumed / per_stair)

    def size_at(self, consumed: int) -> tuple[int, int | None]:
        if consumed > self.samples:
            return self.global_batch_size, None
        stair = self._stair(consumed)
        size = self.start + stair * self.increment
        return size, self._next_stair(consumed, stair)

    def _next_stair(self, consumed: int, stair: int) -> int:
        """The least count above `consumed` on a higher stair; the stairs rise, so bisection finds it."""
        low, high = consumed, self.samples + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._stair(middle) > stair:
                high = middle
            else:
                low = middle
        return high


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Sizes by threshold: `sizes[k]` holds from `thresholds[k]` consumed samples on."""

    thresholds: tuple[int, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.thresholds or self.thresholds[0] != 0:
            raise BadQuery(f"a step schedule must begin at 0, and this one has the thresholds {list(self.thresholds)}")
        if any(a >= b for a, b in zip(self.thresholds, self.thresholds[1:])):
            raise BadQuery(
                f"the thresholds of a step schedule must rise, and these, in samples, do not: {list(self.thresholds)}"
            )
        for size in self.sizes:
            _positive("a size of step_batch_size_schedule", size)

    @classmethod
    def parse(cls, schedule: str, seq_length: int) -> Steps:
        """Of Megatron's text: entries `tokens:size`, parted by spaces or commas, with K, M, B or T after numbers."""
        _positive("seq_length", seq_length)
        entries = [entry for entry in re.split(r"[\s,]+", schedule) if entry]
        pairs = sorted((_number(a) // seq_length, _number(b)) for a, b in map(_entry, entries))
        return cls(thresholds=tuple(t for t, _ in pairs), sizes=tuple(s for _, s in pairs))

    def size_at(self, consumed: int) -> tuple[int, int | None]:
        later = [t for t in self.thresholds if t > consumed]
        return self.sizes[len(self.thresholds) - len(later) - 1], later[0] if later else None


_FACTORS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def _entry(text: str) -> tuple[str, str]:
    threshold, colon, size = text.partition(":")
    if not colon or not threshold or not size:
        raise BadQuery(f"step_batch_size_schedule has the entry {text!r}: write tokens:size, such as 250B:1536")
    return threshold, size


def _number(text: str) -> int:
    factor = text[-1].upper() if text[-1].isalpha() else ""
    try:
        # In doubles, as Megatron does it: 0.3M is what the product rounds to.
        return int(float(text[: len(text) - len(factor)]) * _FACTORS[factor])
    except (KeyError, ValueError, OverflowError):
        raise BadQuery(
            f"step_batch_size_schedule has the number {text!r}: write digits and at most one of K, M, B, T"
        ) from None


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise BadQuery(f"{name} is {value}: it must be at least 1")
