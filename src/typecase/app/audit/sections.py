"""A verdict in sections, each token in one of them: what a report of an audit shows, whatever it is written as.

    bytes -> special and reserved -> unreachable -> parts of characters -> the rest by decision

The order is that of the published reports, which take bytes and special tokens out of every other group; so sections add up
to the vocabulary. A token is shown by `shown`: nothing in it is invisible, and it cannot break or turn a line.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from typecase.app.audit.verdict import Verdicts
from typecase.core.glitch.categories import UNDECODEABLE, UNREACHABLE_MULTI, UNREACHABLE_SINGLE, UNREACHABLE_SPECIAL
from typecase.core.glitch.decision import FINE, SUSPECT, UNDER_TRAINED, UNREACHABLE

DECISIONS = (UNDER_TRAINED, SUSPECT, UNREACHABLE, FINE)
_UNREACHABLE = (UNREACHABLE_SPECIAL, UNREACHABLE_SINGLE, UNREACHABLE_MULTI)
_COLUMNS = (
    "i", "token", "hex", "decision", "main_indicator", "rank", "percentile", "max_prob", "p_marginal", "count", "documents",
    "prediction", "origin", "advice", "reason", "reasons", "absorbed_by", "first_documents",
)  # fmt: skip
_NEEDED = ("kind", "category", "reach", "utf8", "decision")
_BINS = ((0, 0), (1, 1), (2, 3), (4, 10), (11, 30), (31, 100), (101, 1000), (1001, None))


@dataclass(frozen=True, slots=True)
class Section:
    """Tokens of one group by id, and what the group is. `listed`: a report names them one by one."""

    name: str
    title: str
    about: str
    ids: tuple[int, ...]
    decisions: Mapping[str, int]
    listed: bool = True


@dataclass(frozen=True, slots=True)
class Bin:
    """Tokens that were counted `low` to `high` times (None: and more), how many were judged, and how many are under-trained."""

    low: int
    high: int | None
    tokens: int
    judged: int
    under_trained: int

    @property
    def name(self) -> str:
        if self.high is None:
            return f"{self.low:,} and more"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


_SECTIONS = (
    (
        "under_trained",
        "Under-trained tokens",
        "The model cannot repeat them, or their rows say that it never learnt them.",
        True,
    ),
    (
        "suspect",
        "Suspect tokens",
        "One side speaks against them, and nothing settles it: ask the model, or look at the text.",
        True,
    ),
    ("partial", "Parts of characters", "Their bytes are no whole characters; a text needs several of them in a row.", True),
    ("bytes", "Byte tokens", "Single bytes, kept so that any text can be spelled.", True),
    ("special", "Special, added and unused tokens", "Not made by merging: control tokens, additions, slots and gaps.", True),
    ("unreachable", "Unreachable tokens", "No text makes them; a row of the matrices is spent on each.", True),
    ("fine", "All others", "Nothing speaks against them.", False),
)


def sections_of(found: Verdicts) -> tuple[Section, ...]:
    """The sections in the order of the published reports; their sizes add up to the number of ids."""
    names = ["i", *(name for name in _NEEDED if name in found.table.column_names)]
    groups: dict[str, list[int]] = {name: [] for name, *_ in _SECTIONS}
    decisions: dict[str, Counter[str]] = {name: Counter() for name in groups}
    for row in found.table.select(names).to_pylist():
        name = _section_of(row)
        groups[name].append(row["i"])
        decisions[name][row["decision"]] += 1
    return tuple(
        Section(name, title, about, tuple(groups[name]), {d: decisions[name][d] for d in DECISIONS}, listed)
        for name, title, about, listed in _SECTIONS
    )


def _section_of(row: Mapping[str, Any]) -> str:
    kind, category = row.get("kind"), row.get("category")
    if kind == "byte":
        return "bytes"
    if kind in ("special", "added", "unused", "gap"):
        return "special"
    if row.get("reach") == "unreachable" or (row.get("reach") is None and category in _UNREACHABLE):
        return "unreachable"
    if row.get("utf8") not in (None, "whole") or (row.get("utf8") is None and category == UNDECODEABLE):
        return "partial"
    decision = str(row["decision"])
    return decision if decision in (UNDER_TRAINED, SUSPECT, UNREACHABLE) else "fine"


def rows_of(found: Verdicts, section: Section, most: int | None = None) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows of a section: what is decided against first, then by rank or count, then by id; at most `most`."""
    table = found.table.take(pa.array(section.ids, pa.int64()))
    keys = [name for name in ("decision", "rank", "count", "i") if name in table.column_names]
    order = sorted(range(table.num_rows), key=_worst_first([table.column(name).to_pylist() for name in keys], keys))[:most]
    table = table.take(pa.array(order, pa.int64()))
    names = [name for name in _COLUMNS if name in table.column_names]
    extra = [name for name in ("examples",) if name in table.column_names]
    rows = [{**row, "token": shown_row(row)} for row in table.to_pylist()]
    names = [name for name in [*_with_token(names), *extra] if any(row.get(name) not in (None, [], "") for row in rows)]
    return names, [{name: row.get(name) for name in names} for row in rows]


