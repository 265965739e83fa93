"""TeacherRefiner: a strong language model as an editor. It is asked in words, kind of noise by kind of noise.

    document stage   education and format, 0 to 5 each, by the rubric `prox` (lm/rate/teacher.py)      drop   keep
                     education >= 3, or education = 2 and format >= 4                                     keep
    chunk stage      head? links? tail?   three questions a chunk, each with its examples; the programs are united

Answers are read leniently (core/program/lenient), and what that took is counted in `report`; an answer that holds no program is
asked for again, `rounds` times at most, with another seed and temperature. What stays unread is an abstention: the question
edits nothing, a chunk about which nothing could be read is rejected, a document without both scores stays. Both scores are
stored with the proposal, so that another table can be applied without asking again.

Same model, same answer cache, same text: same proposal. Price: two questions' worth of scores a document, three a chunk.

Source of table and questions: ProX, arXiv 2409.17115; all wording is our own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Final

from typecase.core.program.chunks import Chunk
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.language import DECISIONS, Origin, Program, Refusal, Statement, drop_doc, keep_doc
from typecase.core.program.lenient import read_lenient
from typecase.core.program.proposal import Proposal
from typecase.errors import BadRecipe
from typecase.lm.protocol import LASTING, LM, Answer, Failure, fingerprint_of, require
from typecase.lm.rate.cuts import clean
from typecase.lm.rate.prompts import prompt_form
from typecase.lm.rate.rater import pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.teacher import Teacher
from typecase.lm.rate.teacher_terms import Settings
from typecase.lm.refine.form import Noise, RefineForm
from typecase.lm.refine.sheets import Said, Sheet, budget_of, counter_of, lay_out, proposal_of

RUBRIC: Final = "prox"
EDUCATION: Final = "education"
FORMAT: Final = "format"


@dataclass(frozen=True, slots=True)
class TeacherSettings:
    """How a teacher is asked.

    scores        whether documents are scored and decided about
    edits         whether chunks are edited
    rounds        times that a question is asked at most
    temperatures  of each round, the last of all later ones
    confidence    of its statements; under 0.9 the default guards keep them off code, titles, and menus that look like tables
    """

    scores: bool = True
    edits: bool = True
    budget: int = 1500
    max_tokens: int = 512
    rounds: int = 2
    seed: int = 0
    temperatures: tuple[float, ...] = (0.0, 0.3)
    confidence: float = 0.9
    policy: GuardPolicy = field(default_factory=lambda: replace(STRICT, nth=True))

    def __post_init__(self) -> None:
        if min(self.budget, self.max_tokens, self.rounds) < 1 or not self.temperatures or min(self.temperatures) < 0:
            raise BadRecipe(
                f"budget, max_tokens and rounds are 1 or more and temperatures 0 or more, got {self.budget}, "
                f"{self.max_tokens}, {self.rounds} and {list(self.temperatures)}"
            )
        if not 0 <= self.confidence <= 1:
            raise BadRecipe(f"confidence is 0 to 1, got {self.confidence}")
        if not (self.scores or self.edits):
            raise BadRecipe("a teacher scores documents, edits chunks, or both: set scores or edits")


@dataclass(slots=True)
class TeacherReport:
    """What came back so far: questions asked, answers that were programs, abstentions, leniencies, failures by kind."""

    asked: int = 0
    read: int = 0
    again: int = 0
    abstained: int = 0
    relaxations: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Question:
    sheet: Sheet
    chunk: Chunk
    noise: Noise
    prompt: str


@dataclass(frozen=True, slots=True)
class _Heard:
    """The best of what was said to a question."""

    program: Program | Refusal
    raw: str = ""
    truncated: bool = False
    tokens_in: int = 0
    tokens_out: int = 0


class TeacherRefiner:
    """A refiner that asks a language model; see the module."""

    batch_docs: ClassVar[int] = 64
    """Documents that are asked about, and kept, together."""

    def __init__(
        self,
        lm: LM,
        form: RefineForm,
        *,
        settings: TeacherSettings = TeacherSettings(),
        name: str | None = None,
        version: str = "1",
        score_form: str = "teacher",
    ) -> None:
        require(lm, "generate")
        if settings.edits and not form.noise:
            raise BadRecipe(f"form '{form.id}' has no [[noise]], so a teacher would have nothing to ask about chunks")
        self.lm, self.form, self.settings = lm, form, settings
        self._name, self._version = name or lm.name, version
        self._told = TeacherReport()
        rounds = Settings(rounds=settings.rounds, seed=settings.seed, temperatures=settings.temperatures, top_logprobs=0)
        self._scorer = Teacher(lm, prompt_form(load_rubric(RUBRIC), score_form), rounds) if settings.scores else None
        if settings.edits:
            longest = max((form.chunk_prompt("", noise) for noise in form.noise), key=lambda p: lm.count_tokens([p])[0])
            self._count = counter_of(lm)
            self._budget = budget_of(lm, self._turn(longest), settings.budget, settings.max_tokens)
        self._origin = Origin("llm_teacher", self._name, self.fingerprint, settings.confidence)

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
        """Of the model, the forms and the settings."""
        scorer = self._scorer.fingerprint if self._scorer is not None else None
        own = [self._name, self._version, self.lm.fingerprint, self.form.fingerprint, scorer]
        return fingerprint_of("teacher-refiner", 1, own, asdict(self.settings))

    def report(self) -> TeacherReport:
        """What came back about chunks so far; `Teacher.report` has the like about scores."""
        return self._told

    def close(self) -> None:
        """Closes the answer cache of the model; the refiner is not used again."""
        cache = getattr(self.lm, "cache", None)
        if cache is not None:
            cache.close()

    def propose(self, texts: Sequence[str]) -> list[Proposal]:
        """See the module; empty texts are not asked about."""
        decided = self._decide(texts)
        going = [k for k, text in enumerate(texts) if text.strip() and self.settings.edits and not _drops(decided[k][0])]
        sheets = {k: lay_out(texts[k], self._count, self._budget) for k in going} if going else {}
        said = self._say(list(sheets.values()))
        proposals = []
        for k, (decision, scores) in enumerate(decided):
            if k not in sheets:
                proposals.append(Proposal(decision=decision, scores=scores))
                continue
            own = [next(said) for _ in sheets[k].chunks]
            proposals.append(proposal_of(sheets[k], own, decision, scores, self.settings.policy))
        return proposals

    def _decide(self, texts: Sequence[str]) -> list[tuple[Statement | Refusal | None, dict[str, float | None]]]:
        """The decision about each text, with its two scores."""
        if self._scorer is None:
            return [(None, {})] * len(texts)
        rows = self._scorer.rate(*pack_texts(texts)).scores
        columns = self._scorer.rubric.columns
        found: list[tuple[Statement | Refusal | None, dict[str, float | None]]] = []
        for text, row in zip(texts, rows.tolist(), strict=True):
            scores: dict[str, float | None] = {
                name: None if math.isnan(value) else value for name, value in zip(columns, row, strict=True)
            }
            found.append((self._decision(scores) if text.strip() else None, scores if text.strip() else {}))
        return found

    def _decision(self, scores: Mapping[str, float | None]) -> Statement | Refusal:
        education, layout = scores.get(EDUCATION), scores.get(FORMAT)
        if education is None or layout is None:
            lacking = EDUCATION if education is None else FORMAT
            return Refusal("E_EMPTY", 0, 0, f"the teacher gave no {lacking} score, the document stays")
        return keep_doc(origin=self._origin) if prox_keeps_scored(education, layout) else drop_doc(origin=self._origin)

    def _say(self, sheets: Sequence[Sheet]) -> Iterator[Said]:
        """What is said to every chunk of every sheet, in order, the answers about all kinds of noise united."""
        questions = [
            _Question(sheet, chunk, noise, self._turn(self.form.chunk_prompt(clean(sheet.lines(chunk)), noise)))
            for sheet in sheets
            for chunk in sheet.chunks
            for noise in self.form.noise
        ]
        heard = self._hear(questions)
        size = len(self.form.noise)
        for at in range(0, len(questions), size):
            group = [heard[k] for k in range(at, at + size)]
            raw = "\n".join(f"# {q.noise.id}\n{own.raw}" for q, own in zip(questions[at : at + size], group, strict=True))
            sums = sum(own.tokens_in for own in group), sum(own.tokens_out for own in group)
            yield Said(raw, united([own.program for own in group]), all(own.truncated for own in group), *sums)

    def _hear(self, questions: Sequence[_Question]) -> dict[int, _Heard]:
        """The first answer to each question that holds a program; after the last round, what there is."""
        heard: dict[int, _Heard] = {}
        waiting = list(range(len(questions)))
        for number in range(self.settings.rounds):
            again = []
            for k, result in zip(waiting, self._generate([questions[k].prompt for k in waiting], number), strict=True):
                own = self._read(questions[k], result)
                heard[k] = own
                if isinstance(own.program, Refusal) and not (
                    isinstance(result, Failure) and result.kind in (*LASTING, "budget")
                ):
                    again.append(k)
            waiting = again
            if not waiting:
                break
            self._told.again += len(waiting) if number + 1 < self.settings.rounds else 0
        self._told.abstained += sum(isinstance(own.program, Refusal) for own in heard.values())
        return heard

    def _generate(self, prompts: Sequence[str], number: int) -> Iterator[Answer | Failure]:
        own = self.settings
        temperature = own.temperatures[min(number, len(own.temperatures) - 1)]
        return self.lm.generate(prompts, max_tokens=own.max_tokens, seed=own.seed + number, temperature=temperature)

    def _read(self, question: _Question, result: Answer | Failure) -> _Heard:
        self._told.asked += 1
        if isinstance(result, Failure):
            self._told.failures[result.kind] += 1
            return _Heard(Refusal("E_EMPTY", 0, 0, f"{result.kind}: {result.message}"))
        sheet, chunk = question.sheet, question.chunk
        lines = [sheet.text[row.start : row.stop] for row in sheet.rows[chunk.first : chunk.last]]
        cut = result.finish == "length"
        found = read_lenient(result.text, lines, first=chunk.first - sheet.offset(chunk), origin=self._origin, truncated=cut)
        self._told.relaxations.update(found.relaxations)
        program: Program | Refusal = found.program
        if cut:
            program = Refusal("E_TRUNCATED", 0, len(result.text), "the answer was cut off; no part of it is run")
        if isinstance(program, Program):
            self._told.read += 1
            self._told.faults.update(fault.code for fault in program.faults)
        return _Heard(program, result.text, cut, result.prompt_tokens, result.completion_tokens)

    def _turn(self, prompt: str) -> str:
        return f"{self.form.system}\n\n{prompt}" if self.form.system else prompt


def prox_keeps_scored(education: float, layout: float) -> bool:
    """The published table: education of 3 or more keeps, education 2 with a format of 4 or more keeps, all else goes.

    A score between two levels counts as the nearest, a half as the upper.
    """
    education, layout = math.floor(education + 0.5), math.floor(layout + 0.5)
    return education >= 3 or (education == 2 and layout >= 4)


def united(programs: Sequence[Program | Refusal]) -> Program | Refusal:
    """The programs of one chunk as one: all edits, each once; "nothing to change" only where nobody edits.

    The first refusal where nothing could be read.
    """
    read = [own for own in programs if isinstance(own, Program)]
    if not read:
        return programs[0]
    statements = dict.fromkeys(s for own in read for s in own.statements)
    edits = [s for s in statements if s.name not in DECISIONS]
    decided = [s for s in statements if s.name in DECISIONS and s.name != "keep_all"]
    faults = tuple(fault for own in read for fault in own.faults)
    if not edits and not decided and not statements:
        return Program((), faults)
    return Program(tuple([*decided, *edits] or statements), faults)


def _drops(decision: Statement | Refusal | None) -> bool:
    return isinstance(decision, Statement) and decision.name == "drop_doc"
