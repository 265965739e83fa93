"""Planning: what a request of an edit means in a given token set and run: its place, its tokens, what is drawn.

    {"op": "inject", "text": "…", "step": 412}   ->  a sample of that step, drawn  ->  Replacement(sequence, start, …)
    {"op": "replace", "find": "2019", …}         ->  every place of its tokens     ->  a Replacement each

The samples of all injections without a place are drawn together, so that no two are the same; what an injection draws within
its place follows from the seed, the number of its request and its copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.app.edit.regex import regex_replacements
from typecase.core.edit import inject
from typecase.core.edit.edit import AppendDocument, DeleteDocument, Edit, InsertDocument, Replacement
from typecase.core.edit.spread import spread
from typecase.errors import BadQuery
from typecase.store.journal.edit_files import Request
from typecase.store.journal.finding import replace_everywhere
from typecase.store.journal.perturb import sample_of
from typecase.store.timeline.policies import Policy, chosen_by
from typecase.store.timeline.timeline import Timeline
from typecase.store.tokenizer.tokenizer import Tokenizer
from typecase.store.tokens.store import TokenStore

_TYPES: Mapping[str, Callable[..., inject.Plan]] = {"seq_start": inject.seq_start, "end": inject.at_end}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What requests are read against.

    `run` lays a training run over the set, its token set `member`; requests without a place are spread over the samples of
    `steps` [first, last) of it (all by default), or those that a `policy` chooses, at most `one_per_batch`, by `seed`. Text is
    encoded by `tokenizer` (the set's own by default), special tokens in it only with `special`. Steps below `trained_until` are
    past.
    """

    run: Path | str | None = None
    member: int = 0
    steps: tuple[int, int] | None = None
    policy: str | Policy | None = None
    one_per_batch: bool = False
    seed: int = 0
    tokenizer: str | None = None
    special: bool = False
    eod: int | None = None
    trained_until: int | None = None
    folder: Path | None = None


