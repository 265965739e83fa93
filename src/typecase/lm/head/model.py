"""Head: small models on what a frozen encoder and the starter rater see of a text.

    text -> starter rater -> measures, n-grams, leanings ---.-> trees  --.
         -> encoder       -> vector -> kernel: criteria ----'-> kernel --|-> mean -> calibration -> expected scores
                                    -> kernel: domains -----.    starter-'
            starter rater -> leanings -------------------------> mean -> chances

    GramHead     n-grams alone, one linear model: no torch, no measures, the fastest
    EncodedHead  all of the above

A kernel is kernel ridge regression with exp(-gamma |x - y|²) on the rated documents themselves. Documents are read in the
windows of the starter rater; scores and chances are means over windows weighed by bytes.

Price: GramHead some tens of MB a second on one core; EncodedHead that of its encoder, and 5 ms a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.features.ngrams import Weights, count_token_ngrams, weigh_ngrams
from typecase.core.features.scan import Lines, Tokens, new_lines, new_tokens, scan
from typecase.core.features.windows import Windows, cut_windows
from typecase.core.learn.ridge import softmax
from typecase.core.learn.trees import Forest, forest_outputs
from typecase.core.rating import Rubric
from typecase.lm.embedding import PARTS
from typecase.lm.rate.rater import Ratings, unrated
from typecase.lm.starter.model import (
    MAX_WINDOWS,
    WINDOW_BYTES,
    Curve,
    Sight,
    StarterRater,
    batches,
    directions,
    put_documents,
)

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

LIMIT = 3.0
"""What is seen is held within so many deviations of its mean before a kernel compares it."""


class Embedder(Protocol):
    """Anything that turns texts into vectors, float16 (texts, PARTS * width): an Encoder or a VectorStore."""

    def embed(self, texts: list[str]) -> F16: ...


@njit(cache=True, nogil=True)
def _weigh_all(
    values: U8, starts: I64, stops: I64, tokens: Tokens, lines: Lines, counts: I32, touched: I32, weights: Weights, out: F32
) -> None:
    for row in range(len(starts)):
        num_tokens, _ = scan(values[starts[row] : stops[row]], tokens, lines)
        num = count_token_ngrams(tokens, num_tokens, weights.bits, counts, touched)
        weigh_ngrams(counts, touched, num, weights, out[row])


def weigh_texts(values: U8, starts: I64, stops: I64, weights: Weights) -> F32:
    """The weighted n-grams of every text, float32 (texts, outputs)."""
    longest = int((stops - starts).max(initial=0))
    out = np.zeros((len(starts), weights.table.shape[1]), np.float32)
    counts, touched = np.zeros(1 << weights.bits, np.int32), np.zeros(4 * (longest + 1), np.int32)
    _weigh_all(values, starts, stops, new_tokens(longest), new_lines(longest), counts, touched, weights, out)
    return out


@njit(cache=True, nogil=True, fastmath=True)
def _add_kernel(rows: F32, points: F32, duals: F32, gamma: float, out: F32) -> None:
    for row in range(len(rows)):
        for point in range(len(points)):
            distance = np.float32(0)
            for feature in range(rows.shape[1]):
                gap = rows[row, feature] - points[point, feature]
                distance += gap * gap
            near = np.float32(np.exp(-gamma * distance))
            for column in range(duals.shape[1]):
                out[row, column] += near * duals[point, column]


class Kernel(NamedTuple):
    """Kernel ridge regression: start + sum over points of exp(-gamma |row - point|²) * duals."""

    points: F32  # (points, features), of half precision
    duals: F32  # (points, outputs)
    start: F32  # (outputs,)
    gamma: float

    def __call__(self, rows: F32) -> F32:
        """float32 (rows, outputs); a row's numbers depend on that row alone."""
        out = np.tile(self.start, (len(rows), 1))
        _add_kernel(rows, self.points, self.duals, self.gamma, out)
        return out


class VectorModel(NamedTuple):
    """What is read from vectors. Their parts are centred and made of length 1 / sqrt(PARTS)."""

    center: F32  # (PARTS * width,)
    scores: Kernel  # on the parts
    subject: Kernel  # domains, on the last part; half of them
    subject_words: Kernel  # the other half: on the last part and the direction of the word classes

    def __call__(self, vectors: F32, shares: F32) -> F32:
        """Criteria and domains, float32 (rows, criteria + domains)."""
        parts = centred(vectors, self.center)
        late = last_part(parts)
        domains = self.subject(late) + self.subject_words(beside_words(late, shares))
        return np.hstack([self.scores(parts), domains])


def centred(vectors: F32, center: F32) -> F32:
    """Rows whose PARTS parts, less their mean, have length 1 / sqrt(PARTS); half precision in float32."""
    parts = (vectors - center).reshape(len(vectors), PARTS, -1)
    length = np.sqrt((parts * parts).sum(axis=2, keepdims=True))
    scaled = parts / np.maximum(length, np.float32(1e-6)) / np.float32(PARTS**0.5)
    return halved(scaled.reshape(vectors.shape))


def last_part(parts: F32) -> F32:
    """The last part, of length 1."""
    width = parts.shape[1] // PARTS
    return halved(parts[:, -width:] * np.float32(PARTS**0.5))


def beside_words(late: F32, shares: F32) -> F32:
    """The last part, at half its square, beside the direction of the word classes."""
    return np.hstack([beside_late(late), halved(directions(shares))])


