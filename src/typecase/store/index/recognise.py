"""Recognise: does this index belong to these bytes?

    probe    the sizes of both files and 256 blocks of 4 KB each, hashed: milliseconds, catches another set or a new build
    full     every byte, hashed: 0.1–0.3 s a GB, catches one flipped bit
    stamp    what a full look found, beside the index, with inode, size and times of change of both files

A file whose stamp still fits is taken as looked at: the kernel moves the time of change of an inode at every write, and no
program can set it back. Without a stamp (a copied index, another machine) the next opening takes the full look once. Where
the index lies on a read-only file system no stamp can be left; `check="probe"` then opens at once, at its word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import orjson
import xxhash

from typecase.errors import FingerprintMismatch
from typecase.store.atomic import write_json
from typecase.store.index.layout import Facts
from typecase.store.tokens.fingerprint import fingerprint
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


def recognise(pair: TokenPair, facts: Facts, folder: Path, check: Check) -> None:
    """Raises FingerprintMismatch when the set of `pair` is not the one that the index in `folder` was made for."""
    if probe(pair) != facts.probe:
        _refuse(pair, folder, "other sizes or blocks")
    signed = signature(pair)
    if check == "probe" or (check == "stamp" and _stamped(folder) == [facts.fingerprint, signed]):
        return
    found = fingerprint(pair)
    if found != facts.fingerprint:
        _refuse(pair, folder, f"fingerprint {found}, not {facts.fingerprint}")
    try:
        write_json(folder / STAMP, [facts.fingerprint, signed], sync=False)
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
