"""Spelling: every way in which a piece of text stands in the set as tokens, found through the index itself.

    text       "the cat"
    tokens     [the][ cat]   [ the][ cat]   [bre|athe]…   [ the][ cat|s]   …      neighbours cut a phrase in many ways

The tokens that hold the first byte of the text are tried, then all that may come next; a row of tokens that occurs nowhere is
given up at once, and the index knows which token follows which, so only rows that do occur are ever looked at. The occurrences
of all rows together are those of the text, however it was cut: an exact count over text. Price: some milliseconds, more for a
text of one or two letters. Needs a byte-level vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from typecase.errors import BadQuery
from typecase.store.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typecase.store.index.index import Index


@dataclass(frozen=True, slots=True)
class Spelling:
    """Tokens that hold the text from byte `skip` of the first on; `count` is how often they occur, as often as the text
    stands in them at that byte."""

    ids: tuple[int, ...]
    skip: int
    count: int


@lru_cache(maxsize=4)
def bytes_by_id(tokenizer: Tokenizer) -> dict[int, bytes]:
    """The bytes of every token. Raises BadQuery when the vocabulary is not byte-level."""
    spelled = {k: text for k in range(tokenizer.num_ids) if (text := tokenizer.token_bytes(k))}
    if not spelled:
        raise BadQuery(f"{tokenizer.spec} is no byte-level vocabulary: its tokens have no bytes of their own; search by ids")
    return spelled


def is_byte_level(tokenizer: Tokenizer) -> bool:
    return any(tokenizer.token_bytes(k) for k in range(tokenizer.num_ids))


def spellings(index: Index, tokenizer: Tokenizer, text: str | bytes) -> list[Spelling]:
    """All rows of tokens of the set that hold `text`, most frequent first. Raises BadQuery for an empty text."""
    wanted = text.encode() if isinstance(text, str) else text
    if not wanted:
        raise BadQuery("an empty text stands everywhere: give one letter at least")
    spelled = bytes_by_id(tokenizer)
    occurring = index.next([])
    out: list[Spelling] = []
    for token, count in zip(occurring.ids.tolist(), occurring.counts.tolist()):
        for skip in _overlaps(spelled.get(token, b""), wanted):
            held = len(spelled[token]) - skip
            if held >= len(wanted):
                out.append(Spelling((token,), skip, count))
            else:
                out += _continued(index, spelled, token, skip, wanted[held:])
    return sorted(out, key=lambda s: (-s.count, s.ids, s.skip))


def text_count(index: Index, tokenizer: Tokenizer, text: str | bytes) -> int:
    """How often `text` stands in the documents, however it was cut into tokens; overlapping occurrences count."""
    return sum(s.count for s in spellings(index, tokenizer, text))


def _overlaps(token: bytes, wanted: bytes) -> list[int]:
    """The bytes of `token` from which on it agrees with `wanted`, as far as both go."""
    first, out = wanted[:1], []
    skip = token.find(first)
    while skip >= 0:
        size = min(len(token) - skip, len(wanted))
        if token[skip : skip + size] == wanted[:size]:
            out.append(skip)
        skip = token.find(first, skip + 1)
    return out


def _continued(index: Index, spelled: dict[int, bytes], first: int, skip: int, rest: bytes) -> list[Spelling]:
    """The rows that begin with the token `first` and go on with the bytes `rest`."""
    out = list[Spelling]()
    waiting: list[tuple[tuple[int, ...], bytes]] = [((first,), rest)]
    while waiting:
        ids, rest = waiting.pop()
        follows = index.next(np.array(ids, np.int64))
        for token, count in zip(follows.ids.tolist(), follows.counts.tolist()):
            text = spelled.get(token, b"")
            if text.startswith(rest):
                out.append(Spelling((*ids, token), skip, count))
            elif text and rest.startswith(text):
                waiting.append(((*ids, token), rest[len(text) :]))
    return out
