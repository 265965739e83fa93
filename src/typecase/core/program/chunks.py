"""Chunks: a document shown to a refiner piece by piece, in numbered rows, and the programs of all pieces made one again.

    text            rows                 chunks (budget 3, overlap 1)            shown
    Home | News     0  line 0            [0 1 2]         owns 0 1                [000]Home | News
    A long line of  1  line 1, piece     [1 2 3] …       owns 2 …                [001]A long line of
    two sentences.  2  line 1, piece                                             [002]two sentences.

A row is a line; a line that is longer than `longest` is cut at the ends of sentences, else at blanks, else between character
clusters, into rows that have numbers of their own. A chunk takes whole rows up to a budget. Where chunks overlap, each row
is owned by the chunk in which it lies farther from an edge, and only its owner may edit it: nothing is applied twice and
nothing is voted on.

`join` turns the chunks' programs, which name rows, into one program of the document, which names lines: a row that is a
piece becomes `remove_str(line=…, text=…, nth=…, of=…)`, so policies for joined programs allow `nth`. A chunk whose answer
was no program, or at fault too often, edits nothing; the others do. What is measured is the caller's: tokens of a model,
script-aware units, characters; sizes are those of the row with its number in front.

Source: ProX chunks (arXiv 2409.17115; spec/refine.md A.2, B.8). Price: linear in the text, and the measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from typecase.core.lines import line_table
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.language import DECISIONS, MAX_STRING_BYTES, Program, Refusal, Statement, canonical
from typecase.core.program.pieces import cut_line

Measure = Callable[[Sequence[str]], Sequence[int]]
"""Sizes of texts, in the unit of the budget."""

PROX_BUDGET: Final = 1500
"""Tokens of numbered text in a chunk, as published."""
_MOST_CHARS: Final = MAX_STRING_BYTES // 4
"""A piece must fit a string of the language, whatever its characters."""


@dataclass(frozen=True, slots=True)
class Row:
    """A numbered row: characters [start, stop) of the text, of line `line`; `whole` where that is all of the line."""

    line: int
    start: int
    stop: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows [first, last) are shown, rows [own_first, own_last) may be edited; `size` may pass the budget in a lone long row."""

    first: int
    last: int
    own_first: int
    own_last: int
    size: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The program of the document, what each chunk was refused for, and statements on rows that another chunk owns."""

    program: Program
    refusals: tuple[tuple[Refusal, ...], ...]
    rejected: tuple[int, ...]
    foreign: int


def rows_of(text: str, measure: Measure, longest: int | None = PROX_BUDGET) -> tuple[Row, ...]:
    """The rows of `text`; None for `longest` leaves long lines whole, as published."""
    starts, stops = line_table(text)
    lines = list(zip(starts, stops))
    if longest is None:
        return tuple(Row(number, *span) for number, span in enumerate(lines))
    sizes = measure([text[start:stop] for start, stop in lines])
    rows: list[Row] = []
    for number, (start, stop) in enumerate(lines):
        if sizes[number] <= longest:
            rows.append(Row(number, start, stop))
            continue
        most = max(1, min(_MOST_CHARS, (stop - start) * longest // max(1, sizes[number])))
        cuts = _fitting(text, start, stop, most, longest, measure)
        rows += [Row(number, a, b, whole=False) for a, b in cuts]
    return tuple(rows)


def _fitting(text: str, start: int, stop: int, most: int, longest: int, measure: Measure) -> list[tuple[int, int]]:
    """Pieces of a line, none larger than `longest` unless it is a single character cluster."""
    done: list[tuple[int, int]] = []
    waiting = cut_line(text, start, stop, most)
    while waiting:
        sizes = measure([text[a:b] for a, b in waiting])
        again: list[tuple[int, int]] = []
        for (a, b), size in zip(waiting, sizes, strict=True):
            finer = cut_line(text, a, b, (b - a + 1) // 2) if size > longest and b - a > 1 else []
            if len(finer) > 1:
                again += finer
            else:
                done.append((a, b))
        waiting = again
    return sorted(done)


def numbered(text: str, rows: Sequence[Row], first: int, last: int, *, offset: int = 0, width: int = 3) -> str:
    """Rows [first, last) as they are shown: `[007]` and the row, a line each; numbers count from `offset`."""
    return "\n".join(f"[{n - offset:0{width}d}]{text[rows[n].start : rows[n].stop]}" for n in range(first, last))


def cut_chunks(
    text: str, rows: Sequence[Row], measure: Measure, budget: int = PROX_BUDGET, *, overlap: int = 0, width: int = 3
) -> tuple[Chunk, ...]:
    """Chunks of whole rows, greedily up to `budget`; a row above it is a chunk of its own. `overlap` rows are shown twice.

    With global numbers, width 3 and no overlap these are the published chunks.
    """
    if budget < 1 or overlap < 0:
        raise ValueError(f"a chunk needs a budget of 1 or more and no negative overlap, got {budget} and {overlap}")
    sizes = measure([f"[{n:0{width}d}]{text[row.start : row.stop]}" for n, row in enumerate(rows)])
    bounds: list[tuple[int, int]] = []
    first = 0
    while first < len(rows):
        last, total = first + 1, sizes[first]
        while last < len(rows) and total + sizes[last] <= budget:
            total += sizes[last]
            last += 1
        bounds.append((first, last))
        if last == len(rows):
            break
        first = max(first + 1, last - overlap)
    chunks: list[Chunk] = []
    for k, (first, last) in enumerate(bounds):
        own_first = chunks[-1].own_last if chunks else 0
        own_last = (bounds[k + 1][0] + last + 1) // 2 if k + 1 < len(bounds) else last
        chunks.append(Chunk(first, last, own_first, own_last, sum(sizes[first:last])))
    return tuple(chunks)


def join(
    programs: Sequence[Program | Refusal],
    chunks: Sequence[Chunk],
    rows: Sequence[Row],
    text: str,
    *,
    local: bool = False,
    policy: GuardPolicy = STRICT,
) -> Joined:
    """One program of the document from those of its chunks, in order; `local` where rows were numbered from 0 in each.

    A chunk is rejected when more of its statements are at fault than `policy` allows; a refusal edits nothing.
    """
    if len(programs) != len(chunks):
        raise ValueError(f"{len(chunks)} chunks need as many programs, got {len(programs)}")
    statements: list[Statement] = []
    refusals: list[tuple[Refusal, ...]] = []
    rejected: list[int] = []
    foreign = 0
    for number, (program, chunk) in enumerate(zip(programs, chunks, strict=True)):
        if isinstance(program, Refusal):
            refusals.append((program,))
            rejected.append(number)
            continue
        desk = _Desk(text, rows, chunk, chunk.first if local else 0)
        desk.take(program)
        refusals.append(tuple(desk.refusals))
        num = max(1, len(program.statements) + len(program.faults))
        if len(desk.refusals) * 100 > max(100, policy.error_percent * num):
            rejected.append(number)
            continue
        statements += desk.statements
        foreign += desk.foreign
    return Joined(canonical(Program(tuple(statements))), tuple(refusals), tuple(rejected), foreign)


@dataclass(slots=True)
class _Desk:
    """One chunk's program being rewritten from rows to lines."""

    text: str
    rows: Sequence[Row]
    chunk: Chunk
    offset: int
    statements: list[Statement] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    foreign: int = 0

    def take(self, program: Program) -> None:
        self.refusals += program.faults
        alone = [s.name for s in program.statements if s.name in DECISIONS]
        if alone and (len(set(alone)) > 1 or len(alone) < len(program.statements) or program.faults):
            self._refuse(program.statements[0], 0, "E_CONTRADICTION", f"{alone[0]}() stands alone in its program")
            return
        for number, statement in enumerate(program.statements):
            self._take_one(number, statement)

    def _take_one(self, number: int, s: Statement) -> None:
        if s.name in ("keep_all", "keep_doc"):
            return
        if s.name == "drop_doc":
            self._refuse(s, number, "E_CONTRADICTION", "a chunk cannot decide about its document; drop_all() drops the chunk")
            return
        if s.name == "drop_all":
            self._remove(s, self.chunk.own_first, self.chunk.own_last)
            return
        first, last = self._rows_named(s)
        if last < first:
            self._refuse(s, number, "E_RANGE_ORDER", f"row {s.line_end} stands before row {s.line_start}")
        elif not self.chunk.first <= first <= last < self.chunk.last:
            shown = f"{self.chunk.first - self.offset} to {self.chunk.last - 1 - self.offset}"
            self._refuse(s, number, "E_LINE_RANGE", f"row {s.line_end} is not shown: the chunk has rows {shown}")
        elif s.name == "remove_lines":
            low, high = max(first, self.chunk.own_first), min(last + 1, self.chunk.own_last)
            self.foreign += low > first or high < last + 1
            self._remove(s, low, high)
        elif not self.chunk.own_first <= first <= last < self.chunk.own_last:
            self.foreign += 1
        elif s.name == "normalize":
            self._normalize(s, number, first, last)
        else:
            self._string(s, number, first, last)

    def _rows_named(self, s: Statement) -> tuple[int, int]:
        if s.name == "normalize" and s.line_start < 0:
            return self.chunk.own_first, self.chunk.own_last - 1
        return s.line_start + self.offset, s.line_end + self.offset

    def _remove(self, s: Statement, low: int, high: int) -> None:
        """Rows [low, high): lines of which all rows go as lines, pieces of others as strings."""
        at = low
        while at < high:
            line, after = self.rows[at].line, at + 1
            while after < high and self.rows[after].line == line:
                after += 1
            if self._is_line(at, after):
                self.statements.append(Statement("remove_lines", line, line, origin=s.origin))
            else:
                self.statements += [self._piece(s, self.rows[n]) for n in range(at, after)]
            at = after

    def _is_line(self, first: int, last: int) -> bool:
        """Whether rows [first, last) begin where a line begins and end where one ends."""
        line = self.rows[first].line
        before = first > 0 and self.rows[first - 1].line == line
        behind = last < len(self.rows) and self.rows[last].line == self.rows[last - 1].line
        return not before and not behind

    def _piece(self, s: Statement, row: Row) -> Statement:
        return self._at(s._replace(name="remove_str", target=""), row.start, row.stop, row.line, row.line)

    def _at(self, s: Statement, start: int, stop: int, line: int, line_end: int) -> Statement:
        """A statement on the string [start, stop), named by its place among its like in the lines."""
        low, high = self._line_start(line), self._line_stop(line_end)
        wanted = self.text[start:stop]
        nth, of, at = 0, 0, self.text.find(wanted, low, high)
        while at >= 0:
            of += 1
            nth = of if at == start else nth
            at = self.text.find(wanted, at + 1, high)
        nth, of = (nth, of) if of > 1 else (0, 0)
        return s._replace(line_start=line, line_end=line_end, text=wanted, nth=nth, of=of, offset=-1)

    def _line_start(self, line: int) -> int:
        return next(row.start for row in self._near(line) if row.line == line)

    def _line_stop(self, line: int) -> int:
        return max(row.stop for row in self._near(line) if row.line == line)

    def _near(self, line: int) -> Sequence[Row]:
        """Rows around the chunk that hold all of `line`."""
        low, high = self.chunk.first, self.chunk.last
        while low > 0 and self.rows[low - 1].line == line:
            low -= 1
        while high < len(self.rows) and self.rows[high].line == line:
            high += 1
        return self.rows[low:high]

    def _normalize(self, s: Statement, number: int, first: int, last: int) -> None:
        if not self._is_line(first, last + 1):
            self._refuse(s, number, "E_LINE_RANGE", "a form is of whole lines, and a row is only a piece of one")
            return
        self.statements.append(s._replace(line_start=self.rows[first].line, line_end=self.rows[last].line, offset=-1))

    def _string(self, s: Statement, number: int, first: int, last: int) -> None:
        low, high = self.rows[first].start, self.rows[last].stop
        places = self._places(s.text, low, high) if s.text else []
        if s.nth or s.of:
            found = places[s.nth - 1 : s.nth] if s.of == len(places) and s.nth >= 1 else []
        else:
            found = places if len(places) == 1 else []
        if not found:
            code = "E_EMPTY_STRING" if not s.text else "E_AMBIGUOUS" if places else "E_NO_MATCH"
            self._refuse(s, number, code, f"{s.text!r} occurs {len(places)} times in rows {s.line_start}–{s.line_end}")
            return
        lines = self.rows[first].line, self.rows[last].line
        self.statements.append(self._at(s, found[0], found[0] + len(s.text), *lines))

    def _places(self, wanted: str, low: int, high: int) -> list[int]:
        places: list[int] = []
        at = self.text.find(wanted, low, high)
        while at >= 0 and len(places) < 1000:
            places.append(at)
            at = self.text.find(wanted, at + 1, high)
        return places

    def _refuse(self, s: Statement, number: int, code: str, message: str) -> None:
        self.refusals.append(Refusal(code, number, max(s.offset, 0), message))
