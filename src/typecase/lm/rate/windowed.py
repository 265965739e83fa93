"""Windowed: any rater over documents of any length, window by window, the document's score a mean by tokens.

    document ─► cut_text ─► [w0][w1][w2][w3]  ─► rater ─► s0 … s3       every token in exactly one window
                              n0  n1  n2  n3               └─► Σ n·s / Σ n      domain: Σ n·chances, then the likeliest

What a window cannot see, repetition across windows and a change of subject, is added by a `Correction` if one is given:

    x = share of word runs that stood in an earlier window            for the criteria in `repetition`
    x = how far the windows' domains differ (Jensen–Shannon)          for the criteria in `drift`
    score' = score - x · (score - lowest level)

`Detail.windows` keeps each window as it was rated, so the mean without correction can be had again: `movement` says how far
a correction moved the scores. With `most_windows` only the head, the tail and middle windows chosen by a hash are read;
`rated_bytes` says how much. A document of one window is rated as the rater itself would.

Price: the inner rater's, over the windows; the windows' texts of one call are in memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.rating import Rubric
from typecase.errors import BadRecipe
from typecase.lm.protocol import fingerprint_of
from typecase.lm.rate.cuts import Count, Cut, byte_bounds, cut_text, sample_of, text_of
from typecase.lm.rate.rater import (
    EMPTY_TEXT,
    F32,
    I64,
    OK,
    PARTIAL,
    RATER_FAILED,
    REPAIRED,
    U8,
    Detail,
    Rater,
    Ratings,
    WindowRating,
    unrated,
)

F64 = npt.NDArray[np.float64]
_RUN_WORDS = 8
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")


@dataclass(frozen=True, slots=True)
class Correction:
    """Criteria by id that are lowered by what no window sees: repetition across windows, and a change of subject."""

    repetition: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowedRater:
    """`inner` on windows of at most `window_tokens`, as `count` counts them; see the module.

    `counter` names the counter in the fingerprint: another tokenizer cuts other windows.
    """

    inner: Rater
    count: Count
    counter: str
    window_tokens: int
    most_windows: int | None = None
    correction: Correction = Correction()

    def __post_init__(self) -> None:
        if self.window_tokens < 1 or (self.most_windows is not None and self.most_windows < 1):
            raise BadRecipe("windows hold 1 token or more and at least 1 is read: see 'tokens' and 'most' of [windows]")
        known = self.rubric.columns
        for criterion in (*self.correction.repetition, *self.correction.drift):
            if criterion not in known:
                raise BadRecipe(f"[windows]: no criterion '{criterion}' to correct; the rubric has {', '.join(known)}")

    @property
    def name(self) -> str:
        """Of the rater within."""
        return self.inner.name

    @property
    def version(self) -> str:
        """Of the rater within."""
        return self.inner.version

    @property
    def rubric(self) -> Rubric:
        """Of the rater within."""
        return self.inner.rubric

    @property
    def batch_docs(self) -> int | None:
        """Of the rater within."""
        return getattr(self.inner, "batch_docs", None)

    @property
    def fingerprint(self) -> str:
        """Of the rater within and of how windows are cut, chosen and joined."""
        correction = [self.correction.repetition, self.correction.drift]
        return fingerprint_of(
            "windowed", 1, self.inner.fingerprint, self.counter, self.window_tokens, self.most_windows, correction
        )

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Ratings of whole documents out of those of their windows."""
        documents = [self._windows(values, int(a), int(b)) for a, b in pairwise(offsets)]
        flat, starts = _packed(values, documents)
        inner = self.inner.rate(flat, starts)
        detail = inner.detail or _no_detail(inner)
        ratings, rows = unrated(self.rubric, len(documents)), []
        first = 0
        for doc, windows in enumerate(documents):
            rows.append(self._join(ratings, doc, windows, inner, detail, first))
            first += len(windows.spans)
        return replace(ratings, detail=_stacked(rows, len(self.rubric.criteria)))

    def windows_of(self, values: U8, offsets: I64) -> tuple[U8, I64]:
        """The windows that `rate` would read, as a batch of their own: for estimates."""
        return _packed(values, [self._windows(values, int(a), int(b)) for a, b in pairwise(offsets)])

    def _windows(self, values: U8, start: int, stop: int) -> _Windows:
        data = values[start:stop].tobytes()
        text = text_of(data)
        cuts = cut_text(text, self.window_tokens, self.count) if text.strip() else []
        picked = sample_of(len(cuts), self.most_windows, blake2b(data, digest_size=16).digest())
        spans = list(byte_bounds(text, cuts))
        return _Windows(
            start,
            [cuts[at] for at in picked],
            [spans[at] for at in picked],
            len(picked) < len(cuts),
            _repeated(text, [cuts[at] for at in picked]) if self.correction.repetition and len(picked) > 1 else 0.0,
        )

    def _join(
        self, ratings: Ratings, doc: int, windows: _Windows, inner: Ratings, detail: Detail, first: int
    ) -> dict[str, Any]:
        """Writes the rating of a document; what there is to say more of it."""
        rows = slice(first, first + len(windows.spans))
        if len(windows.spans) == 1 and not windows.sampled:
            return _copy(ratings, doc, inner, detail, first)
        tokens = np.array([cut.tokens for cut in windows.cuts], np.float64)
        own = _row(detail, rows)
        own["windows"] = _window_ratings(windows, inner, rows, self.rubric)
        if not len(tokens) or (inner.status[rows] == EMPTY_TEXT).all():
            return own
        scores = _mean(inner.scores[rows].astype(np.float64), tokens)
        chances = _mean(inner.domain_chances[rows].astype(np.float64), tokens)
        answered = np.isin(inner.status[rows], (OK, REPAIRED, PARTIAL))
        if not answered.any():
            ratings.status[doc] = RATER_FAILED
            return own
        codes = list(own["codes"])
        drift = _drift(inner.domain_chances[rows].astype(np.float64), tokens) if self.correction.drift else 0.0
        moved = self._correct(scores, windows.repeated, drift)
        read = answered | (inner.status[rows] == EMPTY_TEXT)
        met = {"sampled_windows": windows.sampled, "window_failed": not read.all(), "corrected": moved}
        codes += [code for code, is_met in met.items() if is_met]
        ratings.scores[doc] = scores
        ratings.confidence[doc] = _mean(inner.confidence[rows, None].astype(np.float64), tokens)[0]
        ratings.rated_bytes[doc] = int(inner.rated_bytes[rows][answered].sum())
        missing = bool(np.isnan(scores).any()) or bool(len(self.rubric.domains) and np.isnan(chances).any())
        repaired = not read.all() or (inner.status[rows] == REPAIRED).any()
        ratings.status[doc] = PARTIAL if missing else REPAIRED if repaired else OK
        if len(chances) and not np.isnan(chances).any():
            ratings.domain_chances[doc] = chances
            ratings.domain[doc], ratings.domain_confidence[doc] = int(chances.argmax()), chances.max()
        levels = np.floor(scores + 0.5)
        own["levels"] = np.where(np.isnan(levels), 0, levels).astype(np.int8)
        own["surety"] = _mean(detail.surety[rows].astype(np.float64), tokens)
        own["codes"] = tuple(codes)
        return own

    def _correct(self, scores: F64, repeated: float, drift: float) -> bool:
        """Lowers the named scores in place; whether any moved."""
        before = scores.copy()
        for share, criteria in ((repeated, self.correction.repetition), (drift, self.correction.drift)):
            for criterion in criteria:
                at = self.rubric.columns.index(criterion)
                scores[at] -= share * (scores[at] - self.rubric.low)
        return bool((np.nan_to_num(before) != np.nan_to_num(scores)).any())


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of a document that are read: bytes from `start` on; `repeated` is the share of runs that stood before."""

    start: int
    cuts: list[Cut]
    spans: list[tuple[int, int]]
    sampled: bool
    repeated: float


@dataclass(frozen=True, slots=True)
class Moved:
    """How far a correction moved a criterion's scores: documents it moved, their mean and greatest move in levels."""

    documents: int
    mean: float
    most: float


