"""Rater: anything that reads documents and says scores, a domain, and how sure it is.

    rater.rate(values, offsets) -> Ratings          a batch of an Arrow string column, one row a document, none lost

The text is never touched, and a document without a rating is a row with a reason, not a gap. `FakeRater` is a rater for
tests: it says what a document's bytes imply by a fixed rule, and needs no weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
import numpy.typing as npt

from typecase.core.rating import STATUSES, Rating, Rubric

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

OK, EMPTY_TEXT, RATER_FAILED, REPAIRED, PARTIAL = range(len(STATUSES))


@dataclass(frozen=True, slots=True)
class WindowRating:
    """What a rater said of one window of a long document: bytes [start, stop) of its text, tokens, expected scores, domain."""

    start: int
    stop: int
    tokens: int
    scores: Mapping[str, float | None]
    domain: str | None


@dataclass(frozen=True, slots=True)
class Detail:
    """What some raters can say more of each document; rows as in `Ratings`.

    levels       int8 (docs, criteria)      the whole level as it was answered or is likeliest; 0 where missing
    surety       float32 (docs, criteria)   chance of that level; NaN where the rater tells none
    label_mass   float32 (docs,)            least share of the model's wish that went to any label at all; NaN untold
    codes        reason codes, in the order they were found; () where nothing was remarkable
    raw          the answer as it came, or None
    windows      what was said of each window, in order; () where the text was read whole
    """

    levels: npt.NDArray[np.int8]
    surety: F32
    label_mass: F32
    codes: tuple[tuple[str, ...], ...]
    raw: tuple[str | None, ...]
    windows: tuple[tuple[WindowRating, ...], ...]


@dataclass(frozen=True, slots=True)
class Ratings:
    """Ratings of a batch, a row a document. What was not rated is NaN, its domain -1; see STATUSES.

    scores             float32 (docs, criteria)  expected values on the rubric's scale, columns as rubric.columns
    domain             int16 (docs,)             row in rubric.labels
    domain_chances     float32 (docs, domains)   sum to 1
    domain_confidence  float32 (docs,)           calibrated: how often a domain said so surely is the readers'
    confidence         float32 (docs,)           calibrated: how often a summary score said so surely is within half a level
    status             uint8 (docs,)             row in rating.STATUSES
    rated_bytes        int64 (docs,)             bytes that were read
    """

    rubric: Rubric
    scores: F32
    domain: npt.NDArray[np.int16]
    domain_chances: F32
    domain_confidence: F32
    confidence: F32
    status: U8
    rated_bytes: I64
    detail: Detail | None = None

    def __post_init__(self) -> None:
        shape = (len(self.status), len(self.rubric.criteria))
        if self.scores.shape != shape or self.domain_chances.shape != (shape[0], len(self.rubric.domains)):
            raise ValueError(f"ratings of {shape[0]} documents need scores of shape {shape}, got {self.scores.shape}")
        failed = (self.status == EMPTY_TEXT) | (self.status == RATER_FAILED)
        if np.isnan(self.scores[self.rated]).any() or not np.isnan(self.scores[failed]).all():
            raise ValueError("a document has every score if its status is ok or repaired, and none if it failed")

    def __len__(self) -> int:
        return len(self.status)

    @property
    def rated(self) -> npt.NDArray[np.bool_]:
        """Which documents have every score, bool (docs,)."""
        rated: npt.NDArray[np.bool_] = (self.status == OK) | (self.status == REPAIRED)
        return rated

    def domain_names(self) -> list[str | None]:
        """The domain of each document, None where there is none."""
        labels = self.rubric.labels
        return [labels[label] if label >= 0 else None for label in self.domain.tolist()]

    def status_names(self) -> list[str]:
        """The status of each document in words."""
        return [STATUSES[code] for code in self.status.tolist()]

    def row(self, doc: int) -> Rating:
        """The rating of one document."""
        label = int(self.domain[doc])
        return Rating(
            {c: _value(self.scores[doc, k]) for k, c in enumerate(self.rubric.columns)},
            self.rubric.labels[label] if label >= 0 else None,
            _value(self.domain_confidence[doc]),
            _value(self.confidence[doc]),
            STATUSES[int(self.status[doc])],
            int(self.rated_bytes[doc]),
        )


def _value(number: np.float32) -> float | None:
    return None if np.isnan(number) else float(number)


class Rater(Protocol):
    """A rater of documents. Two raters of one fingerprint say the same of the same text, on any machine."""

    @property
    def name(self) -> str:
        """What the rater is called in tables and reports."""

    @property
    def version(self) -> str:
        """Changes whenever the rater may say something else."""

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over the weights, the rubric and all that the ratings depend on."""

    @property
    def rubric(self) -> Rubric:
        """What it rates."""

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Ratings of the documents values[offsets[i]:offsets[i + 1]], UTF-8, in order; independent of the batch."""


def pack_texts(texts: Sequence[str]) -> tuple[U8, I64]:
    """Strings as one buffer: (values uint8, offsets int64 (texts + 1,)). Lone surrogates become question marks."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def unrated(rubric: Rubric, num_docs: int) -> Ratings:
    """Ratings of documents of which nothing was said yet: arrays to be filled, every status `empty_text`."""
    num_criteria, num_domains = len(rubric.criteria), len(rubric.domains)
    return Ratings(
        rubric,
        np.full((num_docs, num_criteria), np.nan, np.float32),
        np.full(num_docs, -1, np.int16),
        np.full((num_docs, num_domains), np.nan, np.float32),
        np.full(num_docs, np.nan, np.float32),
        np.full(num_docs, np.nan, np.float32),
        np.full(num_docs, EMPTY_TEXT, np.uint8),
        np.zeros(num_docs, np.int64),
    )


@dataclass(frozen=True, slots=True)
class FakeRater:
    """A rater for tests: scores and domain are digits of a hash of the text; white space alone is `empty_text`."""

    rubric: Rubric
    name: str = "fake"
    version: str = "1"

    @property
    def fingerprint(self) -> str:
        """Of the rule and the rubric."""
        return blake2b(f"{self.name}\0{self.version}\0{self.rubric.fingerprint}".encode(), digest_size=16).hexdigest()

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Ratings that depend on each document's bytes alone."""
        ratings = unrated(self.rubric, len(offsets) - 1)
        span = self.rubric.high - self.rubric.low
        for doc in range(len(ratings)):
            text = values[offsets[doc] : offsets[doc + 1]].tobytes()
            if not text.strip():
                continue
            dice = np.random.default_rng(list(blake2b(text, digest_size=8).digest()))
            ratings.scores[doc] = self.rubric.low + span * dice.random(len(self.rubric.criteria))
            ratings.confidence[doc] = dice.random()
            ratings.status[doc], ratings.rated_bytes[doc] = OK, len(text)
            if self.rubric.domains:
                chances = dice.dirichlet(np.ones(len(self.rubric.domains)))
                ratings.domain_chances[doc] = chances
                ratings.domain[doc], ratings.domain_confidence[doc] = int(chances.argmax()), chances.max()
        return ratings
