"""Outline: which documents there are, in which order, and of which sequences, after some came and went.

    the set      0  1  2  3                     keys are the numbers of the set
    insert       0  1  4' 2  3                  4 stands before 2
    remove 2     0  1  4' .  3                  2 keeps its place, unseen
    numbered     0  1  2     3                  what readers count by

Price: nothing while no document came or went; then 8 bytes a document and a sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from typecase.core.edit.edit import Ints
from typecase.core.edit.group import LAST, DocumentChange, Insert, Remove
from typecase.errors import BadQuery


@dataclass(slots=True)
class Outline:
    """The documents of a set of `num_documents` after changes; grows by `change`."""

    num_documents: int
    inserted: dict[int, Insert] = field(default_factory=dict)
    before: dict[int, list[int]] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)

    @property
    def untouched(self) -> bool:
        """Whether every document has its own number: none is new and none is gone."""
        return not self.removed and not self.inserted

    @property
    def as_found(self) -> bool:
        """Whether what is seen is the set's own documents: whatever came is gone, whatever went is back."""
        return self.removed == set(self.inserted)

    def change(self, change: DocumentChange) -> None:
        """Takes in one change. Raises BadQuery for one that cannot be: a document removed twice, or never there."""
        if isinstance(change, Insert):
            if change.key in self.inserted:
                raise BadQuery(f"document {change.key} was inserted already")
            self.inserted[change.key] = change
            self.before.setdefault(change.before, []).append(change.key)
            return
        known = change.key < self.num_documents or change.key in self.inserted
        gone = change.key in self.removed
        if not known or gone == isinstance(change, Remove):
            what = "is gone already" if known and gone else "was never there" if not known else "is there"
            raise BadQuery(f"document {change.key} {what}")
        (self.removed.add if isinstance(change, Remove) else self.removed.discard)(change.key)

    def documents(self) -> Ints:
        """Keys of the documents that are seen, in order (documents,)."""
        anchors = sorted(a for a in self.before if 0 <= a < self.num_documents)
        parts, done = [], 0
        for anchor in anchors:
            parts += [np.arange(done, anchor), np.array(list(self._ahead_of(anchor)), np.int64)]
            done = anchor
        parts += [np.arange(done, self.num_documents), np.array(list(self._ahead_of(LAST)), np.int64)]
        keys = np.concatenate(parts)
        return keys[~np.isin(keys, list(self.removed))] if self.removed else keys

    def _ahead_of(self, anchor: int) -> Iterable[int]:
        stack = [iter(self.before.get(anchor, ()))]
        waiting: list[int] = []
        while stack:
            key = next(stack[-1], None)
            if key is not None:
                stack.append(iter(self.before.get(key, ())))
                waiting.append(key)
                continue
            stack.pop()
            if waiting:
                yield waiting.pop()

    def sequences(self, keys: Ints, document_index: Ints) -> tuple[Ints, Ints]:
        """Keys of the sequences of documents `keys`, in order, and how many each has; `document_index` is the set's own."""
        own = keys < self.num_documents
        firsts, counts = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        firsts[own] = document_index[keys[own]]
        counts[own] = document_index[keys[own] + 1] - firsts[own]
        for k in np.flatnonzero(~own).tolist():
            change = self.inserted[int(keys[k])]
            firsts[k], counts[k] = change.first_sequence, change.num_sequences
        ends = np.cumsum(counts)
        return np.arange(ends[-1] if len(ends) else 0) + np.repeat(firsts - ends + counts, counts), counts
