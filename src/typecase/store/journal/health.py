"""Health: what a journal says of the bytes of its set, for whoever finds that they are not what a manifest promised.

    edited_in_place    the `.bin` holds the state of entry N, made by whom, when
    half_applied       an application in place was broken off: so many tokens as before, so many as after
    edited_only…       with those edits taken back, the set is what its manifest promises
    original_hash      the hash that the `.bin` would have with everything taken back, found without taking it back

Nothing is written and no lock is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from typecase.errors import NotFound
from typecase.store.atomic import content_hash
from typecase.store.journal.inplace import Runs, how_far, overlay_of
from typecase.store.journal.journal import Journal
from typecase.store.journal.ledger import ROOT, open_ledger
from typecase.store.journal.opening import journal_path
from typecase.store.manifest import read_manifest
from typecase.store.tokens.fingerprint import fingerprint_of, promised_fingerprint
from typecase.store.tokens.pair import TokenPair, find_pair
from typecase.store.tokens.store import open_tokens

_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class InPlace:
    """The `.bin` holds the set as of `entry` of the journal at `journal`; `author` wrote it there at `time`."""

    journal: Path
    entry: int
    author: str
    time: str

    def __str__(self) -> str:
        return f"edited in place by entry {self.entry} of {self.journal} ({self.author}, {self.time})"


@dataclass(frozen=True, slots=True)
class HalfApplied:
    """Writing entry `target` over `source` in place was broken off, or is going on.

    Of the tokens that differ, `num_before` are as before and `num_after` as after; `strange` names the first that is neither.
    """

    journal: Path
    source: int
    target: int
    author: str
    time: str
    num_before: int
    num_after: int
    strange: str | None

    def __str__(self) -> str:
        text = (
            f"writing entry {self.target} in place ({self.author}, {self.time}) was broken off: {self.num_before} tokens are as"
        )
        text += f" before, {self.num_after} as after"
        if self.strange is not None:
            return f"{text}, and {self.strange} is neither: something else changed the set; take a good copy of the .bin"
        return f"{text}; the next opening of {self.journal} for writing ends it"


def edited_in_place(path: Path | str, *, folder: Path | str | None = None) -> InPlace | None:
    """What is applied to the set at `path` in place; None for nothing, or where there is no journal."""
    file = journal_path(find_pair(path), folder)
    try:
        ledger = open_ledger(file, write=False)
    except NotFound:
        return None
    try:
        applied = int(ledger.fact("applied"))
        if applied == ROOT:
            return None
        last = [move for move in ledger.moves() if move.state == "done"]
        who, when = (last[-1].author, last[-1].time) if last else (ledger.entry(applied).author, ledger.entry(applied).time)
        return InPlace(file, applied, who, when)
    finally:
        ledger.close()


def half_applied(path: Path | str, *, folder: Path | str | None = None) -> HalfApplied | None:
    """An application in place that has begun and not ended; None when the set is whole, or has no journal."""
    pair = find_pair(path)
    file = journal_path(pair, folder)
    try:
        ledger = open_ledger(file, write=False)
    except NotFound:
        return None
    try:
        begun = ledger.begun()
        if begun is None:
            return None
        move, group = begun
        with open_tokens(pair.idx, damaged=True) as store:
            before, after, strange = how_far(store, overlay_of(group))
        return HalfApplied(file, move.source, move.target, move.author, move.time, before, after, strange)
    finally:
        ledger.close()


def original_hash(path: Path | str, *, folder: Path | str | None = None) -> str:
    """xxh3-128 of the `.bin` at `path` as it was found, before any entry was applied; reads all of it, changes nothing.

    Equal to the hash in the manifest when nothing but the journal changed the set.
    """
    pair = find_pair(path)
    with open_tokens(pair.idx) as store:
        ledger = open_ledger(journal_path(pair, folder), write=False)
        try:
            layer = Journal(store, ledger, None, "", str).overlay_to(ROOT)
        finally:
            ledger.close()
        return _hash(pair, Runs.of(store, layer))


def edited_only_in_place(path: Path | str, *, folder: Path | str | None = None) -> bool:
    """Whether the set at `path`, its edits in place taken back, is what its manifest promises; reads all of it."""
    pair = find_pair(path)
    if edited_in_place(pair.idx, folder=folder) is None or half_applied(pair.idx, folder=folder) is not None:
        return False
    promised = promised_fingerprint(pair, read_manifest(pair.idx.parent))
    return fingerprint_of(content_hash(pair.idx), original_hash(pair.idx, folder=folder)) == promised


def _hash(pair: TokenPair, runs: Runs) -> str:
    digest, waiting, done = xxhash.xxh3_128(), list(runs), 0
    at = 0
    with pair.bin.open("rb", buffering=0) as file:
        while data := file.read(_BLOCK_BYTES):
            block = np.frombuffer(data, np.uint8).copy()
            stop = done + len(block)
            while at < len(waiting) and waiting[at][0] < stop:
                place, first, last = waiting[at]
                low, high = max(place, done), min(place + last - first, stop)
                block[low - done : high - done] = np.frombuffer(runs.new[first + low - place : first + high - place], np.uint8)
                if place + last - first > stop:
                    break
                at += 1
            digest.update(block.data)
            done = stop
    return digest.hexdigest()
