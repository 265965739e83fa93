"""Edit: what is replaced by what in a token set, as its author says it.

    Replacement(sequence 812, start 40, old 5 9 9, new 7 7 7)      same length: the .idx and every training order stay
    Replacement(sequence 812, start 40, old 5 9 9, new 7)          other length: tokens after it move
    DeleteDocument(12)   InsertDocument(at 12, …)   AppendDocument(…)   ReplaceDocument(12, …)

Numbers are those of the state that the edit is made in. All edits of one group speak of the state before the group, so none
may touch what another touches. `old` is what the author believes to stand there: where it does not, the edit is stale and is
refused. An id that the dtype of the set cannot hold is refused; nothing wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from typecase.errors import BadQuery

Ints: TypeAlias = npt.NDArray[np.int64]
Tokens: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Replacement:
    """Tokens `old`, from token `start` of `sequence`, become `new`; either may be empty (insertion, deletion).

    Lists of ids will do; they become arrays.
    """

    sequence: int
    start: int
    old: Tokens
    new: Tokens

    def __post_init__(self) -> None:
        if self.sequence < 0 or self.start < 0:
            raise BadQuery(f"an edit needs a sequence and a token from 0 on, got sequence {self.sequence}, token {self.start}")
        object.__setattr__(self, "old", ids(self.old))
        object.__setattr__(self, "new", ids(self.new))

    @property
    def same_length(self) -> bool:
        return len(self.old) == len(self.new)

    @property
    def stop(self) -> int:
        return self.start + len(self.old)


@dataclass(frozen=True, slots=True)
class DeleteDocument:
    """Document `doc` goes, with all its sequences."""

    doc: int


@dataclass(frozen=True, slots=True, eq=False)
class InsertDocument:
    """A new document of `sequences` (lists of ids) before document `at`; `at` = number of documents puts it last."""

    at: int
    sequences: tuple[Tokens, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sequences", tuple(ids(s) for s in self.sequences))


@dataclass(frozen=True, slots=True, eq=False)
class AppendDocument:
    """A new document of `sequences` after the last one."""

    sequences: tuple[Tokens, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sequences", tuple(ids(s) for s in self.sequences))


@dataclass(frozen=True, slots=True, eq=False)
class ReplaceDocument:
    """Document `doc` becomes `sequences`. As many sequences as before keep their numbers; else the document is new."""

    doc: int
    sequences: tuple[Tokens, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sequences", tuple(ids(s) for s in self.sequences))


Edit: TypeAlias = Replacement | DeleteDocument | InsertDocument | AppendDocument | ReplaceDocument


def ids(tokens: npt.ArrayLike) -> Tokens:
    """`tokens` as a flat array of integers. Raises BadQuery for anything else: text is never taken for ids."""
    array = np.asarray(tokens)
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array
    if not array.size and array.ndim <= 1:
        return np.zeros(0, np.int64)
    raise BadQuery(f"tokens are a flat list of integer ids, got {array.dtype} of shape {array.shape}")


def fit(tokens: Tokens, dtype: np.dtype[Any], *, where: str = "") -> Tokens:
    """`tokens` as `dtype`. Raises BadQuery for an id that it cannot hold, naming `where` and the place among `tokens`."""
    if tokens.dtype == dtype:
        return tokens
    if dtype.kind not in "iu":
        raise BadQuery(f"a set of {dtype} holds no token ids, so there is nothing to edit by token")
    limits = np.iinfo(dtype)
    wrong = (tokens < limits.min) | (tokens > limits.max)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise BadQuery(
            f"token id {tokens[k]} ({where}{', ' if where else ''}place {k}) does not fit the set's {dtype}"
            f" ({limits.min} … {limits.max}): it would be stored as another id; nothing was changed"
        )
    return tokens.astype(dtype)


def concatenated(parts: Sequence[Tokens], dtype: npt.DTypeLike) -> Tokens:
    """`parts` end to end; the empty list has a dtype too."""
    return np.concatenate(parts) if parts else np.zeros(0, dtype)
