"""GGUF headers: the key/values of a model file and where its tensors lie, the tensors left alone.

    "GGUF"  u32 version  u64 tensors  u64 keys  { key, u32 type, value } …      strings are u64 length and bytes, UTF-8
    types   0 u8  1 i8  2 u16  3 i16  4 u32  5 i32  6 f32  7 bool  8 string  9 array {u32 type, u64 n …}  10 u64  11 i64  12 f64

The file is mapped, so a header of megabytes in front of gigabytes costs its own size: 0.1 s for 50,000 tokens.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from typecase.errors import CorruptStore

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST = 1 << 31

Found = TypeVar("Found")


def read_header(path: Path, read: Callable[[HeaderReader], Found]) -> Found:
    """What `read` finds in the header of a GGUF. Raises CorruptStore when the file is none or breaks off."""
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise CorruptStore(f"{path} is empty: it is no GGUF") from error
        with data:
            try:
                return read(HeaderReader(data))
            except (struct.error, ValueError, UnicodeDecodeError) as error:
                raise CorruptStore(f"{path} is no GGUF that can be read ({error}): cut short, or of another kind") from error


def read_keys(path: Path) -> dict[str, Any]:
    """Every key/value of a GGUF. Raises CorruptStore."""
    return read_header(path, HeaderReader.keys)


class HeaderReader:
    """Reads a header from its first byte on; `place` is the byte that comes next."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.place, self.num_tensors = data, 0, 0

    def keys(self) -> dict[str, Any]:
        """Every key/value. Afterwards `num_tensors` tensor descriptions come next. Raises ValueError or struct.error."""
        if self.data[:4] != b"GGUF":
            raise ValueError(f"it begins with {self.data[:4]!r}")
        self.place = 4
        version = self.number("I")
        if version not in (2, 3):
            raise ValueError(f"version {version}; 2 and 3 are known")
        self.num_tensors = self.count()
        return {self.string(): self.value(self.number("I")) for _ in range(self.count())}

    def count(self) -> int:
        """The next number, as a number of entries."""
        found = int(self.number("Q"))
        if found > _LONGEST:
            raise ValueError(f"{found} entries at byte {self.place}")
        return found

    def number(self, form: str) -> Any:
        """The next number in the notation of `struct`."""
        (value,) = struct.unpack_from("<" + form, self.data, self.place)
        self.place += struct.calcsize("<" + form)
        return value

    def string(self) -> str:
        """The next string."""
        size = self.count()
        raw = self.data[self.place : self.place + size]
        if len(raw) != size:
            raise ValueError(f"a string of {size} bytes at byte {self.place}")
        self.place += size
        return raw.decode("utf-8", "surrogateescape")

    def value(self, kind: int) -> Any:
        """The next value of a type."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            inner, size = self.number("I"), self.count()
            if inner in (_STRING, _ARRAY):
                return [self.value(inner) for _ in range(size)]
            form = f"<{size}{_FORMATS[inner]}" if inner in _FORMATS else ""
            if not form:
                raise ValueError(f"values of type {inner}")
            values = struct.unpack_from(form, self.data, self.place)
            self.place += struct.calcsize(form)
            return list(values)
        if kind not in _FORMATS:
            raise ValueError(f"a value of type {kind}")
        return self.number(_FORMATS[kind])
