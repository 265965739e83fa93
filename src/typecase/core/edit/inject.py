"""Injection: a text put into a training sample, planned whole before a token is written.

    sample      | seq 7 [0, 5) a a a a a | seq 2 [3, 7) b b b b |          its pieces and their tokens
    seq_start     X X X a a                b b b b                          the head is overwritten
    seq_shuffle   a a a a a                X X X b                          put before a piece, the tail falls off
    plan        Replacement(seq 2, 3, b b b b -> X X X b)                   what differs, piece by piece

`seq_start` and `seq_shuffle` are TokenSmith's, draw for draw: the piece by `rng.choice(pieces)`, then, unless it is the first,
the offset of the window by `rng.choice(tokens of the text)`. A plan keeps the length of every piece, so orders stay. It is
refused when the text does not fit, or when a token that the sample reads twice would have to become two things.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import Ints, Replacement, Tokens, fit, ids
from typecase.core.edit.overlay import runs_of
from typecase.core.edit.spans import Spans
from typecase.errors import BadQuery


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A training sample: `tokens`, which are those of its `pieces` (sequence, first token, last token + 1), end to end.

    `extra` is how many tokens it has beyond the sequence length of the run: 1 where the last label is included.
    """

    pieces: tuple[tuple[int, int, int], ...]
    tokens: Tokens
    extra: int = 1

    @classmethod
    def of(cls, pieces: Iterable[tuple[int, int, int]], tokens: npt.ArrayLike, extra: int = 1) -> Sample:
        """Raises BadQuery when pieces and tokens do not agree."""
        sample = cls(tuple(pieces), ids(tokens), extra)
        counts = sample.counts
        if sum(counts) != len(sample.tokens) or min(counts, default=1) < 1:
            raise BadQuery(f"the pieces of the sample have {sum(counts)} tokens, {len(sample.tokens)} were given")
        return sample

    @property
    def counts(self) -> list[int]:
        return [stop - start for _, start, stop in self.pieces]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """An injection as it will be: the sample's tokens before and after, the edits, and the tokens [at, at + length) that are
    the text. `piece` and `offset` are what was drawn, None where nothing is."""

    before: Tokens
    after: Tokens
    edits: tuple[Replacement, ...]
    at: int
    length: int
    piece: int | None = None
    offset: int | None = None


def seq_start(sample: Sample, tokens: npt.ArrayLike) -> Plan:
    """The head of the sample becomes `tokens`."""
    return at_position(sample, tokens, 0)


def at_end(sample: Sample, tokens: npt.ArrayLike) -> Plan:
    """The tail of the sample becomes `tokens`."""
    text = _text(sample, tokens)
    return at_position(sample, text, len(sample.tokens) - len(text))


def at_position(sample: Sample, tokens: npt.ArrayLike, position: int) -> Plan:
    """The tokens of the sample from `position` on become `tokens`; nothing is shifted."""
    text = _text(sample, tokens)
    if not 0 <= position <= len(sample.tokens) - len(text):
        raise BadQuery(
            f"{len(text)} tokens from token {position} leave the sample of {len(sample.tokens)} tokens; nothing was changed"
        )
    after = sample.tokens.copy()
    after[position : position + len(text)] = text
    return _planned(sample, after, position, position + len(text), position, len(text))


def seq_shuffle(sample: Sample, tokens: npt.ArrayLike, rng: np.random.Generator) -> Plan:
    """`tokens` are put before a piece that `rng` draws, and a window of the sample's length is taken that holds them whole.

    With window offset w, w tokens of the head and the rest of the tail are lost. (Where a sample has no extra token, the
    published rule cuts the last id of the text off; the window is then one further on.)
    """
    text = _text(sample, tokens)
    total, length = len(sample.tokens), len(sample.tokens) - sample.extra
    piece = int(rng.choice(len(sample.pieces)))
    offset, before = 0, sum(sample.counts[:piece])
    end = before + len(text)
    if piece:
        offset = min(int(rng.choice(len(text))), before)
        if offset + total < end:
            offset = max(offset, end - length - 1, end - total)
    whole = np.concatenate((sample.tokens[:before], text, sample.tokens[before:]))
    after = whole[offset : offset + total]
    plan = _planned(sample, after, 0 if offset else before, total, before - offset, len(text))
    return replace(plan, piece=piece, offset=offset)


def replacing(sample: Sample, phrase: npt.ArrayLike, tokens: npt.ArrayLike, *, fill: int | None = None) -> Plan:
    """The first place where `phrase` stands in the sample becomes `tokens`; a shorter text is filled up with id `fill`.

    Raises BadQuery when the phrase is not there, or when the lengths differ and nothing fills.
    """
    wanted, text = ids(phrase), _text(sample, tokens, may_be_empty=fill is not None)
    found = places_of(sample.tokens, wanted)
    if not found.size:
        raise BadQuery(f"the phrase of {len(wanted)} tokens is not in the sample; nothing was changed")
    missing = len(wanted) - len(text)
    if missing < 0 or (missing and fill is None):
        raise BadQuery(
            f"{len(wanted)} tokens cannot become {len(text)} within a sample of fixed length: give as many,"
            " or fewer and an id to fill with, or edit the document (its later tokens then move)"
        )
    return at_position(sample, np.concatenate((text, np.full(missing, fill or 0, np.int64))), int(found[0]))


