"""Analysing: what ratings say of a corpus, and what the ratings are worth. One function: `analyse`.

    analyse([ratings, …], docs=…, perplexity=…, selection=…) -> Analysis
    |- sets       of each annotation set: criteria, correlations, principal axes, groups, curves
    `- examples   a few documents of the first set for each criterion, source and level

Every figure names its sample: all rated rows of a set, or those that have both quantities. Nothing is upsampled, missing
values are removed pairwise and counted, constant columns are reported as such. Numbers only: pictures are made elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from typecase.app.analyse.examples import Example, examples_of
from typecase.app.analyse.scan import LENGTH, SURPRISE, Groups, Scan, scan
from typecase.app.analyse.sets import RatingSet, open_set, side_parts
from typecase.core.rating import Rubric
from typecase.core.statistics.axes import Axes, principal_axes
from typecase.core.statistics.joint import Rank, Scale, curve_of, spearman_of
from typecase.errors import BadQuery, FixInput
from typecase.recipe.progress import Reporter
from typecase.store.atomic import content_hash
from typecase.store.manifest import NAME, read_manifest

HISTOGRAM = 64
SLICES = 12
"""Points of a curve of scores over length or perplexity."""


@dataclass(frozen=True, slots=True)
class CriterionFacts:
    """One criterion over all rows that have it. `levels` counts rows by rounded score, from the lowest level of the scale.

    `alias` is the rubric's first alias where that could be a column name too: it says what a short id may hide.
    """

    id: str
    name: str
    alias: str
    rows: int
    missing: int
    outside: int
    constant: bool
    mean: float
    variance: float
    levels: tuple[int, ...]
    pearson_with_summary: float
    spearman_with_summary: Rank


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One source or domain: its rows, mean and levels of every criterion, and how many rows are good by the summary."""

    name: str
    rows: int
    means: tuple[float, ...]
    levels: tuple[tuple[int, ...], ...]
    good: int
    judged: int


@dataclass(frozen=True, slots=True)
class Point:
    """Rows of one slice: the quantity at its median, the score's mean and quartiles there."""

    rows: int
    x: float
    mean: float
    quarter: float
    median: float
    three_quarters: float


@dataclass(frozen=True, slots=True)
class Curve:
    """How one criterion goes with a quantity: bytes of text, or nats a token."""

    criterion: str
    rank: Rank
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """A label's rows before a selection and after it."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a selection did to the rated rows."""

    before: int
    after: int
    sources: tuple[Share, ...]
    domains: tuple[Share, ...]
    levels: tuple[Share, ...]
    lengths: tuple[Share, ...]
    means: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class SetFacts:
    """All that is known of one annotation set. Matrices are float (criteria, criteria), NaN where a column is constant.

    `histogram` counts rows by the summary in HISTOGRAM bins of equal width over the scale, empty without a summary;
    `reasons` are rows of (status or code, its name, source, documents): how they were rated, and what raters' answers lacked.
    """

    name: str
    content: str
    rubric: Rubric
    found_scale: bool
    rows: int
    readings: int
    statuses: tuple[tuple[str, int], ...]
    codes: tuple[tuple[str, int], ...]
    reasons: tuple[tuple[str, str, str, int], ...]
    good_from: float
    histogram: tuple[int, ...]
    criteria: tuple[CriterionFacts, ...]
    correlation: tuple[tuple[float, ...], ...]
    pair_rows: tuple[tuple[int, ...], ...]
    axes: Axes
    sources: tuple[GroupFacts, ...]
    domains: tuple[GroupFacts, ...]
    crossed: tuple[tuple[int, ...], ...]
    without_source: int
    length: tuple[Curve, ...]
    surprise: tuple[Curve, ...]
    without_surprise: int
    chosen: Chosen | None

    @property
    def removed_pairs(self) -> int:
        """Rows that some pair of criteria had to leave out, at the worst pair."""
        return self.rows - min(min(row) for row in self.pair_rows)

    @property
    def summary(self) -> CriterionFacts | None:
        return next((c for c in self.criteria if c.id == self.rubric.summary), None)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The answer. `inputs` are the contents of everything that was read beside the ratings, by what it was."""

    sets: tuple[SetFacts, ...]
    examples: tuple[Example, ...]
    inputs: tuple[tuple[str, str, str], ...]
    num_examples: int
    seed: int


def analyse(
    ratings: Sequence[Path | str],
    *,
    docs: Path | str | None = None,
    perplexity: Path | str | None = None,
    selection: Path | str | None = None,
    rubric: str | Path | None = None,
    language: str | None = None,
    num_examples: int = 2,
    seed: int = 0,
    good_from: float | None = None,
    reporter: Reporter | None = None,
) -> Analysis:
    """Analyses annotation sets, the first one in every detail and the others for comparison.

    docs         documents that the ratings are of: their sources, lengths and the texts of examples
    perplexity   a side table with doc_id, nll (nats) and tokens
    selection    the folder that select made: what it kept is compared with what there was
    rubric       what the columns mean; by default the built-in rubric that has them
    language     of names and questions, where the rubric has it
    good_from    the least level of the summary that counts as good; the middle of the scale when not given

    Raises FixInput or BadQuery for what cannot be analysed; nothing is changed anywhere.
    """
    if not ratings:
        raise BadQuery("no ratings were named")
    if num_examples < 0:
        raise FixInput(f"examples cannot be {num_examples}; give 0 for none")
    places = [None if p is None else Path(p) for p in (docs, perplexity, selection)]
    sets = [open_set(path, docs=places[0], rubric=rubric, language=language) for path in ratings]
    scans = [
        scan(
            one,
            perplexity=places[1],
            selection=places[2] if k == 0 else None,
            num_examples=num_examples if k == 0 else 0,
            seed=seed,
            reporter=reporter,
        )
        for k, one in enumerate(sets)
    ]
    facts = tuple(_facts(one, good_from, name) for one, name in zip(scans, _names(sets), strict=True))
    inputs = [("ratings", name, one.content) for one, name in zip(sets, _names(sets), strict=True)]
    documents = sets[0].docs
    beside = {"docs": documents, "perplexity": places[1], "selection": places[2]}
    inputs += [(role, path.name, _content(path)) for role, path in beside.items() if path is not None]
    return Analysis(facts, examples_of(scans[0], documents), tuple(inputs), num_examples, seed)


def _names(sets: Sequence[RatingSet]) -> list[str]:
    """The sets' names, told apart by a number where two are called the same."""
    names = [one.name for one in sets]
    return [name if names.count(name) == 1 else f"{name} ({names[: k + 1].count(name)})" for k, name in enumerate(names)]


