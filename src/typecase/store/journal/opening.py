"""Opening a journal: is it of this set, is anyone else at it, and was something broken off.

    set + journal/<name>.sqlite   ->  the same .idx, a .bin of the same size       else FingerprintMismatch
    journal/<name>.lock           ->  one writer; the second is told who            else Conflict
    a move begun and not ended    ->  ended first, wherever the files can be written

Price: one hash of the `.idx`, which is less than opening the set takes.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from typecase.errors import BadQuery, Conflict, FingerprintMismatch, FixInput, TypecaseError
from typecase.store.atomic import content_hash
from typecase.store.journal.inplace import recover
from typecase.store.journal.journal import Journal
from typecase.store.journal.ledger import Ledger, create_ledger, open_ledger
from typecase.store.journal.lock import Lock
from typecase.store.journal.view import EditedTokens
from typecase.store.manifest import digest, read_manifest
from typecase.store.tokens.fingerprint import promised_fingerprint
from typecase.store.tokens.pair import TokenPair, find_pair
from typecase.store.tokens.store import TokenStore, open_tokens

FOLDER = "journal"


def journal_path(pair: TokenPair, folder: Path | str | None = None) -> Path:
    """Where the journal of `pair` lies: in `journal/` beside it, or in `folder`."""
    home = pair.idx.parent / FOLDER if folder is None else Path(folder)
    return home / f"{pair.prefix.name}.sqlite"


def open_journal(
    path: Path | str,
    *,
    folder: Path | str | None = None,
    write: bool = False,
    author: str | None = None,
    clock: Callable[[], str] | None = None,
) -> Journal:
    """The journal of the token set at `path`; with `write` it is made where there is none, and nobody else may write.

    An application in place that was broken off is ended first, where the files can be written and no one else is at it.
    Raises NotFound, Conflict (naming who holds the lock), FingerprintMismatch for the journal of another set, FixInput for a
    read-only folder, CorruptStore for a broken chain, StaleEdit when the set was changed by something else meanwhile.
    """
    pair = find_pair(path)
    file = journal_path(pair, folder)
    clock, author = clock or _now, author or _user()
    store = open_tokens(pair.idx)
    lock: Lock | None = None
    ledger: Ledger | None = None
    try:
        if write:
            if store.dtype.kind not in "iu":
                raise BadQuery(f"{pair.prefix} holds {store.dtype}, no token ids; there is nothing to edit")
            _make_folder(file.parent)
            lock = Lock(file.with_suffix(".lock"), author, clock())
            if not file.exists():
                create_ledger(file, identity_of(store), author, clock()).close()
        ledger = open_ledger(file, write=write)
        _check_same_set(store, ledger)
        if write:
            recover(store, ledger)
        elif ledger.begun() is not None:
            ledger = _recovered(store, ledger, file, author, clock)
        return Journal(store, ledger, lock, author, clock)
    except BaseException:
        for thing in (ledger, store):
            if thing is not None:
                thing.close()
        if lock is not None:
            lock.release()
        raise


def open_edited(path: Path | str, at: int | str | None = None, *, folder: Path | str | None = None) -> EditedTokens:
    """The token set at `path` as its journal says: at the current branch, or at branch or entry `at`."""
    with open_journal(path, folder=folder) as journal:
        return journal.view(at, keep=True)


def open_set(path: Path | str) -> TokenStore:
    """The token set that `path` names, as it lies; with `@` behind it, as its journal says: `web@`, `web@what-if`, `web@17`.

    A folder or file whose own name holds an `@` is taken for itself. Raises as `open_tokens` and `open_edited`.
    """
    plain, at = split_edited(path)
    return open_tokens(plain) if at is None else open_edited(plain, at or None)


def open_as_edited(path: Path | str) -> TokenStore:
    """As `open_set`, and where `path` says nothing of a journal, at the current branch of the one it has, if it has one."""
    if split_edited(path)[1] is not None or not journal_path(find_pair(path)).is_file():
        return open_set(path)
    return open_edited(path)


def split_edited(path: Path | str) -> tuple[Path, str | None]:
    """The path of a set without what stands behind its `@`, and that: None where there is none, "" for the current branch."""
    text = str(path)
    if "@" not in Path(text).name or Path(text).exists():
        return Path(text), None
    plain, _, at = text.rpartition("@")
    return Path(plain), at


def identity_of(store: TokenStore) -> dict[str, Any]:
    """What a journal knows its set by: the `.idx` by hash, the `.bin` by size, both by what a manifest promises."""
    pair = store.pair
    idx_hash, bin_bytes = content_hash(pair.idx), pair.bin.stat().st_size
    try:
        parent = promised_fingerprint(pair, read_manifest(pair.idx.parent))
    except TypecaseError:
        parent = digest([idx_hash, bin_bytes])
    return {"idx": idx_hash, "bin_bytes": bin_bytes, "dtype": store.dtype.name, "parent": parent}


def _check_same_set(store: TokenStore, ledger: Ledger) -> None:
    told, found = ledger.fact("set"), identity_of(store)
    for name, what in (("idx", "another .idx"), ("bin_bytes", "a .bin of another size"), ("dtype", "another dtype")):
        if told[name] != found[name]:
            raise FingerprintMismatch(
                f"{ledger.path} belongs to another set: {store.pair.prefix} has {what} ({found[name]}, the journal says"
                f" {told[name]}); take the journal of this set, or begin a new one in another folder"
            )


def _recovered(store: TokenStore, ledger: Ledger, file: Path, author: str, clock: Callable[[], str]) -> Ledger:
    """Ends a broken-off application if nobody else is at it and the files can be written; else leaves it to the view."""
    try:
        lock = Lock(file.with_suffix(".lock"), author, clock())
    except (Conflict, FixInput):
        return ledger
    try:
        writing = open_ledger(file, write=True)
        try:
            recover(store, writing)
        except FixInput:
            return ledger
        finally:
            writing.close()
    except FixInput:
        return ledger
    finally:
        lock.release()
    return ledger


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FixInput(f"{folder} cannot be made ({error.strerror}): name another folder for the journal") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
