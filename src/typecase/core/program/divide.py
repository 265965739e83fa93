"""Divide: the program of a document as programs of its chunks, the inverse of `chunks.join`.

    document   remove_lines(0, 1)   remove_str(line=9, text="[edit]")
    chunks     rows 0 to 5 -> remove_lines(0, 1)        rows 6 to 11 -> remove_str(line=3, text="[edit]")

Rows are numbered from 0 in each chunk with `local`. A chunk of which every row goes is drop_all(), one that loses nothing
keep_all(). A string that does not lie in one row of one chunk is a Refusal of that chunk. Law: joined again and run, the
chunks do what the program does. Price: one pass over rows and statements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from typecase.core.program.chunks import Chunk, Row
from typecase.core.program.language import UNKNOWN, Origin, Program, Refusal, Statement, drop_all, keep_all, remove_lines
from typecase.core.program.language import remove_str as removed_string

_DIVIDED = ("remove_lines", "remove_str", "keep_all", "keep_doc")


def divide(
    program: Program, rows: Sequence[Row], chunks: Sequence[Chunk], text: str, *, local: bool = True, origin: Origin = UNKNOWN
) -> list[Program | Refusal]:
    """A program for every chunk, of removals alone. Statements other than remove_lines, remove_str and keep_all refuse all."""
    foreign = next((s for s in program.statements if s.name not in _DIVIDED), None)
    if foreign is not None:
        told = Refusal("E_UNKNOWN_FN", 0, 0, f"{foreign.name} is not divided among chunks")
        return [told] * len(chunks)
    gone = {line for s in program.statements if s.name == "remove_lines" for line in range(s.line_start, s.line_end + 1)}
    strings: list[list[Statement] | Refusal] = [[] for _ in chunks]
    firsts = [chunk.own_first for chunk in chunks]
    for s in program.statements:
        if s.name == "remove_str":
            _place(s, rows, chunks, firsts, text, strings, local, origin)
    return [_of_chunk(chunk, rows, gone, own, local, origin) for chunk, own in zip(chunks, strings, strict=True)]


def _of_chunk(
    chunk: Chunk, rows: Sequence[Row], gone: set[int], strings: list[Statement] | Refusal, local: bool, origin: Origin
) -> Program | Refusal:
    if isinstance(strings, Refusal):
        return strings
    own = range(chunk.own_first, chunk.own_last)
    lost = [n for n in own if rows[n].line in gone]
    if lost and len(lost) == len(own):
        return Program((drop_all(origin=origin),))
    offset = chunk.first if local else 0
    made: list[Statement] = []
    for n in lost:
        if made and made[-1].line_end == n - 1 - offset:
            made[-1] = made[-1]._replace(line_end=n - offset)
        else:
            made.append(remove_lines(n - offset, n - offset, origin=origin))
    made += strings
    if not made:
        return Program((keep_all(origin=origin),))
    return Program(tuple(sorted(made, key=lambda s: (s.line_start, s.line_end, s.text))))


def _place(
    s: Statement,
    rows: Sequence[Row],
    chunks: Sequence[Chunk],
    firsts: Sequence[int],
    text: str,
    found: list[list[Statement] | Refusal],
    local: bool,
    origin: Origin,
) -> None:
    """Puts a string into the chunk of the row that holds it."""
    low = next((k for k, row in enumerate(rows) if row.line == s.line_start), None)
    high = next((k for k in range(len(rows) - 1, -1, -1) if rows[k].line == s.line_end), None)
    places: list[int] = []
    if low is not None and high is not None:
        at = text.find(s.text, rows[low].start, rows[high].stop)
        while at >= 0:
            places.append(at)
            at = text.find(s.text, at + 1, rows[high].stop)
    start = places[s.nth - 1 if s.nth else 0] if places and (s.nth <= len(places)) else None
    span = range(low or 0, (high or 0) + 1) if start is not None else range(0)
    row = next((k for k in span if start is not None and rows[k].start <= start < rows[k].stop), None)
    number = max(0, bisect_right(firsts, row if row is not None else low or 0) - 1)
    if start is None or row is None or start + len(s.text) > rows[row].stop:
        found[number] = Refusal("E_NO_MATCH", 0, 0, f"{s.text[:40]!r} does not lie in one row of line {s.line_start}")
        return
    inside, at = [], text.find(s.text, rows[row].start, rows[row].stop)
    while at >= 0:
        inside.append(at)
        at = text.find(s.text, at + 1, rows[row].stop)
    nth, of = (inside.index(start) + 1, len(inside)) if len(inside) > 1 else (0, 0)
    chunk = chunks[number]
    own = found[number]
    if isinstance(own, list):
        offset = chunk.first if local else 0
        own.append(removed_string(row - offset, s.text, nth=nth, of=of, origin=origin))
