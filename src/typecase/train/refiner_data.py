"""Refiner data: pairs as rows of token ids, prompt and program, as the refiner that is served will read them.

    pair ─► sheet (rows, chunks of `budget` tokens) ─► a prompt a chunk ─► its own program ─► ids       chunk stage
         └► document prompt ─► keep_doc() or drop_doc()                                                document stage

Layout, numbers, forms and budget are those of LMRefiner, so that training and serving cannot part. A chunk whose program is
longer than `max_tokens`, or whose string does not lie in one row, is left out and counted. Chunks that lose nothing are most of
a corpus: an epoch shows at most `keeps` of them for each that loses something, drawn anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from typecase.core.program.divide import divide
from typecase.core.program.language import Program, Refusal, show
from typecase.core.program.parse import parse
from typecase.core.selection.keys import derive_seed
from typecase.errors import BadRecipe
from typecase.lm.rate.cuts import clean
from typecase.lm.refine.form import RefineForm
from typecase.lm.refine.sheets import lay_out
from typecase.train.encoding import Encoder
from typecase.train.refiner_pairs import Pair
from typecase.train.rows import Row

DECISIONS = {"keep": "keep_doc()", "drop": "drop_doc()"}


@dataclass(frozen=True, slots=True)
class Example:
    """One question and its answer as texts; `idle` where nothing is to be done."""

    pair: int
    prompt: str
    reply: str
    idle: bool


def examples_of(
    pairs: Sequence[Pair], form: RefineForm, encoder: Encoder, *, budget: int, max_tokens: int, stages: Sequence[str]
) -> tuple[list[Example], Counter[str]]:
    """The questions of `pairs` with their answers, and what was left out by reason."""
    found: list[Example] = []
    lost: Counter[str] = Counter()
    for number, pair in enumerate(pairs):
        if "document" in stages and pair.decision is not None:
            room = encoder.sizes([pair.text])[0] <= budget
            if room:
                prompt = form.document_prompt(clean(pair.text))
                found.append(Example(number, prompt, DECISIONS[pair.decision], pair.decision == "keep"))
            else:
                lost["a document longer than the budget"] += 1
        if "chunk" in stages and pair.program is not None:
            for prompt, program in _chunks(pair, form, encoder, budget):
                if isinstance(program, Refusal):
                    lost["a string over several rows"] += 1
                elif len(encoder.replies([show(program)])[0]) > max_tokens - 1:
                    lost["a program longer than an answer"] += 1
                else:
                    found.append(Example(number, prompt, show(program), program.statements[0].name == "keep_all"))
    return found, lost


def _chunks(pair: Pair, form: RefineForm, encoder: Encoder, budget: int) -> Iterable[tuple[str, Program | Refusal]]:
    program = parse(pair.program or "")
    if not isinstance(program, Program) or program.faults:
        raise BadRecipe(f"the pair {pair.id} has no valid program: make the pairs again")
    sheet = lay_out(pair.text, encoder.sizes, budget)
    parts = divide(program, sheet.rows, sheet.chunks, pair.text, local=sheet.local)
    for chunk, part in zip(sheet.chunks, parts, strict=True):
        yield form.chunk_prompt(clean(sheet.lines(chunk))), part


class RefinerData:
    """The rows of examples, and which of them an epoch shows."""

    def __init__(self, examples: Sequence[Example], encoder: Encoder, *, keeps: float, seed: int) -> None:
        self.examples, self._keeps, self._seed = examples, keeps, seed
        prompts = encoder.prompts([one.prompt for one in examples])
        replies = encoder.replies([one.reply for one in examples])
        self._end = encoder.end()
        self._ids = list(zip(prompts, replies, strict=True))
        idle = np.array([one.idle for one in examples], np.bool_)
        self._idle, self._busy = np.flatnonzero(idle), np.flatnonzero(~idle)

    def row(self, number: int) -> Row:
        """The row of one example."""
        prompt, reply = self._ids[number]
        said = (*reply, *self._end)
        return Row((*prompt, *said[:-1]), said)

    def longest(self) -> int:
        """Tokens of the longest row."""
        return max((len(prompt) + len(reply) + len(self._end) for prompt, reply in self._ids), default=0)

    def epoch(self, number: int) -> np.ndarray:
        """Examples of one epoch in the order in which they are shown, int64."""
        dice = np.random.default_rng(derive_seed(self._seed, f"epoch {number}"))
        most = round(self._keeps * len(self._busy)) if len(self._busy) else len(self._idle)
        shown = dice.permutation(self._idle)[: max(1, most)]
        return dice.permutation(np.concatenate((self._busy, shown))).astype(np.int64)
