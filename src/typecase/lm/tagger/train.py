"""Training of a tagger from twins: words and two forests, each learned on what the one before had not seen.

    pages     twins, mixed pages (tagger_mix), texts without boilerplate (every second twin's)
    words     weights of n-grams; scores of a page come from pages of other generators
    first     forest on words, shape, context; odds of a page come from pages of other generators
    second    forest on these and on the odds around
    then      thresholds (tagger_thresholds), on twins of generators that were not taught

Every line weighs as its page does: a page of a thousand lines counts as ten of ten lines, a family with many pages
likewise; clean lines weigh more the longer they are, for it is characters that must not be lost.

Price: 2 to 4 minutes for 2,000 twins on one core of a shared machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from typecase.core.learn.trees import Forest, Growth
from typecase.core.tagger.boost import grow_chances, log_odds
from typecase.core.tagger.look import Look, look_at, see
from typecase.core.tagger.words import BITS, WordRows, learn_words, word_rows, word_scores
from typecase.core.twins.marks import Twin
from typecase.errors import BadRecipe
from typecase.lm.tagger.mix import mixed_page
from typecase.lm.tagger.model import Tagger, chars_of, with_company
from typecase.lm.tagger.noise import Noise
from typecase.lm.tagger.thresholds import Tagged, Thresholds, chosen, confidence_curve

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Report = Callable[[str], None]


FIRST: Final = Growth(trees=150, depth=6, rate=0.1, rows=0.4, measures=0.3, least_weight=6, damping=5)
SECOND: Final = Growth(trees=110, depth=5, rate=0.1, rows=0.4, measures=0.3, least_weight=6, damping=5)
"""The growth of the two forests: many shallow trees, each on a part of the lines and of the measures."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What shapes a tagger.

    mixed     pages made of parts
    folds     groups of generators that take turns in being held out
    over      share of the clean characters that may be lost, on generators not taught
    touched   share of clean texts that may be touched
    careful   thresholds where no pages are held out to choose them on
    """

    mixed: int = 3000
    folds: int = 4
    first: Growth = FIRST
    second: Growth = SECOND
    epochs: int = 6
    over: float = 0.003
    touched: float = 0.018
    careful: Thresholds = (0.3, 0.7, 0.8)
    stay: float = 0.52
    trust: float = 1.0


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages to learn from, as lines: `truth` says which are boilerplate."""

    look: Look
    rows: WordRows
    page: I64  # of each line
    truth: Flags
    weight: F64
    generator: npt.NDArray[np.str_]  # of each page


def gather(twins: Sequence[Twin]) -> Pages:
    """The pages as rows of lines."""
    look = look_at([twin.text for twin in twins])
    page = np.repeat(np.arange(len(twins)), np.diff(look.pages))
    truth = np.zeros(len(page), np.bool_)
    for at, twin in enumerate(twins):
        rows = slice(look.pages[at], look.pages[at + 1])
        truth[rows] = np.isin(look.number[rows], np.array(twin.gone, np.int64))
    return Pages(
        look,
        word_rows(look.values, look.starts, look.stops),
        page,
        truth,
        _weights(twins, look, page, truth),
        np.array([twin.generator for twin in twins]),
    )


def _weights(twins: Sequence[Twin], look: Look, page: I64, truth: Flags) -> F64:
    families = np.array([f"{twin.family}\0{twin.source}" for twin in twins])
    _, family, sizes = np.unique(families, return_inverse=True, return_counts=True)
    each = 1 / np.sqrt(np.maximum(1, np.diff(look.pages))) / np.sqrt(sizes[family])
    chars = np.minimum(np.expm1(look.shapes[:, 0].astype(np.float64)), 300)
    weight: F64 = each[page] * np.where(truth, 1, 1 + chars / 200)
    weight /= weight.mean()
    return weight


