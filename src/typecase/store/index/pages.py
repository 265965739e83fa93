"""Pages: the hits of a query by rising position, without holding more of them than a page asks for.

ranks [lo, hi)     17 3 240 8 99 …        in suffix order
few                copied and sorted, 15–40 ns a hit
many               counted by position in 65,536 buckets; then bucket after bucket is collected, sorted and given out
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.suffix.tables import Tables

I64 = npt.NDArray[np.int64]

_AT_ONCE = 1 << 22
_CHUNK = 1 << 22
_BUCKETS = 1 << 16


def paged(tables: Tables, ranks: I64, size: int) -> Iterator[I64]:
    """All positions within `ranks` (shards, 2), rising, in pages of `size`; the last is shorter."""
    held: list[I64] = []
    count = 0
    for run in _runs(tables, ranks):
        while len(run):
            taken, run = run[: size - count], run[size - count :]
            held.append(taken)
            count += len(taken)
            if count == size:
                yield np.concatenate(held)
                held, count = [], 0
    if held:
        yield np.concatenate(held)


def cut(tables: Tables, ranks: I64, more: I64 | None, offset: int, limit: int | None) -> I64:
    """Positions number `offset` and up to `limit` further ones, with those of `more`, which are no hits of the ranks."""
    if more is not None and len(more):
        everything = np.sort(np.concatenate([*_runs(tables, ranks), more]))
        return everything[offset : None if limit is None else offset + limit]
    out: list[I64] = []
    left = limit
    sizes = ranks[:, 1] - ranks[:, 0]
    for k in range(len(ranks)):
        if offset >= sizes[k]:
            offset -= int(sizes[k])
            continue
        for run in _runs(tables, ranks, k, k + 1):
            taken = run[offset : None if left is None else offset + left]
            offset = max(0, offset - len(run))
            out.append(taken)
            left = None if left is None else left - len(taken)
            if left == 0:
                return np.concatenate(out)
    return np.concatenate(out) if out else np.zeros(0, np.int64)


def drawn(tables: Tables, ranks: I64, more: I64 | None, num: int, rng: np.random.Generator) -> I64:
    """`num` hits, or all when there are fewer, each as likely as any other; rising."""
    more = np.zeros(0, np.int64) if more is None else more
    ends = np.cumsum([*(ranks[:, 1] - ranks[:, 0]), len(more)])
    chosen = np.sort(rng.choice(int(ends[-1]), min(num, int(ends[-1])), replace=False))
    parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    out = [
        tables.shards[k].positions[parts[k] - begins[k] + ranks[k, 0]].astype(np.int64) + tables.bases[k]
        for k in range(len(ranks))
    ]
    return np.sort(np.concatenate([*out, more[parts[-1] - begins[-1]]]))


def _runs(tables: Tables, ranks: I64, first: int = 0, last: int | None = None) -> Iterator[I64]:
    """Runs of rising positions, one after the other."""
    shards = range(first, len(ranks) if last is None else last)
    return chain.from_iterable(_runs_of(tables.shards[k].positions, ranks[k], int(tables.bases[k])) for k in shards)


def _runs_of(positions: npt.NDArray[Any], ranks: I64, base: int) -> Iterator[I64]:
    hits = positions[ranks[0] : ranks[1]]
    if not len(hits):
        return
    if len(hits) <= _AT_ONCE:
        yield np.sort(hits).astype(np.int64) + base
        return
    shift = max(0, len(positions).bit_length() - _BUCKETS.bit_length() + 1)
    counts = np.zeros(_BUCKETS, np.int64)
    for begin in range(0, len(hits), _CHUNK):
        counts += np.bincount(hits[begin : begin + _CHUNK] >> shift, minlength=_BUCKETS)[:_BUCKETS]
    ends = np.cumsum(counts)
    bucket = 0
    while bucket < _BUCKETS:
        done = int(ends[bucket - 1]) if bucket else 0
        last = max(bucket + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        low, high = bucket << shift, last << shift
        chunks = (hits[b : b + _CHUNK] for b in range(0, len(hits), _CHUNK))
        own = np.concatenate([chunk[(chunk >= low) & (chunk < high)] for chunk in chunks])
        if len(own):
            yield np.sort(own).astype(np.int64) + base
        bucket = last
