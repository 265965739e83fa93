"""TokenStore: any Megatron-style token set, opened where it lies and read only.

    document 0    document 1              document 2 (no sequence)   document 3
    [ seq 0 ]     [ seq 1 ][ seq 2 ]                                 [ seq 3 ]        .idx says where
    5 6 7 0       9 9 4    1 0                                       8 0              .bin holds the ids

GPT-NeoX, Megatron-LM, Megatron-Core and NeMo sets, multimodal ones, merges without document index and TNTIDX all open alike,
with no framework installed and no dtype to state. A *document* is what the document index groups; in a merge without one,
and in the frameworks' own speech, it is a sequence. Reading goes by the pointer of each sequence, so gaps and relocated
sequences are read as training reads them. What is returned is always a copy.

Price: opening takes one pass over the `.idx`, about 30 ns a sequence; a document 5 us; many documents of 2 KB in one call 1
us each from the page cache, 30 us from a cold disk. The files are memory-mapped: a program that shortens them under an open
store kills the reader.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.bisect import last_not_above
from typecase.core.document import Span
from typecase.errors import BadQuery, CorruptStore
from typecase.store.tokens.damage import Survey, chunk_of, is_readable, survey
from typecase.store.tokens.fingerprint import fingerprint
from typecase.store.tokens.gather import gather
from typecase.store.tokens.idx import Layout, map_file, read_layout
from typecase.store.tokens.pair import TokenPair, find_pair

_CHUNK = 1 << 18
_SHORT_BYTES = 1 << 14
_FAR_BYTES = 1 << 15
"""Ranges shorter than the one and farther apart than the other, on average, are read without read-ahead, which would fetch
128 KB for each."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive runs of tokens: run k is `tokens[offsets[k]:offsets[k + 1]]`, from token `starts[k]` of `sequences[k]`."""

    sequences: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    tokens: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]


def open_tokens(path: Path | str, *, damaged: bool = False) -> TokenStore:
    """Opens the token set that `path` names: a prefix, its `.bin` or `.idx`, or a folder that holds one set.

    Raises NotFound, and CorruptStore for a set whose index and data disagree, naming the first bad document and byte. With
    `damaged` such a set opens as far as its index can be parsed, and only reading what lies outside the `.bin` is refused.
    """
    pair = find_pair(path)
    bin_bytes = pair.bin.stat().st_size
    layout = read_layout(pair.idx, bin_bytes=bin_bytes)
    facts = survey(layout, bin_bytes=bin_bytes)
    error = facts.first_error
    if error is not None and not damaged:
        place = {"document": error.document, "byte": error.byte}
        where = ", ".join(f"{what} {number}" for what, number in place.items() if number is not None) or "index"
        raise CorruptStore(f"{pair.prefix} is damaged ({where}): {error.message}; run `typecase doctor {pair.prefix}`")
    return TokenStore(pair, layout, facts)


