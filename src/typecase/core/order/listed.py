"""Listed: an explicit list of training indices of another order: a curriculum, a filter, a replay.

    base      0 1 2 3 4 5 6 7 8 9       any order, laid over its token set
    samples   7 2 2 9                   what the list reads, one entry a training index of its own
    reads     index 0 -> base 7,  index 1 -> base 2,  index 2 -> base 2,  index 3 -> base 9

An index may stand in the list several times, or never. Price: 16 bytes an entry, and sorting the list once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from typecase.core.order.order import Ints, Laid, Reads, Sightings
from typecase.errors import BadQuery


@dataclass(frozen=True, slots=True, eq=False)
class ListedOrder:
    """The order whose training index i is training index `samples[i]` of `base`; itself laid."""

    base: Laid
    samples: Ints = field(repr=False)
    _rising: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        listed = np.asarray(self.samples)
        if listed.ndim != 1 or (listed.size and listed.dtype.kind not in "iu"):
            raise BadQuery(f"a listed order needs one row of whole numbers, and got {listed.dtype} of shape {listed.shape}")
        listed = listed.astype(np.int64)
        wrong = np.flatnonzero((listed < 0) | (listed >= self.base.num_samples))
        if wrong.size:
            raise BadQuery(
                f"entry {wrong[0]} of the list is training index {listed[wrong[0]]}: the order beneath has"
                f" {self.base.num_samples}, from 0"
            )
        object.__setattr__(self, "samples", listed)
        object.__setattr__(self, "_rising", np.argsort(listed, kind="stable"))

    @property
    def num_samples(self) -> int:
        return len(self.samples)

    @property
    def sample_tokens(self) -> int:
        return self.base.sample_tokens

    def reads(self, indices: npt.ArrayLike) -> Reads:
        asked = np.asarray(indices, np.int64).reshape(-1)
        if asked.size and not 0 <= asked.min() <= asked.max() < self.num_samples:
            wrong = asked.min() if asked.min() < 0 else asked.max()
            raise BadQuery(f"there is no training index {wrong}: the list has {self.num_samples} entries, from 0")
        return replace(self.base.reads(self.samples[asked]), indices=asked)

    def sightings(self, sequences: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, *, member: int = 0) -> Sightings:
        seen = self.base.sightings(sequences, starts, stops, member=member)
        rising = self.samples[self._rising]
        low, high = (np.searchsorted(rising, seen.indices, side) for side in ("left", "right"))
        row = np.repeat(np.arange(len(low)), high - low)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
        index = self._rising[low[row] + nth]
        # Rows of one sample keep the order of the base, which is by place in the sample.
        order = np.lexsort((row, index))
        row, index = row[order], index[order]
        return Sightings(
            runs=seen.runs[row],
            indices=index,
            samples=seen.samples[row],
            at=seen.at[row],
            starts=seen.starts[row],
            stops=seen.stops[row],
            copies=seen.copies[row],
        )
