"""Marks: which lines of a page's text are content, told by private characters that travelled through the extraction.

    page      menu, <main>, Title, text, </main>, footer        KEEP … KEPT around the main content,
    marked    "menu\\n⟦Title\\ntext⟧\\nfooter"                    CUT … DONE around what is to be left out within it
    told      text without marks, and for each line: content or not

A line is content if one of its characters that are not blank stands inside KEEP and outside CUT. The line's place is
known, not guessed: a menu that repeats the title of the page does not confuse it, as a comparison of two texts would.

Price: one pass over the characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

KEEP: Final = "\ufdd0"
KEPT: Final = "\ufdd1"
CUT: Final = "\ufdd2"
DONE: Final = "\ufdd3"
"""Noncharacters of Unicode: no text may hold them for exchange, so none of a page is lost."""

_BULLET: Final = "•"
"""A list item without text: an empty line of a list, which a mark in it may call forth. It goes as the line below goes."""
_MARK: Final = re.compile("[\ufdd0-\ufdd3]")
_STEP: Final = {KEEP: (1, 0), KEPT: (-1, 0), CUT: (0, 1), DONE: (0, -1)}


@dataclass(frozen=True, slots=True)
class Twin:
    """A page as a crawler sees it, and its boilerplate.

    `gone` are the lines of `text.split("\\n")` that are no content, in order, none of them blank. `family` is the layout,
    `generator` the program that made the page: what a split must not divide.
    """

    text: str
    gone: tuple[int, ...]
    family: str
    generator: str
    source: str
    path: str
    licence: str

    @property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.split("\n")

    @property
    def clean(self) -> str:
        """The text without its boilerplate."""
        gone = set(self.gone)
        return "\n".join(line for number, line in enumerate(self.lines) if number not in gone).strip("\n")


def gone_lines(plain: str, marked: str) -> tuple[int, ...] | None:
    """The lines of `plain` that are no content, by the text of the same page with marks.

    None where the marks changed the text in more than blanks, so that the lines cannot be told apart for certain.
    """
    told = [line for line in _told(marked) if line[0] != _BULLET]
    written = [(number, line.strip()) for number, line in enumerate(plain.split("\n")) if line.strip()]
    spoken = [line for line in written if line[1] != _BULLET]
    if [line for _, line in spoken] != [line for line, _ in told]:
        return None
    gone = {number for (number, _), (_, content) in zip(spoken, told, strict=True) if not content}
    for at, (number, line) in enumerate(written):
        if line == _BULLET and at + 1 < len(written) and written[at + 1][0] in gone:
            gone.add(number)
    return tuple(sorted(gone))


def _told(marked: str) -> list[tuple[str, bool]]:
    """The lines that are not blank, without marks, and whether each is content."""
    told: list[tuple[str, bool]] = []
    kept = cut = 0
    for line in marked.split("\n"):
        pieces: list[str] = []
        content = False
        at = 0
        for mark in _MARK.finditer(line):
            piece = line[at : mark.start()]
            content = content or (kept > 0 and cut <= 0 and bool(piece.strip()))
            pieces.append(piece)
            step = _STEP[mark[0]]
            kept, cut = kept + step[0], cut + step[1]
            at = mark.end()
        piece = line[at:]
        content = content or (kept > 0 and cut <= 0 and bool(piece.strip()))
        whole = "".join((*pieces, piece)).strip()
        if whole:
            told.append((whole, content))
    return told


def ranges_of(lines: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending line numbers as inclusive ranges."""
    ranges: list[tuple[int, int]] = []
    for line in lines:
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1] = (ranges[-1][0], line)
        else:
            ranges.append((line, line))
    return ranges
