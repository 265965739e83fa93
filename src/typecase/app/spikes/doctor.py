"""The spike doctor: which documents of a step may have made its loss jump, ranked, with the evidence for each.

    losses ─► spikes ─► steps of the spike and those just before ─► their documents ─► signs against ordinary steps ─► rank

A loss jumps in the step that reads a bad batch, or in the next, when the weights have learnt it; so `before` steps are looked
at too. What is ordinary is measured on documents of steps before that are no spike (behind, where there are none). See
`core.spikes` for the signs and how they are joined. Nothing is changed here; `treatment` does that.

Price: the tokens of the looked-at steps, and of BACKGROUND samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.app.audit.verdict import read_whole
from typecase.app.spikes.evidence import Seen, facts_of, own_losses, runs_of, seen_at, seen_some
from typecase.app.spikes.losses import LossCurve, read_losses
from typecase.app.verbs import tokenizer_for
from typecase.core.glitch.decision import UNDER_TRAINED
from typecase.core.spikes import signs
from typecase.core.spikes.curve import LEAST, WINDOW, Spike, find_spikes
from typecase.core.spikes.suspicion import FLOORS, Usual, deviations, suspicion, usual_of
from typecase.errors import BadQuery
from typecase.store.audit.census import read_census
from typecase.store.timeline.documents import DocumentFacts
from typecase.store.timeline.timeline import Timeline, open_timeline

F64 = npt.NDArray[np.float64]
BACKGROUND, _STEPS, _EARLIER, _SHOWN_TOKENS = 256, 16, 8, 48
_ALIKE = 0.3  # less is chance between texts of one kind, and is not told
Changes = Mapping[str, Any] | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a spike is looked into.

    window, least   of `core.spikes.curve.find_spikes`
    before          steps before the spike that are looked at too
    background      samples of ordinary steps that say what is usual, drawn by `seed`
    counts          a census (`typecase audit corpus`) for how rare a token is; else the background is counted
    audit           a verdict (`typecase audit report`, Parquet) for under-trained tokens
    step_column, loss_column    names of columns in the losses, where they are not the usual ones
    tokenizer       for text, where the set has none of its own
    """

    window: int = WINDOW
    least: float = LEAST
    before: int = 1
    background: int = BACKGROUND
    seed: int = 0
    counts: Path | None = None
    audit: Path | None = None
    step_column: str | None = None
    loss_column: str | None = None
    tokenizer: str | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign of a document: its value, what is usual, and the deviations between the two; `of` names a score's column or
    the document that it copies."""

    name: str
    value: float
    usual: float
    z: float
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A document of a looked-at step: `tokens` of its `length` were read there. `signs` hold those above usual, farthest
    first."""

    rank: int
    suspicion: float
    step: int
    document: DocumentFacts
    tokens: int
    length: int
    signs: tuple[Sign, ...]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found: the spike (None where only a step was named), all spikes of the curve, the steps that were looked at,
    every document of theirs by falling suspicion, and which signs could not be asked, with the reason."""

    spike: Spike | None
    spikes: tuple[Spike, ...]
    steps: tuple[int, ...]
    suspects: tuple[Suspect, ...]
    tokens: int
    asked: tuple[str, ...]
    unasked: Mapping[str, str] = field(default_factory=dict)


def diagnose(
    run: Timeline | Path | str,
    losses: Path | str | None = None,
    *,
    step: int | None = None,
    look: Look | None = None,
    changes: Changes = (),
) -> Diagnosis:
    """The suspect documents of `step`, or of the highest spike of the curve in `losses`.

    With both, the spike that holds the step, or the one just behind it, says which steps are looked at. Raises BadQuery where
    neither is given, the curve has no spike, or the run no such step; NotFound for files.
    """
    look = look or Look()
    if step is None and losses is None:
        raise BadQuery("name a step, or give the losses of the run to find the steps that jump")
    curve = read_losses(losses, step=look.step_column, loss=look.loss_column) if losses is not None else None
    spikes = tuple(find_spikes(curve.steps, curve.losses, window=look.window, least=look.least)) if curve else ()
    spike = _chosen(spikes, step, curve)
    if isinstance(run, Timeline):
        return _diagnosed(run, curve, spikes, spike, step, look)
    with open_timeline(run, changes=changes) as timeline:
        return _diagnosed(timeline, curve, spikes, spike, step, look)


def _chosen(spikes: Sequence[Spike], step: int | None, curve: LossCurve | None) -> Spike | None:
    if step is not None:
        return next((one for one in spikes if one.first <= step < one.stop), None)
    if not spikes:
        assert curve is not None
        raise BadQuery(f"{curve.path} has no spike in {len(curve.steps):,} steps: name a step, or ask for a lower --least")
    return max(spikes, key=lambda one: (one.height, -one.first))


def _diagnosed(
    timeline: Timeline, curve: LossCurve | None, spikes: Sequence[Spike], spike: Spike | None, step: int | None, look: Look
) -> Diagnosis:
    first, stop = (spike.first, spike.peak + 1) if spike is not None and step is None else (step or 0, (step or 0) + 1)
    steps = tuple(range(max(0, first - look.before), stop))
    seen = seen_at(timeline, steps)
    usual = seen_some(timeline, *_ordinary(timeline, steps, spikes, look), look.seed)
    measured = _Measured(timeline, seen, usual, look)
    measured.all(curve, [one for one in spikes if one.stop <= steps[0]])
    scores = suspicion(measured.z, seen.sizes)
    order = np.lexsort((seen.docs, seen.members, seen.steps, -scores))
    suspects = tuple(measured.suspect(rank, int(row), float(scores[row])) for rank, row in enumerate(order, 1))
    return Diagnosis(spike, tuple(spikes), steps, suspects, int(seen.sizes.sum()), tuple(measured.z), measured.unasked)


def _ordinary(timeline: Timeline, steps: Sequence[int], spikes: Sequence[Spike], look: Look) -> tuple[list[int], int]:
    """Steps that say what is usual, and how many samples of each."""
    excited = {step for one in spikes for step in range(max(0, one.first - look.before), one.stop)} | set(steps)
    last = timeline.num_steps
    behind = range(steps[-1] + 1, steps[-1] + 1 + look.window) if last is None else range(steps[-1] + 1, last)
    near = [step for step in range(max(0, steps[0] - look.window), steps[0]) if step not in excited]
    near = near or [step for step in behind[: look.window] if step not in excited]
    if not near:
        raise BadQuery("the run has no ordinary steps beside these to compare with: look at fewer steps before (--before)")
    chosen = sorted(np.random.default_rng(look.seed).permutation(near)[:_STEPS].tolist())
    return chosen, -(-look.background // len(chosen))


class _Measured:
    """The signs of the documents that were seen, against those of ordinary steps."""

    def __init__(self, timeline: Timeline, seen: Seen, usual: Seen, look: Look) -> None:
        self.timeline, self.seen, self.usual, self.look = timeline, seen, usual, look
        self.values: dict[str, F64] = {}
        self.z: dict[str, F64] = {}
        self.medians: dict[str, F64] = {}
        self.of: dict[str, list[str | None]] = {}
        self.unasked: dict[str, str] = {}
        self.facts = facts_of(timeline, seen)

    def all(self, curve: LossCurve | None, earlier: Sequence[Spike]) -> None:
        seen, usual = self.seen, self.usual
        self._add("repeated", signs.repeated(seen.tokens, seen.offsets), signs.repeated(usual.tokens, usual.offsets))
        self._add("stretch", signs.stretch(seen.tokens, seen.offsets), signs.stretch(usual.tokens, usual.offsets))
        counts = self._counts()
        self._add(
            "surprise", signs.surprise(seen.tokens, seen.offsets, counts), signs.surprise(usual.tokens, usual.offsets, counts)
        )
        self._add("length", np.log2(1.0 + seen.lengths), np.log2(1.0 + usual.lengths))
        self._flagged()
        self._scored()
        self._copied(earlier)
        self._lost(curve)

    def suspect(self, rank: int, row: int, score: float) -> Suspect:
        seen = self.seen
        above = [
            Sign(name, float(self.values[name][row]), float(self.medians[name][row]), float(z[row]),
                 self.of[name][row] if name in self.of else None)
            for name, z in self.z.items() if z[row] > 0 and np.isfinite(self.values[name][row])
        ]  # fmt: skip
        above.sort(key=lambda sign: (-sign.z, sign.name))
        return Suspect(
            rank, score, int(seen.steps[row]), self.facts[row], int(seen.sizes[row]), int(seen.lengths[row]), tuple(above)
        )

    def _add(self, name: str, values: F64, usual: F64) -> None:
        own = usual_of(name, usual)
        self.values[name], self.z[name] = values, deviations(values, own)
        self.medians[name] = np.full(len(values), own.median)

    def _counts(self) -> npt.NDArray[np.int64]:
        """How often each id stands in the corpus, or in the background with the looked-at documents once."""
        highest = int(max(self.seen.tokens.max(initial=0), self.usual.tokens.max(initial=0))) + 1
        if self.look.counts is None:
            return np.bincount(self.usual.tokens, minlength=highest).astype(np.int64)
        total = read_census(self.look.counts).census.total
        if len(total) < highest:
            raise BadQuery(
                f"{self.look.counts} counts {len(total):,} ids and the run reads id {highest - 1}: another tokenizer"
            )
        return total

    def _flagged(self) -> None:
        if self.look.audit is None:
            self.unasked["flagged"] = "no audit was given (--audit)"
            return
        table, _ = read_whole(self.look.audit)
        if "decision" not in table.column_names:
            raise BadQuery(f"{self.look.audit} has no verdicts: write it with `typecase audit report … -o FILE.parquet`")
        ids = [
            i for i, said in zip(table.column("i").to_pylist(), table.column("decision").to_pylist()) if said == UNDER_TRAINED
        ]
        seen, usual = self.seen, self.usual
        self._add("flagged", signs.flagged(seen.tokens, seen.offsets, ids), signs.flagged(usual.tokens, usual.offsets, ids))

    def _scored(self) -> None:
        """The score that lies farthest from usual, up or down."""
        usual = facts_of(self.timeline, self.usual)
        names = sorted({n for one in usual for n, v in one.scores.items() if isinstance(v, int | float)})
        if not names:
            self.unasked["score"] = "the documents have no ratings"
            return
        z, values, medians = [], [], []
        for name in names:
            own = _column(self.facts, name)
            told: Usual = usual_of("score", _column(usual, name))
            z.append(np.abs(deviations(own, told)))
            values.append(own)
            medians.append(np.full(len(own), told.median))
        best, rows = np.argmax(z, axis=0), np.arange(len(self.seen))
        self.z["score"], self.values["score"] = np.array(z)[best, rows], np.array(values)[best, rows]
        self.medians["score"] = np.array(medians)[best, rows]
        self.of["score"] = [names[k] for k in best]

    def _copied(self, earlier: Sequence[Spike]) -> None:
        if not earlier:
            self.unasked["copied"] = "no earlier spike is known"
            return
        steps = sorted({s for one in earlier[-_EARLIER:] for s in range(max(0, one.first - self.look.before), one.peak + 1)})
        old = seen_at(self.timeline, steps)
        similarity, which = signs.copied(runs_of(self.timeline, self.seen), runs_of(self.timeline, old))
        self.values["copied"] = similarity
        self.z["copied"] = np.where(similarity >= _ALIKE, deviations(similarity, Usual(0.0, FLOORS["copied"])), 0.0)
        self.medians["copied"] = np.zeros(len(similarity))
        self.of["copied"] = [f"document {old.docs[k]} of step {old.steps[k]}" if k >= 0 else None for k in which]

    def _lost(self, curve: LossCurve | None) -> None:
        own = own_losses(curve.path, self.seen) if curve is not None else None
        usual = own_losses(curve.path, self.usual) if curve is not None else None
        if own is None or usual is None or not np.isfinite(usual).any():
            self.unasked["loss"] = "no losses of single documents are known: `typecase train` writes them"
            return
        self._add("loss", own, usual)


def _column(facts: Sequence[DocumentFacts], name: str) -> F64:
    values = [one.scores.get(name) for one in facts]
    return np.array([v if isinstance(v, int | float) else np.nan for v in values], np.float64)


def with_text(run: Timeline, found: Diagnosis, most: int, tokenizer: str | None = None) -> tuple[Suspect, ...]:
    """The first `most` suspects with the beginning of what their step read of them, where a tokenizer is known."""
    told = found.suspects[:most]
    reader = tokenizer_for(run.stores[0].pair.bin.parent, tokenizer)
    if reader is None or not told:
        return told
    seen = seen_at(run, sorted({one.step for one in told}))
    rows = {key: k for k, key in enumerate(zip(seen.steps.tolist(), seen.members.tolist(), seen.docs.tolist()))}
    texts = []
    for one in told:
        start = int(seen.offsets[rows[one.step, one.document.member, one.document.doc]])
        texts.append(reader.decode(seen.tokens[start : start + min(one.tokens, _SHOWN_TOKENS)].tolist()))
    return tuple(replace(one, text=text) for one, text in zip(told, texts))
