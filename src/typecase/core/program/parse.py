"""Reading a program: total, linear, one lexer over the whole source.

    parse(any text)  ->  Program  |  Refusal(code, statement, offset, message)

A lexical or syntactic error refuses the whole program, because nobody knows where the next statement begins. An error
in a signature (unknown operation, missing argument …) leaves out that statement and is kept in `Program.faults`. Nothing
is ever evaluated, and no part of a document reaches this parser.

Each argument is one match of one expression; only when it fails is the source looked at by character, to say why.
Price: about 1.5 microseconds an argument; all expressions are possessive, so time is linear in the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from typecase.core.program.language import (
    MAX_PROGRAM_BYTES,
    MAX_STATEMENTS,
    MAX_STRING_BYTES,
    UNKNOWN,
    Origin,
    Program,
    Refusal,
    Statement,
)

_GAP: Final = re.compile(r"(?:[ \t\r\n;]++|#[^\n]*+)*+")
_SEPARATOR: Final = re.compile(r"[ \t]*+(?:\Z|(?=[\r\n;#])(?:[ \t\r\n;]++|#[^\n]*+)*+)")
_HEAD: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*+)[ \t]*+\([ \t\r\n]*+(\)?)")
_ARG: Final = re.compile(
    r"[ \t\r\n]*+([A-Za-z_][A-Za-z0-9_]*+)[ \t\r\n]*+=[ \t\r\n]*+"
    r"(?:([0-9]{1,9}+)(?![0-9])|\"([^\"\\]*+(?:\\.[^\"\\]*+)*+)\")"
    r"[ \t\r\n]*+(?:(\))|,[ \t\r\n]*+(\))?+)",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:([\"\\nrt])|u([0-9A-Fa-f]{4})|)", re.DOTALL)
_PLAIN: Final = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_ \t\r\n;#()=,\"]")
_BLANKS: Final = re.compile(r"[ \t\r\n]*+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_DIGITS: Final = re.compile(r"[0-9]++")
_STRING_BODY: Final = re.compile(r"\"[^\"\\]*+(?:\\.[^\"\\]*+)*+", re.DOTALL)


class _Stop(Exception):
    """Carries a refusal out of the reader; never leaves this module."""

    def __init__(self, code: str, offset: int, message: str) -> None:
        super().__init__(message)
        self.code, self.offset, self.message = code, offset, message


def parse(source: str, *, origin: Origin = UNKNOWN, text_hash: str | None = None, truncated: bool = False) -> Program | Refusal:
    """Reads `source`; every statement gets `origin`, the program is bound to `text_hash`.

    `truncated` says that whoever wrote the source was cut off: the unfinished statement is left out, the finished ones
    count, and the program bears the fault E_TRUNCATED. Without it an unfinished statement refuses the program.
    """
    statements: list[Statement] = []
    faults: list[Refusal] = []
    number = 0
    try:
        _check_source(source)
        at = _end_of(_GAP.match(source))
        while at < len(source):
            if number == MAX_STATEMENTS:
                raise _Stop("E_TOO_MANY_OPS", at, f"more than {MAX_STATEMENTS} statements")
            begin = at
            name, numbers, strings, fault, at = _statement(source, at)
            made = fault or _made(name, numbers, strings, begin, origin)
            if isinstance(made, Statement):
                statements.append(made)
            else:
                faults.append(Refusal(made[0], number, begin, made[1]))
            number += 1
            separator = _SEPARATOR.match(source, at)
            if separator is None:
                raise _Stop(_code_at(source, at), at, "a newline, ';' or '#' must stand between two statements")
            at = separator.end()
    except _Stop as stop:
        if not (truncated and stop.code == "E_TRUNCATED"):
            return Refusal(stop.code, number, stop.offset, stop.message)
    if truncated:
        faults.append(Refusal("E_TRUNCATED", number, len(source), "the writer was cut off; finished statements count"))
    return Program(tuple(statements), tuple(faults), text_hash)


def _check_source(source: str) -> None:
    size = len(source)
    if not source.isascii():
        try:
            size = len(source.encode())
        except UnicodeEncodeError as error:
            raise _Stop("E_LEX", error.start, "half a surrogate pair is no character") from None
    if size > MAX_PROGRAM_BYTES:
        raise _Stop("E_TOO_LONG", 0, f"a program of {size} bytes is over the limit of {MAX_PROGRAM_BYTES}")


def _end_of(match: re.Match[str] | None) -> int:
    return match.end() if match else 0


_Read = tuple[str, dict[str, int], dict[str, str], tuple[str, str] | None, int]


def _statement(source: str, at: int) -> _Read:
    """Name, numbers, strings, a fault of the argument list as (code, message), and where the statement ends."""
    head = _HEAD.match(source, at)
    if head is None:
        raise _why_no_head(source, at)
    numbers: dict[str, int] = {}
    strings: dict[str, str] = {}
    fault = None
    at = head.end()
    function, closed = head.groups()
    while not closed:
        match = _ARG.match(source, at)
        if match is None:
            raise _why_no_arg(source, at)
        name, digits, string, close, late_close = match.groups()
        if name in numbers or name in strings:
            fault = fault or ("E_DUP_ARG", f"argument {name!r} is given twice")
        if digits:
            numbers[name] = int(digits)
        elif "\\" in string or len(string) > MAX_STRING_BYTES // 4:
            strings[name] = _unescaped(string, match.start(3))
        else:
            strings[name] = string
        closed = close or late_close
        at = match.end()
    return function, numbers, strings, fault, at


def _unescaped(string: str, offset: int) -> str:
    string = _ESCAPE.sub(lambda m: _escape(m, offset), string)
    try:
        size = len(string.encode())
    except UnicodeEncodeError:
        try:
            string = string.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise _Stop("E_STRING_ESCAPE", offset, "a \\u escape is half a surrogate pair") from None
        size = len(string.encode())
    if size > MAX_STRING_BYTES:
        raise _Stop("E_TOO_LONG", offset, f"a string of {size} bytes is over the limit of {MAX_STRING_BYTES}")
    return string


def _escape(match: re.Match[str], offset: int) -> str:
    if match[1]:
        return _PLAIN[match[1]]
    if match[2]:
        return chr(int(match[2], 16))
    raise _Stop("E_STRING_ESCAPE", offset + match.start(), 'an escape must be one of \\" \\\\ \\n \\r \\t \\uXXXX')


def _why_no_head(source: str, at: int) -> _Stop:
    name = _NAME.match(source, at)
    if name is None:
        return _Stop(_code_at(source, at), at, f"a statement begins with a name, found {source[at]!r}")
    after = name.end()
    while after < len(source) and source[after] in " \t":
        after += 1
    if after == len(source):
        return _Stop("E_TRUNCATED", at, f"the program ends after {name[0]!r}")
    return _Stop(_code_at(source, after), after, f"'(' must follow {name[0]!r}, found {source[after]!r}")


def _why_no_arg(source: str, at: int) -> _Stop:
    """Why no argument stands at `at`: the same steps as the expression, one by one."""
    name = _NAME.match(source, at := _skip(source, at))
    if name is None:
        return _Stop(_code_at(source, at), at, "an argument begins with its name: arguments are keywords")
    at = _skip(source, name.end())
    if source[at] != "=":
        return _Stop(_code_at(source, at), at, f"'=' must follow argument {name[0]!r}")
    at = _skip(source, at + 1)
    if digits := _DIGITS.match(source, at):
        if len(digits[0]) > 9:
            return _Stop("E_LEX", at, "a number has at most nine digits")
        at = digits.end()
    elif string := _STRING_BODY.match(source, at):
        at = string.end()
        if at == len(source) or source[at:] == "\\":
            return _Stop("E_TRUNCATED", string.start(), "the program ends inside a string")
        at += 1
    else:
        return _Stop(_code_at(source, at), at, f"argument {name[0]!r} must be a number or a string in double quotes")
    at = _skip(source, at)
    return _Stop(_code_at(source, at), at, "',' or ')' must follow an argument")


def _skip(source: str, at: int) -> int:
    match = _BLANKS.match(source, at)
    at = match.end() if match else at
    if at == len(source):
        raise _Stop("E_TRUNCATED", at, "the program ends inside a statement")
    return at


def _code_at(source: str, at: int) -> str:
    return "E_SYNTAX" if _ALPHABET.match(source, at) else "E_LEX"


@dataclass(frozen=True, slots=True)
class Signature:
    """Names of the arguments of an operation, by type."""

    numbers: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()  # numbers too

    def names(self) -> tuple[str, ...]:
        return (*self.numbers, *self.strings, *self.optional)


SIGNATURES: Final[dict[str, Signature]] = {
    "keep_doc": Signature(),
    "drop_doc": Signature(),
    "keep_all": Signature(),
    "drop_all": Signature(),
    "remove_lines": Signature(("line_start", "line_end")),
    "remove_str": Signature(("line",), ("text",), ("line_end", "nth", "of")),
    "replace_str": Signature(("line",), ("source", "target"), ("line_end", "nth", "of")),
    "normalize": Signature((), ("form",), ("line", "line_end")),
}
"""Operation -> its arguments."""


def _made(name: str, numbers: dict[str, int], strings: dict[str, str], at: int, origin: Origin) -> Statement | tuple[str, str]:
    """The statement, or the fault of its signature as (code, message)."""
    try:
        if name == "remove_lines":
            made = Statement(name, numbers["line_start"], numbers["line_end"], offset=at, origin=origin)
        elif name == "remove_str":
            line, get = numbers["line"], numbers.get
            made = Statement(name, line, get("line_end", line), strings["text"], "", get("nth", 0), get("of", 0), at, origin)
        elif name == "replace_str":
            line, get = numbers["line"], numbers.get
            source, target = strings["source"], strings["target"]
            made = Statement(name, line, get("line_end", line), source, target, get("nth", 0), get("of", 0), at, origin)
        elif name == "normalize":
            line = numbers.get("line", -1)
            made = Statement(name, line, numbers.get("line_end", line), strings["form"], offset=at, origin=origin)
        else:
            made = Statement(name, offset=at, origin=origin)
    except KeyError:
        made = None
    signature = SIGNATURES.get(name)
    required = len(signature.numbers) + len(signature.strings) if signature else -1
    if made is not None and len(numbers) + len(strings) == required:
        return made
    fault = _signature_fault(name, numbers, strings)
    return made if made is not None and fault is None else fault or ("E_MISSING_ARG", f"{name} lacks an argument")


def _signature_fault(name: str, numbers: dict[str, int], strings: dict[str, str]) -> tuple[str, str] | None:
    signature = SIGNATURES.get(name)
    if signature is None:
        return "E_UNKNOWN_FN", f"no operation {name!r}; there are {', '.join(SIGNATURES)}"
    for arg in (*numbers, *strings):
        if arg not in signature.names():
            return "E_UNKNOWN_ARG", f"{name} has no argument {arg!r}; it has {', '.join(signature.names()) or 'none'}"
        if (arg in signature.strings) != (arg in strings):
            return "E_ARG_TYPE", f"{name}: {arg} must be {'a string' if arg in signature.strings else 'a number'}"
    for arg in (*signature.numbers, *signature.strings):
        if arg not in numbers and arg not in strings:
            return "E_MISSING_ARG", f"{name} needs {arg}"
    if name == "normalize" and "line_end" in numbers and "line" not in numbers:
        return "E_MISSING_ARG", "normalize needs line where it has line_end"
    return None