def movement(ratings: Ratings) -> dict[str, Moved]:
    """What a correction did to each criterion, from the windows that are kept beside the scores."""
    moves: dict[str, list[float]] = {criterion: [] for criterion in ratings.rubric.columns}
    for doc, windows in enumerate(ratings.detail.windows if ratings.detail else ()):
        tokens = np.array([window.tokens for window in windows], np.float64)
        for at, criterion in enumerate(ratings.rubric.columns):
            said = [window.scores.get(criterion) for window in windows]
            plain = _mean(np.array([[math.nan if s is None else s] for s in said], np.float64).reshape(-1, 1), tokens)[0]
            move = abs(float(plain) - float(ratings.scores[doc, at]))
            if move > 1e-5:
                moves[criterion].append(move)
    return {c: Moved(len(own), sum(own) / max(1, len(own)), max(own, default=0.0)) for c, own in moves.items()}


def _mean(rows: F64, tokens: F64) -> F64:
    """Means by tokens over the rows that are not NaN, a column each; NaN where there is none."""
    weight = np.where(np.isnan(rows), 0.0, tokens[:, None])
    total = weight.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: F64 = np.where(total > 0, (np.nan_to_num(rows) * weight).sum(axis=0) / total, math.nan)
    return found


def _repeated(text: str, cuts: Sequence[Cut]) -> float:
    """Share of the runs of eight words that stood in an earlier window."""
    seen: set[tuple[str, ...]] = set()
    again = total = 0
    for cut in cuts:
        words = _WORD.findall(text[cut.start : cut.stop].casefold())
        runs = list(zip(*(words[k:] for k in range(_RUN_WORDS))))
        again, total = again + sum(run in seen for run in runs), total + len(runs)
        seen.update(runs)
    return again / total if total else 0.0


