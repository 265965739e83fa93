"""Lenient reading, for teachers only: a strong model's answer as the program that it plainly means, every leniency counted.

    Sure! Here is the program:                       prose
    ```python                                        fence
    - remove_lines(0, [003])                         list, positional, bracketed_number
    normalize(source_str='Read more', target_str="") alias, single_quotes, line_found
    untouch_doc()                                    alias: keep_all()
    ```

Read are calls that begin a line; a call in the middle of a sentence is talk about a call, and is left alone. A string without a
line, as ProX writes it, gets the one row that holds it. A call that cannot be read for certain is a fault, never a guess: two
rows that hold the string, a number that is none, an unfinished call. Strict programs are read as `parse` reads them, with no
leniency. At inference answers are read by `parse`.

Price: linear in the answer; a string without a line costs a search of the rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from typecase.core.program.language import MAX_INT, MAX_STRING_BYTES, UNKNOWN, Origin, Program, Refusal, Statement
from typecase.core.program.parse import SIGNATURES

RELAXATIONS: Final = (
    "thoughts", "fence", "prose", "list", "call_in_prose", "alias", "argument_alias", "positional", "single_quotes",
    "quoted_number", "bracketed_number", "line_found", "loose_string",
)  # fmt: skip
"""Every leniency; `call_in_prose` counts calls that were left alone."""

ALIASES: Final[Mapping[str, str]] = {
    "untouch_doc": "keep_all",
    "keep_chunk": "keep_all",
    "skip_chunk": "keep_all",
    "no_change": "keep_all",
    "drop_chunk": "drop_all",
    "remove_line": "remove_lines",
    "delete_lines": "remove_lines",
    "remove_string": "remove_str",
    "delete_str": "remove_str",
    "replace_string": "replace_str",
}
"""Names that models use for ours; `normalize` with a source string is remove_str or replace_str."""
ARGUMENTS: Final[Mapping[str, str]] = {
    "start": "line_start",
    "end": "line_end",
    "start_line": "line_start",
    "end_line": "line_end",
    "line_no": "line",
    "line_id": "line",
    "source_str": "source",
    "target_str": "target",
    "string": "text",
    "str": "text",
}
_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "remove_lines": ("line_start", "line_end"),
    "remove_str": ("line", "text", "line_end"),
    "replace_str": ("line", "source", "target", "line_end"),
    "normalize": ("form", "line", "line_end"),
}
_THOUGHTS: Final = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL)
_FENCE: Final = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_MARKER: Final = re.compile(r"[ \t]*(?:[-*•][ \t]+|[0-9]{1,3}[.)][ \t]+|`)?")
_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*\(")
_KEY: Final = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)\s*[=:]\s*)?")
_NUMBER: Final = re.compile(r"(\[?)([0-9]{1,9})(\]?)(?![0-9])")
_WORD: Final = re.compile(r"True|False|None")
_QUOTES: Final = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_PLAIN: Final = {"n": "\n", "r": "\r", "t": "\t"}

Value = int | str | bool | None


@dataclass(frozen=True, slots=True)
class Lenient:
    """What was read, and how often each leniency was needed."""

    program: Program | Refusal
    relaxations: Mapping[str, int]


class _Unreadable(Exception):
    """Carries a fault out of a call; never leaves this module."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def read_lenient(
    answer: str, lines: Sequence[str], *, first: int = 0, origin: Origin = UNKNOWN, truncated: bool = False
) -> Lenient:
    """Reads `answer`, given for `lines` that were shown under the numbers from `first` on; total.

    An answer without a call is refused: E_EMPTY, or E_TRUNCATED where it was cut off.
    """
    reader = _Reader(lines, first, origin)
    for source, offset in _sources(answer, reader.used):
        reader.read(source, offset)
    if truncated:
        reader.faults.append(Refusal("E_TRUNCATED", reader.number, len(answer), "the writer was cut off"))
    program: Program | Refusal = Program(tuple(reader.statements), tuple(reader.faults))
    if not reader.statements and not any(f.code != "E_TRUNCATED" for f in reader.faults):
        code = "E_TRUNCATED" if truncated or reader.faults else "E_EMPTY"
        program = Refusal(code, 0, 0, "the answer holds no call that begins a line")
    return Lenient(program, {name: reader.used[name] for name in RELAXATIONS if reader.used[name]})


