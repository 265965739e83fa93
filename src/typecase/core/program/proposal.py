"""Proposal: what a refiner says of one document, before anything is run.

    decision   keep_doc() or drop_doc(); a Refusal where it should have decided and could not (the document stays);
               None where it does not decide
    program    its edits, of the whole document: those of all chunks joined
    answers    what it said to each chunk, word for word, and what was refused of it

A document that goes needs no edits; one that stays gets the program. Nothing here touches the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from typecase.core.program.language import Program, Refusal, Statement


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said to one chunk: `rows` numbered rows were shown; `truncated` answers are refused whole."""

    rows: int
    raw: str
    refusals: tuple[Refusal, ...] = ()
    truncated: bool = False
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a refiner says of a document. `scores` are what the decision was made from (name -> value or None); `decided_in`
    and `decided_out` are the tokens that its model read and wrote for it, those of the answers not among them."""

    program: Program = field(default_factory=Program)
    decision: Statement | Refusal | None = None
    answers: tuple[Answer, ...] = ()
    rejected: int = 0
    """Chunks whose answer edits nothing: no program, cut off, or at fault too often."""
    scores: Mapping[str, float | None] = field(default_factory=dict)
    decided_in: int = 0
    decided_out: int = 0

    @property
    def drops(self) -> bool:
        """Whether the document is to go."""
        return isinstance(self.decision, Statement) and self.decision.name == "drop_doc"
