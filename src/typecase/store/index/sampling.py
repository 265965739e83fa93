"""Sampling: continuations drawn from the set itself.

    query  a b | ?      a hit of "a b" is drawn uniformly, and the token behind it taken; then of "b x", and so on

Each token is drawn as often as it follows the last n - 1 tokens in the set. A continuation ends where the hit that was drawn
ends its document. A context that never occurs gives way to its longest end that does. Price: 3–5 us a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from typecase.errors import BadQuery
from typecase.store.index.queries import I64, Query, as_ids

if TYPE_CHECKING:
    from typecase.store.index.index import Index


def unsmoothed(index: Index, query: Query, *, n: int, num_tokens: int, num_samples: int, seed: int) -> list[I64]:
    """`num_samples` continuations of `query`, it included; the same seed gives the same ones."""
    check_sizes(n, num_tokens, num_samples)
    ids, rng = as_ids(query), np.random.default_rng(seed)
    begin = ids[len(ids) - index.longest_suffix(ids, n - 1) :].tolist()
    return [np.append(ids, _continued(index, begin, n, num_tokens, rng)).astype(np.int64) for _ in range(num_samples)]


def check_sizes(n: int, num_tokens: int, num_samples: int) -> None:
    if n < 1 or num_tokens < 0 or num_samples < 0:
        raise BadQuery(
            f"sampling needs n of 1 or more, and no negative numbers: n={n}, {num_tokens} tokens, {num_samples} samples"
        )


def _continued(index: Index, begin: list[int], n: int, num_tokens: int, rng: np.random.Generator) -> list[int]:
    context, out = list(begin), list[int]()
    while len(out) < num_tokens:
        token = _draw(index, context, rng)
        if token is None:
            break
        out.append(token)
        context = [*context, token][-(n - 1) :] if n > 1 else []
    return out


def _draw(index: Index, context: list[int], rng: np.random.Generator) -> int | None:
    """The token behind a hit of `context` drawn uniformly; None where its document ends, or nothing occurs."""
    found = index.find(context)
    if not found.count:
        return None
    rank = int(rng.integers(found.count))
    for shard, (low, high) in zip(index.tables.shards, found.ranks.tolist(), strict=True):
        if rank < high - low:
            at = int(shard.positions[low + rank]) + len(context)
            ended = bool(context) and bool(int(shard.ends[(at - 1) >> 6]) >> ((at - 1) & 63) & 1)
            return None if ended else int(shard.text[at])
        rank -= high - low
    raise AssertionError("a rank below the count lies in a shard")
