"""Killed or refused by the disk at any step: the set is before or after each entry, and the next opening ends it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.naive_tokens import bin_of, write_set
from typecase.core.edit.edit import Replacement
from typecase.errors import Conflict, FixInput, StaleEdit, TryAgain
from typecase.store.atomic import content_hash
from typecase.store.journal.health import edited_in_place, half_applied, original_hash
from typecase.store.journal.journal import Journal
from typecase.store.journal.ledger import Ledger
from typecase.store.journal.materialise import materialise
from typecase.store.journal.opening import open_edited, open_journal
from typecase.store.tokens.store import open_tokens

DOCUMENTS = [[[k * 10 + i for i in range(8)]] for k in range(6)]
Step = Callable[[str], None]


def edit(sequence: int, start: int, old: list[int], new: list[int]) -> Replacement:
    return Replacement(sequence, start, np.array(old), np.array(new))


def work(journal: Journal) -> Iterator[str]:
    """A session of edits; yields after each call, with its name."""
    journal.record([edit(0, 0, [0, 1, 2], [100, 101, 102]), edit(3, 4, [34, 35], [200, 201])], reason="first")
    yield "record"
    journal.apply()
    yield "apply"
    with journal.batch():
        journal.record([edit(5, 7, [57], [300])])
        journal.record([edit(0, 1, [101], [301])])
    yield "batch"
    journal.apply()
    yield "apply"
    journal.undo(2)
    yield "undo"
    journal.apply()
    yield "apply"
    journal.unapply()
    yield "unapply"


@contextmanager
def counted(step: Step, torn: bool = False) -> Iterator[None]:
    """Calls `step` before, and in the midst of, everything that reaches the disk."""
    real = {name: getattr(os, name) for name in ("pwrite", "fsync", "fdatasync", "ftruncate", "replace", "rename")}
    commit, path_replace = Ledger.commit, Path.replace

    def pwrite(fd: int, data: Any, place: int) -> int:
        step("pwrite")
        if torn and len(data) > 1:
            done = real["pwrite"](fd, bytes(data)[: len(data) // 2], place)
            step("half a pwrite")
            return int(done)
        return int(real["pwrite"](fd, data, place))

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            step(name)
            result = real[name](*args, **more)
            step(f"after {name}")
            return result

        return call

    def committed(ledger: Ledger) -> None:
        step("commit")
        commit(ledger)
        step("after commit")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        for name in ("fsync", "fdatasync", "ftruncate", "replace", "rename"):
            patch.setattr(os, name, wrapped(name))
        patch.setattr(Ledger, "commit", committed)
        patch.setattr(Path, "replace", lambda self, target: (step("replace"), path_replace(self, target))[1])
        yield


def killed_at(number: int, prefix: Path, torn: bool) -> bool:
    """Runs the session in a child that is killed at step `number`; whether it was."""
    child = os.fork()
    if child == 0:
        seen = 0

        def step(name: str) -> None:
            nonlocal seen
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

        try:
            with counted(step, torn), open_journal(prefix, write=True, author="ada") as journal:
                for _ in work(journal):
                    pass
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def read_all(store: Any) -> list[list[int]]:
    return [store.read_sequence(s).tolist() for s in range(store.num_sequences)]


def states_of(prefix: Path) -> dict[int, list[list[int]]]:
    """What the set says at every entry of a session that nothing disturbed."""
    with open_journal(prefix, write=True, author="ada") as journal:
        for _ in work(journal):
            pass
        return {n: read_all(journal.view(n)) for n in range(journal.ledger.last().id + 1)}


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_killed_at_every_step(tmp_path: Path, dtype: str, torn: bool) -> None:
    states = states_of(write_set(tmp_path / "whole" / "set", DOCUMENTS, dtype))
    heads, kills = [], 0
    while True:
        prefix = write_set(tmp_path / "k" / "set", DOCUMENTS, dtype)
        found = bin_of(prefix).read_bytes()
        if not killed_at(kills, prefix, torn):
            break
        kills += 1
        half = half_applied(prefix)
        assert half is None or half.strange is None
        if (prefix.parent / "journal" / "set.sqlite").exists():
            with open_edited(prefix) as view:  # a reader ends what was begun, too
                assert read_all(view) == states[view.entry]
            assert half_applied(prefix) is None
        with open_journal(prefix, write=True, author="bea") as journal:
            assert half_applied(prefix) is None
            assert journal.verify() == journal.ledger.last().id
            with open_tokens(prefix) as store:
                assert read_all(store) == states[journal.applied]
            assert read_all(journal.view()) == states[journal.head]
            heads.append((journal.head, journal.applied))
            journal.unapply()
        assert bin_of(prefix).read_bytes() == found
        shutil.rmtree(prefix.parent)
    assert kills > 30
    assert {h for h, _ in heads} == {0, 1, 3, 4} and {a for _, a in heads} == {0, 1, 3, 4}  # a batch is one entry or none


class Failing:
    """Raises `error` at the k-th call of its kind, once."""

    def __init__(self, number: int, error: Callable[[], Exception], names: tuple[str, ...]) -> None:
        self.left, self.error, self.names, self.failed = number, error, names, False

    def __call__(self, name: str) -> None:
        if name not in self.names or self.failed:
            return
        if self.left == 0:
            self.failed = True
            raise self.error()
        self.left -= 1


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("pwrite", "half a pwrite"), lambda: OSError(errno.ENOSPC, "No space left on device")),
        (("fdatasync",), lambda: OSError(errno.EIO, "Input/output error")),
        (("commit",), lambda: sqlite3.OperationalError("database or disk is full")),
    ],
    ids=["pwrite", "fdatasync", "commit"],
)
def test_a_full_disk_changes_nothing_and_the_call_can_be_repeated(
    tmp_path: Path, names: tuple[str, ...], error: Callable[[], Exception]
) -> None:
    states = states_of(write_set(tmp_path / "whole" / "set", DOCUMENTS))
    number, failures = 0, 0
    while True:
        prefix = write_set(tmp_path / f"{number}" / "set", DOCUMENTS)
        failing = Failing(number, error, names)
        with open_journal(prefix, write=True, author="ada") as journal, counted(failing, torn=True):
            before = (journal.head, journal.applied)
            try:
                for _ in work(journal):
                    before = (journal.head, journal.applied)
            except TryAgain as raised:
                failures += 1
                assert "free some space" in str(raised)
                # The one exception: the bytes are written and only the last note of it failed; the next call notes it.
                noted = half_applied(prefix) is None
                assert (journal.head, journal.applied) == before
                if noted:
                    with open_tokens(prefix) as store:
                        assert read_all(store) == states[journal.applied]
                assert read_all(journal.view()) == states[journal.head]
                journal.apply()
                with open_tokens(prefix) as store:
                    assert read_all(store) == states[journal.head]
        if not failing.failed:
            break
        number += 1
    assert failures == number > 2


def test_a_disk_that_fails_for_good_leaves_a_set_that_doctor_knows(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)
    calls = 0

    def step(name: str) -> None:
        nonlocal calls
        if name == "pwrite":
            calls += 1
            if calls > 1:
                raise OSError(errno.EIO, "Input/output error")

    with open_journal(prefix, write=True, author="ada") as journal:
        journal.record([edit(0, 0, [0, 1], [100, 101]), edit(3, 4, [34, 35], [200, 201])])
        with counted(step), pytest.raises(TryAgain, match="half applied"):
            journal.apply()
        half = half_applied(prefix)
        assert half is not None and (half.num_before, half.num_after, half.target) == (2, 2, 1)
        assert "broken off" in str(half)
        assert read_all(journal.view())[0][:2] == [100, 101]  # the view is right all the while
    with open_journal(prefix, write=True) as journal:
        assert journal.applied == 1 and half_applied(prefix) is None


def test_a_foreign_change_amid_a_broken_off_write_is_never_overwritten(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)

    def step(name: str) -> None:
        if name == "pwrite":
            raise OSError(errno.EIO, "Input/output error")

    with open_journal(prefix, write=True, author="ada") as journal:
        journal.record([edit(0, 0, [0, 1], [100, 101])])
        with counted(step), pytest.raises(TryAgain, match="half applied"):
            journal.apply()
    with bin_of(prefix).open("r+b") as file:
        file.write(b"\x07\x07")
    bytes_now = bin_of(prefix).read_bytes()
    half = half_applied(prefix)
    assert half is not None and half.strange == "sequence 0, token 0"
    with pytest.raises(StaleEdit, match="sequence 0, token 0 was changed"):
        open_journal(prefix, write=True)
    assert bin_of(prefix).read_bytes() == bytes_now


def test_a_set_changed_by_someone_else_is_refused(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)
    with open_journal(prefix, write=True, author="ada") as journal:
        journal.record([edit(0, 0, [0, 1], [100, 101]), edit(2, 0, [20], [5])])
        with bin_of(prefix).open("r+b") as file:
            file.seek(2)
            file.write(b"\x09\x00")
        now = bin_of(prefix).read_bytes()
        with pytest.raises(StaleEdit, match=r"sequence 0, token 1 is 9, the journal expects 1 \(1 such tokens\)"):
            journal.apply()
        assert bin_of(prefix).read_bytes() == now and journal.applied == 0


def test_the_second_writer_is_told_who_is_at_it(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)
    with open_journal(prefix, write=True, author="ada", clock=lambda: "noon") as journal:
        with pytest.raises(Conflict, match=rf"being written by ada \(process {os.getpid()} on .*, since noon\)"):
            open_journal(prefix, write=True, author="bea")
        with open_journal(prefix) as reader:  # reading is always possible
            assert reader.head == 0
            with pytest.raises(FixInput, match="opened for reading"):
                reader.record([edit(0, 0, [0], [1])])
        other = tmp_path / "elsewhere"
        journal.record([edit(0, 0, [0], [1])])
        with open_journal(prefix, folder=other, write=True) as second:
            second.record([edit(0, 0, [0], [2])])
            journal.apply()
            with pytest.raises(StaleEdit, match="something else changed the set"):
                second.apply()
    with open_journal(prefix, write=True, author="bea") as journal:
        assert journal.applied == 1


def test_a_read_only_bin_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)
    real = os.open

    def refuse(path: Any, flags: int, *more: Any) -> int:
        if str(path).endswith(".bin") and flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *more)

    with open_journal(prefix, write=True, author="ada") as journal:
        journal.record([edit(0, 0, [0], [1])])
        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(FixInput, match=r"Read-only file system.*materialise"):
            journal.apply()
        assert journal.applied == 0 and read_all(journal.view())[0][0] == 1


def test_the_hash_of_the_set_as_found_is_known_without_taking_back(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)
    promised = content_hash(bin_of(prefix))
    with open_journal(prefix, write=True, author="ada", clock=lambda: "noon") as journal:
        assert edited_in_place(prefix) is None
        journal.record([edit(0, 0, [0, 1, 2], [9, 9, 9]), edit(5, 6, [56, 57], [9, 9])])
        journal.apply()
        assert content_hash(bin_of(prefix)) != promised
        assert original_hash(prefix) == promised
        assert "edited in place by entry 1" in str(edited_in_place(prefix))


def test_a_broken_off_new_set_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = write_set(tmp_path / "set", DOCUMENTS)
    for same in (True, False):
        number = 0
        while True:
            out = tmp_path / f"out{same}{number}"
            failing = Failing(
                number, lambda: OSError(errno.ENOSPC, "No space left on device"), ("pwrite", "fsync", "fdatasync")
            )
            with open_journal(prefix, folder=tmp_path / f"j{same}{number}", write=True) as journal:
                journal.record([edit(0, 0, [0, 1], [7, 7] if same else [7])])
                with counted(failing):
                    try:
                        materialise(journal, out)
                    except TryAgain:
                        # Only forcing the finished folder's own name to disk comes after it has that name.
                        assert not list(tmp_path.glob(".out*"))
            if not failing.failed:
                break
            number += 1
        assert number > 2


def test_a_writer_that_died_within_a_transaction_is_no_hindrance(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "a" / "set", DOCUMENTS)
    with open_journal(prefix, write=True) as journal:
        journal.record([edit(0, 0, [0], [100])])
        journal.ledger._db.execute("PRAGMA cache_size = 1")
        with pytest.raises(ZeroDivisionError), journal.batch():
            for _ in range(200):
                now = journal.view().read_sequence(0)
                journal.record([Replacement(0, 0, now, now + 1)])
            shutil.copytree(tmp_path / "a", tmp_path / "b")  # as a power cut would leave it
            raise ZeroDivisionError
        assert journal.head == 1 and journal.verify() == 1
    home = tmp_path / "b" / "journal"
    db = sqlite3.connect(f"{(home / 'set.sqlite').as_uri()}?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("SELECT * FROM facts")
    db.close()
    with open_edited(tmp_path / "b" / "set") as view:
        assert view.entry == 1 and read_all(view)[0][:2] == [100, 1]
