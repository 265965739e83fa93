"""Materialise: the view of a journal written as a token set of its own; the source stays as it is.

    same length     the files cloned (a reflink, where the file system has them) or copied, then the edited tokens written
    otherwise       sequences streamed in the order of the view into a new .bin, .idx and document index

The new set is complete or absent: it grows in a hidden folder beside its place and takes its name last. Provenance is carried
row by row; a document that an edit brought says so, one that an edit changed keeps where it came from. A set whose source has a
manifest gets one, with the source as its parent.

Price: same length, what the file system takes to clone or copy, and one read for a manifest; otherwise a read and a write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from typecase.core.document import id_from_key
from typecase.errors import AlreadyExists, BadQuery, NotFound, TryAgain
from typecase.store import atomic, provenance, shards
from typecase.store.journal.inplace import Runs, write_runs
from typecase.store.journal.journal import Journal
from typecase.store.journal.ledger import ROOT
from typecase.store.journal.view import EditedTokens
from typecase.store.manifest import FileEntry, Manifest, Parent, library_versions, read_manifest, relative, write_manifest
from typecase.store.tokens.pair import SET_NAME, TokenPair
from typecase.store.tokens.writer import TokenSetWriter

_FICLONE = 0x40049409
_BLOCK_TOKENS = 1 << 21
_CHUNK = 1 << 16
_TOKENIZER = "tokenizer"


@dataclass(frozen=True, slots=True)
class MaterialiseSummary:
    """What was written. `how` is clone, copy or stream; `provenance` is None where the source has none."""

    source: Path
    prefix: Path
    entry: int
    how: str
    num_documents: int
    num_sequences: int
    num_tokens: int
    provenance: Path | None
    manifest: Path | None


def materialise(journal: Journal, out: Path | str, at: int | str | None = None) -> MaterialiseSummary:
    """Writes the set at the current branch, or at branch or entry `at`, to the new folder `out`.

    Raises AlreadyExists when `out` holds anything, TryAgain when the disk is full.
    """
    out = Path(out)
    source = journal.store.pair
    if out.resolve() == source.idx.resolve().parent:
        raise BadQuery(f"{out} is the folder of the set itself; give a new one")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AlreadyExists(f"{out} exists and is not empty; give a new folder")
    view = journal.view(at)
    with _partial(out) as folder:
        how = _write_tokens(journal, view, TokenPair.at(folder / SET_NAME))
        carried = _write_provenance(journal, view, folder)
        told = _write_manifest(journal, view, folder, out, how)
    return MaterialiseSummary(
        source=source.prefix,
        prefix=out / SET_NAME,
        entry=view.entry,
        how=how,
        num_documents=view.num_documents,
        num_sequences=view.num_sequences,
        num_tokens=view.num_tokens,
        provenance=out / provenance.NAME if carried else None,
        manifest=out / "manifest.json" if told else None,
    )


@contextmanager
def _partial(out: Path) -> Iterator[Path]:
    """A hidden folder that becomes `out` when the block ends well, else is removed."""
    folder = out.with_name(f".{out.name}.{os.getpid()}.partial")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        yield folder
        atomic.sync_folder(folder)
        folder.rename(out)  # over an empty folder, too
        atomic.sync_folder(out.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TryAgain(
                f"{out} does not fit the disk ({error.strerror}); nothing was left: free some space and repeat"
            ) from None
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_tokens(journal: Journal, view: EditedTokens, pair: TokenPair) -> str:
    plain = view.facts.contiguous and view.layout.header.format == "MMIDIDX"
    if view.moved or not plain:
        _stream(view, pair)
        return "stream"
    source = journal.store.pair
    shutil.copyfile(source.idx, pair.idx)
    how = "clone" if _cloned(source.bin, pair.bin) else "copy"
    if how == "copy":
        shutil.copyfile(source.bin, pair.bin)
    fd = os.open(pair.bin, os.O_RDWR)
    try:
        runs = Runs.of(journal.store, view.overlay())
        write_runs(fd, runs, runs.new)
    finally:
        os.close(fd)
    atomic.sync_file(pair.idx)
    return how


def _cloned(source: Path, target: Path) -> bool:
    """Shares the blocks of `source` with a new file `target`, where the file system can."""
    with source.open("rb") as file, target.open("wb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, file.fileno())
        except OSError:
            return False
    return True


def _stream(view: EditedTokens, pair: TokenPair) -> None:
    code, multimodal = view.layout.header.dtype_code, view.modes is not None
    with TokenSetWriter(pair.prefix, view.dtype, multimodal=multimodal, dtype_code=code) as writer:
        for block in view.blocks(_BLOCK_TOKENS):
            writer.append_bytes(block.tokens.view(np.uint8))
        bounds = view.document_index
        for start in range(0, view.num_documents, _CHUNK):
            index = np.asarray(bounds[start : start + _CHUNK + 1], np.int64)
            own = slice(int(index[0]), int(index[-1]))
            modes = None if view.modes is None else view.modes[own]
            writer.append_lengths(view.lengths[own], per_document=np.diff(index), modes=modes)


def _write_provenance(journal: Journal, view: EditedTokens, folder: Path) -> bool:
    table = provenance.open_provenance(journal.store.pair.idx.parent)
    if table is None:
        return False
    keys, lengths = view.document_keys(), view.document_lengths()
    if _num_rows(table) != journal.store.num_documents:
        return False
    rows = _rows(table, keys, lengths, journal.store.num_documents, journal.ledger.entry(ROOT).hash)
    shards.write_shard(folder / provenance.NAME, rows, provenance.PROVENANCE_SCHEMA)
    return True


def _num_rows(table: provenance.Provenance) -> int:
    return sum(group.num_rows for group in shards.read_groups(table.path, ["doc"]))


def _rows(
    table: provenance.Provenance, keys: np.ndarray, lengths: np.ndarray, num_documents: int, root: str
) -> Iterator[pa.Table]:
    """The rows of documents `keys`, in order and numbered anew; documents beyond the set's own are of the journal."""
    for start in range(0, len(keys), _CHUNK):
        own, tokens = keys[start : start + _CHUNK], lengths[start : start + _CHUNK]
        old = own < num_documents
        rows = table.rows(own[old]).to_pylist()
        found = iter(rows)
        out = []
        for k, key in enumerate(own.tolist()):
            row = next(found) if key < num_documents else _new_row(key, root)
            out.append(row | {"doc": start + k, "tokens": int(tokens[k])})
        yield pa.Table.from_pylist(out, provenance.PROVENANCE_SCHEMA)


