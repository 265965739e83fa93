"""Codec: the groups of an entry as bytes, the same bytes for the same groups.

u32 size   JSON head: dtype, counts, documents      i64 columns: sequences, starts, counts      tokens: old, new, documents
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from typecase.core.edit.edit import Tokens
from typecase.core.edit.group import DocumentChange, Group, Insert, Remove, Restore
from typecase.core.edit.spans import Spans
from typecase.errors import CorruptStore

_SIZE = struct.Struct("<I")
_KINDS: dict[str, Any] = {"remove": Remove, "restore": Restore}


def encode(groups: Sequence[Group]) -> bytes:
    """All of `groups`, in order."""
    return b"".join(part for group in groups for part in _parts(group))


def _parts(group: Group) -> list[bytes]:
    spans = group.spans
    dtype = spans.new.dtype
    head = {
        "dtype": dtype.str,
        "spans": len(spans),
        "old": len(spans.old),
        "new": len(spans.new),
        "documents": [_described(change) for change in group.documents],
    }
    columns = np.concatenate((spans.sequences, spans.starts, spans.old_counts, spans.new_counts)).astype("<i8")
    tokens = [spans.old.astype(dtype), spans.new]
    tokens += [s.astype(dtype) for c in group.documents if isinstance(c, Insert) for s in c.sequences]
    text = orjson.dumps(head, option=orjson.OPT_SORT_KEYS)
    return [_SIZE.pack(len(text)), text, columns.tobytes(), *(t.tobytes() for t in tokens)]


def _described(change: DocumentChange) -> dict[str, Any]:
    row: dict[str, Any] = {"key": change.key, "first_sequence": change.first_sequence}
    if isinstance(change, Insert):
        return row | {"kind": "insert", "before": change.before, "lengths": [len(s) for s in change.sequences]}
    return row | {"kind": "remove" if isinstance(change, Remove) else "restore", "num_sequences": change.num_sequences}


def decode(data: bytes) -> tuple[Group, ...]:
    """The groups that `encode` made `data` of. Raises CorruptStore for other bytes."""
    reader, groups = _Reader(data), []
    try:
        while reader.done < len(data):
            groups.append(_group(reader))
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise CorruptStore(f"an entry of the journal cannot be read ({error}); take a copy from a backup") from None
    return tuple(groups)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.done = data, 0

    def take(self, num_bytes: int) -> bytes:
        part = self.data[self.done : self.done + num_bytes]
        if len(part) != num_bytes:
            raise ValueError(f"{num_bytes} bytes wanted at byte {self.done}, {len(part)} are there")
        self.done += num_bytes
        return part

    def array(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(self.take(np.dtype(dtype).itemsize * count), dtype)


def _group(reader: _Reader) -> Group:
    head = orjson.loads(reader.take(_SIZE.unpack(reader.take(4))[0]))
    dtype, n = np.dtype(head["dtype"]), head["spans"]
    sequences, starts, old_counts, new_counts = (reader.array("<i8", n) for _ in range(4))
    old, new = reader.array(dtype, head["old"]), reader.array(dtype, head["new"])
    spans = Spans(sequences, starts, old, _ends(old_counts), new, _ends(new_counts))
    return Group(spans, tuple(_change(reader, dtype, row) for row in head["documents"]))


def _change(reader: _Reader, dtype: np.dtype[Any], row: dict[str, Any]) -> DocumentChange:
    if row["kind"] == "insert":
        sequences: tuple[Tokens, ...] = tuple(reader.array(dtype, n) for n in row["lengths"])
        return Insert(row["key"], row["first_sequence"], row["before"], sequences)
    change: DocumentChange = _KINDS[row["kind"]](row["key"], row["first_sequence"], row["num_sequences"])
    return change


def _ends(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
