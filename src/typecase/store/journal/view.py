"""EditedTokens: a token set as its journal says it is, read like any other; nothing on disk changes.

    the set          [ seq 0 ][ seq 1 ][ seq 2 ]
    the journal      seq 1, tokens [4, 6) replaced; seq 2 longer by 3; a document before seq 1
    the view         [ seq 0 ][ new ][ seq 1' ][ seq 2'    ]          numbered anew, seq 1' over the bytes of seq 1

A `TokenStore` to whoever reads. Same-length edits leave numbers, lengths and pointers as they are. After others the pointers
are those that the written-out set would have. A view is of one moment: later entries are not in it, and when the `.bin` is
edited in place beneath, it must be opened anew (`is_current`).

Price over the bare set: a bisection a span and a copy of the edited tokens; 8 bytes a sequence once documents came or went, 12
once a length changed; sequences of changed length are held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.bisect import last_not_above
from typecase.core.edit.overlay import Overlay
from typecase.core.edit.state import State
from typecase.errors import BadQuery
from typecase.store.manifest import digest
from typecase.store.tokens.damage import Survey
from typecase.store.tokens.idx import Layout
from typecase.store.tokens.store import Block, TokenStore

Ints = npt.NDArray[np.int64]
_CHUNK = 1 << 18


class EditedTokens(TokenStore):
    """A view; get one from `Journal.view` or `open_edited`.

    `entry` is what it shows; `moved` says whether lengths or documents differ from the set's.
    """

    __slots__ = ("_base", "_doc_keys", "_held", "_keys", "_name", "_owned", "_reopen", "_state", "_version", "entry", "moved")

    def __init__(
        self,
        base: TokenStore,
        state: State,
        entry: int,
        name: str,
        *,
        version: Callable[[], object] | None = None,
        owned: bool = False,
        reopen: tuple[Any, ...] | None = None,
    ) -> None:
        self.pair = base.pair
        self.entry = entry
        self._base, self._state, self._name, self._owned, self._reopen = base, state, name, owned, reopen
        self._map, self._bytes, self._by_place = base._map, base._bytes, None
        self._version = (version, version() if version else None)
        self.moved = not state.same_length
        self._held = np.array(sorted(state.held), np.int64)
        self._keys: Ints | None = None
        self._doc_keys: Ints | None = None
        self.facts, self._layout = (base.facts, base.layout) if not self.moved else self._rearranged()

    # What the set is.

    def _rearranged(self) -> tuple[Survey, Layout]:
        base, state = self._base, self._state
        index = base.document_index.astype(np.int64)
        lengths, modes = base.lengths.astype(np.int64), base.modes
        if not state.outline.untouched:
            self._doc_keys = state.outline.documents()
            self._keys, counts = state.outline.sequences(self._doc_keys, index)
            index = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
            own = self._keys < base.num_sequences
            numbers = np.where(own, self._keys, 0)
            lengths = np.where(own, lengths[numbers], 0) if len(lengths) else np.zeros(len(numbers), np.int64)
            modes = np.where(own, modes[numbers], 0).astype(np.int8) if modes is not None else None
        for key, place in self._held_places():
            lengths[place] = len(state.held[key])
        ends = np.cumsum(lengths)
        size = base.dtype.itemsize
        layout = replace(
            base.layout,
            header=replace(base.layout.header, num_sequences=len(lengths), num_entries=len(index)),
            lengths=lengths.astype(np.int32),
            pointers=np.concatenate((np.zeros(1, np.int64), ends[:-1])) * size if len(ends) else np.zeros(0, np.int64),
            document_index=index,
            modes=modes,
        )
        total = int(ends[-1]) if len(ends) else 0
        facts = Survey(
            num_tokens=total,
            num_empty=int(np.count_nonzero(lengths == 0)),
            longest=int(lengths.max()) if len(lengths) else 0,
            contiguous=True,
            one_to_one=len(index) == len(lengths) + 1 and np.array_equal(index, np.arange(len(index))),
            end_byte=total * size,
            findings=(),
        )
        return facts, layout

    def _held_places(self) -> Iterator[tuple[int, int]]:
        """Key and number of every held sequence that is seen."""
        held = self._held
        if self._keys is None:
            yield from zip(held.tolist(), held.tolist(), strict=True)
            return
        for place in np.flatnonzero(np.isin(self._keys, held)).tolist():
            yield int(self._keys[place]), place

    @property
    def document_index(self) -> Ints:
        return self._layout.document_index if self.moved else super().document_index

    @property
    def base(self) -> TokenStore:
        """The set beneath, as it lies."""
        return self._base

    @property
    def renumbered(self) -> bool:
        """Whether documents came or went, so that some have other numbers than in the set."""
        return self._doc_keys is not None

    @property
    def num_given(self) -> int:
        """Documents of the set beneath; keys from there on are of inserted ones."""
        return self._base.num_documents

    def keys_of(self, sequences: Ints) -> Ints:
        """The keys under which the journal knows `sequences`."""
        return sequences if self._keys is None else self._keys[sequences]

    def document_key(self, doc: int) -> int:
        return doc if self._doc_keys is None else int(self._doc_keys[doc])

    def document_keys(self) -> Ints:
        """The key of every document: its number in the set, or beyond them for one that was inserted."""
        return np.arange(self.num_documents) if self._doc_keys is None else self._doc_keys

    def overlay(self) -> Overlay:
        """All same-length edits as one layer over the `.bin`. Raises BadQuery where lengths or documents differ."""
        layer = self._state.overlay()
        if layer is None:
            raise BadQuery(f"entry {self.entry} changes lengths or documents, so it is no overlay of {self.pair.bin}")
        return layer

    @property
    def is_current(self) -> bool:
        """Whether the bytes beneath are still those that the view was made over."""
        version, seen = self._version
        return version is None or version() == seen

    def whole(self, docs: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        return super().whole(docs) if not self.moved else np.ones(len(np.asarray(docs)), np.bool_)

    def fingerprint(self) -> str:
        """Names the set as it was found and the entry that is shown; equal views of other histories differ in it."""
        return digest(["view", self._name])

    # Reading.

    def read_sequence(self, sequence: int, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        if not 0 <= sequence < self.num_sequences:
            return super().read_spans([sequence], [0], [0])[0]  # raises
        length = int(self.lengths[sequence])
        stop = length if stop is None else stop
        if not 0 <= start <= stop <= length:
            raise BadQuery(f"sequence {sequence} has {length} tokens, [{start}, {stop}) leaves it")
        return self.read_spans(np.array([sequence]), np.array([start]), np.array([stop - start]))[0]

    def read_spans(
        self, sequences: npt.ArrayLike, starts: npt.ArrayLike, lengths: npt.ArrayLike
    ) -> tuple[npt.NDArray[Any], Ints]:
        if not self.moved:
            out, offsets = self._base.read_spans(sequences, starts, lengths)
            self._patch(out, offsets, np.asarray(sequences, np.int64), np.asarray(starts, np.int64))
            return out, offsets
        wanted, begins, counts = self._checked(sequences, starts, lengths)
        keys = self.keys_of(wanted)
        held = np.isin(keys, self._held)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        bare = np.flatnonzero(~held)
        tokens, own = self._base.read_spans(keys[bare], begins[bare], counts[bare])
        self._patch(tokens, own, keys[bare], begins[bare])
        if len(bare) == len(keys):
            return tokens, offsets
        out = np.empty(int(offsets[-1]), self.dtype)
        out[np.arange(len(tokens)) + np.repeat(offsets[bare] - own[:-1], counts[bare])] = tokens
        for k in np.flatnonzero(held).tolist():
            source = self._state.held[int(keys[k])]
            out[offsets[k] : offsets[k + 1]] = source[begins[k] : begins[k] + counts[k]]
        return out, offsets

    def _patch(self, out: npt.NDArray[Any], offsets: Ints, sequences: Ints, starts: Ints) -> None:
        for layer in self._state.layers:
            layer.patch(out, offsets, sequences, starts)

    def _checked(self, sequences: npt.ArrayLike, starts: npt.ArrayLike, lengths: npt.ArrayLike) -> tuple[Ints, Ints, Ints]:
        columns = [np.asarray(a) for a in (sequences, starts, lengths)]
        if any(c.ndim != 1 or (c.size and c.dtype.kind not in "iu") for c in columns) or len({c.shape for c in columns}) > 1:
            raise BadQuery("sequences, starts and lengths are flat lists of as many integers")
        wanted, begins, counts = (c.astype(np.int64) for c in columns)
        outside = (wanted < 0) | (wanted >= self.num_sequences)
        if outside.any():
            raise BadQuery(f"there is no sequence {wanted[outside][0]}: they go from 0 to {self.num_sequences - 1}")
        room = self.lengths[wanted].astype(np.int64)
        wrong = (begins < 0) | (counts < 0) | (begins > room) | (counts > room - begins)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise BadQuery(f"sequence {wanted[k]} has {room[k]} tokens, {counts[k]} from token {begins[k]} leave it")
        return wanted, begins, counts

    def blocks(self, max_tokens: int = 1 << 22) -> Iterator[Block]:
        if not self.moved:
            yield from super().blocks(max_tokens)
            return
        for start in range(0, self.num_sequences, _CHUNK):
            lengths = self.lengths[start : start + _CHUNK].astype(np.int64)
            yield from self._blocks_of(start + np.arange(len(lengths)), lengths, max_tokens)

    def sequence_of(self, pos: npt.ArrayLike) -> Ints:
        if not self.moved:
            return super().sequence_of(pos)
        wanted = np.asarray(pos, np.int64)
        if wanted.size and (int(wanted.min()) < 0 or int(wanted.max()) >= self.num_tokens):
            raise BadQuery(f"positions of the view go from 0 to {self.num_tokens - 1}, got {wanted.min()} … {wanted.max()}")
        return last_not_above(self.pointers, wanted.reshape(-1) * self.dtype.itemsize).reshape(wanted.shape)

    # Life.

    def close(self) -> None:
        """Lets go of the `.bin` where the view opened it itself."""
        if self._owned:
            self._base.close()
        super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._reopen is None:
            raise TypeError("this view cannot be sent to another process: open it there with open_edited")
        from typecase.store.journal.opening import open_edited

        return open_edited, self._reopen

    def __repr__(self) -> str:
        return f"<EditedTokens of entry {self.entry}: {super().__repr__()}>"
