"""What is proposed for a document, by rules and by a refiner, and what came of running it.

    document    a rule says drop, or the refiner does        the program is drop_doc(), its origin says who
    chunks      the statements of both, in one plan          nobody edits what another one has edited: spans of the parent

Rules come first, so that a refiner is not asked about a document that a rule drops. Where the refiner's share refuses the
whole program (too many statements at fault, made for another text, too long), the rules' share is run alone and the refusal is
kept. An answer that was cut off is a refusal: a program made of such answers alone is not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import (
    DECISIONS,
    MAX_PROGRAM_BYTES,
    MAX_STATEMENTS,
    Origin,
    Program,
    Refusal,
    Statement,
    canonical,
    keep_all,
    show,
    show_statement,
)
from typecase.core.program.proposal import Proposal
from typecase.core.program.run import Outcome, run
from typecase.core.program.tidy import tidied
from typecase.core.rules.groups import Proposal as ByRules

Only = Literal["document", "chunk"]
"""Which of the two stages runs, where it is not both: decisions about documents, or edits of their lines."""

WHOLE: Final = -1
"""In a list of refusals, the number of the chunk that is the whole document."""

Refused = list[Any]
"""[chunk or WHOLE, code, message]"""


@dataclass(frozen=True, slots=True)
class Settled:
    """One document: the program that was run, its outcome, and what was refused on the way.

    `said` is the refiner's proposal, None where it was not asked. `detail` is what a drop was decided on.
    """

    program: Program
    outcome: Outcome
    detail: str = ""
    said: Proposal | None = None
    refusals: list[Refused] = field(default_factory=list)


def settled(
    text: str, by_rules: ByRules | None, said: Proposal | None, policy: GuardPolicy, only: Only | None = None
) -> Settled:
    """Runs what was proposed for `text`; never raises, whatever a refiner said."""
    if by_rules is not None and drops(by_rules.program) and only != "chunk":
        return Settled(by_rules.program, run(by_rules.program, text, policy), by_rules.detail, said)
    own = _edits(by_rules.program.statements) if by_rules is not None and only != "document" else ()
    if said is None:
        program = Program(own) if own else Program((keep_all(),))
        return Settled(program, run(program, text, policy))
    refusals = _refusals(said)
    if said.drops and only != "chunk":
        assert isinstance(said.decision, Statement)
        program = Program((said.decision,), text_hash=said.program.text_hash)
        return Settled(program, run(program, text, policy), _scores(said), said, refusals)
    theirs = said.program if only != "document" and not _all_cut_off(said) else Program()
    program = _joined(own, theirs, said)
    fault = _too_long(program)
    if not fault:
        outcome = run(program, text, policy)
        if outcome.status != "refused" or not own:
            return Settled(program, outcome, "", said, refusals + _faults(theirs))
        fault = outcome.reason
    alone = Program(own) if own else Program((keep_all(),))
    shown = [[WHOLE, fault, show_statement(s)] for s in theirs.statements[:MAX_STATEMENTS]]
    return Settled(alone, run(alone, text, policy), "", said, refusals + _faults(theirs) + shown)


def tidy(done: Settled, text: str, policy: GuardPolicy, blank_lines: int | None) -> Settled:
    """`done`, with what tidies up behind its program."""
    program, outcome = tidied(done.program, done.outcome, text, policy, blank_lines=blank_lines)
    return done if outcome is done.outcome else replace(done, program=program, outcome=outcome)


def drops(program: Program) -> bool:
    """Whether the program is a decision to drop its document."""
    return bool(program.statements) and program.statements[0].name == "drop_doc"


def _edits(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    return tuple(s for s in statements if s.name not in DECISIONS)


def _joined(own: tuple[Statement, ...], theirs: Program, said: Proposal) -> Program:
    """Both shares as one program; a lone decision of the refiner's stays one."""
    edits = tuple(s for s in theirs.statements if s.name not in ("keep_all", "keep_doc"))
    if not own and not edits:
        origin = next((s.origin for s in theirs.statements), None) or _origin_of(said)
        return Program((keep_all(origin=origin),), text_hash=theirs.text_hash)
    return canonical(Program(own + edits, theirs.faults, theirs.text_hash))


def _origin_of(said: Proposal) -> Origin:
    return said.decision.origin if isinstance(said.decision, Statement) else Origin()


def _too_long(program: Program) -> str:
    if len(program.statements) > MAX_STATEMENTS:
        return "E_TOO_MANY_OPS"
    return "E_TOO_LONG" if len(show(program).encode()) > MAX_PROGRAM_BYTES else ""


def _all_cut_off(said: Proposal) -> bool:
    return bool(said.answers) and all(answer.truncated for answer in said.answers)


def _refusals(said: Proposal) -> list[Refused]:
    """What was refused of the answers; one that was cut off is a refusal whether or not its reader says so."""
    found: list[Refused] = []
    if isinstance(said.decision, Refusal):
        found.append([WHOLE, said.decision.code, said.decision.message])
    for number, answer in enumerate(said.answers):
        found += [[number, r.code, r.message] for r in answer.refusals]
        if answer.truncated and not any(r.code == "E_TRUNCATED" for r in answer.refusals):
            found.append([number, "E_TRUNCATED", "the answer was cut off"])
    return found


def _faults(program: Program) -> list[Refused]:
    return [[WHOLE, fault.code, fault.message] for fault in program.faults]


def _scores(said: Proposal) -> str:
    return ", ".join(f"{name} {'none' if value is None else f'{value:g}'}" for name, value in said.scores.items())


def signed(program: Program, provenance: Iterable[list[Any]]) -> Program:
    """The program with the origins that `provenance` names, one entry a statement."""
    origins = [Origin(str(e[0]), str(e[1]), str(e[2]), float(e[6])) for e in provenance]
    if len(origins) != len(program.statements):
        return program
    return replace(program, statements=tuple(s._replace(origin=o) for s, o in zip(program.statements, origins, strict=True)))
