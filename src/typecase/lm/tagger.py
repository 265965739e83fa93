"""The line tagger of the base install, and the file that it comes in.

    load_tagger()                  the tagger that ships with the package
    load_tagger("mine")            the folder, or the weights file, that `typecase refiner fit` wrote

A weights file is a NumPy archive: a JSON header, weights of n-grams in one byte each, two forests. Its fingerprint is taken
over the contents, so it does not depend on how they were compressed. The card of the shipped weights,
weights/TAGGER_CARD.md, says what they were made from and what was measured.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from typecase.core.learn.trees import Forest
from typecase.core.tagger import company
from typecase.core.tagger.look import NAMES
from typecase.core.tagger.words import BITS
from typecase.errors import CorruptStore, NotFound
from typecase.lm.tagger_model import Tagger
from typecase.lm.tagger_thresholds import Curve

Array = npt.NDArray[Any]

WEIGHTS: Final = "tagger.npz"
CARD: Final = "TAGGER_CARD.md"
FIGURES: Final = "figures.json"
FORMAT: Final = 1
_FORESTS: Final = {"first": len(NAMES), "second": len(NAMES) + len(company.NAMES)}
"""The forests and how many measures each reads."""


def load_tagger(path: str | Path | None = None) -> Tagger:
    """The tagger in a folder or weights file, or the one that ships with the package.

    Raises NotFound if there is no such file, CorruptStore if it holds something else.
    """
    if path is None:
        return _shipped()
    path = Path(path)
    file = path / WEIGHTS if path.is_dir() else path
    if not file.is_file():
        raise NotFound(f"no tagger at {path}: give the folder that `typecase refiner fit` wrote, or its {WEIGHTS}")
    return from_bytes(file.read_bytes(), where=str(file))


@cache
def _shipped() -> Tagger:
    data = files("typecase.lm") / "weights" / WEIGHTS
    if not data.is_file():
        raise NotFound("the package has no tagger weights: make them with `typecase refiner fit seeds/twins -o OUT`")
    return from_bytes(data.read_bytes(), where="the shipped tagger")


def shipped_card() -> str:
    """The card of the shipped tagger as Markdown. Raises NotFound."""
    card = files("typecase.lm") / "weights" / CARD
    if not card.is_file():
        raise NotFound("the package has no tagger card: make weights and card with `typecase refiner fit seeds/twins -o OUT`")
    return card.read_text("utf-8")


def to_bytes(tagger: Tagger) -> bytes:
    """The weights file of `tagger`; equal taggers give equal bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **_arrays(tagger))
    return buffer.getvalue()


def with_fingerprint(tagger: Tagger) -> Tagger:
    """The tagger, rounded to what its file keeps, with the fingerprint of that file."""
    return from_bytes(to_bytes(tagger), where="a tagger just made")


def from_bytes(data: bytes, *, where: str) -> Tagger:
    """The tagger in a weights file; `where` is named in the errors."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return _tagger(arrays)
    except (BadZipFile, ValueError, KeyError, IndexError, TypeError, EOFError) as error:
        raise CorruptStore(f"{where} does not hold a tagger ({error}); fit it again or take the shipped one") from None


def _arrays(tagger: Tagger) -> dict[str, Array]:
    header = {
        "format": FORMAT,
        "name": tagger.name,
        "version": tagger.version,
        "scale": tagger.scale,
        "stay": tagger.stay,
        "trust": tagger.trust,
        "least": tagger.least,
        "long": tagger.long,
        "sure": tagger.sure,
    }
    arrays: dict[str, Array] = {
        "header": np.frombuffer(json.dumps(header, sort_keys=True).encode(), np.uint8),
        "words": tagger.words,
        "curve.knots": tagger.curve.knots,
        "curve.heights": tagger.curve.heights,
    }
    for name in _FORESTS:
        forest: Forest = getattr(tagger, name)
        arrays[f"{name}.start"] = forest.start
        arrays[f"{name}.measure"] = forest.measure.astype(np.int16)
        arrays[f"{name}.threshold"] = forest.threshold
        arrays[f"{name}.leaves"] = forest.leaves.astype(np.float16)
    return arrays


def _tagger(arrays: Mapping[str, Array]) -> Tagger:
    header = json.loads(arrays["header"].tobytes())
    if header["format"] != FORMAT:
        raise ValueError(f"format {header['format']}, this version reads format {FORMAT}")
    words = arrays["words"]
    if words.dtype != np.int8 or words.shape != (1 << BITS,):
        raise ValueError(f"{words.shape} weights of n-grams, this version reads {1 << BITS}")
    forests = {name: _forest(arrays, name, num) for name, num in _FORESTS.items()}
    stay, trust, least, long, sure = (float(header[name]) for name in ("stay", "trust", "least", "long", "sure"))
    return Tagger(
        words,
        float(header["scale"]),
        forests["first"],
        forests["second"],
        stay,
        trust,
        least,
        long,
        sure,
        Curve(arrays["curve.knots"], arrays["curve.heights"]),
        fingerprint=hash_arrays(arrays),
        version=header["version"],
        name=header["name"],
    )


def _forest(arrays: Mapping[str, Array], name: str, num_measures: int) -> Forest:
    start, measure, threshold, leaves = (arrays[f"{name}.{part}"] for part in ("start", "measure", "threshold", "leaves"))
    trees, nodes = measure.shape
    if start.shape != (1,) or threshold.shape != measure.shape or leaves.shape != (trees, nodes + 1, 1):
        raise ValueError(f"the {name} forest has arrays of shapes that do not belong together")
    if nodes & (nodes + 1) or measure.min(initial=0) < 0 or measure.max(initial=0) >= num_measures:
        raise ValueError(f"the {name} forest asks for measures that this version does not have")
    return Forest(start, measure.astype(np.int32), threshold, leaves.astype(np.float32))


def hash_arrays(arrays: Mapping[str, Array]) -> str:
    """32 hexadecimal digits over names, types, shapes and contents."""
    digest = blake2b(digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
