"""Lines that are furniture because of where they stand: repeated titles, contents lists, page numbers, loose bullets.

    GAP (ref) - Chapter 61             a title said again a line or two later: the first saying goes
    Table of Contents                  a label, and the list of entries under it …
    1.1 Bases                          … which ends where the first entry comes again, or a sentence begins
                               58      a page number of paged text
    *                                  a bullet that lost its item, over a blank line

Price: one walk over the written lines a rule.
"""

from __future__ import annotations

import re
from typing import Final

from typecase.core.rules.page import Page, Rule, words_in
from typecase.core.rules.phrases import CONTENTS_LABELS

RULES: Final = (
    Rule("line.title", "a title that is said again at once"),
    Rule("line.contents", "a table of contents, or a list of links to the headings that follow"),
    Rule("line.leaders", "a contents or index list with dot leaders"),
    Rule("line.page_number", "a page number or running head of paged text"),
    Rule("line.bullet", "a bullet that lost its item"),
    Rule("line.mail_header", "transport headers of mail and news"),
)

_BULLETS: Final = frozenset("*•·◆●○▪◦‣▸►■□–")
_RUNNING: Final = re.compile(
    r"\d{1,4}\s{4,}[A-Z0-9][^a-z]{4,70}|[A-Z0-9][^a-z]{4,70}\s{4,}\d{1,4}|\d{1,4}\s{12,}\S.{3,60}|\S.{3,60}\s{12,}\d{1,4}"
)
_ENTRY_HEAD: Final = re.compile(
    r"(?!--)(?:[*•·\-–] ?)?(?i:(?:chapter|section|appendix|part|глава|kapitel|chapitre|capítulo|rozdział) )?"
    r"(?:[0-9]{1,3}(?:\.[0-9]{1,3})*(?:-[0-9]{1,3})?[.:)]?\s+|[A-Z](?:\.[0-9]{1,3})*[.:)]\s+|(?<=[*•·\-–])\s?|(?<=[*•·\-–] ))"
)
_HEADER: Final = re.compile(
    r"(?i:Message-ID|In-Reply-To|References|MIME-Version|Content-[A-Za-z-]+|Received|Return-Path|Status|X-[A-Za-z0-9-]+|Sender|"
    r"Path|Xref|NNTP-[A-Za-z-]+|Lines|Delivered-To|Precedence|Errors-To|Approved|List-[A-Za-z-]+|DKIM-[A-Za-z-]+|"
    r"Authentication-Results|User-Agent|Mailing-List):(?: .*)?$"
)
_ANY_HEADER: Final = re.compile(r"[A-Z][A-Za-z-]{1,30}:(?: .*)?$|From \S+ ")
_ENDS: Final = (".", "!", "?", ";", ",", "。", "！", "？", "؟", "।")

_CHAPTERS: Final = ("chapter", "section", "appendix", "part ", "глава", "kapitel", "chapitre", "capítulo", "rozdział")
_AFTER_LETTER: Final = (".", ":", ")")

_MIN_ENTRIES = 3
_MAX_ENTRY_CHARS = 110
_MAX_NUMBERED_CHARS = 200
_HEAD_LINES = 10
_MAX_TITLE_CHARS = 120
_NO_TITLE: Final = (".", ";", "{", "}", ",", ":", "`", "=")
_SIGNATURE_LINES = 6


def label_layout(page: Page) -> None:
    """Labels the lines that their place gives away."""
    _label_titles(page)
    _label_contents(page)
    if ". ." in page.text or "....." in page.text:
        _label_leaders(page)
    _label_bullets(page)
    _label_pages(page)
    _label_mail(page)


