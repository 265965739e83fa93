"""Tails: the documents of each source that a model finds oddly easy, and those that it finds oddly hard.

    source web   1,000 documents, quantile 0.02   ->   20 lowest, 20 highest; ties go by document id

A tail holds at least one document and no document is in both; a lone document of a source counts as high. Short documents
have unsteady perplexities and crowd both tails; against that the length may be held still:

    none      nats a unit as they are
    bins      against the median of documents of like length (of the same source)
    regress   against a straight line over ln(length), fitted to the medians of those bins: odd documents do not bend it

What is left is not divided by the spread: where odd documents are many they are the spread, and hide behind it.

Price: a sort for each source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from typecase.errors import BadQuery

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

Control = Literal["none", "bins", "regress"]
CONTROLS: tuple[Control, ...] = ("none", "bins", "regress")

_BIN_DOCS = 50
_MOST_BINS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Rows of the documents in the tails, most extreme first within a source, sources in rising order.

    low, high   int64   rows of the given arrays
    oddness     float64 (documents,)   what was sorted by
    """

    low: I64
    high: I64
    oddness: F64


def tails(sources: I64, means: F64, lengths: I64, *, quantile: float, control: Control = "none") -> Tails:
    """The tails of every source; arrays (documents,) whose rows rise by document id.

    sources   codes from 0        means     nats a token or a byte, finite        lengths   tokens or bytes
    """
    if not 0 < quantile <= 0.5:
        raise BadQuery(f"a tail is a share above 0 and at most 0.5 of a source, got {quantile}")
    if control not in CONTROLS:
        raise BadQuery(f"length is controlled by one of {', '.join(CONTROLS)}, got {control!r}")
    oddness = np.zeros(len(means))
    low: list[I64] = []
    high: list[I64] = []
    by_source = np.argsort(sources, kind="stable")
    edges = np.flatnonzero(np.diff(sources[by_source])) + 1
    for rows in np.split(by_source, edges) if len(sources) else ():
        oddness[rows] = _controlled(means[rows], lengths[rows], control)
        order = rows[np.argsort(oddness[rows], kind="stable")]
        falling = rows[np.argsort(-oddness[rows], kind="stable")]
        size = max(1, math.floor(quantile * len(rows) + 1e-9))
        high.append(falling[:size])
        taken = set(falling[:size].tolist())
        low.append(np.array([row for row in order if row not in taken][:size], np.int64))
    nothing = np.zeros(0, np.int64)
    return Tails(np.concatenate([nothing, *low]), np.concatenate([nothing, *high]), oddness)


def _controlled(means: F64, lengths: I64, control: Control) -> F64:
    if control == "none":
        return means
    bins = _bins(lengths)
    middles = np.array([np.median(means[rows]) for rows in bins])
    if control == "regress":
        over = np.log(np.maximum(lengths, 1))
        return means - _line(np.array([np.median(over[rows]) for rows in bins]), middles, over)
    out = np.zeros(len(means))
    for rows, middle in zip(bins, middles):
        out[rows] = means[rows] - middle
    return out


def _bins(lengths: I64) -> list[I64]:
    """Rows in bins of like length, about as many documents in each."""
    order = np.argsort(lengths, kind="stable")
    return list(np.array_split(order, min(_MOST_BINS, max(1, len(lengths) // _BIN_DOCS))))


def _line(places: F64, values: F64, over: F64) -> F64:
    """The least-squares line through (places, values) at `over`; level where all places are the same."""
    centred, base = places - places.mean(), values.mean()
    power = float(centred @ centred)
    slope = float(centred @ (values - base)) / power if power > 0 else 0.0
    line: F64 = base + slope * (over - places.mean())
    return line
