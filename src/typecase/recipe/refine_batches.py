"""What a slow refiner proposed, kept batch by batch until its part is whole; and how far each part is.

    .scratch/proposed-00003-000017.json     batch 17 of part 3: a proposal for each text, and the hashes of the texts
    .scratch/pulse-00003.json               part 3 so far: documents, how many stay, bytes before and after

A run that was killed finds its batches and asks only what was not answered. A file that is torn, or that is about other texts,
is asked again. A fresh batch is read back from its own bytes, so that what was kept and what was not are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from typecase.core.program.language import Origin, Program, Refusal, Statement, text_hash
from typecase.core.program.proposal import Answer, Proposal
from typecase.errors import BadProgram
from typecase.lm.refine.refiner import Refiner
from typecase.store import atomic


@dataclass(slots=True)
class Batches:
    """The batches of one part; `size` None asks about all texts of a row group at once and keeps nothing."""

    scratch: Path
    task: int
    size: int | None
    number: int = 0

    def proposed(self, refiner: Refiner, texts: Sequence[str]) -> list[Proposal]:
        """A proposal for each text, in order."""
        if self.size is None:
            return asked(refiner, texts)
        path = self.scratch / f"proposed-{self.task:05d}-{self.number:06d}.json"
        self.number += 1
        if (kept := _kept(path, texts)) is not None:
            return kept
        data = written(asked(refiner, texts), texts)
        atomic.write_bytes(path, data, sync=False)
        return read(data)


def asked(refiner: Refiner, texts: Sequence[str]) -> list[Proposal]:
    """What `refiner` proposes; raises BadProgram when it loses or invents a document."""
    proposals = refiner.propose(texts) if texts else []
    if len(proposals) != len(texts):
        raise BadProgram(
            f"the refiner {refiner.name} gave {len(proposals)} proposals for {len(texts)} documents; it must give one for each"
        )
    return list(proposals)


def _kept(path: Path, texts: Sequence[str]) -> list[Proposal] | None:
    try:
        data = path.read_bytes()
        if orjson.loads(data)["texts"] == [text_hash(text) for text in texts]:
            return read(data)
    except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
        pass  # none yet, or torn by a power cut
    return None


def written(proposals: Sequence[Proposal], texts: Sequence[str]) -> bytes:
    """Proposals as JSON, each origin once."""
    origins: dict[Origin, int] = {}
    rows = [_row(proposal, origins) for proposal in proposals]
    known = [[o.kind, o.name, o.version, o.confidence] for o in origins]
    return orjson.dumps({"texts": [text_hash(text) for text in texts], "origins": known, "rows": rows})


def read(data: bytes) -> list[Proposal]:
    """The proposals that `written` wrote."""
    found = orjson.loads(data)
    origins = [Origin(*entry) for entry in found["origins"]]
    return [_proposal(row, origins) for row in found["rows"]]


def _row(proposal: Proposal, origins: dict[Origin, int]) -> dict[str, Any]:
    def statement(s: Statement) -> list[Any]:
        return [*s[:8], origins.setdefault(s.origin, len(origins))]

    program, decision = proposal.program, proposal.decision
    return {
        "program": [statement(s) for s in program.statements],
        "faults": [_refusal(r) for r in program.faults],
        "text_hash": program.text_hash,
        "decision": statement(decision) if isinstance(decision, Statement) else None,
        "undecided": _refusal(decision) if isinstance(decision, Refusal) else None,
        "answers": [_answer(a) for a in proposal.answers],
        "rejected": proposal.rejected,
        "scores": {name: None if value is None else float(value) for name, value in proposal.scores.items()},
        "decided": [proposal.decided_in, proposal.decided_out],
    }


def _refusal(refusal: Refusal) -> list[Any]:
    return [refusal.code, refusal.statement, refusal.offset, _whole(refusal.message)]


def _answer(answer: Answer) -> list[Any]:
    refusals = [_refusal(r) for r in answer.refusals]
    return [answer.rows, _whole(answer.raw), refusals, answer.truncated, answer.tokens_in, answer.tokens_out]


def _whole(text: str) -> str:
    """What a model wrote may hold half a surrogate pair, which JSON does not."""
    return text.encode("utf-8", "replace").decode()


def _proposal(row: dict[str, Any], origins: Sequence[Origin]) -> Proposal:
    def statement(entry: list[Any]) -> Statement:
        return Statement(*entry[:8])._replace(origin=origins[entry[8]])

    decision = statement(row["decision"]) if row["decision"] else Refusal(*row["undecided"]) if row["undecided"] else None
    faults = tuple(Refusal(*entry) for entry in row["faults"])
    answers = tuple(Answer(a[0], a[1], tuple(Refusal(*r) for r in a[2]), *a[3:]) for a in row["answers"])
    program = Program(tuple(statement(entry) for entry in row["program"]), faults, row["text_hash"])
    return Proposal(program, decision, answers, row["rejected"], row["scores"], *row.get("decided", ()))


@dataclass(slots=True)
class Pulse:
    """How far parts are: documents settled, how many of them stay, bytes of text before and after."""

    documents: int = 0
    stay: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def __add__(self, other: Pulse) -> Pulse:
        return Pulse(
            self.documents + other.documents,
            self.stay + other.stay,
            self.bytes_before + other.bytes_before,
            self.bytes_after + other.bytes_after,
        )

    def save(self, scratch: Path, task: int) -> None:
        """Says how far part `task` is, to whoever looks."""
        row = [self.documents, self.stay, self.bytes_before, self.bytes_after]
        atomic.write_bytes(scratch / f"pulse-{task:05d}.json", orjson.dumps(row), sync=False)


def pulse_of(scratch: Path) -> Pulse:
    """The sum over all parts so far."""
    total = Pulse()
    for path in sorted(scratch.glob("pulse-*.json")):
        try:
            total += Pulse(*orjson.loads(path.read_bytes()))
        except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
            continue
    return total
