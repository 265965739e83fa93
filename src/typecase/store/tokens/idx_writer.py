"""Writing a `.idx`, byte for byte as Megatron-Core and GPT-NeoX write it, without holding it.

    lengths of chunk 1, 2, 3 …   ->  the file itself, from byte 34 on
    documents and modes          ->  two unnamed files beside it
    at the end                   ->  pointers (running sum of lengths x item size), documents, modes, header

Price: the lengths are read once more at the end. Memory is one chunk, for two documents or two billion.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np
import numpy.typing as npt

from typecase.errors import BadQuery
from typecase.store.atomic import atomic_path
from typecase.store.tokens.idx import HEADER_BYTES, code_fits, code_of, format_header

_CHUNK = 1 << 18
MAX_SEQUENCE_TOKENS = (1 << 31) - 1
"""Lengths are i32."""


class IdxWriter:
    """Streams one `.idx` to `path`; a context manager that finishes the file when the block ends well.

    `dtype_code` overrides the code that stands for `dtype`: the two float codes mean different widths to the frameworks.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, *, multimodal: bool = False, dtype_code: int | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.dtype_code = code_of(self.dtype) if dtype_code is None else dtype_code
        if not code_fits(self.dtype_code, self.dtype):
            raise BadQuery(f"dtype code {dtype_code} does not stand for {self.dtype} in any framework")
        self.num_sequences = 0
        self.num_documents = 0
        self._file: IO[bytes] = path.open("w+b")
        self._documents: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
        self._modes: IO[bytes] | None = tempfile.TemporaryFile(dir=path.parent) if multimodal else None  # noqa: SIM115
        self._file.write(bytes(HEADER_BYTES))
        self._documents.write(np.zeros(1, "<i8").tobytes())

    def append(
        self,
        lengths: npt.NDArray[np.integer],
        *,
        per_document: npt.NDArray[np.integer] | None = None,
        modes: npt.NDArray[np.integer] | None = None,
    ) -> None:
        """Adds sequences of `lengths` tokens, grouped into documents of `per_document` sequences each, by default one.

        0 in `per_document` is a document without sequences: its entry repeats the one before. `modes` belong to
        multimodal sets and are 0 (text) by default. Raises BadQuery when the numbers cannot be.
        """
        if lengths.size and (lengths.min() < 0 or lengths.max() > MAX_SEQUENCE_TOKENS):
            raise BadQuery(f"a sequence has 0 to {MAX_SEQUENCE_TOKENS} tokens, got {int(lengths.min())} … {int(lengths.max())}")
        if per_document is None:
            ends = np.arange(1, len(lengths) + 1, dtype=np.int64)
        else:
            ends = np.cumsum(per_document, dtype=np.int64)
            if (per_document.size and int(per_document.min()) < 0) or (int(ends[-1]) if ends.size else 0) != len(lengths):
                raise BadQuery(f"documents of {int(per_document.sum())} sequences cannot hold {len(lengths)} sequences")
        self._append_modes(modes, len(lengths))
        self._documents.write((ends + self.num_sequences).astype("<i8").tobytes())
        self._file.write(lengths.astype("<i4").tobytes())
        self.num_sequences += len(lengths)
        self.num_documents += len(ends)

    def _append_modes(self, modes: npt.NDArray[np.integer] | None, num_sequences: int) -> None:
        if self._modes is None:
            if modes is not None:
                raise BadQuery("modes were given for a set that was not opened as multimodal")
            return
        modes = np.zeros(num_sequences, np.int8) if modes is None else modes
        if len(modes) != num_sequences or (modes.size and (modes.min() < -128 or modes.max() > 127)):
            raise BadQuery(f"{num_sequences} sequences need as many modes within int8, got {len(modes)}")
        self._modes.write(modes.astype(np.int8).tobytes())

    def finish(self) -> None:
        """Writes what follows the lengths, then the header."""
        begin = 0
        for start in range(0, self.num_sequences, _CHUNK):
            self._file.seek(HEADER_BYTES + 4 * start)
            lengths = np.frombuffer(self._file.read(4 * min(_CHUNK, self.num_sequences - start)), "<i4")
            ends = begin + np.cumsum(lengths.astype(np.int64) * self.dtype.itemsize)
            pointers = np.concatenate(([begin], ends[:-1])).astype("<i8")
            self._file.seek(HEADER_BYTES + 4 * self.num_sequences + 8 * start)
            self._file.write(pointers.tobytes())
            begin = int(ends[-1])
        self._file.seek(HEADER_BYTES + 12 * self.num_sequences)
        for spool in (self._documents, self._modes):
            if spool is not None:
                spool.seek(0)
                shutil.copyfileobj(spool, self._file, 1 << 20)
        self._file.seek(0)
        self._file.write(format_header(self.dtype_code, self.num_sequences, self.num_documents + 1))

    def close(self) -> None:
        for file in (self._file, self._documents, self._modes):
            if file is not None:
                file.close()

    def __enter__(self) -> IdxWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()


def write_idx(
    path: Path,
    dtype: npt.DTypeLike,
    lengths: Iterable[npt.NDArray[np.integer]],
    *,
    per_document: Iterable[npt.NDArray[np.integer]] | None = None,
) -> int:
    """Writes the `.idx` of a contiguous `.bin` from chunks of sequence lengths, all or nothing; returns their number.

    `per_document` comes in as many chunks as `lengths` and groups each into documents; see `IdxWriter.append`.
    """
    with atomic_path(path) as temporary, IdxWriter(temporary, dtype) as writer:
        if per_document is None:
            for chunk in lengths:
                writer.append(chunk)
        else:
            for chunk, documents in zip(lengths, per_document, strict=True):
                writer.append(chunk, per_document=documents)
        return writer.num_sequences
