"""Gate: budgets for what an audit may find, and whether they hold.

    unreachable=0   verified=20   wasted=2%                 at most so many tokens, or percent of all

Counts are of tokens that nobody allowed: an allow-list names them by id and bytes, so that a list made for another tokenizer
allows nothing by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MEASURES: Mapping[str, str] = {
    "unreachable": "no text makes the token",
    "under_trained": "decided to be under-trained",
    "suspect": "decided to be suspect",
    "verified": "the model cannot repeat it",
    "candidates": "among the lowest share of the indicator",
    "zero_rows": "a row of zeros, or of no numbers",
    "never": "the corpus never shows it",
    "at_risk": "the corpus shows it too seldom",
    "fragments": "parts of characters",
    "duplicates": "the bytes of a smaller id",
    "wasted": "under-trained, suspect or unreachable: rows of the embedding for nothing",
    "new": "under-trained or suspect, and not so in the baseline",
}


@dataclass(frozen=True, slots=True)
class Budget:
    """At most `most` tokens, or that share of all when `is_share`."""

    measure: str
    most: float
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A measure, what it may be and what it is, and the first ids."""

    measure: str
    most: float
    is_share: bool
    found: float
    passed: bool
    first_ids: tuple[int, ...]


def parse_budget(text: str) -> Budget:
    """`name=12` or `name=2.5%`. Raises ValueError."""
    name, _, number = text.partition("=")
    name = name.strip()
    if name not in MEASURES:
        raise ValueError(f"{name!r} is no measure; there are {', '.join(MEASURES)}")
    share = number.strip().endswith("%")
    try:
        most = float(number.strip().removesuffix("%"))
    except ValueError:
        raise ValueError(f"{text!r} is no budget: write {name}=12 or {name}=2.5%") from None
    if not most >= 0:
        raise ValueError(f"a budget is 0 or more, got {text!r}")
    return Budget(name, most, share)


def check(budget: Budget, ids: tuple[int, ...], num_ids: int, *, shown: int = 20) -> Finding:
    """Whether a measure that holds for `ids` keeps to its budget."""
    found = 100 * len(ids) / max(1, num_ids) if budget.is_share else float(len(ids))
    return Finding(budget.measure, budget.most, budget.is_share, found, found <= budget.most, ids[:shown])
