"""Commands that change what a model will see: edit, and what goes with it (preview, make, log, undo, apply, write …)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from typecase.app.commands.search import steps_of
from typecase.app.edit import editing
from typecase.app.edit.planning import Aim
from typecase.app.edit.printing import entry_lines, planned_lines
from typecase.app.options import answer, json_option
from typecase.app.printing import table
from typecase.errors import BadQuery
from typecase.store.journal.edit_files import OPS, TYPES
from typecase.store.journal.ledger import Entry
from typecase.store.journal.materialise import materialise
from typecase.store.picks import numbers

F = TypeVar("F", bound=Any)
PATH = click.Path(path_type=Path)
_NUMBERS = ("sample", "step", "document", "sequence", "at", "position", "start", "stop", "fill", "limit", "eod")


@click.group(name="edit")
def edit_command() -> None:
    """Change what a model will see, see what that changes, and take it back.

    TOKENS is a token set. Edits go into its journal; nothing on disk changes until `apply` (in place, same length) or `write`
    (a new set). `TOKENS@` is the set as edited, for show, export, trace, search and sample.
    """


def request_options(command: F) -> F:
    """One edit by options, or many by --file, and what they are read against."""
    for name in reversed(_NUMBERS):
        command = click.option(f"--{name}", type=int, help=_HELP[name])(command)
    options = [
        click.option("--file", "file", type=PATH, help="Edits as .jsonl or .csv, one a line, instead of one by options."),
        click.option("--op", type=click.Choice(sorted(OPS)), default="inject", show_default=True),
        click.option("--text", help="What is put there, as text."),
        click.option("--tokens", "ids", help="What is put there, as token ids with commas."),
        click.option("--find", help="replace: the text that is replaced, everywhere unless a place is named."),
        click.option(
            "--find-regex", help="replace: a regular expression over the text of documents; \\1 in --text is a group."
        ),
        click.option("--type", "kind", type=click.Choice(TYPES), help="inject: how; seq_shuffle by default."),
        click.option("--copies", type=int, help="inject: so many, spread over the samples of the run."),
        click.option("--run", type=PATH, help="The run file whose samples and steps are meant and whose steps are told."),
        click.option("--member", default=0, show_default=True, help="The token set of a blend."),
        click.option("--steps", help="Where injections without a place are spread: 100:200."),
        click.option("--policy", help="Where they are spread: samples that a policy chooses, as in `typecase sample`."),
        click.option("--one-per-batch", is_flag=True, help="At most one of them in a step."),
        click.option("--seed", default=0, show_default=True),
        click.option("--special", is_flag=True, help="Special tokens that the text spells become tokens."),
        click.option("--tokenizer", help="Needed for text where the set has none of its own."),
        click.option("--trained-until", type=int, help="Steps before this one are past: touching them is a danger."),
        click.option("--journal", "folder", type=PATH, help="Folder of the journal; by default beside the set."),
    ]
    for option in reversed(options):
        command = option(command)
    return json_option(command)


_HELP = {
    "sample": "Place: a training index of the run; with --step the n-th sample of its batch.",
    "step": "Place: a sample of that step, drawn unless --sample names it.",
    "document": "Place: a document.",
    "sequence": "Place: a sequence.",
    "at": "insert: before this document.",
    "position": "inject, type position: the token of the place.",
    "start": "First token of a span of the place.",
    "stop": "The token behind a span of the place.",
    "fill": "mask: the id that fills.",
    "limit": "replace: so many places at most.",
    "eod": "An id put behind the text.",
}


def _asked(given: dict[str, Any]) -> Any:
    """The requests: a file, or one made of the options."""
    names = ("op", "text", "find", "find_regex", "copies", *_NUMBERS)
    one = {name: given.pop(name) for name in names if given.get(name) is not None}
    for name in names:
        given.pop(name, None)
    ids, kind = given.pop("ids"), given.pop("kind")
    one |= {"tokens": numbers(ids)} if ids is not None else {}
    one |= {"type": kind} if kind is not None else {}
    file = given.pop("file")
    if file is not None:
        if set(one) - {"op"}:
            raise BadQuery("edits come from --file or from options, not from both")
        return file
    return [one]


def _aim(given: dict[str, Any]) -> Aim:
    given["steps"] = steps_of(given.pop("steps"))
    return Aim(**given)


@edit_command.command(name="preview")
@click.argument("tokens", type=PATH)
@request_options
def preview_command(tokens: Path, as_json: bool, **given: Any) -> None:
    """Show what edits would change and all that they touch; nothing is written."""
    requests = _asked(given)
    planned = editing.plan_edits(tokens, requests, _aim(given))
    answer(_plain(planned), planned_lines(planned), as_json)


@edit_command.command(name="make")
@click.argument("tokens", type=PATH)
@request_options
@click.option("--allow", multiple=True, help="A danger that is wanted, by the code that preview shows.")
@click.option("--reason", default="", help="Why, for the journal.")
@click.option("--author", help="Who; by default the user.")
def make_command(tokens: Path, allow: tuple[str, ...], reason: str, author: str | None, as_json: bool, **given: Any) -> None:
    """Record edits in the journal as one entry; the .bin stays as it is."""
    requests = _asked(given)
    made = editing.make_edits(tokens, requests, _aim(given), allow=allow, reason=reason, author=author)
    value = {"entry": dict(made.entry.as_dict()), **_plain(made.planned)}
    answer(value, [*planned_lines(made.planned), f"entry {made.entry.id} of {tokens}"], as_json)


def _plain(planned: editing.PlannedEdits) -> dict[str, Any]:
    changes = [asdict(c) for c in planned.changes]
    return {"changes": changes, "radius": dict(planned.radius.as_dict()), "stale": list(planned.stale)}


def journal_options(command: F) -> F:
    """TOKENS, --journal and --json of every command over a journal."""
    command = click.argument("tokens", type=PATH)(command)
    command = click.option("--journal", "folder", type=PATH, help="Folder of the journal; by default beside the set.")(command)
    return json_option(command)


@edit_command.command(name="log")
@journal_options
@click.option("--at", help="Another branch, or up to an entry.")
def log_command(tokens: Path, folder: Path | None, at: str | None, as_json: bool) -> None:
    """The entries of the journal, oldest first."""
    with editing.journal_of(tokens, folder=folder) as journal:
        entries, branch, applied = journal.log(at), journal.branch, journal.applied
    answer([dict(e.as_dict()) for e in entries], entry_lines(entries, at or branch, applied), as_json)


@edit_command.command(name="diff")
@journal_options
@click.argument("a")
@click.argument("b")
@click.option("--tokenizer", help="Needed for text where the set has none of its own.")
def diff_command(tokens: Path, folder: Path | None, a: str, b: str, tokenizer: str | None, as_json: bool) -> None:
    """How the set differs between two branches or entries (0 is the set as it was found)."""
    rows = editing.differences_of(tokens, a, b, folder=folder, tokenizer=tokenizer)
    lines = []
    for change in rows:
        lines.append(f"{change.where}  {change.asked}")
        lines += [f"  - {change.old_text or change.old!r}"] if change.old else []
        lines += [f"  + {change.new_text or change.new!r}"] if change.new else []
    answer([asdict(r) for r in rows], lines or [f"{a} and {b} are the same"], as_json)


@edit_command.command(name="show")
@journal_options
@click.argument("entry", type=int)
def show_command(tokens: Path, folder: Path | None, entry: int, as_json: bool) -> None:
    """What one entry changed."""
    with editing.journal_of(tokens, folder=folder) as journal:
        found, _ = journal.show(entry)
        rows = [dict(d.as_dict()) for d in journal.diff(found.parent, entry)]
        branch, applied = journal.branch, journal.applied
    lines = [f"  {r['kind']} {r['key']} at {r['start']}: {r['old']} -> {r['new']}" for r in rows]
    answer({"entry": dict(found.as_dict()), "differences": rows}, [*entry_lines([found], branch, applied), *lines], as_json)


@edit_command.command(name="undo")
@journal_options
@click.argument("entry", type=int)
@click.option("--to", "last", type=int, help="All of the branch from ENTRY to this one.")
@click.option("--reason", default="")
@click.option("--author")
def undo_command(
    tokens: Path, folder: Path | None, entry: int, last: int | None, reason: str, author: str | None, as_json: bool
) -> None:
    """Take back an entry that nothing later overlaps; itself an entry."""
    with editing.journal_of(tokens, folder=folder, write=True, author=author) as journal:
        made = journal.undo(entry, last, reason=reason)
    _told(made, as_json)


@edit_command.command(name="redo")
@journal_options
@click.option("--undo", "entry", type=int, help="The undo that is made again; by default the latest.")
@click.option("--author")
def redo_command(tokens: Path, folder: Path | None, entry: int | None, author: str | None, as_json: bool) -> None:
    """Make again what an undo took back."""
    with editing.journal_of(tokens, folder=folder, write=True, author=author) as journal:
        made = journal.redo(entry)
    _told(made, as_json)


def _told(entry: Entry, as_json: bool) -> None:
    answer(dict(entry.as_dict()), [f"entry {entry.id}: {entry.kind} of {', '.join(map(str, entry.targets))}"], as_json)


@edit_command.command(name="branch")
@journal_options
@click.argument("name", required=False)
@click.option("--at", help="The entry or branch that it begins at; by default the current one.")
@click.option("--switch", is_flag=True, help="Make it the current one, also where it is there already.")
def branch_command(tokens: Path, folder: Path | None, name: str | None, at: str | None, switch: bool, as_json: bool) -> None:
    """List the branches, or make one."""
    with editing.journal_of(tokens, folder=folder, write=name is not None) as journal:
        if name is not None and not (switch and name in journal.branches()):
            journal.new_branch(name, at)
        if name is not None and switch:
            journal.switch(name)
        branches, current = journal.branches(), journal.branch
    rows = [("*" if n == current else "", n, f"entry {e}") for n, e in sorted(branches.items())]
    answer({"current": current, "branches": branches}, table(rows), as_json)


@edit_command.command(name="apply")
@journal_options
@click.option("--at", help="The branch or entry that the .bin is brought to; by default the current branch.")
@click.option("--author")
def apply_command(tokens: Path, folder: Path | None, at: str | None, author: str | None, as_json: bool) -> None:
    """Write same-length edits into the .bin, so that a training framework reads them; crash-safe."""
    with editing.journal_of(tokens, folder=folder, write=True, author=author) as journal:
        written = journal.apply(at)
        applied = journal.applied
    answer({"tokens": written, "applied": applied}, [f"{written:,} tokens written; the .bin holds entry {applied}"], as_json)


@edit_command.command(name="unapply")
@journal_options
@click.option("--author")
def unapply_command(tokens: Path, folder: Path | None, author: str | None, as_json: bool) -> None:
    """Give the .bin back the bytes that it was found with; the journal keeps its entries."""
    with editing.journal_of(tokens, folder=folder, write=True, author=author) as journal:
        written = journal.unapply()
    answer({"tokens": written}, [f"{written:,} tokens written; the .bin is as it was found"], as_json)


@edit_command.command(name="write")
@journal_options
@click.option("-o", "--out", required=True, type=PATH, help="Folder of the new set.")
@click.option("--at", help="Another branch or entry than the current one.")
def write_command(tokens: Path, folder: Path | None, out: Path, at: str | None, as_json: bool) -> None:
    """Write the edited set as a new one, with its .idx, document index and provenance."""
    with editing.journal_of(tokens, folder=folder) as journal:
        made = materialise(journal, out, at)
    lines = [f"{made.prefix}: {made.num_documents:,} documents, {made.num_tokens:,} tokens, by {made.how}"]
    answer(made, lines, as_json)


@edit_command.command(name="verify")
@journal_options
def verify_command(tokens: Path, folder: Path | None, as_json: bool) -> None:
    """Check the whole chain of the journal, and that the .bin holds what it says."""
    with editing.journal_of(tokens, folder=folder) as journal:
        count = journal.verify()
    answer({"entries": count}, [f"{count:,} entries, every one as it was written"], as_json)