def _label_titles(page: Page) -> None:
    """Among the first written lines, one that comes again at once, labelled lines not counted: the earlier one goes."""
    head = [i for i in page.written if i not in page.labels][: _HEAD_LINES + 2]
    for n, i in enumerate(head[:_HEAD_LINES]):
        title = _bare(page.bodies[i])
        if not 3 <= len(title) <= _MAX_TITLE_CHARS or not _is_title(page.lines[i]):
            continue
        following = [_bare(page.bodies[j]) for j in head[n + 1 : n + 3]]
        if title in following or (n == 0 and any(len(f) >= 8 and _page_title(title, f) for f in following)):
            page.label(i, "line.title")


def _is_title(line: str) -> bool:
    """Whether a line may be a title: not indented, with letters, and no code."""
    return line[0] not in " \t" and any(c.isalpha() for c in line) and not line.rstrip().endswith(_NO_TITLE) and '"' not in line


def _page_title(title: str, heading: str) -> bool:
    """ "Scope — Policy Manual v4" over "Scope": the heading, a separator, the name of the site."""
    for mark in (" — ", " – ", " | ", " - ", " : ", " :: ", " · "):
        if title.startswith(heading + mark) or title.endswith(mark + heading):
            return True
    return False


def _bare(body: str) -> str:
    return body.strip("#=_ \t").casefold()


def _entry(body: str) -> tuple[str, str]:
    """Number and words of an entry of a contents list; its bullet does not count."""
    head = _ENTRY_HEAD.match(body)
    cut = head.end() if head else 0
    return body[:cut].strip("*•·-– .:)").casefold(), body[cut:].strip().casefold()


def _heads(heading: tuple[str, str], entry: tuple[str, str]) -> bool:
    """Whether the list's `entry` is `heading` or begins with its words, under the same number or none."""
    same_number = not heading[0] or not entry[0] or heading[0] == entry[0]
    return same_number and len(heading[1]) >= 3 and (entry[1] == heading[1] or entry[1].startswith(heading[1] + " "))


def _looks_like_entry(body: str) -> bool:
    return len(body) <= _MAX_ENTRY_CHARS and not body.endswith(_ENDS) and words_in(body) <= 18


def _label_contents(page: Page) -> None:
    n = 0
    while n < len(page.written):
        body = page.bodies[page.written[n]]
        first = stop = n
        if body.casefold() in CONTENTS_LABELS:
            stop = _end_of_contents(page, n + 1)
            found = stop - n > _MIN_ENTRIES
        elif _may_be_entry(body) and _ENTRY_HEAD.match(body):
            first, stop = _links(page, n)
            found = stop - first >= _MIN_ENTRIES
        else:
            found = False
        if found:
            for line in page.written[first:stop]:
                page.label(line, "line.contents")
        # A list without a label is looked at once, as a whole.
        n = max(stop, n + 1) if found or body.casefold() not in CONTENTS_LABELS else n + 1


def _may_be_entry(body: str) -> bool:
    """A quick no to most lines: those that begin with a word."""
    return not body[0].isalpha() or body[1:2] in _AFTER_LETTER or body[:9].casefold().startswith(_CHAPTERS)


def _end_of_contents(page: Page, n: int) -> int:
    """Where the entries that begin at written line `n`, under a label, end."""
    first = _entry(page.bodies[page.written[n]]) if n < len(page.written) else ("", "")
    for at in range(n, len(page.written)):
        body = page.bodies[page.written[at]]
        entry = _entry(body)
        if at > n and _heads(entry, first):
            return at
        numbered = bool(entry[0]) or has_leaders(body)
        if not _looks_like_entry(body) and not (numbered and len(body) <= _MAX_NUMBERED_CHARS):
            # An unnumbered short line over a sentence is the heading of the body.
            return at if at > n and _entry(page.bodies[page.written[at - 1]])[0] else at - 1
    return len(page.written)