class TokenStore:
    """An open token set; get one from `open_tokens`. Usable as a context manager; arrays outlive it.

    `pair` names the files, `facts` is what one pass over the index found.
    """

    __slots__ = ("_by_place", "_bytes", "_layout", "_map", "facts", "pair")

    def __init__(self, pair: TokenPair, layout: Layout, facts: Survey) -> None:
        self.pair = pair
        self.facts = facts
        self._layout = layout
        self._map: mmap.mmap | None = map_file(pair.bin)
        self._bytes: npt.NDArray[np.uint8] | None = (
            np.frombuffer(self._map, np.uint8) if self._map is not None else np.zeros(0, np.uint8)
        )
        self._by_place: tuple[npt.NDArray[np.int64], ...] | None = None

    # What the set is.

    @property
    def layout(self) -> Layout:
        """What the `.idx` says, as it stands on disk."""
        return self._layout

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._layout.dtype

    @property
    def num_sequences(self) -> int:
        return self._layout.num_sequences

    @property
    def num_documents(self) -> int:
        return self._layout.num_documents

    @property
    def num_tokens(self) -> int:
        """Tokens in all readable sequences; overlapping ones count twice."""
        return self.facts.num_tokens

    @property
    def lengths(self) -> npt.NDArray[np.integer]:
        """Tokens of every sequence (sequences,): i32, mapped, read-only, unaligned (i64 for TNTIDX).

        Compiled code wants an aligned copy, `np.array(store.lengths)`.
        """
        return self._layout.lengths

    @property
    def pointers(self) -> npt.NDArray[np.int64]:
        """First byte of every sequence (sequences,): mapped, read-only, unaligned."""
        return self._layout.pointers

    @property
    def document_index(self) -> npt.NDArray[np.int64]:
        """Document d is sequences [index[d], index[d + 1]); (documents + 1,), made up where a merge lost it."""
        return np.arange(self.num_sequences + 1) if self._layout.lacks_documents else self._documents()

    @property
    def modes(self) -> npt.NDArray[np.int8] | None:
        """Mode of every sequence of a multimodal set: 0 text, 1 image, others the user's; None for text."""
        return self._layout.modes

    def document_lengths(self, docs: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
        """Tokens of every document (documents,), or of each of `docs`."""
        if docs is not None:
            sequences, bounds = self._sequences_of(_ids("document", docs, self.num_documents))
            ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.lengths[sequences], dtype=np.int64)))
            return np.diff(ends[bounds])
        if self.facts.one_to_one:
            return self.lengths.astype(np.int64)
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.lengths, dtype=np.int64)))
        return np.diff(ends[self.document_index])

    def whole(self, docs: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which of `docs` lie within the `.bin` with all their sequences: all of them, unless the set is damaged."""
        sequences, bounds = self._sequences_of(_ids("document", docs, self.num_documents))
        lengths, pointers = self.lengths[sequences].astype(np.int64), self.pointers[sequences]
        readable = is_readable(lengths, pointers, item_bytes=self.dtype.itemsize, bin_bytes=len(self._data()))
        bad = np.diff(np.concatenate((np.zeros(1, np.int64), np.cumsum(~readable)))[bounds])
        return np.equal(bad, 0)

    def fingerprint(self) -> str:
        """Names the bytes of both files, wherever they lie; see `token_fingerprint`."""
        return fingerprint(self.pair)

    # Reading.

    def read(self, doc: int, span: Span | None = None) -> npt.NDArray[Any]:
        """The tokens of document `doc`, or of `span` within it; its sequences end to end, a document without any is empty.

        Raises BadQuery when there is no such document or the span leaves it.
        """
        _check("document", doc, self.num_documents)
        first, last = (doc, doc + 1) if self.facts.one_to_one else map(int, self._documents()[doc : doc + 2])
        if last - first == 1:
            return self.read_sequence(first) if span is None else self.read_sequence(first, span.start, span.stop)
        tokens = self.read_spans(*self._whole(np.arange(first, last)))[0]
        if span is not None and span.stop > len(tokens):
            raise BadQuery(f"document {doc} has {len(tokens)} tokens, [{span.start}, {span.stop}) leaves it")
        return tokens if span is None else tokens[span.start : span.stop].copy()

    def read_sequence(self, sequence: int, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """Tokens [start, stop) of `sequence`. Raises BadQuery when there is no such sequence or the range leaves it."""
        _check("sequence", sequence, self.num_sequences)
        length = int(self.lengths[sequence])
        stop = length if stop is None else stop
        if not 0 <= start <= stop <= length:
            raise BadQuery(f"sequence {sequence} has {length} tokens, [{start}, {stop}) leaves it")
        item_bytes = self.dtype.itemsize
        begin = int(self.pointers[sequence]) + start * item_bytes
        data = self._data()
        if begin < 0 or begin + (stop - start) * item_bytes > len(data):
            self._raise_outside(sequence)
        return data[begin : begin + (stop - start) * item_bytes].copy().view(self.dtype)

    def read_many(self, docs: npt.ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """The tokens of `docs` end to end, in the given order, and their offsets (docs + 1,). Raises BadQuery as `read`."""
        sequences, bounds = self._sequences_of(_ids("document", docs, self.num_documents))
        tokens, offsets = self.read_spans(*self._whole(sequences))
        return tokens, offsets[bounds]

    def read_spans(
        self, sequences: npt.ArrayLike, starts: npt.ArrayLike, lengths: npt.ArrayLike
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """`lengths[k]` tokens from token `starts[k]` of `sequences[k]`, end to end in this order, and offsets (spans + 1,).

        Raises BadQuery when there is no such sequence or a span leaves its sequence.
        """
        wanted = _ids("sequence", sequences, self.num_sequences)
        begins, counts = (_flat_integers("token", values).astype(np.int64) for values in (starts, lengths))
        if not begins.shape == counts.shape == wanted.shape:
            raise BadQuery(
                f"{wanted.shape[0]} sequences need as many starts and lengths, got {begins.shape} and {counts.shape}"
            )
        held = self.lengths[wanted].astype(np.int64)
        wrong = (begins < 0) | (counts < 0) | (begins > held) | (counts > held - begins)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise BadQuery(
                f"sequence {wanted[k]} has {held[k]} tokens, {counts[k]} from token {begins[k]} leave it"
                f" ({np.count_nonzero(wrong)} such spans)"
            )
        data, item_bytes, pointers = self._data(), self.dtype.itemsize, self.pointers[wanted]
        readable = is_readable(begins + counts, pointers, item_bytes=item_bytes, bin_bytes=len(data))
        if not readable.all():
            self._raise_outside(int(wanted[np.argmin(readable)]))
        places, sizes = pointers + begins * item_bytes, counts * item_bytes
        if self._map is not None and len(sizes):
            apart = (int(places.max()) - int(places.min())) / len(places)
            scattered = apart > _FAR_BYTES and sizes.mean() < _SHORT_BYTES
            self._map.madvise(mmap.MADV_RANDOM if scattered else mmap.MADV_NORMAL)
        out, offsets = gather(data, places, sizes)
        return out.view(self.dtype), offsets // item_bytes

    def blocks(self, max_tokens: int = 1 << 22) -> Iterator[Block]:
        """Every readable token in the order of the sequences, `max_tokens` at a time; a longer sequence is cut.

        A sequence of length 0 is a run of no tokens. Pages that were read are given back, so the resident set stays small.
        """
        for start in range(0, self.num_sequences, _CHUNK):
            lengths, pointers = chunk_of(self._layout, start, start + _CHUNK)
            readable = is_readable(lengths, pointers, item_bytes=self.dtype.itemsize, bin_bytes=len(self._data()))
            yield from self._blocks_of(start + np.flatnonzero(readable), lengths[readable], max_tokens)

    def _blocks_of(self, own: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], max_tokens: int) -> Iterator[Block]:
        parts = np.maximum(1, -(-lengths // max_tokens))
        sequences, begins = np.repeat(own, parts), np.repeat(np.cumsum(parts) - parts, parts)
        starts = (np.arange(len(sequences)) - begins) * max_tokens
        counts = np.minimum(np.repeat(lengths, parts) - starts, max_tokens)
        ends = np.cumsum(counts)
        first = 0
        while first < len(sequences):
            base = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, base + max_tokens, side="right")))
            run = slice(first, last)
            tokens, offsets = self.read_spans(sequences[run], starts[run], counts[run])
            if self._map is not None:
                self._map.madvise(mmap.MADV_DONTNEED)
            yield Block(sequences[run], starts[run], tokens, offsets)
            first = last

    # From a position to what stands there.

    def sequence_of(self, pos: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The sequence that holds item `pos` of the `.bin`, for every position; same shape as `pos`.

        Where sequences overlap, the one that begins last. Raises BadQuery for a position in no sequence.
        """
        wanted = np.asarray(pos)
        flat = _ids("position", wanted.reshape(-1), len(self._data()) // self.dtype.itemsize)
        places = flat * self.dtype.itemsize
        if self.facts.contiguous:
            return last_not_above(self.pointers, places).reshape(wanted.shape)
        starts, stops, reach, order = self._places()
        if not len(starts) and len(flat):
            raise BadQuery(f"position {flat[0]} of {self.pair.bin} is in no sequence: there is none to read")
        found = np.searchsorted(starts, places, side="right") - 1
        for k in np.flatnonzero((found < 0) | (stops[found] <= places)):
            j = int(found[k])
            while j >= 0 and stops[j] <= places[k] < reach[j]:
                j -= 1
            if j < 0 or stops[j] <= places[k]:
                raise BadQuery(f"position {flat[k]} (byte {places[k]}) of {self.pair.bin} is in no sequence")
            found[k] = j
        return order[found].reshape(wanted.shape)

    def document_of(self, pos: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The document that holds item `pos` of the `.bin`, for every position; errors as `sequence_of`."""
        sequences = self.sequence_of(pos)
        return sequences if self.facts.one_to_one else last_not_above(self._documents(), sequences)

    def _places(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Starts, stops, farthest stop so far, and numbers of the readable sequences, by rising place (shorter first)."""
        if self._by_place is None:
            lengths, starts = chunk_of(self._layout, 0, self.num_sequences)
            stops = starts + lengths * self.dtype.itemsize
            order = np.lexsort((lengths, starts))
            keep = is_readable(lengths, starts, item_bytes=self.dtype.itemsize, bin_bytes=len(self._data()))
            order = order[keep[order]]
            self._by_place = (starts[order], stops[order], np.maximum.accumulate(stops[order]), order)
        return self._by_place

    # Life.

    def close(self) -> None:
        """Lets go of the `.bin`; arrays already handed out stay valid."""
        self._bytes, self._map = None, None

    def __enter__(self) -> TokenStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        size = f"{self.num_documents} documents, {self.num_sequences} sequences, {self.num_tokens} tokens, {self.dtype}"
        return f"<TokenStore {self.pair.prefix}: {size}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.pair.idx, self.facts.first_error is not None)

    def _data(self) -> npt.NDArray[np.uint8]:
        if self._bytes is None:
            raise BadQuery(f"{self.pair.prefix} was closed; open it again")
        return self._bytes

    def _documents(self) -> npt.NDArray[np.int64]:
        for finding in self.facts.findings:
            if finding.code == "document-index":
                raise CorruptStore(
                    f"{self.pair.idx}: {finding.message}; read by sequence, or run `typecase doctor {self.pair.idx}`"
                )
        return self._layout.document_index

    def _sequences_of(self, docs: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The sequences of `docs`, document after document, and where each document's begin (docs + 1,)."""
        if self.facts.one_to_one:
            return docs, np.arange(len(docs) + 1)
        index = self._documents()
        first, counts = index[docs], index[docs + 1] - index[docs]
        bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        return np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], counts), bounds

    def _whole(self, sequences: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        return sequences, np.zeros(len(sequences), np.int64), self.lengths[sequences]

    def _raise_outside(self, sequence: int) -> None:
        raise CorruptStore(
            f"sequence {sequence} of {self.pair.prefix} lies outside the .bin of {len(self._data())} bytes"
            f" ({self.lengths[sequence]} tokens from byte {self.pointers[sequence]}); run `typecase doctor {self.pair.prefix}`"
        )


def _reopen(path: Path, damaged: bool) -> TokenStore:
    return open_tokens(path, damaged=damaged)


def _check(what: str, number: int, limit: int) -> None:
    if not 0 <= number < limit:
        _ids(what, [number], limit)


def _ids(what: str, values: npt.ArrayLike, limit: int) -> npt.NDArray[np.int64]:
    """`values` as int64 (n,), each in [0, limit). Raises BadQuery with the first few that are not; none counts from the end."""
    ids = _flat_integers(what, values)
    wrong = (ids < 0) | (ids >= limit)
    num_wrong = int(np.count_nonzero(wrong))
    if num_wrong:
        some = ", ".join(map(str, ids[wrong][:5].tolist())) + (f" and {num_wrong - 5} more" if num_wrong > 5 else "")
        raise BadQuery(f"there is no {what} {some}: " + (f"they go from 0 to {limit - 1}" if limit else "the set has none"))
    return ids.astype(np.int64)


def _flat_integers(what: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise BadQuery(f"{what} numbers must be a flat list of integers, got {array.dtype} of shape {array.shape}")
    return array
