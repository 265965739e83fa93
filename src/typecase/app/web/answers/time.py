"""Time machine: what a step of a run reads, sample by sample, and every step that reads a document; the loss curve beside it.

    step 41   rank 0   sample   | doc 812 [0, 310) | doc 17 [0, 203) | …      pieces in the order of the loader
    doc 812   step 41, step 97 (its second copy) …

The samples of a page are read, never the whole run; a loss curve is thinned to its smallest and largest value of every stretch.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from typecase.app.spikes.losses import read_losses
from typecase.app.trace.tracing import export_samples, shown, trace_when
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.kin import members_of
from typecase.app.web.state import ask
from typecase.errors import BadQuery, NotFound, TypecaseError
from typecase.store.timeline.samples import Sample
from typecase.store.timeline.timeline import Sighting, Timeline

MOST_POINTS = 800
_SHOWN_SIGHTINGS = 500


@dataclass(frozen=True, slots=True)
class Query:
    run: str = ask("", "the run; the first one by default")
    step: int = ask(0, "the step whose batch is shown, from 0", low=0)
    rank: int | None = ask(None, "only the samples of one data-parallel rank", low=0)
    set: str = ask("", "the token set that doc is of; the first one of the run by default")
    doc: str = ask("", "a document, by number or id: all its steps are shown", longest=64)
    tokens: int = ask(200, "tokens of each sample that are shown as text", low=0, high=8192)
    losses: str = ask("", "the losses beside it; those that lie with the run by default, - for none")
    page: int = ask(1, "which page of samples", low=1, high=100_000_000)
    size: int = ask(8, "samples of a page", low=1, high=64)


@dataclass(frozen=True, slots=True)
class PieceShown:
    """Tokens [start, stop) of a document, at tokens [at, …) of a sample; `text` of those that are shown."""

    member: int
    doc: int
    doc_id: str | None
    source: str | None
    start: int
    stop: int
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class SampleShown:
    """One training sample and where it is trained; `padding` tokens stand behind its pieces."""

    index: int
    rank: int
    micro_batch: int
    slot: int
    trained: bool
    tokens: int
    padding: int
    pieces: tuple[PieceShown, ...]


@dataclass(frozen=True, slots=True)
class SeenAt:
    """A place in training that reads tokens [start, stop) of a document; `step` is None beyond the run."""

    step: int | None
    rank: int | None
    index: int
    at: int
    start: int
    stop: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Losses in nats a token by step; thinned where there are many. `here` is that of the shown step."""

    name: str
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    here: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The samples [size * (page - 1), …) of `total` that a step reads, and the places in training of a document.

    `steps` is None for a run that cycles without end. `sets` are its token sets by number, as they are served.
    """

    run: str
    framework: str
    steps: int | None
    step: int
    ranks: int
    sample_tokens: int
    total: int
    page: int
    size: int
    sets: tuple[str, ...]
    samples: tuple[SampleShown, ...]
    doc: str
    sightings: int
    seen: tuple[SeenAt, ...]
    curve: Curve | None


def answer(desk: Desk, query: Query) -> Answer:
    """What a state asks. Raises NotFound, and BadQuery for a step, rank or document that the run has not."""
    run = desk.catalogue.get(query.run, "run")
    sets = members_of(desk, run)
    with desk.timeline(run) as timeline:
        batch = timeline.at(query.step, rank=query.rank)
        low = query.size * (query.page - 1)
        indices = batch.reads.indices[low : low + query.size]
        seats = batch.seats[low : low + query.size]
        samples: tuple[SampleShown, ...] = ()
        if len(indices):
            part = timeline.samples(indices, seats=seats)
            samples = tuple(_sample(s.sample, s.texts) for s in shown(timeline, part, None, limit=query.tokens))
        seen: Sequence[Sighting] = ()
        if query.doc:
            member = _member(timeline, sets, query.set)
            seen = trace_when(timeline, doc=query.doc, member=member).sightings
        ranks = timeline.plan.schedule.batch(query.step, timeline.num_samples).indices.shape[1]
        return Answer(
            run.name,
            timeline.plan.framework,
            timeline.num_steps,
            query.step,
            int(ranks),
            timeline.laid.sample_tokens,
            len(batch),
            query.page,
            query.size,
            tuple(i.name for i in sets),
            samples,
            query.doc,
            len(seen),
            tuple(map(_seen, seen[:_SHOWN_SIGHTINGS])),
            _curve(desk, run, query),
        )


def _sample(one: Sample, texts: tuple[str, ...] | None) -> SampleShown:
    assert one.seat is not None
    pieces = tuple(
        PieceShown(
            p.document.member,
            p.document.doc,
            p.document.doc_id,
            p.document.source,
            p.start,
            p.stop,
            p.at,
            texts[k] if texts is not None else " ".join(map(str, one.tokens[p.at : p.at + min(p.stop - p.start, 40)].tolist())),
        )
        for k, p in enumerate(one.pieces)
    )
    seat = one.seat
    return SampleShown(one.index, seat.rank, seat.micro_batch, seat.slot, seat.trained, one.num_tokens, one.padding, pieces)


def _seen(one: Sighting) -> SeenAt:
    seat = one.seat
    return SeenAt(seat.step if seat else None, seat.rank if seat else None, one.index, one.at, one.start, one.stop, one.epoch)


def _member(timeline: Timeline, sets: Sequence[Item], name: str) -> int:
    """The number of a served token set in a run."""
    if not name:
        return 0
    prefixes = [store.pair.prefix.resolve() for store in timeline.stores]
    for item in sets:
        if item.name == name:
            return prefixes.index(item.pair.prefix.resolve())
    raise NotFound(
        f"the run does not read a token set called {name!r}: it reads {', '.join(i.name for i in sets) or 'none served'}"
    )


def losses_of(desk: Desk, run: Item, name: str) -> Item | None:
    """The losses that are meant: named, else those that lie nearest to the run file."""
    if name == "-":
        return None
    if name:
        return desk.catalogue.get(name, "losses", "model")
    there = desk.catalogue.of_kind("losses", "model")
    near = [i for i in there if run.path.parent in (i.path.parent, *i.path.parents)]
    return near[0] if near else None


def _curve(desk: Desk, run: Item, query: Query) -> Curve | None:
    item = losses_of(desk, run, query.losses)
    if item is None:
        return None

    def read() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        found = read_losses(item.path)
        return found.steps, found.losses

    try:
        steps, losses = desk.remember(("losses", item.path), stamp_of(item), read)
    except TypecaseError:
        if query.losses:
            raise
        return None
    at = np.flatnonzero(steps == query.step)
    here = float(losses[at[0]]) if at.size and np.isfinite(losses[at[0]]) else None
    known = np.isfinite(losses)
    own_steps, own_losses = thinned(steps[known], losses[known], MOST_POINTS)
    return Curve(item.name, tuple(own_steps.tolist()), tuple(own_losses.tolist()), here)


def thinned(
    steps: npt.NDArray[np.int64], values: npt.NDArray[np.float64], most: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """At most about `most` points: of every stretch its smallest and its largest, so that a spike is never lost."""
    if len(steps) <= most:
        return steps, values
    bounds = np.linspace(0, len(steps), most // 2 + 1).astype(np.int64)
    kept = set[int]()
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if high > low:
            part = values[low:high]
            kept |= {low + int(np.argmin(part)), low + int(np.argmax(part))}
    order = np.array(sorted(kept), np.int64)
    return steps[order], values[order]


def python(desk: Desk, query: Query) -> str:
    run = desk.catalogue.get(query.run, "run")
    rank = f", rank={query.rank}" if query.rank is not None else ""
    lines = ["import typecase as tc", "", f"tc.trace_at({str(run.path)!r}, {query.step}{rank})"]
    if query.doc:
        lines.append(f"tc.trace_when({str(run.path)!r}, doc={query.doc!r})")
    return "\n".join(lines)


def command(desk: Desk, query: Query) -> str:
    run = shlex.quote(str(desk.catalogue.get(query.run, "run").path))
    rank = f" --rank {query.rank}" if query.rank is not None else ""
    lines = [f"typecase trace at {run} --step {query.step}{rank}"]
    if query.doc:
        lines.append(f"typecase trace when {run} --doc {shlex.quote(query.doc)}")
    return "\n".join(lines)


FORMATS = ("jsonl", "csv", "parquet")


def export(desk: Desk, query: Query, out: Path) -> None:
    """All samples of the step, or of the rank, with ids, documents, tokens and text. Raises BadQuery for an empty step."""
    run = desk.catalogue.get(query.run, "run")
    with desk.timeline(run) as timeline:
        batch = timeline.at(query.step, rank=query.rank)
        if not len(batch):
            raise BadQuery(f"step {query.step} reads no sample")
        from typecase.app.verbs import tokenizer_for

        reader = tokenizer_for(timeline.stores[0].pair.bin.parent, None)
        export_samples(timeline, iter([batch]), out, what="both" if reader is not None else "tokens")
