"""drift: whether two sets of ratings come from the same place, and whether the rater itself moved.

old ratings, new ratings       per criterion: stability index, Kolmogorov-Smirnov, shift of the mean; shares of domains
one set, by a property         each part against all others
anchors: old, new              the same documents rated twice: the rater's own drift, pair by pair
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from typecase.app.agree.readings import I64, Facts, Readings, facts_of, open_readings, value_of
from typecase.core.drift import (
    NOTABLE_V,
    SMALL_INDEX,
    AnchorDrift,
    Shift,
    anchor_drift,
    chi_square,
    criterion_shift,
    holm,
)
from typecase.core.learn.bootstrap import groups_of
from typecase.core.rating import Rubric
from typecase.errors import BadQuery
from typecase.lm.rate.rubric import load_rubric

RESAMPLES = 500
ALPHA = 0.01
_CELLS = 20_000_000
_LEAST = 20
_FEW_SOURCES = 5


@dataclass(frozen=True, slots=True)
class DomainShift:
    """Shares of the domains: (domain, old share, new share), largest change first; the chi-square test of both."""

    shares: tuple[tuple[str, float, float], ...]
    statistic: float
    freedom: int
    p: float
    effect: float
    holm_p: float = 1.0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class DriftPair:
    """Two samples of ratings, compared. `by_document`: intervals draw documents, for a side has hardly any sources."""

    old: str
    new: str
    by_document: bool
    criteria: tuple[Shift, ...]
    domains: DomainShift | None


@dataclass(frozen=True, slots=True)
class DriftReport:
    """`tests` is how many p values the correction counts; `alarm` whether any anchor criterion moved."""

    rubric: str
    pairs: tuple[DriftPair, ...]
    anchors: tuple[AnchorDrift, ...]
    tests: int
    alarm: bool
    notes: tuple[str, ...]


def drift(
    old: str | Path | None = None, new: str | Path | None = None, *, docs: Path | None = None, by: str | None = None,
    anchors: tuple[str | Path, str | Path] | None = None, rubric: str | Path = "dataman", tolerance: float = 0.1,
    resamples: int = RESAMPLES, seed: int = 0,
) -> DriftReport:  # fmt: skip
    """Compares `old` with `new`, or the parts of `old` by a property (source, file, a key of the documents) with the rest.

    `anchors` are ratings of the same documents then and now; a mean shift above `tolerance` levels whose interval leaves out
    0 is an alarm. Raises BadQuery unless there is something to compare.
    """
    asked = load_rubric(rubric)
    if (old is None and anchors is None) or (old is not None and (new is None) == (by is None)):
        raise BadQuery("give two sets of ratings, or one with --by, or --anchors OLD NEW")
    pairs: list[DriftPair] = []
    notes: list[str] = []
    if old is not None and new is not None:
        sides = open_readings(old, asked), open_readings(new, asked)
        pairs.append(_compared(sides[0], sides[1], _facts(sides, docs), resamples, seed))
        if common := len(set(sides[0].ids) & set(sides[1].ids)):
            notes.append(f"{common:,} documents are in both sets; what differs there is the rater: compare them with --anchors")
    elif old is not None and by is not None:
        pairs, said = _parts(open_readings(old, asked), docs, by, resamples, seed)
        notes += said
    pairs, tests = _corrected(pairs)
    if tests:
        notes.append(
            f"{tests} tests: p is corrected for all of them (Holm) and takes documents as independent;"
            " intervals draw whole sources"
        )
    if any(pair.by_document for pair in pairs):
        notes.append(f"where a side has fewer than {_FEW_SOURCES} sources, the interval draws documents and is too narrow")
    moved = _anchors(anchors, asked, docs, tolerance, resamples, seed) if anchors else ()
    return DriftReport(asked.id, tuple(pairs), moved, tests, any(one.alarm for one in moved), tuple(notes))


def _facts(sides: Sequence[Readings], docs: Path | None) -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    for at in sorted({path for path in (docs, *(one.docs for one in sides)) if path is not None}):
        found |= facts_of(at, wanted=set().union(*(one.ids for one in sides)))
    return found


def _groups(one: Readings, facts: dict[str, Facts]) -> I64:
    return groups_of([value_of(facts.get(doc), "source") or f"\0{doc}" for doc in one.ids])


def _compared(old: Readings, new: Readings, facts: dict[str, Facts], resamples: int, seed: int) -> DriftPair:
    resamples = max(100, min(resamples, _CELLS // max(1, len(old), len(new))))
    groups = _groups(old, facts), _groups(new, facts)
    by_document = min(len(np.unique(group)) for group in groups) < _FEW_SOURCES
    if by_document:
        groups = np.arange(len(old)), np.arange(len(new))
    shared = [c for c in old.columns if c in new.columns]
    if not shared:
        raise BadQuery(f"{old.name} and {new.name} share no criterion of the rubric")
    shifts = tuple(criterion_shift(c, old.column(c), new.column(c), *groups, resamples=resamples, seed=seed) for c in shared)
    return DriftPair(old.name, new.name, by_document, shifts, _domains(old, new))


def _domains(old: Readings, new: Readings) -> DomainShift | None:
    labels = sorted({d for one in (old, new) for d in one.domain if d is not None})
    counts = [np.array([one.domain.count(label) for label in labels], np.int64) for one in (old, new)]
    if not labels or not all(count.sum() for count in counts):
        return None
    shares = [count / count.sum() for count in counts]
    rows = sorted(zip(labels, *shares, strict=True), key=lambda row: (-abs(row[2] - row[1]), row[0]))
    return DomainShift(tuple((name, float(p), float(q)) for name, p, q in rows), *chi_square(*counts))


def _parts(one: Readings, docs: Path | None, by: str, resamples: int, seed: int) -> tuple[list[DriftPair], list[str]]:
    facts = _facts([one], docs)
    values = np.array([value_of(facts.get(doc), by) for doc in one.ids], object)
    names = sorted(set(values.tolist()))
    if len(names) < 2:
        raise BadQuery(f"all documents have the same '{by}' ({names[0] if names else 'there are none'!r}): nothing to compare")
    pairs, small = [], 0
    for name in names:
        mine = np.flatnonzero(values == name)
        if len(mine) < _LEAST or len(one) - len(mine) < _LEAST:
            small += 1
            continue
        rest = np.flatnonzero(values != name)
        inside = _picked(one, mine, f"{by} {name or '(none)'}")
        pairs.append(_compared(_picked(one, rest, "all others"), inside, facts, resamples, seed))
    return pairs, [f"{small} parts with fewer than {_LEAST} documents are left out"] if small else []


def _picked(one: Readings, rows: I64, name: str) -> Readings:
    return replace(
        one,
        name=name,
        ids=tuple(one.ids[row] for row in rows),
        scores=one.scores[rows],
        domain=tuple(one.domain[row] for row in rows),
        confidence=one.confidence[rows],
        domain_confidence=one.domain_confidence[rows],
    )


def _corrected(pairs: Sequence[DriftPair]) -> tuple[list[DriftPair], int]:
    """The pairs with Holm's p over all tests of all of them, and how many tests those are."""
    ps = [p for pair in pairs for p in (*(s.p for s in pair.criteria), *((pair.domains.p,) if pair.domains else ()))]
    fair = iter(holm([1.0 if np.isnan(p) else p for p in ps]))
    out = []
    for pair in pairs:
        shifts = []
        for one in pair.criteria:
            p = next(fair)
            shifts.append(replace(one, holm_p=p, moved=p < ALPHA and one.index > SMALL_INDEX))
        domains = pair.domains
        if domains is not None:
            p = next(fair)
            domains = replace(domains, holm_p=p, moved=p < ALPHA and domains.effect > NOTABLE_V)
        out.append(replace(pair, criteria=tuple(shifts), domains=domains))
    return out, len(ps)


def _anchors(
    specs: tuple[str | Path, str | Path], rubric: Rubric, docs: Path | None, tolerance: float, resamples: int, seed: int
) -> tuple[AnchorDrift, ...]:
    old, new = (open_readings(spec, rubric) for spec in specs)
    common = sorted(set(old.ids) & set(new.ids))
    if not common:
        raise BadQuery(f"{old.name} and {new.name} share no document: anchors are the same documents, rated twice")
    facts = _facts([old, new], docs)
    group = groups_of([value_of(facts.get(doc), "source") or f"\0{doc}" for doc in common])
    a, b = (np.array([{d: r for r, d in enumerate(one.ids)}[doc] for doc in common]) for one in (old, new))
    return tuple(
        anchor_drift(c, old.column(c)[a], new.column(c)[b], group, tolerance=tolerance, resamples=resamples, seed=seed)
        for c in old.columns
        if c in new.columns
    )