def _drift(chances: F64, tokens: F64) -> float:
    """Jensen–Shannon divergence of the windows' domain chances, by tokens, over its greatest value: 0 alike, 1 disjoint
    (Lin, Divergence measures based on the Shannon entropy, 1991)."""
    known = ~np.isnan(chances).any(axis=1)
    chances, tokens = chances[known], tokens[known]
    if len(tokens) < 2 or chances.shape[1] < 2:
        return 0.0
    share = tokens / tokens.sum()
    greatest = min(_entropy(share), math.log(chances.shape[1]))
    divergence = _entropy(share @ chances) - sum(s * _entropy(row) for s, row in zip(share, chances))
    return min(1.0, max(0.0, float(divergence / greatest)))


def _entropy(chances: F64) -> float:
    real = chances[chances > 0]
    return float(-(real * np.log(real)).sum())


def _packed(values: U8, documents: Sequence[_Windows]) -> tuple[U8, I64]:
    """The windows' bytes, one after the other."""
    parts = [values[own.start + start : own.start + stop] for own in documents for start, stop in own.spans]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return (np.concatenate(parts) if parts else np.zeros(0, np.uint8)), offsets


def _window_ratings(windows: _Windows, inner: Ratings, rows: slice, rubric: Rubric) -> tuple[WindowRating, ...]:
    names = inner.domain_names()[rows]
    return tuple(
        WindowRating(
            start,
            stop,
            cut.tokens,
            {c: None if np.isnan(s) else float(s) for c, s in zip(rubric.columns, inner.scores[rows.start + k])},
            names[k],
        )
        for k, (cut, (start, stop)) in enumerate(zip(windows.cuts, windows.spans))
    )


def _row(detail: Detail, rows: slice) -> dict[str, Any]:
    """What the windows' details come to before any mean."""
    mass = detail.label_mass[rows]
    told = mass[~np.isnan(mass)]
    return {
        "levels": np.zeros(detail.levels.shape[1], np.int8),
        "surety": np.full(detail.levels.shape[1], np.nan, np.float32),
        "label_mass": told.min() if len(told) else np.nan,
        "codes": tuple(dict.fromkeys(code for own in detail.codes[rows] for code in own)),
        "raw": None,
        "windows": (),
    }


def _copy(ratings: Ratings, doc: int, inner: Ratings, detail: Detail, row: int) -> dict[str, Any]:
    for name in ("scores", "domain", "domain_chances", "domain_confidence", "confidence", "status", "rated_bytes"):
        getattr(ratings, name)[doc] = getattr(inner, name)[row]
    return {name: getattr(detail, name)[row] for name in Detail.__dataclass_fields__}


def _stacked(rows: Sequence[dict[str, Any]], num_criteria: int) -> Detail:
    return Detail(
        np.array([row["levels"] for row in rows], np.int8).reshape(-1, num_criteria),
        np.array([row["surety"] for row in rows], np.float32).reshape(-1, num_criteria),
        np.array([row["label_mass"] for row in rows], np.float32),
        tuple(row["codes"] for row in rows),
        tuple(row["raw"] for row in rows),
        tuple(row["windows"] for row in rows),
    )


def _no_detail(ratings: Ratings) -> Detail:
    """For a rater that tells none: the nearest levels, and nothing else."""
    levels = np.floor(ratings.scores + np.float32(0.5))
    nothing: F32 = np.full(ratings.scores.shape, np.nan, np.float32)
    num = len(ratings)
    return Detail(
        np.where(np.isnan(levels), 0, levels).astype(np.int8),
        nothing,
        np.full(num, np.nan, np.float32),
        ((),) * num,
        (None,) * num,
        ((),) * num,
    )
