"""Verbs that change what a model will see: plan edits, look at all that they touch, record, take back, apply, write anew.

    plan = plan_edits("work/tokens/demo", [{"op": "inject", "text": "…", "step": 412}], run="run.toml", seed=7)
    plan.changes, plan.radius          the real before and after; every document, sample, step and rank that changes
    make_edits(…, allow=("other-samples",), reason="memorisation, run 3")          a journal entry; the .bin is as it was

A request says what (see `store.journal.edit_files`); here text becomes ids, places become tokens of sequences, and what is not
said is drawn by one seed. Nothing is written before everything was checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from typecase.app.edit.planning import Aim, Planner
from typecase.app.verbs import tokenizer_for
from typecase.core.display import box, changed, facts, numbers
from typecase.core.edit.edit import AppendDocument, DeleteDocument, Edit, InsertDocument, Replacement
from typecase.errors import BadQuery, NotFound
from typecase.store.journal.blast import BlastRadius, blast_radius, refuse_dangers
from typecase.store.journal.edit_files import Request, read_requests
from typecase.store.journal.journal import Journal
from typecase.store.journal.ledger import Entry
from typecase.store.journal.opening import open_edited, open_journal
from typecase.store.timeline.indexes import find_indexes
from typecase.store.timeline.timeline import Timeline, open_timeline
from typecase.store.tokenizer.tokenizer import Tokenizer
from typecase.store.tokens.store import TokenStore, open_tokens

Requests = Path | str | Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Changed:
    """One run of tokens as it is and as it will be, with the text where a tokenizer is known.

    `where` names the place; `asked` the request that it comes from.
    """

    where: str
    asked: str
    old: tuple[int, ...]
    new: tuple[int, ...]
    old_text: str | None
    new_text: str | None

    def _repr_html_(self) -> str:
        """How a notebook shows it: as text where a tokenizer is known, else as ids."""
        sides = [(self.old_text, self.old), (self.new_text, self.new)]
        old, new = (text if text is not None else numbers(ids) for text, ids in sides)
        return facts(self.where, {"asked by": self.asked}) + box(changed(old, new))


@dataclass(frozen=True, slots=True, eq=False)
class PlannedEdits:
    """Edits as they would be recorded, what they change, and all that they touch.

    `addressed` are the training indices that were meant, `stale` the index files of frameworks that would not fit any more.
    """

    edits: tuple[Edit, ...]
    changes: tuple[Changed, ...]
    radius: BlastRadius
    addressed: tuple[int, ...]
    stale: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """How a notebook shows it: all that is touched, then the first changes."""
        r = self.radius
        known = {
            "documents": numbers(r.documents, 12),
            "steps": numbers(r.steps, 12),
            "dangers": ", ".join(d.code for d in r.dangers),
        }
        return facts(f"{len(self.edits):,} edits", known) + "".join(c._repr_html_() for c in self.changes[:10])


@dataclass(frozen=True, slots=True)
class MadeEdits:
    """The journal entry that was made, and what was planned."""

    entry: Entry
    planned: PlannedEdits


def plan_edits(tokens: Path | str, requests: Requests, aim: Aim | None = None) -> PlannedEdits:
    """What the requests would do to the token set as its journal says it is now; nothing is written.

    Raises BadQuery naming the request that cannot be done, and NotFound.
    """
    aim = aim or Aim()
    view = _view(tokens, aim.folder)
    try:
        return _planned(view, tokens, read_requests(requests), aim)
    finally:
        view.close()


def make_edits(
    tokens: Path | str,
    requests: Requests,
    aim: Aim | None = None,
    *,
    allow: Collection[str] = (),
    reason: str = "",
    author: str | None = None,
) -> MadeEdits:
    """Records what the requests do as one journal entry; the `.bin` stays as it is until `apply`.

    Raises Conflict naming the codes of dangers that `allow` does not have, or who else is writing; nothing is recorded then.
    """
    aim = aim or Aim()
    asked = read_requests(requests)
    with open_journal(tokens, folder=aim.folder, write=True, author=author) as journal:
        planned = _planned(journal.view(), tokens, asked, aim)
        refuse_dangers(planned.radius, allow)
        said = reason or "; ".join(dict.fromkeys(r.reason for r in asked if r.reason))
        return MadeEdits(journal.record(planned.edits, reason=said), planned)


def journal_of(tokens: Path | str, *, folder: Path | None = None, write: bool = False, author: str | None = None) -> Journal:
    """The journal of a token set. Raises NotFound when it has none yet, unless `write` makes one."""
    return open_journal(tokens, folder=folder, write=write, author=author)


def differences_of(
    tokens: Path | str, a: int | str, b: int | str, *, folder: Path | None = None, tokenizer: str | None = None
) -> list[Changed]:
    """How a token set differs between two branches or entries, run by run, as tokens and text; 0 is the set as found."""
    with open_journal(tokens, folder=folder) as journal:
        reader = tokenizer_for(journal.store.pair.bin.parent, tokenizer)
        found = []
        for d in journal.diff(a, b):
            what = "sequence" if d.kind == "replace" else "document"
            where = f"{what} {d.key}" + (f" [{d.start}, {d.start + len(d.old)})" if d.kind == "replace" else "")
            found.append(Changed(where, d.kind, *_both(d.old, d.new, reader)))
        return found


def _both(old: Any, new: Any, reader: Tokenizer | None) -> tuple[tuple[int, ...], tuple[int, ...], str | None, str | None]:
    ids = [tuple(int(t) for t in tokens) for tokens in (old, new)]
    texts = [reader.decode(list(i)) if reader is not None else None for i in ids]
    return ids[0], ids[1], texts[0], texts[1]


def _view(tokens: Path | str, folder: Path | None) -> TokenStore:
    try:
        return open_edited(tokens, folder=folder)
    except NotFound:
        return open_tokens(tokens)


def _planned(view: TokenStore, tokens: Path | str, requests: Sequence[Request], aim: Aim) -> PlannedEdits:
    if not requests:
        raise BadQuery("there is no edit in what was given")
    timeline = open_timeline(aim.run, edited=True) if aim.run is not None else None
    try:
        if timeline is not None:
            _check_member(timeline, view, aim.member)
        reader = tokenizer_for(view.pair.bin.parent, aim.tokenizer)
        planner = Planner(view, timeline, reader, aim)
        edits, sources = planner.edits(requests)
        radius = blast_radius(
            edits,
            view,
            timeline=timeline,
            member=aim.member,
            eod=aim.eod if aim.eod is not None else reader.eod_id if reader is not None else None,
            addressed=planner.addressed,
            trained_until=aim.trained_until,
        )
        changes = tuple(_changed(e, s, view, reader) for e, s in zip(edits, sources, strict=True))
        stale = tuple(f"{i.folder}/{i.name}" for i in find_indexes(view.pair.prefix)) if radius.invalid else ()
        return PlannedEdits(tuple(edits), changes, radius, tuple(sorted(planner.addressed)), stale)
    finally:
        if timeline is not None:
            timeline.close()


def _check_member(timeline: Timeline, view: TokenStore, member: int) -> None:
    if not 0 <= member < len(timeline.stores):
        raise BadQuery(f"there is no token set {member}: the run has {len(timeline.stores)}, numbered from 0")
    mine, theirs = view.pair.prefix.resolve(), timeline.stores[member].pair.prefix.resolve()
    if mine != theirs:
        raise BadQuery(f"token set {member} of the run is {theirs}, the edits are of {mine}: name the member that is meant")


def _changed(edit: Edit, source: str, view: TokenStore, reader: Tokenizer | None) -> Changed:
    old: Any = ()
    new: Any = ()
    if isinstance(edit, Replacement):
        where, old, new = f"sequence {edit.sequence} [{edit.start}, {edit.stop})", edit.old, edit.new
    elif isinstance(edit, DeleteDocument):
        where, old = f"document {edit.doc}", view.read(edit.doc)
    elif isinstance(edit, InsertDocument):
        where, new = f"before document {edit.at}", np.concatenate(edit.sequences)
    elif isinstance(edit, AppendDocument):
        where, new = "after the last document", np.concatenate(edit.sequences)
    else:
        where, old, new = f"document {edit.doc}", view.read(edit.doc), np.concatenate(edit.sequences)
    return Changed(where, source, *_both(old, new, reader))
