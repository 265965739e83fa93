"""Two refining runs of the same documents, compared: what they decide, which lines they remove, where they differ.

    decisions     dropped or not, by both runs; status against status
    lines         of the documents that both keep: removed by both, by one alone -> precision, recall, F1 of A against B
    examples      the documents in which the most lines differ, and the longest of those that one run drops

B is the reference. Lines are those of the original, so the two must have refined the same texts; a document whose text differs,
or that one run does not have, is counted and left out. Price: the programs that differ are run again, 50 microseconds each.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typecase.app.refine.refining import Run, open_run, rerun
from typecase.core.lines import line_table
from typecase.core.program.statistics import Agreement, agreement, removed_lines
from typecase.errors import BadQuery
from typecase.store import shards
from typecase.store.documents import join_side

_COLUMNS = ("doc_id", "program", "status", "reason", "provenance", "text_hash")
_SHOWN_LINES = 3
_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True)
class Example:
    """A document in which the runs differ: status and reason in each, how many lines each removes alone, and the first of
    them; of a document that one run drops, how it begins."""

    doc_id: str
    first: tuple[str, str]
    second: tuple[str, str]
    only_first: int = 0
    only_second: int = 0
    first_lines: tuple[str, ...] = ()
    second_lines: tuple[str, ...] = ()
    begins: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two runs compared; `crossed` counts documents by `status of A / status of B`.

    compared, same     documents that both have with the same text; of them those with the same result
    only_first, only_second, other_text    documents that were left out
    drops, lines       agreement on dropped documents, and on removed lines of documents that neither drops
    """

    first: str
    second: str
    compared: int
    same: int
    only_first: int
    only_second: int
    other_text: int
    crossed: dict[str, int]
    drops: Agreement
    lines: Agreement
    examples: tuple[Example, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with precision, recall and F1."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "drops": self.drops.as_dict(), "lines": self.lines.as_dict()}


def difference(first: Path | str, second: Path | str, *, examples: int = 5) -> Difference:
    """The runs in two folders, compared; see `open_run` for errors. Raises BadQuery when they have no document in common."""
    a, b = open_run(first), open_run(second)
    tally = _Tally(a, b, examples)
    for text, ours, theirs in _joined(a, b):
        tally.take(text, ours, theirs)
    only_second = b.store.manifest.counts["documents"] - tally.in_second
    if not tally.compared and tally.only_first + only_second:
        raise BadQuery(f"{first} and {second} have no text in common: refine the same documents twice to compare")
    found = tuple(one for top in (tally.edits, tally.decisions) for one in top.shown())
    crossed = dict(sorted(tally.crossed.items(), key=lambda item: (-item[1], item[0])))
    return Difference(
        str(first), str(second), tally.compared, tally.same, tally.only_first, only_second, tally.other_text, crossed,
        tally.drops, tally.lines, found,
    )  # fmt: skip


def _joined(a: Run, b: Run) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every document of A: its text, its row in A, and its row in B (all None where B does not have it)."""
    for part in a.parent.parts:
        for table in shards.read_groups(part, ["doc_id", "text"]):
            ids = table.column("doc_id")
            ours = join_side(ids, a.programs, _COLUMNS).to_pylist()
            theirs = join_side(ids, b.programs, _COLUMNS).to_pylist()
            yield from zip(table.column("text").to_pylist(), ours, theirs, strict=True)


@dataclass(slots=True)
class _Tally:
    first: Run
    second: Run
    examples: int
    compared: int = 0
    same: int = 0
    only_first: int = 0
    in_second: int = 0
    other_text: int = 0
    crossed: Counter[str] = field(default_factory=Counter)
    drops: Agreement = field(default_factory=Agreement)
    lines: Agreement = field(default_factory=Agreement)
    edits: _Most = field(init=False)
    decisions: _Most = field(init=False)

    def __post_init__(self) -> None:
        self.edits, self.decisions = _Most(self.examples), _Most(self.examples)

    def take(self, text: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
        if theirs["text_hash"] is None:
            self.only_first += 1
            return
        self.in_second += 1
        if ours["text_hash"] != theirs["text_hash"]:
            self.other_text += 1
            return
        self.compared += 1
        statuses = ours["status"], theirs["status"]
        self.crossed[" / ".join(statuses)] += 1
        self.drops += agreement([0] * (statuses[0] == "dropped"), [0] * (statuses[1] == "dropped"))
        if "edited" not in statuses:
            self.same += len({status == "dropped" for status in statuses}) == 1
            self._remember(text, ours, theirs, set(), set())
            return
        one, mine = self._result(self.first, text, ours)
        other, others = self._result(self.second, text, theirs)
        self.same += one == other and "dropped" not in statuses
        if "dropped" not in statuses:
            self.lines += agreement(mine, others)
        if one != other:
            self._remember(text, ours, theirs, mine - others, others - mine)

    def _result(self, run: Run, text: str, row: dict[str, Any]) -> tuple[str, set[int]]:
        if row["status"] != "edited":
            return ("" if row["status"] == "dropped" else text), set()
        _, outcome = rerun(run, text, row)
        return outcome.text, removed_lines(text, outcome.changes)

    def _remember(self, text: str, ours: dict[str, Any], theirs: dict[str, Any], mine: set[int], others: set[int]) -> None:
        fates = (ours["status"], ours["reason"]), (theirs["status"], theirs["reason"])
        if (ours["status"] == "dropped") != (theirs["status"] == "dropped"):
            begins = " ".join(text[:400].split())[:_SHOWN_CHARS]
            self.decisions.add(len(text), Example(ours["doc_id"], *fates, begins=begins))
        elif mine or others:
            starts, stops = line_table(text)

            def shown(numbers: set[int]) -> tuple[str, ...]:
                return tuple(text[starts[n] : stops[n]].strip()[:_SHOWN_CHARS] for n in sorted(numbers)[:_SHOWN_LINES])

            one = Example(ours["doc_id"], *fates, len(mine), len(others), shown(mine), shown(others))
            self.edits.add(len(mine) + len(others), one)


@dataclass(slots=True)
class _Most:
    """The examples of the most weight; of equals, those whose ids come first."""

    number: int
    heap: list[tuple[int, str, Example]] = field(default_factory=list)

    def add(self, weight: int, one: Example) -> None:
        heapq.heappush(self.heap, (weight, _backwards(one.doc_id), one))
        if len(self.heap) > self.number:
            heapq.heappop(self.heap)

    def shown(self) -> list[Example]:
        return [one for _, _, one in sorted(self.heap, reverse=True, key=lambda entry: entry[:2])]


def _backwards(doc_id: str) -> str:
    """A string that sorts against the order of ids."""
    return "".join(chr(0x7F - ord(c)) for c in doc_id)
