"""Edit: what an edit of a token set would change and touch, before it is made; the journal, with undo, redo and apply.

    preview     the real before and after, every document, sample, step and rank that changes, the dangers by name
    make        a journal entry; the .bin stays as it is          refused where the journal has moved since the preview
    undo redo   take back an entry, make it again; both are entries
    apply       the .bin says what the journal says: edits of the same length only

Everything is what `typecase edit` does, with the same words and the same refusals.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from typecase.app.edit.editing import Changed, PlannedEdits, journal_of, make_edits, plan_edits
from typecase.app.edit.planning import Aim
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk
from typecase.app.web.kin import members_of, runs_of
from typecase.app.web.registry import Action
from typecase.app.web.state import ask
from typecase.errors import BadQuery, Conflict, NotFound
from typecase.store.journal.edit_files import TYPES

OPS = ("replace", "delete", "inject", "mask", "insert", "append")
MOST_CHANGES, MOST_TOKENS, MOST_ENTRIES = 50, 400, 200
_TEXTS = ("text", "find", "find_regex")
_NUMBERS = ("document", "step", "sample", "start", "stop", "at", "position", "fill", "limit", "eod")


@dataclass(frozen=True, slots=True)
class Query:
    set: str = ask("", "the token set; the first by default")
    op: str = ask("replace", "what is done", choices=OPS)
    find: str = ask("", "replace: the text that stands there", longest=2000)
    find_regex: str = ask("", "replace: a regular expression instead", longest=500)
    text: str = ask("", "the text that is put in", longest=20_000)
    type: str = ask("seq_start", "inject: where in its sample", choices=TYPES)
    document: int | None = ask(None, "the document", low=0)
    step: int | None = ask(None, "a step of the run, of which a sample is drawn, or the one named", low=0)
    sample: int | None = ask(None, "the sample: its training index, or its number within the step", low=0)
    start: int | None = ask(None, "the first token of a span within its place", low=0)
    stop: int | None = ask(None, "the token behind the span", low=0)
    at: int | None = ask(None, "insert: before this document", low=0)
    position: int | None = ask(None, "inject at this token of its sample", low=0)
    fill: int | None = ask(None, "mask: the token id that covers", low=0)
    limit: int | None = ask(None, "replace: at most so many places", low=1)
    eod: int | None = ask(None, "end-of-document id put behind the text", low=0)
    run: str = ask("", "the run that the set is laid under; the first over it by default, - for none")
    seed: int = ask(0, "of what is drawn", low=0)


@dataclass(frozen=True, slots=True)
class Danger:
    """A consequence that must be allowed by its code."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Radius:
    """All that the edits touch; samples, steps, ranks and epochs are None without a run."""

    documents: tuple[int, ...]
    samples: tuple[int, ...] | None
    steps: tuple[int, ...] | None
    ranks: tuple[int, ...] | None
    epochs: tuple[int, ...] | None
    dangers: tuple[Danger, ...]
    invalid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """Edits as they would be recorded: `changes` of the first `MOST_CHANGES`, their tokens cut at `MOST_TOKENS`."""

    num_edits: int
    changes: tuple[Changed, ...]
    radius: Radius
    stale: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of the journal; `standing` says that it has not been taken back, `in_bin` that the .bin is at it."""

    id: int
    kind: str
    targets: tuple[int, ...]
    time: str
    author: str
    reason: str
    num_edits: int
    same_length: bool
    standing: bool
    in_bin: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A set with its journal, newest entry first; `head` is the entry that a preview is of, `applied` what the .bin says."""

    set: str
    run: str
    may_edit: bool
    tokens: int
    documents: int
    branch: str
    head: int
    applied: int
    preview: Preview | None
    journal: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Make:
    """The edits of a state, with the dangers that are allowed; `head` is that of the preview, checked where it is given."""

    set: str
    op: str = "replace"
    find: str = ""
    find_regex: str = ""
    text: str = ""
    type: str = "seq_start"
    document: int | None = None
    step: int | None = None
    sample: int | None = None
    start: int | None = None
    stop: int | None = None
    at: int | None = None
    position: int | None = None
    fill: int | None = None
    limit: int | None = None
    eod: int | None = None
    run: str = ""
    seed: int = 0
    allow: tuple[str, ...] = ()
    reason: str = ""
    head: int | None = None


@dataclass(frozen=True, slots=True)
class Back:
    """Entry `entry` of the journal of `set`, to be taken back or made again; the latest undo where redo names none."""

    set: str
    entry: int | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """The journal's entry that was written or reached, and how many tokens of the .bin changed."""

    entry: int
    tokens: int = 0


def answer(desk: Desk, query: Query) -> Answer:
    """The set, its journal, and the preview where something is asked for. Raises NotFound, BadQuery as `plan_edits`."""
    item = desk.catalogue.get(query.set, "tokens")
    run = _run(desk, item, query.run)
    branch, head, applied, lines = _journal(item)
    with desk.tokens(item) as store:
        size, documents = store.num_tokens, store.num_documents
    made = None
    if asks(query):
        made = _preview(plan_edits(item.path, [request_of(query)], _aim(desk, item, run, query.seed)))
    return Answer(
        item.name, run.name if run is not None else "", desk.allow_edit, size, documents, branch, head, applied, made, lines
    )


def asks(query: Any) -> bool:
    """Whether a state says enough to be an edit."""
    return any(getattr(query, name) for name in _TEXTS) or any(getattr(query, name) is not None for name in _NUMBERS)


