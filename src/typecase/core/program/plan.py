"""From what the statements name to changes of the text: unite, look at every edge, refuse what does not fit.

Everything is a span of the original, so no statement sees another's result and their order means nothing. Deletions are
united; a replacement that overlaps another edit is refused (E_CONFLICT); a piece of a normalisation gives way to any
other edit. Then every edge is looked at in the result: an edge inside a word or a character cluster refuses the
statements that made it, for two harmless deletions can glue two words together:

    "foo ,bar"   without " "   foo,bar         without ","   foo bar        without both   foobar: E_INTRAWORD, twice

Line ranges are united as intervals of line ids before they become characters: removing the last line takes the
terminator before it, and the result is what "join the lines that are left" gives.

Price: n log n in the statements, and one pass over the text to join what is left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import Program
from typecase.core.program.resolve import APPLIED, Draft, Edit, Verdict, resolve
from typecase.core.words import is_grapheme_boundary, is_word_boundary

_MAX_ROUNDS = 8


class Change(NamedTuple):
    """Characters [start, stop) of the original, which read `removed`, become `target`.

    `statements` are the numbers of the statements that asked for it.
    """

    start: int
    stop: int
    removed: str
    target: str
    statements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a program does to a text: disjoint changes in order, the result, one verdict a statement.

    `total_units` is the length of the text in twelfths, 0 where only normalisations are asked for.
    """

    text: str
    result: str
    changes: list[Change]
    verdicts: list[Verdict]
    total_units: int


def plan(program: Program, text: str, policy: GuardPolicy) -> Plan:
    """The plan of `program`, none of whose statements is a decision, for `text`."""
    draft = resolve(program, text, policy)
    if draft.swaps:
        _refuse_conflicts(draft)
    result, edits = _settled(draft)
    changes = [Change(e.start, e.stop, text[e.start : e.stop], e.target, _numbers(e.owners)) for e in edits]
    if draft.pieces:
        _judge_pieces(draft, edits)
    return Plan(text, result, changes, draft.verdicts, draft.total_units)


def _refuse_conflicts(draft: Draft) -> None:
    """E_CONFLICT for every replacement that overlaps another edit; identical replacements are one."""
    deletions = _deletions(draft)
    merged: dict[tuple[int, int, str], Edit] = {}
    for swap in draft.swaps:
        merged.setdefault(
            (swap.start, swap.stop, swap.target), Edit(swap.start, swap.stop, swap.target, [])
        ).owners += swap.owners
    swaps = [merged[key] for key in sorted(merged)]
    bad = {id(s) for s in swaps if _overlaps(deletions, s)}
    reach, widest = -1, swaps[0]
    for swap in swaps:
        if swap.start < reach:
            bad |= {id(swap), id(widest)}
        if swap.stop > reach:
            reach, widest = swap.stop, swap
    _refuse(draft, {n for s in swaps if id(s) in bad for n in s.owners}, "E_CONFLICT", "the replacement overlaps another edit")
    draft.swaps = [s for s in swaps if id(s) not in bad]


def _overlaps(spans: Sequence[Edit], edit: Edit) -> bool:
    at = bisect_left(spans, edit.stop, key=lambda s: s.start) - 1
    return at >= 0 and spans[at].stop > edit.start


def _refuse(draft: Draft, numbers: Collection[int], code: str, message: str) -> None:
    for number in numbers:
        verdict = draft.verdicts[number]
        draft.verdicts[number] = Verdict(code, verdict.start, verdict.stop, message)


def _deletions(draft: Draft) -> list[Edit]:
    """All deletions, united where they overlap or touch; in order."""
    spans: list[Edit] = []
    last_line = len(draft.starts) - 1
    for first, last, owners in _united_lines(draft.ranges):
        if last < last_line:
            spans.append(Edit(draft.starts[first], draft.starts[last + 1], "", owners))
        else:
            spans.append(Edit(draft.stops[first - 1] if first else 0, draft.stops[last], "", owners))
    if draft.cuts:
        spans += [Edit(c.start, c.stop, "", list(c.owners)) for c in draft.cuts]
        spans.sort(key=lambda e: (e.start, e.stop))
    done: list[Edit] = []
    for span in spans:
        if done and span.start <= done[-1].stop:
            done[-1].stop = max(done[-1].stop, span.stop)
            done[-1].owners += span.owners
        else:
            done.append(span)
    return done


