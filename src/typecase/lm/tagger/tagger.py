"""The line tagger of the base install, and the file that it comes in.

    load_tagger()                  the tagger that ships with the package
    load_tagger("mine")            the folder, or the weights file, that `typecase refiner fit` wrote

A weights file is a NumPy archive: a JSON header, weights of n-grams in one byte each, two forests. Its fingerprint is taken
over the contents, so it does not depend on how they were compressed. The card of the shipped weights,
weights/TAGGER_CARD.md, says what they were made from and what was measured.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np

from typecase.core.learn.calibration import Isotonic
from typecase.core.learn.trees import Forest
from typecase.core.tagger import company
from typecase.core.tagger.look import NAMES
from typecase.core.tagger.words import BITS
from typecase.errors import NotFound
from typecase.lm import archive
from typecase.lm.archive import Array, Arrays
from typecase.lm.tagger.model import Tagger

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
    return archive.to_bytes(_arrays(tagger))


def with_fingerprint(tagger: Tagger) -> Tagger:
    """The tagger, rounded to what its file keeps, with the fingerprint of that file."""
    return from_bytes(to_bytes(tagger), where="a tagger just made")


def from_bytes(data: bytes, *, where: str) -> Tagger:
    """The tagger in a weights file; `where` is named in the errors."""
    complaint = f"{where} does not hold a tagger ({{error}}); fit it again or take the shipped one"
    return archive.from_bytes(data, _tagger, complaint=complaint)


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
        "header": archive.header(header),
        "words": tagger.words,
        "curve.knots": tagger.curve.knots.astype(np.float32),
        "curve.heights": tagger.curve.heights.astype(np.float32),
    }
    for name in _FORESTS:
        arrays |= archive.forest_arrays(name, getattr(tagger, name))
    return arrays


def _tagger(arrays: Arrays) -> Tagger:
    header = archive.header_of(arrays, format_=FORMAT)
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
        Isotonic(arrays["curve.knots"], arrays["curve.heights"]),
        fingerprint=archive.hash_arrays(arrays),
        version=header["version"],
        name=header["name"],
    )


def _forest(arrays: Arrays, name: str, num_measures: int) -> Forest:
    start, measure, threshold, leaves = (arrays[f"{name}.{part}"] for part in ("start", "measure", "threshold", "leaves"))
    trees, nodes = measure.shape
    if start.shape != (1,) or threshold.shape != measure.shape or leaves.shape != (trees, nodes + 1, 1):
        raise ValueError(f"the {name} forest has arrays of shapes that do not belong together")
    if nodes & (nodes + 1) or measure.min(initial=0) < 0 or measure.max(initial=0) >= num_measures:
        raise ValueError(f"the {name} forest asks for measures that this version does not have")
    return archive.forest_of(arrays, name)
