"""Signs: what may be wrong with the tokens of a document, each a number that is higher the worse it is.

    repeated    share of its runs of 4 tokens that stood in it before
    stretch     log2(1 + tokens of its longest stretch in which every token equals the one 1 to 16 places before)
    surprise    mean bits of its tokens under the counts of the corpus: rare tokens, other languages, noise
    flagged     share of tokens that an audit found under-trained
    copied      highest Jaccard similarity of its runs of 5 tokens with a document of an earlier spike

Documents come as columns: `tokens` end to end, document k being [offsets[k], offsets[k + 1]). Price: two or three passes over
the tokens, and a sort of each document's runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from typecase.core.minhash.grams import grams_of, token_units

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

RUN, SHINGLE, PERIODS = 4, 5, 16


def repeated(tokens: npt.NDArray[Any], offsets: I64) -> F64:
    """(documents,) float64 in [0, 1]; 0 for one of fewer than RUN tokens."""
    shares = np.zeros(len(offsets) - 1)
    for k, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist())):
        runs = grams_of(token_units(tokens[start:stop]), RUN)
        if len(runs):
            shares[k] = 1.0 - len(np.unique(runs)) / len(runs)
    return shares


def stretch(tokens: npt.NDArray[Any], offsets: I64) -> F64:
    """(documents,) float64: log2(1 + n) of the longest stretch of n tokens that repeats with one period up to PERIODS."""
    longest: I64 = _stretches(np.ascontiguousarray(tokens, np.int64), offsets)
    return np.log2(1.0 + longest.astype(np.float64))


def surprise(tokens: npt.NDArray[Any], offsets: I64, counts: I64) -> F64:
    """(documents,) float64 bits a token under `counts` (vocabulary,), each with one added (Laplace); 0 for no tokens.

    Raises ValueError for a token beyond the counts.
    """
    if len(tokens) and int(tokens.max()) >= len(counts):
        raise ValueError(f"token {int(tokens.max())} is beyond the counts of {len(counts)} ids")
    bits = np.log2(float(counts.sum()) + len(counts)) - np.log2(1.0 + counts)
    return means(bits[tokens], offsets)


def flagged(tokens: npt.NDArray[Any], offsets: I64, ids: npt.ArrayLike) -> F64:
    """(documents,) float64 in [0, 1]: the share of tokens that are among `ids`."""
    return means(np.isin(tokens, np.asarray(ids, np.int64)).astype(np.float64), offsets)


def copied(documents: Sequence[U64], earlier: Sequence[U64]) -> tuple[F64, I64]:
    """The highest Jaccard similarity of each set of runs with one of `earlier`, and which that is; 0 and -1 for none.

    Sets are those of `run_set`. Price: one sort of all earlier runs, then a look-up for each run of `documents`.
    """
    similarity, which = np.zeros(len(documents)), np.full(len(documents), -1, np.int64)
    sizes = np.array([len(one) for one in earlier], np.int64)
    if not sizes.sum():
        return similarity, which
    runs, owners = np.concatenate(list(earlier)), np.repeat(np.arange(len(earlier)), sizes)
    order = np.argsort(runs, kind="stable")
    runs, owners = runs[order], owners[order]
    for k, own in enumerate(documents):
        first, stop = np.searchsorted(runs, own, "left"), np.searchsorted(runs, own, "right")
        held = stop - first
        if not held.sum():
            continue
        places = np.repeat(first - np.concatenate(([0], np.cumsum(held)[:-1])), held) + np.arange(held.sum())
        shared = np.bincount(owners[places], minlength=len(earlier))
        jaccard = shared / (len(own) + sizes - shared)
        which[k] = int(jaccard.argmax())
        similarity[k] = float(jaccard[which[k]])
    return similarity, which


def run_set(tokens: npt.NDArray[Any]) -> U64:
    """The distinct hashes of the runs of SHINGLE tokens, rising; a document of fewer tokens is one run."""
    return np.unique(grams_of(token_units(tokens), min(SHINGLE, max(1, len(tokens)))))


def means(values: F64, offsets: I64) -> F64:
    """The mean of `values` in each document, 0 for an empty one."""
    sums = np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
    return (sums[offsets[1:]] - sums[offsets[:-1]]) / np.maximum(np.diff(offsets), 1)


@numba.njit(cache=True)
def _stretches(tokens: Any, offsets: Any) -> Any:
    longest = np.zeros(len(offsets) - 1, np.int64)
    for k in range(len(offsets) - 1):
        start, stop = offsets[k], offsets[k + 1]
        for period in range(1, PERIODS + 1):
            run = 0
            for at in range(start + period, stop):
                run = run + 1 if tokens[at] == tokens[at - period] else 0
                if run >= period and run > longest[k]:  # a period that stands at least twice
                    longest[k] = run
    return longest
