"""The `.idx` file: where every sequence and document of a token set lies.

    MMIDIDX, version 1  (GPT-NeoX, Megatron-LM, Megatron-Core, NeMo)     TNTIDX, version 1  ("cached", "lazy"; read only)
      0  9 bytes  4D 4D 49 44 49 44 58 00 00                               0  8 bytes  54 4E 54 49 44 58 00 00
      9  u64      version                                                  8  u64      version
     17  u8       dtype code                                              16  u64      dtype code
     18  u64      N sequences                                             24  u64      bytes an element
     26  u64      D entries of the document index                         32  u64      N    40  u64  S    48  u64  D
     34  i32[N]   lengths in tokens                                       56  i64[N+1] where the dimensions of an item begin
         i64[N]   byte pointers                                               i64[N+1] where its data begins, in elements
         i64[D]   document index                                              i64[S]   dimensions
         i8[N]    modes, in multimodal sets; the file size is the only sign   i64[D]   document index

Nothing here trusts the header: N and D are weighed against the size of the file before an array is made. Byte arithmetic is
64-bit. Price: the arrays of MMIDIDX stay on disk, memory-mapped; they begin at odd addresses, so they are *unaligned* views
(numpy reads them well, but `np.searchsorted` copies one on every call; numba takes them for aligned: give it a copy).
TNTIDX costs 16 bytes a sequence.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.errors import BadQuery, CorruptStore

MAGIC = b"MMIDIDX\0\0"
LEGACY_MAGIC = b"TNTIDX\0\0"
HEADER_BYTES = 34
_LEGACY_HEADER_BYTES = 56
_HEADER = struct.Struct("<9sQBQQ")
_LEGACY_HEADER = struct.Struct("<8s6Q")

_INTEGERS = {1: "|u1", 2: "|i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
_FLOATS = {6: "<f8", 7: "<f4"}
"""As Megatron-Core numbers them; GPT-NeoX has the two the other way round, so readers go by the size of the `.bin`."""

_FOREIGN = {
    b"version https://git-lfs": "a Git LFS pointer, not the file itself: run `git lfs pull`",
    b"\x93NUMPY": "a NumPy array, perhaps an order cache of a training run",
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x1f\x8b": "gzip data: unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd data: unpack it first",
    b"{": "text that looks like JSON",
}


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The head of a `.idx`, already weighed against the size of the file.

    `num_entries` is D. `item_bytes` and `num_sizes` (S) are stated by TNTIDX alone and are 0 for MMIDIDX.
    """

    format: str
    dtype_code: int
    num_sequences: int
    num_entries: int
    multimodal: bool = False
    item_bytes: int = 0
    num_sizes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What a `.idx` says, as read-only arrays; views of MMIDIDX arrays are unaligned.

    `lengths` i32 (sequences,) in tokens, i64 for TNTIDX; `pointers` i64 (sequences,) in bytes; `document_index` i64
    (num_entries,) as on disk; `modes` i8 (sequences,) or None. Whether the numbers make sense is asked by `token_damage`.
    """

    header: IndexHeader
    dtype: np.dtype[Any]
    lengths: npt.NDArray[np.integer]
    pointers: npt.NDArray[np.int64]
    document_index: npt.NDArray[np.int64]
    modes: npt.NDArray[np.int8] | None

    @property
    def num_sequences(self) -> int:
        return len(self.lengths)

    @property
    def lacks_documents(self) -> bool:
        """Merged without document index (D = 1 over N > 0): every sequence counts as a document."""
        return len(self.document_index) <= 1 and self.num_sequences > 0

    @property
    def num_documents(self) -> int:
        return self.num_sequences if self.lacks_documents else max(len(self.document_index) - 1, 0)


def code_of(dtype: np.dtype[Any]) -> int:
    """The code under which Megatron-Core stores `dtype`. Raises BadQuery for a dtype that has none (uint32, uint64, …)."""
    for code, name in (_INTEGERS | _FLOATS).items():
        if np.dtype(name) == dtype:
            return code
    raise BadQuery(f"token files have no code for {dtype}; use uint16, int32 or int64")


def code_fits(code: int, dtype: np.dtype[Any]) -> bool:
    """Whether some framework means `dtype` by `code`; both float codes may mean either float."""
    return dtype in ((np.dtype("<f4"), np.dtype("<f8")) if code in _FLOATS else (np.dtype(_INTEGERS.get(code, "V1")),))


def map_file(path: Path) -> mmap.mmap | None:
    """`path`, memory-mapped read-only; None where it is empty. Arrays made over the map keep it alive."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else None


