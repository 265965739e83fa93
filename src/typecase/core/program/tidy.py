"""Tidying: what a program leaves behind when it takes something out of a line goes, too, and is named in the program.

    before                      after remove_str("[edit]")      tidied
    Sorts [edit] and cases      Sorts␣␣and cases                Sorts and cases      one of two blanks that became neighbours
    [edit]                      (a blank line)                  (no line)            a line that was not blank before
    A ¶ [menu] ¶ B              A ¶ ¶ B                         A ¶ B                blank lines beyond a number

Tidying only deletes blanks and blank lines, each by a statement of its own with the origin `tidy`, so that the program still
says all that was done; blank lines are counted where lines went, and nowhere else. A replacement is left as it is. Where a
statement of tidying would be refused, nothing is tidied.

Laws, each a property test: the words are those of the program alone, in their order; tidying twice is tidying once; nothing is
tidied that the program did not touch. Price: one more run of the program where there is something to tidy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from typecase.core.lines import line_table
from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import (
    MAX_STATEMENTS,
    MAX_STRING_BYTES,
    Origin,
    Program,
    Statement,
    canonical,
    remove_lines,
    remove_str,
)
from typecase.core.program.plan import Change
from typecase.core.program.resolve import APPLIED
from typecase.core.program.run import Outcome, run

TIDY = Origin("tidy", "blanks", "1", 1.0)
_BLANKS = " \t\u00a0\u3000"
_MAX_COUNTED = 1000


def tidied(
    program: Program, outcome: Outcome, text: str, policy: GuardPolicy, *, blank_lines: int | None = None
) -> tuple[Program, Outcome]:
    """The program with what tidies up behind it, and its outcome; as they were where there is nothing to tidy.

    `outcome` is that of `program` on `text` under `policy`, which must allow `nth`. `blank_lines` is how many blank lines may
    stay in a row where lines were removed; None leaves them.
    """
    if outcome.status != "edited":
        return program, outcome
    extra = list(_statements(outcome.changes, text, blank_lines))
    if not extra or len(program.statements) + len(extra) > MAX_STATEMENTS:
        return program, outcome
    whole = canonical(Program((*program.statements, *extra), program.faults, program.text_hash))
    found = run(whole, text, policy)
    made = all(v.code == APPLIED for s, v in zip(whole.statements, found.verdicts) if s.origin == TIDY)
    return (whole, found) if found.status == "edited" and made else (program, outcome)


def _statements(changes: Sequence[Change], text: str, blank_lines: int | None) -> Iterator[Statement]:
    starts, stops = line_table(text)
    inside: dict[int, list[Change]] = defaultdict(list)
    touched: set[int] = set()
    for change in changes:
        first, last = bisect_right(starts, change.start) - 1, bisect_right(starts, change.stop) - 1
        if change.target or change.stop > stops[first]:
            touched.update(range(first, last + 1))
        else:
            inside[first].append(change)
    gone = set(_removed(changes, starts, stops))
    for line, cuts in inside.items():
        if line in touched or line in gone:
            continue
        if _is_left_blank(text, starts[line], stops[line], cuts):
            gone.add(line)
            yield remove_lines(line, line, origin=TIDY)
        else:
            yield from _neighbours(text, line, starts[line], stops[line], cuts)
    if blank_lines is not None and gone:
        for line in _surplus(text, starts, stops, gone, blank_lines):
            yield remove_lines(line, line, origin=TIDY)


def _is_left_blank(text: str, start: int, stop: int, cuts: Sequence[Change]) -> bool:
    """Whether a line that was not blank is nothing but blanks without its cuts."""
    edges = [start, *(e for c in cuts for e in (c.start, c.stop)), stop]
    left = "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))
    return not left.strip() and bool(text[start:stop].strip())


def _neighbours(text: str, line: int, start: int, stop: int, cuts: Sequence[Change]) -> Iterator[Statement]:
    """For each cut between two blanks: the cut again, with the blank behind it."""
    for number, cut in enumerate(cuts):
        behind = cuts[number + 1].start if number + 1 < len(cuts) else stop
        if not start < cut.start or not cut.stop < behind:
            continue
        if text[cut.start - 1] not in _BLANKS or text[cut.stop] not in _BLANKS:
            continue
        wanted = text[cut.start : cut.stop + 1]
        places = list(_places(text, wanted, start, stop))
        if len(places) < _MAX_COUNTED and len(wanted.encode("utf-8", "surrogatepass")) <= MAX_STRING_BYTES:
            nth, of = (places.index(cut.start) + 1, len(places)) if len(places) > 1 else (0, 0)
            yield remove_str(line, wanted, nth=nth, of=of, origin=TIDY)


def _places(text: str, wanted: str, start: int, stop: int) -> Iterator[int]:
    """Where `wanted` stands in a line, counted with overlaps; no more than are needed to know that they are too many."""
    at = text.find(wanted, start, stop)
    for _ in range(_MAX_COUNTED):
        if at < 0:
            return
        yield at
        at = text.find(wanted, at + 1, stop)


def _removed(changes: Sequence[Change], starts: Sequence[int], stops: Sequence[int]) -> Iterator[int]:
    """Lines that are gone with a terminator: the one behind them, or that before where a change begins within a line."""
    last = len(starts) - 1
    for change in changes:
        if change.target:
            continue
        line = bisect_right(starts, change.start) - 1
        if change.start == starts[line]:
            while line < last and starts[line + 1] <= change.stop:
                yield line
                line += 1
        else:
            while line < last and stops[line + 1] <= change.stop:
                line += 1
                yield line


def _surplus(text: str, starts: Sequence[int], stops: Sequence[int], gone: set[int], most: int) -> Iterator[int]:
    """Blank lines beyond the first `most` of each run out of which, or at the side of which, lines were removed."""
    run: list[int] = []
    opened = False
    for line in range(len(starts) + 1):
        if line in gone:
            opened = True
        elif line < len(starts) and not text[starts[line] : stops[line]].strip():
            run.append(line)
        else:
            if opened:
                yield from run[most:]
            run, opened = [], False
