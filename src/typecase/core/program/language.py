"""Program: what a refiner says about a document, as a small language that only names what it removes or replaces.

    remove_lines(line_start=0, line_end=2)          lines 0, 1 and 2 go
    remove_str(line=5, text=" [edit]")              the one occurrence in line 5 goes
    replace_str(line=7, source="ï¬", target="fi")    only what a registered form or a deletion could give
    normalize(form="mojibake")                      a registered character form (`forms`), of all lines or some
    keep_all() | drop_all()                         of a chunk; alone in their program
    keep_doc() | drop_doc()                         of a document; likewise

    program   = [ statement { sep statement } ] ;          sep = one or more of newline, ";", "#" comment
    statement = NAME "(" [ arg { "," arg } [ "," ] ] ")" ;  arg = NAME "=" ( INT | STRING ), keywords in any order
    INT       = 1 to 9 ASCII digits
    STRING    = '"' { any character but '"' and '\\' | escape } '"' ;  escape = \\" \\\\ \\n \\r \\t \\uXXXX

Lines count from zero, both ends are inclusive. A statement carries its Origin, so that every removed span can say who
asked for it. `parse.parse` reads the language, `run.run` executes it.

Laws: parse(show(p)) == p, show(parse(show(p))) == show(p), canonical(canonical(p)) == canonical(p).
Price: a statement is one small object; showing one costs about a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple

from typecase.errors import BadProgram

MAX_PROGRAM_BYTES: Final = 64 << 10
MAX_STATEMENTS: Final = 2000
MAX_STRING_BYTES: Final = 8 << 10
MAX_INT: Final = 999_999_999

DECISIONS: Final = frozenset(("keep_doc", "drop_doc", "keep_all", "drop_all"))
"""Statements that stand alone in their program."""

CODES: Final = MappingProxyType(
    {
        "E_LEX": "a character or number that the language does not have",
        "E_STRING_ESCAPE": "an escape other than \\\" \\\\ \\n \\r \\t \\uXXXX, or half a surrogate pair",
        "E_SYNTAX": "characters of the language in an order that it does not have",
        "E_TRUNCATED": "the program ends inside a statement",
        "E_TOO_LONG": "the program or one of its strings is longer than the limit",
        "E_TOO_MANY_OPS": "more statements than the limit",
        "E_UNKNOWN_FN": "no such operation, or one that the policy turns off",
        "E_MISSING_ARG": "a required argument is absent",
        "E_DUP_ARG": "an argument is given twice",
        "E_UNKNOWN_ARG": "the operation has no such argument, or the policy turns it off",
        "E_ARG_TYPE": "a number where a string belongs, or the reverse",
        "E_LINE_RANGE": "a line that the text does not have",
        "E_RANGE_ORDER": "the last line stands before the first",
        "E_NO_MATCH": "the string does not occur in its scope",
        "E_AMBIGUOUS": "the string occurs more than once in its scope",
        "E_EMPTY_STRING": "an empty string names nothing",
        "E_UNKNOWN_FORM": "no form of that name is registered",
        "E_DOC_MISMATCH": "the program was made for another text",
        "E_INVENTED": "the replacement is neither a part of its source nor a registered form of it",
        "E_INTRAWORD": "an edge would cut a word or glue two together",
        "E_GRAPHEME": "an edge would cut a character cluster or make a new one",
        "E_CONFLICT": "a replacement overlaps another edit",
        "E_CONTRADICTION": "a decision that stands alone has company",
        "E_PROTECTED": "code, mathematics, a table, a quotation or the title, and the confidence is too low",
        "E_EMPTY": "the program has no statement; `keep_all()` is how to say that nothing changes",
        "E_ERRORS": "too many of the program's statements were at fault",
        "G_OP_TOO_SMALL": "a single character that is no separator",
        "G_OP_TOO_LARGE": "one statement would remove more of the document than the policy allows",
        "G_DOC_RATIO": "too little of the document would be left",
        "G_SHORT_RESULT": "what would be left is too short",
    }
)  # fmt: skip
"""Every reason for which a program or statement is refused."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who proposed a statement.

    kind        model | rule | line_freq | html | diff | injection | llm_teacher | human | tidy | unknown
    name        rule id, or name of the model
    version     of the rule, or digest of model, tokenizer and prompt
    confidence  0 to 1; what the policy compares with its thresholds
    """

    kind: str = "unknown"
    name: str = ""
    version: str = ""
    confidence: float = 0.0


UNKNOWN: Final = Origin()


class Statement(NamedTuple):
    """One operation. Made by `parse` and by the functions below, which check it; fields that it lacks keep their defaults.

    `line_start`, `line_end` are inclusive; -1 where a `normalize` covers the whole document. `text` is the string to
    find, or the form. `nth`, `of` are 0 where not given. `offset` is where it stood in the source, -1 if nowhere. Two
    statements are equal when they say the same: `offset` and `origin` do not count.
    """

    # A named tuple: four are made for every page, and a frozen dataclass takes four times as long.
    name: str
    line_start: int = -1
    line_end: int = -1
    text: str = ""
    target: str = ""
    nth: int = 0
    of: int = 0
    offset: int = -1
    origin: Origin = UNKNOWN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statement) and self[:7] == other[:7]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:7])


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a program, or one statement of it, is not run: a counted value, not an exception.

    `code` is a key of CODES, `statement` the number of the statement as written, `offset` a character of the source.
    """

    code: str
    statement: int
    offset: int
    message: str


