"""The starter rater's model: n-grams, measures of form and small trees, and no language model.

    text -> windows -> measures ---------------------------------.
                    -> n-grams  -> one number a criterion --------|-> trees -> calibration -> expected scores
                               `-> with word classes: domain -----|
                       measures -> trees: kinds of damage --------'-> trees -> confidence

The weights are one file of 2 MB, made by `lm/starter/fit` from the seeds in the repository; their card stands
beside them and says what was measured, on which documents, and against what. Long texts are read in up to
MAX_WINDOWS windows; scores and domain chances are means over windows weighed by bytes.

Price: about 20 MB a second on one core, 0.7 s to import and load; the first call in a new environment compiles for 15 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from typecase.core.features.lexicon import Lexicon
from typecase.core.features.measures import features, measure_names
from typecase.core.features.ngrams import Weights
from typecase.core.features.windows import Windows, cut_windows
from typecase.core.learn.ridge import add_linear, softmax
from typecase.core.learn.trees import Forest, forest_outputs
from typecase.core.rating import Rubric
from typecase.lm.rate.rater import OK, Ratings, unrated

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

WINDOW_BYTES = 3072
MAX_WINDOWS = 8

_BATCH_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Curve:
    """A non-decreasing function through (knots, heights), both ascending, constant outside."""

    knots: F32
    heights: F32

    def __call__(self, values: F32) -> F32:
        heights: F32 = np.interp(values, self.knots, self.heights).astype(np.float32)
        return heights


@dataclass(frozen=True, slots=True)
class DomainModel:
    """Ridge regression of domains on n-grams (in the weights) and on the direction of the word classes."""

    classes: I64  # rows of the lexicon's classes that take part
    direction: F32  # (classes, domains)
    start: F32  # (domains,)
    heat: float


class Sight(NamedTuple):
    """What the starter rater sees of windows, a row each, float32."""

    shares: F32  # (windows, classes that take part)
    leanings: F32  # (windows, domains)
    seen: F32  # (windows, measures + criteria + domains + kinds of damage)
    raw: F32  # (windows, criteria): of the trees, before calibration


@dataclass(frozen=True, slots=True)
class StarterRater:
    """A rater made by `fit_starter`; see the module. The arrays are what the weights file holds."""

    rubric: Rubric
    rubric_text: str
    lexicon: Lexicon
    weights: Weights  # outputs: the criteria, then the domains, then padding
    text_start: F32  # (criteria,)
    domain: DomainModel
    damage: Forest
    scores: Forest
    curves: tuple[Curve, ...]  # by criterion
    trust: Forest
    trust_curve: Curve
    domain_curve: Curve
    fingerprint: str = ""  # over the contents of the weights file; set when they are written or read
    version: str = "1"
    name: str = "starter"

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Ratings of the documents values[offsets[i]:offsets[i + 1]] in order; bytes that are not UTF-8 are rated too."""
        ratings = unrated(self.rubric, len(offsets) - 1)
        for first, last in batches(offsets):
            part = offsets[first : last + 1]
            windows = cut_windows(values, part, window_bytes=WINDOW_BYTES, max_windows=MAX_WINDOWS)
            put_documents(ratings, first, windows, *self._rate_windows(values, windows), self.trust_curve, self.domain_curve)
        return ratings

    def look(self, values: U8, windows: Windows) -> Sight:
        """All that is seen of every window before anything is calibrated."""
        measures, sums = see(values, windows, self.lexicon, self.weights)
        num_criteria = len(self.rubric.criteria)
        shares = class_shares(measures, self.domain.classes, len(self.lexicon.classes))
        leanings = domain_leanings(shares, sums[:, num_criteria : num_criteria + len(self.rubric.domains)], self.domain)
        texts = sums[:, :num_criteria] + self.text_start
        seen = np.hstack([measures, texts, leanings, forest_outputs(self.damage, measures)])
        return Sight(shares, leanings, seen, forest_outputs(self.scores, seen))

    def _rate_windows(self, values: U8, windows: Windows) -> tuple[F32, F32, F32]:
        """(scores (windows, criteria), domain chances (windows, domains), trust (windows,)), all before documents."""
        _, leanings, seen, raw = self.look(values, windows)
        scores = np.column_stack([curve(raw[:, column]) for column, curve in enumerate(self.curves)])
        trust = forest_outputs(self.trust, np.hstack([seen, raw]))[:, 0]
        return scores, softmax(leanings, heat=self.domain.heat), trust


