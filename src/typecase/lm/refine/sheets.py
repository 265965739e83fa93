"""Sheets: a document laid out for a refiner that reads chunks, and the chunks' answers made one proposal.

    text ─► rows ─► chunks ─► numbered prompts ─► answers ─► programs of rows ─► join ─► one program of the document

Sizes are tokens of the model, of numbered rows with their line ends. What a chunk was answered is kept word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from typecase.core.program.chunks import Chunk, Row, cut_chunks, join, numbered, rows_of
from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import Program, Refusal, Statement, bind, keep_all
from typecase.core.program.proposal import Answer, Proposal
from typecase.errors import BadRecipe
from typecase.lm.protocol import LM, Failure

Count = Callable[[Sequence[str]], Sequence[int]]
WIDTH = 3
LEAST_BUDGET = 16


@dataclass(frozen=True, slots=True)
class Sheet:
    """The chunks of one document. `local` numbers rows from 0 in each chunk; else they count through the document."""

    text: str
    rows: tuple[Row, ...]
    chunks: tuple[Chunk, ...]
    local: bool

    def lines(self, chunk: Chunk) -> str:
        """The rows of a chunk as they are shown."""
        return numbered(self.text, self.rows, chunk.first, chunk.last, offset=self.offset(chunk), width=WIDTH)

    def offset(self, chunk: Chunk) -> int:
        """What is taken from the place of a row to number it."""
        return chunk.first if self.local else 0


@dataclass(frozen=True, slots=True)
class Said:
    """What was said to one chunk: the raw answer, and the program that was read from it."""

    raw: str
    program: Program | Refusal
    truncated: bool = False
    tokens_in: int = 0
    tokens_out: int = 0


def lay_out(text: str, count: Count, budget: int, *, overlap: int = 0, local: bool = True, cut: bool = True) -> Sheet:
    """The sheet of a document; `cut` divides lines that are longer than `budget`."""

    def measure(texts: Sequence[str]) -> Sequence[int]:
        return count([f"{text}\n" for text in texts])

    rows = rows_of(text, measure, max(1, budget - _MARK_TOKENS) if cut else None)
    return Sheet(text, rows, cut_chunks(text, rows, measure, budget, overlap=overlap, width=WIDTH), local)


_MARK_TOKENS = 8
"""What the number in front of a row may take."""


def proposal_of(
    sheet: Sheet,
    said: Sequence[Said],
    decision: Statement | Refusal | None,
    scores: dict[str, float | None],
    policy: GuardPolicy,
) -> Proposal:
    """The proposal of a document whose chunks were answered so, in order."""
    joined = join([own.program for own in said], sheet.chunks, sheet.rows, sheet.text, local=sheet.local, policy=policy)
    program = joined.program
    origins = [s.origin for own in said if isinstance(own.program, Program) for s in own.program.statements]
    if not program.statements and origins and len(joined.rejected) < len(said):
        program = Program((keep_all(origin=origins[0]),))
    answers = tuple(
        Answer(chunk.last - chunk.first, own.raw, refusals, own.truncated, own.tokens_in, own.tokens_out)
        for chunk, own, refusals in zip(sheet.chunks, said, joined.refusals, strict=True)
    )
    return Proposal(bind(program, sheet.text), decision, answers, len(joined.rejected), scores)


def failed(failure: Failure) -> Said:
    """What is noted of a chunk that the model could not be asked about."""
    code = {"too_long": "E_TOO_LONG"}.get(failure.kind, "E_EMPTY")
    return Said("", Refusal(code, 0, 0, f"{failure.kind}: {failure.message}"))


def counter_of(lm: LM) -> Count:
    """Tokens of texts without what every prompt of `lm` has around it."""
    around = lm.count_tokens([""])[0]
    return lambda texts: [max(0, size - around) for size in lm.count_tokens(texts)]


def budget_of(lm: LM, empty_prompt: str, budget: int, max_tokens: int) -> int:
    """`budget`, or what the model's context has room for beside the prompt's words and the answer. Raises BadRecipe."""
    context = lm.can.context_tokens
    if context is None:
        return budget
    room = context - lm.count_tokens([empty_prompt])[0] - max_tokens - _MARK_TOKENS
    if room < LEAST_BUDGET:
        raise BadRecipe(
            f"the context of {lm.name} holds {context} tokens; beside the prompt's words and an answer of {max_tokens} that "
            f"leaves {max(0, room)} for a chunk: allow shorter answers (max_tokens), take a shorter form or another model"
        )
    return min(budget, room)


def with_confidence(program: Program, confidences: Sequence[float]) -> Program:
    """The program with a confidence for each statement."""
    changed = tuple(
        s._replace(origin=replace(s.origin, confidence=value)) for s, value in zip(program.statements, confidences, strict=True)
    )
    return replace(program, statements=changed)
