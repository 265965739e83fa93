"""Which lines a hesitant program may not touch: code, mathematics, tables, quotations, the title.

    fence      between ``` or ~~~ lines, and the fences themselves
    indented   four blanks or a tab after a blank line, where less than half of the document is indented
    math       between $$, \\[ \\], \\begin{…} \\end{…}
    table      a line with two or more bars, or a ruled line +---+
    quote      a line that begins with >
    title      the first line that is not blank, where it is marked (#, underlined) or stands alone before a blank line,
               and is not said again at once

Price: a few searches for markers; lines are looked at one by one only where a marker occurs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence

KINDS = ("fence", "indented", "math", "table", "quote", "title")

_TITLE_CHARS = 120
_MENU = "|»›>•·"


def protected_lines(text: str, starts: Sequence[int], stops: Sequence[int], kinds: Collection[str]) -> list[int]:
    """The protected lines, in order; `starts` and `stops` are the line table of `text`."""
    found: set[int] = set()
    lines: list[str] = []
    for kind, (needs, mark) in _DETECTORS.items():
        if kind in kinds and needs(text):
            lines = lines or [text[a:b] for a, b in zip(starts, stops, strict=True)]
            found.update(mark(lines))
    if "title" in kinds and (title := _title(text, starts, stops)) >= 0:
        found.add(title)
    return sorted(found)


def holds_one(protected: Sequence[int], first: int, last: int) -> bool:
    """Whether one of the lines [first, last] is among the sorted `protected` ones."""
    at = bisect_left(protected, first)
    return at < len(protected) and protected[at] <= last


def _fences(lines: list[str]) -> Iterator[int]:
    fence = ""
    for i, line in enumerate(lines):
        head = line.lstrip(" ")[:3]
        if fence:
            yield i
            if head == fence:
                fence = ""
        elif head in ("```", "~~~"):
            yield i
            fence = head


def _indented(lines: list[str]) -> Iterator[int]:
    deep = [line.startswith(("    ", "\t")) and not line.isspace() for line in lines]
    written = sum(1 for line in lines if line and not line.isspace())
    if 2 * sum(deep) >= written:
        return
    inside = False
    for i, line in enumerate(lines):
        blank = not line or line.isspace()
        after_blank = i == 0 or not lines[i - 1] or lines[i - 1].isspace()
        inside = (deep[i] and (inside or after_blank)) or (inside and blank)
        if inside and deep[i]:
            yield i


def _math(lines: list[str]) -> Iterator[int]:
    closer = ""
    for i, line in enumerate(lines):
        body = line.strip()
        if closer:
            yield i
            if closer in body:
                closer = ""
        elif body.startswith("$$"):
            yield i
            closer = "" if body.count("$$") > 1 else "$$"
        elif body.startswith("\\["):
            yield i
            closer = "" if "\\]" in body else "\\]"
        elif body.startswith("\\begin{"):
            yield i
            end = "\\end{" + body[7:].partition("}")[0] + "}"
            closer = "" if end in body else end


def _tables(lines: list[str]) -> Iterator[int]:
    for i, line in enumerate(lines):
        if line.count("|") >= 2 or (line.lstrip().startswith("+-") and line.rstrip().endswith("-+")):
            yield i


def _quotes(lines: list[str]) -> Iterator[int]:
    for i, line in enumerate(lines):
        if line.startswith(">"):
            yield i


def _title(text: str, starts: Sequence[int], stops: Sequence[int]) -> int:
    """The line of the title, -1 where there is none worth keeping."""
    line = 0
    while line < len(stops) - 1 and (starts[line] == stops[line] or text[starts[line] : stops[line]].isspace()):
        line += 1
    title = text[starts[line] : stops[line]].strip()
    if not title or len(title) > _TITLE_CHARS or any(c in title for c in _MENU):
        return -1
    below = [text[a:b].strip() for a, b in zip(starts[line + 1 : line + 2], stops[line + 1 : line + 2], strict=True)]
    if title[0] != "#" and below and below[0].strip("=-~^*#"):
        return -1
    below += [text[a:b].strip() for a, b in zip(starts[line + 2 : line + 5], stops[line + 2 : line + 5], strict=True)]
    return -1 if title in below else line


_DETECTORS: dict[str, tuple[Callable[[str], bool], Callable[[list[str]], Iterator[int]]]] = {
    "fence": (lambda text: ("`" in text and "```" in text) or ("~" in text and "~~~" in text), _fences),
    "indented": (lambda text: "\t" in text or "    " in text, _indented),
    "math": (lambda text: ("$" in text and "$$" in text) or ("\\" in text and ("\\[" in text or "\\begin{" in text)), _math),
    "table": (lambda text: "|" in text or ("+" in text and "+-" in text), _tables),
    "quote": (lambda text: ">" in text and ("\n>" in text or text[0] == ">"), _quotes),
}
"""Kind -> whether the text has a marker at all, and the lines that are of the kind."""
