"""The journal against a plain model: edits, undoes, branches, applies and reopens in any order, and both always agree."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.store.naive_tokens import bin_of, write_set
from typecase.core.edit.edit import AppendDocument, DeleteDocument, Edit, InsertDocument, ReplaceDocument, Replacement
from typecase.core.edit.outline import Outline
from typecase.core.edit.state import State
from typecase.errors import BadQuery, Conflict
from typecase.store.journal.journal import Journal
from typecase.store.journal.materialise import materialise
from typecase.store.journal.opening import open_journal
from typecase.store.tokens.store import open_tokens

Documents = list[list[list[int]]]
SEQUENCE = st.lists(st.integers(0, 9), min_size=0, max_size=6)
SET = st.lists(st.lists(SEQUENCE, min_size=0, max_size=3), min_size=1, max_size=6)


def told(view: Any) -> Documents:
    index = view.document_index
    return [[view.read_sequence(s).tolist() for s in range(index[d], index[d + 1])] for d in range(view.num_documents)]


def flat(documents: Documents) -> list[int]:
    return [t for d in documents for s in d for t in s]


class Machine(RuleBasedStateMachine):
    """`states` is what the set says at every entry; `branches` and `applied` name entries."""

    def __init__(self) -> None:
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.ticks = 0
        self.written = 0

    @initialize(documents=SET, dtype=st.sampled_from(["uint16", "int32"]))
    def begin(self, documents: Documents, dtype: str) -> None:
        self.prefix = write_set(self.folder / "set", documents, dtype)
        self.found = bin_of(self.prefix).read_bytes()
        self.states: dict[int, Documents] = {0: documents}
        self.branches, self.branch, self.applied = {"main": 0}, "main", 0
        self.open()

    def open(self) -> None:
        self.journal: Journal = open_journal(self.prefix, write=True, author="ada", clock=lambda: "t")

    @property
    def head(self) -> int:
        return self.branches[self.branch]

    @property
    def now(self) -> Documents:
        return self.states[self.head]

    def recorded(self, number: int, documents: Documents) -> None:
        self.states[number] = documents
        self.branches[self.branch] = number

    @rule(data=st.data(), count=st.integers(1, 3), same=st.booleans())
    def replace(self, data: st.DataObject, count: int, same: bool) -> None:
        places = [(d, k) for d, document in enumerate(self.now) for k in range(len(document))]
        if not places:
            return
        chosen = data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=count, unique=True))
        after = [[list(s) for s in document] for document in self.now]
        numbers = {place: n for n, place in enumerate(places)}
        edits: list[Edit] = []
        for d, k in chosen:
            tokens = after[d][k]
            start = data.draw(st.integers(0, len(tokens)))
            stop = data.draw(st.integers(start, len(tokens)))
            size = stop - start
            new = data.draw(st.lists(st.integers(0, 9), min_size=size if same else 0, max_size=size if same else 4))
            edits.append(Replacement(numbers[d, k], start, tokens[start:stop], new))  # type: ignore[arg-type]
            after[d][k] = tokens[:start] + new + tokens[stop:]
        self.recorded(self.journal.record(edits, reason="r").id, after)

    @rule(data=st.data(), kind=st.sampled_from(["delete", "insert", "append", "replace"]))
    def document(self, data: st.DataObject, kind: str) -> None:
        after = list(self.now)
        new = data.draw(st.lists(SEQUENCE, min_size=0, max_size=3))
        arrays = tuple(np.array(s, np.int64) for s in new)
        edit: Edit
        if kind == "append" or not after:
            edit = AppendDocument(arrays)
            after.append(new)
        elif kind == "insert":
            at = data.draw(st.integers(0, len(after)))
            edit = InsertDocument(at, arrays)
            after.insert(at, new)
        else:
            doc = data.draw(st.integers(0, len(after) - 1))
            if kind == "delete":
                edit = DeleteDocument(doc)
                del after[doc]
            else:
                edit = ReplaceDocument(doc, arrays)
                if after[doc] == new:
                    return
                after[doc] = new
        self.recorded(self.journal.record([edit]).id, after)

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        log = self.journal.log()
        if not log:
            return
        chosen = data.draw(st.sampled_from(log)).id
        try:
            entry = self.journal.undo(chosen)
        except Conflict:
            assert told(self.journal.view()) == self.now
            return
        after = told(self.journal.view())
        if chosen == log[-1].id:
            assert after == self.states[log[-1].parent]
        replayed = self.replayed()
        if replayed is not None:
            assert [s for d in after for s in d] == replayed
        self.recorded(entry.id, after)

    def replayed(self) -> list[list[int]] | None:
        """The sequences after only those entries that stand, none of them taken back; None where documents came or went."""
        log = self.journal.log()
        gone = {t for e in log if e.kind == "undo" for t in e.targets}
        groups = [g for e in log if e.kind != "undo" and e.id not in gone for g in self.journal.show(e.id)[1]]
        if any(g.documents for e in log for g in self.journal.show(e.id)[1]):
            return None
        if any(e.kind == "undo" and e.id in gone for e in log):  # a range took an undo back: what it took back stands
            return None
        sequences = [s for d in self.states[0] for s in d]
        state = State(np.dtype("<i4"), Outline(len(self.states[0])), lambda k: np.array(sequences[k], np.int32))
        for group in groups:
            state.apply(group)
        return [state.sequence(k).tolist() for k in range(len(sequences))]

    @rule(data=st.data())
    def undo_a_tail_and_redo(self, data: st.DataObject) -> None:
        log = self.journal.log()
        if not log:
            return
        first, before = data.draw(st.sampled_from(log)), self.now
        try:
            entry = self.journal.undo(first.id, self.head)
        except Conflict:
            assert told(self.journal.view()) == before == self.states[first.parent]
            return
        assert told(self.journal.view()) == self.states[first.parent]
        self.recorded(entry.id, self.states[first.parent])
        again = self.journal.redo(entry.id)
        assert told(self.journal.view()) == before
        self.recorded(again.id, before)

    @rule()
    def redo(self) -> None:
        try:
            entry = self.journal.redo()
        except Conflict:
            return
        self.recorded(entry.id, told(self.journal.view()))

    @rule(name=st.sampled_from(["a", "b"]), data=st.data())
    def branch_off(self, name: str, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(sorted(self.states)))
        if name not in self.branches:
            self.journal.new_branch(name, at)
            self.branches[name] = at

    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        self.branch = data.draw(st.sampled_from(sorted(self.branches)))
        self.journal.switch(self.branch)

    @rule(data=st.data())
    def apply(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from([self.head, *sorted(self.states)]))
        fits = [[len(s) for s in d] for d in self.states[target]] == [[len(s) for s in d] for d in self.states[0]]
        try:
            self.journal.apply(target)
        except BadQuery as error:
            # Deleting a document and inserting its like is not the same documents, whatever the lengths.
            assert not fits or "documents" in str(error)
            return
        assert fits
        self.applied = target

    @rule()
    def unapply(self) -> None:
        self.journal.unapply()
        self.applied = 0
        assert bin_of(self.prefix).read_bytes() == self.found

    @rule()
    def reopen(self) -> None:
        self.journal.close()
        self.open()

    @rule(data=st.data())
    def diff(self, data: st.DataObject) -> None:
        a, b = (data.draw(st.sampled_from(sorted(self.states))) for _ in range(2))
        assert bool(self.journal.diff(a, b)) >= (flat(self.states[a]) != flat(self.states[b]))

    @precondition(lambda self: self.written < 2)
    @rule()
    def write_out(self) -> None:
        self.written += 1
        out = self.folder / f"out{self.written}"
        materialise(self.journal, out)
        with open_tokens(out) as store:
            assert told(store) == self.now

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "journal"):
            return
        view = self.journal.view()
        assert told(view) == self.now
        assert view.document_lengths().tolist() == [sum(map(len, d)) for d in self.now]
        assert [t for b in view.blocks(7) for t in b.tokens.tolist()] == flat(self.now)
        assert self.journal.head == self.head and self.journal.applied == self.applied
        with open_tokens(self.prefix) as store:
            assert told(store) == self.states[self.applied]

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            assert self.journal.verify() == len(self.states) - 1
            self.journal.close()
        self.temporary.cleanup()


Machine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMachine = Machine.TestCase
