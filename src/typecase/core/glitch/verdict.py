"""Verdict: why a token is as it is (origin), and what to do with it (suggestion), as far as no model is needed.

origin      reserved          special tokens, unused slots, gaps of the numbering
            byte              a single byte, kept so that any text can be spelled
            never_encodable   no text makes it
            scaffold          made by a merge, taken away by the next
            one_document      all its sightings stand in one document
            one_family        it stands in the very same few documents as other tokens
            one_source        all in one source
            unseen            it could come up and does not: the tokenizer was trained on other texts
            fragment          a part of a character
            ordinary          none of these

suggestion  keep              nothing to do, or a byte or special that is needed
            drop              dead or at risk, and no other token is merged of it
            replace           dead or at risk, but others are merged of it: its row may be reused, its merge must stay
            retrain           wanted, reachable, and too seldom seen
"""

from __future__ import annotations

from dataclasses import dataclass

FAMILY_DOCUMENTS = 20
SCAFFOLD_SHARE = 0.9
FEW = 100
"""Sightings below which an origin among few documents is worth a word."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one token; None where it was not counted."""

    kind: str
    reachable: bool
    fragment: bool
    leaf: bool
    under_trained: bool | None = None
    count: int | None = None
    documents: int | None = None
    sources: int | None = None
    num_sources: int = 1
    family: int = 1
    absorbed: float | None = None
    wanted: bool = False


def origin_of(e: Evidence) -> str:
    """The first origin that fits; see the module docstring for the order of the common ones."""
    if e.kind in ("special", "unused", "gap"):
        return "reserved"
    if e.kind == "byte":
        return "byte"
    if not e.reachable and not e.count:
        return "never_encodable"
    if e.absorbed is not None and e.absorbed >= SCAFFOLD_SHARE and (e.count or 0) < FEW:
        return "scaffold"
    if e.count == 0:
        return "fragment" if e.fragment else "unseen"
    if e.count is not None and e.documents is not None and e.count < FEW:
        if e.documents == 1:
            return "one_document"
        if e.family > 1 and e.documents <= FAMILY_DOCUMENTS:
            return "one_family"
        if e.sources == 1 and e.num_sources > 1:
            return "one_source"
    return "fragment" if e.fragment else "ordinary"


def suggestion_of(e: Evidence) -> str:
    """What to do. Without counts only what no text can make is judged."""
    if e.kind in ("byte", "special", "added"):
        return "retrain" if e.wanted and e.under_trained else "keep"
    if e.kind in ("unused", "gap"):
        return "replace"
    bad = e.under_trained if e.under_trained is not None else not e.reachable
    if not bad:
        return "keep"
    if e.wanted and e.reachable:
        return "retrain"
    return "drop" if e.leaf else "replace"
