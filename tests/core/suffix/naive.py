"""What the suffix room must give, by the shortest code that can be believed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st


def documents_of(tokens, ends):
    ends = [len(tokens)] if ends is None else [int(end) for end in ends]
    return list(pairwise([0, *ends]))


def naive_array(tokens, ends):
    rest = [(tuple(tokens[p:stop].tolist()), p) for start, stop in documents_of(tokens, ends) for p in range(start, stop)]
    return [p for _, p in sorted(rest)]


def doubled_array(tokens, ends):
    """By prefix doubling with numpy: another road to the same order, for texts too long to be sorted naively."""
    n = len(tokens)
    stops = np.empty(n, np.int64)
    for start, stop in documents_of(tokens, ends):
        stops[start:stop] = stop
    positions = np.arange(n)
    rank = np.unique(tokens, return_inverse=True)[1].astype(np.int64) + 1
    h = 1
    while True:
        further = np.where(positions + h < stops, rank[np.minimum(positions + h, n - 1)], 0)
        order = np.lexsort((further, rank))
        new = (np.diff(rank[order], prepend=-1) != 0) | (np.diff(further[order], prepend=-1) != 0)
        rank[order] = np.cumsum(new)
        if h >= n or new.all():
            return np.lexsort((positions, rank))
        h *= 2


@st.composite
def texts(draw, max_documents=6, max_tokens=24):
    """(tokens, ends): random, constant, periodic or repeated documents, some empty, some of one token; ends may be None."""
    ids = draw(st.sampled_from([2, 3, 5, 300, 70_000, 2**31]))
    alphabet = draw(st.lists(st.integers(0, ids - 1), min_size=1, max_size=5))
    document = st.one_of(
        st.lists(st.sampled_from(alphabet), max_size=max_tokens),
        st.builds(lambda t, k: [t] * k, st.sampled_from(alphabet), st.integers(0, max_tokens)),
        st.builds(lambda p, k: p * k, st.lists(st.sampled_from(alphabet), min_size=1, max_size=4), st.integers(0, 6)),
    )
    documents = draw(st.lists(document, max_size=max_documents))
    documents += documents[: draw(st.integers(0, 2))]
    fits = [d for d in (np.uint8, np.uint16, np.int32, np.uint32, np.int64) if ids - 1 <= np.iinfo(d).max]
    tokens = np.array([t for d in documents for t in d], draw(st.sampled_from(fits)))
    ends = np.cumsum([len(d) for d in documents], dtype=np.int64)
    return tokens, draw(st.sampled_from([ends, None]))
