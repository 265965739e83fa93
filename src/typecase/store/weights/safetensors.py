"""safetensors headers: where each tensor of a file lies.

    u64 n | n bytes of JSON {name: {dtype, shape, data_offsets: [begin, end]}} | data      offsets count from the data on

Everything is checked before it is believed: a length beyond the file, an offset out of order, a size that is not the shape's.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

import orjson

from typecase.errors import CorruptStore
from typecase.store.weights.matrix import Entry
from typecase.store.weights.storage import STORAGES

_MOST_HEADER_BYTES = 100 << 20


def read_entries(path: Path) -> dict[str, Entry]:
    """Every tensor of the file. Raises CorruptStore when the file is none or breaks off."""
    try:
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > min(_MOST_HEADER_BYTES, path.stat().st_size - 8):
                raise ValueError(f"a header of {size:,} bytes")
            header: dict[str, Any] = orjson.loads(file.read(size))
        header.pop("__metadata__", None)
        found = {name: _entry(path, name, facts, 8 + size) for name, facts in header.items()}
        _check_overlaps(header)
    except (struct.error, orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptStore(f"{path} is no safetensors file that can be read ({error}): cut short, or of another kind") from None
    return found


def _entry(path: Path, name: str, facts: Any, data_at: int) -> Entry:
    begin, end = (int(n) for n in facts["data_offsets"])
    shape = tuple(int(n) for n in facts["shape"])
    storage = STORAGES.get(facts["dtype"])
    if not 0 <= begin <= end or data_at + end > path.stat().st_size:
        raise ValueError(f"{name} lies at [{begin}, {end}) of the data")
    if storage is not None and (end - begin) != prod(shape) * storage.block_bytes:
        raise ValueError(f"{name} of shape {shape} takes {end - begin} bytes")
    return Entry(name, path, str(facts["dtype"]), shape, data_at + begin)


def _check_overlaps(header: dict[str, Any]) -> None:
    last_end, last_name = 0, ""
    for begin, end, name in sorted((*facts["data_offsets"], name) for name, facts in header.items()):
        if begin < last_end:
            raise ValueError(f"{name} overlaps {last_name}")
        last_end, last_name = end, name
