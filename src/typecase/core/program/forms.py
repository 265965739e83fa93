"""Registered character forms: the only rewriting that a program may ask for.

    mojibake       UTF-8 that was read as Latin-1 or CP1252          â€™ -> ’     Ã© -> é
    entities       HTML entities                                     &amp; -> &
    controls       control characters, overstrikes, terminal colours  N^HN -> N
    zero_width     zero-width spaces, joiners out of place, soft hyphens, byte order marks
    ligatures      ﬁ -> fi
    nfc            Unicode normalisation form C
    quotes         typographic quotes and dashes to ASCII
    whitespace     no-break and other exotic blanks to a blank; blanks at the end of a line go
    blank_runs     a run of blanks inside a line to one; indentation stays

A form is a function of a unit (a run without ASCII blanks, or a line) and never touches a line terminator, so it cannot
shift line numbers. A program that asks for several gets them composed in the order of this list, whatever order it
names them in. What changes is reported as pieces of the ORIGINAL text whose edges cut no word, before or after: a
subset of the pieces may be applied and no half-normalised word appears.

Price: one search for the form's trigger over the text; only units with a trigger are worked.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from typecase.core.words import is_grapheme_boundary, is_word_boundary

_EXOTIC = "\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_UNITS: Final = {"token": re.compile(r"[^ \t\r\n]+"), "line": re.compile(r"[^\r\n]+")}


@dataclass(frozen=True, slots=True)
class Form:
    """A registered form. `trigger` occurs in every text that `apply` would change; `apply` is a function of one unit."""

    name: str
    version: int
    unit: Literal["token", "line"]
    trigger: re.Pattern[str]
    apply: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Piece:
    """text[start:stop] of the original becomes `target`."""

    start: int
    stop: int
    target: str


def pieces_of(names: Sequence[str], text: str, start: int, stop: int) -> list[Piece]:
    """What the composed forms `names` change in text[start:stop], which must begin and end at line edges; in order."""
    forms = [FORMS[name] for name in FORMS if name in names]
    if not any(form.trigger.search(text, start, stop) for form in forms):
        return []
    unit = "line" if any(form.unit == "line" for form in forms) else "token"
    pieces: list[Piece] = []
    for first, last in _triggered(forms, _UNITS[unit], text, start, stop):
        old = new = text[first:last]
        for form in forms:
            new = form.apply(new)
        if new != old:
            pieces.append(_trimmed(old, new, first))
    return pieces


def applied(name: str, text: str) -> str:
    """`text` with one form applied throughout."""
    done: list[str] = []
    at = 0
    for piece in pieces_of([name], text, 0, len(text)):
        done += (text[at : piece.start], piece.target)
        at = piece.stop
    return "".join((*done, text[at:]))


def _triggered(forms: Sequence[Form], unit: re.Pattern[str], text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The units of text[start:stop] in which any form has a trigger, in order, each once."""
    blanks = " \t\r\n" if unit is _UNITS["token"] else "\r\n"
    hits = sorted({m.start() for form in forms for m in form.trigger.finditer(text, start, stop)})
    done = start
    for hit in hits:
        if hit < done:
            continue
        first = hit
        while first > done and text[first - 1] not in blanks:
            first -= 1
        match = unit.match(text, first, stop)
        if match is not None:
            yield match.span()
            done = match.end()


def _trimmed(old: str, new: str, offset: int) -> Piece:
    """The smallest change between `old` and `new` whose edges are boundaries in both."""
    head = 0
    limit = min(len(old), len(new))
    while head < limit and old[head] == new[head]:
        head += 1
    while head and not (_boundary(old, head) and _boundary(new, head)):
        head -= 1
    tail = 0
    limit -= head
    while tail < limit and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    while tail and not (_boundary(old, len(old) - tail) and _boundary(new, len(new) - tail)):
        tail -= 1
    return Piece(offset + head, offset + len(old) - tail, new[head : len(new) - tail])


def _boundary(text: str, pos: int) -> bool:
    return is_word_boundary(text, pos) and is_grapheme_boundary(text, pos)


# --- mojibake --------------------------------------------------------------------------------------------------------

