"""Group: edits that are made and taken back together; what the journal keeps.

    spans       replacements, by sequence key
    documents   Insert(key, before another) | Remove(key) | Restore(key)

A *key* names a sequence or document for good: those of the set are their numbers, new ones count on from there. So an entry
stays true however many documents come and go around it. A removed document keeps its place in the order, unseen; to restore
it, or to insert before it, is always defined. Spans and documents of one group commute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import Ints, Tokens
from typecase.core.edit.spans import Spans

LAST = -1
"""Stands for the place after the last document."""


@dataclass(frozen=True, slots=True, eq=False)
class Insert:
    """A new document `key` before document `before`, of sequences `first_sequence`, `first_sequence` + 1, …"""

    key: int
    first_sequence: int
    before: int
    sequences: tuple[Tokens, ...]

    @property
    def num_sequences(self) -> int:
        return len(self.sequences)


@dataclass(frozen=True, slots=True)
class Remove:
    """Document `key`, of these sequences, is not seen any more."""

    key: int
    first_sequence: int
    num_sequences: int


@dataclass(frozen=True, slots=True)
class Restore:
    """Document `key`, of these sequences, is seen again."""

    key: int
    first_sequence: int
    num_sequences: int


DocumentChange: TypeAlias = Insert | Remove | Restore


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Edits that stand and fall together."""

    spans: Spans
    documents: tuple[DocumentChange, ...] = ()

    @property
    def same_length(self) -> bool:
        return not self.documents and self.spans.same_length

    @property
    def num_edits(self) -> int:
        return len(self.spans) + len(self.documents)

    def inverse(self) -> Group:
        """What takes the group back."""
        return Group(self.spans.inverse(), tuple(_taken_back(change) for change in reversed(self.documents)))

    def documents_cover(self, sequences: Ints) -> npt.NDArray[np.bool_]:
        """Which of `sequences` belong to a document that this group inserts, removes or restores."""
        covered = np.zeros(len(sequences), np.bool_)
        for change in self.documents:
            covered |= (sequences >= change.first_sequence) & (sequences < change.first_sequence + change.num_sequences)
        return covered


def _taken_back(change: DocumentChange) -> DocumentChange:
    kind: Any = Restore if isinstance(change, Remove) else Remove
    return kind(change.key, change.first_sequence, change.num_sequences)  # type: ignore[no-any-return]


def first_overlap(earlier: Group, later: Group) -> str | None:
    """What both groups touch, in words; None where `earlier` may be taken back as if `later` were not there.

    Two edits of a sequence overlap where their tokens do, and wherever one of them changes its length: tokens move.
    """
    both = {c.key for c in earlier.documents} & {c.key for c in later.documents}
    if both:
        return f"document {min(both)}"
    for one, other in ((earlier, later), (later, earlier)):
        covered = one.documents_cover(other.spans.sequences)
        if covered.any():
            return f"sequence {other.spans.sequences[int(np.argmax(covered))]}, whose whole document comes or goes"
    return _spans_overlap(earlier.spans, later.spans)


def _spans_overlap(earlier: Spans, later: Spans) -> str | None:
    shared = np.intersect1d(earlier.sequences, later.sequences)
    if not shared.size:
        return None
    mine, theirs = (s.take(np.isin(s.sequences, shared)) for s in (earlier, later))
    moved = np.concatenate([s.sequences[s.old_counts != s.new_counts] for s in (mine, theirs)])
    if moved.size:
        return f"sequence {moved.min()}, the length of which changes"
    mine, theirs = (s.take(s.old_counts > 0) for s in (mine, theirs))
    begins, starts = (s.sequences << 32 | s.starts for s in (mine, theirs))
    first = np.searchsorted(starts + theirs.old_counts, begins, side="right")
    beyond = np.append(starts, np.iinfo(np.int64).max)[first]
    hit = np.flatnonzero(beyond < begins + mine.old_counts)
    return f"sequence {mine.sequences[hit[0]]}, tokens {mine.place(int(hit[0]))}" if hit.size else None
