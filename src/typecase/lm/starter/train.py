"""Training the starter rater: from rated documents to a model, on one core.

    seeds -> windows, planted copies -> measures, n-grams
      first stage   ridge on n-grams (criteria) and word classes (domains), trees (kinds of damage)
      second stage  trees on the measures and on what the first stage says *out of fold*
      calibration   curves on what the second stage says out of fold

Everything that one stage learns from another is out of fold by source, so no stage sees another's answers to questions
that it was taught. Copies with planted faults stand beside the rated documents: all of them teach the trees that tell
kinds of damage, and with a small weight, rated as their original plus the mean effect that readers saw in such damage,
they teach the scores.

Price: 20 s for 1,600 documents. Equal seeds give equal bytes on one machine; another LAPACK may differ in a last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.features.lexicon import Lexicon
from typecase.core.features.ngrams import Rows, gram, inverse_frequency, primal_weights, row_weights, token_ngrams
from typecase.core.features.windows import Windows, cut_windows, pick_windows
from typecase.core.learn.agreement import monotone_fit
from typecase.core.learn.ridge import softmax, solve
from typecase.core.learn.trees import Forest, Growth, forest_outputs, grow_forest
from typecase.core.rating import Rubric
from typecase.core.selection.keys import derive_seed
from typecase.lm.rate.damage import DAMAGES, plant
from typecase.lm.rate.rater import pack_texts
from typecase.lm.rate.seeds import WIDER, Seeds, source_folds
from typecase.lm.starter.model import (
    MAX_WINDOWS,
    WINDOW_BYTES,
    Curve,
    DomainModel,
    StarterRater,
    class_shares,
    directions,
    see,
    window_shares,
)
from typecase.lm.starter.starter import from_arrays, to_arrays
from typecase.lm.starter.words import WordLists, count_corpus

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]

HIT = 0.5
"""A summary score is a hit if it lies this near to the readers' mean."""
_KINDS = tuple(sorted(DAMAGES))
_HEATS = tuple(0.05 * 1.15**step for step in range(16))


@dataclass(frozen=True, slots=True)
class Settings:
    """What was chosen by hand, on cross-validated figures of the shipped seeds."""

    bits: int = 16
    folds: int = 5
    text_damping: float = 0.15
    domain_damping: float = 0.1
    planted_share: float = 1.5  # planted copies for each undamaged document
    planted_weight: float = 0.05  # of a planted copy among rated documents, where scores are learned
    damage: Growth = field(default_factory=lambda: Growth(150, 4, 0.08, 0.7, 0.3, 3, 3))
    scores: Growth = field(default_factory=lambda: Growth(250, 5, 0.05, 0.7, 0.3, 5, 3))
    trust: Growth = field(default_factory=lambda: Growth(60, 3, 0.08, 0.7, 0.3, 20, 10))


@dataclass(frozen=True, slots=True)
class Corpus:
    """Windows of the rated documents, then of the planted copies, a row each."""

    seeds: Seeds
    values: U8
    windows: Windows
    num_rated: int  # rows of rated documents
    doc: I64  # (rows,): the document, for a copy that of its original
    kind: I64  # (rows,): the kind of planted damage, -1 for a rated document
    share: F64  # (rows,): of its document
    fold: I64  # (rows,)

    @property
    def rated(self) -> slice:
        return slice(0, self.num_rated)


@dataclass(frozen=True, slots=True)
class Learned:
    """A starter rater, and what it says of the rows that it was taught when their fold was not taught.

    seen      float32 (rows, measures + criteria + domains + kinds of damage)
    raw       float32 (rated rows, criteria)   of the trees, before calibration
    leanings  float64 (rows, domains)
    """

    model: StarterRater
    corpus: Corpus
    seen: F32
    raw: F32
    leanings: F64


def fit_model(seeds: Seeds, rubric_text: str, lists: WordLists, settings: Settings, *, seed: int) -> StarterRater:
    """The starter rater that `seeds` teach, rounded as its weights file keeps it."""
    return learn(seeds, rubric_text, lists, settings, seed=seed).model