def _with_token(names: Sequence[str]) -> list[str]:
    return [names[0], "token", *names[1:]]


def _worst_first(columns: Sequence[Sequence[Any]], names: Sequence[str]) -> Any:
    def key(index: int) -> tuple[Any, ...]:
        values = (column[index] for column in columns)
        return tuple(
            DECISIONS.index(value) if name == "decision" else (value is None, value if value is not None else 0)
            for name, value in zip(names, values, strict=True)
        )

    return key


def calibration_of(table: pa.Table) -> tuple[Bin, ...]:
    """How many tokens of each count came out under-trained, among those that prompts judged, else among all; () uncounted."""
    if "count" not in table.column_names:
        return ()
    counts = table.column("count").to_numpy(zero_copy_only=False).astype(np.float64)
    said = table.column("verified").to_pylist() if "verified" in table.column_names else None
    bad = np.array([d == UNDER_TRAINED for d in table.column("decision").to_pylist()], np.bool_)
    judged = np.ones(len(bad), np.bool_) if said is None else np.array([v is not None for v in said], np.bool_)
    found = []
    for low, high in _BINS:
        own = (counts >= low) & (counts <= (np.inf if high is None else high))
        found.append(Bin(low, high, int(own.sum()), int((own & judged).sum()), int((own & judged & bad).sum())))
    return tuple(found)


def findings_of(found: Verdicts, sections: Sequence[Section]) -> Iterator[str]:
    """What a reader should know first, a sentence each."""
    decided = found.decisions
    bad, suspect = decided.get(UNDER_TRAINED, 0), decided.get(SUSPECT, 0)
    yield f"{bad:,} of {found.num_ids:,} tokens are under-trained, {suspect:,} more are suspect (by {', '.join(found.sides)})."
    if found.void:
        yield "The prompts are void: the model cannot repeat ordinary tokens either, so nothing that they said counts here."
    wasted = sum(decided.get(name, 0) for name in (UNDER_TRAINED, UNREACHABLE))
    yield f"{wasted / max(1, found.num_ids):.2%} of the rows of the matrices are spent on under-trained or unreachable tokens."
    if found.origins:
        yield "Where the under-trained come from: " + ", ".join(f"{name} {n:,}" for name, n in found.origins.items()) + "."
    if found.correlations:
        name, value = max(found.correlations.items(), key=lambda item: abs(item[1]))
        yield f"Of all indicators {name} goes best with the logarithm of the counts (Spearman {value:+.2f})."
    if found.unexpected:
        yield f"Seen often, and under-trained all the same: {', '.join(map(str, found.unexpected[:8]))}."
    if found.surprising:
        yield f"Never counted, and repeated all the same: {', '.join(map(str, found.surprising[:8]))}. Is this its corpus?"
    partial = next(s for s in sections if s.name == "partial")
    if partial.decisions[UNDER_TRAINED]:
        yield f"{partial.decisions[UNDER_TRAINED]:,} of {len(partial.ids):,} parts of characters are under-trained."


def shown_row(row: Mapping[str, Any]) -> str:
    """A token of a table by its bytes, else by what it decodes to."""
    if row.get("hex") is not None:
        return shown(bytes.fromhex(row["hex"]))
    text = row.get("decoded") if row.get("decoded") is not None else row.get("raw_vocab")
    return shown(str(text).encode("utf-8", "surrogatepass")) if text is not None else ""


def shown(data: bytes) -> str:
    r"""A token as one visible line: ␣ for a space, \x.. for bytes that are no character, \u.... for what cannot be seen.

    A backslash of the token itself is doubled, so other bytes are other lines. A mark that would join what stands before it is
    escaped at the beginning.
    """
    found = []
    for index, character in enumerate(data.decode("utf-8", "surrogateescape")):
        kind, code = unicodedata.category(character), ord(character)
        if character == " ":
            found.append("␣")
        elif character == "\\":
            found.append("\\\\")
        elif 0xDC80 <= code <= 0xDCFF:
            found.append(f"\\x{code - 0xDC00:02x}")
        elif kind[0] in "CZ" or (kind[0] == "M" and index == 0) or 0xFE00 <= code <= 0xFE0F or character == "␣":
            found.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
        else:
            found.append(character)
    return "".join(found)
