"""Journal: every edit of a token set, what it replaced, who made it and why; seen, applied in place, and taken back.

    with open_journal("work/tokens/web", write=True, author="ada") as journal:
        journal.record([Replacement(812, 40, old=[5, 9, 9], new=[7, 7, 7])], reason="wrong year")
        journal.view().read(812)        as edited; the .bin is as it was
        journal.apply()                 now the .bin says so too, and a training framework reads it
        journal.undo(1); journal.apply()

    main       root - 1 - 2 - 3 (undo of 1)         an entry is a child of the one it was made upon
    what-if           `- 4                          a branch is a name for an entry; one is current

The journal lies beside the set, in `journal/<name>.sqlite`, or in any folder that is named. It belongs to one set: the `.idx`
by its hash, the `.bin` by its size and by the tokens under every edit. An edit is checked whole before anything is written.

Price: recording is about 10 us an edit and one durable transaction a call, or one for a whole `batch`; opening reads the edits
between what is applied and what is current.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

import numpy as np

from typecase.core.edit.edit import Edit, concatenated
from typecase.core.edit.group import Group, first_overlap
from typecase.core.edit.outline import Outline
from typecase.core.edit.overlay import Overlay
from typecase.core.edit.spans import Spans
from typecase.core.edit.state import State
from typecase.errors import AlreadyExists, BadQuery, Conflict, FixInput, NotFound, TypecaseError
from typecase.store.journal.differ import Difference, differences
from typecase.store.journal.former import formed, raise_if_stale
from typecase.store.journal.inplace import check_expected, recover, write_in_place
from typecase.store.journal.ledger import ROOT, Entry, Ledger, num_moves
from typecase.store.journal.lock import Lock
from typecase.store.journal.view import EditedTokens
from typecase.store.tokens.store import TokenStore


class Journal:
    """An open journal; see `open_journal`. Closing lets go of the lock and the files; views of it end with it."""

    def __init__(self, store: TokenStore, ledger: Ledger, lock: Lock | None, author: str, clock: Callable[[], str]) -> None:
        self.store, self.ledger, self.author = store, ledger, author
        self._lock, self._clock = lock, clock
        self._now: tuple[State, EditedTokens] | None = None
        self._keep_store = False

    # What there is.

    @property
    def branch(self) -> str:
        """The name of the current branch."""
        return str(self.ledger.fact("branch"))

    @property
    def head(self) -> int:
        """The entry that the current branch stands at."""
        return self.ledger.branches()[self.branch]

    @property
    def applied(self) -> int:
        """The entry whose state the `.bin` holds: 0 for the set as it was found."""
        return int(self.ledger.fact("applied"))

    def branches(self) -> dict[str, int]:
        """The branches and the entries they stand at."""
        return self.ledger.branches()

    def log(self, at: int | str | None = None) -> list[Entry]:
        """The entries that make up the current branch, or branch or entry `at`, oldest first."""
        return self.ledger.path_to(self.number(at))

    def show(self, entry: int) -> tuple[Entry, tuple[Group, ...]]:
        """An entry and what it did, with what it replaced. Raises NotFound."""
        return self.ledger.entry(entry), self.ledger.groups(entry)

    def verify(self) -> int:
        """Checks the whole chain, and that the `.bin` holds what every edit says of it; how many entries there are.

        Raises CorruptStore or StaleEdit, naming the first that is wrong.
        """
        count = self.ledger.check_all()
        if self.ledger.begun() is None:
            check_expected(self.store, self._taken_back(self.ledger.path_to(self.applied)))
        return count

    def diff(self, a: int | str, b: int | str) -> list[Difference]:
        """How the set differs between two branches or entries, run by run, with the tokens of both."""
        before, after = self.number(a), self.number(b)
        return differences(self._state_at(before), self._state_at(after), self.store)

    def number(self, at: int | str | None) -> int:
        """The entry that `at` names: a branch, a number, or the current branch. Raises NotFound."""
        if at is None:
            return self.head
        if isinstance(at, str) and not at.isdigit():
            try:
                return self.ledger.branches()[at]
            except KeyError:
                known = ", ".join(self.ledger.branches())
                raise NotFound(f"there is no branch {at!r} in {self.ledger.path}; there are {known}") from None
        return self.ledger.entry(int(at)).id

    # Editing.

    def record(
        self, edits: Iterable[Edit] | Spans, *, reason: str = "", author: str | None = None, time: str | None = None
    ) -> Entry:
        """Adds an entry of `edits`, which stand and fall together, to the current branch; the `.bin` stays as it is.

        Numbers are those of the view. Raises BadQuery (a number, an id that does not fit, edits that overlap), StaleEdit
        (`old` is not what stands there), TryAgain (a full disk); nothing is changed then.
        """
        self._writing()
        state, view = self._current()
        group = formed(edits, view, state, self._next_keys())
        if not group.num_edits:
            raise BadQuery("there is nothing to record: no edit was given")
        return self._append("edit", (), (group,), reason, author, time)

    def check(self, edits: Iterable[Edit] | Spans) -> Group:
        """What `record` would write, after all its checks; nothing is written."""
        state, view = self._current()
        return formed(edits, view, state, self._next_keys())

    def preview(self, edits: Iterable[Edit] | Spans) -> EditedTokens:
        """The view as it would be after `record(edits)`; nothing is written. Raises as `record`."""
        state, _ = self._current()
        ahead = state.copy()
        ahead.apply(self.check(edits))
        return EditedTokens(self.store, ahead, self.head, "preview", version=lambda: None)

    def undo(
        self, entry: int, last: int | None = None, *, reason: str = "", author: str | None = None, time: str | None = None
    ) -> Entry:
        """Takes back `entry`, or all of the branch from it to `last`; itself an entry.

        Raises Conflict when it was taken back already, or when a later edit that stands touches the same tokens.
        """
        self._writing()
        path = self.log()
        standing = _standing(path)
        known = {e.id for e in path}
        if entry not in known or (last is not None and last not in known):
            raise NotFound(f"branch {self.branch} has no entry {entry if entry not in known else last}; see the log")
        if last is None and entry not in standing:
            raise Conflict(f"entry {entry} was taken back already, or is itself an undo; see the log, or use redo")
        end = entry if last is None else last
        wanted = [entry] if last is None else _left_of([e for e in path if entry <= e.id <= end])
        if not wanted:
            raise Conflict(f"the entries {entry}..{end} took each other back already; see the log")
        self._raise_if_overlapped(wanted, _left_of([e for e in path if e.id > end]))
        groups = tuple(g.inverse() for n in reversed(wanted) for g in reversed(self.ledger.groups(n)))
        return self._append("undo", wanted, groups, reason, author, time)

    def redo(self, undo: int | None = None, *, reason: str = "", author: str | None = None, time: str | None = None) -> Entry:
        """Makes again what the entry `undo` took back, by default the latest undo that stands; itself an entry."""
        self._writing()
        path = self.log()
        done = {t for e in path if e.kind == "redo" for t in e.targets}
        open_ = [e.id for e in path if e.kind == "undo" and e.id not in done]
        if not open_ or (undo is not None and undo not in open_):
            raise Conflict("there is nothing to redo" if undo is None else f"entry {undo} is no undo that stands; see the log")
        wanted = open_[-1] if undo is None else undo
        self._raise_if_overlapped([wanted], _left_of([e for e in path if e.id > wanted]))
        groups = tuple(g.inverse() for g in reversed(self.ledger.groups(wanted)))
        return self._append("redo", (wanted,), groups, reason, author, time)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Makes all entries of the block one transaction: one wait for the disk, all or nothing."""
        self._writing()
        try:
            with self.ledger.transaction():
                yield
        except BaseException:
            self._now = None
            raise

    # Branches.

    def new_branch(self, name: str, at: int | str | None = None) -> None:
        """A new branch `name` at the current entry, or at `at`; it does not become current."""
        self._writing()
        if not name or name.isdigit():
            raise BadQuery(f"{name!r} is no name for a branch: it needs a letter, so that it is not taken for an entry")
        if name in self.ledger.branches():
            raise AlreadyExists(f"the branch {name!r} is there; choose another name, or switch to it")
        with self.ledger.transaction():
            self.ledger.set_branch(name, self.number(at))

    def switch(self, name: str) -> None:
        """Makes branch `name` the current one; the `.bin` stays as it is. Raises NotFound."""
        self._writing()
        if name not in self.ledger.branches():
            raise NotFound(f"there is no branch {name!r}; there are {', '.join(self.ledger.branches())}")
        with self.ledger.transaction():
            self.ledger.set_fact("branch", name)
        self._now = None

    # The set as edited.

    def view(self, at: int | str | None = None, *, keep: bool = False) -> EditedTokens:
        """The set at the current branch, or at branch or entry `at`; with `keep` it outlives the journal."""
        number = self.number(at)
        state = self._current()[0].copy() if number == self.head else self._state_at(number)
        self._keep_store |= keep
        reopen = (self.store.pair.idx, number)
        name = f"{self.ledger.fact('set')}:{self.ledger.entry(number).hash}"
        path = self.ledger.path
        version = (lambda: num_moves(path)) if keep else lambda: len(self.ledger.moves())
        return EditedTokens(self.store, state, number, name, version=version, owned=keep, reopen=reopen)

    def overlay_to(self, at: int | str | None = None) -> Overlay:
        """What `apply` would write: the tokens that differ between the `.bin` and the state `at`. Raises as `apply`."""
        target = self.number(at)
        state = self._current()[0] if target == self.head else self._state_at(target)
        return self._overlay(state, f"entry {target}")

    def apply(self, at: int | str | None = None, *, author: str | None = None, time: str | None = None) -> int:
        """Brings the `.bin` to the current branch, or to branch or entry `at`; how many tokens were written.

        Every token is checked first, written ahead, and forced to disk; see `inplace`. Raises BadQuery when a length or a
        document would change (write a new set instead), StaleEdit, FixInput, Conflict, TryAgain; nothing is changed then.
        """
        self._writing()
        if self.ledger.in_transaction:
            raise BadQuery("an application in place is a transaction of its own; call it after the batch")
        target, layer = self.number(at), self.overlay_to(at)
        self._now = None
        write_in_place(self.store, self.ledger, layer, self.applied, target, author or self.author, time or self._clock())
        return len(layer.new)

    def unapply(self, *, author: str | None = None, time: str | None = None) -> int:
        """Gives the `.bin` the bytes that it was found with; how many tokens were written. The journal keeps its entries."""
        return self.apply(ROOT, author=author, time=time)

    # Within.

    def _append(
        self,
        kind: str,
        targets: Sequence[int],
        groups: tuple[Group, ...],
        reason: str,
        author: str | None,
        time: str | None,
    ) -> Entry:
        state, view = self._current()
        ahead = state if all(g.same_length for g in groups) and kind == "edit" else state.copy()
        if kind != "edit":
            self._check_groups(groups, ahead)
        self._now = None
        with self.ledger.transaction():
            entry = self.ledger.add(self.head, kind, targets, groups, author or self.author, reason, time or self._clock())
            self.ledger.set_branch(self.branch, entry.id)
            self._count_keys(groups)
        if kind == "edit":
            for group in groups:
                ahead.apply(group)
        self._now = (ahead, view if ahead is state else self._internal(ahead))
        return entry

    def _check_groups(self, groups: Sequence[Group], state: State) -> None:
        """Applies `groups` to `state`, each after its `old` tokens were found there."""
        for group in groups:
            held = np.isin(group.spans.sequences, np.fromiter(state.held, np.int64, len(state.held)))
            own = group.spans.take(held)
            columns = (own.sequences.tolist(), own.starts.tolist(), own.old_counts.tolist())
            parts = [state.held[key][start : start + count] for key, start, count in zip(*columns, strict=True)]
            raise_if_stale(own, concatenated(parts, self.store.dtype), str(self.store.pair.prefix))
            bare = group.spans.take(~held)
            found, offsets = self.store.read_spans(bare.sequences, bare.starts, bare.old_counts)
            for layer in state.layers:
                layer.patch(found, offsets, bare.sequences, bare.starts)
            raise_if_stale(bare, found, str(self.store.pair.prefix))
            state.apply(group)

    def _current(self) -> tuple[State, EditedTokens]:
        if self._now is None:
            state = self._state_at(self.head)
            self._now = (state, self._internal(state))
        return self._now

    def _internal(self, state: State) -> EditedTokens:
        return EditedTokens(self.store, state, ROOT, "internal")

    def _state_at(self, number: int) -> State:
        """The set at entry `number`, as a change of what the `.bin` holds."""
        path, behind = self.ledger.path_to(number), self.ledger.path_to(self.applied)
        follows = [e.id for e in behind] == [e.id for e in path[: len(behind)]]
        if follows and all(e.same_length for e in behind):
            state, path = self._of_bin(), path[len(behind) :]
        else:
            state = self._bare()
            state.apply(Group(self._taken_back(behind).spans()))
        for entry in path:
            for group in self.ledger.groups(entry.id):
                state.apply(group)
        return state

    def _bare(self) -> State:
        return State(self.store.dtype, Outline(self.store.num_documents), lambda key: self.store.read_sequence(key))

    def _of_bin(self) -> State:
        """The set at the entry that is applied. While a move is under way the `.bin` may hold either state or parts of both."""
        state, begun = self._bare(), self.ledger.begun()
        if begun is not None:
            state.apply(Group(begun[1].spans.inverse()))
        return state

    def _taken_back(self, behind: Sequence[Entry]) -> Overlay:
        """What makes the `.bin`, which holds the entries `behind`, the set as it was found.

        Backwards, for only the state that is applied is there to be read; documents that came and went are none of its.
        """
        state = self._of_bin()
        for entry in reversed(behind):
            for group in reversed(self.ledger.groups(entry.id)):
                spans = group.spans.inverse()
                state.apply(Group(spans.take(spans.sequences < self.store.num_sequences)))
        return self._overlay(state, "what is applied")

    def _overlay(self, state: State, what: str) -> Overlay:
        layer = state.overlay()
        if layer is None:
            raise BadQuery(
                f"{what} changes the length of a sequence, or the documents: the .idx and every training order would be wrong,"
                " so it cannot be applied in place; write it to a new set (materialise)"
            )
        return layer

    def _raise_if_overlapped(self, wanted: Sequence[int], later: Sequence[int]) -> None:
        for one in wanted:
            mine = self.ledger.groups(one)
            for other in later:
                for theirs in self.ledger.groups(other):
                    for group in mine:
                        touched = first_overlap(group, theirs)
                        if touched is not None:
                            raise Conflict(
                                f"entry {one} cannot be taken back alone: entry {other}, made later, touches {touched}, too;"
                                f" take {other} back first, or the range {one}..{other}"
                            )

    def _next_keys(self) -> tuple[int, int]:
        """Keys for the next new document and sequence; never used twice, on any branch."""
        try:
            document, sequence = self.ledger.fact("next_keys")
        except TypecaseError:
            return self.store.num_documents, self.store.num_sequences
        return int(document), int(sequence)

    def _count_keys(self, groups: Sequence[Group]) -> None:
        document, sequence = self._next_keys()
        new = [c for g in groups for c in g.documents if c.key >= document]
        if new:
            last = max(c.first_sequence + c.num_sequences for c in new)
            self.ledger.set_fact("next_keys", [max(c.key for c in new) + 1, max(last, sequence)])

    def _writing(self) -> None:
        if self._lock is None:
            raise FixInput(f"{self.ledger.path} was opened for reading; open it with write=True")
        recover(self.store, self.ledger)

    def close(self) -> None:
        """Lets go of the lock and the files."""
        self.ledger.close()
        if self._lock is not None:
            self._lock.release()
        if not self._keep_store:
            self.store.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _standing(path: Sequence[Entry]) -> list[int]:
    """The entries of `path` that did something which was not taken back: edits and redos that no undo is about."""
    gone = {t for e in path if e.kind == "undo" for t in e.targets}
    return [e.id for e in path if e.kind != "undo" and e.id not in gone]


def _left_of(entries: Sequence[Entry]) -> list[int]:
    """What `entries`, which follow one another, amount to: without those among them that others took back, and these."""
    left: list[int] = []
    for e in entries:
        if e.targets and set(e.targets) <= set(left):
            left = [n for n in left if n not in e.targets]
        else:
            left.append(e.id)
    return left
