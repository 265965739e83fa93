"""Near duplicates among the contents that exact comparison has left.

    survey   keys of every content, a column for each band               sketches-00000.arrow
    here     contents that share a key with another are candidates; their texts are read again, and only theirs
             candidates in keep order, each kept or joined to a kept one  near-lost-00000.arrow

Candidates are found one band at a time. Their shingles lie in mapped scratch files in keep order. Price: 24 bytes of memory
a content while a band is looked at, 200 bytes, and 25 bytes of scratch a word, a candidate; one thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typecase.core.minhash.crowd import count_shingles, own_sets, sort_sets
from typecase.core.minhash.keepers import Candidates, choose_keepers, number_buckets
from typecase.core.minhash.sketch import MIN_SHINGLES, Scheme, shingle_texts, sketch_sets, sketch_texts
from typecase.core.selection.keys import Digest, id_words
from typecase.recipe.columns import Arrays, map_columns, write_columns
from typecase.store import shards

_ROOMS = ("near-shingles.u64", "near-sets.u64", "near-own.u64", "near-frequent.u8")
LARGEST = 10
"""Kept documents that the decision names, those that most joined."""


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Of one part: its documents, the contents of the survey, their sketches, and where the losers are to be written."""

    documents: Path
    contents: Path
    sketches: Path
    lost: Path


@dataclass(frozen=True, slots=True)
class NearFound:
    """lost: contents that joined another, by source; gone: the digest of their documents; and what was looked at."""

    lost: Counter[str]
    gone: Digest
    candidates: int
    compared: int
    largest: list[tuple[str, int]]

    @property
    def total(self) -> int:
        return self.lost.total()


def write_sketches(part: Path, rows: NDArray[np.int64], scheme: Scheme, path: Path) -> None:
    """Sketches the documents `rows` of a part: columns `shingles` int32 and one uint64 a band, in the order of `rows`."""
    with shards.open_shard(part) as file:
        wanted = np.zeros(file.metadata.num_rows, np.bool_)
    wanted[rows] = True
    found = [(np.zeros((0, scheme.bands), np.uint64), np.zeros(0, np.int64))]
    start = 0
    for table in shards.read_groups(part, ["text"]):
        for chunk in table.column("text").chunks:
            values, offsets = shards.buffers_of(chunk)
            found.append(sketch_texts(values, offsets, wanted[start : start + len(chunk)], scheme))
            start += len(chunk)
    keys = np.concatenate([one for one, _ in found])[rows]
    counts = np.concatenate([counts for _, counts in found])[rows]
    columns: Arrays = {"shingles": counts.astype(np.int32)}
    for band in range(scheme.bands):
        columns[_band(band)] = np.ascontiguousarray(keys[:, band])
    write_columns(path, columns)


def find_near(
    parts: Sequence[PartFiles], exact: Sequence[Path], scheme: Scheme, threshold: float, crowd: int, scratch: Path
) -> NearFound:
    """Writes for every part which contents join which document: columns content, ids (whom) and similarity.

    `exact` are the files of losers to exact copies, as `merge_contents` writes them; those are no candidates.
    """
    picked = _candidates(parts, exact, scheme)
    rows = _in_keep_order(parts, picked)
    buckets = np.stack([_gathered(parts, rows, _band(band)) for band in range(scheme.bands)], axis=1)
    offsets = np.concatenate(([0], np.cumsum(rows["shingles"], dtype=np.int64)))
    shingles, sets, own = (_room(scratch / name, int(offsets[-1]), np.uint64) for name in _ROOMS[:3])
    frequent = _room(scratch / _ROOMS[3], int(offsets[-1]), np.uint8)
    _write_shingles(parts, rows, offsets, shingles)
    ends = sort_sets(shingles, offsets, sets)
    own_ends, crowded = own_sets(shingles, offsets, count_shingles(sets, ends), crowd, frequent, own)
    numbered = _numbered(buckets, np.diff(ends) >= MIN_SHINGLES)
    in_crowd = _numbered(sketch_sets(own, own_ends, scheme), np.diff(own_ends) >= MIN_SHINGLES)
    candidates = Candidates(shingles, frequent, offsets, sets, ends, own, own_ends, crowded)
    joined, similarity, compared = choose_keepers(candidates, np.concatenate((numbered, in_crowd), axis=1), threshold)
    for name in _ROOMS:
        (scratch / name).unlink(missing_ok=True)
    return _told(parts, exact, rows, joined, similarity, compared)