def _new_row(key: int, root: str) -> dict[str, object]:
    name = f"edit/{root[:16]}/{key}"
    return {"doc_id": id_from_key(name), "source": "edit", "file": "journal", "row": key, "offset": -1, "start": 0, "stop": 0}


def _write_manifest(journal: Journal, view: EditedTokens, folder: Path, out: Path, how: str) -> bool:
    home = journal.store.pair.idx.parent
    try:
        parent = read_manifest(home)
    except NotFound:
        return False
    files = [FileEntry.of(folder, f"{SET_NAME}{suffix}") for suffix in (".bin", ".idx")]
    tokenizer = {"tokenizer": parent.params["tokenizer"]} if "tokenizer" in parent.params else {}
    for file in sorted((home / _TOKENIZER).iterdir()) if tokenizer and (home / _TOKENIZER).is_dir() else ():
        (folder / _TOKENIZER).mkdir(exist_ok=True)
        shutil.copyfile(file, folder / _TOKENIZER / file.name)
        files.append(FileEntry.of(folder, f"{_TOKENIZER}/{file.name}"))
    if (folder / provenance.NAME).is_file():
        files.append(FileEntry.of(folder, provenance.NAME, rows=view.num_documents))
    entry = journal.ledger.entry(view.entry)
    params = {"entry": entry.id, "entry_hash": entry.hash} | tokenizer
    counts = {"documents": view.num_documents, "sequences": view.num_sequences, "tokens": view.num_tokens}
    manifest = Manifest(
        kind="tokens",
        stage="edit",
        version=1,
        params=params,
        parents=(Parent("source", parent.kind, relative(home, out), parent.content),),
        files=tuple(files),
        decision=parent.decision,
        counts=counts,
        libraries=library_versions(),
    )
    write_manifest(folder, manifest)
    return True
