"""Changes: how a token set as its journal says it is differs from the one that was indexed, in positions of the indexed text.

    indexed       a b c d e | f g | h i            documents 0, 1, 2
    is now        a b x e | k l m | h i            [2, 4) of document 0 became x; 1 went; one that is new came
    old pieces    a b c d e | f g                  the changed tokens with `context` tokens on each side, and what went
    new pieces    a b x e | k l m                  the same of the text as it is now, and what came

Changes nearer to each other than their contexts are taken together. A hit that no change touches and that lies in a piece lies
in an old and in a new one, so the hits in the set are those in the index, less those in the old pieces, plus those in the new:
as long as no query is longer than the context and one token, or asks for what follows more than the context.

Price: a few passes over the changes; the pieces are the changed tokens and twice the context for each change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from typecase.core.edit.overlay import Overlay, flattened
from typecase.core.edit.spans import Spans
from typecase.store.index.queries import I64
from typecase.store.journal.view import EditedTokens
from typecase.store.tokens.store import TokenStore

if TYPE_CHECKING:
    from typecase.store.index.index import Index

Tokens = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Change k, in indexed document `docs[k]`: positions [starts[k], stops[k]) are now `new[offsets[k]:offsets[k + 1]]`.

    They rise and lie in documents that stayed. `gone` are the indexed documents that went, `come` the numbers, in the set as it
    is now, of those that came, `anchors` the indexed positions before which these stand. `numbers` (documents,) says which
    number an indexed document has now, -1 for none; None where all kept theirs.
    """

    docs: I64
    starts: I64
    stops: I64
    new: Tokens
    offsets: I64
    gone: I64
    come: I64
    anchors: I64
    numbers: I64 | None

    def __len__(self) -> int:
        return len(self.docs) + len(self.gone) + len(self.come)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Old and new text around the changes, piece after piece; ends are exclusive, and the fences of a search.

    `starts` (new pieces,) are the positions of the new pieces in the set as it is now; spans [span_starts, span_stops) of the
    new text are what differs, empty where tokens only went.
    """

    old: Tokens
    old_ends: I64
    new: Tokens
    new_ends: I64
    starts: I64
    span_starts: I64
    span_stops: I64

    def added(self, hits: I64, size: int) -> I64:
        """Those of `hits` of `size` tokens in the new text that a change touches, as positions in the set; rising."""
        before = np.searchsorted(self.span_stops, hits, side="right")
        beyond = np.append(self.span_starts, np.iinfo(np.int64).max)[before]
        touched = hits[hits + size > beyond]
        piece = np.searchsorted(self.new_ends, touched, side="right")
        begins = np.concatenate((np.zeros(1, np.int64), self.new_ends))[piece]
        return np.sort(self.starts[piece] + touched - begins)


def changes_between(index: Index, store: TokenStore, taken_back: Overlay | None) -> Changes:
    """What makes the set that `index` indexes the one that `store` shows: a view of its journal, or the set as it lies.

    `taken_back` is what makes the `.bin` of both the indexed one, None where it is that already.
    """
    under = store.base if isinstance(store, EditedTokens) else store
    numbers, gone, come, anchors = _documents(index, store)
    held = store._state.held if isinstance(store, EditedTokens) else {}
    moved = np.array(sorted(key for key in held if key < under.num_sequences), np.int64)
    layer = _same_length(store, taken_back)
    apart = ~np.isin(layer.sequences, moved)
    spans = layer.spans().take(apart)
    sequences = np.concatenate((spans.sequences, moved))
    docs = _documents_of(under, sequences)
    begins = _begins(index, under, sequences)
    sizes = under.lengths[moved].astype(np.int64)
    bounds = zip(begins[len(spans) :].tolist(), sizes.tolist(), moved.tolist(), strict=True)
    trimmed = [_trimmed(index.text[begin : begin + size], held[key]) for begin, size, key in bounds]
    starts = begins + np.concatenate((spans.starts, [head for head, _, _ in trimmed])).astype(np.int64)
    counts = np.concatenate((spans.old_counts, [count for _, count, _ in trimmed])).astype(np.int64)
    new = np.concatenate([spans.new, *(tokens for _, _, tokens in trimmed)]).astype(index.dtype)
    sizes = np.concatenate((spans.new_counts, [len(tokens) for _, _, tokens in trimmed])).astype(np.int64)
    there = (docs >= 0) & (docs < index.num_documents) & ((counts > 0) | (sizes > 0))
    if numbers is not None:
        there[there] = numbers[docs[there]] >= 0
    order = np.lexsort((starts, sequences))
    order = order[there[order]]
    tokens = new[spread((np.cumsum(sizes) - sizes)[order], sizes[order])]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[order])))
    return Changes(docs[order], starts[order], (starts + counts)[order], tokens, offsets, gone, come, anchors, numbers)


def _same_length(store: TokenStore, taken_back: Overlay | None) -> Overlay:
    """What makes the indexed text the one of `store` in sequences that kept their length."""
    whole = later = Overlay.of(Spans.none(store.dtype))
    if taken_back is not None:
        if isinstance(store, EditedTokens):
            lies = taken_back.old
        else:  # as it lies: half of an application that was broken off may be there
            lies, _ = store.read_spans(taken_back.sequences, taken_back.starts, taken_back.counts)
        whole = Overlay(taken_back.places, taken_back.offsets, taken_back.new, lies)
    if isinstance(store, EditedTokens):
        later = flattened(store._state.layers, store.dtype)
    return Overlay.merged(whole, later)


def _documents(index: Index, store: TokenStore) -> tuple[I64 | None, I64, I64, I64]:
    """`numbers`, `gone`, `come` and `anchors` of Changes."""
    nothing = np.zeros(0, np.int64)
    if not isinstance(store, EditedTokens) or not store.renumbered:
        return None, nothing, nothing, nothing
    keys = store.document_keys()
    own = np.flatnonzero(keys < store.num_given)
    numbers = np.full(index.num_documents, -1, np.int64)
    numbers[keys[own]] = own
    gone, come = np.flatnonzero(numbers < 0), np.flatnonzero(keys >= store.num_given)
    follows = np.append(keys[own], index.num_documents)[np.searchsorted(own, come)]
    return numbers, gone[np.diff(index.starts)[gone] > 0], come, index.starts[follows]


def _documents_of(store: TokenStore, sequences: I64) -> I64:
    if store.facts.one_to_one:
        return sequences
    docs: I64 = np.searchsorted(store.document_index, sequences, side="right") - 1
    return docs


def _begins(index: Index, store: TokenStore, sequences: I64) -> I64:
    """The positions where `sequences` begin in the indexed text."""
    if not index.facts.flat:
        return np.asarray(store.pointers[sequences] // store.dtype.itemsize, np.int64)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(store.lengths, dtype=np.int64)))
    begins: I64 = ends[sequences] - ends[int(store.document_index[0])]
    return begins


def _trimmed(old: Tokens, new: Tokens) -> tuple[int, int, Tokens]:
    """Where two sequences begin to differ, and what stands there: tokens of the old one, and those of the new."""
    room = min(len(old), len(new))
    differs = old[:room] != new[:room]
    head = int(np.argmax(differs)) if differs.any() else room
    room -= head
    differs = (old[len(old) - room :] != new[len(new) - room :])[::-1]
    tail = int(np.argmax(differs)) if differs.any() else room
    return head, len(old) - tail - head, new[head : len(new) - tail]


def cut(index: Index, changes: Changes, store: TokenStore, starts_now: I64, context: int) -> Pieces:
    """The pieces around `changes` with `context` tokens on each side; `starts_now` is where the documents of `store` begin."""
    bounds, docs = index.starts, changes.docs
    lows = np.maximum(changes.starts - context, bounds[docs])
    highs = np.minimum(changes.stops + context, bounds[docs + 1])
    first = np.ones(len(docs), np.bool_)
    first[1:] = (docs[1:] != docs[:-1]) | (lows[1:] > highs[:-1])
    heads = np.flatnonzero(first)
    lasts = np.append(heads[1:], len(docs))[: len(heads)] - 1
    numbers = docs[heads] if changes.numbers is None else changes.numbers[docs[heads]]
    grown = np.cumsum(np.diff(changes.offsets) - (changes.stops - changes.starts))
    grown = np.concatenate((np.zeros(1, np.int64), grown))
    own = grown[heads] - grown[np.searchsorted(docs, docs[heads])]
    starts = starts_now[numbers] + lows[heads] - bounds[docs[heads]] + own
    new, spans, ends = _woven(index, changes, lows, highs, first, lasts)
    brought, offsets = store.read_many(changes.come)
    old_begins = np.concatenate((lows[heads], bounds[changes.gone]))
    old_sizes = np.concatenate((highs[lasts], bounds[changes.gone + 1])) - old_begins
    return Pieces(
        index.text[spread(old_begins, old_sizes)],
        np.cumsum(old_sizes),
        np.concatenate((new, brought)).astype(index.dtype),
        np.concatenate((ends, len(new) + offsets[1:])),
        np.concatenate((starts, starts_now[changes.come])),
        np.concatenate((spans[0], len(new) + offsets[:-1])),
        np.concatenate((spans[1], len(new) + offsets[1:])),
    )


def _woven(
    index: Index, changes: Changes, lows: I64, highs: I64, first: npt.NDArray[np.bool_], lasts: I64
) -> tuple[Tokens, tuple[I64, I64], I64]:
    """The new text of the changes with what stands between and around them; the spans that changed; the ends of the pieces."""
    before = np.where(first, lows, np.concatenate((lows[:1], changes.stops[:-1])))
    sizes = np.zeros((len(lows), 3), np.int64)  # of what stands before, of the change, and behind the last of a piece
    sizes[:, 0], sizes[:, 1] = changes.starts - before, np.diff(changes.offsets)
    sizes[lasts, 2] = highs[lasts] - changes.stops[lasts]
    ends = np.cumsum(sizes.reshape(-1)).reshape(-1, 3)
    begins = ends - sizes
    out = np.empty(int(ends[-1, 2]) if len(ends) else 0, index.dtype)
    out[spread(begins[:, 0], sizes[:, 0])] = index.text[spread(before, sizes[:, 0])]
    out[spread(begins[:, 1], sizes[:, 1])] = changes.new
    out[spread(begins[:, 2], sizes[:, 2])] = index.text[spread(changes.stops, sizes[:, 2])]
    return out, (begins[:, 1], ends[:, 1]), ends[lasts, 2]


def spread(begins: I64, counts: I64) -> I64:
    """begins[0], begins[0] + 1, … `counts[0]` of them, then those of the next, and so on."""
    ends = np.cumsum(counts)
    places: I64 = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - ends + counts, counts)
    return places
