"""Recognise: does this index belong to these bytes?

    probe    the sizes of both files and 256 blocks of 4 KB each, hashed: milliseconds, catches another set or a new build
    full     every byte, hashed: 0.1–0.3 s a GB, catches one flipped bit
    stamp    what a full look found, beside the index, with inode, size and times of change of both files

Where the journal of the set has edited it in place, it is what lies under the edits that counts: with them taken back the bytes
must be those that were indexed. Then the index still serves, and what takes them back is given to whoever maps the text; a
change that is not the journal's is refused like any other. The stamp names the entry too. (An index may also be made of a set
that was edited before: then nothing is taken back.)

A file whose stamp still fits is taken as looked at: the kernel moves the time of change of an inode at every write, and no
program can set it back. Without a stamp (a copied index, another machine) the next opening takes the full look once. Where
the index lies on a read-only file system no stamp can be left; `check="probe"` then opens at once, at its word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import orjson
import xxhash

from typecase.core.edit.overlay import Overlay
from typecase.errors import CorruptStore, FingerprintMismatch, StaleEdit
from typecase.store.atomic import content_hash, write_json
from typecase.store.index.layout import Facts
from typecase.store.journal.health import original_hash
from typecase.store.journal.ledger import ROOT
from typecase.store.journal.opening import journal_path, open_journal
from typecase.store.tokens.fingerprint import fingerprint, fingerprint_of
from typecase.store.tokens.pair import TokenPair

Check = Literal["stamp", "full", "probe"]

STAMP = ".checked.json"
_NUM_BLOCKS, _BLOCK = 256, 4096


def probe(pair: TokenPair) -> str:
    """A hash of the sizes of both files and of blocks spread evenly over them."""
    digest = xxhash.xxh3_128()
    for path in (pair.idx, pair.bin):
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb", buffering=0) as file:
            for k in range(_NUM_BLOCKS):
                file.seek(max(0, size - _BLOCK) * k // (_NUM_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
                if size <= _BLOCK:
                    break
    return digest.hexdigest()


def recognise(pair: TokenPair, facts: Facts, folder: Path, check: Check) -> Overlay | None:
    """Raises FingerprintMismatch when the set of `pair` is not the one that the index in `folder` was made for.

    What comes back makes its `.bin` the one that was indexed; None where it is that as it lies.
    """
    applied = _applied(pair)
    if applied is None:
        _recognise_bare(pair, facts, folder, check)
        return None
    entry, taken_back = applied
    signed = signature(pair)
    bare, under = [facts.fingerprint, signed], [facts.fingerprint, signed, entry]
    stamped = _stamped(folder) if check != "full" else None
    if stamped == bare:
        return None
    if stamped == under:
        return taken_back
    idx_hash = content_hash(pair.idx)
    if fingerprint_of(idx_hash, original_hash(pair.idx)) == facts.fingerprint:
        _stamp(folder, under)
        return taken_back
    if fingerprint_of(idx_hash, content_hash(pair.bin)) != facts.fingerprint:
        _refuse(pair, folder, "also with the edits of its journal taken back")
    _stamp(folder, bare)
    return None


def _recognise_bare(pair: TokenPair, facts: Facts, folder: Path, check: Check) -> None:
    if probe(pair) != facts.probe:
        _refuse(pair, folder, "other sizes or blocks")
    signed = signature(pair)
    if check == "probe" or (check == "stamp" and _stamped(folder) == [facts.fingerprint, signed]):
        return
    found = fingerprint(pair)
    if found != facts.fingerprint:
        _refuse(pair, folder, f"fingerprint {found}, not {facts.fingerprint}")
    _stamp(folder, [facts.fingerprint, signed])


def _applied(pair: TokenPair) -> tuple[str, Overlay] | None:
    """What the journal beside the set has written into its `.bin`: the hash of the entry, and what takes it back.

    None where it has no journal that can be read, or nothing that differs is written.
    """
    if not journal_path(pair).is_file():
        return None
    try:
        with open_journal(pair.idx) as journal:
            taken_back = journal.overlay_to(ROOT)
            return (journal.ledger.entry(journal.applied).hash, taken_back) if len(taken_back) else None
    except (FingerprintMismatch, CorruptStore, StaleEdit):  # of another set, or broken: then the bytes speak for themselves
        return None


def _stamp(folder: Path, value: object) -> None:
    try:
        write_json(folder / STAMP, value, sync=False)
    except OSError:
        return  # a read-only place; the next opening looks again


def _refuse(pair: TokenPair, folder: Path, how: str) -> None:
    raise FingerprintMismatch(
        f"{folder} indexes another set than {pair.prefix} is now ({how}): its bytes changed, or it is another set. Run"
        f" `typecase index` on it again, into a new folder, or give the set that was indexed"
    )


def signature(pair: TokenPair) -> list[list[int]]:
    """What changes, for each of the two files, when a byte is written or the file replaced."""
    stats = [path.stat() for path in (pair.idx, pair.bin)]
    return [[s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns] for s in stats]


def _stamped(folder: Path) -> object:
    try:
        return orjson.loads((folder / STAMP).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
