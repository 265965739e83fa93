"""PyTorch files (.bin, .pt, .pth): the tensors of a zip archive, found without running what its pickle says.

    archive/data.pkl        names -> (storage key, offset, shape, strides)          archive/data/KEY        the numbers

A pickle may call any function. Here only the few are known that describe a tensor, each is a stand-in that records its
arguments, and any other name is refused. The numbers lie uncompressed in the archive, so they are mapped where they are.
"""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typecase.errors import CorruptStore
from typecase.store.weights.matrix import Entry
from typecase.store.weights.storage import STORAGES

_KINDS = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
}
_LOCAL_HEADER = struct.Struct("<4s22xHH")


@dataclass(frozen=True, slots=True)
class _Stored:
    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class _Tensor:
    stored: _Stored
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Reader(pickle.Unpickler):
    """Knows tensors and plain containers, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _KINDS:
            return _KINDS[name]
        found = _KNOWN.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"it wants {module}.{name}, and only tensors are read")
        return found

    def persistent_load(self, pid: Any) -> _Stored:
        if not isinstance(pid, tuple) or len(pid) < 3 or pid[0] != "storage":
            raise pickle.UnpicklingError(f"a reference of another kind: {str(pid)[:60]}")
        return _Stored(str(pid[1]), str(pid[2]))


def _tensor(stored: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Any:
    if not isinstance(stored, _Stored):
        return None
    return _Tensor(stored, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
}


def read_entries(path: Path) -> dict[str, Entry]:
    """Every contiguous tensor of the file; its state dict may lie under `model` or `state_dict`.

    Raises CorruptStore for a file of another kind, the older one that is no zip archive, and one that holds more than tensors.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            (inside,) = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            with archive.open(inside) as file:
                state = _Reader(file).load()
            starts = {info.filename: info for info in archive.infolist()}
        tensors = _tensors(state)
        root = inside.removesuffix("data.pkl")
        with path.open("rb") as raw:
            return {name: _entry(path, raw, starts[f"{root}data/{t.stored.key}"], name, t) for name, t in tensors.items()}
    except (zipfile.BadZipFile, pickle.UnpicklingError, KeyError, TypeError, ValueError, IndexError, EOFError) as error:
        raise CorruptStore(
            f"{path} is no PyTorch file of tensors that can be read ({error}): save the model as safetensors"
        ) from None


def _tensors(state: Any) -> dict[str, _Tensor]:
    for key in ("state_dict", "model", "module"):
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if not isinstance(state, Mapping):
        raise ValueError("it holds no named tensors")
    return {str(name): value for name, value in state.items() if isinstance(value, _Tensor)}


def _entry(path: Path, raw: Any, info: zipfile.ZipInfo, name: str, tensor: _Tensor) -> Entry:
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed")
    expected, size = [], 1
    for length in reversed(tensor.shape):
        expected.append(size)
        size *= length
    if tuple(reversed(expected)) != tensor.strides:
        raise ValueError(f"{name} is not contiguous (strides {tensor.strides})")
    raw.seek(info.header_offset)
    mark, name_size, extra_size = _LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))
    if mark != b"PK\3\4":
        raise ValueError(f"no entry at byte {info.header_offset}")
    start = info.header_offset + _LOCAL_HEADER.size + name_size + extra_size
    storage = STORAGES.get(tensor.stored.kind)
    item = storage.block_bytes if storage else 1
    if storage and (tensor.offset + size) * item > info.file_size:
        raise ValueError(f"{name} needs more than the {info.file_size:,} bytes of its storage")
    return Entry(name, path, tensor.stored.kind, tensor.shape, start + tensor.offset * item)
