"""Criterion, Domain, Rubric, Rating: what documents are rated on. Data, not classes: a rubric of 1 or of 40 criteria works.

    Rubric dataman 1
    |- scale 1..5, higher is always better
    |- criteria   accuracy, coherence, … each with aliases, a question, and what each level means
    |- summary    the criterion that speaks for the whole, if there is one
    `- domains    Medicine (A), Finance (B), … each with aliases

The id of a criterion is the name of its column, for good: a changed meaning is a new version of the rubric. Vectors of
scores are always carried with their criteria's names, never by position alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from typecase.errors import BadQuery

STATUSES = ("ok", "empty_text", "rater_failed", "repaired", "partial")
"""Why a document has a rating or has none. Codes are stable: new ones are added at the end.

`ok` rated; `empty_text` nothing or white space only; `rater_failed` the rater gave no usable answer; `repaired` rated, from an
answer that had to be read with care; `partial` some of the scores or the domain are missing, the others hold.
"""
RATED = frozenset(("ok", "repaired"))
"""Statuses of a document that has every score."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One question that a document is rated on. `anchors` says what the levels mean; `names` are for display, by language."""

    id: str
    question: str
    anchors: Mapping[int, str]
    aliases: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, language: str = "en") -> str:
        """The display name, in English or by id where the language has none."""
        return self.names.get(language) or self.names.get("en") or self.id


@dataclass(frozen=True, slots=True)
class Domain:
    """One subject that a document may belong to; `letter` is its short code in prompts and in released data sets."""

    id: str
    letter: str
    aliases: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, language: str = "en") -> str:
        """The display name, in English or by id where the language has none."""
        return self.names.get(language) or self.names.get("en") or self.id


@dataclass(frozen=True, slots=True)
class Rubric:
    """A versioned set of criteria and domains with one scale [low, high] of whole levels.

    `language` is that of the questions and anchors. The same rubric in another language has the same columns and levels, and
    another fingerprint, for a rater reads other words.

    Raises ValueError at birth when an id, alias or letter is used twice, or `summary` is no criterion.
    """

    id: str
    version: int
    low: int
    high: int
    criteria: tuple[Criterion, ...]
    domains: tuple[Domain, ...]
    summary: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    language: str = "en"

    def __post_init__(self) -> None:
        if not self.criteria:
            raise ValueError(f"rubric '{self.id}' has no criteria")
        if self.low >= self.high:
            raise ValueError(f"rubric '{self.id}': the scale needs low < high, got {self.low}..{self.high}")
        _check_names("criterion", [(c.id, *c.aliases, *c.names.values()) for c in self.criteria])
        _check_names("domain", [(d.id, *d.aliases, *d.names.values(), d.letter) for d in self.domains])
        if self.summary is not None and self.summary not in self.columns:
            raise ValueError(f"rubric '{self.id}': the summary '{self.summary}' is not one of its criteria")

    @property
    def columns(self) -> tuple[str, ...]:
        """Criterion ids in order: the columns of a ratings table."""
        return tuple(criterion.id for criterion in self.criteria)

    @property
    def labels(self) -> tuple[str, ...]:
        """Domain ids in order."""
        return tuple(domain.id for domain in self.domains)

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over everything that gives the ratings their meaning."""
        parts = [self.id, str(self.version), f"{self.low}..{self.high}", self.summary or ""]
        for criterion in self.criteria:
            parts += [criterion.id, criterion.question]
            parts += [f"{level}={text}" for level, text in sorted(criterion.anchors.items())]
        parts += [f"{domain.letter}={domain.id}" for domain in self.domains]
        return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    def criterion(self, name: str) -> Criterion:
        """The criterion of this id, alias or display name, whatever its case; BadQuery lists what there is."""
        for criterion in self.criteria:
            if _plain(name) in {_plain(known) for known in (criterion.id, *criterion.aliases, *criterion.names.values())}:
                return criterion
        raise BadQuery(f"rubric '{self.id}' has no criterion '{name}'; it has {', '.join(self.columns)}")

    def domain(self, name: str) -> Domain:
        """The domain of this id, alias, letter or display name, whatever its case; BadQuery lists what there is."""
        for domain in self.domains:
            known = (domain.id, *domain.aliases, *domain.names.values(), domain.letter)
            if _plain(name) in {_plain(one) for one in known}:
                return domain
        raise BadQuery(f"rubric '{self.id}' has no domain '{name}'; it has {', '.join(self.labels)}")


@dataclass(frozen=True, slots=True)
class Rating:
    """What one rater says of one document. A value that the rater did not give is None; see STATUSES.

    `scores` are expected values on the rubric's scale; confidences lie in [0, 1]; `rated_bytes` counts what was read.
    """

    scores: Mapping[str, float | None]
    domain: str | None
    domain_confidence: float | None
    confidence: float | None
    status: str
    rated_bytes: int

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"unknown status '{self.status}'; known are {', '.join(STATUSES)}")
        missing = [value is None for value in self.scores.values()]
        whole = not any(missing) if self.status in RATED else all(missing)
        if self.status != "partial" and not whole:
            raise ValueError(f"a rating has every score if its status is ok or repaired, and none if it failed: {self}")


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").casefold().split())


def _check_names(what: str, groups: list[tuple[str, ...]]) -> None:
    owner: dict[str, str] = {}
    for group in groups:
        for name in {_plain(name) for name in group}:
            if owner.setdefault(name, group[0]) != group[0] or not name:
                raise ValueError(f"{what} name '{name}' stands for both '{owner[name]}' and '{group[0]}'")
    ids = [group[0] for group in groups]
    if len(set(ids)) < len(ids):
        raise ValueError(f"a {what} id is used twice: {', '.join(sorted({i for i in ids if ids.count(i) > 1}))}")
