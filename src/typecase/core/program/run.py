"""Running a program on the text that it was made for: total, and nothing is lost.

    parse -> resolve -> plan -> guard            the files of these names; guarding and applying here

    status     text            when
    kept       the original    keep_all(), keep_doc(), or nothing to change
    edited     the new text
    dropped    ""              drop_doc(), or a short result where the policy says drop
    guarded    the original    a guard refused the result (reason G_…)
    refused    the original    the program was at fault (reason E_…)

Laws, each a property test: kept and removed spans tile the input; `restore(outcome)` is the input; the order of the
statements means nothing; no word appears that the input, or its registered forms, did not have; a document is emptied
by an explicit decision only; any program and any text give an outcome.

Price: about 50 microseconds for four statements on a page of 2 KB, parsing and the hash of the text included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from typecase.core.document import Span
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.language import DECISIONS, Program, Refusal, text_hash
from typecase.core.program.plan import Change, Plan, plan
from typecase.core.program.resolve import APPLIED, VOID, Verdict
from typecase.core.words import UNIT, units_of

Status = Literal["kept", "edited", "dropped", "guarded", "refused"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of running a program.

    `changes` are those that were made, disjoint, in order, in characters of the original. `verdicts` has one entry a
    statement, also where the result was guarded: it says what the statement would have done. `num_chars` is the length of
    the original.
    """

    text: str
    status: Status
    reason: str
    changes: tuple[Change, ...]
    verdicts: tuple[Verdict, ...]
    num_chars: int

    @property
    def removed(self) -> tuple[Span, ...]:
        """Spans of the original that are gone or replaced."""
        return tuple(Span(c.start, c.stop) for c in self.changes)

    @property
    def kept(self) -> tuple[Span, ...]:
        """Spans of the original that stand unchanged; with `removed` they tile it."""
        edges = [0, *(e for c in self.changes for e in (c.start, c.stop)), self.num_chars]
        return tuple(Span(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b)

    @property
    def num_errors(self) -> int:
        """Statements at fault; guards are not counted, they are no fault of the program."""
        return sum(is_error(v.code) for v in self.verdicts)


def is_error(code: str) -> bool:
    return code.startswith("E_") and code not in ("E_PROTECTED", "E_TRUNCATED")


def run(program: Program | Refusal, text: str, policy: GuardPolicy = STRICT) -> Outcome:
    """Runs `program` on `text`; never raises, whatever the two hold."""
    if isinstance(program, Refusal):
        return _unchanged(text, "refused", program.code)
    statements = program.statements
    if program.text_hash is not None and program.text_hash != text_hash(text):
        return _unchanged(text, "refused", "E_DOC_MISMATCH", [Verdict("E_DOC_MISMATCH")] * len(statements))
    if not statements:
        return _unchanged(text, "refused", "E_ERRORS" if program.faults else "E_EMPTY")
    if not DECISIONS.isdisjoint([s.name for s in statements]):
        return _decided(program, text)
    planned = plan(program, text, policy)
    verdicts = planned.verdicts
    codes = [v.code for v in verdicts if v.code != APPLIED]
    errors = sum(map(is_error, codes)) + sum(is_error(f.code) for f in program.faults)
    if errors * 100 > max(100, policy.error_percent * (len(statements) + len(program.faults))):
        return _unchanged(text, "refused", "E_ERRORS", verdicts)
    if not planned.changes:
        codes = sorted(set(codes) - {VOID}, key=lambda code: (is_error(code), code))
        guarded = bool(codes) and not is_error(codes[0])
        return _unchanged(text, "guarded" if guarded else "kept", codes[0] if codes else "", verdicts)
    return _guarded(planned, policy)


def restore(outcome: Outcome) -> str:
    """The original text, rebuilt from the result and its changes."""
    parts: list[str] = []
    at = shift = 0
    for change in outcome.changes:
        start = change.start + shift
        parts += (outcome.text[at:start], change.removed)
        at = start + len(change.target)
        shift = at - change.stop
    return "".join((*parts, outcome.text[at:]))


def _unchanged(text: str, status: Status, reason: str, verdicts: list[Verdict] | None = None) -> Outcome:
    return Outcome(text, status, reason, (), tuple(verdicts or ()), len(text))


def _decided(program: Program, text: str) -> Outcome:
    statements = program.statements
    if program.faults or any(s != statements[0] for s in statements):
        message = f"{statements[0].name}() stands alone in its program"
        return _unchanged(text, "refused", "E_CONTRADICTION", [Verdict("E_CONTRADICTION", message=message)] * len(statements))
    if statements[0].name == "drop_all" and text:
        message = "only drop_doc() empties a document; drop_all() is of a chunk"
        return _unchanged(text, "guarded", "G_DOC_RATIO", [Verdict("G_DOC_RATIO", message=message)] * len(statements))
    verdicts = [Verdict(APPLIED)] * len(statements)
    if statements[0].name != "drop_doc":
        return _unchanged(text, "kept", "", verdicts)
    return _emptied(text, statements[0].origin.name or "drop_doc", tuple(range(len(statements))), verdicts)


def _emptied(text: str, reason: str, owners: tuple[int, ...], verdicts: list[Verdict]) -> Outcome:
    changes = (Change(0, len(text), text, "", owners),) if text else ()
    return Outcome("", "dropped", reason, changes, tuple(verdicts), len(text))


def _guarded(planned: Plan, policy: GuardPolicy) -> Outcome:
    """The planned result, unless too little of the document is left."""
    text, result, verdicts = planned.text, planned.result, planned.verdicts
    removed_chars = sum([c.stop - c.start for c in planned.changes])
    total = planned.total_units
    if total:
        # A removed character takes at most one unit with it; only where that is not good enough is the result counted.
        left = total - removed_chars * UNIT
        if left * 100 < total * policy.kept_percent or left <= policy.short_units * UNIT:
            left = units_of(result)
        if left * 100 < total * policy.kept_percent:
            return _unchanged(text, "guarded", "G_DOC_RATIO", verdicts)
        if left <= policy.short_units * UNIT < total and policy.short != "keep":
            if policy.short == "drop":
                return _emptied(text, "short", tuple(n for n, v in enumerate(verdicts) if v.code == APPLIED), verdicts)
            return _unchanged(text, "guarded", "G_SHORT_RESULT", verdicts)
    if not result.strip() and text.strip():
        return _unchanged(text, "guarded", "G_SHORT_RESULT", verdicts)
    return Outcome(result, "edited", "", tuple(planned.changes), tuple(verdicts), len(text))
