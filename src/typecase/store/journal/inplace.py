"""In place: same-length edits written into the `.bin`, so that a training framework sees them with nothing changed.

    1  every touched token is what the journal expects        else refused, nothing changed
    2  what stands there and what will, to the journal        one transaction, on disk
    3  pwrite, run after run; fdatasync                       a crash here: the next opening does 3 and 4 again
    4  done, to the journal                                   one transaction, on disk

A disk that fails in step 3 makes the old tokens be written back. The system's own lock on the `.bin` keeps journals in other
folders out meanwhile. Price: four to six waits for the disk a call, for one edit or a hundred thousand.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from typecase.core.edit.edit import Ints
from typecase.core.edit.group import Group
from typecase.core.edit.overlay import Overlay
from typecase.errors import Conflict, FixInput, StaleEdit, TryAgain
from typecase.store.journal.ledger import Ledger
from typecase.store.tokens.pair import TokenPair
from typecase.store.tokens.store import TokenStore


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Where runs of tokens lie in the `.bin`, and their bytes before and after."""

    places: Ints
    bounds: Ints
    old: memoryview
    new: memoryview

    @classmethod
    def of(cls, store: TokenStore, layer: Overlay) -> Runs:
        size = store.dtype.itemsize
        places = store.pointers[layer.sequences] + layer.starts * size
        old, new = (np.ascontiguousarray(t, store.dtype).view(np.uint8).data for t in (layer.old, layer.new))
        return cls(places, layer.offsets * size, old, new)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Place and bounds of every run, by rising place."""
        order = np.argsort(self.places, kind="stable")
        columns = (self.places[order], self.bounds[:-1][order], self.bounds[1:][order])
        return zip(*(c.tolist() for c in columns), strict=True)


def overlay_of(group: Group) -> Overlay:
    spans = group.spans
    return Overlay(spans.sequences << 32 | spans.starts, spans.old_offsets, spans.old, spans.new)


def check_expected(store: TokenStore, layer: Overlay) -> None:
    """Raises StaleEdit when the `.bin` does not hold the `old` tokens of `layer`, naming the first place."""
    found, _ = store.read_spans(layer.sequences, layer.starts, layer.counts)
    wrong = np.flatnonzero(found != layer.old)
    if wrong.size:
        k = int(wrong[0])
        raise StaleEdit(
            f"{store.pair.bin}: {_place_of(layer, k)} is {found[k]}, the journal expects {layer.old[k]} ({len(wrong)}"
            " such tokens): something else changed the set since; nothing was changed: take a good copy of the .bin, or begin a"
            " new journal over the set as it is"
        )


def write_in_place(store: TokenStore, ledger: Ledger, layer: Overlay, source: int, target: int, author: str, time: str) -> None:
    """Brings the `.bin` from entry `source` to `target`, which differ by `layer`; see above.

    Raises StaleEdit, FixInput for a read-only file, Conflict when it is being written, TryAgain for a full or failing disk.
    """
    if not len(layer):
        with ledger.transaction():
            ledger.set_fact("applied", target)
        return
    _check_apart(store)
    with _writable(store.pair) as fd:
        check_expected(store, layer)
        with ledger.transaction():
            number = ledger.begin_move(source, target, [Group(layer.spans())], author, time)
        runs = Runs.of(store, layer)
        try:
            write_runs(fd, runs, runs.new)
        except OSError as error:
            _write_back(fd, runs, store, error)
            with ledger.transaction():
                ledger.end_move(number, "undone")
            raise TryAgain(
                f"{store.pair.bin} could not be written ({error.strerror}); every token is as it was: free some space, or see"
                " to the disk, and repeat"
            ) from error
        try:
            _end(ledger, number, target)
        except TryAgain as error:
            raise TryAgain(f"{store.pair.bin} was written; only the note of it was not: {error}") from error


def _write_back(fd: int, runs: Runs, store: TokenStore, error: OSError) -> None:
    try:
        write_runs(fd, runs, runs.old)
    except OSError:
        raise TryAgain(
            f"{store.pair.bin} could not be written ({error.strerror}) and not be restored either: the set is half applied,"
            " views of it are right, and the next opening of its journal for writing ends it; see to the disk"
        ) from error


def write_runs(fd: int, runs: Runs, data: memoryview) -> None:
    """Writes every run of `data` to its place, and forces them to disk."""
    for place, first, last in runs:
        while first < last:
            done = os.pwrite(fd, data[first:last], place)
            first, place = first + done, place + done
    os.fdatasync(fd)  # the size stays, so there is nothing else to force


def _end(ledger: Ledger, number: int, target: int) -> None:
    with ledger.transaction():
        ledger.end_move(number, "done")
        ledger.set_fact("applied", target)


def recover(store: TokenStore, ledger: Ledger) -> bool:
    """Ends a move that was begun and not ended; whether there was one.

    Forward: what was written ahead is written again. Raises StaleEdit, and leaves everything, where a byte is neither what
    it was nor what it was to be.
    """
    begun = ledger.begun()
    if begun is None:
        return False
    move, group = begun
    layer = overlay_of(group)
    with _writable(store.pair) as fd:
        strange = how_far(store, layer)[2]
        if strange is not None:
            raise StaleEdit(
                f"{store.pair.bin}: writing entry {move.target} in place was broken off, and since then {strange} was changed"
                " by something else; take a good copy of the .bin and open it again"
            )
        runs = Runs.of(store, layer)
        write_runs(fd, runs, runs.new)
        _end(ledger, move.id, move.target)
    return True


def how_far(store: TokenStore, layer: Overlay) -> tuple[int, int, str | None]:
    """How many tokens of `layer` stand in the `.bin` as before and as after, and the first that is neither, in words.

    A token may be torn: each of its bytes is judged alone.
    """
    found, _ = store.read_spans(layer.sequences, layer.starts, layer.counts)
    before, after, now = (t.astype(store.dtype).view(np.uint8) for t in (layer.old, layer.new, found))
    strange = np.flatnonzero((now != before) & (now != after))
    text = None
    if strange.size:
        text = _place_of(layer, int(strange[0]) // store.dtype.itemsize)
    return int(np.count_nonzero(found == layer.old)), int(np.count_nonzero(found == layer.new)), text


def _place_of(layer: Overlay, token: int) -> str:
    run = int(np.searchsorted(layer.offsets, token, side="right")) - 1
    return f"sequence {layer.sequences[run]}, token {layer.starts[run] + token - layer.offsets[run]}"


def _check_apart(store: TokenStore) -> None:
    """Raises Conflict where sequences share bytes: an edit of one would be an edit of the other."""
    if store.facts.contiguous:
        return
    lengths, starts = store.lengths.astype(np.int64), store.pointers.astype(np.int64)
    order = np.lexsort((lengths, starts))
    stops = (starts + lengths * store.dtype.itemsize)[order]
    reach = np.concatenate((np.zeros(1, np.int64), np.maximum.accumulate(stops)[:-1]))
    if np.any(reach > starts[order]):
        raise Conflict(
            f"sequences of {store.pair.prefix} share bytes, so an edit in place would change more than it says; write the"
            " view to a new set instead (materialise)"
        )


@contextmanager
def _writable(pair: TokenPair) -> Iterator[int]:
    try:
        fd = os.open(pair.bin, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY):
            raise
        raise FixInput(
            f"{pair.bin} cannot be written ({error.strerror}); nothing was changed: make it writable, or write the view to a"
            " new set (materialise)"
        ) from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"{pair.bin} is being edited in place through another journal; wait until that ends") from None
        yield fd
    finally:
        os.close(fd)