def fit_tagger(
    twins: Sequence[Twin], kinds: Sequence[Noise], settings: Settings, *, seed: int, report: Report = lambda _: None
) -> Tagger:
    """A tagger taught by the twins. Raises BadRecipe where they are of fewer generators than there are folds."""
    if len({twin.generator for twin in twins if twin.gone}) < 2 * settings.folds:
        raise BadRecipe(f"twins of {2 * settings.folds} or more generators with boilerplate are needed to train a tagger")
    mixed = [mixed_page(twins, kinds, seed=seed, number=number) for number in range(settings.mixed)]
    clean = [replace(twin, text=twin.clean, gone=(), source="clean") for twin in twins[::2]]
    pages = gather([*twins, *(page for page in mixed if page.text.strip()), *clean])
    fold = _folds(pages.generator, settings.folds)[pages.page]
    report(f"{len(pages.generator):,} pages, {len(pages.truth):,} lines, {pages.truth.mean():.0%} of them boilerplate")
    everything = np.ones(len(fold), np.bool_)

    def words_of(taught: Flags) -> tuple[I8, float]:
        return _fit_words(pages, taught, settings.epochs, seed=seed)

    scores = np.zeros(len(fold), np.float32)
    for held in range(settings.folds):
        known, scale = words_of(fold != held)
        here = fold == held
        scores[here] = word_scores(pages.look.values, pages.look.starts, pages.look.stops, known, scale)[here]
    words, scale = words_of(everything)
    report("words learned")
    measures = see(pages.look, scores)
    odds = _odds_of_others(measures, pages, fold, settings.first, seed=seed)
    first = grow_chances(measures, pages.truth, pages.weight, settings.first, seed=seed)
    report("first forest grown")
    measures = with_company(pages.look, measures, odds)
    second = grow_chances(measures, pages.truth, pages.weight, settings.second, seed=seed + 1)
    report("second forest grown")
    return Tagger(words, scale, _rounded(first), _rounded(second), settings.stay, settings.trust, *settings.careful)


def _folds(generators: npt.NDArray[np.str_], num: int) -> I64:
    """The fold of each page: generators whole, the largest first into the emptiest."""
    names, counts = np.unique(generators, return_counts=True)
    load, fold = np.zeros(num), {}
    for at in np.lexsort((names, -counts)):
        fold[names[at]] = int(load.argmin())
        load[fold[names[at]]] += counts[at]
    return np.array([fold[name] for name in generators])


def _fit_words(pages: Pages, taught: Flags, epochs: int, *, seed: int) -> tuple[I8, float]:
    """Weights of n-grams that two generators or more have, one byte each, and their scale."""
    rows, generator = pages.rows, pages.generator[pages.page]
    lengths = np.diff(rows.ends)
    owner = np.repeat(np.where(taught, np.unique(generator, return_inverse=True)[1], -1), lengths)
    having = np.zeros(1 << BITS, np.int64)
    for number in np.unique(owner[owner >= 0]):
        having[np.unique(rows.buckets[owner == number])] += 1
    order = np.random.default_rng(seed).permutation(np.flatnonzero(taught))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[order])])
    entries = np.repeat(rows.ends[:-1][order] - ends[:-1], lengths[order]) + np.arange(ends[-1])
    truth = np.where(pages.truth[order], 1.0, -1.0)
    weight = np.minimum(pages.weight[order], 5)
    dense = learn_words(WordRows(ends, rows.buckets[entries]), truth, weight, having >= 2, epochs, 0.3)
    used = np.abs(dense[dense != 0])
    scale = float(np.quantile(used, 0.995)) / 127 if len(used) else 1.0
    return np.clip(np.rint(dense / scale), -127, 127).astype(np.int8), scale


def _odds_of_others(measures: F32, pages: Pages, fold: I64, growth: Growth, *, seed: int) -> F32:
    """The log odds of every line by a forest that saw no page of its fold."""
    odds = np.zeros(len(fold), np.float32)
    for held in range(int(fold.max()) + 1):
        here = fold == held
        forest = grow_chances(measures[~here], pages.truth[~here], pages.weight[~here], growth, seed=seed)
        odds[here] = log_odds(forest, measures[here])
    return odds


def _rounded(forest: Forest) -> Forest:
    """The forest with the precision that its file keeps, so that what was trained and what is read are the same."""
    return replace(forest, leaves=forest.leaves.astype(np.float16).astype(np.float32))


def tagged(tagger: Tagger, twins: Sequence[Twin]) -> Tagged:
    """What the tagger says of the lines of the twins, and of the same texts without boilerplate."""
    pages = gather([*twins, *(replace(twin, text=twin.clean, gone=()) for twin in twins)])
    clean = np.arange(len(pages.generator)) >= len(twins)
    generator = np.unique(pages.generator, return_inverse=True)[1].astype(np.int64)
    return Tagged(tagger.chances(pages.look), pages.truth, chars_of(pages.look), pages.page, generator, clean)


def with_thresholds(tagger: Tagger, seen: Tagged, settings: Settings) -> Tagger:
    """The tagger with the thresholds and the confidences that suit what it said of pages that it was not taught."""
    thresholds = chosen(seen, over=settings.over, touched=settings.touched)
    least, long, sure = thresholds
    return replace(tagger, least=least, long=long, sure=sure, curve=confidence_curve(seen, thresholds))
