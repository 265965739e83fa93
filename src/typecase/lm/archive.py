"""Archive: the weights of a small model as one file, a NumPy archive of a JSON header and arrays.

    to_bytes({"header": header(…), "words": …})   ->  the file          from_bytes(data, …)  ->  the arrays, or CorruptStore

The fingerprint of an archive is taken over its contents, so it does not depend on how they were compressed. What the arrays
mean is the model's own; `Curve` and forests are what several of them hold.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from typecase.core.learn.trees import Forest
from typecase.errors import CorruptStore

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Model = TypeVar("Model")


def to_bytes(arrays: Arrays) -> bytes:
    """The file that holds `arrays`; equal arrays give equal bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
    return buffer.getvalue()


def from_bytes(data: bytes, make: Callable[[dict[str, Array]], Model], *, complaint: str) -> Model:
    """What `make` makes of the arrays in a file. Raises CorruptStore, `complaint` with {error} filled in, if it is none."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return make(arrays)
    except (BadZipFile, ValueError, KeyError, IndexError, TypeError, EOFError) as error:
        raise CorruptStore(complaint.format(error=error)) from None


def header(values: Mapping[str, Any]) -> Array:
    """A header as an array of bytes."""
    return np.frombuffer(json.dumps(values, sort_keys=True, ensure_ascii=False).encode(), np.uint8)


def header_of(arrays: Arrays, *, format_: int) -> dict[str, Any]:
    """The header of an archive. Raises ValueError where it is of another format, KeyError without one."""
    found: dict[str, Any] = json.loads(arrays["header"].tobytes())
    if found["format"] != format_:
        raise ValueError(f"format {found['format']}, this version reads format {format_}")
    return found


def forest_arrays(name: str, forest: Forest) -> dict[str, Array]:
    """A forest as arrays, thresholds whole, leaves in half floats."""
    return {
        f"{name}.start": forest.start,
        f"{name}.measure": forest.measure.astype(np.int16),
        f"{name}.threshold": forest.threshold,
        f"{name}.leaves": forest.leaves.astype(np.float16),
    }


def forest_of(arrays: Arrays, name: str) -> Forest:
    """The inverse of `forest_arrays`."""
    start, measure, threshold, leaves = (arrays[f"{name}.{part}"] for part in ("start", "measure", "threshold", "leaves"))
    return Forest(start, measure.astype(np.int32), threshold, leaves.astype(np.float32))


def hash_arrays(arrays: Arrays) -> str:
    """32 hexadecimal digits over names, types, shapes and contents."""
    digest = blake2b(digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
