"""Training a head: from rated documents and vectors of a frozen encoder to a rater, in minutes on a processor.

    starter rater, learned anew on the same documents                out of fold by source
    kernels on vectors: criteria, domains                            out of fold by source
    second stage on what both say out of fold                        trees and a kernel
    calibration and confidence on what the second stage says         out of fold by source

The rule of lm/starter/train holds at every level: what a later stage learns from was said by models that were not taught the
source that they speak of; a damaged variant lies in the fold of its original. Centres and spreads are means over the
taught rows and hold no answers.

Price: that of the starter rater, and three solutions of a system as large as the number of documents for each fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from typecase.core.features.ngrams import gram, inverse_frequency, primal_weights, row_weights, token_ngrams
from typecase.core.features.windows import cut_windows, pick_windows
from typecase.core.learn.ridge import solve
from typecase.core.learn.trees import grow_forest
from typecase.core.selection.keys import derive_seed
from typecase.lm.head.file import arrays_of, encoded_head_of, gram_head_of
from typecase.lm.head.model import (
    Calibration,
    Embedder,
    EncodedHead,
    GramHead,
    Kernel,
    SecondStage,
    VectorModel,
    beside_words,
    centred,
    halved,
    join_sight,
    last_part,
    standardised,
    summary_column,
    window_texts,
)
from typecase.lm.rate.rater import pack_texts
from typecase.lm.rate.seeds import Seeds, source_folds
from typecase.lm.starter.model import (
    MAX_WINDOWS,
    WINDOW_BYTES,
    Curve,
    Sight,
    class_shares,
    window_shares,
)
from typecase.lm.starter.train import (
    HIT,
    Settings,
    chances_of,
    fit_chances,
    fit_trust,
    in_groups,
    learn,
    score_curve,
)
from typecase.lm.starter.words import WordLists

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """What was chosen by hand, on cross-validated figures of the shipped seeds."""

    starter: Settings = field(default_factory=Settings)
    bits: int = 16  # of the n-gram head
    gram_damping: float = 0.15
    score_gamma: float = 1.0
    score_damping: float = 0.15
    subject_gamma: float = 0.5
    subject_damping: float = 0.2
    second_gamma: float = 0.5  # over the number of things seen
    second_damping: float = 0.3
    folds: int = 5


def fit_gram_head(seeds: Seeds, rubric_text: str, settings: HeadSettings, *, seed: int) -> GramHead:
    """The n-gram head that `seeds` teach, rounded as its file keeps it."""
    values, offsets = pack_texts(seeds.texts)
    windows = cut_windows(values, offsets, window_bytes=WINDOW_BYTES, max_windows=MAX_WINDOWS)
    _, share = window_shares(windows, len(seeds))
    weight_of, doc = share.astype(np.float64), windows.doc
    rows = token_ngrams(values, windows.start, windows.stop, bits=settings.bits)
    idf = inverse_frequency(rows, bits=settings.bits)
    weight = row_weights(rows, idf)
    kernel = gram(rows, weight, bits=settings.bits, against=len(doc))
    targets = np.hstack([seeds.scores, seeds.votes])[doc]
    fold = source_folds(seeds.sources, folds=settings.folds, seed=seed)[doc]

    def said_of(taught: I64, asked: I64) -> F64:
        duals, mean = solve(kernel[np.ix_(taught, taught)], targets[taught], weight_of[taught], damping=settings.gram_damping)
        return np.asarray(kernel[np.ix_(asked, taught)] @ duals + mean)

    held = _out_of_fold(fold, settings.folds, said_of)
    num_criteria = len(seeds.rubric.criteria)
    raw, leanings = held[:, :num_criteria].astype(np.float32), held[:, num_criteria:]
    calibration = _calibrate(seeds, doc, weight_of, raw, leanings, trust=_trust_by_score(seeds, doc, weight_of, raw))
    duals, start = solve(kernel, targets, weight_of, damping=settings.gram_damping)
    head = GramHead(
        seeds.rubric,
        rubric_text,
        primal_weights(rows, weight, duals, idf, bits=settings.bits),
        start.astype(np.float32),
        calibration,
    )
    return gram_head_of(arrays_of(head))


def fit_encoded_head(
    seeds: Seeds,
    rubric_text: str,
    lists: WordLists,
    encoder: Embedder,
    settings: HeadSettings,
    *,
    encoder_name: str,
    encoder_fingerprint: str,
    seed: int,
) -> EncodedHead:
    """The head on `encoder` that `seeds` teach, rounded as its file keeps it; it rates with the same `encoder`."""
    learned = learn(seeds, rubric_text, lists, settings.starter, seed=seed)
    corpus, model, real = learned.corpus, learned.model, learned.corpus.rated
    doc, share, fold = corpus.doc[real], corpus.share[real], corpus.fold[real]
    targets = np.hstack([seeds.scores, seeds.votes])[doc]
    rated = pick_windows(corpus.windows, real)
    vectors = encoder.embed(window_texts(corpus.values, rated)).astype(np.float32)
    num_classes, num_seen = len(model.lexicon.classes), learned.seen.shape[1]
    num_measures = num_seen - len(seeds.rubric.criteria) - len(seeds.rubric.domains) - learned.model.damage.leaves.shape[2]
    shares = class_shares(learned.seen[real, :num_measures], model.domain.classes, num_classes)

    def vector_model(taught: I64) -> VectorModel:
        return _fit_vectors(vectors[taught], shares[taught], targets[taught], share[taught], seeds, settings)

    said = _out_of_fold(fold, settings.starter.folds, lambda t, a: vector_model(t)(vectors[a], shares[a]))
    sight = Sight(shares, learned.leanings[real].astype(np.float32), learned.seen[real], learned.raw)
    seen, leanings = join_sight(sight, said.astype(np.float32))
    scores = seeds.scores[doc]

    def second_stage(taught: I64) -> SecondStage:
        return _fit_second(seen[taught], scores[taught], share[taught], settings, seed=derive_seed(seed, "second"))

    raw = _out_of_fold(fold, settings.starter.folds, lambda t, a: second_stage(t)(seen[a], learned.raw[a])).astype(np.float32)
    curves = tuple(score_curve(raw[:, c], scores[:, c], share, seeds.rubric) for c in range(raw.shape[1]))
    trust, trust_curve = fit_trust(corpus, seen, raw, curves, settings.starter, seed=seed)
    heat, domain_curve = fit_chances(corpus, leanings.astype(np.float64))
    every = np.arange(len(doc))
    head = EncodedHead(
        model,
        encoder,
        encoder_name,
        encoder_fingerprint,
        vector_model(every),
        second_stage(every),
        trust,
        Calibration(curves, heat, domain_curve, trust_curve),
    )
    return encoded_head_of(arrays_of(head), encoder)


def _out_of_fold(fold: I64, folds: int, said_of: Callable[[I64, I64], npt.NDArray[np.floating]]) -> F64:
    """What is said of every row by a model of the other folds: said_of(taught rows, asked rows)."""
    out: F64 | None = None
    for held in range(folds):
        taught, asked = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        if len(asked) == 0:
            continue
        said = said_of(taught, asked)
        if out is None:
            out = np.zeros((len(fold), said.shape[1]))
        out[asked] = said
    assert out is not None
    return out


def _fit_kernel(points: F32, targets: F64, share: F64, *, gamma: float, damping: float) -> Kernel:
    duals, start = solve(_nearness(points, gamma), targets, share, damping=damping)
    return Kernel(points, duals.astype(np.float32), start.astype(np.float32), gamma)


def _nearness(points: F32, gamma: float) -> F64:
    wide = points.astype(np.float64)
    square = (wide * wide).sum(axis=1)
    return np.asarray(np.exp(-gamma * np.maximum(0, np.add.outer(square, square) - 2 * wide @ wide.T)))


def _fit_vectors(vectors: F32, shares: F32, targets: F64, share: F64, seeds: Seeds, settings: HeadSettings) -> VectorModel:
    center = vectors.mean(axis=0).astype(np.float32)
    parts = centred(vectors, center)
    late = last_part(parts)
    beside = beside_words(late, shares)
    num_criteria = len(seeds.rubric.criteria)
    scores = _fit_kernel(parts, targets[:, :num_criteria], share, gamma=settings.score_gamma, damping=settings.score_damping)
    # One system for both halves: their kernels add, so their duals are the same.
    both = _nearness(late, settings.subject_gamma) + _nearness(beside, 2 * settings.subject_gamma)
    duals, start = solve(both, targets[:, num_criteria:], share, damping=settings.subject_damping)
    shared, half = duals.astype(np.float32), (start / 2).astype(np.float32)
    return VectorModel(
        center,
        scores,
        Kernel(late, shared, half, settings.subject_gamma),
        Kernel(beside, shared, half, 2 * settings.subject_gamma),
    )


def _fit_second(seen: F32, scores: F64, share: F64, settings: HeadSettings, *, seed: int) -> SecondStage:
    center, spread = seen.mean(axis=0).astype(np.float32), (seen.std(axis=0) + 1e-6).astype(np.float32)
    points = standardised(seen, center, spread)
    gamma = settings.second_gamma / seen.shape[1]
    kernel = _fit_kernel(points, scores, share, gamma=gamma, damping=settings.second_damping)
    trees = grow_forest(seen, scores, share, settings.starter.scores, seed=seed)
    return SecondStage(replace(trees, leaves=halved(trees.leaves)), center, spread, kernel)


def _calibrate(seeds: Seeds, doc: I64, share: F64, raw: F32, leanings: F64, *, trust: Curve) -> Calibration:
    scores = seeds.scores[doc]
    curves = tuple(score_curve(raw[:, c], scores[:, c], share, seeds.rubric) for c in range(raw.shape[1]))
    heat, domain = chances_of(seeds.votes[doc], share, leanings)
    return Calibration(curves, heat, domain, trust)


def _trust_by_score(seeds: Seeds, doc: I64, share: F64, raw: F32) -> Curve:
    """How often the summary is a hit, by what is said: means of ten groups, straight lines between."""
    said = summary_column(raw, seeds.rubric).astype(np.float64)
    truth = summary_column(seeds.scores[doc].astype(np.float32), seeds.rubric).astype(np.float64)
    curve = score_curve(said.astype(np.float32), truth, share, seeds.rubric)
    hits = (np.abs(curve(said.astype(np.float32)) - truth) <= HIT).astype(np.float64)
    knots, heights, _ = in_groups(said, hits, share, groups=10)
    return Curve(knots.astype(np.float32), heights.astype(np.float32))
