"""Writing a token set: in one stream, or in slices by many workers at once.

    stream   TokenSetWriter(prefix, dtype).append(tokens, lengths) …       one process, order of the calls

    slices   plan_layout([30, 12, 51], dtype)  ->  0, 60, 84, 186          where each slice begins, in bytes
             preallocate(bin, 186)
             write_slice(bin, 60, tokens of slice 1)                       any worker, any time, any order
             write_idx(idx, dtype, lengths of every slice in order)

Both give the same bytes, and the bytes that the frameworks' own builders give for the same sequences. An id that does not
fit the dtype is an error that names the document; it never wraps. Price: one look at the largest and smallest id of a call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.errors import BadQuery
from typecase.store.tokens.idx_writer import IdxWriter, write_idx
from typecase.store.tokens.pair import TokenPair, atomic_pair

__all__ = ["TokenSetWriter", "cast_ids", "dtype_for", "plan_layout", "preallocate", "write_idx", "write_slice"]

_MAX_UINT16 = 65_535
_MAX_INT32 = (1 << 31) - 1


def dtype_for(max_id: int) -> np.dtype[Any]:
    """The dtype for ids up to and including `max_id`: uint16 up to 65,535, else int32.

    Unlike the frameworks, which turn to int32 at 65,500 ids: their readers take the dtype from the header, and the one that
    does not (Megatron-Core with per-dataset sequence counts) assumes uint16 up to 65,536 ids.
    """
    if not 0 <= max_id <= _MAX_INT32:
        raise BadQuery(f"the largest token id is {max_id}; token files hold ids from 0 to {_MAX_INT32}")
    return np.dtype("<u2") if max_id <= _MAX_UINT16 else np.dtype("<i4")


def cast_ids(
    tokens: npt.NDArray[Any],
    dtype: npt.DTypeLike,
    *,
    lengths: npt.NDArray[np.integer] | None = None,
    names: Sequence[str] | None = None,
) -> npt.NDArray[Any]:
    """`tokens` as `dtype`, a copy only where needed.

    Raises BadQuery for the first id that does not fit, naming its document by `names`, or by its number, when the
    `lengths` of the documents are given.
    """
    dtype = np.dtype(dtype)
    if np.can_cast(tokens.dtype, dtype, "safe"):
        return tokens.astype(dtype, copy=False)
    if dtype.kind not in "iu" or tokens.dtype.kind not in "iu":
        raise BadQuery(f"{tokens.dtype} tokens cannot be stored as {dtype} without loss")
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if tokens.size and not (low <= int(tokens.min()) and int(tokens.max()) <= high):
        pos = int(np.argmax((tokens < low) | (tokens > high)))
        place = f"position {pos}"
        if lengths is not None:
            doc = int(np.searchsorted(np.cumsum(lengths), pos, side="right"))
            place = f"document {names[doc] if names is not None else doc}, token {pos - int(lengths[:doc].sum())}"
        raise BadQuery(
            f"token id {tokens[pos]} ({place}) does not fit {dtype} ({low} … {high}); choose the dtype with dtype_for"
        )
    return tokens.astype(dtype)


class TokenSetWriter:
    """Streams a new token set to `prefix.bin` and `prefix.idx`; both appear when the `with` block ends well.

        with TokenSetWriter(folder / "text_document", dtype_for(50_276)) as writer:
            writer.append(np.array([5, 6, 7, 0, 9, 0]), np.array([4, 2]))

    Raises AlreadyExists when the set is there. Memory is one call of `append`, for any number of documents.
    """

    def __init__(
        self, prefix: Path | str, dtype: npt.DTypeLike, *, multimodal: bool = False, dtype_code: int | None = None
    ) -> None:
        self.pair = TokenPair.at(prefix)
        self.dtype = np.dtype(dtype)
        self.num_tokens = 0
        self._stack = ExitStack()
        with self._stack:
            temporary = self._stack.enter_context(atomic_pair(prefix))
            self._bin = self._stack.enter_context(temporary.bin.open("wb", buffering=0))
            self._idx = self._stack.enter_context(IdxWriter(temporary.idx, dtype, multimodal=multimodal, dtype_code=dtype_code))
            self._stack = self._stack.pop_all()

    @property
    def num_sequences(self) -> int:
        return self._idx.num_sequences

    @property
    def num_documents(self) -> int:
        return self._idx.num_documents

    def append(
        self,
        tokens: npt.NDArray[Any],
        lengths: npt.NDArray[np.integer],
        *,
        per_document: npt.NDArray[np.integer] | None = None,
        modes: npt.NDArray[np.integer] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Adds sequences: `tokens` (tokens,) end to end, `lengths` (sequences,), `per_document` (documents,) sequences each.

        `names` are the ids of the documents, for errors alone. Raises BadQuery, before a byte is written, for an id that
        does not fit the dtype and for lengths that do not add up.
        """
        if int(lengths.sum(dtype=np.int64)) != tokens.size:
            raise BadQuery(f"lengths add up to {int(lengths.sum(dtype=np.int64))}, but {tokens.size} tokens were given")
        sizes = lengths if per_document is None else _document_tokens(lengths, per_document)
        if names is None:
            names = _Numbers(self.num_documents)
        data = np.ascontiguousarray(cast_ids(tokens, self.dtype, lengths=sizes, names=names))
        self._idx.append(lengths, per_document=per_document, modes=modes)
        _write_all(self._bin.fileno(), data)
        self.num_tokens += tokens.size

    def append_bytes(self, data: npt.NDArray[np.uint8]) -> None:
        """Adds raw token bytes that `append_lengths` accounts for; the caller vouches that they are of this dtype."""
        _write_all(self._bin.fileno(), data)

    def append_lengths(
        self,
        lengths: npt.NDArray[np.integer],
        *,
        per_document: npt.NDArray[np.integer] | None = None,
        modes: npt.NDArray[np.integer] | None = None,
    ) -> None:
        """Adds sequences whose tokens go through `append_bytes`."""
        self._idx.append(lengths, per_document=per_document, modes=modes)
        self.num_tokens += int(lengths.sum(dtype=np.int64))

    def __enter__(self) -> TokenSetWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, value, trace)


