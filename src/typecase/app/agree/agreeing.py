"""agree: how far raters, or a rater and people, say the same of the same documents.

    set A ─┐ by id   rows that both rated ─► figures of each criterion, each with an interval over sources
    set B ─┘         rows of one alone are counted   beside them: the trivial raters, and the range where selection happens

The last set is the reference. Nothing here calls a model's agreement with a model agreement with people: the report says
what is known of each side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from typecase.app.agree.readings import F64, I64, Facts, Readings, facts_of, open_readings, open_repeated, value_of
from typecase.core.learn.agreement import calibration_error
from typecase.core.learn.agreement_many import ordinal_alpha
from typecase.core.learn.agreement_pair import (
    abstention,
    baseline_tables,
    baselines,
    class_figures,
    class_table_figures,
    confusion,
    levels_of,
    pair_figures,
    positive_level,
)
from typecase.core.learn.bootstrap import FEW_GROUPS, Interval, groups_of, intervals
from typecase.core.rating import Rubric
from typecase.errors import BadQuery
from typecase.lm.rate.rubric import load_rubric

BREAKDOWNS = ("source", "domain", "length", "level")
RESAMPLES = 500
_CELLS = 20_000_000
_LENGTHS = (0, 300, 1000, 3000, 10_000, 100_000)
_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
_HIT = 0.5
_LEAST = 10
_BINS = 10


@dataclass(frozen=True, slots=True)
class CriterionAgreement:
    """Two raters on one criterion. `upper` are the same figures where the reference's summary is at the middle or above;
    `confusion[i][j]` counts documents that A put at the i-th level and B, the reference, at the j-th."""

    criterion: str
    documents: int
    figures: Mapping[str, Interval]
    baselines: Mapping[str, Mapping[str, float]]
    upper_documents: int
    upper: Mapping[str, Interval]
    confusion: list[list[int]]
    calibration_error: float | None


@dataclass(frozen=True, slots=True)
class DomainAgreement:
    """Two raters on the domain. `abstention`: (share answered, least confidence, accuracy) by A's confidence."""

    documents: int
    labels: tuple[str, ...]
    figures: Mapping[str, Interval]
    baselines: Mapping[str, Mapping[str, float]]
    confusion: list[list[int]]
    calibration_error: float | None
    abstention: list[tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a breakdown, of one criterion."""

    by: str
    value: str
    criterion: str
    documents: int
    figures: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Two sets: who they are, what was joined, and every figure."""

    left: str
    right: str
    kinds: tuple[str, str]
    statement: str
    both: int
    only_left: int
    only_right: int
    groups: int
    criteria: tuple[CriterionAgreement, ...]
    domain: DomainAgreement | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class AgreementReport:
    """Agreement of two sets or more. `alpha` is Krippendorff's for ordered levels, of all sets together."""

    rubric: str
    grouped_by: str
    resamples: int
    sets: tuple[Mapping[str, object], ...]
    pairs: tuple[PairAgreement, ...]
    alpha: Mapping[str, Interval]
    warnings: tuple[str, ...]


def agree(
    specs: Sequence[str | Path], *, docs: Path | None = None, rubric: str | Path = "dataman", by: Sequence[str] = (),
    criterion: str | None = None, group: str | None = None, people: Sequence[str] = (), resamples: int = RESAMPLES,
    seed: int = 0,
) -> AgreementReport:  # fmt: skip
    """Compares two sets of ratings or more, or the readings of one file that has several a document.

    people   the sets that people made
    group    what is drawn for intervals: "source" (the default where sources are known), "document", or a key of the
             documents' own such as the cluster of near duplicates
    by       BREAKDOWNS, shown for `criterion`, by default the summary of the rubric
    """
    asked = load_rubric(rubric)
    if not specs:
        raise BadQuery("agreement needs sets of ratings")
    if unknown := [name for name in by if name not in BREAKDOWNS]:
        raise BadQuery(f"'{unknown[0]}' is no breakdown; there are {', '.join(BREAKDOWNS)}")
    if strangers := set(map(str, people)) - set(map(str, specs)):
        raise BadQuery(f"--people names {', '.join(sorted(strangers))}, which is none of the sets")
    if len(specs) == 1:
        sets = open_repeated(specs[0], asked, people=bool(people))
    else:
        sets = [open_readings(spec, asked, people=str(spec) in map(str, people)) for spec in specs]
    facts, at = _facts(sets, docs)
    key = group or ("source" if len({f.source for f in facts.values()}) > 1 else "document")
    largest = max(len(one) for one in sets)
    resamples = max(100, min(resamples, _CELLS // max(1, largest)))
    ask = _Ask(asked, facts, key, resamples, seed, tuple(by), asked.criterion(criterion).id if criterion else None)
    pairs = tuple(ask.pair(a, b) for a, b in combinations(sets, 2))
    alpha = ask.alpha(sets) if len(sets) > 2 else {}
    return AgreementReport(
        asked.id, key, resamples, tuple(_told(one) for one in sets), pairs, alpha, _warnings(pairs, key, by, at)
    )


def _facts(sets: Sequence[Readings], docs: Path | None) -> tuple[dict[str, Facts], Path | None]:
    at = docs or next((one.docs for one in sets if one.docs is not None), None)
    if at is None:
        return {}, None
    return facts_of(at, wanted=set().union(*(one.ids for one in sets))), at


def _told(one: Readings) -> Mapping[str, object]:
    return {
        "name": one.name,
        "kind": one.kind,
        "documents": len(one),
        "repeated": one.repeated,
        "unusable": dict(one.unusable),
        "criteria": list(one.columns),
    }


def _warnings(pairs: Sequence[PairAgreement], key: str, by: Sequence[str], at: Path | None) -> tuple[str, ...]:
    said = []
    if pairs and (few := min(pair.groups for pair in pairs)) < FEW_GROUPS:
        said.append(f"intervals rest on {few} groups ({key}) and are too narrow; {FEW_GROUPS} or more are wanted")
    if at is None and key == "document":
        said.append("sources are not known (give --docs): intervals draw documents, too narrow if those come in families")
    if at is None and ("source" in by or "length" in by):
        said.append("without --docs there is nothing to break down by source or length")
    return tuple(said)


@dataclass(frozen=True, slots=True)
class _Ask:
    """What is asked of every pair."""

    rubric: Rubric
    facts: Mapping[str, Facts]
    key: str
    resamples: int
    seed: int
    by: tuple[str, ...]
    criterion: str | None

    def group(self, ids: Sequence[str]) -> I64:
        return groups_of([value_of(self.facts.get(doc), self.key) or f"\0{doc}" for doc in ids])

    def pair(self, left: Readings, right: Readings) -> PairAgreement:
        common = sorted(set(left.ids) & set(right.ids))
        if not common:
            raise BadQuery(f"{left.name} and {right.name} share no document: are the ids of the same corpus?")
        a, b = _rows(left, common), _rows(right, common)
        group = self.group(common)
        shared = [c for c in self.rubric.columns if c in left.columns and c in right.columns]
        if not shared:
            raise BadQuery(f"{left.name} and {right.name} share no criterion of rubric '{self.rubric.id}'")
        summary = self.rubric.summary if self.rubric.summary in right.columns else None
        upper = right.column(summary)[b] >= positive_level(self.rubric.low, self.rubric.high) if summary else None
        sides = {c: (left.column(c)[a], right.column(c)[b]) for c in shared}
        return PairAgreement(
            left.name,
            right.name,
            (left.kind, right.kind),
            statement_of(left.kind, right.kind),
            len(common),
            len(left) - len(common),
            len(right) - len(common),
            int(group.max()) + 1,
            tuple(
                self.one(c, *sides[c], group, upper, left.confidence[a] if c == self.rubric.summary else None) for c in shared
            ),
            self.domains(left, right, a, b, group),
            self.parts(sides, [right.domain[row] for row in b], common, group),
        )

    def one(
        self, criterion: str, a: F64, b: F64, group: I64, upper: np.ndarray | None, trust: F64 | None
    ) -> CriterionAgreement:
        low, high = self.rubric.low, self.rubric.high
        has = ~np.isnan(a) & ~np.isnan(b)
        top = has & upper if upper is not None else has & (b >= positive_level(low, high))
        size = high - low + 1
        x, y = a[has], b[has]
        table = confusion(levels_of(x, low=low, high=high), levels_of(y, low=low, high=high), np.ones((1, len(x))), size=size)
        error = None
        if trust is not None and (known := ~np.isnan(trust[has])).any():
            hits = np.abs(x - y)[known] <= _HIT
            error = calibration_error(trust[has][known], hits, num_bins=_BINS)
        return CriterionAgreement(
            criterion,
            len(x),
            self.figures(x, y, group[has]),
            baselines(x, y, low=low, high=high) if len(x) else {},
            int(top.sum()),
            self.figures(a[top], b[top], group[top]),
            table[0].astype(int).tolist(),
            error,
        )

    def figures(self, a: F64, b: F64, group: I64, *, kendall: bool = True) -> dict[str, Interval]:
        low, high = self.rubric.low, self.rubric.high
        return intervals(
            lambda w: pair_figures(a, b, w, low=low, high=high, kendall=kendall),
            np.unique(group, return_inverse=True)[1].astype(np.int64),
            resamples=self.resamples,
            seed=self.seed,
        )

    def domains(self, left: Readings, right: Readings, a: I64, b: I64, group: I64) -> DomainAgreement | None:
        labels = self.rubric.labels
        place = {label: row for row, label in enumerate(labels)}
        x = np.array([place.get(left.domain[row] or "", -1) for row in a], np.int64)
        y = np.array([place.get(right.domain[row] or "", -1) for row in b], np.int64)
        has = (x >= 0) & (y >= 0)
        if not has.any():
            return None
        x, y, trust, group = x[has], y[has], left.domain_confidence[a][has], groups_of(group[has].tolist())
        table = confusion(x, y, np.ones((1, len(x))), size=len(labels))
        known = ~np.isnan(trust)
        blind = {
            name: {k: float(v[0]) for k, v in class_table_figures(t).items()} for name, t in baseline_tables(table).items()
        }
        return DomainAgreement(
            len(x),
            labels,
            intervals(lambda w: class_figures(x, y, w, size=len(labels)), group, resamples=self.resamples, seed=self.seed),
            blind,
            table[0].astype(int).tolist(),
            calibration_error(trust[known], (x == y)[known], num_bins=_BINS) if known.any() else None,
            abstention(trust[known], (x == y)[known], _SHARES),
        )

    def parts(
        self, sides: Mapping[str, tuple[F64, F64]], domain: Sequence[str | None], ids: Sequence[str], group: I64
    ) -> tuple[Part, ...]:
        summary = self.rubric.summary
        chosen = self.criterion or (summary if summary is not None and summary in sides else next(iter(sides)))
        if not self.by or chosen not in sides:
            return ()
        a, b = sides[chosen]
        has = ~np.isnan(a) & ~np.isnan(b)
        parts = []
        for by in self.by:
            values = _folded([self.value(by, doc, domain[row], b[row]) for row, doc in enumerate(ids)])
            for value in sorted(set(values), key=_by_number):
                rows = np.flatnonzero(has & np.array([v == value for v in values]))
                if len(rows):
                    found = self.figures(a[rows], b[rows], group[rows], kendall=False)
                    parts.append(Part(by, value, chosen, len(rows), found))
        return tuple(parts)

    def value(self, by: str, doc: str, domain: str | None, score: float) -> str:
        """Which part of a breakdown a document belongs to; level and domain are the reference's."""
        if by == "domain":
            return domain or "(none)"
        if by == "level":
            return str(int(np.floor(score + 0.5))) if not np.isnan(score) else "(none)"
        facts = self.facts.get(doc)
        if facts is None:
            return "(unknown)"
        if by == "source":
            return facts.source or "(none)"
        place = int(np.searchsorted(_LENGTHS, facts.text_bytes, side="right")) - 1
        return f"{_LENGTHS[place]:,} bytes and more"

    def alpha(self, sets: Sequence[Readings]) -> dict[str, Interval]:
        """Alpha of each criterion that all sets have, over all documents that two sets or more rated."""
        ids = sorted(set().union(*(one.ids for one in sets)))
        place = {doc: row for row, doc in enumerate(ids)}
        low, high = self.rubric.low, self.rubric.high
        found = {}
        for criterion in self.rubric.columns:
            if any(criterion not in one.columns for one in sets):
                continue
            levels = np.full((len(ids), len(sets)), -1, np.int64)
            for column, one in enumerate(sets):
                scores = one.column(criterion)
                has = ~np.isnan(scores)
                rows = np.array([place[doc] for doc in one.ids], np.int64)[has]
                levels[rows, column] = levels_of(scores[has], low=low, high=high)
            paired = np.flatnonzero((levels >= 0).sum(axis=1) >= 2)
            if len(paired):
                found[criterion] = self._alpha(levels[paired], self.group([ids[row] for row in paired]))
        return found

    def _alpha(self, levels: I64, group: I64) -> Interval:
        size = self.rubric.high - self.rubric.low + 1
        return intervals(
            lambda w: {"alpha": ordinal_alpha(levels, w, size=size)}, group, resamples=self.resamples, seed=self.seed
        )["alpha"]


def _rows(one: Readings, ids: Sequence[str]) -> I64:
    place = {doc: row for row, doc in enumerate(one.ids)}
    return np.array([place[doc] for doc in ids], np.int64)


def _folded(values: list[str]) -> list[str]:
    """Values with fewer than _LEAST documents become one, if there are several of them."""
    number = Counter(values)
    small = [value for value in number if number[value] < _LEAST]
    return [f"({len(small)} smaller ones)" if len(small) > 1 and number[value] < _LEAST else value for value in values]


def _by_number(value: str) -> tuple[int, str]:
    digits = value.split(" ")[0].replace(",", "")
    return (int(digits), value) if digits.isdigit() else (1 << 40, value)


def statement_of(left: str, right: str) -> str:
    """What the figures are agreement of, in words that promise no more than is known."""
    if left == right == "people":
        return "people with people: the most that a rater can be measured against"
    if "people" in (left, right):
        return "a rater with people"
    if left == right == "model":
        return "a model with a model: this is not agreement with people"
    return "raters of whom it is not said that they are people (--people SET says so): this is not agreement with people"
