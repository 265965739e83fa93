"""Differ: how two states of a set differ, as runs of tokens and as documents, in the order of the set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from typecase.core.edit.edit import Tokens
from typecase.core.edit.state import State
from typecase.store.tokens.store import TokenStore


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Tokens `old`, from token `start` of sequence `key`, are `new`; or a document came (`insert`) or went (`delete`).

    Keys are the numbers of the set; inserted documents and sequences count on from there.
    """

    kind: str
    key: int
    start: int
    old: Tokens
    new: Tokens

    def as_dict(self) -> Mapping[str, Any]:
        """The difference as JSON has it."""
        return {
            "kind": self.kind,
            "key": self.key,
            "start": self.start,
            "old": self.old.tolist(),
            "new": self.new.tolist(),
        }


def differences(before: State, after: State, store: TokenStore) -> list[Difference]:
    """Every difference, by sequence and then by document."""
    touched = {int(k) for s in (before, after) for layer in s.layers for k in np.unique(layer.sequences)}
    touched |= before.held.keys() | after.held.keys()
    common = sorted(k for k in touched if _knows(before, k, store) and _knows(after, k, store))
    found = [d for key in common for d in _of_sequence(key, before.sequence(key), after.sequence(key))]
    was, now = before.outline.documents(), after.outline.documents()
    for kind, state, keys in (("delete", before, np.setdiff1d(was, now)), ("insert", after, np.setdiff1d(now, was))):
        for key in keys.tolist():
            tokens, nothing = _document(state, key, store), np.zeros(0, store.dtype)
            old, new = (tokens, nothing) if kind == "delete" else (nothing, tokens)
            found.append(Difference(kind, key, 0, old, new))
    return found


def _knows(state: State, key: int, store: TokenStore) -> bool:
    return key < store.num_sequences or key in state.held


def _document(state: State, key: int, store: TokenStore) -> Tokens:
    keys, _ = state.outline.sequences(np.array([key], np.int64), store.document_index)
    return np.concatenate([np.zeros(0, store.dtype), *(state.sequence(int(k)) for k in keys)])


def _of_sequence(key: int, old: Tokens, new: Tokens) -> list[Difference]:
    if len(old) == len(new):
        changed = np.flatnonzero(old != new)
        if not changed.size:
            return []
        cuts = np.flatnonzero(np.diff(changed) > 1) + 1
        runs = [(int(run[0]), int(run[-1]) + 1) for run in np.split(changed, cuts)]
        return [Difference("replace", key, a, old[a:b], new[a:b]) for a, b in runs]
    shorter = min(len(old), len(new))
    head = int(np.argmin(np.append(old[:shorter] == new[:shorter], False)))
    room = shorter - head
    same = np.append(old[::-1][:room] == new[::-1][:room], False)
    tail = int(np.argmin(same))
    return [Difference("replace", key, head, old[head : len(old) - tail], new[head : len(new) - tail])]
