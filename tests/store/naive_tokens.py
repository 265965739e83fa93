"""Token sets written the slow, obvious way: the yardstick for everything that reads or writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}


def idx_bytes(
    code: int, lengths: Sequence[int], pointers: Sequence[int], index: Sequence[int], modes: Sequence[int] | None = None
) -> bytes:
    """An MMIDIDX file, field by field."""
    out = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(index))
    out += b"".join(struct.pack("<i", n) for n in lengths)
    out += b"".join(struct.pack("<q", p) for p in pointers)
    out += b"".join(struct.pack("<q", d) for d in index)
    return out + b"".join(struct.pack("<b", m) for m in modes or ())


def legacy_bytes(code: int, item_bytes: int, lengths: Sequence[int], index: Sequence[int]) -> bytes:
    """A TNTIDX file of one-dimensional items."""
    n = len(lengths)
    begins = np.cumsum([0, *lengths]).tolist()
    numbers = [1, code, item_bytes, n, n, len(index), *range(n + 1), *begins, *lengths, *index]
    return b"TNTIDX\0\0" + b"".join(struct.pack("<q", x) for x in numbers)


def write_set(
    prefix: Path,
    documents: Sequence[Sequence[Sequence[int]]],
    dtype: str = "uint16",
    *,
    index: Sequence[int] | None = None,
    modes: Sequence[int] | None = None,
) -> Path:
    """Writes documents (lists of sequences of ids) contiguously; `index` replaces the document index."""
    sequences = [np.array(s, dtype) for document in documents for s in document]
    lengths = [len(s) for s in sequences]
    pointers = np.cumsum([0, *(s.nbytes for s in sequences)])[:-1].tolist()
    counted = np.cumsum([0, *(len(document) for document in documents)]).tolist()
    prefix.parent.mkdir(parents=True, exist_ok=True)
    bin_of(prefix).write_bytes(b"".join(s.tobytes() for s in sequences))
    idx_of(prefix).write_bytes(idx_bytes(CODES[dtype], lengths, pointers, counted if index is None else index, modes))
    return prefix


def bin_of(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".bin")


def idx_of(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".idx")
