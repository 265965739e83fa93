"""Viewed: the text of an edited set by position, read as it is asked for, in the place of a mapped array.

    text[1200:1240]          a slice: documents from that of the first position to that of the last
    text[positions]          an array: the documents that hold them are read once, and kept for the next array

Price: a read of the documents touched; those of the last array are held in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from typecase.store.index.queries import I64

if TYPE_CHECKING:
    from typecase.store.index.edited import EditedIndex


class ViewedText:
    """The tokens of the set that `index` searches."""

    def __init__(self, index: EditedIndex) -> None:
        self._index = index
        self._held: tuple[I64, npt.NDArray[Any], I64] | None = None

    def __len__(self) -> int:
        return self._index.num_tokens

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        if not isinstance(key, slice):
            return self._at(np.asarray(key, np.int64))
        start, stop, _ = key.indices(len(self))
        if stop <= start:
            return np.zeros(0, self._index.dtype)
        starts = self._index.starts
        first, last = np.searchsorted(starts, (start, stop - 1), side="right") - 1
        tokens, _ = self._index.store.read_many(np.arange(first, last + 1))
        return tokens[start - starts[first] : stop - starts[first]]

    def _at(self, positions: I64) -> npt.NDArray[Any]:
        flat = positions.reshape(-1)
        docs = np.searchsorted(self._index.starts, flat, side="right") - 1
        held = self._held
        if held is None or not np.isin(docs, held[0]).all():
            own = np.unique(docs)
            held = self._held = (own, *self._index.store.read_many(own))
        own, tokens, offsets = held
        begins = offsets[np.searchsorted(own, docs)] - self._index.starts[docs]
        return np.asarray(tokens[begins + flat].reshape(positions.shape))
