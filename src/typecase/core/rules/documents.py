"""Documents that hold no text to learn from, in any script: the default document rules for mixed technical text.

They drop what is certainly no prose, code or reference: blank pages, contents lists, tables of bare numbers, encoded
dumps, mail without a body, pages that are nothing but furniture. They do not judge quality: short, badly written or
unusual text stays (that is what ratings are for), and so do code, dictionaries, change logs and configuration.

Price: one walk over the lines; a lookup table of character kinds for the shares.
"""

from __future__ import annotations

import re
from typing import Final

from typecase.core.rules.layout import has_leaders
from typecase.core.rules.page import Page, Rule, words_in
from typecase.core.words import units_of

RULES: Final = (
    Rule("doc.blank", "no letter or digit"),
    Rule("doc.contents", "a table of contents, an index or a list of chapters and nothing else"),
    Rule("doc.numbers", "a table of bare numbers"),
    Rule("doc.dump", "base64, hexadecimal or another encoding of bytes"),
    Rule("doc.headers", "mail headers without a body"),
    Rule("doc.furniture", "nothing but menus, notices and lists of links"),
)

MIN_LINES: Final = 8
ENTRY_PERCENT: Final = 75
PROSE_PERCENT: Final = 15
PROSE_CHARS: Final = 250
LETTER_PERCENT: Final = 10
MIN_DUMP_CHARS: Final = 200
DUMP_PERCENT: Final = 60
FURNITURE_PERCENT: Final = 70

_SECTION: Final = re.compile(
    r"(?:[*•·\-–] ?)?(?:(?:chapter|section|appendix|part|kapitel|chapitre|capítulo|глава|rozdział|capitolo) [0-9IVXLC]+\b|"
    r"[0-9]{1,3}(?:\.[0-9]{1,3})+\.?\s?|第\s?[0-9一二三四五六七八九十]+\s?[章节節]|附录|[0-9A-Z]\.\s?(?=[^\W\d_]{2}))"
    r"[^.!?;]{0,110}", re.IGNORECASE
)  # fmt: skip
_PAGED: Final = re.compile(r"\d{1,4}|\S.{2,80}\s{6,}(?:\d{1,4}|[ivxlc]+)")
_BASE64: Final = re.compile(r"(?=[^\s]*[0-9+/])(?=[^\s]*[a-z])(?=[^\s]*[A-Z])[A-Za-z0-9+/=]{40,}")
_HEX: Final = re.compile(
    r"(?:(?:0x)?[0-9a-fA-F]{4,16}:?\s+)?(?:(?:0x)?[0-9a-fA-F]{2,8}[\s,]+){6,}.*|[0-9a-fA-F]{32,}|(?:\\x[0-9a-fA-F]{2}){8,}.*"
)
_HEADER: Final = re.compile(r"[A-Z][A-Za-z-]+: |From ")
_LETTERS: Final = bytes(range(65, 91)) + bytes(range(97, 123)) + bytes(range(128, 256))
_SENTENCE_END: Final = tuple('.!?:;。！？：；।؟…"”»)')


def decide(page: Page) -> tuple[str, str] | None:
    """The rule that drops the page and what it measured, or None; `label_lines` and `label_layout` first, if at all."""
    if not page.written or units_of(page.text) == 0:
        return "doc.blank", f"{len(page.text)} characters"
    bodies = [page.bodies[i] for i in page.written]
    chars = sum(map(len, bodies))
    return (
        _headers(page, chars) or _dump(bodies, chars) or _numbers(page.text, len(bodies), chars) or _lists(page, bodies, chars)
    )


def prose_chars(bodies: list[str]) -> int:
    """Characters in lines that read as sentences: twelve words or more, or eight and a closing sign."""
    return sum(len(b) for b in bodies if (n := words_in(b)) >= 12 or (n >= 8 and b.endswith(_SENTENCE_END)))


def _little_prose(bodies: list[str], chars: int) -> bool:
    prose = prose_chars(bodies)
    return prose <= PROSE_CHARS and prose * 100 <= PROSE_PERCENT * chars


def _headers(page: Page, chars: int) -> tuple[str, str] | None:
    headers = sum(rule == "line.mail_header" for rule in page.labels.values())
    if headers < MIN_LINES:
        return None
    rest = [page.bodies[i] for i in page.written if i not in page.labels and not _HEADER.match(page.bodies[i])]
    if sum(map(len, rest)) * 10 > chars:
        return None
    return "doc.headers", f"{headers} header lines, {len(rest)} others"


def _dump(bodies: list[str], chars: int) -> tuple[str, str] | None:
    dumped = sum(len(b) for b in bodies if len(b) >= 16 and (_BASE64.fullmatch(b) or _HEX.fullmatch(b)))
    if dumped * 100 < DUMP_PERCENT * chars or dumped < MIN_DUMP_CHARS:
        return None
    return "doc.dump", f"{100 * dumped // chars} % of the characters"


def _numbers(text: str, num_lines: int, chars: int) -> tuple[str, str] | None:
    data = text.encode("utf-8", "surrogatepass")
    letters = len(data) - len(data.translate(None, _LETTERS))
    if num_lines < MIN_LINES or letters * 100 >= LETTER_PERCENT * chars:
        return None
    digits = len(data) - len(data.translate(None, b"0123456789"))
    if digits * 3 < chars or letters * 100 >= LETTER_PERCENT * (letters + digits):
        return None
    return "doc.numbers", f"{digits} digits, {letters} letters"


def _lists(page: Page, bodies: list[str], chars: int) -> tuple[str, str] | None:
    """A page of contents entries, or of furniture."""
    if len(bodies) < MIN_LINES:
        return None
    labelled = sum(len(page.bodies[i]) for i in page.labels)
    others = [page.bodies[i] for i in page.written if i not in page.labels]
    if labelled * 100 >= FURNITURE_PERCENT * chars and len(page.labels) >= MIN_LINES and _little_prose(others, chars):
        listed = sum(page.labels[i] in ("line.contents", "line.leaders") for i in page.labels)
        rule = "doc.contents" if 2 * listed >= len(page.labels) else "doc.furniture"
        return rule, f"{100 * labelled // chars} % of the characters"
    entries = sum(page.labels[i] in ("line.contents", "line.leaders") for i in page.labels)
    rest = []
    for body in others:
        if _SECTION.fullmatch(body) or has_leaders(body) or _PAGED.fullmatch(body):
            entries += 1
            continue
        rest.append(body)
        if len(rest) * ENTRY_PERCENT > (100 - ENTRY_PERCENT) * len(bodies):
            return None
    if entries < MIN_LINES or len(rest) * ENTRY_PERCENT > (100 - ENTRY_PERCENT) * entries or not _little_prose(rest, chars):
        return None
    return "doc.contents", f"{entries} of {len(bodies)} lines are entries"
