"""Treatment: suspects are taken out, or blotted out, as one journal entry that can be undone, and as a new set on request.

drop    the documents are deleted; what follows moves up, so the order of the run changes: for a new run
mask    their tokens become one id; lengths and order stay: for the run that goes on, in place by `typecase edit apply`
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from typecase.app.edit.editing import PlannedEdits, journal_of, make_edits, plan_edits
from typecase.app.edit.planning import Aim
from typecase.app.spikes.doctor import Suspect
from typecase.app.verbs import tokenizer_for
from typecase.errors import AlreadyExists, BadQuery
from typecase.store.journal.ledger import Entry
from typecase.store.journal.materialise import MaterialiseSummary, materialise
from typecase.store.timeline.timeline import Timeline

How = Literal["drop", "mask"]


@dataclass(frozen=True, slots=True, eq=False)
class Treated:
    """What was planned, the entry that records it (None for a preview), and the new set where one was written."""

    planned: PlannedEdits
    entry: Entry | None
    written: MaterialiseSummary | None


def treat(
    timeline: Timeline,
    suspects: Sequence[Suspect],
    how: How,
    *,
    fill: int | None = None,
    run: Path | str | None = None,
    out: Path | None = None,
    preview: bool = False,
    allow: Collection[str] = (),
    reason: str = "",
    author: str | None = None,
) -> Treated:
    """Drops or masks `suspects`, each document once, in the journal of their token set.

    With `out` the edited set is written there as well. `run` is the run file whose steps the blast radius tells. Raises
    BadQuery for suspects of several token sets, or a mask without `fill`; AlreadyExists for `out`; Conflict for dangers that
    are not allowed. Nothing is recorded then.
    """
    if not suspects:
        raise BadQuery("there is no suspect to treat")
    members = {one.document.member for one in suspects}
    if len(members) > 1:
        raise BadQuery(f"the suspects lie in {len(members)} token sets of the blend: treat each (--member) by itself")
    if how == "mask" and fill is None:
        raise BadQuery("a mask needs the id that it fills with: --fill")
    if out is not None and out.exists():
        raise AlreadyExists(f"{out} is there already: name a new folder for the treated set")
    member = members.pop()
    store = timeline.stores[member]
    docs = sorted({one.document.doc for one in suspects})
    reader = tokenizer_for(store.pair.bin.parent, None)
    requests = [_request(how, doc, store.read(doc), fill, reader.eod_id if reader is not None else None) for doc in docs]
    aim = Aim(run=run, member=member)
    tokens = store.pair.prefix
    if preview:
        return Treated(plan_edits(tokens, requests, aim), None, None)
    steps = sorted({one.step for one in suspects})
    said = reason or f"{how} {len(docs)} suspects of a loss spike at step {', '.join(map(str, steps))}"
    made = make_edits(tokens, requests, aim, allow=allow, reason=said, author=author)
    written = None
    if out is not None:
        with journal_of(tokens) as journal:
            written = materialise(journal, out)
    return Treated(made.planned, made.entry, written)


def _request(how: How, doc: int, tokens: npt.NDArray[Any], fill: int | None, eod: int | None) -> dict[str, Any]:
    if how == "drop":
        return {"op": "delete", "document": doc}
    ends = eod is not None and len(tokens) > 0 and int(tokens[-1]) == eod
    return {"op": "mask", "document": doc, "start": 0, "stop": len(tokens) - ends, "fill": fill}