@dataclass(frozen=True, slots=True)
class Program:
    """Statements in the order in which they were written; their order means nothing.

    `faults` are statements that were left out because their signature is wrong, or E_TRUNCATED for an unfinished last
    one. `text_hash` binds the program to the text that it was made for.
    """

    statements: tuple[Statement, ...] = ()
    faults: tuple[Refusal, ...] = field(default=(), compare=False)
    text_hash: str | None = field(default=None, compare=False)


def text_hash(text: str) -> str:
    """blake2b-128 of the UTF-8 of `text`, 32 hexadecimal digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def bind(program: Program, text: str) -> Program:
    """The program, bound to `text`: run on another text it is refused with E_DOC_MISMATCH."""
    return replace(program, text_hash=text_hash(text))


def keep_all(*, origin: Origin = UNKNOWN) -> Statement:
    """Nothing to change."""
    return Statement("keep_all", origin=origin)


def drop_all(*, origin: Origin = UNKNOWN) -> Statement:
    """Nothing of the chunk stays. Of a whole document only `drop_doc` says that: there it is guarded."""
    return Statement("drop_all", origin=origin)


def keep_doc(*, origin: Origin = UNKNOWN) -> Statement:
    """The document stays."""
    return Statement("keep_doc", origin=origin)


def drop_doc(*, origin: Origin = UNKNOWN) -> Statement:
    """The document goes."""
    return Statement("drop_doc", origin=origin)


def remove_lines(line_start: int, line_end: int, *, origin: Origin = UNKNOWN) -> Statement:
    """Lines [line_start, line_end], both inclusive, and their terminators. Raises BadProgram as all makers below."""
    _check_lines(line_start, line_end)
    return Statement("remove_lines", line_start, line_end, origin=origin)


def remove_str(
    line: int, text: str, *, line_end: int | None = None, nth: int = 0, of: int = 0, origin: Origin = UNKNOWN
) -> Statement:
    """The only occurrence of `text` in lines [line, line_end]; or, where the policy allows, occurrence `nth` of `of`."""
    last = line if line_end is None else line_end
    _check_lines(line, last)
    _check_strings(text)
    _check_lines(nth, of)
    return Statement("remove_str", line, last, text, nth=nth, of=of, origin=origin)


def replace_str(
    line: int, source: str, target: str, *, line_end: int | None = None, nth: int = 0, of: int = 0, origin: Origin = UNKNOWN
) -> Statement:
    """`source` becomes `target`, found as by `remove_str`."""
    last = line if line_end is None else line_end
    _check_lines(line, last)
    _check_strings(source, target)
    _check_lines(nth, of)
    return Statement("replace_str", line, last, source, target, nth, of, origin=origin)


def normalize(form: str, *, line: int | None = None, line_end: int | None = None, origin: Origin = UNKNOWN) -> Statement:
    """The registered character form `form` of lines [line, line_end], or of the whole document."""
    _check_strings(form)
    if line is None:
        if line_end is not None:
            raise BadProgram("normalize has a line_end but no line; give both, or neither for the whole document")
        return Statement("normalize", text=form, origin=origin)
    last = line if line_end is None else line_end
    _check_lines(line, last)
    return Statement("normalize", line, last, form, origin=origin)


def _check_lines(*numbers: int) -> None:
    for number in numbers:
        if not 0 <= number <= MAX_INT:
            raise BadProgram(f"a line or count must lie in 0 … {MAX_INT}, got {number}")


def _check_strings(*strings: str) -> None:
    for string in strings:
        try:
            size_bytes = len(string.encode())
        except UnicodeEncodeError as error:
            raise BadProgram(f"a string holds half a surrogate pair at character {error.start}; mend the text first") from None
        if size_bytes > MAX_STRING_BYTES:
            raise BadProgram(f"a string of {size_bytes} bytes is over the limit of {MAX_STRING_BYTES}; use remove_lines")


_ESCAPES = str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    | {chr(c): f"\\u{c:04x}" for c in (*range(32), 0x7F, 0x85, 0x2028, 0x2029, 0xFEFF) if chr(c) not in "\n\r\t"}
)


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def show(program: Program) -> str:
    """The program as text: one statement a line, fixed order of arguments, no comments."""
    return "\n".join(map(show_statement, program.statements))


def show_statement(statement: Statement) -> str:
    """One statement as text."""
    name, first, last = statement.name, statement.line_start, statement.line_end
    if name == "remove_lines":
        return f"remove_lines(line_start={first}, line_end={last})"
    if name == "normalize":
        args = [f"form={_quoted(statement.text)}"]
        if first >= 0:
            args.append(f"line={first}")
    elif name == "remove_str":
        args = [f"line={first}", f"text={_quoted(statement.text)}"]
    elif name == "replace_str":
        args = [f"line={first}", f"source={_quoted(statement.text)}", f"target={_quoted(statement.target)}"]
    else:
        args = []
    if last != first:
        args.append(f"line_end={last}")
    if statement.nth or statement.of:
        args += [f"nth={statement.nth}", f"of={statement.of}"]
    return f"{name}({', '.join(args)})"


def canonical(program: Program) -> Program:
    """The same program in the one form that is stored: sorted by position, touching line ranges of one origin united.

    It does the same to every text in which all of its line ranges exist; a union of a range that exists and one that
    does not is refused as a whole.
    """
    ranges = [s for s in program.statements if s.name == "remove_lines"]
    others = {(s, s.origin): s for s in program.statements if s.name != "remove_lines"}
    united = [*_united(ranges), *others.values()]
    united.sort(key=lambda s: (s.line_start, s.line_end, s.name, s.text, s.target, s.nth, s.of, _rank(s.origin)))
    return Program(tuple(united), program.faults, program.text_hash)


def _rank(origin: Origin) -> tuple[str, str, str, float]:
    return origin.kind, origin.name, origin.version, origin.confidence


def _united(ranges: Iterable[Statement]) -> list[Statement]:
    done: list[Statement] = []
    for statement in sorted(ranges, key=lambda s: (_rank(s.origin), s.line_end < s.line_start, s.line_start, s.line_end)):
        last = done[-1] if done else None
        if last == statement and last.origin == statement.origin:
            continue
        backwards = statement.line_end < statement.line_start
        if last and not backwards and last.origin == statement.origin and statement.line_start <= last.line_end + 1:
            if statement.line_end > last.line_end:
                done[-1] = last._replace(line_end=statement.line_end)
        else:
            done.append(statement)
    return done