def beside_late(late: F32) -> F32:
    """The last part at half its square."""
    return halved(late * np.float32(0.5**0.5))


def halved(values: F32) -> F32:
    """Rounded to half precision."""
    return values.astype(np.float16).astype(np.float32)


class SecondStage(NamedTuple):
    """Scores from all that is seen: trees, a kernel on standardised measures, and the starter's own trees, in the mean."""

    trees: Forest
    center: F32  # (seen,)
    spread: F32  # (seen,)
    kernel: Kernel

    def __call__(self, seen: F32, raw: F32) -> F32:
        """float32 (rows, criteria); `raw` is what the starter's trees say."""
        grown = forest_outputs(self.trees, seen)[:, : raw.shape[1]]
        return (grown + self.kernel(standardised(seen, self.center, self.spread)) + raw) / np.float32(3)


def standardised(seen: F32, center: F32, spread: F32) -> F32:
    """Deviations from the mean, held within LIMIT, half precision in float32."""
    return halved(np.clip((seen - center) / spread, -LIMIT, LIMIT).astype(np.float32))


class Calibration(NamedTuple):
    """From what a model says to what readers said, learned out of fold."""

    scores: tuple[Curve, ...]
    heat: float
    domain: Curve
    trust: Curve


@dataclass(frozen=True, slots=True)
class GramHead:
    """A rater of n-grams alone; see the module."""

    rubric: Rubric
    rubric_text: str
    weights: Weights  # outputs: the criteria, then the domains, then padding
    start: F32  # (criteria + domains,)
    calibration: Calibration
    fingerprint: str = ""
    version: str = "1"
    name: str = "ngram-head"

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Ratings of the documents values[offsets[i]:offsets[i + 1]] in order; any bytes are rated."""
        return _rate(self, self.calibration, values, offsets)

    def look(self, values: U8, windows: Windows) -> tuple[F32, F32, F32]:
        """(scores (windows, criteria), leanings (windows, domains), trust (windows,)) before calibration."""
        said = weigh_texts(values, windows.start, windows.stop, self.weights)[:, : len(self.start)] + self.start
        num_criteria = len(self.rubric.criteria)
        return said[:, :num_criteria], said[:, num_criteria:], summary_column(said[:, :num_criteria], self.rubric)


@dataclass(frozen=True, slots=True)
class EncodedHead:
    """A rater on a frozen encoder and the starter rater; see the module."""

    starter: StarterRater
    encoder: Embedder
    encoder_name: str
    encoder_fingerprint: str
    vectors: VectorModel
    second: SecondStage
    trust: Forest
    calibration: Calibration
    fingerprint: str = ""
    version: str = "1"
    name: str = "head"

    @property
    def rubric(self) -> Rubric:
        """What it rates."""
        return self.starter.rubric

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Ratings of the documents values[offsets[i]:offsets[i + 1]] in order; bytes that are not UTF-8 are rated too."""
        return _rate(self, self.calibration, values, offsets)

    def look(self, values: U8, windows: Windows) -> tuple[F32, F32, F32]:
        """(scores (windows, criteria), leanings (windows, domains), trust (windows,)) before calibration."""
        sight = self.starter.look(values, windows)
        texts = window_texts(values, windows)
        seen, leanings = join_sight(sight, self.vectors(self.encoder.embed(texts).astype(np.float32), sight.shares))
        raw = self.second(seen, sight.raw)
        return raw, leanings, forest_outputs(self.trust, np.hstack([seen, raw]))[:, 0]


def window_texts(values: U8, windows: Windows) -> list[str]:
    """The windows as strings; what is not UTF-8 becomes a replacement character."""
    return [values[a:b].tobytes().decode("utf-8", "replace") for a, b in zip(windows.start, windows.stop, strict=True)]


def join_sight(sight: Sight, said: F32) -> tuple[F32, F32]:
    """(all that the second stage sees, leanings to domains) from the starter's sight and what is read from vectors."""
    num_domains = sight.leanings.shape[1]
    seen = np.hstack([sight.seen, said]).astype(np.float32)
    return seen, ((sight.leanings + said[:, said.shape[1] - num_domains :]) / np.float32(2)).astype(np.float32)


def summary_column(scores: F32, rubric: Rubric) -> F32:
    """The summary criterion, or the mean of all where the rubric names none, float32 (rows,)."""
    if rubric.summary is None:
        mean: F32 = scores.mean(axis=1).astype(np.float32)
        return mean
    summary: F32 = scores[:, rubric.columns.index(rubric.summary)]
    return summary


def _rate(head: GramHead | EncodedHead, calibration: Calibration, values: U8, offsets: I64) -> Ratings:
    ratings = unrated(head.rubric, len(offsets) - 1)
    for first, last in batches(offsets):
        part = offsets[first : last + 1]
        windows = cut_windows(values, part, window_bytes=WINDOW_BYTES, max_windows=MAX_WINDOWS)
        if len(windows.doc) == 0:
            continue
        raw, leanings, trust = head.look(values, windows)
        scores = np.column_stack([curve(raw[:, column]) for column, curve in enumerate(calibration.scores)])
        chances = softmax(np.ascontiguousarray(leanings), heat=calibration.heat)
        put_documents(ratings, first, windows, scores, chances, trust, calibration.trust, calibration.domain)
    return ratings