def learn(seeds: Seeds, rubric_text: str, lists: WordLists, settings: Settings, *, seed: int) -> Learned:
    """Trains a starter rater and keeps what later stages may learn from: all of it out of fold by source."""
    corpus = _make_corpus(seeds, settings, seed=seed)
    undamaged = [row for row in range(len(seeds)) if not seeds.damage[row]]
    texts = [seeds.texts[row].encode("utf-8", "replace") for row in undamaged]
    counts = count_corpus(texts, [seeds.sources[row] for row in undamaged], lists)
    lexicon = counts.lexicon()
    measures = _measure(corpus, counts.lexicon)
    rows = token_ngrams(corpus.values, corpus.windows.start, corpus.windows.stop, bits=settings.bits)
    idf = inverse_frequency(_first_rows(rows, corpus.num_rated), bits=settings.bits)
    weight = row_weights(rows, idf)
    text_gram = gram(rows, weight, bits=settings.bits, against=corpus.num_rated)

    classes = _domain_classes(seeds.rubric, lexicon.classes)
    shares = class_shares(measures, classes, len(lexicon.classes))
    toward = directions(shares).astype(np.float64)
    domain_gram = text_gram + toward @ toward[corpus.rated].T

    texts_out, leanings = _out_of_fold(corpus, text_gram, domain_gram, settings)
    damage_out = _damage_out_of_fold(corpus, measures, settings, seed=seed)
    seen = np.hstack([measures, texts_out, leanings, damage_out]).round(4).astype(np.float32)
    scores, curves, raw = _fit_scores(corpus, seen, settings, seed=seed)
    trust, trust_curve = fit_trust(corpus, seen, raw, curves, settings, seed=seed)
    heat, domain_curve = fit_chances(corpus, leanings)

    real = corpus.rated
    text_duals, text_start = solve(
        text_gram[real], seeds.scores[corpus.doc[real]], corpus.share[real], damping=settings.text_damping
    )
    duals, start = solve(domain_gram[real], seeds.votes[corpus.doc[real]], corpus.share[real], damping=settings.domain_damping)
    model = StarterRater(
        rubric=seeds.rubric,
        rubric_text=rubric_text,
        lexicon=lexicon,
        weights=primal_weights(rows, weight, np.hstack([text_duals, duals]), idf, bits=settings.bits),
        text_start=text_start.astype(np.float32),
        domain=DomainModel(
            classes,
            (toward[real].T @ duals).astype(np.float32),
            start.astype(np.float32),
            heat,
        ),
        damage=_grow_damage(corpus, measures, np.ones(len(corpus.doc), np.bool_), settings, seed=seed),
        scores=scores,
        curves=curves,
        trust=trust,
        trust_curve=trust_curve,
        domain_curve=domain_curve,
    )
    return Learned(from_arrays(to_arrays(model)), corpus, seen, raw, leanings)


def _make_corpus(seeds: Seeds, settings: Settings, *, seed: int) -> Corpus:
    folds = source_folds(seeds.sources, folds=settings.folds, seed=seed)
    undamaged = np.array([row for row in range(len(seeds)) if not seeds.damage[row]], np.int64)
    copies = plant(
        [seeds.texts[row] for row in undamaged],
        [seeds.sources[row] for row in undamaged],
        folds[undamaged].tolist(),
        round(settings.planted_share * len(undamaged)),
        seed=derive_seed(seed, "plant"),
    )
    values, offsets = pack_texts([*seeds.texts, *(text for _, _, text in copies)])
    owner = np.concatenate([np.arange(len(seeds)), undamaged[[row for row, _, _ in copies]]]).astype(np.int64)
    kind = np.concatenate([np.full(len(seeds), -1), [_KINDS.index(name) for _, name, _ in copies]]).astype(np.int64)
    windows = cut_windows(values, offsets, window_bytes=WINDOW_BYTES, max_windows=MAX_WINDOWS)
    _, share = window_shares(windows, len(owner))
    num_rated = int((windows.doc < len(seeds)).sum())
    doc = owner[windows.doc]
    return Corpus(seeds, values, windows, num_rated, doc, kind[windows.doc], share.astype(np.float64), folds[doc])


def _measure(corpus: Corpus, lexicon_without: Callable[[str], Lexicon]) -> F32:
    """The measures of every row, its words' levels counted without its own source."""
    sources = np.array(corpus.seeds.sources)[corpus.doc]
    out: F32 | None = None
    for source in sorted(set(corpus.seeds.sources)):
        rows = np.flatnonzero(sources == source)
        windows = pick_windows(corpus.windows, rows)
        measures, _ = see(corpus.values, windows, lexicon_without(source), None)
        if out is None:
            out = np.zeros((len(corpus.doc), measures.shape[1]), np.float32)
        out[rows] = measures
    assert out is not None
    return out


def _first_rows(rows: Rows, num: int) -> Rows:
    return Rows(rows.ends[: num + 1], rows.buckets[: rows.ends[num]], rows.counts[: rows.ends[num]])