def _united_lines(ranges: list[tuple[int, int, int]]) -> list[tuple[int, int, list[int]]]:
    done: list[tuple[int, int, list[int]]] = []
    for first, last, number in sorted(ranges):
        if done and first <= done[-1][1] + 1:
            done[-1] = (done[-1][0], max(done[-1][1], last), [*done[-1][2], number])
        else:
            done.append((first, last, [number]))
    return done


def _settled(draft: Draft) -> tuple[str, list[Edit]]:
    """The result and its edits: made, every edge looked at, refused where bad, and again until nothing is."""
    for _ in range(_MAX_ROUNDS):
        edits = _edits(draft)
        result, edges = _applied(draft.text, edits)
        bad = [(edits[i], code) for i, at in edges if (code := _edge_fault(result, at))]
        if not bad:
            return result, edits
        _withdraw(draft, bad)
    # Refusals that go on causing refusals: only an adversary writes such a program.
    _withdraw(draft, [(edit, "E_INTRAWORD") for edit in _edits(draft)])
    draft.pieces = []
    return draft.text, []


def _judge_pieces(draft: Draft, edits: Sequence[Edit]) -> None:
    """The verdict of each normalisation that changed something: applied, from its first piece to its last."""
    hulls: dict[int, tuple[int, int]] = {}
    for edit in edits:
        if edit.soft:
            for number in edit.owners:
                hulls[number] = (hulls.get(number, (edit.start, 0))[0], edit.stop)
    for number, (start, stop) in hulls.items():
        draft.verdicts[number] = Verdict(APPLIED, start, stop)


def _numbers(owners: list[int]) -> tuple[int, ...]:
    return tuple(owners) if len(owners) == 1 else tuple(sorted(set(owners)))


def _withdraw(draft: Draft, bad: Sequence[tuple[Edit, str]]) -> None:
    """Takes back the statements behind hard edits, and soft edits one by one."""
    gone: dict[int, str] = {}
    for edit, code in bad:
        if not edit.soft:
            gone |= dict.fromkeys(edit.owners, code)
    for number, code in gone.items():
        _refuse(draft, [number], code, "the edges of what would be left do not fit together")
    # A piece waits until no hard edit is bad: its neighbour may have been at fault.
    dead = set() if gone else {edit.start for edit, _ in bad}
    draft.pieces = [p for p in draft.pieces if p.start not in dead]
    draft.ranges = [r for r in draft.ranges if r[2] not in gone]
    draft.cuts = [c for c in draft.cuts if not gone.keys() & set(c.owners)]
    draft.swaps = [s for s in draft.swaps if not gone.keys() & set(s.owners)]


def _edits(draft: Draft) -> list[Edit]:
    hard = _deletions(draft) if draft.ranges or draft.cuts else []
    if draft.swaps:
        hard = sorted([*hard, *draft.swaps], key=lambda e: (e.start, e.stop))
    if not draft.pieces:
        return hard
    soft = [piece for piece in draft.pieces if not _overlaps(hard, piece)]
    return sorted([*hard, *soft], key=lambda e: (e.start, e.stop))


def _applied(text: str, edits: Sequence[Edit]) -> tuple[str, list[tuple[int, int]]]:
    """The text with `edits` made, and the places in it where an edit begins or ends, as (edit number, character)."""
    parts: list[str] = []
    edges: list[tuple[int, int]] = []
    at = length = 0
    for i, edit in enumerate(edits):
        parts.append(text[at : edit.start])
        length += edit.start - at
        edges.append((i, length))
        if edit.target:
            parts.append(edit.target)
            length += len(edit.target)
            edges.append((i, length))
        at = edit.stop
    parts.append(text[at:])
    return "".join(parts), edges


def _edge_fault(text: str, at: int) -> str:
    if at == 0 or at == len(text) or (text[at - 1] == "\n" and text[at] < "\x7f"):
        return ""
    if not is_grapheme_boundary(text, at):
        return "E_GRAPHEME"
    return "" if is_word_boundary(text, at) else "E_INTRAWORD"
