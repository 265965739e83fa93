"""Reverse thinking: from documents that a model finds odd to a rubric. What happens between the files, one function a step.

    tails      Suspect      a document of a tail: its source, its end (low or high), how odd it is
    causes     Cause        why it is odd, said by a teacher, with a passage that shows it
    clusters   Candidate    causes of one meaning, with the documents behind them; kept, or why not
    names      Named        a kept candidate as a criterion: id, question, anchors        (see derive_names)
    rubric     TOML         what raters read                                              (see derive_names)

Every record is a row of plain JSON values that a person may edit between two steps. A candidate is dropped for `support` (too
few documents), `redundant` (nearly the documents of a larger one), `no_new_document` (every document has a larger
candidate already) or `surplus` (more criteria than were asked for); nothing else is thrown away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from typecase.core.causes import cluster
from typecase.errors import BadQuery, CorruptStore

End = Literal["low", "high"]
ENDS: tuple[End, ...] = ("low", "high")
USED = frozenset(("ok", "evidence_respaced", "direction_filled"))
"""Codes of a cause that counts."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A document of a tail. `rank` counts from 1, the most extreme of its source and end first; `oddness` is what ranked it."""

    doc_id: str
    source: str
    end: str
    rank: int
    oddness: float
    nats_per_token: float
    nats_per_byte: float
    tokens: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause that a teacher named for a document, or why there is none.

    start, stop   characters of the document that are the evidence, None where it was not found
    code          USED, or evidence_not_in_document, direction_mismatch, no_cause, not_json, empty_reply, failed:<kind>
    """

    doc_id: str
    source: str
    end: str
    round: int
    cause: str | None
    evidence: str | None
    start: int | None
    stop: int | None
    code: str

    @property
    def used(self) -> bool:
        """Whether it counts."""
        return self.code in USED


@dataclass(frozen=True, slots=True)
class Candidate:
    """Causes of one meaning. `reason` says why it is not kept, "" where it is."""

    id: str
    centre: str
    phrases: tuple[str, ...]
    documents: tuple[str, ...]
    support: Mapping[str, int]
    sources: Mapping[str, int]
    kept: bool
    reason: str = ""


Record = TypeVar("Record", Suspect, Cause, Candidate)


@dataclass(frozen=True, slots=True)
class Pruning:
    """What makes a candidate a criterion.

    closeness     mean cosine from which clusters of phrases are joined
    support       fewest documents
    overlap       share of all documents of two candidates, from which they are one (Jaccard)
    most          most criteria
    """

    closeness: float = 0.25
    support: int = 2
    overlap: float = 0.8
    most: int = 16

    def __post_init__(self) -> None:
        if self.support < 1 or self.most < 1 or not 0 < self.overlap <= 1:
            raise BadQuery(f"a support and a number of criteria are 1 or more, an overlap is a share, got {self}")

    @property
    def rule(self) -> str:
        """In words, for the log."""
        return (
            f"average linkage over tf-idf of words and character trigrams, joined from a mean cosine of {self.closeness:g};"
            f" {self.support} documents or more; one of two that share {self.overlap:.0%} of their documents; each adds a"
            f" document; at most {self.most}"
        )


def candidates(causes: Sequence[Cause], pruning: Pruning) -> tuple[Candidate, ...]:
    """Clusters of the causes that count, those with most documents first, kept or pruned."""
    used = [cause for cause in causes if cause.used and cause.cause]
    found = []
    for one in cluster([cause.cause or "" for cause in used], closeness=pruning.closeness):
        own = [used[row] for row in one.members]
        ends = {(cause.doc_id, cause.end): cause for cause in own}
        sources = {(cause.doc_id, cause.source) for cause in own}
        found.append(
            Candidate(
                "",
                one.centre,
                tuple(sorted({cause.cause or "" for cause in own})),
                tuple(sorted({cause.doc_id for cause in own})),
                {end: sum(key[1] == end for key in ends) for end in ENDS},
                dict(sorted(Counter(source for _, source in sources).items())),
                True,
            )
        )
    found.sort(key=lambda one: (-len(one.documents), one.centre))
    numbered = [replace(one, id=f"c{number:03d}") for number, one in enumerate(found, start=1)]
    return _pruned(numbered, pruning)


def _pruned(found: Sequence[Candidate], pruning: Pruning) -> tuple[Candidate, ...]:
    kept: list[Candidate] = []
    covered: set[str] = set()
    out = []
    for one in found:
        own = set(one.documents)
        like = next((k.id for k in kept if _jaccard(own, set(k.documents)) >= pruning.overlap), None)
        reason = ""
        if len(own) < pruning.support:
            reason = "support"
        elif like is not None:
            reason = f"redundant with {like}"
        elif own <= covered:
            reason = "no_new_document"
        elif len(kept) == pruning.most:
            reason = "surplus"
        one = replace(one, kept=not reason, reason=reason)
        if one.kept:
            kept.append(one)
            covered |= own
        out.append(one)
    return tuple(out)


def uncovered(suspects: Sequence[Suspect], found: Iterable[Candidate]) -> list[Suspect]:
    """The documents of the tails that no kept candidate speaks of."""
    covered = {doc for one in found if one.kept for doc in one.documents}
    return [suspect for suspect in suspects if suspect.doc_id not in covered]


def incidence(suspects: Sequence[Suspect], found: Sequence[Candidate]) -> npt.NDArray[np.float64]:
    """Which document has which candidate, float64 0 or 1 (documents, candidates)."""
    row = {suspect.doc_id: k for k, suspect in enumerate(suspects)}
    out = np.zeros((len(suspects), len(found)))
    for column, one in enumerate(found):
        out[[row[doc] for doc in one.documents if doc in row], column] = 1
    return out


def as_row(record: Suspect | Cause | Candidate) -> dict[str, Any]:
    """A record as JSON has it."""
    return asdict(record)


def suspect_of(row: Mapping[str, Any], where: str) -> Suspect:
    """The suspect of a row; CorruptStore names the place where a person left it unreadable."""
    return _built(Suspect, row, where)


def cause_of(row: Mapping[str, Any], where: str) -> Cause:
    """The cause of a row."""
    return _built(Cause, row, where)


def candidate_of(row: Mapping[str, Any], where: str) -> Candidate:
    """The candidate of a row; support is told by hand or not at all."""
    lists = {name: tuple(row.get(name) or ()) for name in ("phrases", "documents")}
    return _built(Candidate, {**row, **lists}, where)


def _built(kind: type[Record], row: Mapping[str, Any], where: str) -> Record:
    try:
        return kind(**row)
    except TypeError as error:
        fields = ", ".join(field.name for field in dataclass_fields(kind))
        raise CorruptStore(f"{where} is no {kind.__name__.lower()} ({error}); its fields are {fields}") from None


def _jaccard(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0