def _domain_classes(rubric: Rubric, classes: tuple[str, ...]) -> I64:
    """The word classes that name a domain of the rubric; all of them if none does."""
    names = {name.casefold() for d in rubric.domains for name in (d.id, *d.aliases)}
    named = [row for row, name in enumerate(classes) if name.removesuffix(WIDER).casefold() in names]
    return np.array(named or range(len(classes)), np.int64)


def _out_of_fold(corpus: Corpus, text_gram: F64, domain_gram: F64, settings: Settings) -> tuple[F64, F64]:
    """What ridge says of every row when its fold was not taught: criteria by n-grams, domains."""
    seeds, real = corpus.seeds, np.arange(len(corpus.doc)) < corpus.num_rated
    texts = np.zeros((len(corpus.doc), seeds.scores.shape[1]))
    leanings = np.zeros((len(corpus.doc), seeds.votes.shape[1]))
    for fold in range(settings.folds):
        taught = np.flatnonzero(real & (corpus.fold != fold))
        asked = np.flatnonzero(corpus.fold == fold)
        share = corpus.share[taught]
        for out, kernel, targets, damping in (
            (texts, text_gram, seeds.scores, settings.text_damping),
            (leanings, domain_gram, seeds.votes, settings.domain_damping),
        ):
            duals, mean = solve(kernel[np.ix_(taught, taught)], targets[corpus.doc[taught]], share, damping=damping)
            out[asked] = kernel[np.ix_(asked, taught)] @ duals + mean
    return texts, leanings


def _grow_damage(corpus: Corpus, measures: F32, taught: Bool, settings: Settings, *, seed: int) -> Forest:
    """Trees that tell planted copies by kind from undamaged documents."""
    damaged = np.array([bool(name) for name in corpus.seeds.damage])[corpus.doc]
    rows = np.flatnonzero(taught & ((corpus.kind >= 0) | ~damaged))
    targets = (corpus.kind[rows, None] == np.arange(len(_KINDS))).astype(np.float64)
    return grow_forest(measures[rows], targets, corpus.share[rows], settings.damage, seed=derive_seed(seed, "damage"))


def _damage_out_of_fold(corpus: Corpus, measures: F32, settings: Settings, *, seed: int) -> F32:
    out = np.zeros((len(corpus.doc), len(_KINDS)), np.float32)
    for fold in range(settings.folds):
        forest = _grow_damage(corpus, measures, corpus.fold != fold, settings, seed=seed)
        asked = corpus.fold == fold
        out[asked] = forest_outputs(forest, measures[asked])
    return out


def _targets(corpus: Corpus, settings: Settings) -> tuple[F64, F64]:
    """(scores to learn, weight) of every row; a copy is rated as its original plus the mean effect of such damage."""
    seeds = corpus.seeds
    targets, weight = seeds.scores[corpus.doc].copy(), corpus.share.copy()
    damage = np.array(seeds.damage)
    for place, name in enumerate(_KINDS):
        rows = corpus.kind == place
        rated = np.flatnonzero((damage == name) & (seeds.original >= 0))
        if len(rated) == 0:
            weight[rows] = 0
            continue
        effect = (seeds.scores[rated] - seeds.scores[seeds.original[rated]]).mean(axis=0)
        targets[rows] = np.clip(targets[rows] + effect, seeds.rubric.low, seeds.rubric.high)
        weight[rows] *= settings.planted_weight
    return targets, weight


def _fit_scores(corpus: Corpus, seen: F32, settings: Settings, *, seed: int) -> tuple[Forest, tuple[Curve, ...], F32]:
    """(trees, a curve for each criterion, what the trees say of rated rows out of fold)."""
    targets, weight = _targets(corpus, settings)
    seed = derive_seed(seed, "scores")
    used = weight > 0
    raw = np.zeros((corpus.num_rated, targets.shape[1]), np.float32)
    for fold in range(settings.folds):
        taught = used & (corpus.fold != fold)
        asked = corpus.fold[corpus.rated] == fold
        forest = grow_forest(seen[taught], targets[taught], weight[taught], settings.scores, seed=seed)
        raw[asked] = forest_outputs(forest, seen[corpus.rated][asked])
    truth, share, rubric = targets[corpus.rated], corpus.share[corpus.rated], corpus.seeds.rubric
    curves = tuple(score_curve(raw[:, c], truth[:, c], share, rubric) for c in range(raw.shape[1]))
    return grow_forest(seen[used], targets[used], weight[used], settings.scores, seed=seed), curves, raw


