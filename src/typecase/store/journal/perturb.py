"""Perturb: texts injected into many samples of a run as one experiment, all of them or none.

    text 0, copy 0   -> training index 812   seq_shuffle, drawn by its own generator   entry 1
    text 0, copy 1   -> training index 44    …                                         entry 2

Each injection is planned over the view that the ones before have left, and is an entry of its own, so each can be taken back
alone; the journal takes them in one transaction. In the end every text must stand whole in its sample: two samples may read the
same tokens (a shared border, a copy in another epoch), and then a later text has damaged an earlier one, and nothing is kept.

Price: about half a millisecond an injection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import ids
from typecase.core.edit.inject import Plan, Sample, at_end, seq_shuffle, seq_start
from typecase.core.edit.spread import Placement
from typecase.errors import BadQuery, Conflict
from typecase.store.journal.journal import Journal
from typecase.store.timeline.timeline import Timeline
from typecase.store.tokens.store import TokenStore

KINDS = ("seq_start", "seq_shuffle", "end")


@dataclass(frozen=True, slots=True)
class Injected:
    """One injection as it was made: tokens [at, at + length) of the sample at training index `index` are the text."""

    text: int
    copy: int
    index: int
    entry: int
    at: int
    length: int
    piece: int | None
    offset: int | None

    def as_dict(self) -> Mapping[str, Any]:
        """The injection as JSON has it: a line of the experiment's log."""
        return {name: getattr(self, name) for name in self.__slots__}


def sample_of(view: TokenStore, timeline: Timeline, index: int, *, member: int = 0) -> Sample:
    """What training index `index` reads of `view`, which is token set `member` of the run.

    Raises BadQuery for an index that the run has not, or whose sample is of another token set.
    """
    reads = timeline.laid.reads([index])
    if int(reads.members[0]) != member:
        raise BadQuery(f"training index {index} reads token set {reads.members[0]} of the run, not {member}: edit that one")
    packing = reads.packing
    tokens, _ = view.read_spans(packing.docs, packing.starts, packing.stops - packing.starts)
    pieces = zip(packing.docs.tolist(), packing.starts.tolist(), packing.stops.tolist(), strict=True)
    extra = max(0, timeline.laid.sample_tokens - int(timeline.settings.get("seq_length", int) or timeline.laid.sample_tokens))
    return Sample.of(pieces, tokens, extra)


def perturb(
    journal: Journal,
    timeline: Timeline,
    texts: Sequence[npt.ArrayLike],
    placements: Sequence[Placement],
    *,
    kind: str = "seq_shuffle",
    member: int = 0,
    reason: str = "",
) -> list[Injected]:
    """Injects `texts` (ids) where `placements` say, as `spread` draws them; what was done, one row an injection.

    Raises BadQuery for a text that does not fit a sample or the dtype, Conflict when one text overwrites another; nothing is
    recorded then.
    """
    if kind not in KINDS:
        raise BadQuery(f"there is no injection type {kind!r}; there are {', '.join(KINDS)}")
    tokens = [ids(text) for text in texts]
    done = []
    with journal.batch():
        for p in placements:
            plan = _plan(kind, sample_of(journal.view(), timeline, p.sample, member=member), tokens[p.text], p)
            if plan.edits:  # a text that stands there already changes nothing
                entry = journal.record(plan.edits, reason=reason or f"text {p.text}, copy {p.copy}").id
            else:
                entry = journal.head
            done.append(Injected(p.text, p.copy, p.sample, entry, plan.at, plan.length, plan.piece, plan.offset))
        _check_whole(journal.view(), timeline, tokens, done, member)
    return done


def _plan(kind: str, sample: Sample, text: npt.NDArray[Any], placement: Placement) -> Plan:
    if kind == "seq_shuffle":
        return seq_shuffle(sample, text, placement.rng)
    return seq_start(sample, text) if kind == "seq_start" else at_end(sample, text)


def _check_whole(
    view: TokenStore, timeline: Timeline, tokens: Sequence[npt.NDArray[Any]], done: Sequence[Injected], member: int
) -> None:
    damaged = []
    for one in done:
        sample = sample_of(view, timeline, one.index, member=member)
        if not np.array_equal(sample.tokens[one.at : one.at + one.length], tokens[one.text]):
            damaged.append(one)
    if damaged:
        some = ", ".join(f"text {d.text} at training index {d.index}" for d in damaged[:5])
        raise Conflict(
            f"{len(damaged)} of {len(done)} injections were overwritten by later ones, whose samples read the same tokens:"
            f" {some}; nothing was recorded: take another seed, fewer copies, or samples of one epoch"
        )
