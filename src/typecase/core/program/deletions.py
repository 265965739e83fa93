"""Deletions: the program that makes a clean text out of a noisy one, where deleting is enough.

    noisy                    clean              program
    0  Home | About
    1  A text [edit] here.   A text here.       remove_lines(line_start=0, line_end=0)
    2  More of it.           More of it.        remove_str(line=1, text="[edit] ")

Lines are aligned first: those that stand once in both texts are anchors (the patience of a diff), and between two anchors every
clean line is given the noisy line that it equals, or that it is left of when a few strings are deleted. What adds, moves or
changes is no deletion and is refused: a program teaches what its reader is to do, and inventing is not. Blank lines carry
nothing: they go with what is deleted, and texts are compared without them.

Laws: the program passes the guards; running it gives the clean text's lines. Price: linear in lines but for gaps between
anchors, which cost noisy times clean lines, at most MOST_CELLS, and are matched greedily beyond.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Final

from typecase.core.lines import line_table
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.language import MAX_STRING_BYTES, UNKNOWN, Origin, Program, Statement, keep_all, remove_lines
from typecase.core.program.language import remove_str as removed_string
from typecase.core.program.run import run

MOST_CELLS: Final = 40_000
MOST_STRINGS: Final = 4
"""Strings deleted in one line; more is another line."""
_LONGEST_LINE: Final = 4_000
_LEAST_LEFT: Final = 0.25
Cuts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NoDeletion:
    """Why no program was made: `adds` where the clean text says what the noisy one does not, `guarded` where a guard refuses
    so much deletion, `differs` where the program's text is another; `detail` names the line, guard or fault."""

    reason: str
    detail: str


def deletions(noisy: str, clean: str, *, policy: GuardPolicy | None = None, origin: Origin = UNKNOWN) -> Program | NoDeletion:
    """The program, in canonical order: keep_all() where nothing is deleted. See the module.

    By default `policy` is the strict one without protected lines: what a clean text shows needs no confidence of its own.
    """
    policy = policy or replace(STRICT, nth=True, protected=())
    shown = _content(noisy)
    wanted = [line for _, line in _content(clean)]
    kept = _aligned([line for _, line in shown], wanted)
    if isinstance(kept, int):
        return NoDeletion("adds", f"line {kept} of what is clean: {wanted[kept][:80]!r}")
    statements = _statements(noisy, shown, kept, origin)
    if not statements:
        return Program((keep_all(origin=origin),))
    outcome = run(Program(tuple(statements)), noisy, policy)
    if outcome.status not in ("edited", "kept"):
        return NoDeletion("guarded", outcome.reason)
    if outcome.num_errors or [line for _, line in _content(outcome.text)] != wanted:
        return NoDeletion("differs", next((v.code for v in outcome.verdicts if v.code.startswith("E_")), "the lines"))
    return Program(tuple(statements))


def _content(text: str) -> list[tuple[int, str]]:
    """Number and text of every line with something in it, without the blanks at its end."""
    starts, stops = line_table(text)
    lines = ((number, text[a:b].rstrip()) for number, (a, b) in enumerate(zip(starts, stops)))
    return [(number, line) for number, line in lines if line]


def _aligned(noisy: Sequence[str], clean: Sequence[str]) -> dict[int, Cuts] | int:
    """The noisy lines that stay, by place, with what is cut out of them; or the place of a clean line that none can give."""
    kept: dict[int, Cuts] = {}
    last_n = last_c = 0
    for n, c in [*_anchors(noisy, clean), (len(noisy), len(clean))]:
        found = _gap(noisy[last_n:n], clean[last_c:c])
        if isinstance(found, int):
            return last_c + found
        kept |= {last_n + place: cuts for place, cuts in found.items()}
        if n < len(noisy):
            kept[n] = ()
        last_n, last_c = n + 1, c + 1
    return kept


def _anchors(noisy: Sequence[str], clean: Sequence[str]) -> list[tuple[int, int]]:
    """Places of lines that stand once in both, the longest rising series of them."""
    once = {line for line, count in Counter(noisy).items() if count == 1}
    once &= {line for line, count in Counter(clean).items() if count == 1}
    place = {line: n for n, line in enumerate(noisy) if line in once}
    pairs = [(place[line], c) for c, line in enumerate(clean) if line in once]
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for k, (n, _) in enumerate(pairs):
        at = bisect_left(tails, n)
        before.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [n]
        ends[at : at + 1] = [k]
    series = []
    k = ends[-1] if ends else -1
    while k >= 0:
        series.append(pairs[k])
        k = before[k]
    return series[::-1]


def _gap(noisy: Sequence[str], clean: Sequence[str]) -> dict[int, Cuts] | int:
    if not clean:
        return {}
    if len(noisy) * len(clean) > MOST_CELLS:
        return _greedy(noisy, clean)
    return _cheapest(noisy, clean)