def _sources(answer: str, used: Counter[str]) -> Iterator[tuple[str, int]]:
    """The parts of an answer in which calls are looked for: what stands in fences, or all of it."""

    def hidden(match: re.Match[str]) -> str:
        used["thoughts"] += 1
        return " " * len(match[0])

    answer = _THOUGHTS.sub(hidden, answer)
    fences = [match for match in _FENCE.finditer(answer) if _NAME.search(match[1])]
    if not fences:
        yield answer, 0
        return
    used["fence"] += len(fences)
    outside = _FENCE.sub("", answer)
    used["prose"] += sum(1 for line in outside.split("\n") if line.strip())
    for match in fences:
        yield match[1], match.start(1)


@dataclass(slots=True)
class _Reader:
    """One answer being read."""

    lines: Sequence[str]
    first: int
    origin: Origin
    statements: list[Statement] = field(default_factory=list)
    faults: list[Refusal] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def read(self, source: str, offset: int) -> None:
        at = 0
        while at < len(source):
            stop = source.find("\n", at)
            stop = len(source) if stop < 0 else stop
            at = self._line(source, at, stop, offset) + 1

    def _line(self, source: str, at: int, stop: int, offset: int) -> int:
        """Reads the calls that begin at `at`; where the line, or its last call, ends."""
        marker = _MARKER.match(source, at, stop)
        begin = marker.end() if marker else at
        if begin > at and source[at:begin].strip():
            match = _NAME.match(source, begin)
            self.used["list"] += match is not None and _known(match[1])
        while (match := _NAME.match(source, begin)) and _known(match[1]):
            end = self._call(match[1], source, match.end(), offset + begin)
            if end < 0:
                return len(source)
            rest = re.compile(r"[ \t]*;?[ \t]*").match(source, end)
            begin = rest.end() if rest else end
            stop = source.find("\n", begin)
            stop = len(source) if stop < 0 else stop
        tail = source[begin:stop].strip().strip("`")
        if tail and not tail.startswith("#"):
            self.used["prose"] += 1
            self.used["call_in_prose"] += sum(_known(name) for name in _NAME.findall(tail))
        return stop

    def _call(self, name: str, source: str, at: int, offset: int) -> int:
        """Reads the arguments of one call from `at` on; where it ends, -1 if it does not."""
        end = at
        try:
            values, end = self._arguments(source, at)
            made = self._made(name, values)
            self.statements.append(made._replace(offset=offset, origin=self.origin))
        except _Unreadable as fault:
            unfinished = fault.code == "E_TRUNCATED" or source.find(")", at) < 0
            self.faults.append(Refusal("E_TRUNCATED" if unfinished else fault.code, self.number, offset, fault.message))
            if unfinished:
                self.number += 1
                return -1
            if end == at:
                close = source.find(")", at, _line_end(source, at))
                end = close + 1 if close >= 0 else _line_end(source, at)
        self.number += 1
        return end

    def _arguments(self, source: str, at: int) -> tuple[list[tuple[str, Value]], int]:
        values: list[tuple[str, Value]] = []
        while True:
            at = _blanks(source, at)
            if at >= len(source):
                raise _Unreadable("E_TRUNCATED", "the answer ends inside a call")
            if source[at] == ")":
                return values, at + 1
            key = _KEY.match(source, at)
            name = key[1] or "" if key else ""
            at = key.end() if key else at
            value, at = self._value(source, at)
            values.append((name, value))
            at = _blanks(source, at)
            if at < len(source) and source[at] == ",":
                at += 1
            elif at < len(source) and source[at] != ")":
                raise _Unreadable("E_SYNTAX", f"',' or ')' must follow an argument, found {source[at]!r}")

    def _value(self, source: str, at: int) -> tuple[Value, int]:
        if at >= len(source):
            raise _Unreadable("E_TRUNCATED", "the answer ends inside a call")
        if source[at] in _QUOTES:
            return self._string(source, at)
        if number := _NUMBER.match(source, at):
            if bool(number[1]) != bool(number[3]):
                raise _Unreadable("E_SYNTAX", f"{number[0]!r} is no number")
            self.used["bracketed_number"] += bool(number[1])
            return int(number[2]), number.end()
        if word := _WORD.match(source, at):
            return {"True": True, "False": False}.get(word[0]), word.end()
        raise _Unreadable("E_SYNTAX", f"no number and no string: {source[at : at + 20]!r}")

    def _string(self, source: str, at: int) -> tuple[str, int]:
        quote = _QUOTES[source[at]]
        self.used["single_quotes"] += quote != '"'
        end = at + 1
        while end < len(source) and source[end] != quote:
            end += 2 if source[end] == "\\" else 1
        if end >= len(source):
            raise _Unreadable("E_TRUNCATED", "the answer ends inside a string")
        loose = False

        def plain(match: re.Match[str]) -> str:
            nonlocal loose
            if match[1]:
                return chr(int(match[1], 16))
            loose |= match[2] not in '"\\nrt'
            return _PLAIN.get(match[2], match[2])

        text = _ESCAPE.sub(plain, source[at + 1 : end])
        self.used["loose_string"] += loose
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise _Unreadable("E_STRING_ESCAPE", "a \\u escape is half a surrogate pair") from None
        if size > MAX_STRING_BYTES:
            raise _Unreadable("E_TOO_LONG", f"a string of {size} bytes")
        return text, end + 1

    # Calls.

    def _made(self, called: str, values: list[tuple[str, Value]]) -> Statement:
        name = ALIASES.get(called, called)
        if name == "normalize" and not any(key in ("form", "line") for key, _ in values) and values:
            name = "replace_str" if len([v for k, v in values if isinstance(v, str) and k != "form"]) > 1 else "remove_str"
        self.used["alias"] += name != called
        if name == "remove_lines" and any(key == "all" and value is True for key, value in values):
            return Statement("drop_all")
        named = self._named(name, values)
        if name == "remove_lines":
            start = self._number(named, "line_start")
            return Statement(name, start, self._number(named, "line_end", start))
        if name in ("remove_str", "replace_str"):
            return self._string_call(name, named)
        if name == "normalize":
            if "form" not in named:
                raise _Unreadable("E_MISSING_ARG", "normalize needs form")
            line = self._number(named, "line", -1)
            return Statement(name, line, self._number(named, "line_end", line), str(named["form"]))
        if named:
            raise _Unreadable("E_UNKNOWN_ARG", f"{name} has no arguments")
        return Statement(name)

    def _named(self, name: str, values: list[tuple[str, Value]]) -> dict[str, Value]:
        """Arguments by our names; those without a name by their place."""
        order = _ORDER.get(name, ())
        if values and name in ("remove_str", "replace_str") and all(isinstance(v, str) for k, v in values if not k):
            order = order[1:]  # no line was given
        free = [key for key in order if key not in {ARGUMENTS.get(k, k) for k, _ in values}]
        named: dict[str, Value] = {}
        for key, value in values:
            own = ARGUMENTS.get(key, key)
            if name == "remove_str" and own == "source":
                own = "text"
            if not key:
                if not free:
                    raise _Unreadable("E_UNKNOWN_ARG", f"{name} has too many arguments")
                own = free.pop(0)
                self.used["positional"] += 1
            else:
                self.used["argument_alias"] += own != key
            if own in named:
                raise _Unreadable("E_DUP_ARG", f"argument {own!r} is given twice")
            if own not in SIGNATURES[name].names() and not (name == "remove_str" and own == "target" and not value):
                raise _Unreadable("E_UNKNOWN_ARG", f"{name} has no argument {own!r}")
            named[own] = value
        return named

    def _number(self, named: Mapping[str, Value], key: str, default: int | None = None) -> int:
        value = named.get(key, default)
        if isinstance(value, str) and (match := _NUMBER.fullmatch(value.strip())):
            self.used["quoted_number"] += 1
            value = int(match[2])
        if value is None:
            raise _Unreadable("E_MISSING_ARG", f"{key} is absent")
        if isinstance(value, bool | str) or value > MAX_INT:
            raise _Unreadable("E_ARG_TYPE", f"{key} must be a number, got {value!r}")
        return value

    def _string_call(self, name: str, named: dict[str, Value]) -> Statement:
        text = named.get("text" if name == "remove_str" else "source")
        target = named.get("target", "") if name == "replace_str" else ""
        if not isinstance(text, str) or not isinstance(target, str):
            raise _Unreadable("E_MISSING_ARG", f"{name} needs its strings")
        if name == "replace_str" and "target" in named and not target:
            name = "remove_str"
            self.used["alias"] += 1
        if "line" in named:
            line = self._number(named, "line")
        else:
            line = self._row_of(text)
            self.used["line_found"] += 1
        nth, of = self._number(named, "nth", 0), self._number(named, "of", 0)
        return Statement(name, line, self._number(named, "line_end", line), text, target, nth, of)

    def _row_of(self, text: str) -> int:
        found = [n for n, line in enumerate(self.lines) if text and text in line]
        if len(found) != 1:
            code = "E_AMBIGUOUS" if found else "E_NO_MATCH"
            raise _Unreadable(code, f"{text!r} stands in {len(found)} rows and no line is named")
        return found[0] + self.first


def _known(name: str) -> bool:
    return name in SIGNATURES or name in ALIASES


def _blanks(source: str, at: int) -> int:
    while at < len(source) and source[at].isspace():
        at += 1
    return at


def _line_end(source: str, at: int) -> int:
    stop = source.find("\n", at)
    return len(source) if stop < 0 else stop
