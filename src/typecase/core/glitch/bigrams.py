"""Bigrams of incomplete tokens: two tokens that end and begin inside one character and make a whole text together.

    … E9 BE │ 8D …        a prefix fragment, short of n bytes, and a suffix fragment that begins with n continuation bytes

    fragment_pairs(data, utf8)           every pair (a, b) that makes a text
    PairCounter(pairs, num_ids)          how often each stands in tokens, side by side

A model learns such tokens in company; a pair that no text ever showed is read as something else ("improbable bigrams",
arXiv 2410.23684). Pairs are matched by the number of bytes that are missing and checked byte for byte; of V fragments there
may be V²/4 pairs, so they are given as an iterator, in order of the ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.glitch.utf8 import Utf8


def fragment_pairs(data: Sequence[bytes | None], utf8: Sequence[Utf8 | None]) -> Iterator[tuple[int, int]]:
    """Ids (a, b) whose bytes together are well-formed UTF-8, while a ends and b begins inside a character."""
    enders: dict[int, list[int]] = {}
    starters: dict[int, list[int]] = {}
    for token, kind in enumerate(utf8):
        if kind is None or kind.kind == "never":
            continue
        if kind.kind == "prefix":
            enders.setdefault(kind.missing, []).append(token)
        elif kind.kind == "suffix":
            starters.setdefault(kind.leading, []).append(token)
    for missing in sorted(enders):
        for a in enders[missing]:
            left = data[a] or b""
            for b in starters.get(missing, ()):
                if _decodes(left + (data[b] or b"")):
                    yield a, b


class PairCounter:
    """Counts some pairs of ids among neighbours. `pairs` (P, 2) are all different, ids below `num_ids`.

    Price: one look in a table of `num_ids` bytes for each token, a binary search where a pair may begin.
    """

    def __init__(self, pairs: npt.ArrayLike, num_ids: int) -> None:
        wanted = np.asarray(pairs, np.int64).reshape(-1, 2)
        keys = wanted[:, 0] << 32 | wanted[:, 1]
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._begins = np.zeros(num_ids, np.bool_)
        self._begins[wanted[:, 0]] = True
        self._counts = np.zeros(len(keys), np.int64)

    def add(self, tokens: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> None:
        """Counts within the runs `tokens[offsets[k]:offsets[k + 1]]`, none across; ids beyond `num_ids` make no pair."""
        _count_pairs(tokens, offsets, self._begins, self._keys, self._counts)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """int64 (P,), in the order of the pairs."""
        found = np.empty_like(self._counts)
        found[self._order] = self._counts
        return found


@njit(cache=True, nogil=True)
def _count_pairs(
    tokens: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    begins: npt.NDArray[np.bool_],
    keys: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> None:
    for run in range(len(offsets) - 1):
        for at in range(offsets[run], offsets[run + 1] - 1):
            first = np.int64(tokens[at])
            if 0 <= first < len(begins) and begins[first]:
                key = first << 32 | np.int64(tokens[at + 1])
                place = np.searchsorted(keys, key)
                if place < len(keys) and keys[place] == key:
                    counts[place] += 1


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