def _content(path: Path) -> str:
    if (path / NAME).is_file():
        return read_manifest(path).content
    return "+".join(content_hash(part) for part in side_parts(path))


def _facts(found: Scan, good_from: float | None, name: str) -> SetFacts:
    rubric = found.set.rubric
    least = good_from if good_from is not None else (rubric.low + rubric.high) / 2
    correlation = found.pairs.correlation()
    criteria = tuple(_criterion(found, k, correlation) for k in range(len(rubric.columns)))
    sources, domains = _order(found.sources), _order(found.domains)
    source_names, domain_names = list(found.sources.names), list(found.domains.names)
    return SetFacts(
        name=name,
        content=found.set.content,
        rubric=rubric,
        found_scale=found.set.found_scale,
        rows=found.rows,
        readings=found.set.readings,
        statuses=_totals(found.statuses),
        codes=_totals(found.codes),
        reasons=_reasons(found, source_names),
        good_from=least,
        histogram=_histogram(found),
        criteria=criteria,
        correlation=tuple(tuple(float(v) for v in row) for row in correlation),
        pair_rows=tuple(tuple(int(n) for n in row) for row in found.pairs.count),
        axes=principal_axes(correlation),
        sources=tuple(_group(found, found.sources, source_names[i], i, least) for i in sources),
        domains=tuple(_group(found, found.domains, domain_names[i], i, least) for i in domains),
        crossed=tuple(tuple(found.crossed[s, d] for d in domains) for s in sources),
        without_source=found.without_source,
        length=_curves(rubric, found.with_length, LENGTH, lambda v: 2.0**v),
        surprise=() if found.with_surprise is None else _curves(rubric, found.with_surprise, SURPRISE, float),
        without_surprise=found.without_surprise,
        chosen=_chosen(found) if found.kept is not None and found.kept_domains is not None else None,
    )


def _histogram(found: Scan) -> tuple[int, ...]:
    rubric = found.set.rubric
    if rubric.summary is None:
        return ()
    fine = found.with_summary[rubric.columns.index(rubric.summary)].sum(axis=1)
    return tuple(int(n) for n in fine.reshape(HISTOGRAM, -1).sum(axis=1))