def parse_header(head: bytes, *, idx_bytes: int, where: str) -> IndexHeader:
    """Reads the head of a `.idx` from its first 56 bytes and the size of the file.

    Raises CorruptStore for another format, version or dtype, for counts that the file cannot hold, and for bytes left over.
    """
    if not idx_bytes:
        raise CorruptStore(f"{where} is empty: its writer stopped before the end; make the set again or copy it again")
    if head.startswith(LEGACY_MAGIC):
        return _parse_legacy_header(head, idx_bytes, where)
    if not head.startswith(MAGIC):
        found = next(
            (what for sign, what in _FOREIGN.items() if head.startswith(sign)), f"no format that we know ({head[:9]!r})"
        )
        raise CorruptStore(f"{where} begins with neither MMIDIDX nor TNTIDX: it is {found}; give the .idx of a token set")
    if len(head) < HEADER_BYTES:
        raise CorruptStore(f"{where} is an MMIDIDX index cut at byte {idx_bytes}, inside its header; copy it again")
    _, version, code, num_sequences, num_entries = _HEADER.unpack_from(head)
    _check_version(version, code, "MMIDIDX", where)
    size = HEADER_BYTES + 12 * num_sequences + 8 * num_entries
    if idx_bytes not in (size, size + num_sequences):
        _raise_size("MMIDIDX", num_sequences, num_entries, size, idx_bytes, where)
    multimodal = num_sequences > 0 and idx_bytes == size + num_sequences
    return IndexHeader("MMIDIDX", code, num_sequences, num_entries, multimodal)


def _parse_legacy_header(head: bytes, idx_bytes: int, where: str) -> IndexHeader:
    if len(head) < _LEGACY_HEADER_BYTES:
        raise CorruptStore(f"{where} is a TNTIDX index cut at byte {idx_bytes}, inside its header; copy it again")
    _, version, code, item_bytes, num_sequences, num_sizes, num_entries = _LEGACY_HEADER.unpack_from(head)
    _check_version(version, code, "TNTIDX", where)
    widths = {4, 8} if code in _FLOATS else {np.dtype(_INTEGERS[code]).itemsize}
    if item_bytes not in widths:
        raise CorruptStore(f"{where} (TNTIDX) has dtype code {code} with {item_bytes} bytes an element, which cannot be")
    size = _LEGACY_HEADER_BYTES + 16 * (num_sequences + 1) + 8 * (num_sizes + num_entries)
    if idx_bytes != size:
        _raise_size("TNTIDX", num_sequences, num_entries, size, idx_bytes, where)
    return IndexHeader("TNTIDX", code, num_sequences, num_entries, False, item_bytes, num_sizes)


def _check_version(version: int, code: int, name: str, where: str) -> None:
    if version != 1:
        raise CorruptStore(f"{where} is {name} version {version}; only version 1 is known: the header is damaged or newer")
    if code not in _INTEGERS and code not in _FLOATS:
        raise CorruptStore(f"{where} ({name}) has dtype code {code}; codes are 1 to 8: the header is damaged")


def _raise_size(name: str, num_sequences: int, num_entries: int, size: int, idx_bytes: int, where: str) -> None:
    said = f"{where} ({name}): its header says {num_sequences} sequences and {num_entries} document entries = {size} bytes"
    if idx_bytes > size:
        raise CorruptStore(
            f"{said}, the file has {idx_bytes}: foreign bytes from byte {size} on; see `typecase doctor {where}`"
        )
    raise CorruptStore(
        f"{said}, the file ends at byte {idx_bytes}: truncated, or the header is garbage; see `typecase doctor {where}`"
    )


