"""Report: what a run will train on, before it does, or has: epochs, repeats, waste, and shares by source and domain.

    work/tokens/web        1,204 documents     1.9 epochs    repeats from step 610
      source wiki          41.2 % of trained tokens, 40.1 % of the set

Two runs can be compared: what one changes against the other, which documents a longer or reweighted run repeats or leaves out,
and whether the order of what was already trained is still the same. Price: every sample of the run is laid out once, about
5 million samples a minute of one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from typecase.core.order.blend import BlendTables
from typecase.core.order.coverage import Coverage
from typecase.core.order.order import Laid, Reads
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery, Conflict, NotFound
from typecase.store.timeline.documents import Library
from typecase.store.timeline.timeline import Timeline

Ints = npt.NDArray[np.int64]
_RUN = 1 << 16


@dataclass(frozen=True, slots=True)
class Share:
    """A group of documents of one token set: what the run trains of it; `first_repeat_…` are None when nothing repeats."""

    name: str
    documents: int
    set_tokens: int
    trained_tokens: int
    repeated_tokens: int
    unseen_documents: int
    first_repeat_index: int | None
    first_repeat_step: int | None

    @property
    def epochs(self) -> float:
        """Trained tokens over those of the set."""
        return self.trained_tokens / self.set_tokens if self.set_tokens else 0.0


@dataclass(frozen=True, slots=True)
class MemberReport:
    """One token set of a run, as a whole and by each kind of group that its documents are known by."""

    path: str
    whole: Share
    groups: dict[str, tuple[Share, ...]]


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run in numbers. `padding_tokens` are slots without a token, `cut_tokens` those that a packing of whole documents cuts
    off its samples; a sample's tokens count once, its last label included."""

    framework: str
    split: str
    steps: int | None
    samples_offered: int
    samples_trained: int
    sample_tokens: int
    trained_tokens: int
    padding_tokens: int
    cut_tokens: int
    members: tuple[MemberReport, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against an earlier one, from `step` on.

    `same_order` tells whether the first `samples_before` samples are the same in both. Of each token set: documents trained
    before that the new run trains again after, and documents that neither trains.
    """

    step: int
    samples_before: int
    same_order: bool
    first_difference: int | None
    repeated: dict[str, tuple[int, ...]]
    skipped: dict[str, tuple[int, ...]]
    shares_before: dict[str, float]
    shares_after: dict[str, float]


def report(timeline: Timeline, *, by: Sequence[str] = ("source", "domain")) -> RunReport:
    """What the run trains on, in whole and by the columns `by` of provenance and ratings, where the sets have them."""
    notes = []
    if timeline.num_steps is None:
        notes.append("the loader cycles and the run has no end: one pass over the order is counted")
    names: list[list[tuple[str, list[str], npt.NDArray[np.int32]]]] = []
    for library in timeline.libraries:
        n = library.store.num_sequences
        groupings = [("", ["all"], np.zeros(n, np.int32))]
        groupings += [found for column in by if (found := _grouping(library, column)) is not None]
        names.append(groupings)
    coverages = [[Coverage.empty(codes, len(labels)) for _, labels, codes in groupings] for groupings in names]
    trained = samples = again = cut = 0
    uncut = _uncut(timeline.laid)
    for steps, reads, visits in walk(timeline, 0, timeline.num_steps):
        trained += int(reads.packing.sample_tokens.sum())
        samples += len(steps)
        again += int(np.count_nonzero(visits))
        if uncut is not None:
            cut += int(np.maximum(uncut.reads(reads.indices).packing.sample_tokens - timeline.laid.sample_tokens, 0).sum())
        for member, groups in enumerate(coverages):
            for coverage in groups:
                coverage.add(reads, steps, visits, member)
    if again:
        notes.append(f"the order offers {timeline.num_samples:,} samples, and the loader reads {again:,} of them again")
    members = []
    for library, groupings, covered in zip(timeline.libraries, names, coverages, strict=True):
        shares = [_shares(library, c, labels) for (_, labels, _), c in zip(groupings, covered, strict=True)]
        by_name = {name: tuple(s) for (name, _, _), s in zip(groupings[1:], shares[1:], strict=True)}
        members.append(MemberReport(str(library.store.pair.prefix), shares[0][0], by_name))
    return RunReport(
        framework=timeline.plan.framework,
        split=timeline.plan.index_split,
        steps=timeline.num_steps,
        samples_offered=timeline.num_samples,
        samples_trained=samples,
        sample_tokens=timeline.laid.sample_tokens,
        trained_tokens=trained,
        padding_tokens=samples * timeline.laid.sample_tokens - trained,
        cut_tokens=cut,
        members=tuple(members),
        notes=tuple(notes),
    )


def _uncut(laid: Laid) -> Laid | None:
    """The same order with its samples whole, where it packs whole documents; None where no sample is ever too long."""
    if isinstance(laid, BlendTables):
        members = [_uncut(member) for member in laid.members]
        held = tuple(member for member in members if isinstance(member, Tables))
        return replace(laid, members=held) if len(held) == len(members) else None
    whole = isinstance(laid, Tables) and bool(np.all(laid.rows[:, 1] == 0))
    return replace(laid, cuts=False) if whole and isinstance(laid, Tables) else None


def walk(timeline: Timeline, first: int, last: int | None) -> Iterator[tuple[Ints, Reads, Ints]]:
    """What steps [first, last) train on, in runs: the step of every sample, its reads, how often its index was read before.

    `last` None is the end of one pass. Samples of skipped steps are consumed, and left out.
    """
    before = np.zeros(timeline.num_samples, np.uint16) if timeline.plan.schedule.cycles else None
    for steps, indices in _trained(timeline, first, last):
        visits = np.zeros(len(indices), np.int64)
        if before is not None:
            visits = before[indices] + _earlier(indices)
            np.add.at(before, indices, 1)
        yield steps, timeline.laid.reads(indices), visits


def _trained(timeline: Timeline, first: int, last: int | None) -> Iterator[tuple[Ints, Ints]]:
    if last is None:
        for begin in range(0, timeline.num_samples, _RUN):
            indices = np.arange(begin, min(begin + _RUN, timeline.num_samples))
            yield np.full(len(indices), -1), indices
        return
    schedule, steps, batches, held = timeline.plan.schedule, [], [], 0
    for step in range(first, last):
        batch = schedule.batch(step, timeline.num_samples)
        if batch.trained:
            indices = batch.indices[batch.indices >= 0]
            steps.append(np.full(len(indices), step))
            batches.append(indices)
            held += len(indices)
        if held and (held >= _RUN or step == last - 1):
            yield np.concatenate(steps), np.concatenate(batches)
            steps, batches, held = [], [], 0
    if held:
        yield np.concatenate(steps), np.concatenate(batches)


def _earlier(indices: Ints) -> Ints:
    """How often each index stands further to the left."""
    order = np.argsort(indices, kind="stable")
    rising = indices[order]
    first = np.searchsorted(rising, rising, side="left")
    earlier = np.empty(len(indices), np.int64)
    earlier[order] = np.arange(len(indices)) - first
    return earlier


def consumed_by(timeline: Timeline, steps: int) -> int:
    """Samples that the first `steps` steps consume."""
    schedule = timeline.plan.schedule
    return 0 if steps == 0 else schedule.consumed(steps - 1) + schedule.batch_size(steps - 1)


def compare(old: Timeline, new: Timeline, *, step: int, allow_changed_order: bool = False) -> Comparison:
    """What `new` changes for a run that followed `old` up to `step`.

    Raises Conflict when samples before `step` are not the same in both, unless `allow_changed_order`: a framework that resumes
    by consumed samples would then skip and repeat documents without a word.
    """
    before = min(consumed_by(old, step), old.num_samples)
    difference = _first_difference(old, new, before)
    if difference is not None and not allow_changed_order:
        raise Conflict(
            f"the order changed: sample {difference} of {before} already trained differs between the two runs, so a resumed run"
            " skips some documents and repeats others; keep the order (the same sets, split, seed, weights and number of"
            " samples, or the keyed order), or say that it may change"
        )
    if old.laid.sample_tokens != new.laid.sample_tokens and difference is None:
        raise BadQuery("the two runs have samples of different lengths")
    seen_old, seen_new = _seen(old, 0, step), _seen(new, step, new.num_steps)
    paths = [str(s.pair.prefix) for s in new.stores]
    old_by_path = {str(s.pair.prefix): seen for s, seen in zip(old.stores, seen_old, strict=True)}
    repeated, skipped = {}, {}
    for path, library, now in zip(paths, new.libraries, seen_new, strict=True):
        then = old_by_path.get(path, np.zeros_like(now))
        then = then if len(then) == len(now) else np.resize(then, len(now))
        repeated[path] = _documents(library, (then > 0) & (now > 0))
        skipped[path] = _documents(library, (then == 0) & (now == 0) & (np.asarray(library.store.lengths) > 0))
    return Comparison(
        step, before, difference is None, difference, repeated, skipped,
        _ratios(old, seen_old), _ratios(new, seen_new),
    )  # fmt: skip


def _first_difference(old: Timeline, new: Timeline, last: int) -> int | None:
    """The first of `last` samples that reads other tokens in `new`."""
    places = {str(s.pair.prefix): k for k, s in enumerate(new.stores)}
    member_of = np.array([places.get(str(s.pair.prefix), -1) for s in old.stores])
    if last > new.num_samples:
        return new.num_samples
    for first in range(0, last, _RUN):
        indices = np.arange(first, min(first + _RUN, last))
        a, b = old.laid.reads(indices), new.laid.reads(indices)
        same = (member_of[a.members] == b.members) & (np.diff(a.packing.bounds) == np.diff(b.packing.bounds))
        if not same.all():
            return first + int(np.argmin(same))
        pieces = (a.packing.docs == b.packing.docs) & (a.packing.starts == b.packing.starts)
        pieces &= a.packing.stops == b.packing.stops
        if not pieces.all():
            return first + int(np.searchsorted(a.packing.bounds, int(np.argmin(pieces)), side="right")) - 1
    return None


def _seen(timeline: Timeline, first: int, last: int | None) -> list[Ints]:
    found = [Coverage.empty(np.zeros(s.num_sequences, np.int32), 1) for s in timeline.stores]
    for steps, reads, visits in walk(timeline, first, last):
        for member, coverage in enumerate(found):
            coverage.add(reads, steps, visits, member)
    return [coverage.seen for coverage in found]


def _ratios(timeline: Timeline, seen: Sequence[Ints]) -> dict[str, float]:
    total = max(1, sum(int(s.sum()) for s in seen))
    return {str(store.pair.prefix): int(s.sum()) / total for store, s in zip(timeline.stores, seen, strict=True)}


def _documents(library: Library, sequences: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    docs, _ = library.documents_of(np.flatnonzero(sequences))
    return tuple(np.unique(docs).tolist())


def _grouping(library: Library, column: str) -> tuple[str, list[str], npt.NDArray[np.int32]] | None:
    """The group of every sequence by a column of its document, None where the set does not have the column."""
    try:
        values = library.columns([column]).column(column).combine_chunks()
    except NotFound:
        return None
    coded = pc.dictionary_encode(pc.fill_null(pc.cast(values, "string"), "(none)"))
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    docs, _ = library.documents_of(np.arange(library.store.num_sequences))
    return column, coded.dictionary.to_pylist(), codes[docs]


def _shares(library: Library, coverage: Coverage, labels: Sequence[str]) -> list[Share]:
    n = len(labels)
    held = np.asarray(library.store.lengths)
    docs, _ = library.documents_of(np.arange(len(held)))
    first = np.flatnonzero(np.diff(docs, prepend=-1))
    documents = np.bincount(coverage.groups[first], minlength=n)
    tokens = np.bincount(coverage.groups, weights=held, minlength=n).astype(np.int64)
    empty_or_seen = np.add.reduceat((coverage.seen > 0) | (held == 0), first) > 0 if len(first) else first
    unseen = np.bincount(coverage.groups[first[~empty_or_seen.astype(bool)]], minlength=n)
    shares = []
    for g in range(n):
        repeats = coverage.first_index[g] >= 0
        index, step = int(coverage.first_index[g]), int(coverage.first_step[g])
        shares.append(
            Share(
                labels[g], int(documents[g]), int(tokens[g]), int(coverage.tokens[g]), int(coverage.repeated[g]),
                int(unseen[g]), index if repeats else None, step if repeats and step >= 0 else None,
            )
        )  # fmt: skip
    return sorted(shares, key=lambda s: -s.trained_tokens)
