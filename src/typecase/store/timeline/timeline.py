"""Timeline: a training run that can be asked both ways, what a step saw and when a document was seen.

    with open_timeline("run.toml") as timeline:
        timeline.at(41_250, rank=3)            the samples that rank 3 read at that step
        timeline.when_document(0, 812)         every step, place and copy of document 812
        timeline.samples([0, 7, 1_000_000])    by training index, in any order

    run.toml -> plan_run -> order laid over the lengths of the token sets -> schedule -> steps

The order is built in memory, or read from the run's own index files. Price: opening reads the `.idx` and builds the three
arrays, about 25 ns a document and 20 ns a sample; a step costs its tokens, a sighting one scan of the arrays, 1 ms a million.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.order.keyed import KeyedOrder
from typecase.core.order.neox import NeoxOrder
from typecase.core.order.neox_blend import NeoxBlend
from typecase.core.order.order import Laid, Reads, Sightings, Split
from typecase.errors import BadQuery, FingerprintMismatch
from typecase.store.journal.opening import open_as_edited, open_set
from typecase.store.timeline.documents import DocumentFacts, Library
from typecase.store.timeline.frameworks import RunPlan, plan_run
from typecase.store.timeline.indexes import read_indexes
from typecase.store.timeline.labels import prefixes_of
from typecase.store.timeline.samples import Samples, Seat
from typecase.store.timeline.settings import Settings, read_settings
from typecase.store.tokens.store import TokenStore

Ints = npt.NDArray[np.int64]
_BATCH_TOKENS = 1 << 22
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Sighting:
    """One place where tokens of a document are trained on, or would be: `step` is None for an index beyond the run.

    Tokens [start, stop) of the document stand at tokens [at, at + stop - start) of the sample. `epoch` counts the copies of
    the document in the order, 0 first; in an order whose epochs are shuffled together it only tells copies apart.
    """

    document: DocumentFacts
    index: int
    sample: int
    seat: Seat | None
    at: int
    start: int
    stop: int
    epoch: int


class Timeline:
    """A run laid over its token sets. Made by `open_timeline`; closing lets go of the files."""

    def __init__(
        self, settings: Settings, plan: RunPlan, stores: Sequence[TokenStore], laid: Laid, ratings: Path | None
    ) -> None:
        self.settings, self.plan, self.stores, self.laid = settings, plan, tuple(stores), laid
        self.libraries = tuple(Library(k, store, ratings) for k, store in enumerate(stores))

    @property
    def num_samples(self) -> int:
        """Training indices that the order offers."""
        return self.laid.num_samples

    @property
    def num_steps(self) -> int | None:
        """Whole steps of the run: as many as it is set to, or as its samples allow; None for one that cycles without end."""
        return self.plan.schedule.num_steps(self.num_samples)

    def samples(self, indices: npt.ArrayLike, *, seats: Sequence[Seat | None] = ()) -> Samples:
        """The samples of training `indices` (n,), in the order given. Raises BadQuery for one that the framework has not."""
        reads = self.laid.reads(indices)
        packing, counts = reads.packing, np.diff(reads.packing.bounds)
        self._check_whole(reads)
        sizes = packing.stops - packing.starts
        if len(self.stores) == 1:
            tokens, _ = self.stores[0].read_spans(packing.docs, packing.starts, sizes)
        else:
            tokens = self._blended(np.repeat(reads.members, counts), packing.docs, packing.starts, sizes)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(packing.sample_tokens)))
        return Samples(reads, tokens, offsets, self.laid.sample_tokens, self.libraries, tuple(seats))

    def _check_whole(self, reads: Reads) -> None:
        """Samples of a packed order are full: one that is not, in files that were read, is of another token set."""
        order = self.plan.order or self.plan.blend
        if "indexes" not in self.settings.values or getattr(order, "packing_impl", "packed") != "packed":
            return
        short = np.flatnonzero(reads.packing.sample_tokens != self.laid.sample_tokens)
        short = short[reads.indices[short] < self.num_samples - 1]
        if short.size and getattr(order, "drop_last_partial_validation_sequence", True):
            k = short[0]
            held = reads.packing.sample_tokens[k]
            raise FingerprintMismatch(
                f"by the index files, training index {reads.indices[k]} reads {held} tokens of this set,"
                f" not {self.laid.sample_tokens}: they were made for other documents; `typecase order check` says what differs"
            )

    def _blended(self, members: Ints, docs: Ints, starts: Ints, sizes: Ints) -> npt.NDArray[Any]:
        ends = np.cumsum(sizes)
        wide = np.result_type(*(store.dtype for store in self.stores))
        tokens = np.empty(int(ends[-1]) if len(ends) else 0, wide)
        for member in np.unique(members):
            own = np.flatnonzero(members == member)
            read, offsets = self.stores[member].read_spans(docs[own], starts[own], sizes[own])
            into = np.arange(len(read)) - np.repeat(offsets[:-1], sizes[own]) + np.repeat((ends - sizes)[own], sizes[own])
            tokens[into] = read
        return tokens

    def batches(self, indices: npt.ArrayLike) -> Iterator[Samples]:
        """The samples of `indices`, a few million tokens at a time."""
        flat = np.asarray(indices, np.int64).reshape(-1)
        run = max(1, _BATCH_TOKENS // self.laid.sample_tokens)
        for first in range(0, len(flat), run):
            yield self.samples(flat[first : first + run])

    def at(self, step: int, *, rank: int | None = None) -> Samples:
        """The samples of a step in the order of its micro-batches, ranks and slots, or those of one rank.

        Raises BadQuery for a step beyond the run, or a rank that it has not.
        """
        batch = self.plan.schedule.batch(step, self.num_samples)
        grid = batch.indices
        if rank is not None and not 0 <= rank < grid.shape[1]:
            raise BadQuery(f"there is no rank {rank}: the data-parallel ranks of step {step} go from 0 to {grid.shape[1] - 1}")
        trained = bool(batch.trained)
        seats, indices = [], []
        for (micro, r, slot), index in np.ndenumerate(grid):
            if index >= 0 and (rank is None or r == rank):
                seats.append(Seat(step, micro, r, slot, trained))
                indices.append(int(index))
        return self.samples(indices, seats=seats)

    def seats(self, indices: npt.ArrayLike) -> list[list[Seat]]:
        """Where each training index is trained within the run: none, one, or several where the loader cycles."""
        flat = np.asarray(indices, np.int64).reshape(-1)
        found: list[list[Seat]] = [[] for _ in flat]
        places = self.plan.schedule.steps_of(flat, self.num_samples)
        columns = (places.rows, places.steps, places.micro_batches, places.ranks, places.slots, places.trained)
        for row, step, micro, rank, slot, trained in zip(*(c.tolist() for c in columns), strict=True):
            found[row].append(Seat(step, micro, rank, slot, trained))
        return found

    def when(self, sequences: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, *, member: int = 0) -> list[Sighting]:
        """Every place that trains on tokens [start, stop) of a sequence of a token set, or on a part, by rising step."""
        return [sighting for _, sighting in self.when_each(sequences, starts, stops, member=member)]

    def when_each(
        self, sequences: npt.ArrayLike, starts: npt.ArrayLike, stops: npt.ArrayLike, *, member: int = 0
    ) -> list[tuple[int, Sighting]]:
        """As `when`, each place with the number of the run of tokens that it sees."""
        seen = self.laid.sightings(sequences, starts, stops, member=member)
        asked = np.asarray(sequences, np.int64).reshape(-1)[seen.runs]
        docs, firsts = self.libraries[member].documents_of(asked)
        facts = self.libraries[member].facts(docs)
        epochs = _epochs(seen, asked)
        found = []
        for k, seats in enumerate(self.seats(seen.indices)):
            places: list[Seat] | list[None] = seats or [None]
            for seat in places:
                start, stop = int(firsts[k] + seen.starts[k]), int(firsts[k] + seen.stops[k])
                document = facts[int(docs[k])]
                at, epoch = int(seen.at[k]), int(epochs[k])
                index, sample = int(seen.indices[k]), int(seen.samples[k])
                sighting = Sighting(document, index, sample, seat, at, start, stop, epoch)
                found.append((int(seen.runs[k]), sighting))
        return sorted(found, key=lambda one: (one[1].seat.step if one[1].seat else _NEVER, one[1].index, one[1].at))

    def when_document(self, member: int, doc: int) -> list[Sighting]:
        """Every place that trains on document `doc` of a token set. Raises BadQuery when there is none."""
        library = self.libraries[member]
        if not 0 <= doc < library.store.num_documents:
            raise BadQuery(f"there is no document {doc}: {library.store.pair.prefix} has {library.store.num_documents}")
        sequences = library.sequences_of(doc)
        return self.when(sequences, np.zeros(len(sequences), np.int64), library.store.lengths[sequences], member=member)

    def describe(self) -> Mapping[str, Any]:
        """The run in numbers, for reports."""
        return {
            "framework": self.plan.framework,
            "split": self.plan.index_split,
            "members": [str(s.pair.prefix) for s in self.stores],
            "samples": self.num_samples,
            "sample_tokens": self.laid.sample_tokens,
            "steps": self.num_steps,
        }

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def __enter__(self) -> Timeline:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_timeline(
    run: Path | str,
    *,
    changes: Mapping[str, Any] | Sequence[str] = (),
    split: Split = "train",
    ratings: Path | None = None,
    edited: bool = False,
) -> Timeline:
    """Opens the run that a run file describes, or one over a token set with its settings in `changes`; see `read_settings`.

    `ratings` is a folder of scores for its documents, by default the setting of that name, or else the nearest in the lineage
    of each token set. Sets are read as they lie, or as their journals say: those named `set@…`, and all with `edited`. Raises
    NotFound for files, BadQuery for settings, CorruptStore for a damaged token set.
    """
    settings = read_settings(run, changes)
    named = settings.get("ratings", str)
    ratings = settings.path(named) if ratings is None and named else ratings
    plan = plan_run(settings, split)
    stores = tuple((open_as_edited if edited else open_set)(path) for path in plan.members)
    given = settings.get("indexes", str)
    laid = read_indexes(plan, stores, settings.path(given)) if given else lay(plan, stores)
    if plan.epochs is not None:
        plan = replace(plan, schedule=plan.schedule_of_epochs(laid.num_samples))
    return Timeline(settings, plan, stores, laid, ratings)


def lay(plan: RunPlan, stores: Sequence[TokenStore]) -> Laid:
    """The order of a run over its opened token sets."""
    lengths = [np.array(store.lengths) for store in stores]
    masked = prefixes_of(plan.labels, tuple(stores)) if plan.labels else None
    if plan.blend is not None:
        return plan.blend.lay(lengths, masked_prefix=masked) if isinstance(plan.blend, NeoxBlend) else plan.blend.lay(lengths)
    assert plan.order is not None
    if isinstance(plan.order, KeyedOrder):
        return plan.order.lay(lengths[0], num_samples=plan.num_samples)
    if isinstance(plan.order, NeoxOrder):
        return plan.order.lay(lengths[0], masked_prefix=masked[0] if masked else None)
    return plan.order.lay(lengths[0])


def _epochs(seen: Sightings, sequences: Ints) -> Ints:
    """Copies of a sequence numbered 0, 1, … by the place of the copy in the order."""
    if not len(sequences):
        return np.zeros(0, np.int64)
    order = np.lexsort((seen.copies, sequences))
    sequence, copy = sequences[order], seen.copies[order]
    fresh = np.concatenate(([True], sequence[1:] != sequence[:-1]))
    step = np.concatenate(([0], ((copy[1:] != copy[:-1]) & ~fresh[1:]).astype(np.int64)))
    total = np.cumsum(step)
    base = np.maximum.accumulate(np.where(fresh, total, 0))
    epochs = np.empty(len(sequences), np.int64)
    epochs[order] = total - base
    return epochs
