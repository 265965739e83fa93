"""Layout: the files of an index, what its manifest says of them, and how a shard is written.

    shard-00000.sa           positions of all suffixes in order, uint32, counted from the first token of the shard
    shard-00000.keys.npy     the first tokens of every 32nd suffix in 64 bits
    shard-00000.ends.npy     a bit for every token: its document ends with it
    shard-00000.marks.npy    a bit for every suffix: it begins with another two tokens than the one before it
    shard-00000.ids.npy      the ids that occur, and
    shard-00000.first.npy    where the suffixes that begin with each begin; both empty where nearly every token is another
    tokens.bin               the tokens end to end, only for a set whose sequences do not lie so in its own .bin

A shard is a run of whole documents. 4 + 1/4 + 1/8 + 1/8 bytes a token, and 12 to 16 for each id that occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.suffix.build import suffix_array
from typecase.core.suffix.marks import mark_changes
from typecase.core.suffix.tables import Suffixes, digit_bits, end_bits, first_tokens, sample_keys
from typecase.errors import CorruptStore, FixInput
from typecase.store.atomic import atomic_path

FORMAT = 2
FLAT = "tokens.bin"
MOST_TOKENS = (1 << 32) - 1
_FEW_IDS, _TOKENS_AN_ID = 1 << 16, 64


@dataclass(frozen=True, slots=True)
class Shard:
    """Documents [first_doc, last_doc), tokens [first_token, last_token) of the documents laid end to end."""

    first_doc: int
    last_doc: int
    first_token: int
    last_token: int

    @property
    def num_tokens(self) -> int:
        return self.last_token - self.first_token


@dataclass(frozen=True, slots=True)
class Facts:
    """What an index says of the token set that it was made for."""

    fingerprint: str
    """Of both files of the set; see `store.tokens.fingerprint`."""
    probe: str
    """Hash of the sizes and of a few blocks: a check that costs milliseconds."""
    dtype: np.dtype[Any]
    num_tokens: int
    num_documents: int
    flat: bool
    """Whether the tokens are those of `tokens.bin` in the index, not of the set's own `.bin`."""
    shards: tuple[Shard, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "layout": FORMAT,
            "fingerprint": self.fingerprint,
            "probe": self.probe,
            "dtype": self.dtype.name,
            "tokens": self.num_tokens,
            "documents": self.num_documents,
            "flat": self.flat,
            "fence": "document",
            "end_of_document_token": "a token like any other: the last of its document",
            "shards": [[s.first_doc, s.last_doc, s.first_token, s.last_token] for s in self.shards],
        }

    @classmethod
    def of(cls, decision: Mapping[str, Any], where: Path) -> Facts:
        """Raises CorruptStore for a decision that is not of this layout."""
        try:
            if decision["layout"] != FORMAT:
                raise CorruptStore(f"{where} has index layout {decision['layout']}, this typecase reads {FORMAT}: index again")
            shards = tuple(Shard(*map(int, four)) for four in decision["shards"])
            return cls(
                decision["fingerprint"],
                decision["probe"],
                np.dtype(decision["dtype"]),
                decision["tokens"],
                decision["documents"],
                decision["flat"],
                shards,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptStore(f"{where} lacks or garbles what an index says of its set ({error!r}): index again") from None


def cut_shards(lengths: npt.NDArray[np.int64], most: int) -> tuple[Shard, ...]:
    """Runs of whole documents of up to `most` tokens; a longer document stands alone. Raises FixInput above 2^32 - 1 tokens."""
    most = min(most, MOST_TOKENS)
    ends = np.cumsum(lengths, dtype=np.int64)
    shards, doc, token = [], 0, 0
    while doc < len(lengths):
        last = max(doc + 1, int(np.searchsorted(ends, token + most, side="right")))
        stop = int(ends[last - 1])
        if stop - token > MOST_TOKENS:
            raise FixInput(f"document {doc} has {stop - token:,} tokens; a shard of the index holds {MOST_TOKENS:,} at most")
        shards.append(Shard(doc, last, token, stop))
        doc, token = last, stop
    return tuple(shard for shard in _merged(shards) if shard.num_tokens)


def _merged(shards: list[Shard]) -> list[Shard]:
    """A shard without tokens is joined to the one before it, or behind it: every document is in one."""
    out: list[Shard] = []
    for shard in shards:
        if out and (not shard.num_tokens or not out[-1].num_tokens):
            shard = Shard(out[-1].first_doc, shard.last_doc, out[-1].first_token, shard.last_token)
            out.pop()
        out.append(shard)
    return out


def shard_files(number: int) -> tuple[str, ...]:
    """Names of the array, keys, ends, marks, ids and first ranks of a shard."""
    stem = f"shard-{number:05d}"
    return (f"{stem}.sa", f"{stem}.keys.npy", f"{stem}.ends.npy", f"{stem}.marks.npy", f"{stem}.ids.npy", f"{stem}.first.npy")


def write_shard(out: Path, number: int, tokens: npt.NDArray[Any], ends: npt.NDArray[np.int64], *, threads: int) -> list[str]:
    """Sorts the suffixes of one shard, and writes its files; `ends` are exclusive, from its first token. Returns the names."""
    if tokens.size and int(tokens.min()) < 0:
        raise FixInput(
            f"token {int(np.argmax(tokens < 0))} of shard {number} is negative: repair the set with `typecase doctor`"
        )
    positions = np.asarray(suffix_array(tokens, ends, threads=threads), np.dtype("<u4"))
    names = shard_files(number)
    with atomic_path(out / names[0]) as temporary:
        positions.tofile(temporary)
    bits = end_bits(ends, len(tokens))
    low, high = int(tokens[positions[0]]), int(tokens[positions[-1]])
    width = digit_bits(low, high)
    keys = sample_keys(tokens, positions, bits, low, width, 64 // width)
    marks = mark_changes(tokens, positions, bits, threads=threads)
    ids, first = first_tokens(tokens, positions, max(_FEW_IDS, len(tokens) // _TOKENS_AN_ID))
    for name, array in zip(names[1:], (keys, bits, marks, ids, first), strict=True):
        with atomic_path(out / name) as temporary, temporary.open("wb") as file:
            np.save(file, array)
    return list(names)


def read_shard(folder: Path, number: int, tokens: npt.NDArray[Any]) -> Suffixes:
    """Maps the files of a shard whose text is `tokens`. Raises CorruptStore when one is missing or has another size."""
    names = shard_files(number)
    path = folder / names[0]
    if not path.is_file() or path.stat().st_size != 4 * len(tokens):
        found = f"has {path.stat().st_size} bytes" if path.is_file() else "is missing"
        raise CorruptStore(f"{path} {found}, expected {4 * len(tokens)}: index again")
    positions = np.memmap(path, np.dtype("<u4"), "r")
    try:
        keys, ends, marks, ids, first = (np.load(folder / name, mmap_mode="r") for name in names[1:])
    except (OSError, ValueError) as error:
        raise CorruptStore(f"shard {number} of {folder} cannot be read ({error}): index again") from None
    suffixes = Suffixes(tokens, positions, ends, keys, marks, ids if len(ids) else None, first if len(ids) else None)
    words = (len(tokens) + 63) // 64
    sizes = (len(keys), len(ends), len(marks)) == ((len(tokens) + 31) // 32, words, words)
    if not sizes or len(first) not in (0, len(ids) + 1):
        raise CorruptStore(f"shard {number} of {folder} has files that do not belong together: index again")
    return suffixes