class _Numbers(Sequence[str]):
    """Documents named by their number in the set."""

    def __init__(self, first: int) -> None:
        self.first = first

    def __len__(self) -> int:
        return 1 << 62

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(self.first + index)


def _document_tokens(lengths: npt.NDArray[np.integer], per_document: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    bounds = np.minimum(np.concatenate(([0], np.cumsum(per_document, dtype=np.int64))), len(lengths))
    return np.diff(ends[bounds])


def plan_layout(slice_tokens: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[np.int64]:
    """Byte offsets (slices + 1,) of slices of `slice_tokens` tokens each; the last is the size of the `.bin`."""
    sizes = np.asarray(slice_tokens, np.int64)
    if sizes.size and int(sizes.min()) < 0:
        raise BadQuery(f"slice {int(np.argmin(sizes))} has {int(sizes.min())} tokens")
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes * np.dtype(dtype).itemsize)))


def preallocate(path: Path, size_bytes: int) -> None:
    """Makes the new file `path` of `size_bytes`, with the space reserved. Raises OSError now rather than in a worker."""
    with path.open("xb") as file:
        if size_bytes:
            os.posix_fallocate(file.fileno(), 0, size_bytes)


def write_slice(path: Path, byte_offset: int, tokens: npt.NDArray[Any]) -> None:
    """Writes `tokens`, already of the dtype of the set, at `byte_offset` of the preallocated file `path`.

    Any number of processes may write slices of one file; the slices must not overlap. Raises BadQuery when the slice
    would grow the file.
    """
    data = np.ascontiguousarray(tokens)
    fd = os.open(path, os.O_WRONLY)
    try:
        size_bytes = os.fstat(fd).st_size
        if not 0 <= byte_offset <= size_bytes - data.nbytes:
            raise BadQuery(f"a slice of {data.nbytes} bytes at byte {byte_offset} leaves {path}, which has {size_bytes} bytes")
        _write_all(fd, data, byte_offset)
    finally:
        os.close(fd)


def _write_all(fd: int, data: npt.NDArray[Any], byte_offset: int | None = None) -> None:
    """Writes every byte of `data`; one call of the system writes at most 2 GiB."""
    view = data.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        rest = view[done:]
        done += os.write(fd, rest) if byte_offset is None else os.pwrite(fd, rest, byte_offset + done)
