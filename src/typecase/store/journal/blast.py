"""Blast radius: everything that an edit changes, known before it is made.

    edit        sequence 812, tokens [40, 43)
    samples     index 9,114 (step 14, rank 2), index 77,020 (step 120, rank 0: the copy of epoch 1)
    shared      token 42 is the last of one sample and the first of the next
    eod         token 41 was the end of a document and is not any more
    dangers     eod-overwritten, other-samples, already-trained: each wants to be allowed by name

Without a timeline only documents, end-of-document ids and lengths can be told. Price: one sighting a call, whatever the number
of edits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import Edit, Ints, Replacement
from typecase.core.edit.group import Group, Insert
from typecase.core.edit.spans import Spans
from typecase.errors import Conflict
from typecase.store.journal.view import EditedTokens
from typecase.store.timeline.timeline import Sighting, Timeline
from typecase.store.tokens.store import TokenStore

DANGERS = {
    "eod-overwritten": "end-of-document ids are overwritten, so documents run into each other",
    "eod-introduced": "end-of-document ids appear within documents, so one reads as several",
    "other-samples": "samples other than the one addressed change, too",
    "boundaries-moved": "lengths or documents change: every training order over the set is another one",
    "already-trained": "steps that were trained already are among those that change: the model has seen the old tokens",
}


@dataclass(frozen=True, slots=True)
class Danger:
    """A consequence that must be allowed by its `code`; `text` says what and where."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Shared:
    """Token `token` of `sequence` is read by several samples at the borders of which it stands."""

    sequence: int
    token: int
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """What edits change. `sightings` is every place in training that reads an edited token, None without a timeline.

    `documents` are numbers of the view; `eod_overwritten` and `eod_introduced` are (sequence, token); `invalid` names what does
    not fit the set any more after the edits.
    """

    num_edits: int
    documents: tuple[int, ...]
    sightings: tuple[Sighting, ...] | None
    shared: tuple[Shared, ...]
    eod_overwritten: tuple[tuple[int, int], ...]
    eod_introduced: tuple[tuple[int, int], ...]
    boundaries_moved: tuple[int, ...]
    invalid: tuple[str, ...]
    dangers: tuple[Danger, ...] = field(default=())

    @property
    def indices(self) -> tuple[int, ...]:
        """Training indices of the samples that change."""
        return tuple(sorted({s.index for s in self.sightings or ()}))

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(sorted({s.seat.step for s in self.sightings or () if s.seat is not None}))

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({s.seat.rank for s in self.sightings or () if s.seat is not None}))

    @property
    def epochs(self) -> tuple[int, ...]:
        return tuple(sorted({s.epoch for s in self.sightings or ()}))

    def as_dict(self) -> Mapping[str, Any]:
        """The radius as JSON has it."""
        return {
            "num_edits": self.num_edits,
            "documents": list(self.documents),
            "indices": list(self.indices),
            "steps": list(self.steps),
            "ranks": list(self.ranks),
            "epochs": list(self.epochs),
            "shared": [{"sequence": s.sequence, "token": s.token, "indices": list(s.indices)} for s in self.shared],
            "eod_overwritten": [list(place) for place in self.eod_overwritten],
            "eod_introduced": [list(place) for place in self.eod_introduced],
            "boundaries_moved": list(self.boundaries_moved),
            "invalid": list(self.invalid),
            "dangers": [{"code": d.code, "text": d.text} for d in self.dangers],
        }


def blast_radius(
    edits: Iterable[Edit] | Spans | Group,
    view: EditedTokens | TokenStore,
    *,
    timeline: Timeline | None = None,
    member: int = 0,
    eod: int | None = None,
    addressed: Collection[int] = (),
    trained_until: int | None = None,
) -> BlastRadius:
    """What `edits`, said of `view`, change; `journal.check(edits)` or the edits themselves.

    `timeline` lays a run over what `view` shows, its token set `member`; `eod` is the end-of-document id. `addressed` are the
    training indices that the author means: any other is a danger. Steps below `trained_until` are past.
    """
    spans, moved, documents = _spans_of(edits, view)
    index = view.document_index
    touched = np.searchsorted(index, spans.sequences, side="right") - 1
    documents |= set(touched.tolist())
    lengths_move = set(touched[spans.old_counts != spans.new_counts].tolist()) | moved
    lost, gained = _eod_places(spans, eod)
    sightings = shared = None
    if timeline is not None:
        sightings = timeline.when(*_read_spans(spans, view, documents & moved), member=member)
        shared = _shared(timeline, spans, sightings, index, member)
    invalid: tuple[str, ...] = ()
    if lengths_move or moved:
        invalid = (
            "every training order over the set: samples are cut elsewhere",
            "index caches of GPT-NeoX and Megatron beside the set or in its cache folder: they are of the old lengths",
            "search indexes over the set's own positions",
        )
    radius = BlastRadius(
        num_edits=len(spans) + len(moved),
        documents=tuple(sorted(documents)),
        sightings=None if sightings is None else tuple(sightings),
        shared=tuple(shared or ()),
        eod_overwritten=lost,
        eod_introduced=gained,
        boundaries_moved=tuple(sorted(lengths_move)),
        invalid=invalid,
    )
    return _with_dangers(radius, addressed, trained_until)


def refuse_dangers(radius: BlastRadius, allow: Collection[str] = ()) -> None:
    """Raises Conflict when `radius` has a danger whose code is not in `allow`; the message names the codes that are wanted."""
    left = [d for d in radius.dangers if d.code not in allow]
    if left:
        said = "; ".join(f"{d.text} ({d.code})" for d in left)
        raise Conflict(f"{said}; nothing was changed: allow {', '.join(d.code for d in left)} if that is what you want")


