"""Merging the contents of all parts, one range of hashes after the other.

    part 0   |..a...c|.d....|       sorted by hash, each content once
    part 1   |..a.b..|.d...f|
              range 0 range 1       a range is a slice of every part: what is equal lies in the same range

Memory is one range, whatever the corpus; a content that fills half of it is still one row a part.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from typecase.core.clusters import exact_clusters
from typecase.core.selection.keys import Digest, id_words
from typecase.recipe.columns import Arrays, map_columns, write_columns

LARGEST = 10
"""Clusters that the decision names."""

_COLUMNS = ("hi", "lo", "length", "ids", "score", "source", "size")


@dataclass(frozen=True, slots=True)
class Merged:
    """lost: candidates that lose to another part, by source; digest: of all survivors; largest: (doc_id, copies)."""

    lost: Counter[str]
    digest: Digest
    largest: list[tuple[str, int]]


def merge_contents(contents: Sequence[Path], lost: Sequence[Path]) -> Merged:
    """Merges the contents files of all parts, in rising order of their ids, into one file of losers per path of `lost`.

    A contents file has hi, lo, length, ids, score, source, size, sorted by hash, with the names of sources as its note.
    A file of losers has part, content (a row of that part's contents) and ids (the survivor), sorted by part.
    """
    by_source, digest, largest = Counter[str](), Digest(), list[tuple[str, int]]()
    for number, path in enumerate(lost):
        one, names = _range_of(contents, number, len(lost))
        found = exact_clusters(one["hi"], one["lo"], one["length"], one["score"])
        winner = found.survivor[found.cluster]
        loses = np.flatnonzero(winner != np.arange(len(winner)))
        write_columns(path, {"part": one["part"][loses], "content": one["content"][loses], "ids": one["ids"][winner[loses]]})
        for code, count in zip(*np.unique(one["source"][loses], return_counts=True), strict=True):
            by_source[names[code]] += int(count)
        hi, lo = id_words(one["ids"][found.survivor])
        digest += Digest.of(hi, lo, np.ones(len(hi), np.bool_))
        largest = _largest(largest, one, found.cluster, found.survivor)
    return Merged(by_source, digest, largest)


def _range_of(contents: Sequence[Path], number: int, num_ranges: int) -> tuple[Arrays, list[str]]:
    """The slices of one range of hashes, part after part; sources are renumbered over all parts, by the names returned."""
    low, high = ((n << 64) // num_ranges for n in (number, number + 1))
    names: dict[str, int] = {}
    pieces: list[Arrays] = [_EMPTY]
    for part, path in enumerate(contents):
        columns, sources = map_columns(path)
        start = int(np.searchsorted(columns["hi"], np.uint64(low)))
        stop = int(np.searchsorted(columns["hi"], np.uint64(high))) if high < 1 << 64 else len(columns["hi"])
        piece = {name: columns[name][start:stop] for name in _COLUMNS}
        code = np.array([names.setdefault(name, len(names)) for name in sources], np.int32)
        piece["source"] = code[piece["source"]] if len(code) else piece["source"]
        piece["part"] = np.full(stop - start, part, np.int32)
        piece["content"] = np.arange(start, stop, dtype=np.int32)
        pieces.append(piece)
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in _EMPTY}, list(names)


_EMPTY: Arrays = {
    "hi": np.zeros(0, np.uint64),
    "lo": np.zeros(0, np.uint64),
    "length": np.zeros(0, np.int64),
    "ids": np.zeros((0, 16), np.uint8),
    "score": np.zeros(0, np.float64),
    "source": np.zeros(0, np.int32),
    "size": np.zeros(0, np.int64),
    "part": np.zeros(0, np.int32),
    "content": np.zeros(0, np.int32),
}


def _largest(
    known: list[tuple[str, int]], one: Arrays, cluster: NDArray[np.int64], survivor: NDArray[np.int64]
) -> list[tuple[str, int]]:
    sizes = np.zeros(len(survivor), np.int64)
    np.add.at(sizes, cluster, one["size"])
    floor = np.partition(sizes, -LARGEST)[-LARGEST] if len(sizes) > LARGEST else 0
    found = [(one["ids"][survivor[c]].tobytes().hex(), int(sizes[c])) for c in np.flatnonzero(sizes >= max(2, floor))]
    return heapq.nsmallest(LARGEST, known + found, key=lambda pair: (-pair[1], pair[0]))
