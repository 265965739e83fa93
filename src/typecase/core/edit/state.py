"""State: a token set with groups of edits applied, as three laws of rising price.

    same length       layers over the sequences of the set        a read costs a bisection more
    other length      the sequence in memory, as it reads now     its tokens are held
    documents         the outline: who is there, in which order   8 bytes a document

Reading the set is the caller's: `read(sequence)` gives a whole sequence as the set holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from typecase.core.edit.edit import Tokens
from typecase.core.edit.group import Group, Insert
from typecase.core.edit.outline import Outline
from typecase.core.edit.overlay import Overlay, flattened, push
from typecase.core.edit.spans import Spans


@dataclass(slots=True)
class State:
    """What edits have made of a set; grows by `apply`. Sequences in `held` are read from there alone."""

    dtype: np.dtype[Any]
    outline: Outline
    read: Callable[[int], Tokens]
    layers: list[Overlay] = field(default_factory=list)
    held: dict[int, Tokens] = field(default_factory=dict)

    def apply(self, group: Group) -> None:
        """Takes in `group`, whose `old` tokens the caller has checked."""
        spans = group.spans
        if self.held or not spans.same_length:
            moved = np.union1d(
                spans.sequences[spans.old_counts != spans.new_counts],
                np.intersect1d(spans.sequences, np.fromiter(self.held, np.int64, len(self.held))),
            )
            apart = np.isin(spans.sequences, moved)
            for key in moved.tolist():
                first, last = np.searchsorted(spans.sequences, (key, key + 1))
                self.held[key] = spans.take(np.arange(first, last)).spliced(self.sequence(key))
            spans = spans.take(~apart)
        if len(spans):
            push(self.layers, Overlay.of(spans))
        for change in group.documents:
            self.outline.change(change)
            if isinstance(change, Insert):
                for k, tokens in enumerate(change.sequences):
                    self.held[change.first_sequence + k] = tokens.astype(self.dtype)

    def sequence(self, key: int) -> Tokens:
        """All tokens of a sequence, as they are now; the sequence need not be seen."""
        if key in self.held:
            return self.held[key]
        tokens = self.read(key)
        place, zero = np.array([0, len(tokens)], np.int64), np.zeros(1, np.int64)
        for layer in self.layers:
            layer.patch(tokens, place, np.array([key], np.int64), zero)
        return tokens

    def copy(self) -> State:
        """The state as it is now, whatever this one takes in later."""
        outline = Outline(
            self.outline.num_documents,
            dict(self.outline.inserted),
            {anchor: list(keys) for anchor, keys in self.outline.before.items()},
            set(self.outline.removed),
        )
        return State(self.dtype, outline, self.read, list(self.layers), dict(self.held))

    @property
    def same_length(self) -> bool:
        """Whether only same-length edits were made, so that nothing is held."""
        return not self.held and self.outline.untouched

    def overlay(self) -> Overlay | None:
        """The whole change against the set as one layer; None where lengths or documents differ from the set's."""
        if not self.outline.as_found:
            return None
        whole = flattened(self.layers, self.dtype)
        brought = self.brought()
        for key, tokens in self.held.items():
            if key in brought:
                continue
            before = self.read(key)
            if len(before) != len(tokens):
                return None
            whole = _without(whole, key)
            ends = np.array([0, len(tokens)], np.int64)
            one = Spans(np.array([key], np.int64), np.zeros(1, np.int64), before, ends, tokens, ends)
            whole = Overlay.merged(whole, Overlay.of(one))
        return whole

    def brought(self) -> set[int]:
        """Keys of the sequences that documents brought with them."""
        inserted = self.outline.inserted.values()
        return {c.first_sequence + k for c in inserted for k in range(c.num_sequences)}


def _without(layer: Overlay, key: int) -> Overlay:
    """`layer` but for what it holds of sequence `key`."""
    spans = layer.spans()
    return Overlay.of(spans.take(spans.sequences != key))