def _spans_of(edits: Iterable[Edit] | Spans | Group, view: TokenStore) -> tuple[Spans, set[int], set[int]]:
    """Replacements as columns by the numbers of `view`, and documents that come, go or are replaced."""
    if isinstance(edits, Spans):
        return edits, set(), set()
    if isinstance(edits, Group):
        return _of_group(edits, view)
    replacements, moved = [], set()
    for edit in edits:
        if isinstance(edit, Replacement):
            replacements.append(edit)
        else:
            moved.add(int(getattr(edit, "doc", getattr(edit, "at", view.num_documents))))
    return Spans.of(replacements, view.dtype), moved, set(moved)


def _of_group(group: Group, view: TokenStore) -> tuple[Spans, set[int], set[int]]:
    if not isinstance(view, EditedTokens) or not view.moved:
        spans, keys = group.spans, np.arange(view.num_documents)
    else:
        sequences = view.keys_of(np.arange(view.num_sequences))
        order = np.argsort(sequences, kind="stable")
        found = order[np.searchsorted(sequences, group.spans.sequences, sorter=order)]
        spans, keys = group.spans.with_sequences(found), view.document_keys()
    numbers = {int(key): n for n, key in enumerate(keys)} if group.documents else {}
    last = view.num_documents
    moved = {numbers.get(c.before if isinstance(c, Insert) else c.key, last) for c in group.documents}
    return spans, moved, set(moved)


def _read_spans(spans: Spans, view: TokenStore, whole: set[int]) -> tuple[Ints, Ints, Ints]:
    """What training reads of the edited tokens: an insertion is seen with the token that it pushes away."""
    stops = np.maximum(spans.starts + spans.old_counts, spans.starts + 1)
    moving = spans.old_counts != spans.new_counts
    stops = np.where(moving, view.lengths[spans.sequences], stops)  # everything after it stands elsewhere
    docs = sorted(d for d in whole if d < view.num_documents)
    more = [np.arange(*view.document_index[d : d + 2].tolist()) for d in docs]
    extra = np.concatenate([np.zeros(0, np.int64), *more])
    return (
        np.concatenate((spans.sequences, extra)),
        np.concatenate((spans.starts, np.zeros(len(extra), np.int64))),
        np.concatenate((stops, view.lengths[extra])).astype(np.int64),
    )


def _eod_places(spans: Spans, eod: int | None) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    if eod is None:
        return (), ()
    lost: list[tuple[int, int]] = []
    gained: list[tuple[int, int]] = []
    same = spans.same_length
    pairs = ((lost, spans.old, spans.old_offsets, spans.new), (gained, spans.new, spans.new_offsets, spans.old))
    for places, tokens, offsets, other in pairs:
        hits = np.flatnonzero((tokens == eod) & (other != eod)) if same else np.flatnonzero(tokens == eod)
        run = np.searchsorted(offsets, hits, side="right") - 1
        places += zip(spans.sequences[run].tolist(), (spans.starts[run] + hits - offsets[run]).tolist(), strict=True)
    return tuple(lost), tuple(gained)


def _shared(
    timeline: Timeline, spans: Spans, sightings: Sequence[Sighting], index: npt.NDArray[np.int64], member: int
) -> list[Shared]:
    """Edited tokens that two samples of one copy read: the last of one, the first of the next."""
    readers: dict[tuple[int, int, int], set[int]] = {}
    total = timeline.laid.sample_tokens
    for s in sightings:
        for at, token in ((s.at, s.start), (s.at + s.stop - s.start - 1, s.stop - 1)):
            if at == 0 or at == total - 1:
                readers.setdefault((s.document.doc, token, s.epoch), set()).add(s.index)
    library = timeline.libraries[member]
    found = []
    for (doc, token, _), indices in sorted(readers.items()):
        if len(indices) > 1:
            sequences = library.sequences_of(doc)
            ends = np.cumsum(library.store.lengths[sequences])
            k = int(np.searchsorted(ends, token, side="right"))
            found.append(Shared(int(sequences[k]), token - (int(ends[k - 1]) if k else 0), tuple(sorted(indices))))
    return found


def _with_dangers(radius: BlastRadius, addressed: Collection[int], trained_until: int | None) -> BlastRadius:
    found = []
    if radius.eod_overwritten:
        found.append(_danger("eod-overwritten", [f"sequence {s}, token {t}" for s, t in radius.eod_overwritten]))
    if radius.eod_introduced:
        found.append(_danger("eod-introduced", [f"sequence {s}, token {t}" for s, t in radius.eod_introduced]))
    others = [i for i in radius.indices if i not in set(addressed)] if addressed else []
    if others:
        found.append(_danger("other-samples", [f"training index {i}" for i in others]))
    if radius.boundaries_moved:
        found.append(_danger("boundaries-moved", [f"document {d}" for d in radius.boundaries_moved]))
    past = [s for s in radius.steps if trained_until is not None and s < trained_until]
    if past:
        found.append(_danger("already-trained", [f"step {s}" for s in past]))
    return BlastRadius(**{name: getattr(radius, name) for name in BlastRadius.__slots__} | {"dangers": tuple(found)})


def _danger(code: str, places: Sequence[str]) -> Danger:
    shown = ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")
    return Danger(code, f"{DANGERS[code]}: {shown}")