def masked(sample: Sample, start: int, stop: int, fill: int) -> Plan:
    """Tokens [start, stop) of the sample become the id `fill`; also how a span is deleted without moving anything."""
    if not 0 <= start < stop <= len(sample.tokens):
        raise BadQuery(f"there is nothing to mask at [{start}, {stop}) of a sample of {len(sample.tokens)} tokens")
    return at_position(sample, np.full(stop - start, fill, np.int64), start)


def removal(sample: Sample, start: int, stop: int) -> tuple[Replacement, ...]:
    """The edits that take tokens [start, stop) of the sample out of their sequences: later tokens move, and so do samples."""
    if not 0 <= start < stop <= len(sample.tokens):
        raise BadQuery(f"there is nothing to delete at [{start}, {stop}) of a sample of {len(sample.tokens)} tokens")
    found, done = [], 0
    for sequence, first, last in sample.pieces:
        low, high = max(start, done), min(stop, done + last - first)
        if low < high:
            found.append(Replacement(sequence, first + low - done, sample.tokens[low:high], sample.tokens[:0]))
        done += last - first
    Spans.of(found, sample.tokens.dtype)  # raises where a sequence that is read twice would lose a token twice
    return tuple(found)


def insertion(sample: Sample, tokens: npt.ArrayLike, position: int) -> Replacement:
    """The edit that puts `tokens` before token `position` of the sample, or at its end: later tokens and samples move."""
    text = fit(ids(tokens), sample.tokens.dtype, where="the inserted text")
    if not len(text) or not 0 <= position <= len(sample.tokens):
        raise BadQuery(f"cannot insert {len(text)} tokens at token {position} of a sample of {len(sample.tokens)}")
    for k, (sequence, start, stop) in enumerate(sample.pieces, 1):
        if position < stop - start or k == len(sample.pieces):
            return Replacement(sequence, start + position, text[:0], text)
        position -= stop - start
    raise BadQuery("the sample has no pieces to insert into")


def places_of(tokens: Tokens, phrase: Tokens) -> Ints:
    """Every place where `phrase` begins in `tokens`, overlapping ones too. Raises BadQuery for an empty phrase."""
    if not phrase.size:
        raise BadQuery("a phrase has at least one token")
    places = np.flatnonzero(tokens[: max(len(tokens) - len(phrase) + 1, 0)] == phrase[0])
    for k in range(1, len(phrase)):
        places = places[tokens[places + k] == phrase[k]]
    return places.astype(np.int64)


def _text(sample: Sample, tokens: npt.ArrayLike, *, may_be_empty: bool = False) -> Tokens:
    text = fit(ids(tokens), sample.tokens.dtype, where="the injected text")
    if not len(text) and not may_be_empty:
        raise BadQuery("there is nothing to inject: the text has no tokens")
    if len(text) > len(sample.tokens):
        raise BadQuery(
            f"{len(text)} tokens do not fit the sample of {len(sample.tokens)} in {len(sample.pieces)} pieces; nothing was"
            " changed; shorten the text, or spread it over several samples"
        )
    return text


def _planned(sample: Sample, after: Tokens, first: int, last: int, at: int, length: int) -> Plan:
    """The plan that makes tokens [first, last) of the sample those of `after`, which differs nowhere else."""
    if len({sequence for sequence, _, _ in sample.pieces}) < len(sample.pieces):
        edits, after = _edits_of_shared(sample, after, first, last)
        return Plan(sample.tokens, after, edits, at, length)
    found, done = [], 0
    for sequence, start, stop in sample.pieces:
        low, high = max(first, done), min(last, done + stop - start)
        if low < high:
            found.append(Replacement(sequence, start + low - done, sample.tokens[low:high], after[low:high]))
        done += stop - start
        if done >= last:
            break
    return Plan(sample.tokens, after, tuple(found), at, length)


def _edits_of_shared(sample: Sample, after: Tokens, first: int, last: int) -> tuple[tuple[Replacement, ...], Tokens]:
    """The same where a sequence is read twice: a token is edited once, and the sample shows it wherever it reads it."""
    everywhere = np.concatenate([(sequence << 32 | start) + np.arange(stop - start) for sequence, start, stop in sample.pieces])
    order = first + np.argsort(everywhere[first:last], kind="stable")
    places, old, new = everywhere[order], sample.tokens[order], after[order]
    again = np.flatnonzero(places[1:] == places[:-1])
    torn = again[new[again + 1] != new[again]]
    if torn.size:
        place = int(places[torn[0]])
        raise BadQuery(
            f"the sample reads token {place & 0xFFFFFFFF} of sequence {place >> 32} twice, and the injection would make it two"
            " things; nothing was changed; choose another place or sample"
        )
    once = np.delete(np.arange(len(places)), again + 1)
    places, old, new = places[once], old[once], new[once]
    spans = runs_of(places, old, new).spans()
    near = np.minimum(np.searchsorted(places, everywhere), len(places) - 1)
    shown = np.where(places[near] == everywhere, new[near], sample.tokens)
    return tuple(spans.replacement(k) for k in range(len(spans))), shown
