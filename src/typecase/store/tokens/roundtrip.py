"""Which tokenizer wrote these ids? The one that gives them back: decode a document, encode the text, compare.

A wrong vocabulary decodes to noise and encodes that noise otherwise, so its share is near 0; the right one is near 1. It is
not always 1: a tokenizer that normalises text, or ids that were not made from one text, do not come back identical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from typecase.errors import FixInput
from typecase.store.tokens.store import TokenStore

_NUM_SAMPLES = 64
_MAX_TOKENS = 8192


class RoundTrip(Protocol):
    """What is asked of a tokenizer here. Neither may add special tokens."""

    def encode(self, text: str) -> Sequence[int] | npt.NDArray[Any]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


def sample_documents(store: TokenStore, num_samples: int) -> npt.NDArray[np.int64]:
    """At most `num_samples` whole documents with tokens, evenly spread over the set, the same ones on every call."""
    last = store.num_documents - 1
    docs = np.linspace(0, last, min(num_samples, last + 1)).astype(np.int64)
    return docs[(store.document_lengths(docs) > 0) & store.whole(docs)]


def round_trip(store: TokenStore, tokenizer: RoundTrip, *, eod: int | None = None) -> float | None:
    """The share of sampled documents whose ids come back identical, [0, 1]; None when there is no document to try.

    A last token `eod` is left out. Documents of more than 8,192 tokens are not tried. An id that the tokenizer does not
    know counts as not identical.
    """
    docs = sample_documents(store, 4 * _NUM_SAMPLES)
    docs = docs[store.document_lengths(docs) <= _MAX_TOKENS][:_NUM_SAMPLES]
    same = 0
    for doc in docs:
        ids = store.read(int(doc)).tolist()
        if ids and ids[-1] == eod:
            ids.pop()
        try:
            same += np.array_equal(np.asarray(tokenizer.encode(tokenizer.decode(ids)), np.int64), np.array(ids, np.int64))
        except (FixInput, KeyError, IndexError, ValueError, OverflowError):
            continue
    return same / len(docs) if len(docs) else None


def guess_tokenizer(store: TokenStore, candidates: Mapping[str, RoundTrip], *, eod: int | None = None) -> dict[str, float]:
    """The round-trip share of every candidate, best first."""
    shares = {name: round_trip(store, tokenizer, eod=eod) or 0.0 for name, tokenizer in candidates.items()}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))
