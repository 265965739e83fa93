"""The inverse of `reads` by looking at every sample, and what samples hold, token by token: slow, and hard to get wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from typecase.core.order.order import Laid, Reads, Sightings
from typecase.store.tokens.store import TokenStore

Run = tuple[int, int, int]
"""A sequence, its first token, the token after the last."""

Row = tuple[int, int, int, int, int]
"""Run, training index, place in the sample, first token, the token after the last."""


def brute_sightings(laid: Laid, runs: Sequence[Run], member: int = 0) -> list[Row]:
    """What `laid.sightings` must find, sorted."""
    reads = laid.reads(range(laid.num_samples))
    rows = []
    for index, owner, pieces in zip(reads.indices.tolist(), reads.members.tolist(), reads.packing, strict=True):
        at = 0
        for piece in pieces:
            for number, (sequence, low, high) in enumerate(runs):
                start, stop = max(piece.span.start, low), min(piece.span.stop, high)
                if owner == member and piece.doc == sequence and start < stop:
                    rows.append((number, index, at + start - piece.span.start, start, stop))
            at += len(piece)
    return sorted(rows)


def rows_of(found: Sightings) -> list[Row]:
    """`found` in the same form."""
    assert found.indices.tolist() == sorted(found.indices.tolist())
    columns = (found.runs, found.indices, found.at, found.starts, found.stops)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def tokens_of(reads: Reads, stores: Sequence[TokenStore], sample_tokens: int) -> np.ndarray:
    """What the samples of `reads` hold, (reads, sample_tokens) int64, padded with 0."""
    out = np.zeros((len(reads.indices), sample_tokens), np.int64)
    for row, (member, pieces) in enumerate(zip(reads.members, reads.packing, strict=True)):
        parts = [stores[member].read_sequence(piece.doc, piece.span.start, piece.span.stop) for piece in pieces]
        held = np.concatenate([np.zeros(0, np.int64), *parts])
        out[row, : len(held)] = held
    return out