def read_header(path: Path) -> IndexHeader:
    """The head of the `.idx` at `path`. Raises CorruptStore as `parse_header` does."""
    with path.open("rb") as file:
        return parse_header(file.read(_LEGACY_HEADER_BYTES), idx_bytes=path.stat().st_size, where=str(path))


def read_layout(path: Path, *, bin_bytes: int) -> Layout:
    """What the `.idx` at `path` says of a `.bin` of `bin_bytes`, which settles the width of float sets.

    Raises CorruptStore when header and file size disagree; the numbers in the arrays are not judged.
    """
    header = read_header(path)
    data = map_file(path)
    assert data is not None, "parse_header refuses an empty file"
    if header.format == "TNTIDX":
        return _legacy_layout(header, data, path)
    n, d = header.num_sequences, header.num_entries
    lengths = np.frombuffer(data, "<i4", n, HEADER_BYTES) if n else np.zeros(0, "<i4")
    pointers = np.frombuffer(data, "<i8", n, HEADER_BYTES + 4 * n) if n else np.zeros(0, "<i8")
    document_index = np.frombuffer(data, "<i8", d, HEADER_BYTES + 12 * n) if d else np.zeros(0, "<i8")
    modes = np.frombuffer(data, "|i1", n, HEADER_BYTES + 12 * n + 8 * d) if header.multimodal else None
    dtype = resolve_dtype(header.dtype_code, lengths, bin_bytes=bin_bytes, where=str(path))
    return Layout(header, dtype, lengths, pointers, document_index, modes)


def resolve_dtype(code: int, lengths: npt.NDArray[np.integer], *, bin_bytes: int, where: str) -> np.dtype[Any]:
    """The dtype that `code` means. Codes 6 and 7 are swapped between GPT-NeoX and Megatron-Core: the `.bin` size decides."""
    if code in _INTEGERS:
        return np.dtype(_INTEGERS[code])
    total = int(lengths.sum(dtype=np.int64))
    for width in (4, 8):
        if total and bin_bytes == width * total:
            return np.dtype(f"<f{width}")
    if not total and not bin_bytes:
        return np.dtype(_FLOATS[code])
    raise CorruptStore(
        f"{where} has float code {code}, whose width only the .bin can tell; its {bin_bytes} bytes are neither 4 nor 8 for"
        f" each of {total} values: the .bin is cut or belongs to another .idx"
    )


def _legacy_layout(header: IndexHeader, data: mmap.mmap, path: Path) -> Layout:
    n, s = header.num_sequences, header.num_sizes
    numbers = np.frombuffer(data, "<i8", offset=_LEGACY_HEADER_BYTES)
    dims, begins, sizes, document_index = np.split(numbers, [n + 1, 2 * n + 2, 2 * n + 2 + s])
    if dims[0] != 0 or dims[-1] != s or np.any(dims[1:] <= dims[:-1]):
        bad = int(np.argmax(dims[1:] <= dims[:-1])) if n else 0
        raise CorruptStore(f"{path} (TNTIDX): the dimensions of item {bad} do not follow its neighbours; copy the file again")
    lengths = sizes if n == s else np.multiply.reduceat(sizes, dims[:-1])
    width = header.item_bytes
    wrong = (begins < 0) | (begins > (1 << 62) // width)
    if wrong.any():
        bad = int(np.argmax(wrong))
        raise CorruptStore(f"{path} (TNTIDX): item {bad} begins at element {begins[bad]}, which cannot be; copy the file again")
    dtype = np.dtype(f"<f{width}") if header.dtype_code in _FLOATS else np.dtype(_INTEGERS[header.dtype_code])
    return Layout(header, dtype, lengths, begins[:-1] * width, document_index, None)


def format_header(dtype_code: int, num_sequences: int, num_entries: int) -> bytes:
    """The 34 bytes that begin an MMIDIDX file."""
    return _HEADER.pack(MAGIC, 1, dtype_code, num_sequences, num_entries)