def _links(page: Page, n: int) -> tuple[int, int]:
    """The links in the list of short, marked lines that begins at written line `n`, and where the list ends.

    Links are what stands from one entry before the one that is said again right after the list, as the heading that it
    links to; there are none where no entry is.
    """
    stop = n
    entries: list[tuple[str, str]] = []
    while stop < len(page.written):
        body = page.bodies[page.written[stop]]
        if not (_ENTRY_HEAD.match(body) and len(body) <= _MAX_ENTRY_CHARS and not body.endswith(_ENDS)):
            break
        entry = _entry(body)
        if len(entries) >= _MIN_ENTRIES and any(entry[0] and _heads(entry, earlier) for earlier in entries[:2]):
            return n, stop
        entries.append(entry)
        stop += 1
    if len(entries) >= _MIN_ENTRIES:
        for line in page.written[stop : stop + 2]:
            heading = _entry(page.bodies[line])
            for k, entry in enumerate(entries):
                if _heads(heading, entry):
                    return n + max(k - 1, 0), stop
    return stop, stop


def _label_leaders(page: Page) -> None:
    lines = [i for i in page.written if has_leaders(page.bodies[i])]
    if len(lines) >= _MIN_ENTRIES:
        for i in lines:
            page.label(i, "line.leaders")


def has_leaders(body: str) -> bool:
    """ "Title . . . . . 12": four dots before a page number, or eight at the end of the line."""
    stem = body.rstrip("0123456789ivxlc \t")
    dots = stem[len(stem.rstrip(". \t")) :].count(".")
    return dots >= 8 or (dots >= 4 and len(stem) < len(body))


def _label_bullets(page: Page) -> None:
    """A bullet with a blank line under it; in a comment the line under it has the sign again."""
    for i in page.written:
        if page.bodies[i] in _BULLETS and (i + 1 == len(page.bodies) or not page.bodies[i + 1]):
            page.label(i, "line.bullet")


def _label_pages(page: Page) -> None:
    """Page numbers and running heads: far from the margin, at the edge of the page, or the only lone number of it."""
    lone = [i for i in page.written if page.bodies[i].isdecimal() and len(page.bodies[i]) <= 4 and _alone(page, i)]
    only = lone if len(lone) == 1 or (len(lone) == 2 and int(page.bodies[lone[0]]) + 1 == int(page.bodies[lone[1]])) else []
    for i in lone:
        indent = len(page.lines[i]) - len(page.lines[i].lstrip())
        if indent >= 12 or (i in only and int(page.bodies[i]) >= 10) or i in (page.written[0], page.written[-1]):
            page.label(i, "line.page_number")
    for i in (page.written[0], page.written[-1]) if page.written else ():
        if len(page.lines[i]) <= 120 and _RUNNING.fullmatch(page.bodies[i]):
            page.label(i, "line.page_number")


def _alone(page: Page, line: int) -> bool:
    """Whether no written line touches `line`."""
    return not (line and page.bodies[line - 1]) and not (line + 1 < len(page.bodies) and page.bodies[line + 1])


def _label_mail(page: Page) -> None:
    """Transport headers inside a block of headers; From, To, Subject and Date stay."""
    inside = False
    for i, body in enumerate(page.bodies):
        line = page.lines[i]
        if _ANY_HEADER.match(line):
            block = inside or _starts_headers(page, i)
            inside = block
            if block and _HEADER.match(line):
                page.label(i, "line.mail_header")
        elif inside and body and line[0] in " \t":
            if i - 1 in page.labels:
                page.label(i, "line.mail_header")
        else:
            inside = False
    if "line.mail_header" in page.labels.values():
        _label_signature(page)


def _label_signature(page: Page) -> None:
    """What follows the signature mark of a mail, where it is short and ends the page."""
    for i in page.written[-_SIGNATURE_LINES:]:
        if page.lines[i] in ("--", "-- "):
            for line in page.written[page.written.index(i) :]:
                page.label(line, "line.mail_header")
            return


def _starts_headers(page: Page, line: int) -> bool:
    """Whether three headers, or two with a transport header, stand in a row from `line` on."""
    run = page.lines[line : line + 3]
    headers = sum(bool(_ANY_HEADER.match(other)) for other in run)
    return headers == 3 or (headers == 2 and any(_HEADER.match(other) for other in run))
