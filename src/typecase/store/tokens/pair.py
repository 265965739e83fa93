"""TokenPair: the two files of a token set, how a path names them, and how they appear together.

    corpus_text_document          prefix
    corpus_text_document.bin      tokens
    corpus_text_document.idx      where every sequence lies; its presence marks a complete set
    tokens/<name>/                a folder that holds one pair, here `text_document`

Writing: both files grow under temporary names, are synced, and take their names `.bin` first, `.idx` last. A process that
dies leaves no `.idx`, so no reader takes a half-written set for a whole one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from typecase.errors import AlreadyExists, BadQuery, NotFound
from typecase.store.atomic import sync_file, sync_folder

SET_NAME = "text_document"
"""The name, without suffix, of the pair in a folder that typecase makes."""


@dataclass(frozen=True, slots=True)
class TokenPair:
    """Paths of the two files of one token set."""

    bin: Path
    idx: Path

    @classmethod
    def at(cls, prefix: Path | str) -> TokenPair:
        """The pair `prefix.bin`, `prefix.idx`; a dot in the prefix is part of the name."""
        prefix = Path(prefix)
        return cls(prefix.with_name(prefix.name + ".bin"), prefix.with_name(prefix.name + ".idx"))

    @property
    def prefix(self) -> Path:
        """The path that the training frameworks are given."""
        return self.idx.with_name(self.idx.name.removesuffix(".idx"))

    def same_files(self, other: TokenPair) -> bool:
        """Whether the two pairs share a file, under whatever names."""
        mine, theirs = ({os.path.realpath(p) for p in (pair.bin, pair.idx)} for pair in (self, other))
        return not mine.isdisjoint(theirs)


def find_pair(path: Path | str) -> TokenPair:
    """The pair that `path` names: a prefix, a `.bin`, an `.idx`, or a folder that holds exactly one pair.

    Raises NotFound when a file is missing, BadQuery when a folder holds several pairs.
    """
    path = Path(path)
    pair = TokenPair.at(path)
    if path.is_dir() and not pair.idx.is_file():
        return _pair_in(path)
    if not pair.idx.is_file() and path.suffix in (".bin", ".idx"):
        pair = TokenPair.at(path.with_suffix(""))
    missing = [file for file in (pair.idx, pair.bin) if not file.is_file()]
    if len(missing) == 2 and "@" in path.name and Path(str(path).rpartition("@")[0]).exists():
        raise NotFound(
            f"{path} is a set as its journal says, and this needs one that lies on disk: write it with `typecase edit write`"
        )
    if len(missing) == 2:
        raise NotFound(f"no token set at {path}: neither {pair.idx.name} nor {pair.bin.name} is in {path.parent}")
    if missing:
        other = pair.bin if missing == [pair.idx] else pair.idx
        raise NotFound(f"{missing[0]} is missing although {other.name} is there; copy both files of the set")
    return pair


def _pair_in(folder: Path) -> TokenPair:
    pairs = [TokenPair.at(idx.with_suffix("")) for idx in sorted(folder.glob("*.idx")) if not idx.name.startswith(".")]
    pairs = [pair for pair in pairs if pair.bin.is_file()]
    if not pairs:
        raise NotFound(f"{folder} holds no pair of .bin and .idx files; give the prefix of a token set")
    if len(pairs) > 1:
        names = ", ".join(pair.prefix.name for pair in pairs[:5])
        raise BadQuery(f"{folder} holds {len(pairs)} token sets ({names}{', …' if len(pairs) > 5 else ''}); name one of them")
    return pairs[0]


@contextmanager
def atomic_pair(prefix: Path | str) -> Iterator[TokenPair]:
    """Yields the temporary pair that becomes `prefix.bin` and `prefix.idx` when the block ends well, else is removed.

    Raises AlreadyExists when either file is there: a token set is never overwritten.
    """
    pair = TokenPair.at(prefix)
    for file in (pair.idx, pair.bin):
        if file.exists():
            raise AlreadyExists(f"{file} exists and is never overwritten; give another name or move it away")
    pair.bin.parent.mkdir(parents=True, exist_ok=True)
    temporary = TokenPair(*(file.with_name(f".{file.name}.{os.getpid()}.tmp") for file in (pair.bin, pair.idx)))
    try:
        yield temporary
        sync_file(temporary.bin)
        sync_file(temporary.idx)
        temporary.bin.replace(pair.bin)
        temporary.idx.replace(pair.idx)
        sync_folder(pair.bin.parent)
    finally:
        temporary.bin.unlink(missing_ok=True)
        temporary.idx.unlink(missing_ok=True)
