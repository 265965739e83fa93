"""Lines: a text taken apart and folded, so that one spelling of everything is left, and hidden parts are gone.

    "**１． Accuracy**：４／５"   ->   "1. accuracy: 4/5"      wide and marked are noted, the place in the text is kept

Hiding replaces characters by as many others: places in the hidden text are places in the text. Every expression here has
bounded repeats or one pass; white space is folded to single blanks before any other expression sees a line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

_THOUGHTS = ("think", "thinking", "thought", "thoughts", "reasoning", "analysis", "reflection")
_TAGS = "|".join((*_THOUGHTS, "document", "text", "quote", "blockquote", "passage"))
_OPEN = re.compile(rf"<({_TAGS})(?:[-\s:=][^<>\n]{{0,80}})?>", re.IGNORECASE)
_SHUT = re.compile(rf"</(?:{_TAGS})(?:-[^<>\n]{{0,80}})?>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]{0,60}>", re.IGNORECASE)
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[*`\"'$\\{}]+(?=\d)")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_SPELLED = {
    "\u3000": " ", "。": ".", "．": ".", "【": "[", "】": "]", "〔": "[", "〕": "]", "「": '"', "」": '"', "−": "-",
    "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "⁄": "/", "∕": "/", "—": "–", "‑": "-",
    "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "", "\xad": "", "_": " ",
}  # fmt: skip
_PLAIN: dict[int, int | str] = {**_WIDE, **{ord(char): plain for char, plain in _SPELLED.items()}}
_MARKS = str.maketrans(dict.fromkeys("*`\"'$\\{}", ""))
_BULLET = re.compile(r"(?:[-+•·●▪◦] |#{1,6} ?){1,3}")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or a piece of one, as it stands from `start` in the text, and folded.

    marked    it held markup              wide    it held digits that are not ASCII
    skipped   numbers of the line that stand before the piece
    """

    raw: str
    start: int
    text: str
    marked: bool
    wide: bool
    skipped: int = 0
    runs: tuple[tuple[int, int], ...] | None = None

    def pieces(self, cuts: list[tuple[int, int]]) -> list[Line]:
        """The line in pieces [start, stop) of its folded text."""
        if len(cuts) == 1:
            return [self]
        runs = tuple(match.span() for match in _DIGITS.finditer(self.raw))
        pieces, skipped = [], 0
        for at, stop in cuts:
            pieces.append(replace(self, text=self.text[at:stop], skipped=skipped, runs=runs))
            skipped += sum(1 for _ in _DIGITS.finditer(self.text, at, stop))
        return pieces

    def place(self, at: int, stop: int) -> tuple[int, int] | None:
        """Where the number at [at, stop) of the folded text stands in the whole text; None if markup stands in its way."""
        number = self.skipped + sum(1 for _ in _DIGITS.finditer(self.text, 0, at))
        runs = self.runs or [match.span() for match in _DIGITS.finditer(self.raw)]
        if number >= len(runs) or _ascii(self.raw[slice(*runs[number])]) != self.text[at:stop]:
            return None
        return self.start + runs[number][0], self.start + runs[number][1]


def fold(raw: str) -> tuple[str, bool, bool]:
    """A line in one spelling, whether it held markup, and whether it held digits that are not ASCII."""
    text, wide = raw, False
    if not raw.isascii():
        wide = any(char.isdecimal() and not char.isascii() for char in raw)
        text = _ascii(raw).translate(_PLAIN)
    else:
        text = text.replace("_", " ")
    text = text.casefold()
    plain = _TAG.sub(" ", text) if "<" in text else text
    plain = _BETWEEN_DIGITS.sub(" ", plain).translate(_MARKS)
    marked = plain != text
    plain = " ".join(plain.split())
    bullet = _BULLET.match(plain)
    if bullet:
        marked, plain = marked or "#" in bullet.group(), plain[bullet.end() :]
    return plain.strip(), marked, wide


def fold_name(name: str) -> str:
    """A name in the spelling of a folded line, hyphens as blanks."""
    return " ".join(fold(name)[0].replace("-", " ").split())


def lines_of(text: str) -> Iterator[Line]:
    """The lines that may hold an answer: not empty, not quoted."""
    start = 0
    for raw in text.split("\n"):
        stripped = raw.strip()
        if stripped and stripped[0] != ">" and not _quotation(stripped):
            line = Line(raw, start, *fold(raw))
            if line.text:
                yield line
        start += len(raw) + 1


def hide(text: str, start: int, stop: int) -> str:
    """The text with [start, stop) blanked out, of the same length; what follows begins a new line."""
    return text[:start] + "\n" + " " * (stop - start - 1) + text[stop:] if stop > start else text


def hide_quotes(text: str, document: str) -> tuple[str, bool]:
    """The text without the lines that stand in `document` and hold a digit or a colon, and whether there were any."""
    known = {_bare(line) for line in document.split("\n") if _tells(line)}
    lines = text.split("\n")
    kept = [" " * len(line) if _tells(line) and _bare(line) in known else line for line in lines]
    return "\n".join(kept), kept != lines


def _tells(line: str) -> bool:
    return ":" in line or "：" in line or any(char.isdecimal() for char in line)


def _bare(line: str) -> str:
    return line.strip(" \t\r>\"'*`-•#|“”").casefold()


def hide_thoughts(text: str) -> str:
    """The text without what stands in tags of thoughts and quotations; an open tag hides all that follows.

    An open thought hides what stands before it too: that was no last word.
    """
    pieces: list[str] = []
    first_shut = _SHUT.search(text)
    first_open = _OPEN.search(text)
    at = 0
    if first_shut and (first_open is None or first_shut.start() < first_open.start()):
        last = first_shut  # the template ate the opening tag
        at = last.end()
        pieces.append("\n" + " " * (at - 1))
    while (opening := _OPEN.search(text, at)) is not None:
        pieces.append(text[at : opening.start()])
        shut = re.compile(rf"</{opening[1]}(?:-[^<>\n]{{0,80}})?>", re.IGNORECASE).search(text, opening.end())
        if shut is None and opening[1].lower() in _THOUGHTS:
            return "\n" + " " * (len(text) - 1)
        at = shut.end() if shut else len(text)
        pieces.append("\n" + " " * (at - opening.start() - 1))
    pieces.append(text[at:])
    return "".join(pieces)


def _ascii(text: str) -> str:
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() and not char.isascii() else char for char in text)


def _quotation(stripped: str) -> bool:
    """Whether a line is one quotation from end to end."""
    if len(stripped) < 3 or stripped[0] not in "\"“„«「'‘":
        return False
    body = stripped.rstrip(".,;")
    shut = {'"': '"', "“": "”", "„": "“”", "«": "»", "「": "」", "'": "'", "‘": "’"}[stripped[0]]
    return body[-1] in shut and not any(char in shut for char in body[1:-1])