class Planner:
    """Turns requests into edits of one view, drawing what is not said."""

    def __init__(self, view: TokenStore, timeline: Timeline | None, reader: Tokenizer | None, aim: Aim) -> None:
        self.view, self.timeline, self.reader, self.aim = view, timeline, reader, aim
        self.addressed: set[int] = set()

    def edits(self, requests: Sequence[Request]) -> tuple[list[Edit], list[str]]:
        """The edits of all requests, and for each the request that it comes from."""
        found: list[Edit] = []
        sources: list[str] = []
        placed = self._spread(requests)
        for number, request in enumerate(requests):
            for copy in range(request.copies):
                rng = np.random.default_rng((self.aim.seed, number, copy))
                made = self._edits_of(request, placed.get((number, copy)), rng)
                found += made
                sources += [request.where] * len(made)
        if not found:
            raise BadQuery("the requests find nothing to change")
        return found, sources

    def _spread(self, requests: Sequence[Request]) -> dict[tuple[int, int], int]:
        """A sample for every copy of every injection that names no place, by the number of the request and the copy."""
        unplaced = [(k, r) for k, r in enumerate(requests) if r.op == "inject" and not _has_place(r)]
        wanted = [(k, copy) for k, request in unplaced for copy in range(request.copies)]
        if not wanted:
            return {}
        timeline = self._run("an injection that names no place")
        steps = self.aim.steps or (0, timeline.num_steps or 0)
        read = [timeline.plan.schedule.batch(s, timeline.num_samples).indices.ravel() for s in range(*steps)]
        pool = np.concatenate([np.zeros(0, np.int64), *read])
        batches = np.repeat(np.arange(*steps), [len(indices) for indices in read])
        keep = pool >= 0
        keep[keep] &= timeline.laid.reads(pool[keep]).members == self.aim.member
        if self.aim.policy is not None:
            keep &= np.isin(pool, chosen_by(timeline, self.aim.policy, seed=self.aim.seed))
        apart = batches[keep] if self.aim.one_per_batch else None
        drawn = spread(len(wanted), 1, over=pool[keep], seed=self.aim.seed, batches=apart)
        return {key: placement.sample for key, placement in zip(wanted, drawn, strict=True)}

    def _edits_of(self, request: Request, drawn: int | None, rng: np.random.Generator) -> list[Edit]:
        try:
            return self._made(request, drawn, rng)
        except BadQuery as error:
            raise BadQuery(f"{request.where}: {error}") from error

    def _made(self, request: Request, drawn: int | None, rng: np.random.Generator) -> list[Edit]:
        match request.op:
            case "insert":
                return [InsertDocument(request.at or 0, (self._tokens(request),))]
            case "append":
                return [AppendDocument((self._tokens(request),))]
            case "delete" if request.start is None:
                if request.document is None:
                    raise BadQuery("a span to delete needs start and stop; only a document can go as a whole")
                return [DeleteDocument(request.document)]
            case "delete":
                return list(inject.removal(self._place(request, None, rng), request.start or 0, request.stop or 0))
            case "mask":
                place = self._place(request, None, rng)
                return list(inject.masked(place, request.start or 0, request.stop or 0, request.fill or 0).edits)
            case "replace":
                return self._replaced(request, rng)
        place, text = self._place(request, drawn, rng), self._tokens(request)
        if request.type == "position":
            return list(inject.at_position(place, text, request.position or 0).edits)
        if request.type == "seq_shuffle":
            return list(inject.seq_shuffle(place, text, rng).edits)
        return list(_TYPES[request.type](place, text).edits)

    def _replaced(self, request: Request, rng: np.random.Generator) -> list[Edit]:
        if request.find_regex is not None:
            return self._replaced_by_regex(request)
        text = self._tokens(request)
        if request.start is not None:
            place = self._place(request, None, rng)
            return _span_replaced(place, request.start, request.stop or 0, text)
        phrase = self._encoded(request.find) if request.find is not None else np.asarray(request.find_tokens, np.int64)
        if not _has_place(request):
            spans = replace_everywhere(self.view, phrase, text, limit=request.limit)
            return [spans.replacement(k) for k in range(len(spans))]
        place = self._place(request, None, rng)
        starts = inject.places_of(place.tokens, phrase)[: request.limit or 1]
        if not len(starts):
            raise BadQuery(f"the phrase of {len(phrase)} tokens is not there; nothing was changed")
        return [e for s in starts.tolist() for e in _span_replaced(place, s, s + len(phrase), text)]

    def _replaced_by_regex(self, request: Request) -> list[Edit]:
        sequences = None
        if request.document is not None or request.sequence is not None:
            sequences = sorted({sequence for sequence, _, _ in self._of_document(request).pieces})
        found = regex_replacements(
            self.view, self._reader(), request.find_regex or "", request.text or "", sequences=sequences, limit=request.limit
        )
        return list(found)

    def _place(self, request: Request, drawn: int | None, rng: np.random.Generator) -> inject.Sample:
        """The tokens that a request speaks of, with where they lie."""
        if request.document is not None or request.sequence is not None:
            return self._of_document(request)
        if request.step is not None:
            drawn = self._of_step(request.step, request.sample, rng)
        elif request.sample is not None:
            drawn = request.sample
        if drawn is None:
            raise BadQuery("no place is named: a sample, a step, a document or a sequence")
        place = sample_of(self.view, self._run("a sample or step"), drawn, member=self.aim.member)
        self.addressed.add(drawn)
        return place

    def _of_document(self, request: Request) -> inject.Sample:
        if request.sequence is not None:
            sequences = np.array([request.sequence], np.int64)
            if request.sequence >= self.view.num_sequences:
                raise BadQuery(f"there is no sequence {request.sequence}: the set has {self.view.num_sequences}")
        else:
            doc = request.document or 0
            if doc >= self.view.num_documents:
                raise BadQuery(f"there is no document {doc}: the set has {self.view.num_documents}")
            sequences = np.arange(*np.asarray(self.view.document_index)[doc : doc + 2].tolist())
        lengths = np.asarray(self.view.lengths)[sequences].astype(np.int64)
        tokens, _ = self.view.read_spans(sequences, np.zeros_like(lengths), lengths)
        pieces = [(int(s), 0, int(n)) for s, n in zip(sequences, lengths, strict=True) if n]
        return inject.Sample.of(pieces, tokens, 0)

    def _of_step(self, step: int, nth: int | None, rng: np.random.Generator) -> int:
        timeline = self._run("a step")
        indices = timeline.plan.schedule.batch(step, timeline.num_samples).indices.ravel()
        indices = indices[indices >= 0]
        indices = indices[timeline.laid.reads(indices).members == self.aim.member]
        if nth is None:
            return int(indices[rng.integers(len(indices))])
        if nth >= len(indices):
            raise BadQuery(f"there is no sample {nth} in step {step}: it reads {len(indices)} of this token set")
        return int(indices[nth])

    def _run(self, what: str) -> Timeline:
        if self.timeline is None:
            raise BadQuery(f"{what} needs a run: give the run file whose samples are meant")
        return self.timeline

    def _tokens(self, request: Request) -> npt.NDArray[Any]:
        ids = np.asarray(request.tokens, np.int64) if request.tokens is not None else self._encoded(request.text or "")
        return ids if request.eod is None else np.append(ids, request.eod)

    def _reader(self) -> Tokenizer:
        if self.reader is None:
            raise BadQuery("the set has no tokenizer recorded: name one, or give token ids")
        return self.reader

    def _encoded(self, text: str) -> npt.NDArray[Any]:
        reader = self._reader()
        ids = np.asarray(reader.encode(text, allow_special=self.aim.special), np.int64)
        if reader.decode(ids) != text:
            raise BadQuery(f"{text!r} does not come back from its own tokens: {reader.decode(ids)!r}; give token ids")
        return ids


def _span_replaced(place: inject.Sample, start: int, stop: int, text: npt.NDArray[Any]) -> list[Edit]:
    """Tokens [start, stop) of a place become `text`: of the same length in place, else later tokens move."""
    if not 0 <= start <= stop <= len(place.tokens):
        raise BadQuery(f"[{start}, {stop}) leaves the place of {len(place.tokens)} tokens")
    if stop - start == len(text):
        return list(inject.at_position(place, text, start).edits) if len(text) else []
    removed = list(inject.removal(place, start, stop)) if stop > start else []
    if not removed:
        return [inject.insertion(place, text, start)]
    first = removed[0]
    return [Replacement(first.sequence, first.start, first.old, text), *removed[1:]]


def _has_place(request: Request) -> bool:
    return any(getattr(request, name) is not None for name in ("sample", "step", "document", "sequence"))
