"""Perplexity of a set of documents, said in every way that is in use, from (nats, tokens, bytes) of each document.

    token-weighted   exp(sum nats / sum scored tokens)              the headline
    documents        exp(mean over documents of nats / token)       the geometric mean of their perplexities
    median           of the documents' perplexities
    published        the arithmetic mean of the documents' perplexities, as some papers print it: outliers rule it
    bits per byte    sum nats / (ln 2 * sum bytes)                  the only one that may be compared across tokenizers

Sums are exact (Shewchuk's, through `math.fsum`), so that parts of a corpus in any order and any cut come to the same numbers.
A document without a scored token has a status and no number; it is counted, not averaged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

OK, EMPTY_TEXT, ONE_TOKEN = "ok", "empty_text", "one_token"
"""Statuses of a document: scored; nothing but white space; a single token. A failed one has `failed:` and the kind."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """The perplexity of a set. All means are over the `documents` of status ok; None where there are none.

    tokens, bytes   of those documents; `unscored` tokens have no chance of their own and count for no mean
    """

    token_weighted: float | None
    geometric: float | None
    median: float | None
    published: float | None
    bits_per_byte: float | None
    documents: int
    tokens: int
    unscored: int
    bytes: int
    statuses: Mapping[str, int]


def summarise(nats: F64, tokens: I64, unscored: I64, num_bytes: I64, statuses: Sequence[str]) -> Perplexity:
    """The perplexity of the documents whose sums these are; arrays (documents,)."""
    good = np.array([status == OK for status in statuses], np.bool_)
    counts = dict(sorted(Counter(statuses).items()))
    nats, scored, size = nats[good], (tokens - unscored)[good], int(num_bytes[good].sum())
    sums = {"documents": len(nats), "tokens": int(tokens[good].sum()), "unscored": int(unscored[good].sum()), "bytes": size}
    if not len(nats):
        return Perplexity(None, None, None, None, None, **sums, statuses=counts)
    means = nats / scored
    total = math.fsum(nats.tolist())
    return Perplexity(
        _exp(total / int(scored.sum())),
        _exp(math.fsum(means.tolist()) / len(means)),
        _exp(float(np.median(means))),
        math.fsum(_exp(mean) for mean in means.tolist()) / len(means),
        total / math.log(2) / size,
        **sums,
        statuses=counts,
    )


def status_of(tokens: int, blank: bool) -> str:
    """The status of a text that was scored: how many tokens it has, and whether it is white space alone."""
    if blank or tokens == 0:
        return EMPTY_TEXT
    return ONE_TOKEN if tokens == 1 else OK


def plain(summary: Perplexity) -> dict[str, Any]:
    """The summary as JSON has it."""
    return {name: getattr(summary, name) for name in summary.__dataclass_fields__}


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf
