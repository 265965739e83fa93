"""BlendTables: several token sets, each with its own order, served by one row of training indices.

    index     0 1 2 3 4 5 ...
    dataset   0 1 0 0 1 0 ...      which member serves it
    sample    0 0 1 2 1 3 ...      that member's training index: its own tables are asked from here on

    reads:      indices, grouped by member -> each member reads its own -> one packing in the order asked
    sightings:  the member's samples that hold the tokens -> its training indices -> their places in the blend

Price: 10 bytes an index, may be mapped files; a sighting scans them once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.order.order import Ints, Reads, Sightings
from typecase.core.order.tables import Tables, spread
from typecase.core.packing import Packing
from typecase.errors import BadQuery

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class BlendTables:
    """An order over several token sets, as arrays.

    `dataset_index` and `dataset_sample_index` (indices,) as above; `num_samples` is the length that the framework exposes. With
    `wraps`, as in GPT-NeoX, an index beyond it is taken modulo it; without, it is refused.
    """

    members: tuple[Tables, ...]
    dataset_index: npt.NDArray[Any]
    dataset_sample_index: npt.NDArray[Any]
    num_samples: int
    wraps: bool = False

    def __post_init__(self) -> None:
        sizes = {member.sample_tokens for member in self.members}
        if len(sizes) != 1:
            raise BadQuery(f"the members of a blend have samples of {sorted(sizes)} tokens: lay them with one order")
        if len(self.dataset_index) != len(self.dataset_sample_index):
            raise BadQuery(
                f"the blend names the member of {len(self.dataset_index)} indices and the sample of"
                f" {len(self.dataset_sample_index)}: the two arrays belong to different blends"
            )

    @property
    def sample_tokens(self) -> int:
        return self.members[0].sample_tokens

    def reads(self, indices: npt.ArrayLike) -> Reads:
        """As `Laid.reads`."""
        asked = np.asarray(indices, np.int64).reshape(-1)
        places = self._places_of(asked)
        owners = self.dataset_index[places].astype(np.int64)
        within = self.dataset_sample_index[places].astype(np.int64)
        samples = np.empty(len(asked), np.int64)
        groups, packings, copies = [], [], [np.zeros(0, np.int64)]
        for member in np.unique(owners).tolist():
            rows = np.flatnonzero(owners == member)
            found = self._member(member).reads(within[rows])
            samples[rows] = found.samples
            groups.append(rows)
            packings.append(found.packing)
            copies.append(found.copies)
        packing, pieces = _merged(groups, packings)
        return Reads(asked, owners, samples, packing, np.concatenate(copies)[pieces])

    def sightings(self, sequences: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, *, member: int = 0) -> Sightings:
        """As `Laid.sightings`; the sequences are those of `member`."""
        seen = self._member(member).seen(sequences, starts, stops)
        return spread(seen, np.unique(seen.samples), self._training_indices(member))

    def _training_indices(self, member: int) -> Iterator[tuple[int, Ints]]:
        """The samples of `member` that training indices [0, num_samples) read, -1 where another member serves."""
        tables = self.members[member]
        for first in range(0, self.num_samples, _CHUNK):
            last = min(first + _CHUNK, self.num_samples)
            own = np.flatnonzero(self.dataset_index[first:last] == member)
            within = self.dataset_sample_index[first:last][own]
            if not tables.wraps and len(within) and within.max() >= len(tables.shuffle):
                # Blends of old generations may ask a member for more than it has; training stops there and reads nothing.
                own, within = own[within < len(tables.shuffle)], within[within < len(tables.shuffle)]
            samples = np.full(last - first, -1, np.int64)
            samples[own] = tables.samples_of(within)
            yield first, samples

    def _places_of(self, asked: Ints) -> Ints:
        if not asked.size:
            return asked
        if asked.min() < 0:
            raise BadQuery(f"there is no training index {asked.min()}: they go from 0 to {self.num_samples - 1}")
        if asked.max() < self.num_samples:
            return asked
        if not self.wraps or not self.num_samples:
            raise BadQuery(
                f"there is no training index {asked.max()}: the blend has {self.num_samples} samples, and the framework stops"
            )
        return np.where(asked < self.num_samples, asked, asked % self.num_samples)

    def _member(self, number: int) -> Tables:
        if not 0 <= number < len(self.members):
            raise BadQuery(f"there is no member {number}: the blend has {len(self.members)}, counted from 0")
        return self.members[number]


def _merged(groups: Sequence[Ints], packings: Sequence[Packing]) -> tuple[Packing, Ints]:
    """One packing out of several; the samples of `packings[g]` go to rows `groups[g]`. Also which of all their pieces, laid end
    to end, each of its pieces is."""
    if not groups:
        return Packing.of([]), np.zeros(0, np.int64)
    rows = np.argsort(np.concatenate(groups), kind="stable")
    counts = np.concatenate([np.diff(packing.bounds) for packing in packings])
    begins = (np.cumsum(counts) - counts)[rows]
    bounds = np.concatenate(([0], np.cumsum(counts[rows])))
    pieces = np.arange(bounds[-1]) + np.repeat(begins - bounds[:-1], counts[rows])
    merged = Packing(
        docs=np.concatenate([packing.docs for packing in packings])[pieces],
        starts=np.concatenate([packing.starts for packing in packings])[pieces],
        stops=np.concatenate([packing.stops for packing in packings])[pieces],
        bounds=bounds,
        sample_tokens=np.concatenate([packing.sample_tokens for packing in packings])[rows],
    )
    return merged, pieces
