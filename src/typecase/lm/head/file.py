"""The file of a head: a NumPy archive of a JSON header, small integers and half floats.

    gram head      n-gram weights, start, curves                                         1.9 MB
    encoded head   starter.* (a whole starter rater), vectors.*, second.*, trust.*, curves   6 MB on 1,600 documents

Its fingerprint is taken over the contents and, through the header, over the encoder's: two heads of one fingerprint say the
same of the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from typecase.lm import archive
from typecase.lm.archive import Array, Arrays
from typecase.lm.head.model import (
    Calibration,
    Embedder,
    EncodedHead,
    GramHead,
    Kernel,
    SecondStage,
    VectorModel,
    beside_late,
    last_part,
)
from typecase.lm.rate.rubric import parse_rubric
from typecase.lm.starter import starter
from typecase.lm.starter.model import Curve

FORMAT = 1
_KERNELS = ("scores", "subject", "subject_words")


def to_bytes(head: GramHead | EncodedHead) -> bytes:
    """The file of `head`."""
    return archive.to_bytes(arrays_of(head))


def read_arrays(data: bytes, *, where: str) -> dict[str, Array]:
    """The arrays of a file; CorruptStore, naming `where`, if it is none."""

    def checked(arrays: dict[str, Array]) -> dict[str, Array]:
        header_of(arrays)
        return arrays

    return archive.from_bytes(data, checked, complaint=f"{where} does not hold a head ({{error}}); fit it again")


def header_of(arrays: Arrays) -> dict[str, Any]:
    """The header: format, name, version, and the encoder with its fingerprint, or the rubric of an n-gram head."""
    return archive.header_of(arrays, format_=FORMAT)


def arrays_of(head: GramHead | EncodedHead) -> dict[str, Array]:
    """The arrays of the file, rounded to what the file keeps."""
    header: dict[str, Any] = {"format": FORMAT, "name": head.name, "version": head.version, "heat": head.calibration.heat}
    if isinstance(head, GramHead):
        num_outputs = len(head.start)
        header |= {"encoder": "none", "rubric": head.rubric_text, "bits": head.weights.bits}
        arrays: dict[str, Array] = {
            "text.idf": head.weights.idf,
            "text.table": head.weights.table[:, :num_outputs],
            "text.scale": head.weights.scale[:num_outputs],
            "text.start": head.start,
        }
    else:
        header |= {"encoder": head.encoder_name, "encoder_fingerprint": head.encoder_fingerprint}
        header |= {"gammas": {name: getattr(head.vectors, name).gamma for name in _KERNELS}}
        header["gammas"]["second"] = head.second.kernel.gamma
        arrays = {f"starter.{name}": array for name, array in starter.to_arrays(head.starter).items()}
        arrays |= _vector_arrays(head.vectors) | _second_arrays(head.second) | archive.forest_arrays("trust", head.trust)
    for name, curve in _curves(head.calibration):
        arrays[f"{name}.knots"], arrays[f"{name}.heights"] = curve.knots, curve.heights
    arrays["header"] = archive.header(header)
    return arrays


def gram_head_of(arrays: Arrays) -> GramHead:
    """The n-gram head whose file holds `arrays`."""
    header = header_of(arrays)
    rubric = parse_rubric(header["rubric"], where="the rubric in the head")
    weights = starter.padded(header["bits"], arrays["text.idf"], arrays["text.table"], arrays["text.scale"])
    calibration = _calibration(arrays, header["heat"], len(rubric.criteria))
    head = GramHead(rubric, header["rubric"], weights, arrays["text.start"], calibration, "", header["version"], header["name"])
    return replace(head, fingerprint=archive.hash_arrays(arrays))


def encoded_head_of(arrays: Arrays, encoder: Embedder) -> EncodedHead:
    """The head whose file holds `arrays`, on its encoder."""
    header = header_of(arrays)
    rater = starter.from_arrays({n.removeprefix("starter."): a for n, a in arrays.items() if n.startswith("starter.")})
    second = SecondStage(
        archive.forest_of(arrays, "second.trees"),
        arrays["second.center"],
        arrays["second.spread"],
        _kernel(arrays, "second.kernel", header["gammas"]["second"]),
    )
    head = EncodedHead(
        rater,
        encoder,
        header["encoder"],
        header["encoder_fingerprint"],
        _vectors(arrays, header["gammas"]),
        second,
        archive.forest_of(arrays, "trust"),
        _calibration(arrays, header["heat"], len(rater.rubric.criteria)),
        "",
        header["version"],
        header["name"],
    )
    return replace(head, fingerprint=archive.hash_arrays(arrays))


def _vector_arrays(vectors: VectorModel) -> dict[str, Array]:
    """Points of the domains' kernels follow from those of the scores' kernel and the directions of the word classes."""
    width = vectors.subject.points.shape[1]
    return {
        "vectors.center": vectors.center,
        "vectors.words": vectors.subject_words.points[:, width:].astype(np.float16),
        "vectors.subject.duals": vectors.subject.duals,
        "vectors.subject.start": vectors.subject.start,
        **_kernel_arrays("vectors.scores", vectors.scores),
    }


def _vectors(arrays: Arrays, gammas: Mapping[str, float]) -> VectorModel:
    scores = _kernel(arrays, "vectors.scores", gammas["scores"])
    late = last_part(scores.points)
    beside = np.hstack([beside_late(late), arrays["vectors.words"].astype(np.float32)])
    duals, start = arrays["vectors.subject.duals"], arrays["vectors.subject.start"]
    subject = Kernel(late, duals, start, gammas["subject"])
    return VectorModel(arrays["vectors.center"], scores, subject, Kernel(beside, duals, start, gammas["subject_words"]))


def _second_arrays(second: SecondStage) -> dict[str, Array]:
    arrays: dict[str, Array] = {"second.center": second.center, "second.spread": second.spread}
    return arrays | _kernel_arrays("second.kernel", second.kernel) | archive.forest_arrays("second.trees", second.trees)


def _kernel_arrays(name: str, kernel: Kernel) -> dict[str, Array]:
    return {f"{name}.points": kernel.points.astype(np.float16), f"{name}.duals": kernel.duals, f"{name}.start": kernel.start}


def _kernel(arrays: Arrays, name: str, gamma: float) -> Kernel:
    return Kernel(arrays[f"{name}.points"].astype(np.float32), arrays[f"{name}.duals"], arrays[f"{name}.start"], gamma)


def _curves(calibration: Calibration) -> list[tuple[str, Curve]]:
    named = [(f"curve.{column}", curve) for column, curve in enumerate(calibration.scores)]
    return [*named, ("curve.domain", calibration.domain), ("curve.trust", calibration.trust)]


def _calibration(arrays: Arrays, heat: float, num_criteria: int) -> Calibration:
    def curve(name: object) -> Curve:
        return Curve(arrays[f"curve.{name}.knots"], arrays[f"curve.{name}.heights"])

    return Calibration(tuple(curve(c) for c in range(num_criteria)), heat, curve("domain"), curve("trust"))
