"""ProX compatibility: published refining programs read and run as ProX runs them, and flagged where that does harm.

    remove_lines(line_start=0, line_end=2)        lines, both ends inclusive, removed after all replacements
    normalize(source_str="Share", target_str="")  replaced everywhere in the document, at once
    keep_chunk(), comments, prose                 ignored

    verdict    text         when (n0, n1: words before and after, by white space)
    emptied    ""           n1/n0 <= 5 % and fewer than 2 errors; or n1 <= 10, whatever else
    refined    the result   n1/n0 >= 0 and fewer than 2 errors
    original   the input    2 errors or more: the whole program is discarded

A call is read from its first "(" to its first ")", cut at every comma, each part at every "=": a string that holds one of
these is not the string that was meant. Such readings do what ProX does and carry a flag (see FLAGS); with
`neutralise=True` a call whose reading is not what it says is left out instead. Ranges stay intervals, nothing raises, and
a text without words, on which ProX stops with a division by zero, stays as it is with the flag X11.

Source: arXiv 2409.17115 and the behaviour of its published executor (spec/refine.md, A.3 to A.6). For everything else
there is `parse` and `run`. Price: linear in the text for every replacement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from typecase.core.words import UNIT, units_of

FLAGS: Final = MappingProxyType(
    {
        "X1": "a value holds a second '=': it was cut there",
        "X2": "something stands behind the first ')': it was ignored",
        "X3": "a string holds a comma: the call did nothing, failed, or replaced something else",
        "X4": "a call without ')': its last character was cut off and the rest was run",
        "X6": "a string was replaced at several places, or within a word",
        "X7": "every single space of the document was deleted",
        "X8": "quotes, escapes or blanks around a value were taken as part of it",
        "X9": "a call that names nothing passed without an error",
        "X10": "a range reaches past the last line",
        "X11": "a text without words",
        "X12": "emptied by words between blanks; in script-aware units the text is long enough",
        "X17": "good calls were discarded with the bad ones",
    }
)
"""What compatible execution did that the program did not say, by the names of the defects."""
NEUTRAL: Final = frozenset(("X1", "X2", "X3", "X4", "X7", "X8"))
"""Flags of a call whose reading is not what it says."""

Verdict = Literal["emptied", "refined", "original"]


@dataclass(frozen=True, slots=True)
class ProxPolicy:
    """Thresholds of the published executor; the defaults are the published ones."""

    least_ratio: float = 0.0
    drop_ratio: float = 0.95
    errors: int = 2
    words: int = 10
    neutralise: bool = False


PUBLISHED: Final = ProxPolicy()


class Call(NamedTuple):
    """One executable call as it was read; `source` and `target` of a replacement, or a range of lines, both inclusive."""

    line: int
    kind: Literal["replace", "delete", "remove", "remove_all"]
    source: str = ""
    target: str = ""
    first: int = 0
    last: int = 0
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxProgram:
    """What was read: the calls that will be run, the errors counted, and flags of the reading by line of the program."""

    calls: tuple[Call, ...]
    errors: int
    flags: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ProxOutcome:
    """What came of it. `flags` are keys of FLAGS, sorted; `words_before` and `words_after` are counted by white space."""

    text: str
    verdict: Verdict
    errors: int
    flags: tuple[str, ...]
    words_before: int
    words_after: int


def prox_keeps(answer: str) -> bool:
    """The published decision of the document stage: a document goes if the answer holds "drop", in small letters, anywhere."""
    return "drop" not in answer


def read_prox(program: str) -> ProxProgram:
    """Reads a program, or the joined programs of all chunks of a document, as the published parser does."""
    calls: list[Call] = []
    flags: dict[int, tuple[str, ...]] = {}
    errors = 0
    for number, line in enumerate(program.strip(" ").split("\n")):
        if line.startswith("remove_lines"):
            call, failed, found = _read_remove(number, line)
        elif line.startswith("normalize"):
            call, failed, found = _read_normalize(number, line)
        else:
            call, failed, found = None, 0, _unread(line)
        errors += failed
        if call is not None:
            calls.append(call._replace(flags=tuple(found)))
        if found:
            flags[number] = tuple(found)
    return ProxProgram(tuple(calls), errors, flags)


def run_prox(program: str, text: str, policy: ProxPolicy = PUBLISHED) -> ProxOutcome:
    """Runs a program on the whole document that it was made for, as published; total."""
    read = read_prox(program)
    flags = {flag for found in read.flags.values() for flag in found}
    calls = [call for call in read.calls if not (policy.neutralise and NEUTRAL & set(call.flags))]
    result, errors = _apply(calls, text, flags)
    errors += read.errors
    before, after = len(text.split()), len(result.split())
    if not before:
        return ProxOutcome(text, "original", errors, tuple(sorted({*flags, "X11"})), 0, 0)
    verdict = _verdict(after / before, after, errors, policy)
    if verdict == "emptied" and after <= policy.words and units_of(result) > policy.words * UNIT:
        flags.add("X12")
    if verdict == "original" and calls:
        flags.add("X17")
    final = {"emptied": "", "refined": result, "original": text}[verdict]
    return ProxOutcome(final, verdict, errors, tuple(sorted(flags)), before, after)


def _verdict(ratio: float, words: int, errors: int, policy: ProxPolicy) -> Verdict:
    if ratio <= 1 - policy.drop_ratio and errors < policy.errors:
        return "emptied"
    if words <= policy.words:
        return "emptied"
    return "refined" if ratio >= policy.least_ratio and errors < policy.errors else "original"


# Reading.


def _arguments(line: str) -> tuple[str | None, int, list[str]]:
    """The text between the first parentheses, or None; errors; flags."""
    start, stop = line.find("("), line.find(")")
    if start < 0:
        return None, 1, []
    if stop < 0:
        return line[start + 1 : -1], 1, ["X4"]
    behind = line[stop + 1 :].strip()
    return line[start + 1 : stop], 0, ["X2"] if behind and not behind.startswith("#") else []


def _value(part: str) -> str | None:
    pieces = part.split("=")
    return pieces[1] if len(pieces) > 1 else None


def _read_remove(number: int, line: str) -> tuple[Call | None, int, list[str]]:
    if "all=True" in line:
        return Call(number, "remove_all"), 0, []
    arguments, errors, flags = _arguments(line)
    if arguments is None:
        return None, errors, flags
    values = [_value(part) for part in arguments.split(",")[:2]]
    try:
        first, last = (int(value) for value in values if value is not None)
    except ValueError:  # not two numbers
        return None, errors + 1, flags
    if first > last or last < 0:
        flags.append("X9")
    return Call(number, "remove", first=first, last=last), errors, flags


def _read_normalize(number: int, line: str) -> tuple[Call | None, int, list[str]]:
    arguments, errors, flags = _arguments(line)
    if arguments is None:
        return None, errors, flags
    parts = arguments.split(",")
    if len(parts) > 2:
        return None, errors, [*flags, "X3"]
    values = [_value(part) for part in parts]
    if any(part.count("=") > 1 for part in parts):
        flags.append("X1")
    if len(parts) == 2 and not parts[1].lstrip().startswith("target"):
        flags.append("X3")
    if None in values:
        return None, errors + 1, flags
    strings = [str(value).strip('"') for value in values]
    if not flags and any(_is_odd(str(value)) for value in values):
        flags.append("X8")
    if len(parts) == 1:
        if strings[0] == " ":
            flags.append("X7")
        return Call(number, "delete", strings[0]), errors, flags
    if strings[0] in ("", " "):
        return None, errors, [*flags, "X9"]
    return Call(number, "replace", strings[0], strings[1]), errors, flags


def _is_odd(value: str) -> bool:
    """Whether a value is anything but a string between plain quotes without escapes."""
    return not (len(value) >= 2 and value[0] == value[-1] == '"') or "\\" in value


def _unread(line: str) -> list[str]:
    """A line that is neither a known call, nor a comment, nor blank passes in silence."""
    bare = line.strip()
    known = ("keep_", "untouch_doc", "skip_chunk", "drop_doc", "#")
    return ["X9"] if bare and not bare.startswith(known) else []


# Running.


def _apply(calls: list[Call], text: str, flags: set[str]) -> tuple[str, int]:
    """The text after all calls, and the errors of ranges."""
    ranges: list[tuple[int, int]] = []
    for call in calls:
        if call.kind in ("replace", "delete"):
            flags.update(_replacement_flags(call, text))
            text = text.replace(call.source, call.target) if call.source else text
        elif call.kind == "remove_all":
            ranges = [(0, text.count("\n"))]
        else:
            ranges.append((call.first, call.last))
    if not ranges:
        return text, 0
    lines = text.split("\n")
    kept, errors = _without(lines, ranges)
    if errors:
        flags.add("X10")
    return "\n".join(kept), errors


def _replacement_flags(call: Call, text: str) -> list[str]:
    places = text.count(call.source) if call.source else 0
    if not places:
        return ["X9"]
    if places > 1:
        return ["X6"]
    at = text.index(call.source)
    before, behind = text[at - 1 : at], text[at + len(call.source) :][:1]
    cuts = (before.isalnum() and call.source[0].isalnum()) or (behind.isalnum() and call.source[-1].isalnum())
    return ["X6"] if cuts else []


def _without(lines: list[str], ranges: list[tuple[int, int]]) -> tuple[list[str], int]:
    """The lines outside all ranges; an error for each united range that begins or ends past the last line, reversed or not."""
    kept: list[str] = []
    at, errors = 0, len({first for first, last in ranges if last < first >= len(lines)})
    for first, last in _united(ranges):
        if first >= len(lines):
            errors += 1
            continue
        errors += last >= len(lines)
        kept += lines[at : max(at, first)]
        at = max(at, last + 1)
    return [*kept, *lines[at:]], errors


def _united(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping and touching ranges as one; ranges without a line, reversed or before the first, are left out."""
    done: list[tuple[int, int]] = []
    for first, last in sorted((max(first, 0), last) for first, last in ranges if last >= max(first, 0)):
        if done and first <= done[-1][1] + 1:
            done[-1] = (done[-1][0], max(done[-1][1], last))
        else:
            done.append((first, last))
    return done
