"""Former: edits as their author says them, by the numbers of a view, become a group by keys; everything is checked on the way.

Replacement(sequence 5)  ->  spans of key 4         the view may number otherwise than the set
AppendDocument           ->  Insert(new key)
ReplaceDocument          ->  spans, where it keeps its number of sequences; else Remove and Insert
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import (
    AppendDocument,
    DeleteDocument,
    Edit,
    InsertDocument,
    ReplaceDocument,
    Replacement,
    Tokens,
    fit,
)
from typecase.core.edit.group import LAST, DocumentChange, Group, Insert, Remove
from typecase.core.edit.spans import MAX_TOKENS, Spans
from typecase.core.edit.state import State
from typecase.errors import BadQuery, StaleEdit
from typecase.store.journal.view import EditedTokens


def formed(edits: Iterable[Edit] | Spans, view: EditedTokens, state: State, next_keys: tuple[int, int]) -> Group:
    """The group of `edits`, said of `view`, whose state is `state`; new documents get keys from `next_keys` on.

    Raises BadQuery, and StaleEdit where `old` is not what stands there.
    """
    if isinstance(edits, Spans):
        if edits.overlapping().size:
            raise BadQuery("edits of one group overlap; give them one after the other")
        new = fit(edits.new, view.dtype, where="new tokens")
        old = fit(edits.old, view.dtype, where="expected tokens")
        edits = Spans(edits.sequences, edits.starts, old, edits.old_offsets, new, edits.new_offsets)
        return Group(_by_keys(_checked(edits, view), view))
    replacements: list[Replacement] = []
    changes: list[DocumentChange] = []
    former = _Former(view, *next_keys)
    for edit in edits:
        if isinstance(edit, Replacement):
            replacements.append(edit)
        elif isinstance(edit, ReplaceDocument):
            spans, more = former.replaced(edit)
            replacements += spans
            changes += more
        else:
            changes.append(former.changed(edit))
    group = Group(_by_keys(_checked(Spans.of(replacements, view.dtype), view), view), tuple(changes))
    _raise_if_twice(group)
    return group


class _Former:
    """Document edits of one group; all numbers are of the view before it."""

    def __init__(self, view: EditedTokens, next_document: int, next_sequence: int) -> None:
        self.view, self.next_document, self.next_sequence = view, next_document, next_sequence

    def changed(self, edit: DeleteDocument | InsertDocument | AppendDocument) -> DocumentChange:
        if isinstance(edit, DeleteDocument):
            return self._remove(edit.doc)
        if isinstance(edit, AppendDocument):
            return self._insert(LAST, edit.sequences)
        last = self.view.num_documents
        if not 0 <= edit.at <= last:
            raise BadQuery(f"there is no place {edit.at} for a document: they go from 0 to {last}, which is the end")
        return self._insert(LAST if edit.at == last else self.view.document_key(edit.at), edit.sequences)

    def replaced(self, edit: ReplaceDocument) -> tuple[list[Replacement], list[DocumentChange]]:
        self._check(edit.doc)
        first, last = self._sequences(edit.doc)
        if last - first != len(edit.sequences):
            remove = self._remove(edit.doc)
            return [], [self._insert(remove.key, edit.sequences), remove]
        spans = []
        for sequence, new in zip(range(first, last), edit.sequences, strict=True):
            old = self.view.read_sequence(sequence)
            if not np.array_equal(old, new):
                spans.append(Replacement(sequence, 0, old, new))
        return spans, []

    def _remove(self, doc: int) -> Remove:
        self._check(doc)
        first, last = self._sequences(doc)
        key = int(self.view.keys_of(np.array([first]))[0]) if last > first else 0
        return Remove(self.view.document_key(doc), key, last - first)

    def _insert(self, before: int, sequences: tuple[Tokens, ...]) -> Insert:
        fitting = tuple(fit(s, self.view.dtype, where="the new document").astype(self.view.dtype) for s in sequences)
        change = Insert(self.next_document, self.next_sequence, before, fitting)
        self.next_document += 1
        self.next_sequence += len(sequences)
        return change

    def _sequences(self, doc: int) -> tuple[int, int]:
        first, last = self.view.document_index[doc : doc + 2].tolist()
        return first, last

    def _check(self, doc: int) -> None:
        if not 0 <= doc < self.view.num_documents:
            raise BadQuery(f"there is no document {doc}: they go from 0 to {self.view.num_documents - 1}")


def _checked(spans: Spans, view: EditedTokens) -> Spans:
    """`spans` whose old tokens stand in `view`, and whose sequences stay within what a `.idx` can say."""
    found, _ = view.read_spans(spans.sequences, spans.starts, spans.old_counts)
    raise_if_stale(spans, found, str(view.pair.prefix))
    gained = spans.new_counts - spans.old_counts
    if gained.any():
        sequences, inverse = np.unique(spans.sequences, return_inverse=True)
        totals = view.lengths[sequences] + np.bincount(inverse, gained).astype(np.int64)
        if np.any(totals >= MAX_TOKENS):
            worst = int(np.argmax(totals))
            raise BadQuery(f"sequence {sequences[worst]} would have {totals[worst]} tokens; an .idx holds {MAX_TOKENS - 1}")
    return spans


def raise_if_stale(spans: Spans, found: npt.NDArray[Any], where: str) -> None:
    """Raises StaleEdit for the first of `spans` whose old tokens are not `found`, (all old tokens,) end to end."""
    wrong = np.flatnonzero(found != spans.old)
    if wrong.size:
        k = int(np.searchsorted(spans.old_offsets, wrong[0], side="right")) - 1
        run = slice(int(spans.old_offsets[k]), int(spans.old_offsets[k + 1]))
        raise StaleEdit(
            f"{where}: sequence {spans.sequences[k]}, tokens [{spans.starts[k]}, {spans.starts[k] + spans.old_counts[k]}) are"
            f" {_some(found[run])}, the edit expects {_some(spans.old[run])}; nothing was changed: look at the set as"
            " it is now and make the edit anew"
        )


def _some(tokens: npt.NDArray[Any]) -> str:
    shown = " ".join(map(str, tokens[:8].tolist()))
    return shown + (f" … ({len(tokens)} tokens)" if len(tokens) > 8 else "")


def _by_keys(spans: Spans, view: EditedTokens) -> Spans:
    keys = view.keys_of(spans.sequences)
    if keys is spans.sequences or np.all(keys[1:] >= keys[:-1]):
        return spans.with_sequences(keys)
    order = np.argsort(keys, kind="stable")
    return spans.with_sequences(keys).take(order)


def _raise_if_twice(group: Group) -> None:
    touched = [c.key for c in group.documents]
    if len(set(touched)) != len(touched):
        raise BadQuery("two edits of one group delete or replace the same document")
    covered = group.documents_cover(group.spans.sequences)
    if covered.any():
        raise BadQuery(
            "two edits of one group touch the same document: one changes tokens of it, the other deletes or replaces it"
        )
