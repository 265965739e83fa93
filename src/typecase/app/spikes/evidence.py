"""Evidence: the documents that steps of a run read, with the tokens that those steps saw of each, and their signs.

    steps -> samples -> pieces -> (step, token set, document): one row each, its pieces joined

Price: the tokens of the steps, read once; a row of provenance and ratings for each document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from typecase.core.spikes import signs
from typecase.store.timeline.documents import DocumentFacts
from typecase.store.timeline.samples import Samples
from typecase.store.timeline.timeline import Timeline

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
SEEN_FILE = "seen.parquet"
_MOST_COMPARED = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Documents as steps saw them, a row each: step, token set, document, its length in tokens, and `tokens` end to end, row k
    being [offsets[k], offsets[k + 1])."""

    steps: I64
    members: I64
    docs: I64
    lengths: I64
    tokens: npt.NDArray[Any]
    offsets: I64

    def __len__(self) -> int:
        return len(self.docs)

    @property
    def sizes(self) -> I64:
        """Tokens that the step saw of each."""
        return np.diff(self.offsets)


def seen_at(timeline: Timeline, steps: Sequence[int]) -> Seen:
    """The documents of `steps`."""
    return _joined(timeline, [(step, timeline.at(step)) for step in steps])


def seen_some(timeline: Timeline, steps: Sequence[int], samples: int, seed: int) -> Seen:
    """Documents of `samples` samples of each of `steps`, drawn by seed and step."""
    found = []
    for step in steps:
        grid = timeline.plan.schedule.batch(step, timeline.num_samples).indices.reshape(-1)
        indices = grid[grid >= 0]
        drawn = np.random.default_rng([seed, step]).permutation(len(indices))[:samples]
        found.append((step, timeline.samples(indices[np.sort(drawn)])))
    return _joined(timeline, found)


def _joined(timeline: Timeline, batches: Sequence[tuple[int, Samples]]) -> Seen:
    steps, members, docs, sizes, tokens = [], [], [], [], []
    for step, samples in batches:
        packing = samples.reads.packing
        owners = np.repeat(samples.reads.members, np.diff(packing.bounds)).astype(np.int64)
        own = np.empty(len(owners), np.int64)
        for member in np.unique(owners):
            mine = owners == member
            own[mine] = timeline.libraries[member].documents_of(packing.docs[mine])[0]
        steps.append(np.full(len(owners), step, np.int64))
        members.append(owners)
        docs.append(own)
        sizes.append((packing.stops - packing.starts).astype(np.int64))
        tokens.append(np.asarray(samples.tokens))
    columns = [np.concatenate(one) if one else np.zeros(0, np.int64) for one in (steps, members, docs, sizes)]
    stream = np.concatenate(tokens) if tokens else np.zeros(0, np.int64)
    order = np.lexsort((columns[2], columns[1], columns[0]))
    starts = (np.cumsum(columns[3]) - columns[3])[order]
    by_step, member, doc, size = (one[order] for one in columns)
    places = np.repeat(starts - (np.cumsum(size) - size), size) + np.arange(size.sum())
    new = np.ones(len(doc), np.bool_)
    new[1:] = (np.diff(by_step) != 0) | (np.diff(member) != 0) | (np.diff(doc) != 0)
    firsts = np.flatnonzero(new)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
    offsets = np.append(ends[firsts], ends[-1])
    lengths = np.zeros(len(firsts), np.int64)
    for number in np.unique(member[firsts]).tolist():
        mine = member[firsts] == number
        lengths[mine] = timeline.stores[number].document_lengths()[doc[firsts][mine]]
    return Seen(by_step[firsts], member[firsts], doc[firsts], lengths, stream[places], offsets)


def runs_of(timeline: Timeline, seen: Seen) -> list[signs.U64]:
    """The set of runs of each document, for `signs.copied`: of the whole of it, since two steps cut copies differently."""
    rows = zip(seen.members.tolist(), seen.docs.tolist())
    return [signs.run_set(timeline.stores[member].read(doc)[:_MOST_COMPARED]) for member, doc in rows]


def facts_of(timeline: Timeline, seen: Seen) -> list[DocumentFacts]:
    """Provenance and scores of every row."""
    known: dict[tuple[int, int], DocumentFacts] = {}
    for member in np.unique(seen.members).tolist():
        for doc, facts in timeline.libraries[member].facts(seen.docs[seen.members == member]).items():
            known[member, doc] = facts
    return [known[member, doc] for member, doc in zip(seen.members.tolist(), seen.docs.tolist())]


def own_losses(run: Path, seen: Seen) -> F64 | None:
    """The mean loss of each row in its step, nats a token, from what `typecase train` wrote into `run`; nan where unknown.

    None where the run has no such table.
    """
    path = run / SEEN_FILE if run.is_dir() else run.with_name(SEEN_FILE)
    if not path.is_file():
        return None
    table = pq.read_table(path, filters=pc.field("step").isin(np.unique(seen.steps)))
    keys = zip(*(table.column(name).to_pylist() for name in ("step", "member", "doc")))
    means = table.column("loss_sum").to_numpy() / np.maximum(table.column("tokens").to_numpy(), 1)
    known = dict(zip(keys, means.tolist()))
    asked = zip(seen.steps.tolist(), seen.members.tolist(), seen.docs.tolist())
    return np.array([known.get(key, np.nan) for key in asked])
