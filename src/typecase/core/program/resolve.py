"""What each statement names: spans of the original text, or the code of a refusal.

    statement            resolved to                      refused as
    remove_lines(1, 2)   lines 1 and 2                    E_LINE_RANGE, E_RANGE_ORDER, E_PROTECTED, G_OP_TOO_LARGE
    remove_str           the one place where it occurs    E_NO_MATCH, E_AMBIGUOUS, E_INTRAWORD, E_GRAPHEME, …
    replace_str          likewise                         E_INVENTED
    normalize            pieces of a registered form      E_UNKNOWN_FORM

A `remove_str` of a whole line is a removal of the line. A replacement is a part of its source, or a registered form of
the words around it. Price: linear in the text once; a string costs its scope.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from typecase.core.lines import line_table
from typecase.core.program.forms import FORMS, Piece, pieces_of
from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import Program, Statement
from typecase.core.program.protect import holds_one, protected_lines
from typecase.core.words import is_grapheme_boundary, is_word_boundary, units_of, words_of

APPLIED = "applied"
VOID = "void"
"""Verdict of a statement that is right and changes nothing."""

_MAX_COUNTED = 1000


class Verdict(NamedTuple):
    """What became of a statement: APPLIED, VOID or a key of CODES; [start, stop) is the span that it names, else -1."""

    code: str
    start: int = -1
    stop: int = -1
    message: str = ""


@dataclass(slots=True)
class Edit:
    start: int
    stop: int
    target: str
    owners: list[int]
    soft: bool = False  # a piece of a normalisation: gives way


@dataclass(slots=True)
class Draft:
    """A program resolved against a text: what its statements name, not yet united.

    `ranges` holds (first line, last line, statement), `cuts` deletions inside lines, `swaps` replacements, `pieces` those
    of normalisations. `total_units` is the length of the text, 0 where only normalisations are asked for.
    """

    text: str
    policy: GuardPolicy
    starts: list[int]
    stops: list[int]
    verdicts: list[Verdict]
    total_units: int = 0
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    cuts: list[Edit] = field(default_factory=list)
    swaps: list[Edit] = field(default_factory=list)
    pieces: list[Edit] = field(default_factory=list)


def resolve(program: Program, text: str, policy: GuardPolicy) -> Draft:
    """Resolves the statements of `program`, none of which is a decision, against `text`."""
    starts, stops = line_table(text)
    draft = Draft(text, policy, starts, stops, [Verdict(VOID)] * len(program.statements))
    if any(s.name != "normalize" for s in program.statements):
        draft.total_units = units_of(text)
    guarded: list[int] | None = None
    forms: list[tuple[int, Statement]] = []
    for number, statement in enumerate(program.statements):
        verdict = _lines_verdict(draft, statement)
        if verdict is None and statement.origin.confidence < policy.protected_confidence and policy.protected:
            if guarded is None:
                guarded = protected_lines(draft.text, draft.starts, draft.stops, policy.protected)
            if statement.name != "normalize" and holds_one(guarded, statement.line_start, statement.line_end):
                verdict = Verdict("E_PROTECTED", message="the lines hold code, mathematics, a table, a quotation or the title")
        if verdict is None:
            if statement.name == "remove_lines":
                verdict = _resolve_lines(draft, number, statement)
            elif statement.name == "normalize":
                forms.append((number, statement))
                continue
            else:
                verdict = _resolve_string(draft, number, statement)
        draft.verdicts[number] = verdict
    if forms:
        _resolve_forms(draft, forms)
    return draft


def _lines_verdict(draft: Draft, statement: Statement) -> Verdict | None:
    first, last = statement.line_start, statement.line_end
    if last < first:
        return Verdict("E_RANGE_ORDER", message=f"line {last} stands before line {first}")
    if last >= len(draft.starts):
        return Verdict("E_LINE_RANGE", message=f"line {last} does not exist: the text has lines 0 to {len(draft.starts) - 1}")
    if statement.name in ("replace_str", "normalize") and not draft.policy.replacements:
        return Verdict("E_UNKNOWN_FN", message=f"the policy allows deletions only, {statement.name} is turned off")
    if (statement.nth or statement.of) and not draft.policy.nth:
        return Verdict("E_UNKNOWN_ARG", message="nth and of are turned off by the policy")
    return None


def _too_large(draft: Draft, start: int, stop: int) -> bool:
    limit = draft.total_units * draft.policy.operation_percent
    # A character is worth at most one unit: short spans need no count.
    if (stop - start) * 12 * 100 <= limit:
        return False
    return units_of(draft.text[start:stop]) * 100 > limit


def _resolve_lines(draft: Draft, number: int, statement: Statement) -> Verdict:
    first, last = statement.line_start, statement.line_end
    start, stop = draft.starts[first], draft.stops[last]
    if _too_large(draft, start, stop):
        return Verdict("G_OP_TOO_LARGE", start, stop, f"more than {draft.policy.operation_percent} % of the document")
    draft.ranges.append((first, last, number))
    return Verdict(APPLIED, start, stop)


def _resolve_string(draft: Draft, number: int, statement: Statement) -> Verdict:
    text, found = draft.text, _find(draft, statement)
    if isinstance(found, Verdict):
        return found
    start, stop = found, found + len(statement.text)
    small = stop - start < draft.policy.min_chars and statement.text not in draft.policy.separators
    if small and statement.name == "remove_str":
        return Verdict("G_OP_TOO_SMALL", start, stop, f"{statement.text!r} is too short to be removed alone")
    if _too_large(draft, start, stop):
        return Verdict("G_OP_TOO_LARGE", start, stop, f"more than {draft.policy.operation_percent} % of the document")
    if statement.name == "replace_str" and not _is_part(statement.text, statement.target):
        hull = _formed(text, start, stop, statement.target)
        if hull is None:
            return Verdict("E_INVENTED", start, stop, f"{statement.target!r} is neither part nor form of {statement.text!r}")
        draft.swaps.append(Edit(*hull, [number]))
        return Verdict(APPLIED, start, stop)
    for edge in (start, stop):
        if not is_grapheme_boundary(text, edge):
            return Verdict("E_GRAPHEME", start, stop, f"an edge cuts the characters around {edge}")
        if not is_word_boundary(text, edge):
            return Verdict("E_INTRAWORD", start, stop, f"an edge cuts the word around character {edge}")
    if statement.target:
        draft.swaps.append(Edit(start, stop, statement.target, [number]))
        return Verdict(APPLIED, start, stop)
    first, last = bisect_left(draft.starts, start), bisect_right(draft.stops, stop) - 1
    whole = first <= last and draft.starts[first] == start and draft.stops[last] == stop
    if whole and text[start] not in "\r\n" and text[stop - 1] not in "\r\n":
        draft.ranges.append((first, last, number))
    else:
        draft.cuts.append(Edit(start, stop, "", [number]))
    return Verdict(APPLIED, start, stop)


def _find(draft: Draft, statement: Statement) -> int | Verdict:
    """Where the string of `statement` stands, counted with overlaps inside its lines."""
    wanted = statement.text
    if not wanted:
        return Verdict("E_EMPTY_STRING", message="an empty string names nothing")
    low, high = draft.starts[statement.line_start], draft.stops[statement.line_end]
    places = [at] if (at := draft.text.find(wanted, low, high)) >= 0 else []
    while at >= 0 and len(places) < max(2, min(statement.of + 1, _MAX_COUNTED)):
        at = draft.text.find(wanted, at + 1, high)
        if at >= 0:
            places.append(at)
    if not places:
        return Verdict("E_NO_MATCH", message=f"{wanted!r} does not occur in lines {statement.line_start}–{statement.line_end}")
    if statement.nth or statement.of:
        if statement.of != len(places) or not 1 <= statement.nth <= statement.of:
            return Verdict(
                "E_AMBIGUOUS", message=f"{wanted!r}: nth={statement.nth} of={statement.of}, but there are {len(places)}"
            )
        return places[statement.nth - 1]
    if len(places) > 1:
        return Verdict("E_AMBIGUOUS", message=f"{wanted!r} occurs {_count(draft.text, wanted, low, high)} times")
    return places[0]


def _count(text: str, wanted: str, low: int, high: int) -> str:
    num, at = 0, text.find(wanted, low, high)
    while at >= 0 and num < _MAX_COUNTED:
        num += 1
        at = text.find(wanted, at + 1, high)
    return f"{num} or more" if at >= 0 else str(num)


def _is_part(source: str, target: str) -> bool:
    """Whether `target` is a subsequence of `source` and its words are words of the source."""
    rest = iter(source)
    if not all(char in rest for char in target):
        return False
    return not target or {w.casefold() for w in words_of(target)} <= {w.casefold() for w in words_of(source)}


def _formed(text: str, start: int, stop: int, target: str) -> tuple[int, int, str] | None:
    """The whole words around [start, stop) and their new form, where a registered form maps them exactly."""
    first, last = start, stop
    while not (is_word_boundary(text, first) and is_grapheme_boundary(text, first)):
        first -= 1
    while not (is_word_boundary(text, last) and is_grapheme_boundary(text, last)):
        last += 1
    old, new = text[first:last], text[first:start] + target + text[stop:last]
    if "\n" in old or "\r" in old:
        return None
    return (first, last, new) if any(form.apply(old) == new for form in FORMS.values()) else None


def _resolve_forms(draft: Draft, forms: list[tuple[int, Statement]]) -> None:
    """Splits the lines where the set of asked forms changes, and takes the composed pieces of each stretch."""
    claims: dict[str, list[tuple[int, int, int]]] = {}
    for number, s in forms:
        if s.text not in FORMS:
            draft.verdicts[number] = Verdict("E_UNKNOWN_FORM", message=f"no form {s.text!r}; there are {', '.join(FORMS)}")
            continue
        last = s.line_end if s.line_start >= 0 else len(draft.starts) - 1
        claims.setdefault(s.text, []).append((max(s.line_start, 0), last, number))
    owned = {form: _disjoint(spans) for form, spans in claims.items()}
    cuts = sorted({c for spans in owned.values() for a, b, _ in spans for c in (a, b + 1)})
    for low, high in pairwise(cuts):
        here = {form: owner for form, spans in owned.items() if (owner := _owner(spans, low)) >= 0}
        for piece in pieces_of(list(here), draft.text, draft.starts[low], draft.stops[high - 1]) if here else ():
            draft.pieces.append(Edit(piece.start, piece.stop, piece.target, _blame(here, draft.text, piece), soft=True))


def _blame(here: dict[str, int], text: str, piece: Piece) -> list[int]:
    """The statements whose form has a trigger in the piece; all of them where the trigger came from another form."""
    found = {owner for form, owner in here.items() if FORMS[form].trigger.search(text, piece.start, piece.stop)}
    return sorted(found or here.values())


def _disjoint(spans: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Line intervals made disjoint: each line belongs to the statement that covers it and begins first."""
    done: list[tuple[int, int, int]] = []
    reached = -1
    for a, b, number in sorted(spans):
        if b > reached:
            done.append((max(a, reached + 1), b, number))
            reached = b
    return done


def _owner(spans: Sequence[tuple[int, int, int]], line: int) -> int:
    at = bisect_right(spans, line, key=lambda s: s[0]) - 1
    return spans[at][2] if at >= 0 and spans[at][1] >= line else -1
