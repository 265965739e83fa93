"""Starter: the rater of the base install, and the file that it comes in.

    load_starter()                the rater that ships with the package
    load_starter("my.npz")        one made from your own ratings by `typecase.lm.starter.fit`

A weights file is a NumPy archive: a JSON header, and arrays of small integers and half floats (2 MB). Its fingerprint is
taken over the contents, so it does not depend on how they were compressed. The card of the shipped weights,
weights/STARTER_CARD.md, says what they were made from and what was measured.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from typecase.core.features.lexicon import Lexicon, pack_words
from typecase.core.features.ngrams import Weights
from typecase.errors import NotFound
from typecase.lm import archive
from typecase.lm.archive import Array, Arrays
from typecase.lm.rate.rubric import parse_rubric
from typecase.lm.starter.model import Curve, DomainModel, StarterRater

FORMAT = 1
_FORESTS = ("damage", "scores", "trust")


SHIPPED = "starter"
"""The name of the rater that ships with the package."""


def open_rater(name: str | Path) -> StarterRater:
    """The rater called `name`: SHIPPED, or the folder or weights file that a training run wrote. Raises like load_starter."""
    if str(name) == SHIPPED:
        return load_starter()
    path = Path(name)
    return load_starter(path / "starter.npz" if path.is_dir() else path)


def load_starter(path: str | Path | None = None) -> StarterRater:
    """The starter rater in the weights file at `path`, or the one that ships with the package.

    Raises NotFound if there is no such file, CorruptStore if it holds something else.
    """
    if path is None:
        return _shipped()
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"no weights at {path}: give the .npz file that `typecase rater fit` wrote")
    return from_bytes(path.read_bytes(), where=str(path))


@cache
def _shipped() -> StarterRater:
    data = files("typecase.lm") / "weights" / "starter.npz"
    if not data.is_file():
        raise NotFound("the package has no starter weights: make them with `python -m typecase.lm.starter.fit`")
    return from_bytes(data.read_bytes(), where="the shipped weights")


def to_bytes(rater: StarterRater) -> bytes:
    """The weights file of `rater`."""
    return archive.to_bytes(to_arrays(rater))


def from_bytes(data: bytes, *, where: str) -> StarterRater:
    """The rater in a weights file; `where` is named in the errors."""
    complaint = f"{where} does not hold a starter rater ({{error}}); fit it again or take the shipped one"
    return archive.from_bytes(data, from_arrays, complaint=complaint)


def to_arrays(rater: StarterRater) -> dict[str, Array]:
    """The arrays of the weights file, rounded to what the file keeps."""
    words, domain = rater.lexicon.words, rater.domain
    held = np.flatnonzero(words.keys)
    held = held[np.argsort(words.keys[held])]
    num_outputs = len(rater.rubric.criteria) + len(rater.rubric.domains)
    header = {
        "format": FORMAT,
        "name": rater.name,
        "version": rater.version,
        "rubric": rater.rubric_text,
        "classes": list(rater.lexicon.classes),
        "bits": rater.weights.bits,
        "heat": domain.heat,
    }
    arrays: dict[str, Array] = {
        "header": archive.header(header),
        "words.keys": words.keys[held],
        "words.mask": words.mask[held],
        "words.level": words.level[held],
        "words.spelled": words.spelled,
        "words.letters": words.letters,
        "text.idf": rater.weights.idf,
        "text.table": rater.weights.table[:, :num_outputs],
        "text.scale": rater.weights.scale[:num_outputs],
        "text.start": rater.text_start,
        "domain.classes": domain.classes.astype(np.int16),
        "domain.direction": domain.direction,
        "domain.start": domain.start,
    }
    for name in _FORESTS:
        arrays |= archive.forest_arrays(name, getattr(rater, name))
    for name, curve in _curves(rater):
        arrays[f"{name}.knots"], arrays[f"{name}.heights"] = curve.knots, curve.heights
    return arrays


def _curves(rater: StarterRater) -> list[tuple[str, Curve]]:
    named = [(f"curve.{column}", curve) for column, curve in zip(rater.rubric.columns, rater.curves, strict=True)]
    return [*named, ("curve trust", rater.trust_curve), ("curve domain", rater.domain_curve)]


def from_arrays(arrays: Arrays) -> StarterRater:
    """The rater whose weights file holds `arrays`. Raises KeyError or ValueError if they are not such a file."""
    header = archive.header_of(arrays, format_=FORMAT)
    rubric = parse_rubric(header["rubric"], where="the rubric in the weights")
    words = pack_words(*(arrays[f"words.{name}"] for name in ("keys", "mask", "level", "spelled", "letters")))

    def curve(name: str) -> Curve:
        return Curve(arrays[f"{name}.knots"], arrays[f"{name}.heights"])

    rater = StarterRater(
        rubric=rubric,
        rubric_text=header["rubric"],
        lexicon=Lexicon(tuple(header["classes"]), words),
        weights=padded(header["bits"], arrays["text.idf"], arrays["text.table"], arrays["text.scale"]),
        text_start=arrays["text.start"],
        domain=DomainModel(
            arrays["domain.classes"].astype(np.int64),
            arrays["domain.direction"],
            arrays["domain.start"],
            header["heat"],
        ),
        damage=archive.forest_of(arrays, "damage"),
        scores=archive.forest_of(arrays, "scores"),
        curves=tuple(curve(f"curve.{column}") for column in rubric.columns),
        trust=archive.forest_of(arrays, "trust"),
        trust_curve=curve("curve trust"),
        domain_curve=curve("curve domain"),
        version=header["version"],
        name=header["name"],
    )
    return replace(rater, fingerprint=archive.hash_arrays(arrays))


def padded(bits: int, idf: Array, table: Array, scale: Array) -> Weights:
    """The weights with columns of 0 up to a multiple of eight, so that a row is added in whole vector registers."""
    missing = -len(scale) % 8
    return Weights(bits, idf, np.pad(table, ((0, 0), (0, missing))), np.pad(scale, (0, missing)))