def in_groups(values: npt.NDArray[Any], truth: F64, weight: F64, *, groups: int) -> tuple[F64, F64, F64]:
    """Means of groups of neighbouring values, about equally many in each: (values, truth, weight)."""
    order = np.argsort(values, kind="stable")
    place = np.arange(len(order)) * groups // len(order)
    mass = np.bincount(place, weight[order]).astype(np.float64)
    return (
        np.bincount(place, (values * weight)[order]) / mass,
        np.bincount(place, (truth * weight)[order]) / mass,
        mass,
    )


def score_curve(raw: F32, truth: F64, weight: F64, rubric: Rubric) -> Curve:
    """The mean rating by what the trees say; beyond the outermost groups it goes on with slope 1 to the ends of the scale."""
    knots, heights = monotone_fit(*in_groups(raw.astype(np.float64), truth, weight, groups=20))
    span = float(rubric.high - rubric.low)
    knots = np.concatenate([[knots[0] - span], knots, [knots[-1] + span]])
    heights = np.concatenate([[heights[0] - span], heights, [heights[-1] + span]])
    return _clipped(knots, heights, float(rubric.low), float(rubric.high))


def _clipped(knots: F64, heights: F64, low: float, high: float) -> Curve:
    """The curve held in [low, high], with a knot where it leaves."""
    rising = np.maximum.accumulate(heights + 1e-9 * np.arange(len(heights)))
    cuts = [float(np.interp(level, rising, knots)) for level in (low, high)]
    inside = (knots > cuts[0]) & (knots < cuts[1])
    at = np.concatenate([[cuts[0]], knots[inside], [cuts[1]]])
    return Curve(at.astype(np.float32), np.clip(np.interp(at, knots, heights), low, high).astype(np.float32))


def summary_of(scores: npt.NDArray[Any], rubric: Rubric) -> npt.NDArray[Any]:
    """The summary criterion of rows of scores, or the mean of all where the rubric names none."""
    if rubric.summary is None:
        mean: npt.NDArray[Any] = scores.mean(axis=1)
        return mean
    column: npt.NDArray[Any] = scores[:, rubric.columns.index(rubric.summary)]
    return column


def fit_trust(
    corpus: Corpus, seen: F32, raw: F32, curves: tuple[Curve, ...], settings: Settings, *, seed: int
) -> tuple[Forest, Curve]:
    """Trees and a curve for how often the summary score is a hit, from where it was one out of fold."""
    rubric, rows = corpus.seeds.rubric, np.hstack([seen[corpus.rated], raw])
    said = np.column_stack([curve(raw[:, column]) for column, curve in enumerate(curves)])
    truth = summary_of(corpus.seeds.scores[corpus.doc[corpus.rated]], rubric)
    hits = (np.abs(summary_of(said, rubric) - truth) <= HIT).astype(np.float64)[:, None]
    share, fold, seed = corpus.share[corpus.rated], corpus.fold[corpus.rated], derive_seed(seed, "trust")
    out = np.zeros(len(rows))
    for asked in range(settings.folds):
        taught = fold != asked
        forest = grow_forest(rows[taught], hits[taught], share[taught], settings.trust, seed=seed)
        out[~taught] = forest_outputs(forest, rows[~taught])[:, 0]
    curve = Curve(*(part.astype(np.float32) for part in monotone_fit(*in_groups(out, hits[:, 0], share, groups=12))))
    return grow_forest(rows, hits, share, settings.trust, seed=seed), curve


def fit_chances(corpus: Corpus, leanings: F64) -> tuple[float, Curve]:
    """The heat at which chances say best what readers chose, and how often the likeliest domain is the readers'."""
    return chances_of(corpus.seeds.votes[corpus.doc[corpus.rated]], corpus.share[corpus.rated], leanings[corpus.rated])


def chances_of(votes: F64, share: F64, leanings: F64) -> tuple[float, Curve]:
    """The same of rows with `votes` (rows, domains), each with its share of a document."""
    said = leanings.astype(np.float32)
    if said.shape[1] == 0:
        return 1.0, Curve(np.zeros(1, np.float32), np.zeros(1, np.float32))
    losses = [-(share * (votes * np.log(softmax(said, heat=heat) + 1e-9)).sum(axis=1)).sum() for heat in _HEATS]
    heat = _HEATS[int(np.argmin(losses))]
    likely = softmax(said, heat=heat)
    top = likely.argmax(axis=1)
    right = votes[np.arange(len(top)), top]
    fitted = monotone_fit(*in_groups(likely.max(axis=1).astype(np.float64), right, share, groups=12))
    return heat, Curve(*(part.astype(np.float32) for part in fitted))