_SLOPPY: Final = {bytes([b]).decode("cp1252", "replace").replace("\ufffd", chr(b)): b for b in range(0x80, 0x100)}
_SLOPPY_BYTES: Final = _SLOPPY | {chr(b): b for b in range(0x80, 0xA0)}
_TAIL = "".join(sorted(re.escape(c) for c, b in _SLOPPY_BYTES.items() if b < 0xC0))
_SEQUENCE: Final = re.compile(f"(?:[\u00c2-\u00df][{_TAIL}]|[\u00e0-\u00ef][{_TAIL}]{{2}}|[\u00f0-\u00f4][{_TAIL}]{{3}})")
_CLOSERS = "\u00bb\u2019\u201d\u203a\u2026\u2122\u00ae\u00b0\u00aa\u00ba\u2030"
_DOUBTFUL: Final = re.compile(f"[\u00c2-\u00df][{_CLOSERS}]")
_MAX_ROUNDS = 3


def _mend(unit: str) -> str:
    """UTF-8 read as CP1252 (or Latin-1), undone where the round trip proves it.

    Proof: every character beyond ASCII takes part in a valid sequence, and not all of them are a capital before a
    closing sign, which is also how a quotation in capitals ends. Text that was damaged twice is mended twice.
    """
    best = unit
    for _ in range(_MAX_ROUNDS):
        rest = _SEQUENCE.sub("", unit)
        if len(rest) == len(unit) or not rest.isascii():
            break
        if all(_DOUBTFUL.fullmatch(m[0]) for m in _SEQUENCE.finditer(unit)):
            break
        try:
            unit = bytes(ord(c) if c < "\x80" else _SLOPPY_BYTES[c] for c in unit).decode()
        except UnicodeDecodeError:
            break
        if not any(unicodedata.category(c) in ("Cn", "Co", "Cc") for c in unit if c > "\x7f"):
            best = unit
    return best


# --- the others ------------------------------------------------------------------------------------------------------

_ENTITY: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_COLOUR: Final = re.compile("\x1b\\[[0-9;]{0,16}[A-Za-z]")
_OVERSTRIKE: Final = re.compile("([^\x08])\x08(?=\\1)|_\x08(?=.)|(?<=.)\x08_")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")
_SEPARATORS: Final = "\x0b\x0c\x1c\x1d\x1e\x1f"
_SEPARATOR: Final = re.compile(f"[{_SEPARATORS}]+")
_ZERO_WIDTH: Final = re.compile("[\u200b\u2060\ufeff\u00ad\u180e]|(?<![^\x00-\x7f])[\u200c\u200d](?![^\x00-\x7f])")
_LIGATURES: Final = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "ſt", 0xFB06: "st"}
_QUOTES: Final = str.maketrans("‘’‚‛“”„‟‐‑‒–—", 4 * "'" + 4 * '"' + 5 * "-")
_EXOTIC_BLANK: Final = re.compile(f"[{_EXOTIC}]")
_RUN: Final = re.compile("(?<=[^ \t])[ \t]{2,}(?=[^ \t])")


def _decode_entity(match: re.Match[str]) -> str:
    char = html.unescape(match[0])
    # A terminator would shift line numbers, a surrogate or replacement is no character: the entity stays.
    return match[0] if char.endswith(";") or any(c in "\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\ufffd" for c in char) else char


def _strip_controls(unit: str) -> str:
    # A page break or separator between two words is a blank; every other control character is nothing.
    unit = _OVERSTRIKE.sub("", _COLOUR.sub("", unit))
    return _CONTROL.sub("", _SEPARATOR.sub(" ", unit.strip(_SEPARATORS)))


FORMS: Final[dict[str, Form]] = {
    form.name: form
    for form in (
        Form("mojibake", 1, "token", _SEQUENCE, _mend),
        Form("entities", 1, "token", _ENTITY, lambda unit: _ENTITY.sub(_decode_entity, unit)),
        Form("controls", 1, "token", _CONTROL, _strip_controls),
        Form("zero_width", 1, "token", _ZERO_WIDTH, lambda unit: _ZERO_WIDTH.sub("", unit)),
        Form("ligatures", 1, "token", re.compile("[\ufb00-\ufb06]"), lambda unit: unit.translate(_LIGATURES)),
        Form("nfc", 1, "token", re.compile("[^\x00-\u02ff]+"), lambda unit: unicodedata.normalize("NFC", unit)),
        Form("quotes", 1, "token", re.compile("[‘-‟‐-—]"), lambda unit: unit.translate(_QUOTES)),
        Form(
            "whitespace", 1, "line", re.compile(f"[{_EXOTIC}]|(?<![ \t])[ \t]++(?=[\r\n]|\\Z)"),
            lambda unit: _EXOTIC_BLANK.sub(" ", unit).rstrip(" \t"),
        ),
        Form("blank_runs", 1, "line", _RUN, lambda unit: _RUN.sub(" ", unit)),
    )
}  # fmt: skip
"""Name -> form, in the order in which they are composed."""
