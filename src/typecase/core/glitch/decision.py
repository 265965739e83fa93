"""Decision: what is known of a token from all sides, weighed into one word, with the reasons.

    prompts say      it cannot be repeated            under_trained      (within a factor of 2 of the limit: suspect)
                     it is repeated                   fine
    else weights     a row of zeros, or of a plateau  under_trained
                     among the lowest share           suspect
    else counts      never or too seldom seen         suspect
    else             no text makes it                 unreachable
                     nothing speaks against it        fine

What the model does outweighs what its rows look like, and that what a corpus lets one expect. The reasons name every side, so
that one that disagrees can be seen. A void run of prompts is no side.

advice   keep            fine, or not in anybody's way (a byte, a special token)
         reinitialise    wanted, and its row holds nothing: set it to the mean of trained rows before it is trained
         retrain         wanted, and too weak: show it more often
         replace         its row may be reused, its merge must stay
         drop            no other token is merged of it: it may go
"""

from __future__ import annotations

from dataclasses import dataclass

UNDER_TRAINED, SUSPECT, UNREACHABLE, FINE = "under_trained", "suspect", "unreachable", "fine"


@dataclass(frozen=True, slots=True)
class Signals:
    """What each side says of a token; None where it was not asked. `row` is what its row is, `in_plateau` by its indicator."""

    kind: str = "normal"
    reachable: bool = True
    leaf: bool = True
    wanted: bool = False
    prediction: str | None = None
    count: int | None = None
    row: str | None = None
    in_plateau: bool = False
    percentile: float | None = None
    candidate: bool | None = None
    max_prob: float | None = None
    verified: bool | None = None
    borderline: bool = False


def decide(s: Signals) -> tuple[str, tuple[str, ...]]:
    """The decision and its reasons, the weightiest first."""
    reasons = [*_prompts(s), *_weights(s), *_counts(s)]
    if not s.reachable and not s.count:
        reasons.append("no text makes it")
    if s.verified is not None:
        if s.borderline:
            return SUSPECT, tuple(reasons)
        return (UNDER_TRAINED if s.verified else FINE), tuple(reasons)
    if s.in_plateau or _is_dead(s):
        return UNDER_TRAINED, tuple(reasons)
    if s.candidate or (s.candidate is None and s.prediction in ("never", "at_risk") and s.reachable):
        return SUSPECT, tuple(reasons)
    if not s.reachable and not s.count:
        return UNREACHABLE, tuple(reasons)
    return FINE, tuple(reasons)


def advise(s: Signals, decision: str) -> str:
    """What to do about it; see the module docstring."""
    if decision == FINE:
        return "keep"
    if s.wanted:
        return "reinitialise" if s.in_plateau or _is_dead(s) else "retrain"
    if s.kind in ("byte", "special", "added") or decision == SUSPECT:
        return "keep"
    if s.kind in ("unused", "gap"):
        return "replace"
    return "drop" if s.leaf else "replace"


def _is_dead(s: Signals) -> bool:
    return s.row is not None and s.row != "ordinary"


def _prompts(s: Signals) -> list[str]:
    if s.verified is None or s.max_prob is None:
        return []
    said = "cannot repeat it" if s.verified else "repeats it"
    return [f"the model {said} (p {s.max_prob:.2g}{', close to the limit' if s.borderline else ''})"]


def _weights(s: Signals) -> list[str]:
    if _is_dead(s):
        return [f"its row is {(s.row or '').replace('_', ' ')}"]
    if s.in_plateau:
        return ["its row is one of a cluster that stands apart"]
    return (
        ["" if s.percentile is None else f"its row is in the lowest {s.percentile:.2g} % of its category"]
        if s.candidate
        else []
    )


def _counts(s: Signals) -> list[str]:
    if s.prediction == "never":
        return ["the corpus never shows it"]
    if s.prediction == "at_risk":
        return ["the corpus shows it once" if s.count == 1 else f"the corpus shows it {s.count} times"]
    return []
