"""Phrases: a text as the rows of tokens that it may be in a set, and regular expressions over the decoded text.

    "machine learning"     as is            [machine][ learning]        3
                           leading space    [ machine][ learning]     120
                           newline before   [\\n][machine][ learning]     2
                           cut by others    [Mach|ine]…  by what stands around it      (`spelling`)

A tokenizer cuts a phrase by its neighbours, so one row of ids is rarely all there is. Specials are never added. A regular
expression is narrowed by the longest literal text that each match must hold: only documents where the index finds it are
decoded; without any such text all documents would be, which is refused unless asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

import numpy as np

from typecase.errors import BadQuery
from typecase.store.index.queries import I64
from typecase.store.index.spelling import bytes_by_id, is_byte_level, spellings
from typecase.store.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typecase.store.index.index import Index


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of tokens that a phrase may be, how often it occurs, and why it was tried; `pieces` are its tokens' texts."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A match of a regular expression: characters [start, stop) of the decoded document."""

    doc: int
    start: int
    stop: int
    text: str


def variants(index: Index, tokenizer: Tokenizer, phrase: str, *, cuts: bool = True, limit: int = 20) -> list[Variant]:
    """The rows of tokens that `phrase` may be, as is first, each once; with `cuts` also those of other neighbours.

    Of the cuts the `limit` most frequent are given; a vocabulary that is not byte-level has none to find. Raises BadQuery for
    an empty phrase.
    """
    if not phrase:
        raise BadQuery("an empty phrase matches everywhere: give one letter at least")
    tried = [(text, tuple(tokenizer.encode(text).tolist()), reason) for text, reason in _texts(phrase)]
    if cuts and is_byte_level(tokenizer):
        found = [s for s in spellings(index, tokenizer, phrase) if s.ids not in {ids for _, ids, _ in tried}]
        tried += [(tokenizer.decode(s.ids), s.ids, "cut by its neighbours") for s in found[:limit]]
    unique = {ids: (text, reason) for text, ids, reason in reversed(tried) if ids}
    rows = list(dict.fromkeys(ids for _, ids, _ in tried if ids))
    counts = index.count_batch(rows).tolist() if rows else []
    return [
        Variant(unique[ids][0], ids, tuple(tokenizer.token_text(i) for i in ids), count, unique[ids][1])
        for ids, count in zip(rows, counts)
    ]


def _texts(phrase: str) -> Iterator[tuple[str, str]]:
    yield phrase, "as is"
    if not phrase.startswith(" "):
        yield f" {phrase}", "leading space"
    if not phrase.startswith("\n"):
        yield f"\n{phrase}", "newline before"
    bare = phrase.lstrip(" ")
    for text, what in (
        (bare[:1].upper() + bare[1:], "capitalised"),
        (bare.lower(), "lower case"),
        (bare.upper(), "upper case"),
    ):
        if text != bare:
            yield text, what
            yield f" {text}", f"{what}, leading space"


def search_regex(
    index: Index, tokenizer: Tokenizer, pattern: str, *, limit: int | None = None, whole: bool = False
) -> Iterator[TextMatch]:
    """Matches of `pattern` in the decoded documents, by document and place, `limit` at most.

    Raises BadQuery for a pattern that is none, and for one without literal text, unless `whole` lets every document be read.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise BadQuery(f"{pattern!r} is no regular expression: {error}") from None
    literal = literal_of(pattern)
    if literal is None and not whole:
        raise BadQuery(f"{pattern!r} names no text that every match holds: add some, or ask for every document to be read")
    return _matches(index, tokenizer, compiled, candidates(index, tokenizer, literal), limit)


def candidates(index: Index, tokenizer: Tokenizer, literal: str | None) -> I64:
    """The documents that hold `literal`, rising; every document for None."""
    if literal is None:
        return np.arange(index.num_documents)
    found = [index.places(index.positions(s.ids)).docs for s in spellings(index, tokenizer, literal)]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _matches(
    index: Index, tokenizer: Tokenizer, compiled: re.Pattern[str], docs: I64, limit: int | None
) -> Iterator[TextMatch]:
    given = 0
    for doc in docs.tolist():
        text = _decoded(tokenizer, index.text[index.starts[doc] : index.starts[doc + 1]])
        for match in compiled.finditer(text):
            if limit is not None and given >= limit:
                return
            yield TextMatch(doc, match.start(), match.end(), match.group())
            given += 1


def _decoded(tokenizer: Tokenizer, ids: Any) -> str:
    """The text of a document; ids that the tokenizer lacks are left out, as in a set with ids of its own."""
    spelled = bytes_by_id(tokenizer)
    return b"".join(spelled.get(i, b"") for i in ids.tolist()).decode("utf-8", "replace")


def literal_of(pattern: str) -> str | None:
    """The longest run of characters that stands, as it is, in every match of `pattern`; None when there is none."""
    parsed = parser.parse(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return None
    runs = [run for run in _runs(parsed) if "\ufffd" not in run]
    return max(runs, key=len, default=None)


def _runs(parsed: Any) -> Iterator[str]:
    """Runs of literal characters that every match of a sequence holds."""
    run = ""
    for code, value in parsed:
        if code is op.LITERAL:
            run += chr(value)
            continue
        if run:
            yield run
        run = ""
        if code is op.SUBPATTERN and not (value[1] & re.IGNORECASE):
            yield from _runs(value[3])
        elif code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT) and value[0] >= 1:
            yield from _runs(value[2])
        elif code is op.ATOMIC_GROUP:
            yield from _runs(value)
    if run:
        yield run
