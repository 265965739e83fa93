"""Findings: what a reader should look at first, in a sentence each, by fixed rules that are said in the sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from typecase.app.analyse.analysing import SetFacts

_ALIKE = 0.9
_SATURATED = 0.9
_APART = 0.15
_LEAST_ROWS = 20


def findings_of(s: SetFacts) -> list[str]:
    """The sentences for one set, the graver ones first."""
    return [*_holes(s), *_redundant(s), *_flat(s), *_apart(s), *_goes_with(s)]


def _holes(s: SetFacts) -> Iterator[str]:
    scored = max(c.rows for c in s.criteria)
    if scored < s.rows:
        statuses = ", ".join(f"{name} {n:,}" for name, n in s.statuses if name != "ok")
        yield f"{s.rows - scored:,} of {s.rows:,} documents have no score" + (f" ({statuses})." if statuses else ".")
    if s.codes:
        yield f"The rater's answers had faults, by reason code: {', '.join(f'{name} {n:,}' for name, n in s.codes[:5])}."
    if s.surprise and s.without_surprise:
        yield f"{s.without_surprise:,} of {s.rows:,} documents have no perplexity."
    if 0 < s.without_source < s.rows:
        yield f"{s.without_source:,} of {s.rows:,} documents are not among those given, so their source is not known."
    for c in s.criteria:
        if c.outside:
            yield f"{c.name}: {c.outside:,} scores lie off the scale {s.rubric.low}..{s.rubric.high} and are left out."
    if s.found_scale:
        yield (
            f"No rubric of these columns is known: the scale {s.rubric.low}..{s.rubric.high} is the range of the scores."
            " Name one with --rubric."
        )


def _redundant(s: SetFacts) -> Iterator[str]:
    if len(s.axes.shares) > 2:
        yield (
            f"One axis explains {s.axes.shares[0]:.0%} of {len(s.axes.columns)} criteria:"
            f" they vary as much as {s.axes.effective:.1f} independent ones."
        )
    pairs = [
        (s.correlation[i][j], s.criteria[j].name, s.criteria[i].name)
        for i in range(len(s.criteria))
        for j in range(i)
        if s.rubric.summary not in (s.criteria[i].id, s.criteria[j].id)
    ]
    alike = sorted((p for p in pairs if abs(p[0]) >= _ALIKE), key=lambda p: (-abs(p[0]), p[1:]))
    if alike:
        said = ", ".join(f"{a} and {b} ({r:+.2f})" for r, a, b in alike[:3])
        yield f"{len(alike)} {'pair says' if len(alike) == 1 else 'pairs say'} nearly the same (|r| ≥ {_ALIKE}): {said}."


def _flat(s: SetFacts) -> Iterator[str]:
    flat = [(max(c.levels) / sum(c.levels), c) for c in s.criteria if sum(c.levels)]
    told = [f"{c.name} ({share:.0%} at one level)" for share, c in flat if share >= _SATURATED or c.constant]
    if told:
        yield f"Hardly tells documents apart: {', '.join(told)}."


def _apart(s: SetFacts) -> Iterator[str]:
    judged = sum(g.judged for g in s.sources)
    if not judged or s.summary is None:
        return
    whole = sum(g.good for g in s.sources) / judged
    yield f"{whole:.0%} are good: {s.summary.name} rounds to {s.good_from:g} or more."
    for what, groups in (("Sources", s.sources), ("Domains", s.domains)):
        far = [(g.good / g.judged - whole, g) for g in groups if g.judged >= _LEAST_ROWS]
        far = sorted((f for f in far if abs(f[0]) >= _APART), key=lambda f: (-abs(f[0]), f[1].name))
        if far:
            said = ", ".join(f"{g.name} {g.good / g.judged:.0%}" for _, g in far[:3])
            yield f"{what} far from that, of {_LEAST_ROWS} documents or more: {said}."


def _goes_with(s: SetFacts) -> Iterator[str]:
    names = {c.id: c.name for c in s.criteria}
    for what, curves in (("length", s.length), ("perplexity", s.surprise)):
        known = [c for c in curves if not math.isnan(c.rank.rho)]
        if known:
            most = max(known, key=lambda c: (abs(c.rank.rho), c.criterion))
            clear = sum(c.rank.low > 0 or c.rank.high < 0 for c in known)
            yield (
                f"{names[most.criterion]} goes most with {what} (Spearman {most.rank.rho:+.2f});"
                f" the 95 % interval leaves out 0 for {clear} of {len(known)} criteria."
            )