def _totals(counts: Counter[tuple[int, str]]) -> tuple[tuple[str, int], ...]:
    totals: Counter[str] = Counter()
    for (_, name), n in counts.items():
        totals[name] += n
    return tuple(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def _reasons(found: Scan, sources: Sequence[str]) -> tuple[tuple[str, str, str, int], ...]:
    rows = [("status", name, sources[i], n) for (i, name), n in found.statuses.items()]
    rows += [("code", name, sources[i], n) for (i, name), n in found.codes.items()]
    return tuple(sorted(rows, key=lambda row: (row[0] == "code", row[1], -row[3], row[2])))


def _criterion(found: Scan, k: int, correlation: Any) -> CriterionFacts:
    rubric, pairs = found.set.rubric, found.pairs
    criterion = rubric.criteria[k]
    summary = rubric.columns.index(rubric.summary) if rubric.summary is not None else None
    return CriterionFacts(
        id=criterion.id,
        name=criterion.name(rubric.language),
        alias=next((alias for alias in criterion.aliases[:1] if alias.isidentifier() and alias.isascii()), ""),
        rows=int(pairs.count[k, k]),
        missing=int(found.missing[k]),
        outside=int(found.outside[k]),
        constant=math.isnan(pairs.pearson(k, k)),
        mean=pairs.mean(k),
        variance=pairs.variance(k),
        levels=tuple(int(n) for n in found.sources.levels[:, k].sum(axis=0)),
        pearson_with_summary=float(correlation[k, summary]) if summary is not None else math.nan,
        spearman_with_summary=spearman_of(found.with_summary[k]),
    )


def _order(groups: Groups) -> list[int]:
    """Groups with most rows first, equals by name."""
    names = list(groups.names)
    return sorted(range(len(names)), key=lambda i: (-int(groups.rows[i]), names[i]))


def _group(found: Scan, groups: Groups, name: str, i: int, least: float) -> GroupFacts:
    rubric = found.set.rubric
    means = tuple(
        found.grid.score(Fraction(int(total), int(n))) if n else math.nan
        for total, n in zip(groups.sums[i], groups.scored[i], strict=True)
    )
    levels = tuple(tuple(int(n) for n in row) for row in groups.levels[i])
    summary = levels[rubric.columns.index(rubric.summary)] if rubric.summary is not None else ()
    good = sum(n for level, n in enumerate(summary, rubric.low) if level >= least)
    return GroupFacts(name, int(groups.rows[i]), means, levels, good, sum(summary))


def _curves(rubric: Rubric, counts: Any, scale: Scale, shown: Any) -> tuple[Curve, ...]:
    score = Scale(rubric.low, rubric.high)
    curves = []
    for criterion, joint in zip(rubric.columns, counts, strict=True):
        points = tuple(
            Point(
                one.rows,
                float(shown(scale.value(one.x))),
                *(float(score.value(place)) for place in (one.mean, one.quarter, one.median, one.three_quarters)),
            )
            for one in curve_of(joint, SLICES)
        )
        curves.append(Curve(criterion, spearman_of(joint), points))
    return tuple(curves)


def _chosen(found: Scan) -> Chosen:
    rubric, kept, kept_domains = found.set.rubric, found.kept, found.kept_domains
    assert kept is not None and kept_domains is not None
    summary = rubric.columns.index(rubric.summary) if rubric.summary is not None else 0
    before, after = found.sources.levels[:, summary].sum(axis=0), kept.levels[:, summary].sum(axis=0)
    means = []
    for k, column in enumerate(rubric.columns):
        n, total = int(kept.scored[:, k].sum()), int(kept.sums[:, k].sum())
        means.append((column, found.pairs.mean(k), found.grid.score(Fraction(total, n)) if n else math.nan))
    return Chosen(
        found.rows,
        int(kept.rows.sum()),
        _shares(found.sources, kept),
        _shares(found.domains, kept_domains),
        tuple(Share(str(level), int(before[i]), int(after[i])) for i, level in enumerate(range(rubric.low, rubric.high + 1))),
        _length_shares(found),
        tuple(means),
    )


def _shares(before: Groups, after: Groups) -> tuple[Share, ...]:
    names = list(before.names)
    rows = {name: int(after.rows[i]) for name, i in after.names.items()}
    return tuple(Share(names[i], int(before.rows[i]), rows.get(names[i], 0)) for i in _order(before))


def _length_shares(found: Scan) -> tuple[Share, ...]:
    """Rows by powers of two of bytes, where any has such a length."""
    octaves = found.lengths.reshape(2, 32, -1).sum(axis=2)
    there = np.flatnonzero(octaves.sum(axis=0))
    return tuple(Share(f"{2 ** int(i)}", int(octaves[0, i]), int(octaves[1, i])) for i in there)
