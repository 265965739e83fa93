"""Ledger: the rows of a journal in one SQLite file, chained by hash.

    entries    0 the set -> 1 edit -> 2 edit -> 3 undo of 1          each hash covers the one before, the parent and the edits
                             `-> 4 edit                             a branch is a name for an entry
    branches   main 3, what-if 4
    moves      0 -> 2 done, 2 -> 3 begun                            what was applied in place, written ahead

Entries are only added. Changing one breaks every hash after it; the last is checked whenever a journal is opened, all of
them by `verify`. A transaction is on disk when it returns (rollback journal, synchronous FULL): about half a millisecond on a
local disk. A folder on a read-only medium can be read.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from typecase.core.edit.group import Group
from typecase.errors import Conflict, CorruptStore, FixInput, NotFound, SchemaMismatch, TryAgain
from typecase.store.atomic import atomic_path
from typecase.store.journal.codec import decode, encode

FORMAT = 1
ROOT = 0
"""The entry before all others: the set as it was found."""

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, kind TEXT NOT NULL, targets TEXT NOT NULL,
    author TEXT NOT NULL, reason TEXT NOT NULL, time TEXT NOT NULL, num_edits INTEGER NOT NULL, same_length INTEGER NOT NULL,
    edits BLOB NOT NULL, hash TEXT NOT NULL);
CREATE TABLE branches (name TEXT PRIMARY KEY, entry INTEGER NOT NULL);
CREATE TABLE moves (id INTEGER PRIMARY KEY, source INTEGER NOT NULL, target INTEGER NOT NULL, author TEXT NOT NULL,
    time TEXT NOT NULL, state TEXT NOT NULL, edits BLOB NOT NULL);
"""
_ENTRY = "id, parent, kind, targets, author, reason, time, num_edits, same_length, hash"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal: an edit, an undo or a redo. `targets` are the entries that an undo or redo is about."""

    id: int
    parent: int
    kind: str
    targets: tuple[int, ...]
    author: str
    reason: str
    time: str
    num_edits: int
    same_length: bool
    hash: str

    def as_dict(self) -> Mapping[str, Any]:
        """The entry as JSON has it."""
        names = ("id", "parent", "kind", "author", "reason", "time", "num_edits", "same_length", "hash")
        return {name: getattr(self, name) for name in names} | {"targets": list(self.targets)}


@dataclass(frozen=True, slots=True)
class Move:
    """An application in place, from the bytes of entry `source` to those of `target`; `state` is begun, done or undone."""

    id: int
    source: int
    target: int
    author: str
    time: str
    state: str


class Ledger:
    """An open journal file; see `open_ledger` and `create_ledger`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        self._depth = 0

    # Facts.

    def fact(self, name: str) -> Any:
        with speaking(self.path):
            row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise SchemaMismatch(f"{self.path} says nothing of {name!r}: it is no journal of this typecase")
        return orjson.loads(row[0])

    def set_fact(self, name: str, value: object) -> None:
        self._run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, orjson.dumps(value).decode()))

    # Entries.

    def add(
        self, parent: int, kind: str, targets: Sequence[int], groups: Sequence[Group], author: str, reason: str, time: str
    ) -> Entry:
        """Adds an entry after all others, as a child of `parent`."""
        last = self.last()
        number = last.id + 1
        data = encode(groups)
        num_edits, same = sum(g.num_edits for g in groups), all(g.same_length for g in groups)
        above = self.entry(parent)
        digest = _hash(last.hash, above.hash, (number, parent, kind, list(targets), author, reason, time), data)
        entry = Entry(number, parent, kind, tuple(targets), author, reason, time, num_edits, same, digest)
        self._insert(entry, data)
        return entry

    def _insert(self, entry: Entry, data: bytes) -> None:
        e = entry
        row = (e.id, e.parent, e.kind, orjson.dumps(e.targets).decode(), e.author, e.reason, e.time, e.num_edits)
        self._run("INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?,?,?)", (*row, int(e.same_length), data, e.hash))

    def entry(self, number: int) -> Entry:
        """Entry `number`. Raises NotFound."""
        found = self._entries("WHERE id = ?", (number,))
        if not found:
            raise NotFound(f"there is no entry {number} in {self.path}; see the log")
        return found[0]

    def last(self) -> Entry:
        return self._entries("ORDER BY id DESC LIMIT 1", ())[0]

    def entries(self) -> list[Entry]:
        return self._entries("ORDER BY id", ())

    def _entries(self, where: str, values: tuple[Any, ...]) -> list[Entry]:
        with speaking(self.path):
            rows = self._db.execute(f"SELECT {_ENTRY} FROM entries {where}", values).fetchall()
        return [_entry(*row) for row in rows]

    def groups(self, number: int) -> tuple[Group, ...]:
        """What entry `number` did, in order."""
        return decode(self._data(number))

    def _data(self, number: int) -> bytes:
        with speaking(self.path):
            row = self._db.execute("SELECT edits FROM entries WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise NotFound(f"there is no entry {number} in {self.path}; see the log")
        return bytes(row[0])

    def path_to(self, number: int) -> list[Entry]:
        """The entries from the first after the root to `number`."""
        self.entry(number)
        up = "WITH RECURSIVE up(n) AS (SELECT ? UNION SELECT parent FROM entries JOIN up ON entries.id = up.n)"
        with speaking(self.path):
            sql = f"{up} SELECT {_ENTRY} FROM entries WHERE id IN up AND id != {ROOT} ORDER BY id"
            rows = self._db.execute(sql, (number,)).fetchall()
        return [_entry(*row) for row in rows]

    def check_last(self) -> None:
        """Raises CorruptStore when the last entry is not what was written."""
        last = self._entries("ORDER BY id DESC LIMIT 2", ())
        self._check(last[1] if len(last) > 1 else None, last[0])

    def check_all(self) -> int:
        """Raises CorruptStore for the first entry that is not what was written; how many there are."""
        before = None
        entries = self.entries()
        for entry in entries:
            self._check(before, entry)
            before = entry
        return len(entries) - 1

    def _check(self, before: Entry | None, entry: Entry) -> None:
        e = entry
        if before is None:
            told = hash_of_root(self.fact("set"))
        else:
            fields = (e.id, e.parent, e.kind, list(e.targets), e.author, e.reason, e.time)
            told = _hash(before.hash, self.entry(e.parent).hash, fields, self._data(e.id))
        follows = before is None or before.id + 1 == e.id
        if told != e.hash or not follows:
            raise CorruptStore(
                f"entry {e.id} of {self.path} was changed after it was written, or one before it is gone: its hash is {e.hash},"
                f" its contents give {told}; take a copy of the journal from a backup"
            )

    # Branches.

    def branches(self) -> dict[str, int]:
        with speaking(self.path):
            return dict(self._db.execute("SELECT name, entry FROM branches ORDER BY name").fetchall())

    def set_branch(self, name: str, entry: int) -> None:
        self._run("INSERT OR REPLACE INTO branches VALUES (?, ?)", (name, entry))

    # Moves.

    def begin_move(self, source: int, target: int, groups: Sequence[Group], author: str, time: str) -> int:
        """Writes ahead what is about to be written in place; its number."""
        row = (source, target, author, time, "begun", encode(groups))
        done = self._run("INSERT INTO moves (source, target, author, time, state, edits) VALUES (?,?,?,?,?,?)", row)
        return int(done.lastrowid or 0)

    def end_move(self, number: int, state: str) -> None:
        # What was written ahead is of no use once the move has ended; the entries hold the edits.
        self._run("UPDATE moves SET state = ?, edits = x'' WHERE id = ?", (state, number))

    def begun(self) -> tuple[Move, Group] | None:
        """The move that was begun and has not ended."""
        with speaking(self.path):
            sql = "SELECT id, source, target, author, time, state, edits FROM moves WHERE state = 'begun'"
            row = self._db.execute(sql).fetchone()
        return None if row is None else (Move(*row[:6]), decode(bytes(row[6]))[0])

    def moves(self) -> list[Move]:
        with speaking(self.path):
            rows = self._db.execute("SELECT id, source, target, author, time, state FROM moves ORDER BY id").fetchall()
        return [Move(*row) for row in rows]

    # Transactions.

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, durable when the outermost block ends. Whatever is raised within takes it back."""
        if self._depth:
            yield
            return
        with speaking(self.path):
            self._db.execute("BEGIN IMMEDIATE")
        self._depth = 1
        try:
            yield
            with speaking(self.path):
                self.commit()
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        finally:
            self._depth = 0

    @property
    def in_transaction(self) -> bool:
        return self._depth > 0

    def commit(self) -> None:
        self._db.execute("COMMIT")

    def _run(self, sql: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        with speaking(self.path):
            return self._db.execute(sql, values)

    def close(self) -> None:
        self._db.close()


def create_ledger(path: Path, identity: Mapping[str, Any], author: str, time: str) -> Ledger:
    """A new journal at `path` for the set that `identity` describes, with the branch "main"."""
    with atomic_path(path) as temporary, speaking(path):
        ledger = Ledger(temporary, _connect(temporary, write=True))
        ledger._db.execute("PRAGMA journal_mode = DELETE")  # nothing may be left of the temporary name
        ledger._db.executescript(f"BEGIN IMMEDIATE; {_TABLES}")
        ledger._depth = 1
        for name, value in (("format", FORMAT), ("set", dict(identity)), ("branch", "main"), ("applied", ROOT)):
            ledger.set_fact(name, value)
        root = Entry(ROOT, ROOT, "root", (), author, "the set as it was found", time, 0, True, hash_of_root(identity))
        ledger._insert(root, b"")
        ledger.set_branch("main", ROOT)
        ledger.commit()
        ledger.close()
    return open_ledger(path, write=True)


def _entry(number: int, parent: int, kind: str, targets: str, author: str, reason: str, time: str, *rest: Any) -> Entry:
    num_edits, same_length, digest = rest
    return Entry(number, parent, kind, tuple(orjson.loads(targets)), author, reason, time, num_edits, bool(same_length), digest)


def open_ledger(path: Path, *, write: bool) -> Ledger:
    """The journal at `path`. Raises NotFound, CorruptStore for a broken chain, SchemaMismatch for another format."""
    if not path.is_file():
        raise NotFound(f"there is no journal at {path}: the set has not been edited")
    with speaking(path):
        if not write:
            _roll_back(path)
        ledger = Ledger(path, _connect(path, write=write))
        try:
            found = ledger.fact("format")
            if found != FORMAT:
                raise SchemaMismatch(f"{path} has format {found}, this typecase reads {FORMAT}: upgrade")
            ledger.check_last()
        except BaseException:
            ledger.close()
            raise
    return ledger


def _roll_back(path: Path) -> None:
    """Takes back a transaction that a writer died in, which a connection for reading alone cannot; if it can be."""
    reading = _connect(path, write=False)
    try:
        reading.execute("SELECT count(*) FROM facts")
    except sqlite3.OperationalError as error:
        if "readonly" not in str(error):
            raise
        with contextlib.suppress(sqlite3.OperationalError):
            writing = _connect(path, write=True)
            writing.close()
    finally:
        reading.close()


def num_moves(path: Path) -> int:
    """How often the set of the journal at `path` was edited in place, or began to be."""
    ledger = open_ledger(path, write=False)
    try:
        return len(ledger.moves())
    finally:
        ledger.close()


def hash_of_root(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(dict(identity), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _hash(previous: str, parent: str, fields: tuple[Any, ...], data: bytes) -> str:
    digest = hashlib.sha256(orjson.dumps([previous, parent, *fields]))
    digest.update(data)
    return digest.hexdigest()


def _connect(path: Path, *, write: bool) -> sqlite3.Connection:
    mode = "rwc" if write else "ro"
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=10)
    if write:
        # The rollback file stays and is marked void, so no folder entry need be forced to disk; were it deleted, a power cut
        # might bring it back, and with it take a finished transaction away.
        db.execute("PRAGMA journal_mode = PERSIST")
        db.execute("PRAGMA synchronous = FULL")
    return db


@contextmanager
def speaking(path: Path) -> Iterator[None]:
    """Turns what SQLite raises into errors that say what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            raise TryAgain(f"{path} cannot grow ({text}); nothing was changed: free some space and repeat") from None
        if "readonly" in text or "unable to open" in text:
            raise FixInput(f"{path} cannot be written ({text}): make it writable, or name another folder") from None
        if "locked" in text:
            raise Conflict(f"{path} is in use by another process ({text}); repeat when that ends") from None
        raise CorruptStore(f"{path} is no journal of this typecase ({text}); take a copy from a backup") from None
    except sqlite3.DatabaseError as error:
        raise CorruptStore(f"{path} is damaged ({error}); take a copy from a backup") from None
