"""Diversity: how varied a set of documents is, in numbers that can be compared before and after a choice.

    effective_number    [0.5 0.25 0.25] -> 2.83        as many equal groups would be as varied: exp(Shannon entropy)
    gram_entropy        bits of a run of 2 words       lower after a choice: it says the same things again
    near_rate           share of documents that resemble an earlier one, by measured Jaccard similarity

The effective number is Hill's of order 1 (Hill 1973, Ecology 54). Entropy grows with the size of a sample, so both sides are
measured on equally many runs. Price: a sort of the runs; of near_rate, one merge a document and bucket.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from typecase.core.minhash.keepers import jaccard
from typecase.core.minhash.sketch import Scheme, scheme_for, sketch_texts

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]


def effective_number(masses: npt.ArrayLike) -> float:
    """exp of the entropy of `masses` (groups,), not negative; 0 where all are 0."""
    mass = np.asarray(masses, np.float64)
    mass = mass[mass > 0]
    if not len(mass):
        return 0.0
    shares = mass / mass.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def gram_entropy(runs: U64) -> float:
    """Entropy in bits of the distribution of `runs`, hashes in any order; 0 for none."""
    if not len(runs):
        return 0.0
    counts = np.unique(runs, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def near_rate(values: npt.NDArray[np.uint8], offsets: I64, shingles: U64, counts: I64, threshold: float) -> float:
    """Share of texts whose set of shingles has a Jaccard similarity of `threshold` or more with an earlier text.

    Text i is values[offsets[i]:offsets[i + 1]] in UTF-8 and has the next counts[i] of `shingles`, as `shingle_texts` gives
    them. Texts too short for a sketch are compared as a whole.
    """
    rows = len(offsets) - 1
    if rows < 2:
        return 0.0
    scheme: Scheme = scheme_for(threshold)
    keys, known = sketch_texts(values, offsets, np.ones(rows, np.bool_), scheme)
    ends = np.concatenate(([0], np.cumsum(counts)))
    sets: dict[int, U64] = {}

    def own(row: int) -> U64:
        if row not in sets:
            sets[row] = np.unique(shingles[ends[row] : ends[row + 1]])
        return sets[row]

    near = np.zeros(rows, np.bool_)
    first: dict[tuple[int, int], int] = {}
    whole: dict[bytes, int] = {}
    for row in range(rows):
        text = values[offsets[row] : offsets[row + 1]].tobytes()
        near[row] = whole.setdefault(text, row) != row
        if near[row] or not keys[row].any() or not known[row]:
            continue
        met = {first.setdefault((band, int(key)), row) for band, key in enumerate(keys[row])} - {row}
        near[row] = any(jaccard(own(row), own(other)) >= threshold for other in sorted(met))
    return float(near.mean())
