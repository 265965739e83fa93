"""LMRefiner: a small language model that writes the programs, kept to the language while it writes.

    document stage   log P(drop_doc()) − log P(keep_doc()) > threshold        the document goes; nothing is generated
    chunk stage      numbered rows ─► the model, constrained ─► a program a chunk ─► joined

    constrained      only programs of the chunk can come out (lm/refine/constrained.py); the default, for models of this machine
    unconstrained    the answer is read strictly; one that is cut off, or no program, edits nothing and is counted
    mode = "prox"    the published checkpoints with their own prompts: unconstrained, numbered through the document, lines never
                     cut; answers are translated where that is sound (core/program/prox_strict), raw answers are kept

A long document is judged by its head, middle and tail, log-odds weighted by their tokens; if it cannot be judged it stays. The
confidence of a statement is exp of the mean log-probability of its tokens among all tokens: guards compare it, so that a model
that is unsure does not touch code or tables.

Rows go to the model together, all chunks of all texts of a call. Price: the prompt once, a pass a token for a batch of rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import repeat
from typing import Any, ClassVar, Literal, NamedTuple

from typecase.core.program.chunks import Chunk
from typecase.core.program.decoding import OPERATIONS, Automaton
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.language import Origin, Program, Refusal, Statement, drop_doc, keep_doc
from typecase.core.program.parse import parse
from typecase.core.program.proposal import Proposal
from typecase.core.program.prox import prox_keeps
from typecase.core.program.prox_strict import strict_of_prox
from typecase.errors import BadRecipe
from typecase.lm.protocol import LM, Choices, Failure, fingerprint_of, require
from typecase.lm.rate.cuts import clean
from typecase.lm.refine.constrained import Constrained, Constrainer
from typecase.lm.refine.form import RefineForm
from typecase.lm.refine.sheets import (
    Said,
    Sheet,
    budget_of,
    counter_of,
    failed,
    lay_out,
    proposal_of,
    with_confidence,
)

Mode = Literal["strict", "prox"]
DECISIONS = ("keep_doc()", "drop_doc()")
PROX_DOCUMENT_TOKENS = 2000
"""Tokens of the whole prompt of the published document stage."""


@dataclass(frozen=True, slots=True)
class LMSettings:
    """How a model is asked.

    constrained       whether only valid programs can come out
    budget            tokens of numbered rows in a chunk, at most
    max_tokens        of an answer, the end token included
    overlap           rows that neighbouring chunks share
    document_tokens   tokens of a document in one look; None: what the context holds
    threshold         log-odds above which a document is dropped
    operations        that may be written when constrained
    policy            what `join` and the automaton hold programs to; `nth` is on, for pieces of long lines need it
    """

    mode: Mode = "strict"
    constrained: bool = True
    budget: int = 1500
    max_tokens: int = 256
    overlap: int = 0
    document_tokens: int | None = None
    threshold: float = 0.0
    operations: tuple[str, ...] = OPERATIONS
    policy: GuardPolicy = field(default_factory=lambda: replace(STRICT, nth=True))

    def __post_init__(self) -> None:
        if self.mode not in ("strict", "prox"):
            raise BadRecipe(f"mode is strict or prox, got {self.mode!r}")
        if min(self.budget, self.max_tokens, self.document_tokens or 1) < 1 or self.overlap < 0:
            raise BadRecipe(
                f"budget, max_tokens and document_tokens are 1 or more and overlap 0 or more, got {self.budget}, "
                f"{self.max_tokens}, {self.document_tokens} and {self.overlap}"
            )
        if not math.isfinite(self.threshold):
            raise BadRecipe(f"threshold is a number, got {self.threshold}")


class LMRefiner:
    """Two language models, or one, as a refiner; either stage may be absent (None)."""

    batch_docs: ClassVar[int] = 8
    """Documents that are proposed for, and kept, together."""

    def __init__(
        self,
        chunk: LM | None,
        form: RefineForm,
        *,
        document: LM | None = None,
        settings: LMSettings = LMSettings(),
        name: str | None = None,
        version: str = "1",
    ) -> None:
        if chunk is None and document is None:
            raise BadRecipe("a refiner needs a model for its chunks, its documents, or both")
        prox = settings.mode == "prox"
        if chunk is not None:
            require(chunk, "generate")
        if document is not None:
            require(document, "generate" if prox else "continuations")
        self.chunk, self.document, self.form, self.settings = chunk, document, form, settings
        own = chunk if chunk is not None else document
        self._name, self._version = name or (own.name if own is not None else "lm"), version
        constrained = chunk is not None and settings.constrained and not prox
        self._constrainer = Constrainer(chunk) if constrained and chunk is not None else None
        if chunk is not None:
            self._count = counter_of(chunk)
            self._budget = budget_of(chunk, form.chunk_prompt(""), settings.budget, settings.max_tokens)
        self._origin = Origin("model", self._name, self.fingerprint, 0.0)

    @property
    def name(self) -> str:
        """As given, or the model's."""
        return self._name

    @property
    def version(self) -> str:
        """As given."""
        return self._version

    @property
    def fingerprint(self) -> str:
        """Of the models, the form and the settings."""
        models = [lm.fingerprint if lm is not None else None for lm in (self.chunk, self.document)]
        return fingerprint_of("lm-refiner", 2, self._name, self._version, models, self.form.fingerprint, asdict(self.settings))

    @property
    def parameters(self) -> int | None:
        """Of the chunk model, or of the document model alone; None where they are not known."""
        return _parameters(self.chunk if self.chunk is not None else self.document)

    @property
    def document_parameters(self) -> int | None:
        """Of the model that decides; None where there is none, or its size is not known."""
        return _parameters(self.document)

    def close(self) -> None:
        """Closes the answer caches of the models; the refiner is not used again."""
        for lm in {id(own): own for own in (self.chunk, self.document)}.values():
            cache = getattr(lm, "cache", None)
            if cache is not None:
                cache.close()

    def propose(self, texts: Sequence[str]) -> list[Proposal]:
        """See the module; empty texts are not asked about."""
        decisions = self._decide([clean(text) for text in texts])
        going = [k for k, text in enumerate(texts) if text.strip() and not _drops(decisions[k].made)]
        sheets = {k: self._sheet(texts[k]) for k in going} if self.chunk is not None else {}
        said = self._say(list(sheets.values()))
        proposals = []
        for k, (decision, scores, read, wrote) in enumerate(decisions):
            made = Proposal(decision=decision, scores=scores)
            if k in sheets:
                own = [next(said) for _ in sheets[k].chunks]
                made = proposal_of(sheets[k], own, decision, scores, self.settings.policy)
            proposals.append(replace(made, decided_in=read, decided_out=wrote))
        return proposals

    # The document stage.

    def _decide(self, texts: Sequence[str]) -> list[_Decision]:
        """The decision for each text."""
        none = _Decision(None, {})
        if self.document is None:
            return [none] * len(texts)
        asked = [k for k, text in enumerate(texts) if text.strip()]
        found = self._decide_as_prox if self.settings.mode == "prox" else self._decide_by_odds
        decided = dict(zip(asked, found([texts[k] for k in asked]), strict=True))
        return [decided.get(k, none) for k in range(len(texts))]

    def _decide_by_odds(self, texts: Sequence[str]) -> Iterator[_Decision]:
        assert self.document is not None
        looks = [self._looks(text) for text in texts]
        prompts = [self.form.document_prompt(part) for parts in looks for part, _ in parts]
        results = self.document.score_continuations(prompts, repeat(DECISIONS)) if prompts else iter(())
        for parts in looks:
            found = [(next(results), tokens) for _, tokens in parts]
            told = [(own, tokens) for own, tokens in found if isinstance(own, Choices)]
            read = sum(own.prompt_tokens + int(own.num_tokens.sum()) for own, _ in told)
            if len(told) < len(found):
                failure = next(own for own, _ in found if isinstance(own, Failure))
                yield _Decision(_undecided(failure), {"drop_log_odds": None}, read)
                continue
            total = sum(tokens for _, tokens in told)
            odds = sum(float(own.logprobs[1] - own.logprobs[0]) * tokens for own, tokens in told) / total
            chance = 1 / (1 + math.exp(-abs(odds)))
            origin = replace(self._origin, confidence=chance)
            made = drop_doc(origin=origin) if odds > self.settings.threshold else keep_doc(origin=origin)
            yield _Decision(made, {"drop_log_odds": odds}, read)

    def _decide_as_prox(self, texts: Sequence[str]) -> Iterator[_Decision]:
        """As published: a short answer is generated, and "drop" anywhere in it drops. The head alone is shown."""
        assert self.document is not None
        heads = [self._looks(text, one=True)[0][0] for text in texts]
        prompts = [self.form.document_prompt(head) for head in heads]
        for own in self.document.generate(prompts, max_tokens=48, seed=0) if prompts else ():
            if isinstance(own, Failure):
                yield _Decision(_undecided(own), {})
                continue
            made = keep_doc(origin=self._origin) if prox_keeps(own.text) else drop_doc(origin=self._origin)
            yield _Decision(made, {}, own.prompt_tokens, own.completion_tokens)

    def _looks(self, text: str, *, one: bool = False) -> list[tuple[str, int]]:
        """The parts of a document that are shown, with their tokens: all of it, or head, middle and tail."""
        assert self.document is not None
        count = counter_of(self.document)
        around = self.document.count_tokens([self.form.document_prompt("")])[0]
        limit = self.document.can.context_tokens
        room = limit - around - 16 if limit is not None else 1 << 30
        room = min(room, self.settings.document_tokens or room)
        if one:
            room = min(room, PROX_DOCUMENT_TOKENS - around)
        whole = int(count([text])[0])
        if whole <= room:
            return [(text, max(1, whole))]
        size = max(1, len(text) * room // whole)
        while True:
            middle = (len(text) - size) // 2
            parts = [text[:size]] if one else [text[:size], text[middle : middle + size], text[len(text) - size :]]
            sizes = [int(tokens) for tokens in count(parts)]
            if max(sizes) <= room or size == 1:
                return [(part, max(1, tokens)) for part, tokens in zip(parts, sizes)]
            size = max(1, size * 9 // 10)

    # The chunk stage.

    def _sheet(self, text: str) -> Sheet:
        prox = self.settings.mode == "prox"
        return lay_out(text, self._count, self._budget, overlap=self.settings.overlap, local=not prox, cut=not prox)

    def _say(self, sheets: Sequence[Sheet]) -> Iterator[Said]:
        """What is said to every chunk of every sheet, in order."""
        asked = [(sheet, chunk) for sheet in sheets for chunk in sheet.chunks]
        prompts = [self.form.chunk_prompt(clean(sheet.lines(chunk))) for sheet, chunk in asked]
        if not asked or self.chunk is None:
            return
        if self._constrainer is not None:
            rows = [(prompt, self._automaton(sheet, k)) for prompt, (sheet, k) in zip(prompts, self._places(sheets))]
            for found in self._constrainer.write(rows, max_tokens=self.settings.max_tokens):
                yield failed(found) if isinstance(found, Failure) else self._read_constrained(found)
            return
        answers = self.chunk.generate(prompts, max_tokens=self.settings.max_tokens, seed=0)
        for (sheet, chunk), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Failure):
                yield failed(answer)
                continue
            sizes = (answer.prompt_tokens, answer.completion_tokens)
            if answer.finish == "length":
                cut = Refusal("E_TRUNCATED", 0, len(answer.text), "the answer was cut off; no part of it is run")
                yield Said(answer.text, cut, True, *sizes)
                continue
            mean = float(answer.logprobs.mean()) if answer.logprobs is not None and len(answer.logprobs) else -math.inf
            origin = replace(self._origin, confidence=math.exp(mean))
            yield Said(answer.text, self._read(answer.text, sheet, chunk, origin), False, *sizes)

    def _places(self, sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, int]]:
        return ((sheet, k) for sheet in sheets for k in range(len(sheet.chunks)))

    def _automaton(self, sheet: Sheet, number: int) -> Automaton:
        assert self._constrainer is not None
        chunk = sheet.chunks[number]
        own = self.settings
        operations: Collection[str] = own.operations
        return Automaton(
            sheet.text, sheet.rows, chunk, sheet.offset(chunk), own.policy, operations, (), self._constrainer.vocabulary.missing
        )

    def _read_constrained(self, found: Constrained) -> Said:
        program = parse(found.text, origin=self._origin)
        assert isinstance(program, Program) and not program.faults  # by construction; B.12 asks for the check
        confident = with_confidence(program, [math.exp(value) for value in found.line_logprobs()])
        return Said(found.text, confident, False, found.prompt_tokens, found.num_tokens)

    def _read(self, raw: str, sheet: Sheet, chunk: Chunk, origin: Origin) -> Program | Refusal:
        if self.settings.mode == "prox":
            return strict_of_prox(raw, sheet.text, sheet.rows, chunk.first, chunk.last, origin=origin)
        program = parse(raw.strip(), origin=origin)
        if isinstance(program, Program) and not program.statements and not program.faults:
            return Refusal("E_EMPTY", 0, 0, "the answer holds no statement")
        return program


class _Decision(NamedTuple):
    """What was decided of a document, from which scores, and the tokens that were read and written for it."""

    made: Statement | Refusal | None
    scores: dict[str, float | None]
    read: int = 0
    wrote: int = 0


def _parameters(lm: LM | None) -> int | None:
    """What the model, or the one that it stands before, tells of its size."""
    own: Any = lm
    while own is not None and not hasattr(own, "parameters"):
        own = getattr(own, "lm", None)
    return None if own is None else int(own.parameters)


def _drops(decision: Statement | Refusal | None) -> bool:
    return isinstance(decision, Statement) and decision.name == "drop_doc"


def _undecided(failure: Failure) -> Refusal:
    code = "E_TOO_LONG" if failure.kind == "too_long" else "E_EMPTY"
    return Refusal(code, 0, 0, f"the model could not decide, the document stays: {failure.kind}, {failure.message}")
