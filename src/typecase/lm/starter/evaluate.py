"""Evaluating a fitted rater: every document is rated by a model that never saw its source, as users' documents are.

    fold 1 of sources <- model of folds 2..5        the whole of training anew: words, n-grams, planted copies, trees,
    fold 2 of sources <- model of folds 1, 3..5     curves; then the weights are rounded, and the code that users run rates

Beside every figure stand what costs nothing (the most frequent answer, length alone, a readability formula), the classical
baseline (ridge on hashed byte n-grams), and how far readers agree with each other, which no rater can be shown to pass.

Price: one training for each fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.features.ngrams import byte_ngrams, gram, inverse_frequency, row_weights
from typecase.core.learn.agreement import (
    calibration_error,
    macro_f1,
    mean_absolute_error,
    quadratic_kappa,
    reliability,
    spearman,
)
from typecase.core.learn.bootstrap import drawn_interval, group_draws
from typecase.core.learn.ridge import solve
from typecase.core.rating import Rubric
from typecase.core.selection.keys import derive_seed
from typecase.lm.rate.rater import Rater, pack_texts
from typecase.lm.rate.seeds import Seeds, source_folds
from typecase.lm.starter.readability import reading_ease
from typecase.lm.starter.train import HIT, summary_of

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

FOLDS = 5
_BASELINE_BITS = 18
_BASELINE_DAMPING = 0.3
_BOOTSTRAPS = 500
_BINS = 10


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What was said of every document by models that never saw its source. Rows are documents."""

    scores: F64
    domain: I64
    domain_confidence: F64
    confidence: F64
    ridge_scores: F64
    ridge_domain: I64
    length_scores: F64
    readability_scores: F64
    common_scores: F64
    common_domain: I64


def rate_held_out(seeds: Seeds, fit: Callable[[Seeds], Rater], *, seed: int) -> HeldOut:
    """Cross-validates over sources: the rater that `fit` makes and those that it is compared with, on the same folds."""
    folds = source_folds(seeds.sources, folds=FOLDS, seed=derive_seed(seed, "evaluate"))
    num_docs, num_criteria = seeds.scores.shape
    said = {name: np.zeros((num_docs, num_criteria)) for name in ("rater", "ridge", "length", "readability", "common")}
    domain = {name: np.zeros(num_docs, np.int64) for name in ("rater", "ridge", "common")}
    domain_confidence, confidence = np.zeros(num_docs), np.zeros(num_docs)
    kernel = _byte_gram(seeds)
    log_bytes = np.log([1 + len(text.encode("utf-8", "replace")) for text in seeds.texts])
    ease = np.array([reading_ease(text) for text in seeds.texts])
    for fold in range(FOLDS):
        taught, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        rater = fit(seeds.pick(taught))
        ratings = rater.rate(*pack_texts([seeds.texts[doc] for doc in asked]))
        said["rater"][asked], domain["rater"][asked] = ratings.scores, ratings.domain
        domain_confidence[asked], confidence[asked] = ratings.domain_confidence, ratings.confidence
        targets = np.hstack([seeds.scores, seeds.votes])[taught]
        duals, mean = solve(kernel[np.ix_(taught, taught)], targets, np.ones(len(taught)), damping=_BASELINE_DAMPING)
        plain = kernel[np.ix_(asked, taught)] @ duals + mean
        said["ridge"][asked], domain["ridge"][asked] = plain[:, :num_criteria], plain[:, num_criteria:].argmax(axis=1)
        said["common"][asked], domain["common"][asked] = mean[:num_criteria], int(mean[num_criteria:].argmax())
        for name, seen in (("length", log_bytes), ("readability", ease)):
            for column in range(num_criteria):
                curve = np.polyfit(seen[taught], seeds.scores[taught, column], 2)
                said[name][asked, column] = np.polyval(curve, seen[asked])
    return HeldOut(
        said["rater"],
        domain["rater"],
        domain_confidence,
        confidence,
        said["ridge"],
        domain["ridge"],
        said["length"],
        said["readability"],
        said["common"],
        domain["common"],
    )


def _byte_gram(seeds: Seeds) -> F64:
    values, offsets = pack_texts(seeds.texts)
    rows = byte_ngrams(values, offsets[:-1], offsets[1:], low=3, high=6, bits=_BASELINE_BITS)
    weight = row_weights(rows, inverse_frequency(rows, bits=_BASELINE_BITS))
    return gram(rows, weight, bits=_BASELINE_BITS, against=len(seeds))