def see(values: U8, windows: Windows, lexicon: Lexicon, weights: Weights | None) -> tuple[F32, F32]:
    """What the rater sees of every window. A window that does not begin (end) its text is not blamed for how it does."""
    measures, sums = features(values, windows.start, windows.stop, lexicon, weights)
    names = measure_names(lexicon)
    measures[~windows.first, names.index("begins_lower")] = 0
    measures[~windows.last, names.index("ends_stopped")] = 1
    return measures, sums


def class_shares(measures: F32, classes: I64, num_classes: int) -> F32:
    """The columns of the word classes that take part, float32 (rows, classes)."""
    shares: F32 = measures[:, measures.shape[1] - num_classes :][:, classes]
    return shares


def directions(shares: F32) -> F32:
    """Rows of length 1, or 0 where a text has no word of any class."""
    length = np.sqrt((shares * shares).sum(axis=1, keepdims=True))
    toward: F32 = shares / np.maximum(length, np.float32(1e-9))
    return toward


def domain_leanings(shares: F32, sums: F32, model: DomainModel) -> F32:
    """How far each row leans to each domain, about 0 to 1, float32 (rows, domains); `sums` are of its n-grams."""
    out = sums + model.start
    add_linear(directions(shares), model.direction, out)
    return out


def window_shares(windows: Windows, num_docs: int) -> tuple[I64, F32]:
    """(bytes read of each document, share of its document's bytes that each window has)."""
    size = windows.stop - windows.start
    read = np.bincount(windows.doc, size, minlength=num_docs).astype(np.int64)
    return read, (size / np.maximum(1, read[windows.doc])).astype(np.float32)


def put_documents(
    ratings: Ratings,
    first: int,
    windows: Windows,
    scores: F32,
    domain: F32,
    trust: F32,
    trust_curve: Curve,
    domain_curve: Curve,
) -> None:
    """Writes the ratings of documents from `first` on: means over their windows."""
    if len(windows.doc) == 0:
        return
    num_docs = int(windows.doc[-1]) + 1
    read, share = window_shares(windows, num_docs)
    rated = read > 0
    into = slice(first, first + num_docs)

    def mean(column: F32) -> npt.NDArray[np.float64]:
        return np.bincount(windows.doc, column * share, minlength=num_docs)[rated].astype(np.float64)

    for column in range(scores.shape[1]):
        ratings.scores[into, column][rated] = mean(scores[:, column])
    ratings.confidence[into][rated] = trust_curve(mean(trust).astype(np.float32))
    for column in range(domain.shape[1]):
        ratings.domain_chances[into, column][rated] = mean(domain[:, column])
    if domain.shape[1]:
        sums = ratings.domain_chances[into][rated]
        ratings.domain[into][rated] = sums.argmax(axis=1)
        ratings.domain_confidence[into][rated] = domain_curve(sums.max(axis=1))
    ratings.status[into][rated] = OK
    ratings.rated_bytes[into] = read


def batches(offsets: I64) -> list[tuple[int, int]]:
    """Ranges of documents of about _BATCH_BYTES each, so that scratch stays small."""
    out, first, num_docs = [], 0, len(offsets) - 1
    while first < num_docs:
        last = int(np.searchsorted(offsets, offsets[first] + _BATCH_BYTES, side="right")) - 1
        last = min(max(last, first + 1), num_docs, first + 8192)
        out.append((first, last))
        first = last
    return out
