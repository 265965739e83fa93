"""The numbers of an analysis as named tables: what the data files hold and what every figure is drawn from.

    Table("criteria", title, sample, header, rows)   ->   data/criteria.csv, data/criteria.json

Floats are rounded to six significant digits here, once, so that every place shows the same; what cannot be known is None.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from typecase.app.analyse.analysing import Analysis, Chosen, Curve, GroupFacts, SetFacts

Cell = str | int | float | None
Rows = tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header, and the sample that they are of."""

    name: str
    title: str
    sample: str
    header: tuple[str, ...]
    rows: Rows

    def csv(self) -> str:
        """The table as RFC 4180 has it, lines ended by a line feed; None is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return out.getvalue()

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "sample": self.sample,
            "rows": [dict(zip(self.header, r)) for r in self.rows],
        }


def tables_of(found: Analysis) -> list[Table]:
    """All tables: of the first set in full, then of all sets side by side."""
    first = found.sets[0]
    tables = [_criteria(first), *_correlation(first), _axes(first)]
    for what, groups in (("source", first.sources), ("domain", first.domains)):
        tables += [_groups(first, what, groups), _levels(first, what, groups)]
    if first.histogram:
        tables.append(_histogram(first))
    if first.reasons:
        header = ("what", "name", "source", "documents")
        sample = f"all {first.rows:,} documents of {first.name}"
        tables.append(Table("reasons", "How documents were rated, and why not", sample, header, first.reasons))
    tables += [_crossed(first), _curves(first, "length", "bytes", first.length)]
    if first.surprise:
        tables.append(_curves(first, "perplexity", "nats_a_token", first.surprise))
    if first.chosen is not None:
        tables.append(_chosen(first, first.chosen))
    if len(found.sets) > 1:
        tables.append(_sets(found))
    if found.examples:
        tables.append(_examples(found))
    return tables


def sample_of(found: SetFacts) -> str:
    """The rows that a figure of a whole set is of."""
    scored = max(c.rows for c in found.criteria)
    if scored == found.rows:
        return f"all {found.rows:,} documents of {found.name}"
    return f"{scored:,} of {found.rows:,} documents of {found.name}: those with a score"


def rounded(value: float) -> float | None:
    """Six significant digits, None for NaN."""
    return None if not math.isfinite(value) else float(f"{value:.6g}")


def _criteria(s: SetFacts) -> Table:
    levels = [f"level_{level}" for level in range(s.rubric.low, s.rubric.high + 1)]
    header = ("criterion", "name", "alias", "rows", "missing", "outside", "constant", "mean", "variance", "deviation", *levels)
    header += ("pearson_with_summary", "spearman_with_summary", "spearman_low", "spearman_high")
    rows: list[tuple[Cell, ...]] = []
    for c in s.criteria:
        rank = c.spearman_with_summary
        fits = [rounded(v) for v in (c.pearson_with_summary, rank.rho, rank.low, rank.high)]
        facts = (c.id, c.name, c.alias, c.rows, c.missing, c.outside, "yes" if c.constant else "no")
        rows.append((*facts, rounded(c.mean), rounded(c.variance), rounded(math.sqrt(c.variance)), *c.levels, *fits))
    return Table("criteria", "Every criterion", sample_of(s), header, tuple(rows))


def _histogram(s: SetFacts) -> Table:
    width = (s.rubric.high - s.rubric.low) / len(s.histogram)
    ends = [s.rubric.low + width * k for k in range(len(s.histogram) + 1)]
    rows: Rows = tuple((rounded(a), rounded(b), n) for a, b, n in zip(ends, ends[1:], s.histogram, strict=False))
    title = f"Histogram of {s.summary.name if s.summary is not None else ''}"
    return Table("histogram", title, sample_of(s), ("from", "to", "rows"), rows)


def _correlation(s: SetFacts) -> Iterator[Table]:
    names = tuple(c.id for c in s.criteria)
    sample = sample_of(s) + (f", up to {s.removed_pairs:,} removed pairwise" if s.removed_pairs else "")
    rows: Rows = tuple((name, *map(rounded, row)) for name, row in zip(names, s.correlation, strict=True))
    yield Table("correlation", "Pearson correlation of criteria", sample, ("criterion", *names), rows)
    counts: Rows = tuple((name, *row) for name, row in zip(names, s.pair_rows, strict=True))
    yield Table("correlation_rows", "Rows that have both criteria", sample, ("criterion", *names), counts)


def _axes(s: SetFacts) -> Table:
    varying = [s.criteria[i].id for i in s.axes.columns]
    shares = [float(v) for v in s.axes.shares]
    rows: Rows = tuple(
        (k + 1, rounded(share), rounded(whole), *(rounded(float(v)) for v in s.axes.loadings[:, k]))
        for k, (share, whole) in enumerate(zip(shares, accumulate(shares), strict=True))
    )
    return Table("axes", "Principal axes of the correlation", sample_of(s), ("axis", "share", "cumulative", *varying), rows)


def _groups(s: SetFacts, what: str, groups: Sequence[GroupFacts]) -> Table:
    header = (what, "rows", "share", "good", "poor", "good_share", *(f"mean_{c.id}" for c in s.criteria))
    rows: list[tuple[Cell, ...]] = []
    for g in groups:
        good = rounded(g.good / g.judged) if g.judged else None
        rows.append((g.name, g.rows, rounded(g.rows / s.rows), g.good, g.judged - g.good, good, *map(rounded, g.means)))
    return Table(f"{what}s", f"Means by {what}", sample_of(s), header, tuple(rows))


def _levels(s: SetFacts, what: str, groups: Sequence[GroupFacts]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for g in groups:
        for criterion, counts in zip(s.criteria, g.levels, strict=True):
            total = sum(counts)
            for level, n in enumerate(counts, s.rubric.low):
                rows.append((g.name, criterion.id, level, n, rounded(n / total) if total else None))
    header = (what, "criterion", "level", "rows", "share")
    return Table(f"levels_by_{what}", f"Scores by {what}", sample_of(s), header, tuple(rows))


def _crossed(s: SetFacts) -> Table:
    header = ("source", "rows", *(d.name for d in s.domains))
    rows: Rows = tuple((g.name, g.rows, *counts) for g, counts in zip(s.sources, s.crossed, strict=True))
    return Table("domains_by_source", "Domains of each source", f"all {s.rows:,} documents of {s.name}", header, rows)


def _curves(s: SetFacts, name: str, unit: str, curves: Sequence[Curve]) -> Table:
    fitted = ("criterion", "rows", "spearman", "spearman_low", "spearman_high")
    header = (*fitted, "slice", "slice_rows", f"median_{unit}", "mean", "quarter", "median", "three_quarters")
    rows: list[tuple[Cell, ...]] = []
    for c in curves:
        fit = (c.criterion, c.rank.rows, *(rounded(v) for v in (c.rank.rho, c.rank.low, c.rank.high)))
        for k, p in enumerate(c.points, 1):
            rows.append((*fit, k, p.rows, *(rounded(v) for v in (p.x, p.mean, p.quarter, p.median, p.three_quarters))))
    known = max((c.rank.rows for c in curves), default=0)
    sample = f"{known:,} of {s.rows:,} documents of {s.name}: those with a score and a {name}"
    return Table(name, f"Scores over {name}", sample, header, tuple(rows))


def _chosen(s: SetFacts, chosen: Chosen) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for what in ("sources", "domains", "levels", "lengths"):
        for one in getattr(chosen, what):
            shares = (rounded(one.before / chosen.before), rounded(one.after / chosen.after) if chosen.after else None)
            rows.append((what.removesuffix("s"), one.name, one.before, one.after, *shares))
    rows += [("mean", name, rounded(before), rounded(after), None, None) for name, before, after in chosen.means]
    header = ("what", "name", "before", "after", "share_before", "share_after")
    sample = f"{chosen.after:,} documents kept of all {chosen.before:,} of {s.name}"
    return Table("selection", "Before and after the selection", sample, header, tuple(rows))


def _sets(found: Analysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for s in found.sets:
        for c in s.criteria:
            at = (s.name, s.rubric.id, c.id, c.rows, c.missing)
            rows.append((*at, rounded(c.mean), rounded(c.variance), s.rubric.low, s.rubric.high, " ".join(map(str, c.levels))))
    header = ("set", "rubric", "criterion", "rows", "missing", "mean", "variance", "low", "high", "levels")
    sample = "; ".join(sample_of(s) for s in found.sets)
    return Table("sets", "The annotation sets side by side", sample, header, tuple(rows))


def _examples(found: Analysis) -> Table:
    header = ("criterion", "source", "level", "score", "doc_id", "characters", "excerpt")
    rows = tuple(
        (e.criterion, e.source, e.level, rounded(e.score), e.doc_id, e.text_characters, e.excerpt) for e in found.examples
    )
    sample = f"up to {found.num_examples} documents a cell of {found.sets[0].name}, chosen by hash with seed {found.seed}"
    return Table("examples", "Examples by criterion, source and level", sample, header, rows)
