"""GGUF tensors: where each one lies behind the keys of the file.

… keys | { name, u32 dimensions, u64 each (innermost first), u32 type, u64 offset } … | padding | data
"""

from __future__ import annotations

from pathlib import Path

from typecase.store.gguf import HeaderReader, read_header
from typecase.store.weights.matrix import Entry

_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0",
    35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
_ALIGNMENT = 32
_MOST_DIMENSIONS = 8


def read_entries(path: Path) -> dict[str, Entry]:
    """Every tensor of the file. Raises CorruptStore when the file is none or breaks off."""
    return read_header(path, lambda reader: _entries(path, reader))


def _entries(path: Path, reader: HeaderReader) -> dict[str, Entry]:
    keys = reader.keys()
    rows = [_info(reader) for _ in range(reader.num_tensors)]
    alignment = int(keys.get("general.alignment", _ALIGNMENT))
    if alignment < 1:
        raise ValueError(f"an alignment of {alignment}")
    data_at = -(-reader.place // alignment) * alignment
    return {name: Entry(name, path, kind, shape, data_at + offset) for name, kind, shape, offset in rows}


def _info(reader: HeaderReader) -> tuple[str, str, tuple[int, ...], int]:
    name = reader.string()
    dimensions = int(reader.number("I"))
    if dimensions > _MOST_DIMENSIONS:
        raise ValueError(f"{name} has {dimensions} dimensions")
    shape = tuple(int(reader.number("Q")) for _ in range(dimensions))[::-1]
    kind = int(reader.number("I"))
    return name, _TYPES.get(kind, f"type {kind}"), shape, int(reader.number("Q"))
