"""What a published ProX program says, as a program of our language, where it can be said exactly.

    remove_lines(line_start=000,line_end=002)            remove_lines(line_start=0, line_end=2)
    normalize(source_str="Read more", target_str="")     remove_str(line=4, text="Read more")      if it stands in one row
    normalize(source_str="ﬁnd", target_str="find")       replace_str(line=4, …)                     likewise
    keep_chunk()                                         keep_all()

ProX would replace a string in the whole document, wherever it stands; the statement here names the one place in the rows that
the model was shown, or is refused. Calls that the published parser reads otherwise than they are written (flags X1 to X8 of
prox.py) and calls that name nothing are refused too: each is a fault of the program, with its flag. To run programs as
published, faults and all, there is `prox.run_prox`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from typecase.core.program.chunks import Row
from typecase.core.program.language import MAX_INT, MAX_STRING_BYTES, UNKNOWN, Origin, Program, Refusal, Statement
from typecase.core.program.prox import FLAGS, NEUTRAL, Call, read_prox

_CODES: Final = {"X4": "E_TRUNCATED", "X9": "E_NO_MATCH"}
_CALLS: Final = ("remove_lines", "normalize")
_KEEPS: Final = ("keep_", "untouch_doc", "skip_chunk")


def strict_of_prox(
    answer: str, text: str, rows: Sequence[Row], first: int, last: int, *, origin: Origin = UNKNOWN
) -> Program | Refusal:
    """The program for rows [first, last) of `text`, which were shown under these numbers. E_EMPTY where nothing was said."""
    if not answer.strip():
        return Refusal("E_EMPTY", 0, 0, "the answer is empty")
    read = read_prox(answer)
    lines = answer.strip(" ").split("\n")
    statements: list[Statement] = []
    faults: list[Refusal] = []
    called = {call.line: call for call in read.calls}
    for number, line in enumerate(lines):
        flags = read.flags.get(number, ())
        call = called.get(number)
        if call is not None and not (NEUTRAL & set(flags)):
            made = _made(call, text, rows, first, last, origin)
        elif flags or line.startswith(_CALLS):
            made = _flagged(flags, line)
        else:
            continue
        if isinstance(made, Statement):
            statements.append(made)
        else:
            faults.append(Refusal(made[0], number, 0, made[1]))
    if not statements and not faults and any(line.strip().startswith(_KEEPS) for line in lines):
        statements.append(Statement("keep_all", origin=origin))
    if not statements and all(fault.code == "E_UNKNOWN_FN" for fault in faults):
        return Refusal("E_EMPTY", 0, 0, "the answer holds no call")
    return Program(tuple(dict.fromkeys(statements)), tuple(faults))


def _flagged(flags: Sequence[str], line: str) -> tuple[str, str]:
    if not line.startswith(_CALLS):
        return "E_UNKNOWN_FN", f"no call of the language: {line[:40]!r}"
    flag = next((f for f in flags if f in NEUTRAL), flags[0] if flags else "")
    return _CODES.get(flag, "E_SYNTAX"), f"{flag}: {FLAGS[flag]}" if flag else "the arguments of the call cannot be read"


def _made(call: Call, text: str, rows: Sequence[Row], first: int, last: int, origin: Origin) -> Statement | tuple[str, str]:
    if call.kind == "remove_all":
        return Statement("drop_all", origin=origin)
    if call.kind == "remove":
        if not 0 <= call.first <= MAX_INT or not 0 <= call.last <= MAX_INT:
            return "E_LINE_RANGE", f"no rows {call.first} to {call.last}"
        return Statement("remove_lines", call.first, call.last, origin=origin)
    if not call.source or len(call.source.encode("utf-8", "replace")) > MAX_STRING_BYTES:
        return "E_EMPTY_STRING", "the source is empty, or longer than a string may be"
    found = [n for n in range(first, last) if call.source in text[rows[n].start : rows[n].stop]]
    if not found:
        return "E_NO_MATCH", f"{call.source!r} stands in none of the rows"
    if len(found) > 1:
        return "E_AMBIGUOUS", f"{call.source!r} stands in {len(found)} rows"
    name = "replace_str" if call.target else "remove_str"
    return Statement(name, found[0], found[0], call.source, call.target, origin=origin)
