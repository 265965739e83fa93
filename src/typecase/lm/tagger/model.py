"""Tagger: says of every line of a page how likely it is boilerplate, and proposes to remove the lines that surely are.

    page -> lines -> words, shape, context        first forest: chances of each line
                  -> company                      second forest: chances given those of the other lines
                  -> smoothing                    lines go by the thresholds of tagger_thresholds

    Tagger.propose(["Home\\nAbout\\n\\nA text …"])  ->  remove_lines(line_start=0, line_end=2), origin model tagger

A page where nothing is surely boilerplate is left as it is, and so are code, tables and titles (core/program/protect) that
it is not very sure of. Blank lines go with the lines around them. The confidence of a run is how often such lines were
boilerplate on pages that were not taught. What is proposed for a page does not depend on the batch: the same bytes come
out, page by page or all at once.

Price: about 5 microseconds a line, 0.6 ms a page of 6 kB (9 MB a second); twice to three times that on a busy machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from typecase.core.learn.calibration import Isotonic
from typecase.core.learn.trees import Forest
from typecase.core.lines import line_table
from typecase.core.program.language import Origin, Program, Statement, bind, keep_all, remove_lines
from typecase.core.program.proposal import Proposal
from typecase.core.program.protect import KINDS, protected_lines
from typecase.core.tagger import company, context
from typecase.core.tagger.boost import log_odds
from typecase.core.tagger.look import NAMES, Look, look_at, see
from typecase.core.tagger.smooth import smooth
from typecase.core.tagger.words import word_scores
from typecase.lm.tagger.thresholds import PLAIN, goes

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I8 = npt.NDArray[np.int8]

PROTECTED = 0.9
"""Confidence below which a protected line stays: that of the strict guards."""

BATCH_CHARS = 1 << 22
"""Characters that are looked at together: what bounds the memory."""

_RUNS = len(NAMES) - len(context.NAMES) + context.PLACE.index("run_place")


@dataclass(frozen=True, slots=True)
class Tagger:
    """A tagger made by `lm/tagger/train`; a `Refiner`. The arrays are what the weights file holds.

    `least`, `long` and `sure` are those of tagger_thresholds, `stay` and `trust` those of core/tagger/smooth.
    """

    words: I8
    scale: float
    first: Forest
    second: Forest
    stay: float
    trust: float
    least: float
    long: float
    sure: float
    curve: Isotonic = PLAIN
    fingerprint: str = ""
    version: str = "1"
    name: str = "tagger"

    def propose(self, texts: Sequence[str]) -> list[Proposal]:
        """What to remove of each text, in order."""
        proposals: list[Proposal] = []
        for part in _parts(texts):
            look = look_at(part)
            chances = self.chances(look)
            owner = np.repeat(np.arange(len(part)), np.diff(look.pages))
            gone = goes(chances, chars_of(look), owner, len(part), (self.least, self.long, self.sure))
            for page, text in enumerate(part):
                rows = slice(look.pages[page], look.pages[page + 1])
                program = self._program(text, look.number[rows], chances[rows], gone[rows], int(look.num_lines[page]))
                proposals.append(Proposal(bind(program, text)))
        return proposals

    def tag(self, texts: Sequence[str]) -> list[npt.NDArray[np.float32]]:
        """The chance of each line of each text to be boilerplate, float32 (lines,); NaN for blank lines."""
        out: list[npt.NDArray[np.float32]] = []
        for part in _parts(texts):
            look = look_at(part)
            chances = self.chances(look)
            for page, num in enumerate(look.num_lines):
                rows = slice(look.pages[page], look.pages[page + 1])
                tagged = np.full(num, np.nan, np.float32)
                tagged[look.number[rows]] = chances[rows]
                out.append(tagged)
        return out

    def chances(self, look: Look) -> F64:
        """The chances of all written lines, float64 (lines,)."""
        measures = see(look, word_scores(look.values, look.starts, look.stops, self.words, self.scale))
        odds = log_odds(self.first, measures)
        odds = log_odds(self.second, with_company(look, measures, odds))
        return smooth(1 / (1 + np.exp(-odds.astype(np.float64))), look.pages, self.stay, self.trust)

    def _program(self, text: str, numbers: I64, chances: F64, gone: npt.NDArray[np.bool_], num_lines: int) -> Program:
        origin = Origin("model", self.name, self.fingerprint[:8], 1.0)
        if not gone.any():
            return Program((keep_all(origin=origin),))
        confidences = self.curve(chances)
        gone = gone & ~(np.isin(numbers, protected_lines(text, *line_table(text), KINDS)) & (confidences < PROTECTED))
        rows = np.flatnonzero(gone)
        statements: list[Statement] = []
        for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []:
            first, last = _with_blanks(numbers, int(run[0]), int(run[-1]), num_lines)
            confidence = round(float(confidences[run].mean()), 4)
            statements.append(remove_lines(first, last, origin=replace(origin, confidence=confidence)))
        return Program(tuple(statements or (keep_all(origin=origin),)))


def chars_of(look: Look) -> F64:
    """The characters of every line, blanks aside, float64 (lines,)."""
    chars: F64 = np.rint(np.expm1(look.shapes[:, 0].astype(np.float64)))
    return chars


def with_company(look: Look, measures: F32, odds: F32) -> F32:
    """The measures with what the first look said of the lines around: what the second forest reads."""
    out = np.zeros((len(odds), len(company.NAMES)), np.float32)
    limited = np.clip(odds, -8, 8).astype(np.float32)
    company.measure_company(limited, look.pages, look.hashes, look.shapes, np.ascontiguousarray(measures[:, _RUNS]), out)
    return np.hstack([measures, out])


def _with_blanks(numbers: I64, first: int, last: int, num_lines: int) -> tuple[int, int]:
    """The run of written lines [first, last] with the blank lines after it; at the end of a page those before it too.

    So a page is left neither with blank lines at its ends nor with gaps that grew.
    """
    start, stop = int(numbers[first]), int(numbers[last])
    at_end = last + 1 == len(numbers)
    if at_end:
        stop = num_lines - 1
        start = int(numbers[first - 1]) + 1 if first else 0
    elif first == 0:
        start, stop = 0, int(numbers[last + 1]) - 1
    elif start - int(numbers[first - 1]) > 1:
        stop = int(numbers[last + 1]) - 1
    return start, stop


def _parts(texts: Sequence[str]) -> list[Sequence[str]]:
    parts: list[Sequence[str]] = []
    first = chars = 0
    for at, text in enumerate(texts):
        if chars and chars + len(text) > BATCH_CHARS:
            parts.append(texts[first:at])
            first, chars = at, 0
        chars += len(text)
    if first < len(texts):
        parts.append(texts[first:])
    return parts
