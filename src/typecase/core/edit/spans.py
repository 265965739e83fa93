"""Spans: many replacements as columns, in the order of their places; the law of taking back.

    edits     [40, 43) -> 7         [60, 60) -> 1 2         of one sequence, all said of the state before
    after     7 stands at [40, 41)  1 2 stand at [58, 60)   each moved by what those before it added or took
    inverse   [40, 41) -> 5 9 9     [58, 60) -> nothing

Price: 32 bytes and two runs of tokens an edit; checking and inverting are a sort and a few passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import Ints, Replacement, Tokens, concatenated, fit
from typecase.errors import BadQuery

MAX_TOKENS = 1 << 31


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Replacements of one group, rising by sequence and start, none overlapping another.

    Edit k replaces `old[old_offsets[k]:old_offsets[k + 1]]`, from token `starts[k]` of `sequences[k]`, by
    `new[new_offsets[k]:new_offsets[k + 1]]`.
    """

    sequences: Ints
    starts: Ints
    old: Tokens
    old_offsets: Ints
    new: Tokens
    new_offsets: Ints

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def old_counts(self) -> Ints:
        return np.diff(self.old_offsets)

    @property
    def new_counts(self) -> Ints:
        return np.diff(self.new_offsets)

    @property
    def same_length(self) -> bool:
        return np.array_equal(self.old_offsets, self.new_offsets)

    @classmethod
    def none(cls, dtype: npt.DTypeLike) -> Spans:
        nothing, zero = np.zeros(0, np.int64), np.zeros(1, np.int64)
        return cls(nothing, nothing, np.zeros(0, dtype), zero, np.zeros(0, dtype), zero)

    @classmethod
    def of(cls, edits: Sequence[Replacement], dtype: npt.DTypeLike) -> Spans:
        """The columns of `edits`, in any order. Raises BadQuery for overlaps and for ids that `dtype` cannot hold."""
        dtype = np.dtype(dtype)
        return cls.from_columns(
            np.array([e.sequence for e in edits], np.int64),
            np.array([e.start for e in edits], np.int64),
            concatenated([e.old for e in edits], dtype),
            np.array([len(e.old) for e in edits], np.int64),
            concatenated([e.new for e in edits], dtype),
            np.array([len(e.new) for e in edits], np.int64),
            dtype,
        )

    @classmethod
    def from_columns(
        cls, sequences: Ints, starts: Ints, old: Tokens, old_counts: Ints, new: Tokens, new_counts: Ints, dtype: npt.DTypeLike
    ) -> Spans:
        """Columns in any order, `old` and `new` end to end. Raises BadQuery as `of`."""
        old, new = fit(old, np.dtype(dtype), where="expected tokens"), fit(new, np.dtype(dtype), where="new tokens")
        if len(sequences) and (int(sequences.min()) < 0 or int(starts.min()) < 0):
            raise BadQuery("an edit needs a sequence and a token from 0 on; none counts from the end")
        order = np.lexsort((starts + old_counts, starts, sequences))
        spans = cls(sequences, starts, old, _offsets(old_counts), new, _offsets(new_counts))
        if not np.array_equal(order, np.arange(len(order))):
            spans = spans.take(order)
        clash = spans.overlapping()
        if clash.size:
            k = int(clash[0])
            raise BadQuery(
                f"two edits of one group overlap in sequence {spans.sequences[k]}: {spans.place(k)} and {spans.place(k + 1)}"
                f" ({len(clash)} such pairs); give them one after the other, or as one edit"
            )
        return spans

    def place(self, k: int) -> str:
        """Where edit k stands, for messages."""
        return f"[{self.starts[k]}, {self.starts[k] + self.old_counts[k]})"

    def overlapping(self) -> Ints:
        """Every k whose edit reaches into the next one."""
        stops = self.starts + self.old_counts
        return np.flatnonzero((self.sequences[1:] == self.sequences[:-1]) & (self.starts[1:] < stops[:-1]))

    def take(self, which: npt.NDArray[Any]) -> Spans:
        """The edits `which`, a mask or numbers, in that order."""
        rows = np.flatnonzero(which) if which.dtype == np.bool_ else which
        old, new = taken(self.old_offsets, rows), taken(self.new_offsets, rows)
        return Spans(
            self.sequences[rows],
            self.starts[rows],
            self.old[old],
            _offsets(self.old_counts[rows]),
            self.new[new],
            _offsets(self.new_counts[rows]),
        )

    def with_sequences(self, sequences: Ints) -> Spans:
        """The same edits under other sequence numbers, which keep their order apart."""
        return Spans(sequences, self.starts, self.old, self.old_offsets, self.new, self.new_offsets)

    @property
    def new_starts(self) -> Ints:
        """Where each edit's new tokens begin once the group is applied."""
        if self.same_length:
            return self.starts
        gained = self.new_counts - self.old_counts
        before = np.cumsum(gained) - gained
        fresh = np.concatenate(([True], self.sequences[1:] != self.sequences[:-1]))
        base = np.repeat(before[fresh], np.diff(np.flatnonzero(np.concatenate((fresh, [True])))))
        starts: Ints = self.starts + before - base
        return starts

    def inverse(self) -> Spans:
        """The edits that bring the state before the group back, said of the state after it."""
        return Spans(self.sequences, self.new_starts, self.new, self.new_offsets, self.old, self.old_offsets)

    def replacement(self, k: int) -> Replacement:
        return Replacement(
            int(self.sequences[k]),
            int(self.starts[k]),
            self.old[self.old_offsets[k] : self.old_offsets[k + 1]],
            self.new[self.new_offsets[k] : self.new_offsets[k + 1]],
        )

    def spliced(self, tokens: Tokens) -> Tokens:
        """One sequence's `tokens` with these edits, all of that sequence, applied. `old` is taken on trust."""
        parts, done = [], 0
        for k in range(len(self)):
            edit = self.replacement(k)
            parts += [tokens[done : edit.start], edit.new]
            done = edit.stop
        return np.concatenate([*parts, tokens[done:]])


def taken(offsets: Ints, rows: Ints) -> Ints:
    """The places of the items of runs `rows`, run after run, where run k is [offsets[k], offsets[k + 1])."""
    counts = offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(counts)
    places: Ints = np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets[rows] - ends + counts, counts)
    return places


def _offsets(counts: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
