"""Overlay: same-length edits laid over sequences that stay where they are, so that a read costs what it cost before.

    layer 2           . . . . 7 7 . . . .           later edits, few
    layer 1           . 3 . . 9 9 9 . . .           earlier edits, many
    the set           5 5 5 5 5 5 5 5 5 5           untouched
    what is read      5 3 5 5 7 7 9 5 5 5

A layer is sorted runs of tokens that no other of its runs touches; a span that is read finds its runs by bisection. A new
group is a layer of its own until it is half as large as the one beneath, and then the two become one, so there are few.
Tokens that are as they were are dropped: an edit and its undoing leave nothing.

Price: 16 bytes a run and two ids a token; a span that is read, some 0.1 us a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.edit.edit import Ints, Tokens
from typecase.core.edit.spans import Spans

_SHIFT = 32


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """Runs, rising: run k is tokens `new[offsets[k]:offsets[k + 1]]` over `old`, from `places[k]` = sequence << 32 | token."""

    places: Ints
    offsets: Ints
    old: Tokens
    new: Tokens

    def __len__(self) -> int:
        return len(self.places)

    @classmethod
    def of(cls, spans: Spans) -> Overlay:
        """The overlay of same-length `spans`."""
        counts = spans.old_counts
        at = np.repeat((spans.sequences << _SHIFT | spans.starts) - spans.old_offsets[:-1], counts)
        return runs_of(at + np.arange(len(at)), spans.old, spans.new)

    @classmethod
    def merged(cls, earlier: Overlay, later: Overlay) -> Overlay:
        """Both as one: what stood there before `earlier`, what stands there after `later`."""
        at = np.concatenate((earlier.token_places(), later.token_places()))
        order = np.argsort(at, kind="stable")
        at = at[order]
        step = at[1:] != at[:-1]
        first, last = np.concatenate(([True], step)), np.concatenate((step, [True]))
        old = np.concatenate((earlier.old, later.old))[order]
        new = np.concatenate((earlier.new, later.new))[order]
        return runs_of(at[first], old[first], new[last]) if len(at) else earlier

    def token_places(self) -> Ints:
        counts = np.diff(self.offsets)
        return np.repeat(self.places - self.offsets[:-1], counts) + np.arange(len(self.new))

    @property
    def sequences(self) -> Ints:
        return self.places >> _SHIFT

    @property
    def starts(self) -> Ints:
        return self.places & ((1 << _SHIFT) - 1)

    @property
    def counts(self) -> Ints:
        return np.diff(self.offsets)

    def spans(self) -> Spans:
        return Spans(self.sequences, self.starts, self.old, self.offsets, self.new, self.offsets)

    def patch(self, out: Tokens, offsets: Ints, sequences: Ints, starts: Ints) -> None:
        """Writes what this layer holds of the spans `out[offsets[k]:offsets[k + 1]]`, read from token `starts[k]`."""
        if len(self.places):
            _patch(out, offsets, sequences << _SHIFT | starts, self.places, self.offsets, self.new)


def runs_of(at: Ints, old: Tokens, new: Tokens) -> Overlay:
    """The overlay of single tokens at rising places `at`; those that stay as they are left out."""
    changed = old != new
    if not changed.all():
        at, old, new = at[changed], old[changed], new[changed]
    breaks = np.flatnonzero(np.diff(at) != 1) + 1
    begins = np.concatenate((np.zeros(1, np.int64), breaks)) if len(at) else np.zeros(0, np.int64)
    return Overlay(at[begins], np.concatenate((begins, [len(at)])), old, new)


@njit(cache=True, nogil=True)
def _patch(out: Any, offsets: Any, firsts: Any, places: Any, run_offsets: Any, new: Any) -> None:
    for k in range(len(firsts)):
        low = firsts[k]
        high = low + offsets[k + 1] - offsets[k]
        j, above = 0, len(places)  # the first run that begins after `low`
        while j < above:
            middle = (j + above) >> 1
            if places[middle] <= low:
                j = middle + 1
            else:
                above = middle
        if j > 0:
            j -= 1
        while j < len(places) and places[j] < high:
            count = run_offsets[j + 1] - run_offsets[j]
            begin, end = max(places[j], low), min(places[j] + count, high)
            for i in range(end - begin):
                out[offsets[k] + begin - low + i] = new[run_offsets[j] + begin - places[j] + i]
            j += 1


def push(layers: list[Overlay], layer: Overlay) -> None:
    """Lays `layer` on top of `layers`, keeping their number logarithmic."""
    while layers and layers[-1].new.size < 2 * layer.new.size:
        layer = Overlay.merged(layers.pop(), layer)
    if len(layer) or not layers:
        layers.append(layer)


def flattened(layers: list[Overlay], dtype: npt.DTypeLike) -> Overlay:
    """All `layers` as one."""
    whole = Overlay.of(Spans.none(dtype))
    for layer in layers:
        whole = Overlay.merged(whole, layer)
    return whole
