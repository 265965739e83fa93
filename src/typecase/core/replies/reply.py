"""Reply: the outcome of reading one answer, and the codes that say what was met on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Literal

from typecase.core.rating import Rubric

Expects = Literal["form", "bare", "score", "domain"]
EXPECTS: tuple[Expects, ...] = ("form", "bare", "score", "domain")
"""What was asked for: a free form, a line a field without names, one score alone, one domain alone."""

Rounding = Literal["nearest", "away_from_3"]
ReplyStatus = Literal["ok", "repaired", "partial", "rejected"]

CODES: Mapping[str, str] = {
    "api_error": "the request failed",
    "timeout": "no answer in time",
    "empty_reply": "nothing or white space",
    "refusal": "the model or a filter declined",
    "truncated_reply": "cut off before its end",
    "na_value": "a field says not applicable",
    "no_scores": "no score was found",
    "too_few_scores": "criteria without a score",
    "too_many_scores": "a criterion scored more than once, always alike",
    "duplicate_half": "the whole form twice, alike: read once",
    "conflicting_scores": "a criterion with two different scores",
    "out_of_range": "a number off the scale",
    "fractional_score": "a number between two levels, kept as it is",
    "wrong_denominator": "a score out of something else than the scale's top",
    "criterion_mismatch": "a number and a name of two different criteria",
    "no_domain": "no domain was named",
    "multiple_domains": "more than one domain was named",
    "unknown_domain": "the domain is none of the rubric's",
    "non_ascii_digits": "digits of another script or width, read",
    "markup_stripped": "markup around a score, read",
    "low_label_mass": "the model hardly wished to answer with a label",
    "unclear_score": "a number that may or may not be the score",
    "misaligned": "lines without names that do not match the fields one by one",
    "marker_missing": "the line that opens the form is missing",
    "too_long": "the document does not fit the model's context",
    "budget": "not asked: the budget was spent",
    "quoted_document": "lines of the document stand in the answer and are not read",
}
"""Codes and what they mean. They are stable: new ones are added at the end."""

REPAIRS = frozenset(
    (
        "truncated_reply",
        "too_many_scores",
        "duplicate_half",
        "fractional_score",
        "non_ascii_digits",
        "markup_stripped",
        "marker_missing",
        "quoted_document",
    )
)
"""Codes that may stand beside a complete reading."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an answer says.

    scores    by criterion id, as given, fractions included; only what was given
    levels    by criterion id, the whole level
    domain    the domain's id, or None
    status    ok: all that was asked for, at once; repaired: all, read with care; partial: some; rejected: none
    codes     what was remarkable, in the order it was met, each once
    missing   why there is no value: criterion id (or "domain") -> code; with `scores` and `domain` it covers all asked for
    places    where a value stands in the text, criterion id (or "domain") -> (start, stop) in characters, where that is known
    """

    scores: Mapping[str, float]
    levels: Mapping[str, int]
    domain: str | None
    status: ReplyStatus
    codes: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def level_of(score: float, rubric: Rubric, rounding: Rounding = "nearest") -> int:
    """The level of a score on the scale: the nearest, a half goes up.

    With "away_from_3" a fraction below 3 goes down and one from 3 goes up (DataMan's released rule, A4 of its description):
    it empties the middle of a scale of 1 to 5 and is there to compare with, not to use.
    """
    if rounding == "away_from_3":
        level = floor(score) if score < 3 else ceil(score)
    else:
        level = floor(score + 0.5)
    return min(max(level, rubric.low), rubric.high)


def rejected(codes: tuple[str, ...], asked: tuple[str, ...]) -> Reply:
    """A reply of which nothing was read; the first code is the reason of every gap."""
    return Reply({}, {}, None, "rejected", codes, dict.fromkeys(asked, codes[0]))