def figures_of(seeds: Seeds, held: HeldOut, pairs: tuple[F64, F64, int]) -> dict[str, Any]:
    """Everything that the card says was measured, as plain numbers; `pairs` are from `seeds.reader_pairs`."""
    rubric = seeds.rubric
    left, right, num_often = pairs
    truth, said = summary_of(seeds.scores, rubric), summary_of(held.scores, rubric)
    label = seeds.votes.argmax(axis=1)
    high = truth >= (rubric.low + rubric.high) / 2
    hits = np.abs(said - truth) <= HIT
    right_domain = seeds.votes[np.arange(len(label)), held.domain]
    return {
        "documents": len(seeds),
        "sources": len(set(seeds.sources)),
        "variants": int((seeds.original >= 0).sum()),
        "criteria": {
            name: _criterion_figures(rubric, column, seeds, held, left, right) for column, name in enumerate(rubric.columns)
        },
        "summary": {
            "rho_interval": _interval(seeds.sources, lambda rows: spearman(said[rows], truth[rows])),
            "rho_upper_range": spearman(said[high], truth[high]),
            "within_one": float((np.abs(said - truth) <= 1).mean()),
            "two_class": float(((said >= 3) == (truth >= 3)).mean()),
            "spread_said": float(said.std()),
            "spread_readers": float(truth.std()),
            "hit_rate": float(hits.mean()),
            "confidence_error": calibration_error(held.confidence, hits, num_bins=_BINS),
            "confidence_bins": reliability(held.confidence, hits, num_bins=_BINS),
        },
        "domain": {
            "accuracy": float((held.domain == label).mean()),
            "accuracy_interval": _interval(seeds.sources, lambda rows: float((held.domain[rows] == label[rows]).mean())),
            "macro_f1": macro_f1(held.domain, label, num_classes=len(rubric.domains)),
            "ridge_accuracy": float((held.ridge_domain == label).mean()),
            "ridge_macro_f1": macro_f1(held.ridge_domain, label, num_classes=len(rubric.domains)),
            "common_accuracy": float((held.common_domain == label).mean()),
            "common_macro_f1": macro_f1(held.common_domain, label, num_classes=len(rubric.domains)),
            "readers_agree": float((left[:, -1] == right[:, -1]).mean()) if num_often else None,
            "confidence_error": calibration_error(held.domain_confidence, right_domain, num_bins=_BINS),
            "confidence_bins": reliability(held.domain_confidence, right_domain, num_bins=_BINS),
        },
        "read_often": num_often,
        "length": _length_figures(seeds, said, truth),
        "damage": _damage_figures(seeds, said, truth),
    }


def _criterion_figures(
    rubric: Rubric, column: int, seeds: Seeds, held: HeldOut, left: F64, right: F64
) -> dict[str, float | None]:
    truth, said = seeds.scores[:, column], held.scores[:, column]

    def kappa(a: F64, b: F64) -> float:
        return quadratic_kappa(a, b, low=rubric.low, high=rubric.high)

    return {
        "rho": spearman(said, truth),
        "kappa": kappa(said, truth),
        "macro_f1": levels_f1(said, truth, rubric),
        "error": mean_absolute_error(said, truth),
        "calibration": _calibration_gap(said, truth),
        "ridge_rho": spearman(held.ridge_scores[:, column], truth),
        "ridge_kappa": kappa(held.ridge_scores[:, column], truth),
        "length_rho": spearman(held.length_scores[:, column], truth),
        "readability_rho": spearman(held.readability_scores[:, column], truth),
        "common_f1": levels_f1(held.common_scores[:, column], truth, rubric),
        "common_error": mean_absolute_error(held.common_scores[:, column], truth),
        "readers_kappa": kappa(left[:, column], right[:, column]) if len(left) else None,
    }


def levels_f1(said: F64, truth: F64, rubric: Rubric) -> float:
    """Macro-F1 of scores rounded to whole levels, halves upwards."""
    a, b = (np.clip(np.floor(x + 0.5), rubric.low, rubric.high).astype(np.int64) - rubric.low for x in (said, truth))
    return macro_f1(a, b, num_classes=rubric.high - rubric.low + 1)


def _calibration_gap(said: F64, truth: F64) -> float:
    """Mean distance of what was said and what is true over ten groups of equally many documents, in levels."""
    groups = np.array_split(np.argsort(said, kind="stable"), _BINS)
    return float(np.mean([abs(said[rows].mean() - truth[rows].mean()) for rows in groups]))


def _interval(sources: Sequence[str], figure: Callable[[I64], float]) -> tuple[float, float]:
    return drawn_interval(figure, group_draws(sources, _BOOTSTRAPS))


def _length_figures(seeds: Seeds, said: F64, truth: F64) -> dict[str, float]:
    """Pairs of documents within 5 % of each other's length that readers rate a level or more apart."""
    size = np.array([len(text.encode("utf-8", "replace")) for text in seeds.texts], np.float64)
    order = np.argsort(size, kind="stable")
    right = longer = pairs = 0
    for at, doc in enumerate(order):
        near = order[at + 1 : at + 1 + int(np.searchsorted(size[order[at + 1 :]], size[doc] * 1.05))]
        near = near[np.abs(truth[near] - truth[doc]) >= 1]
        pairs += len(near)
        right += int(((said[near] > said[doc]) == (truth[near] > truth[doc])).sum())
        longer += int((truth[near] > truth[doc]).sum())
    return {"pairs": pairs, "right": right / max(1, pairs), "longer_right": longer / max(1, pairs)}


def _damage_figures(seeds: Seeds, said: F64, truth: F64) -> Mapping[str, dict[str, float]]:
    """By kind of damage in the seeds: the mean change of the summary from original to variant, as read and as rated."""
    out = {}
    for kind in sorted(set(seeds.damage) - {""}):
        rows = np.flatnonzero((np.array(seeds.damage) == kind) & (seeds.original >= 0))
        was = seeds.original[rows]
        if len(rows):
            out[kind] = {
                "variants": len(rows),
                "readers": float((truth[rows] - truth[was]).mean()),
                "rater": float((said[rows] - said[was]).mean()),
                "lower": float((said[rows] < said[was]).mean()),
            }
    return out