def request_of(query: Any) -> dict[str, Any]:
    """The request of a state as a file of edits has it: what its op does not know is refused by name."""
    said: dict[str, Any] = {"op": query.op}
    said |= {name: getattr(query, name) for name in _TEXTS if getattr(query, name)}
    said |= {name: getattr(query, name) for name in _NUMBERS if getattr(query, name) is not None}
    if query.op == "inject":
        said["type"] = query.type
    if query.op == "replace" and ("find" in said or "find_regex" in said):
        said.setdefault("text", "")
    return said


def _run(desk: Desk, item: Item, name: str) -> Item | None:
    if name == "-":
        return None
    return desk.catalogue.get(name, "run") if name else next(iter(runs_of(desk, item)), None)


def _aim(desk: Desk, item: Item, run: Item | None, seed: int) -> Aim:
    if run is None:
        return Aim(seed=seed)
    names = [m.name for m in members_of(desk, run)]
    if item.name not in names:
        raise BadQuery(f"the run {run.name} does not read {item.name}: choose another, or - for none")
    return Aim(run=run.path, member=names.index(item.name), seed=seed)


def _journal(item: Item) -> tuple[str, int, int, tuple[Line, ...]]:
    """The branch, its head, what the .bin says, and the newest entries."""
    if item.journal is None:
        return "main", 0, 0, ()
    with journal_of(item.path) as journal:
        entries, applied = journal.log(), journal.applied
        gone = {t for e in entries if e.kind == "undo" for t in e.targets}
        back = {t for e in entries if e.kind == "redo" for t in e.targets}
        taken = {t for e in entries if e.kind == "undo" and e.id not in back for t in e.targets} & gone
        lines = tuple(
            Line(
                e.id, e.kind, tuple(e.targets), e.time, e.author, e.reason, e.num_edits, e.same_length, e.id not in taken,
                e.id == applied,
            )
            for e in reversed(entries[-MOST_ENTRIES:])
        )  # fmt: skip
        return journal.branch, journal.head, applied, lines


def _preview(planned: PlannedEdits) -> Preview:
    r = planned.radius
    known = r.sightings is not None
    radius = Radius(
        r.documents,
        r.indices if known else None,
        r.steps if known else None,
        r.ranks if known else None,
        r.epochs if known else None,
        tuple(Danger(d.code, d.text) for d in r.dangers),
        r.invalid,
    )
    return Preview(len(planned.edits), tuple(map(_cut, planned.changes[:MOST_CHANGES])), radius, planned.stale)


def _cut(change: Changed) -> Changed:
    texts = (None if t is None else t[: 8 * MOST_TOKENS] for t in (change.old_text, change.new_text))
    return Changed(change.where, change.asked, change.old[:MOST_TOKENS], change.new[:MOST_TOKENS], *texts)


def make(desk: Desk, asked: Make) -> Applied:
    """Records the edits. Raises Conflict where the journal has moved since the preview, or a danger is not allowed."""
    item = desk.catalogue.get(asked.set, "tokens")
    if not asks(asked):
        raise BadQuery("there is no edit in what was given: say what is to be found, put in or deleted")
    _, head, _, _ = _journal(item)
    if asked.head is not None and asked.head != head:
        raise Conflict(f"the journal of {item.name} is at entry {head}, the preview was of entry {asked.head}: look again")
    aim = _aim(desk, item, _run(desk, item, asked.run), asked.seed)
    made = make_edits(item.path, [request_of(asked)], aim, allow=asked.allow, reason=asked.reason)
    return Applied(made.entry.id)


def undo(desk: Desk, asked: Back) -> Applied:
    """Takes back an entry. Raises Conflict where a later edit touches the same tokens."""
    if asked.entry is None:
        raise BadQuery("say which entry is taken back")
    with journal_of(_edited(desk, asked.set).path, write=True) as journal:
        return Applied(journal.undo(asked.entry).id)


def redo(desk: Desk, asked: Back) -> Applied:
    """Makes again what an undo took back, the latest one where none is named."""
    with journal_of(_edited(desk, asked.set).path, write=True) as journal:
        return Applied(journal.redo(asked.entry).id)


def apply(desk: Desk, asked: Back) -> Applied:
    """Brings the .bin to the journal's current entry, or to `entry`; 0 gives it the bytes that it was found with."""
    with journal_of(_edited(desk, asked.set).path, write=True) as journal:
        tokens = journal.apply(asked.entry)
        return Applied(journal.applied, tokens)


def _edited(desk: Desk, name: str) -> Item:
    item = desk.catalogue.get(name, "tokens")
    if item.journal is None:
        raise NotFound(f"{item.name} has no journal: nothing was edited yet")
    return item


def python(desk: Desk, query: Query) -> str:
    item = desk.catalogue.get(query.set, "tokens")
    run = _run(desk, item, query.run)
    aim = f"tc.Aim(run={str(run.path)!r}, seed={query.seed})" if run is not None else f"tc.Aim(seed={query.seed})"
    return (
        f"import typecase as tc\n\nasked = [{request_of(query)!r}]\n"
        f"plan = tc.plan_edits({str(item.path)!r}, asked, {aim})\nprint(plan.changes, plan.radius.as_dict())"
    )


def command(desk: Desk, query: Query) -> str:
    item = desk.catalogue.get(query.set, "tokens")
    run = _run(desk, item, query.run)
    words = ["typecase", "edit", "preview", str(item.path), *(("--run", str(run.path)) if run is not None else ())]
    for name, value in request_of(query).items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, "--seed", str(query.seed)])


ACTIONS: tuple[Action, ...] = (
    Action("make", Make, Applied, make, "Record the edits in the journal", edits=True),
    Action("undo", Back, Applied, undo, "Take back an entry", edits=True),
    Action("redo", Back, Applied, redo, "Make again what was taken back", edits=True),
    Action("apply", Back, Applied, apply, "Write the journal into the .bin", edits=True),
)