def _band(band: int) -> str:
    return f"band{band:02d}"


def _candidates(parts: Sequence[PartFiles], exact: Sequence[Path], scheme: Scheme) -> list[NDArray[np.int64]]:
    """For each part the contents that are alive and share a key with another that is."""
    alive = []
    for part in parts:
        sketches, _ = map_columns(part.sketches)
        alive.append(sketches["shingles"] >= MIN_SHINGLES)
    for path in exact:
        lost, _ = map_columns(path)
        for number in np.unique(lost["part"]).tolist():
            start, stop = np.searchsorted(lost["part"], [number, number + 1])
            alive[number][lost["content"][start:stop]] = False
    living = [np.flatnonzero(one) for one in alive]
    marked = np.zeros(sum(len(one) for one in living), np.bool_)
    for band in range(scheme.bands):
        columns = [map_columns(part.sketches)[0][_band(band)][one] for part, one in zip(parts, living, strict=True)]
        marked |= _shared(np.concatenate([np.zeros(0, np.uint64), *columns]))
    cuts = np.cumsum([len(one) for one in living])[:-1]
    return [one[mark] for one, mark in zip(living, np.split(marked, cuts), strict=True)]


def _shared(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which keys occur twice or more, bool (keys,)."""
    order = np.argsort(keys)
    same = keys[order][1:] == keys[order][:-1]
    found = np.zeros(len(keys), np.bool_)
    found[order[1:][same]] = True
    found[order[:-1][same]] = True
    return found


def _in_keep_order(parts: Sequence[PartFiles], picked: Sequence[NDArray[np.int64]]) -> Arrays:
    """Columns part, content, row, shingles, ids, source of all candidates: the best score first, then the smallest id.

    Sources are numbered anew over all parts in rising order of their names.
    """
    names = sorted({name for part in parts for name in map_columns(part.contents)[1]})
    pieces: list[Arrays] = [{**_NO_ROWS}]
    for number, (part, chosen) in enumerate(zip(parts, picked, strict=True)):
        contents, sources = map_columns(part.contents)
        code = np.array([names.index(name) for name in sources], np.int32)
        pieces.append(
            {
                "part": np.full(len(chosen), number, np.int32),
                "content": chosen,
                "row": contents["row"][chosen].astype(np.int64),
                "shingles": map_columns(part.sketches)[0]["shingles"][chosen],
                "ids": contents["ids"][chosen],
                "source": code[contents["source"][chosen]] if len(chosen) else np.zeros(0, np.int32),
                "score": contents["score"][chosen],
            }
        )
    rows = {name: np.concatenate([piece[name] for piece in pieces]) for name in _NO_ROWS}
    hi, lo = id_words(rows["ids"])
    order = np.lexsort((lo, hi, -np.where(np.isnan(rows["score"]), -np.inf, rows["score"])))
    return {name: column[order] for name, column in rows.items()}


_NO_ROWS: Arrays = {
    "part": np.zeros(0, np.int32),
    "content": np.zeros(0, np.int64),
    "row": np.zeros(0, np.int64),
    "shingles": np.zeros(0, np.int32),
    "ids": np.zeros((0, 16), np.uint8),
    "source": np.zeros(0, np.int32),
    "score": np.zeros(0, np.float64),
}


def _gathered(parts: Sequence[PartFiles], rows: Arrays, name: str) -> NDArray[np.uint64]:
    """A column of the sketches for all candidates, in their order."""
    found = np.zeros(len(rows["part"]), np.uint64)
    for number, part in enumerate(parts):
        mine = rows["part"] == number
        found[mine] = map_columns(part.sketches)[0][name][rows["content"][mine]]
    return found


def _numbered(keys: NDArray[np.uint64], usable: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Bucket numbers int32 (documents, bands); -1 for documents that cannot be compared and for those alone."""
    numbers = np.full(keys.shape, -1, np.int32)
    for band in range(keys.shape[1]):
        numbers[usable, band] = number_buckets(keys[usable, band])
    return numbers


def _room(path: Path, size: int, kind: type[np.generic]) -> NDArray[Any]:
    return np.memmap(path, kind, "w+", shape=(size,)) if size else np.zeros(0, kind)


def _write_shingles(parts: Sequence[PartFiles], rows: Arrays, offsets: NDArray[np.int64], out: NDArray[np.uint64]) -> None:
    """Reads the texts of the candidates again and writes their shingles where keep order wants them."""
    for number, part in enumerate(parts):
        mine = np.flatnonzero(rows["part"] == number)
        mine = mine[np.argsort(rows["row"][mine])]
        at, start = 0, 0
        for table in shards.read_groups(part.documents, ["text"]) if len(mine) else ():
            for chunk in table.column("text").chunks:
                wanted = np.zeros(len(chunk), np.bool_)
                stop = int(np.searchsorted(rows["row"][mine], start + len(chunk)))
                wanted[rows["row"][mine[at:stop]] - start] = True
                found, _ = shingle_texts(*shards.buffers_of(chunk), wanted)
                first = 0
                for rank in mine[at:stop].tolist():
                    size = int(offsets[rank + 1] - offsets[rank])
                    out[offsets[rank] : offsets[rank + 1]] = found[first : first + size]
                    first += size
                at, start = stop, start + len(chunk)


def _told(
    parts: Sequence[PartFiles],
    exact: Sequence[Path],
    rows: Arrays,
    joined: NDArray[np.int64],
    similarity: NDArray[np.float64],
    compared: int,
) -> NearFound:
    loses = np.flatnonzero(joined != np.arange(len(joined)))
    number, content, loser = _with_copies(exact, rows, loses)
    for task, part in enumerate(parts):
        mine = number == task
        whom = joined[loser[mine]]
        columns = {"content": content[mine], "ids": rows["ids"][whom], "similarity": similarity[loser[mine]]}
        write_columns(part.lost, columns)
    names = sorted({name for part in parts for name in map_columns(part.contents)[1]})
    lost = Counter({names[code]: int(n) for code, n in zip(*np.unique(rows["source"][loses], return_counts=True), strict=True)})
    gone = Digest.of(*id_words(rows["ids"][loses]), np.ones(len(loses), np.bool_))
    keepers, sizes = np.unique(joined[loses], return_counts=True)
    largest = [(rows["ids"][k].tobytes().hex(), int(n)) for k, n in zip(keepers, sizes, strict=True)]
    largest.sort(key=lambda pair: (-pair[1], pair[0]))
    return NearFound(lost, gone, len(joined), compared, largest[:LARGEST])


def _with_copies(
    exact: Sequence[Path], rows: Arrays, loses: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Part, content and candidate of all that go: the candidates that lose, and their exact copies in other parts."""
    found = [(rows["part"][loses].astype(np.int64), rows["content"][loses], loses)]
    ids = _sortable(rows["ids"][loses])
    order = np.argsort(ids)
    for path in exact if len(loses) else ():
        copies, _ = map_columns(path)
        winner = _sortable(copies["ids"])
        at = np.minimum(np.searchsorted(ids[order], winner), len(ids) - 1)
        same = ids[order][at] == winner
        found.append((copies["part"][same].astype(np.int64), copies["content"][same].astype(np.int64), loses[order][at[same]]))
    part, content, loser = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return part, content, loser


def _sortable(ids: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    return np.ascontiguousarray(ids).view("S16").reshape(-1)
