"""Npy: the array files of the training frameworks, mapped and never unpickled.

    93 "NUMPY" 1 0 | length | {'descr': '<i4', 'fortran_order': False, 'shape': (96, 2), }   \\n | 96 * 2 * 4 bytes

The frameworks save with pickling allowed and load so; a file from elsewhere could run code in them. Here the header is matched,
never evaluated, its types are those of plain integers, and its shape must account for every byte of the file: what passes is
an array and whole. Price: one map, no read; 50 us a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound
from typecase.store.atomic import atomic_path
from typecase.store.tokens.idx import map_file

_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 1 << 16
_HEADER = re.compile(
    r"\{ *'descr': *(?P<descr>.*?), *'fortran_order': *(?P<fortran>\w+), *'shape': *\((?P<shape>[^()]*)\),? *\}\s*", re.DOTALL
)
_SHAPE = re.compile(r"(?:[0-9]{1,14}(?:, ?[0-9]{1,14})*,?)?")
_TYPE = re.compile(r"'([<>|=])([biufcmMOSUV])([0-9]{0,9})'")
_CHUNK = 1 << 20
_SIZES = (1, 2, 4, 8)


def open_npy(path: Path, *, ndim: int, kinds: str = "iu", columns: int | None = None) -> npt.NDArray[Any]:
    """The array in `path`, mapped and read-only: `ndim` dimensions, the last of `columns` where given, of a dtype whose kind
    is among `kinds` ("i", "u", "f").

    Raises NotFound, and CorruptStore for whatever is not such an array, whole, little-endian and in C order.
    """
    if not path.is_file():
        raise NotFound(f"there is no file {path}; copy it from where the order was built, or let the framework build it again")
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_MOST_HEADER + 12)
    text, offset = _header_of(head, path)
    dtype, shape = _meaning_of(text, path, kinds)
    if len(shape) != ndim or (columns is not None and shape[-1] != columns):
        form = f"{ndim} dimensions" + ("" if columns is None else f", the last of {columns}")
        raise CorruptStore(f"{path} holds an array of shape {shape}, not of {form}: it is another array under this name")
    wanted = offset + prod(shape) * dtype.itemsize
    if size != wanted:
        what = (
            f"cut at byte {size} of {wanted}: its writer stopped or the copy did"
            if size < wanted
            else (f"{size - wanted} bytes longer than its header says ({shape} of {dtype})")
        )
        raise CorruptStore(f"{path} is {what}; copy it again, or remove it and let the framework build it again")
    data = map_file(path) if prod(shape) else None
    if data is None:
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype, count=prod(shape), offset=offset).reshape(shape)


def write_npy(path: Path, array: npt.NDArray[Any], *, sync: bool = True) -> None:
    """Writes `array` to `path`, all or nothing, in the bytes that `numpy.save` of the frameworks gives."""
    if array.dtype.kind not in "iuf":
        raise BadQuery(f"an order is made of numbers; cannot write {array.dtype} to {path}")
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    with atomic_path(path, sync=sync) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array(file, little, allow_pickle=False)


def keep_or_write(files: Mapping[Path, npt.NDArray[Any]], *, replace: bool) -> None:
    """Writes each array to its path, and leaves a file that holds it already.

    Raises AlreadyExists, with nothing written, when a path holds something else, unless `replace`.
    """
    wanted = {path: array for path, array in files.items() if not _holds(path, array)}
    taken = [path for path in wanted if path.exists()]
    if taken and not replace:
        raise AlreadyExists(f"{taken[0]} exists and holds another order; move it away, or say that it is to be replaced")
    for path, array in wanted.items():
        write_npy(path, array)


def _holds(path: Path, array: npt.NDArray[Any]) -> bool:
    try:
        there = open_npy(path, ndim=array.ndim)
    except (NotFound, CorruptStore):
        return False
    if there.shape != array.shape or there.dtype != array.dtype:
        return False
    return all(np.array_equal(there[k : k + _CHUNK], array[k : k + _CHUNK]) for k in range(0, len(array), _CHUNK))


def _header_of(head: bytes, path: Path) -> tuple[str, int]:
    """The text of the header and the byte where the array begins."""
    if not head.startswith(_MAGIC):
        found = "empty" if not head else f"no .npy file: it begins with {head[:8]!r}"
        raise CorruptStore(f"{path} is {found}; copy it again, or remove it and let the framework build it again")
    width = {1: 2, 2: 4, 3: 4}.get(head[6] if len(head) > 6 else 0)
    if width is None or len(head) < 8 + width:
        raise CorruptStore(f"{path} has an .npy header of unknown version {tuple(head[6:8])}; copy it again")
    length = int.from_bytes(head[8 : 8 + width], "little")
    offset = 8 + width + length
    if offset > len(head):
        raise CorruptStore(f"{path} ends or loses sense within its header, which claims {length} bytes; copy it again")
    return head[8 + width : offset].decode("latin-1" if head[6] < 3 else "utf-8", "replace"), offset


def _meaning_of(text: str, path: Path, kinds: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    found = _HEADER.fullmatch(text)
    if found is None or found["fortran"] not in ("True", "False"):
        raise CorruptStore(f"{path} has a damaged .npy header: {text.strip()[:80]!r}; copy it again")
    if _SHAPE.fullmatch(found["shape"]) is None:
        raise CorruptStore(f"{path} claims the impossible shape ({found['shape'][:40]}); copy it again")
    shape = tuple(int(number) for number in re.findall("[0-9]+", found["shape"]))
    if found["fortran"] == "True" and len(shape) > 1:
        raise CorruptStore(f"{path} is in Fortran order, which no framework writes; save it again with numpy.ascontiguousarray")
    return _dtype_of(found["descr"], path, kinds), shape


def _dtype_of(descr: str, path: Path, kinds: str) -> np.dtype[Any]:
    found = _TYPE.fullmatch(descr)
    if found is None:
        raise CorruptStore(f"{path} holds {descr[:40]}, not plain numbers: it is no array of an order")
    order, kind, width = found.groups()
    if kind == "O":
        raise CorruptStore(f"{path} holds pickled objects; they could run code when loaded and are never opened here")
    if kind not in kinds or not width or int(width) not in _SIZES or (kind == "f" and width == "1"):
        raise CorruptStore(f"{path} holds {descr}, not the numbers ({kinds}) of this array: it is another under this name")
    if order == ">":
        raise CorruptStore(f"{path} is big-endian ({descr}); save it again with array.astype(array.dtype.newbyteorder('<'))")
    return np.dtype(f"<{kind}{width}")
