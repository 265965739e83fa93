r"""Replacing by a regular expression over the text of documents, as edits of tokens.

    text      … in 2019, 2020 and …          pattern  20(19|20)      replacement  19\1
    tokens    " 2019" "," " 20" "20" " and"
    edits     " 2019" -> " 1919"             " 20" "20" -> " 1920"

A match is widened to whole tokens, whose text is encoded anew with the replacement in it; matches that share a token are one
edit. Price: the documents are decoded, about 3 MB of text a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import Replacement
from typecase.errors import BadQuery
from typecase.store.tokenizer.tokenizer import Tokenizer
from typecase.store.tokens.store import TokenStore

_ERRORS = "surrogateescape"
"""Bytes that are no UTF-8 come back as they were."""


@dataclass(frozen=True, slots=True)
class _Match:
    """Bytes [start, stop) of a sequence become `new`."""

    start: int
    stop: int
    new: bytes


def regex_replacements(
    view: TokenStore,
    reader: Tokenizer,
    pattern: str,
    replacement: str,
    *,
    sequences: Iterable[int] | None = None,
    limit: int | None = None,
) -> list[Replacement]:
    r"""The edits that put `replacement` (with `\1` for groups) in place of the first `limit` matches of `pattern`, or of all.

    Matches lie within a sequence. Raises BadQuery for a pattern or replacement that is none, or a vocabulary without bytes.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise BadQuery(f"{pattern!r} is no regular expression: {error}") from error
    spelled: dict[int, bytes] = {}
    found: list[Replacement] = []
    left = limit
    for sequence in range(view.num_sequences) if sequences is None else sequences:
        if left == 0:
            break
        tokens = view.read_sequence(sequence)
        pieces = [_bytes_of(int(t), reader, spelled) for t in tokens]
        matches = _matches(compiled, b"".join(pieces).decode("utf-8", _ERRORS), replacement, left)
        left = None if left is None else left - len(matches)
        found += _edits(sequence, tokens, pieces, matches, reader)
    return found


def _bytes_of(token: int, reader: Tokenizer, spelled: dict[int, bytes]) -> bytes:
    if token not in spelled:
        data = reader.token_bytes(token)
        if data is None:
            raise BadQuery(f"token {token} has no bytes of its own: a regular expression needs a byte-level vocabulary")
        spelled[token] = data
    return spelled[token]


def _matches(compiled: re.Pattern[str], text: str, replacement: str, limit: int | None) -> list[_Match]:
    found: list[_Match] = []
    at = done = 0
    for match in compiled.finditer(text):
        if match.start() == match.end():
            continue
        if limit is not None and len(found) >= limit:
            break
        try:
            new = match.expand(replacement).encode("utf-8", _ERRORS)
        except (re.error, IndexError) as error:
            raise BadQuery(f"the replacement {replacement!r} does not go with the pattern: {error}") from error
        done += len(text[at : match.start()].encode("utf-8", _ERRORS))
        size = len(match.group().encode("utf-8", _ERRORS))
        found.append(_Match(done, done + size, new))
        at, done = match.end(), done + size
    return found


def _edits(
    sequence: int, tokens: npt.NDArray[Any], pieces: list[bytes], matches: list[_Match], reader: Tokenizer
) -> Iterator[Replacement]:
    ends = np.cumsum([len(p) for p in pieces])
    starts = ends - np.array([len(p) for p in pieces], np.int64)
    groups: list[tuple[int, int, list[_Match]]] = []
    for match in matches:
        first, last = _widened(match, pieces, starts, ends)
        if groups and first < groups[-1][1]:
            low, high, held = groups.pop()
            groups.append((low, max(high, last), [*held, match]))
        else:
            groups.append((first, last, [match]))
    for first, last, held in groups:
        new = _encoded(first, last, held, pieces, starts, reader)
        if not np.array_equal(new, tokens[first:last]):
            yield Replacement(sequence, first, tokens[first:last], new)


def _widened(match: _Match, pieces: list[bytes], starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> tuple[int, int]:
    """The tokens that hold a match, and no half of a character at their edges."""
    first = int(np.searchsorted(ends, match.start, side="right"))
    last = int(np.searchsorted(starts, match.stop, side="left"))
    while first > 0 and pieces[first][:1] and 0x80 <= pieces[first][0] < 0xC0:
        first -= 1
    while last < len(pieces) and pieces[last][:1] and 0x80 <= pieces[last][0] < 0xC0:
        last += 1
    return first, last


def _encoded(
    first: int, last: int, matches: list[_Match], pieces: list[bytes], starts: npt.NDArray[Any], reader: Tokenizer
) -> npt.NDArray[np.int64]:
    data, base, out, at = b"".join(pieces[first:last]), int(starts[first]), b"", 0
    for match in matches:
        out += data[at : match.start - base] + match.new
        at = match.stop - base
    out += data[at:]
    try:
        text = out.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadQuery(f"the text around byte {base} is no UTF-8, so it cannot be encoded anew") from error
    return np.asarray(reader.encode(text), np.int64)
