"""Merging token sets into one, sequence by sequence where it must be.

    a.bin  [a0][a1][a2]                    out.bin  [a0][a1][a2][b0][b1]
    b.bin  [b1]....[b0]   (relocated)      out.idx  pointers anew, documents of b after those of a

A whole `.bin` is copied as it is only when its sequences are proven to fill it without a gap; the frameworks' own scripts
copy always, and corrupt what has gaps. The order is the one given. A source without document index (a GPT-NeoX merge)
counts one document a sequence, and the summary says so.

Price: one read and one write of the tokens; memory is a few megabytes for any number of sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from typecase.errors import AlreadyExists, BadQuery, CorruptStore
from typecase.store import provenance, shards
from typecase.store.tokens.pair import SET_NAME, TokenPair, find_pair
from typecase.store.tokens.store import TokenStore, open_tokens
from typecase.store.tokens.writer import TokenSetWriter, cast_ids

_COPY_BYTES = 1 << 23
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class MergeSummary:
    """What a merge made. `promoted` and `without_documents` name sources that were widened, or had no document index."""

    prefix: Path
    dtype: str
    num_sources: int
    num_documents: int
    num_sequences: int
    num_tokens: int
    size_bytes: int
    multimodal: bool
    promoted: tuple[Path, ...]
    without_documents: tuple[Path, ...]
    not_contiguous: tuple[Path, ...]
    provenance: Path | None
    without_provenance: tuple[Path, ...]


def merge_tokens(sources: Sequence[Path | str], out: Path | str, *, promote: bool = False) -> MergeSummary:
    """Merges `sources`, in the given order, into the new folder `out` (`text_document.bin`, `.idx`, `provenance.parquet`).

    With `promote`, sources of different dtypes are widened to the widest. Provenance is carried when every source has it.
    Raises AlreadyExists when `out` holds anything, BadQuery for mixed dtypes and for an output among the inputs,
    CorruptStore for a damaged source. The result is complete or absent.
    """
    out = Path(out)
    pairs = [find_pair(source) for source in sources]
    if not pairs:
        raise BadQuery("there is nothing to merge; give at least one token set")
    target = TokenPair.at(out / SET_NAME)
    if any(pair.same_files(target) or pair.idx.resolve().parent == out.resolve() for pair in pairs):
        raise BadQuery(f"{out} is also an input of the merge; give a new folder")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AlreadyExists(f"{out} exists and is not empty; give a new folder")
    with ExitStack() as stack:
        stores = [stack.enter_context(open_tokens(pair.idx)) for pair in pairs]
        dtype, code = _common_dtype(stores, promote)
        multimodal = any(store.modes is not None for store in stores)
        tables = [table for store in stores if (table := provenance.open_provenance(store.pair.idx.parent)) is not None]
        with TokenSetWriter(target.prefix, dtype, multimodal=multimodal, dtype_code=code) as writer:
            for store in stores:
                _copy_tokens(store, writer)
                _copy_index(store, writer, multimodal)
            if len(tables) == len(stores):
                shards.write_shard(out / provenance.NAME, _provenance_rows(stores, tables), provenance.PROVENANCE_SCHEMA)
        return _summary(stores, writer, target, complete=len(tables) == len(stores))


def common_dtype(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """The narrowest dtype of token files that holds every value of `dtypes`. Raises BadQuery for integers beside floats."""
    if len({dtype.kind == "f" for dtype in dtypes}) > 1:
        raise BadQuery("token ids and floats cannot be merged into one set; merge them apart")
    return np.dtype(np.result_type(*dtypes))


def _common_dtype(stores: Sequence[TokenStore], promote: bool) -> tuple[np.dtype[Any], int | None]:
    """The dtype of the output and its code, which is the sources' own where they agree (float codes mean two things)."""
    dtypes = [store.dtype for store in stores]
    if len(set(dtypes)) == 1:
        codes = {store.layout.header.dtype_code for store in stores}
        return dtypes[0], codes.pop() if len(codes) == 1 else None
    widest = common_dtype(dtypes)
    if not promote:
        other = next(store for store in stores if store.dtype != dtypes[0])
        raise BadQuery(
            f"{stores[0].pair.prefix} has {dtypes[0]}, {other.pair.prefix} has {other.dtype}; merge with promote=True"
            f" (--promote) to store all of them as {widest}"
        )
    return widest, None


def _copy_tokens(store: TokenStore, writer: TokenSetWriter) -> None:
    if store.facts.contiguous and store.dtype == writer.dtype:
        buffer = np.empty(_COPY_BYTES, np.uint8)
        with store.pair.bin.open("rb", buffering=0) as file:
            while num_bytes := file.readinto(buffer.data):
                writer.append_bytes(buffer[:num_bytes])
        return
    for block in store.blocks(_COPY_BYTES // writer.dtype.itemsize):
        writer.append_bytes(cast_ids(block.tokens, writer.dtype).view(np.uint8))


def _copy_index(store: TokenStore, writer: TokenSetWriter, multimodal: bool) -> None:
    """Lengths, modes (0, text, where a source has none) and the grouping into documents, some documents at a time."""
    first = 0
    for start in range(0, store.num_documents, _CHUNK):
        stop = min(start + _CHUNK, store.num_documents)
        one_to_one = store.facts.one_to_one
        bounds = np.arange(start, stop + 1) if one_to_one else store.document_index[start : stop + 1].astype(np.int64)
        last = int(bounds[-1])
        modes = store.modes[first:last] if multimodal and store.modes is not None else None
        writer.append_lengths(store.lengths[first:last], per_document=np.diff(bounds), modes=modes)
        first = last


def _provenance_rows(stores: Sequence[TokenStore], tables: Sequence[provenance.Provenance]) -> Iterator[pa.Table]:
    """The rows of all sources with `doc` numbered through. Raises CorruptStore when a table is not of its set."""
    before = 0
    for store, table in zip(stores, tables, strict=True):
        rows = 0
        for group in shards.read_groups(table.path):
            docs = group.column("doc").to_numpy()
            if not np.array_equal(docs, np.arange(rows, rows + group.num_rows)):
                raise CorruptStore(f"{table.path} does not number its documents 0, 1, 2 …; build {store.pair.prefix} again")
            rows += group.num_rows
            position = group.schema.get_field_index("doc")
            yield group.set_column(position, "doc", pa.array(docs + before)).select(provenance.PROVENANCE_SCHEMA.names)
        if rows != store.num_documents:
            raise CorruptStore(
                f"{table.path} has {rows} documents, {store.pair.prefix} has {store.num_documents}: it belongs to another set"
            )
        before += rows


def _summary(stores: Sequence[TokenStore], writer: TokenSetWriter, target: TokenPair, *, complete: bool) -> MergeSummary:
    def named(test: Callable[[TokenStore], bool]) -> tuple[Path, ...]:
        return tuple(store.pair.prefix for store in stores if test(store))

    return MergeSummary(
        prefix=target.prefix,
        dtype=writer.dtype.name,
        num_sources=len(stores),
        num_documents=writer.num_documents,
        num_sequences=writer.num_sequences,
        num_tokens=writer.num_tokens,
        size_bytes=writer.num_tokens * writer.dtype.itemsize,
        multimodal=any(store.modes is not None for store in stores),
        promoted=named(lambda store: store.dtype != writer.dtype),
        without_documents=named(lambda store: store.layout.lacks_documents),
        not_contiguous=named(lambda store: not store.facts.contiguous),
        provenance=target.idx.parent / provenance.NAME if complete else None,
        without_provenance=named(lambda store: provenance.open_provenance(store.pair.idx.parent) is None),
    )
