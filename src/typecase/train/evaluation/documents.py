"""Documents: the nats of every document by a model, each token once, long documents in windows with context.

    start d d d d d d d d d d        |---------|                 window 1 scores all of it
                                          |---------|            window 2 scores what is new, behind half a window of context

What comes out is the table of `typecase perplexity` with source and domain, so that every aggregate can be worked out from it
at any time, and shards of it added: token-weighted, geometric, median, bits per byte, and the published mean of documents'
perplexities (see core/perplexity). The end token of a document is not scored. Price: one pass over what fits the context, two
passes over longer documents (one with `stride` = context).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from typecase.core import perplexity as measures
from typecase.core.perplexity import Perplexity, status_of
from typecase.errors import BadQuery
from typecase.train.evaluation.held import Held
from typecase.train.evaluation.subject import Subject

Ints = npt.NDArray[np.int64]
_DOCUMENTS = 512

SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("source", pa.string()),
        ("domain", pa.string()),
        ("nll", pa.float64()),
        ("tokens", pa.int64()),
        ("bytes", pa.int64()),
        ("unscored", pa.int64()),
        ("status", pa.string()),
    ]
)
"""`nll` is a sum in nats, null where nothing was scored; `unscored` tokens are part of `tokens` and have no part in `nll`."""


def score_held(subject: Subject, held: Held, *, stride: int = 0) -> pa.Table:
    """A row of SCHEMA for each document, in order. `stride` is by how many tokens a window moves on, 0 for half the context."""
    stride = stride or max(1, subject.context // 2)
    if not 0 < stride <= subject.context:
        raise BadQuery(f"a stride is within 1 and the context of {subject.context}, got {stride}")
    subject.check(held.ids)
    sums = np.concatenate([_sums(subject, held.ids[at : at + _DOCUMENTS], stride) for at in range(0, len(held), _DOCUMENTS)])
    tokens = np.array([len(row) for row in held.ids], np.int64)
    first = 0 if subject.start is not None else 1
    unscored = np.minimum(tokens, first)
    statuses = [status_of(int(n), n == 0) if first else ("ok" if n else measures.EMPTY_TEXT) for n in tokens]
    nats = pa.array(sums, mask=tokens <= unscored)
    columns = [
        pa.array(held.doc_ids, pa.string()), pa.array(held.sources, pa.string()), pa.array(held.domains, pa.string()), nats,
        tokens, held.num_bytes, unscored, pa.array(statuses, pa.string()),
    ]  # fmt: skip
    return pa.table(columns, schema=SCHEMA)


def _sums(subject: Subject, rows: tuple[Ints, ...], stride: int) -> npt.NDArray[np.float64]:
    windows, owners, firsts = [], [], []
    for k, row in enumerate(rows):
        whole = row if subject.start is None else np.concatenate((np.array([subject.start], np.int64), row))
        for begin, end, first in windows_of(len(whole), subject.context, stride):
            windows.append(whole[begin:end])
            owners.append(k)
            firsts.append(first)
    sums = np.zeros(len(rows))
    for scores, owner, first in zip(subject.score(windows), owners, firsts, strict=True):
        sums[owner] += float(scores.nats[first:].sum(dtype=np.float64))
    return sums


def windows_of(tokens: int, context: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Windows [begin, end) of at most context + 1 tokens, and the first target of each that no window before it scored.

    Together they score every token but the very first once.
    """
    scored = 1
    while scored < tokens:
        end = min(tokens, context + 1 if scored == 1 else scored + stride)
        begin = max(0, end - context - 1)
        yield begin, end, scored - begin - 1
        scored = end


def summary_of(table: pa.Table) -> Perplexity:
    """What a table of SCHEMA comes to."""
    tokens, unscored, size = (table.column(name).to_numpy() for name in ("tokens", "unscored", "bytes"))
    nats = table.column("nll").to_numpy(zero_copy_only=False)
    return measures.summarise(nats, tokens, unscored, size, table.column("status").to_pylist())


def summaries_by(table: pa.Table, column: str) -> Mapping[str, Perplexity]:
    """What the rows of each source, or domain, come to; by rising name."""
    names = np.array(table.column(column).to_pylist(), object)
    return {str(name): summary_of(table.filter(pa.array(names == name))) for name in sorted(set(names.tolist()))}
