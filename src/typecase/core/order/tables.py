"""Tables: an order as the three arrays that GPT-NeoX and Megatron build, keep as files, and read samples by.

    sequences   17 4 9 4 17 9 ...            sequence numbers, shuffled; laid end to end they are the stream
    rows        (0, 0) (1, 30) (1, 94) ...   sample k begins at a place of `sequences` and a token of that sequence,
                                             and ends where row k + 1 begins, plus `extra` tokens
    shuffle     5 0 3 1 ...                  training index -> sample

    reads:      index -> shuffle -> two rows -> the sequences between them
    sightings:  sequence -> its places in `sequences` -> the samples about them -> their indices in `shuffle`

The arrays may be mapped files. Price: 4 bytes a place, 8 to 16 a row, 4 an index; a read touches three places, a sighting scans
`sequences` and `shuffle` once, about 1 ms a million.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.bisect import last_not_above
from typecase.core.order.order import Ints, Lengths, Reads, Sightings
from typecase.core.order.pieces import next_with_tokens, packing_of
from typecase.core.packing import Packing
from typecase.errors import BadQuery

_CHUNK = 1 << 20
_MOST_DETOURS = 64
_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """An order over one token set, as arrays.

    `sequences` (places,), `rows` (samples + 1, 2), `shuffle` (samples,) as above; `lengths` (sequences of the set,) the tokens
    of each sequence. `seq_length` and `extra` say how many tokens a full sample holds: longer ones are cut, shorter ones padded
    by whoever reads. `num_samples` is the length that the framework exposes. With `wraps`, as in GPT-NeoX, an index that cannot
    be read is replaced: beyond `shuffle` by the index modulo `num_samples`, for a sample beyond the tables by training index
    (sample modulo num_samples). Without `cuts`, a sample that rows and lengths make too long is read too long: so arrays that
    were made for other lengths are noticed.
    """

    sequences: npt.NDArray[Any]
    rows: npt.NDArray[Any]
    shuffle: npt.NDArray[Any]
    lengths: Lengths
    seq_length: int
    extra: int
    num_samples: int
    wraps: bool = False
    cuts: bool = True

    @property
    def sample_tokens(self) -> int:
        return self.seq_length + self.extra

    def samples_of(self, indices: npt.ArrayLike) -> Ints:
        """The sample that each training index reads, same shape. Raises BadQuery where the framework would not serve one."""
        wanted = np.asarray(indices, np.int64)
        if wanted.size and wanted.min() < 0:
            raise BadQuery(f"there is no training index {wanted.min()}: they go from 0 to {self.num_samples - 1}")
        if not self.wraps:
            if wanted.size and wanted.max() >= len(self.shuffle):
                raise BadQuery(
                    f"there is no training index {wanted.max()}: the order has {len(self.shuffle)} samples, and the framework"
                    " stops there"
                )
            return self.shuffle[wanted].astype(np.int64)
        return self._wrapped(wanted)

    def _wrapped(self, wanted: Ints) -> Ints:
        beyond = wanted >= len(self.shuffle)
        if self.num_samples < 1 and beyond.any():
            raise BadQuery(f"there is no training index {wanted[beyond][0]}: the framework offers none to take instead")
        samples = self.shuffle[np.where(beyond, wanted % max(self.num_samples, 1), wanted)].astype(np.int64)
        for _ in range(_MOST_DETOURS):
            bad = self._beyond(samples)
            if not bad.any():
                return samples
            samples[bad] = self.shuffle[samples[bad] % max(self.num_samples, 1)]
        raise BadQuery(
            f"training index {wanted[bad][0]} leads GPT-NeoX to sample {samples[bad][0]}, which ends beyond the order, and its"
            " substitute leads there again: GPT-NeoX would recurse without end"
        )

    def _beyond(self, samples: Ints) -> npt.NDArray[np.bool_]:
        beyond = samples + 1 >= len(self.rows)
        inside = np.flatnonzero(~beyond)
        beyond[inside] = self.rows[samples[inside] + 1, 0] >= len(self.sequences)
        return beyond

    def packing(self, samples: Ints) -> Packing:
        """The pieces of `samples`, by number."""
        return self._tiled(samples)[0]

    def _tiled(self, samples: Ints) -> tuple[Packing, Ints]:
        return packing_of(
            self.sequences,
            self.rows,
            self.lengths,
            samples,
            limit=self.sample_tokens if self.cuts else _NO_LIMIT,
            extra=self.extra,
        )

    def reads(self, indices: npt.ArrayLike) -> Reads:
        asked = np.asarray(indices, np.int64).reshape(-1)
        samples = self.samples_of(asked)
        return Reads(asked, np.zeros(len(asked), np.int64), samples, *self._tiled(samples))

    def sightings(self, sequences: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, *, member: int = 0) -> Sightings:
        seen = self.seen(sequences, starts, stops, member=member)
        return spread(seen, np.unique(seen.samples), self.training_indices())

    def training_indices(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """The samples of training indices [0, num_samples), in runs: (first index, samples)."""
        for first in range(0, self.num_samples, _CHUNK):
            last = min(first + _CHUNK, self.num_samples)
            yield first, self.samples_of(np.arange(first, last)) if self.wraps else self.shuffle[first:last]

    def seen(self, sequences: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, *, member: int = 0) -> Sightings:
        """The places by sample alone: one row a sample, `indices` all -1."""
        if member != 0:
            raise BadQuery(f"there is no member {member}: the order reads one token set")
        asked, low, high = (np.asarray(a, np.int64).reshape(-1) for a in (sequences, starts, stops))
        places = self._places_of(self._with_empty_before(np.unique(asked)))
        if not len(places):
            return _nothing()
        candidates = self._samples_about(places)
        packing, copies = self._tiled(candidates)
        sizes = packing.stops - packing.starts
        owner = np.repeat(np.arange(len(candidates)), np.diff(packing.bounds))
        ends = np.cumsum(sizes)
        at = ends - sizes - np.repeat(ends[packing.bounds[:-1] - 1] * (packing.bounds[:-1] > 0), np.diff(packing.bounds))
        piece, run = _pairs(packing.docs, asked)
        start = np.maximum(packing.starts[piece], low[run])
        stop = np.minimum(packing.stops[piece], high[run])
        keep = start < stop
        piece, run, start, stop = piece[keep], run[keep], start[keep], stop[keep]
        return Sightings(
            runs=run,
            indices=np.full(len(run), -1, np.int64),
            samples=candidates[owner[piece]],
            at=at[piece] + start - packing.starts[piece],
            starts=start,
            stops=stop,
            copies=copies[piece],
        )

    def _with_empty_before(self, wanted: Ints) -> Ints:
        """`wanted` and the sequences of no token right before them, which read as these where a sample ends; rising."""
        found, before = [wanted], wanted - 1
        while True:
            before = before[(before >= 0) & (before < len(self.lengths))]
            before = before[np.asarray(self.lengths[before]) == 0]
            if not before.size:
                return np.unique(np.concatenate(found))
            found.append(before)
            before = before - 1

    def _places_of(self, wanted: Ints) -> Ints:
        """The places in `sequences` where one of `wanted` (rising) stands, rising."""
        found = []
        for first in range(0, len(self.sequences), _CHUNK):
            hits = where_any(self.sequences[first : first + _CHUNK], wanted)
            if hits.size:
                found.append(hits + first)
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _samples_about(self, places: Ints) -> Ints:
        """Every sample that may hold a piece of one of `places`, rising."""
        column = self.rows[:, 0]
        first = np.maximum(last_not_above(column, places - 1), 0)
        last = np.minimum(last_not_above(column, places), len(self.rows) - 2)
        counts = np.maximum(last - first + 1, 0)
        ends = np.cumsum(counts)
        samples = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts) + np.repeat(first, counts)
        samples = np.unique(samples)
        return self._readable(samples[~self._beyond(samples)]) if self.wraps else samples

    def _readable(self, samples: Ints) -> Ints:
        """Those of `samples` that do not end with a sequence of no token at the end of the file, where the framework stops."""
        ends = np.asarray(self.sequences[self.rows[samples + 1, 0]], np.int64)
        cut = [k for k in np.flatnonzero(self.lengths[ends] == 0) if next_with_tokens(self.lengths, int(ends[k])) < 0]
        return np.delete(samples, cut) if cut else samples


def where_any(values: npt.NDArray[Any], wanted: Ints) -> Ints:
    """The places, rising, where `values` holds one of `wanted` (rising): what `np.isin` finds, in a tenth of the time."""
    if len(wanted) == 1:
        return np.flatnonzero(values == int(wanted[0]))  # a numpy scalar would widen all values
    return _where_any(values, wanted)


@njit(cache=True, nogil=True)
def _where_any(values: Any, wanted: Ints) -> Ints:
    # Nearly all values are none of those wanted, and the low bits say so without a search.
    marked = np.zeros(1 << 16, np.bool_)
    for value in wanted:
        marked[value & 0xFFFF] = True
    places = np.empty(len(values), np.int64)
    count = 0
    for i in range(len(values)):
        value = np.int64(values[i])
        if marked[value & 0xFFFF]:
            near = np.searchsorted(wanted, value)
            if near < len(wanted) and wanted[near] == value:
                places[count] = i
                count += 1
    return places[:count].copy()


def _pairs(docs: Ints, asked: Ints) -> tuple[Ints, Ints]:
    """Every (piece, run) with docs[piece] == asked[run]."""
    order = np.argsort(asked, kind="stable")
    rising = asked[order]
    low, high = np.searchsorted(rising, docs, "left"), np.searchsorted(rising, docs, "right")
    counts = high - low
    ends = np.cumsum(counts)
    nth = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    return np.repeat(np.arange(len(docs)), counts), order[np.repeat(low, counts) + nth]


def spread(seen: Sightings, wanted: Ints, training: Iterator[tuple[int, npt.NDArray[Any]]]) -> Sightings:
    """`seen`, by sample, as one row a training index; `training` gives the samples of all indices, `wanted` are those seen."""
    if not len(wanted):
        return seen
    indices, samples = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]  # an order may offer no index at all
    for first, chunk in training:
        hits = where_any(chunk, wanted)
        indices.append(hits + first)
        samples.append(chunk[hits].astype(np.int64))
    index, sample = np.concatenate(indices), np.concatenate(samples)
    nth, row = _pairs(sample, seen.samples)
    order = np.lexsort((seen.at[row], index[nth]))
    nth, row = nth[order], row[order]
    return Sightings(
        runs=seen.runs[row],
        indices=index[nth],
        samples=seen.samples[row],
        at=seen.at[row],
        starts=seen.starts[row],
        stops=seen.stops[row],
        copies=seen.copies[row],
    )


def _nothing() -> Sightings:
    none = np.zeros(0, np.int64)
    return Sightings(none, none, none, none, none, none, none)