def _greedy(noisy: Sequence[str], clean: Sequence[str]) -> dict[int, Cuts] | int:
    """Every clean line to the first noisy line behind the last that can give it."""
    kept: dict[int, Cuts] = {}
    at = 0
    for c, line in enumerate(clean):
        cuts: Cuts | None = None
        while at < len(noisy) and (cuts := cuts_of(noisy[at], line)) is None:
            at += 1
        if cuts is None:
            return c
        kept[at] = cuts
        at += 1
    return kept


def _cheapest(noisy: Sequence[str], clean: Sequence[str]) -> dict[int, Cuts] | int:
    """The alignment with the fewest strings cut; among equals the noisy lines that stand first."""
    never = len(clean) * (MOST_STRINGS + 1) + 1
    best = [0] * (len(noisy) + 1)
    tables: list[list[int]] = []
    steps: list[dict[int, Cuts]] = []
    for c, line in enumerate(clean):
        row, own = [never] * (len(noisy) + 1), {}
        for n in range(c, len(noisy)):
            row[n + 1] = row[n]
            cuts = cuts_of(noisy[n], line) if best[n] < row[n] else None
            if cuts is not None and best[n] + len(cuts) < row[n]:
                row[n + 1] = best[n] + len(cuts)
                own[n] = cuts
        if min(row) >= never:
            return c
        tables.append(row)
        steps.append(own)
        best = row
    kept: dict[int, Cuts] = {}
    stop = len(noisy)
    for row, own in zip(tables[::-1], steps[::-1]):
        while row[stop] == row[stop - 1]:
            stop -= 1
        stop -= 1
        kept[stop] = own[stop]
    return kept


def cuts_of(noisy: str, clean: str) -> Cuts | None:
    """The strings [start, stop) of one line whose deletion leaves another, at most MOST_STRINGS; None where there are none."""
    if noisy == clean:
        return ()
    if not clean or len(clean) >= len(noisy) or len(noisy) > _LONGEST_LINE or len(clean) < _LEAST_LEFT * len(noisy):
        return None
    head = next((k for k, (a, b) in enumerate(zip(noisy, clean)) if a != b), len(clean))
    tail = next((k for k, (a, b) in enumerate(zip(noisy[::-1], clean[::-1])) if a != b), len(clean))
    if head + tail >= len(clean):
        start = len(clean) - tail
        return ((start, len(noisy) - tail),)
    if head + tail < _LEAST_LEFT * len(clean) and not _is_within(noisy, clean):
        return None
    cuts: list[tuple[int, int]] = []
    for what, a, b, _, _ in SequenceMatcher(None, noisy, clean, autojunk=False).get_opcodes():
        if what not in ("equal", "delete"):
            return None
        if what == "delete":
            cuts.append((a, b))
    return tuple(cuts) if len(cuts) <= MOST_STRINGS else None


def _is_within(noisy: str, clean: str) -> bool:
    """Whether the characters of `clean` stand in `noisy` in their order."""
    rest = iter(noisy)
    return all(character in rest for character in clean)


def _statements(text: str, shown: Sequence[tuple[int, str]], kept: dict[int, Cuts], origin: Origin) -> list[Statement]:
    """Ranges of lines that go, with the blank lines behind them, and strings of those that stay."""
    numbers = [number for number, _ in shown]
    starts, stops = line_table(text)
    found: list[Statement] = []
    place = 0
    while place < len(shown):
        if place in kept:
            found += _strings(text[starts[numbers[place]] : stops[numbers[place]]], numbers[place], kept[place], origin)
            place += 1
            continue
        first = place
        while place < len(shown) and place not in kept:
            place += 1
        apart = first == 0 or numbers[first] - 1 > numbers[first - 1]  # a blank line before it stays, those behind it go
        last = numbers[place] - 1 if apart and place < len(shown) else numbers[place - 1]
        found.append(remove_lines(numbers[first], last, origin=origin))
    return found


def _strings(line: str, number: int, cuts: Cuts, origin: Origin) -> list[Statement]:
    """Each string by its text, and by which of its like it is where there are several."""
    made = []
    for start, stop in cuts:
        wanted = line[start:stop]
        if len(wanted.encode("utf-8", "surrogatepass")) > MAX_STRING_BYTES:
            return []  # the check of the result refuses it
        places, at = [], line.find(wanted)
        while at >= 0:
            places.append(at)
            at = line.find(wanted, at + 1)
        nth, of = (places.index(start) + 1, len(places)) if len(places) > 1 else (0, 0)
        made.append(removed_string(number, wanted, nth=nth, of=of, origin=origin))
    return made
